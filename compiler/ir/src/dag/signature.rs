//! Signatures of dags: the text behind classes that are wider than equal dags.
//!
//! Reductions are described by their access patterns: which axes move which dimensions, with unit or
//! larger strides, in windows, under padding. Elementwise computes are described by their operations,
//! or omitted.

use std::fmt::{self, Write};

use super::access::{self, accesses};
use super::anchor::Anchor;
use super::{Compute, ComputeId, Dag, Expr, TensorId, TensorKind};

/// Returns the operations of a dag, and the access patterns of its reductions, without offsets and
/// extents.
pub fn access(dag: &Dag) -> String {
    AccessSignature(dag).to_string()
}

/// Returns the reducer and the access patterns of the anchor alone, without operations.
pub fn anchor(dag: &Dag) -> String {
    AnchorSignature(dag).to_string()
}

struct AccessSignature<'a>(&'a Dag);

struct AnchorSignature<'a>(&'a Dag);

impl fmt::Display for AccessSignature<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dag = self.0;
        writeln!(f, "tvmtune access v1")?;
        for id in dag.compute_ids() {
            let compute = dag.compute(id);
            if compute.reducer.is_some() {
                reduction(f, dag, id, Operations::Listed)?;
            } else {
                write!(f, "{} of {}:", dag.tensor(compute.tensor).dtype, compute.n_spatial)?;
                operations(f, &compute.body)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for AnchorSignature<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "tvmtune anchor v1")?;
        Anchor::of(self.0)
            .map_or(Ok(()), |it| reduction(f, self.0, it.compute, Operations::Omitted))
    }
}

/// Operations and kinds of parameters in the signature of a reduction.
#[derive(Clone, Copy, PartialEq)]
enum Operations {
    Listed,
    Omitted,
}

/// Prints `Sum f32 of 2 over 1: [0, 2] [1, 2]`.
fn reduction(
    f: &mut fmt::Formatter<'_>,
    dag: &Dag,
    id: ComputeId,
    operations_are: Operations,
) -> fmt::Result {
    let compute = dag.compute(id);
    let n_reduce = compute.axes.len() - compute.n_spatial;
    match compute.reducer {
        Some(reducer) => write!(f, "{reducer:?} ")?,
        None => f.write_str("each ")?,
    }
    let dtype = dag.tensor(compute.tensor).dtype;
    write!(f, "{dtype} of {} over {n_reduce}:", compute.n_spatial)?;
    if operations_are == Operations::Listed {
        operations(f, &compute.body)?;
    }
    let shape = |it: TensorId| dag.tensor(it).shape.clone();
    for access in accesses(compute, &shape, &dag.facts()) {
        let tensor = dag.tensor(access.tensor);
        write!(f, " {}", tensor.dtype)?;
        if operations_are == Operations::Listed && tensor.kind == TensorKind::Weight {
            f.write_str(" weight")?;
        }
        pattern(f, compute, &access)?;
    }
    Ok(())
}

/// Prints the axes that move each dimension, `s` after those with a larger stride, `?` where they
/// are unknown, and `if` behind conditional reads.
fn pattern(f: &mut fmt::Formatter<'_>, compute: &Compute, access: &access::Access) -> fmt::Result {
    f.write_char('[')?;
    let mut comma = "";
    for steps in &access.steps {
        let Some(steps) = steps else {
            write!(f, "{comma}?")?;
            comma = ", ";
            continue;
        };
        let moving: Vec<String> = (0..compute.axes.len())
            .filter(|axis| steps[*axis] != 0)
            .map(|axis| format!("{axis}{}", if steps[axis].abs() > 1 { "s" } else { "" }))
            .collect();
        // Dimensions that no axis moves are omitted.
        if !moving.is_empty() {
            write!(f, "{comma}{}", moving.join("+"))?;
            comma = ", ";
        }
    }
    f.write_str(if access.conditional { "] if" } else { "]" })
}

/// Prints the operations of an expression on data, in order of evaluation.
fn operations(f: &mut fmt::Formatter<'_>, body: &Expr) -> fmt::Result {
    let mut names = Vec::new();
    visit(body, &mut names);
    names.iter().try_for_each(|it| write!(f, " {it}"))
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
