//! What programs have in common that are not the same: the text behind classes wider than that of
//! equal dags.
//!
//! Reductions are told with the pattern of their reads: which axes move which dimensions, in steps
//! of one or more, in windows, over padding. What is computed element by element is told by its
//! operations, or left out.

use std::fmt::{self, Write};

use super::access::{Access, accesses};
use super::anchor::Anchor;
use super::{Compute, ComputeId, Dag, Expr, TensorId, TensorKind};

/// The operations of a dag, and how its reductions read. Offsets and extents are left out.
pub fn access(dag: &Dag) -> String {
    let mut text = "tvmtune access v1\n".to_owned();
    for id in dag.compute_ids() {
        let written = match dag.compute(id).reducer {
            Some(_) => reduction(&mut text, dag, id, true),
            None => {
                let compute = dag.compute(id);
                write!(text, "{} of {}:", dag.tensor(compute.tensor).dtype, compute.n_spatial)
                    .and_then(|()| operations(&mut text, &compute.body))
            }
        };
        written.and_then(|()| text.write_char('\n')).expect("writing to a string does not fail");
    }
    text
}

/// The anchor alone: how it reduces, and how it reads. Operations and their order are left out.
pub fn anchor(dag: &Dag) -> String {
    let mut text = "tvmtune anchor v1\n".to_owned();
    if let Some(anchor) = Anchor::of(dag) {
        let written = reduction(&mut text, dag, anchor.compute, false);
        written.and_then(|()| text.write_char('\n')).expect("writing to a string does not fail");
    }
    text
}

/// `Sum f32 of 2 over 1: [0, 2] [1, 2]`, with operations if they are to be told.
fn reduction(text: &mut String, dag: &Dag, id: ComputeId, told: bool) -> fmt::Result {
    let compute = dag.compute(id);
    let n_reduce = compute.axes.len() - compute.n_spatial;
    match compute.reducer {
        Some(reducer) => write!(text, "{reducer:?} ")?,
        None => text.write_str("each ")?,
    }
    let dtype = dag.tensor(compute.tensor).dtype;
    write!(text, "{dtype} of {} over {n_reduce}:", compute.n_spatial)?;
    if told {
        operations(text, &compute.body)?;
    }
    let shape = |it: TensorId| dag.tensor(it).shape.clone();
    for access in accesses(compute, &shape, &dag.facts()) {
        let tensor = dag.tensor(access.tensor);
        write!(text, " {}", tensor.dtype)?;
        if told && tensor.kind == TensorKind::Weight {
            text.write_str(" weight")?;
        }
        pattern(text, compute, &access)?;
    }
    Ok(())
}

/// Which axes move each dimension that is read, `s` after those that skip elements, and `?` where
/// that is not known; `if` behind all of them where some elements are outside.
fn pattern(text: &mut String, compute: &Compute, access: &Access) -> fmt::Result {
    text.write_char('[')?;
    let mut comma = "";
    for steps in &access.steps {
        let Some(steps) = steps else {
            write!(text, "{comma}?")?;
            comma = ", ";
            continue;
        };
        let moving: Vec<String> = (0..compute.axes.len())
            .filter(|axis| steps[*axis] != 0)
            .map(|axis| format!("{axis}{}", if steps[axis].abs() > 1 { "s" } else { "" }))
            .collect();
        // A dimension that stands still is as if it were not there.
        if !moving.is_empty() {
            write!(text, "{comma}{}", moving.join("+"))?;
            comma = ", ";
        }
    }
    text.write_str(if access.conditional { "] if" } else { "]" })
}

/// The operations of an expression on data, in order of evaluation.
fn operations(text: &mut String, body: &Expr) -> fmt::Result {
    let mut names = Vec::new();
    visit(body, &mut names);
    names.iter().try_for_each(|it| write!(text, " {it}"))
}

fn visit(expr: &Expr, names: &mut Vec<String>) {
    // What is asked of indices is part of the pattern.
    if let Expr::Select { condition, .. } = expr
        && !reads(condition)
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

fn reads(expr: &Expr) -> bool {
    let mut found = false;
    expr.walk(&mut |it| found |= matches!(it, Expr::Read { .. }));
    found
}
