//! What programs have in common that are not the same: the text behind classes wider than that of
//! equal dags.
//!
//! Reductions are told with the pattern of their reads: which axes move which dimensions, in steps
//! of one or more, in windows, over padding. What is computed element by element is told by its
//! operations, or left out.

use std::fmt::{self, Write};

use super::access::{self, accesses};
use super::anchor::Anchor;
use super::{Compute, ComputeId, Dag, Expr, TensorId, TensorKind};

/// The operations of a dag, and how its reductions read. Offsets and extents are left out.
pub fn access(dag: &Dag) -> String {
    Access(dag).to_string()
}

/// The anchor alone: how it reduces, and how it reads. Operations and their order are left out.
pub fn anchor(dag: &Dag) -> String {
    OfAnchor(dag).to_string()
}

struct Access<'a>(&'a Dag);

struct OfAnchor<'a>(&'a Dag);

impl fmt::Display for Access<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dag = self.0;
        writeln!(f, "tvmtune access v1")?;
        for id in dag.compute_ids() {
            let compute = dag.compute(id);
            if compute.reducer.is_some() {
                reduction(f, dag, id, true)?;
            } else {
                write!(f, "{} of {}:", dag.tensor(compute.tensor).dtype, compute.n_spatial)?;
                operations(f, &compute.body)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for OfAnchor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "tvmtune anchor v1")?;
        Anchor::of(self.0).map_or(Ok(()), |it| reduction(f, self.0, it.compute, false))
    }
}

/// `Sum f32 of 2 over 1: [0, 2] [1, 2]`, with operations if they are to be told.
fn reduction(f: &mut fmt::Formatter<'_>, dag: &Dag, id: ComputeId, told: bool) -> fmt::Result {
    let compute = dag.compute(id);
    let n_reduce = compute.axes.len() - compute.n_spatial;
    match compute.reducer {
        Some(reducer) => write!(f, "{reducer:?} ")?,
        None => f.write_str("each ")?,
    }
    let dtype = dag.tensor(compute.tensor).dtype;
    write!(f, "{dtype} of {} over {n_reduce}:", compute.n_spatial)?;
    if told {
        operations(f, &compute.body)?;
    }
    let shape = |it: TensorId| dag.tensor(it).shape.clone();
    for access in accesses(compute, &shape, &dag.facts()) {
        let tensor = dag.tensor(access.tensor);
        write!(f, " {}", tensor.dtype)?;
        if told && tensor.kind == TensorKind::Weight {
            f.write_str(" weight")?;
        }
        pattern(f, compute, &access)?;
    }
    Ok(())
}

/// Which axes move each dimension that is read, `s` after those that skip elements, and `?` where
/// that is not known; `if` behind all of them where some elements are outside.
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
        // A dimension that stands still is as if it were not there.
        if !moving.is_empty() {
            write!(f, "{comma}{}", moving.join("+"))?;
            comma = ", ";
        }
    }
    f.write_str(if access.conditional { "] if" } else { "]" })
}

/// The operations of an expression on data, in order of evaluation.
fn operations(f: &mut fmt::Formatter<'_>, body: &Expr) -> fmt::Result {
    let mut names = Vec::new();
    visit(body, &mut names);
    names.iter().try_for_each(|it| write!(f, " {it}"))
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
