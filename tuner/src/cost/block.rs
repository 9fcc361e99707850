//! What one statement takes with all its unrolled copies and vectors.

use tvmtune_ir::dag::access::work;
use tvmtune_ir::dag::{Expr, Subscript, TensorId};
use tvmtune_ir::poly::{Atom, Poly, VarId};
use tvmtune_ir::target::CpuTarget;
use tvmtune_schedule::LoopKind;
use tvmtune_schedule::nest::{Nest, Scope, Stmt};

use super::Open;

/// Vector operations, loads, and stores that a core starts in a cycle.
const ARITHMETIC: f64 = 2.0;
const LOADS: f64 = 2.0;
const STORES: f64 = 1.0;
/// Cycles until an operation's result can be used.
const LATENCY: f64 = 4.0;
/// Loads that a vector of every other element takes, its permutation among them.
const EVERY_OTHER: f64 = 3.0;
/// Cycles of one vector whose lanes lie apart.
const SCATTERED: f64 = 18.0;
/// Cycles of the loop around a block.
const LOOP: f64 = 1.0;

/// Cycles of a statement inside loops that are written out or vectorized.
pub(super) fn cycles(nest: &Nest, stmt: &Stmt, copies: &[Open], target: &CpuTarget) -> f64 {
    let lanes = u64::from(target.isa.lanes());
    let times = |it: &Open| match it.kind {
        LoopKind::Vectorized => it.extent.div_ceil(lanes) as f64,
        _ => it.extent as f64,
    };
    let all: f64 = copies.iter().map(times).product();
    let (tensor, index, value, reduces) = match stmt {
        Stmt::Store { tensor, index, value } => (tensor, index, value, false),
        Stmt::Update { tensor, index, value, .. } => (tensor, index, value, true),
        Stmt::For { .. } | Stmt::If { .. } => return 0.0,
    };
    // Distinct vectors that an index reaches: repeated ones are loaded once, registers permitting.
    let distinct = |mentions: &dyn Fn(VarId) -> bool| -> f64 {
        copies.iter().filter(|it| mentions(it.var)).map(times).product()
    };
    let vector = copies.iter().find(|it| it.kind == LoopKind::Vectorized);
    let mut loads = 0.0;
    let mut scattered = 0.0;
    value.walk(&mut |it| {
        let Expr::Read { tensor, index } = it else { return };
        if is_register(nest, *tensor, index.iter().filter_map(affine), copies) {
            return;
        }
        let n = distinct(&|var| index.iter().any(|it| mentions(it, var)));
        match vector.and_then(|it| step(index.iter().map(affine), it.var)) {
            Some(0 | 1) | None => loads += n,
            Some(2) => loads += EVERY_OTHER * n,
            Some(_) => scattered += n,
        }
    });
    let written = distinct(&|var| index.iter().any(|it| it.mentions(var)));
    let in_register = is_register(nest, *tensor, index.iter(), copies);
    let stores = if in_register { 0.0 } else { written };
    if let Some(it) = vector
        && !matches!(step(index.iter().map(Some), it.var), Some(0 | 1))
    {
        scattered += stores;
    }
    // A product that is added takes one instruction with the addition.
    let arithmetic = all * work(value).max(1) as f64 / ARITHMETIC;
    let chain = if reduces { LATENCY * all / written.max(1.0) } else { 0.0 };
    let ports = arithmetic.max(loads / LOADS).max(stores / STORES).max(chain);
    ports + scattered * SCATTERED + LOOP
}

/// Whether an element lives in a register: local, and known when code is generated.
fn is_register<'a>(
    nest: &Nest,
    tensor: TensorId,
    index: impl Iterator<Item = &'a Poly>,
    copies: &[Open],
) -> bool {
    let known = |var: VarId| copies.iter().any(|it| it.var == var);
    let is_known = |poly: &Poly| {
        let mut all = true;
        poly.for_each_leaf(&mut |atom| {
            all &= matches!(atom, Atom::Var(var) if known(*var));
        });
        all
    };
    nest.buffer(tensor).scope == Scope::Local && index.into_iter().all(is_known)
}

pub(super) fn affine(subscript: &Subscript) -> Option<&Poly> {
    match subscript {
        Subscript::Affine(poly) => Some(poly),
        Subscript::Value(_) => None,
    }
}

fn mentions(subscript: &Subscript, var: VarId) -> bool {
    affine(subscript).is_none_or(|it| it.mentions(var))
}

/// How many elements one iteration of a loop moves an access: 0, 1 and 2 are exact, anything else
/// means apart. `None` if it depends on data.
fn step<'a>(index: impl Iterator<Item = Option<&'a Poly>>, var: VarId) -> Option<i64> {
    let dims: Vec<Option<&Poly>> = index.collect();
    let mut found = 0;
    for (n, poly) in dims.iter().enumerate() {
        match (*poly)?.step(var) {
            Some(0) => {}
            Some(by @ (1 | 2)) if n + 1 == dims.len() && found == 0 => found = by,
            _ => found = 3,
        }
    }
    Some(found)
}
