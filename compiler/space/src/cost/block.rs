//! The cycles of an innermost block: a statement with its unrolled copies and vectors.

use tvmtune_cpu::vector::width;
use tvmtune_ir::dag::access::work;
use tvmtune_ir::dag::{Subscript, TensorId};
use tvmtune_ir::poly::{Atom, Poly, VarId};
use tvmtune_ir::target::CpuTarget;
use tvmtune_schedule::LoopKind;
use tvmtune_schedule::nest::{Nest, Scope, Stmt};

use super::OpenLoop;

/// Vector operations, loads, and stores that a core issues per cycle; estimates for recent x86 cores.
const ARITHMETIC: f64 = 2.0;
const LOADS: f64 = 2.0;
const STORES: f64 = 1.0;
/// Latency of a fused multiply-add, in cycles; an estimate.
const LATENCY: f64 = 4.0;
/// Loads for a vector with stride 2, its permutation included; an estimate.
const STRIDE_2: f64 = 3.0;
/// Cycles of a gather or scatter of one vector; an estimate.
const GATHER: f64 = 18.0;
/// Cycles of one iteration of the loop around a block; an estimate.
const LOOP: f64 = 1.0;

/// Estimates the cycles of a statement inside loops that are unrolled or vectorized.
pub(super) fn cycles(nest: &Nest, stmt: &Stmt, copies: &[OpenLoop], target: &CpuTarget) -> f64 {
    let lanes = width::lanes_of_nest(target.isa, nest);
    let times = |it: &OpenLoop| match it.kind {
        LoopKind::Vectorized => it.extent.div_ceil(lanes) as f64,
        _ => it.extent as f64,
    };
    let all: f64 = copies.iter().map(times).product();
    let (tensor, index, value, reduces) = match stmt {
        Stmt::Store { tensor, index, value } => (tensor, index, value, false),
        Stmt::Update { tensor, index, value, .. } => (tensor, index, value, true),
        Stmt::For { .. } | Stmt::If { .. } => return 0.0,
    };
    // The number of distinct vectors that an index reaches: repeated ones are loaded once.
    let distinct = |mentions: &dyn Fn(VarId) -> bool| -> f64 {
        copies.iter().filter(|it| mentions(it.var)).map(times).product()
    };
    let vector = copies.iter().find(|it| it.kind == LoopKind::Vectorized);
    let mut loads = 0.0;
    let mut gathers = 0.0;
    value.for_each_read(&mut |tensor, index| {
        if is_register(nest, tensor, index.iter().filter_map(Subscript::affine), copies) {
            return;
        }
        let may_depend = |it: &Subscript, var| it.affine().is_none_or(|it| it.mentions(var));
        let n = distinct(&|var| index.iter().any(|it| may_depend(it, var)));
        match vector.and_then(|it| stride(index.iter().map(Subscript::affine), it.var)) {
            Some(0 | 1) | None => loads += n,
            Some(2) => loads += STRIDE_2 * n,
            Some(_) => gathers += n,
        }
    });
    let written = distinct(&|var| index.iter().any(|it| it.mentions(var)));
    let in_register = is_register(nest, *tensor, index.iter(), copies);
    let stores = if in_register { 0.0 } else { written };
    if let Some(it) = vector
        && !matches!(stride(index.iter().map(Some), it.var), Some(0 | 1))
    {
        gathers += stores;
    }
    // A product and its addition are one instruction.
    let arithmetic = all * work(value).max(1) as f64 / ARITHMETIC;
    let chain = if reduces { LATENCY * all / written.max(1.0) } else { 0.0 };
    let ports = arithmetic.max(loads / LOADS).max(stores / STORES).max(chain);
    ports + gathers * GATHER + LOOP
}

/// Tells if an element lives in a register: of a local buffer, with an index that is constant once
/// unrolled.
fn is_register<'a>(
    nest: &Nest,
    tensor: TensorId,
    index: impl Iterator<Item = &'a Poly>,
    copies: &[OpenLoop],
) -> bool {
    let is_unrolled = |var: VarId| copies.iter().any(|it| it.var == var);
    let is_constant = |poly: &Poly| {
        let mut all = true;
        poly.for_each_leaf(&mut |atom| {
            all &= matches!(atom, Atom::Var(var) if is_unrolled(*var));
        });
        all
    };
    nest.buffer(tensor).scope == Scope::Local && index.into_iter().all(is_constant)
}

/// Returns the stride of an access along a loop, in elements: 0, 1 and 2 are exact, anything else
/// means far apart. `None` if it depends on data.
fn stride<'a>(index: impl Iterator<Item = Option<&'a Poly>>, var: VarId) -> Option<i64> {
    let dims: Vec<Option<&Poly>> = index.collect();
    let mut stride = 0;
    for (n, poly) in dims.iter().enumerate() {
        match (*poly)?.step(var) {
            Some(0) => {}
            Some(by @ (1 | 2)) if n + 1 == dims.len() && stride == 0 => stride = by,
            _ => stride = 3,
        }
    }
    Some(stride)
}
