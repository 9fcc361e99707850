//! Signatures: texts that are the same for similar dags, for the transfer of schedules between them.
//!
//! In: a dag. Out: a canonical text whose hash names a class of dags. Reductions are described by their
//! access patterns: which axes index which dimensions of a tensor, with unit or larger strides, in
//! windows, under padding. Elementwise computes are described by their operations, or omitted.

use super::access::{self, accesses};
use super::anchor::Anchor;
use super::kernel_template::ClassOf;
use super::{Compute, Dag, Expr, TensorId, TensorKind};

/// Returns the operations of a dag, and the access patterns of its reductions, without offsets and
/// extents.
pub fn access_signature(dag: &Dag) -> String {
    let mut text = "tvmtune access v1\n".to_owned();
    for compute in &dag.computes {
        if compute.reducer.is_some() {
            text += &reduction(dag, compute, Operations::Listed);
        } else {
            let dtype = dag.tensor(compute.tensor).dtype;
            text += &format!("{dtype} of {}:{}", compute.n_spatial, operations(&compute.body));
        }
        text.push('\n');
    }
    text + &template(dag)
}

/// Returns the reducer and the access patterns of the anchor (the main reduction) alone, without
/// operations.
pub fn anchor_signature(dag: &Dag) -> String {
    let anchor = Anchor::of(dag).map(|it| dag.compute(it.compute));
    let anchor = anchor.map(|it| reduction(dag, it, Operations::Omitted));
    format!("tvmtune anchor v1\n{}{}", anchor.unwrap_or_default(), template(dag))
}

/// Returns the kernels and knobs of a program that has some; schedules of others are none of it.
fn template(dag: &Dag) -> String {
    let template = dag.kernel_template.as_ref();
    template.map_or(String::new(), |it| format!("\n{}", ClassOf(it)))
}

/// The operations and kinds of parameters of a reduction, in its signature.
#[derive(Clone, Copy, PartialEq)]
enum Operations {
    Listed,
    Omitted,
}

/// Describes a reduction: the reducer, its type, the numbers of spatial and of reduce axes, then the
/// [`pattern`] of each read, as in `Sum f32 of 2 over 1: [0, 2] [1, 2]`.
fn reduction(dag: &Dag, compute: &Compute, detail: Operations) -> String {
    let n_reduce = compute.axes.len() - compute.n_spatial;
    let reducer = compute.reducer.map_or("each".to_owned(), |it| format!("{it:?}"));
    let dtype = dag.tensor(compute.tensor).dtype;
    let mut text = format!("{reducer} {dtype} of {} over {n_reduce}:", compute.n_spatial);
    if detail == Operations::Listed {
        text += &operations(&compute.body);
    }
    let shape = |it: TensorId| dag.tensor(it).shape.clone();
    for access in accesses(compute, &shape, &dag.facts()) {
        let tensor = dag.tensor(access.tensor);
        let is_weight = tensor.kind == TensorKind::Weight;
        let weight = is_weight && detail == Operations::Listed;
        let weight = if weight { " weight" } else { "" };
        text += &format!(" {}{weight}{}", tensor.dtype, pattern(compute, &access));
    }
    text
}

/// Returns the axes that index each dimension of a read, `s` after those with a larger stride, `?` where
/// they are unknown, and `if` behind conditional reads. Dimensions that no axis indexes are omitted.
fn pattern(compute: &Compute, access: &access::Access) -> String {
    let dims = access.steps.iter().filter_map(|steps| {
        let Some(steps) = steps else { return Some("?".to_owned()) };
        let moving: Vec<String> = (0..compute.axes.len())
            .filter(|axis| steps[*axis] != 0)
            .map(|axis| format!("{axis}{}", if steps[axis].abs() > 1 { "s" } else { "" }))
            .collect();
        (!moving.is_empty()).then(|| moving.join("+"))
    });
    let dims: Vec<String> = dims.collect();
    format!("[{}]{}", dims.join(", "), if access.conditional { " if" } else { "" })
}

/// Returns the operations of an expression on data, in order of evaluation.
fn operations(body: &Expr) -> String {
    let mut names = Vec::new();
    visit(body, &mut names);
    names.iter().map(|it| format!(" {it}")).collect()
}

fn visit(expr: &Expr, names: &mut Vec<String>) {
    // Conditions on indices are part of the access pattern.
    if let Expr::Select { condition, .. } = expr
        && !condition.any(&mut |it| matches!(it, Expr::Read { .. }))
    {
        for child in expr.children().into_iter().skip(1) {
            visit(child, names);
        }
        return;
    }
    for child in expr.children() {
        visit(child, names);
    }
    match expr {
        Expr::Unary(op, _) => names.push(format!("{op:?}")),
        Expr::Binary(op, ..) => names.push(format!("{op:?}")),
        Expr::Compare(op, ..) => names.push(format!("{op:?}")),
        Expr::Select { .. } => names.push("Select".to_owned()),
        Expr::Cast(to, _) => names.push(to.name().to_owned()),
        Expr::Const(..) | Expr::Index(_) | Expr::Scalar(_) | Expr::Read { .. } => {}
    }
}
