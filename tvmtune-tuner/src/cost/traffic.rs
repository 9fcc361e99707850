//! What a statement moves between the caches.
//!
//! Of each loop, the body's footprint is what all its accesses touch. For a cache, the outermost
//! loop whose body fits tells what stays: everything inside is moved once for each iteration of the
//! loops further out, but for what those loops do not depend on, right outside.

use tvmtune_core::dag::{Expr, Subscript, TensorId};
use tvmtune_core::nest::{Nest, Scope, Stmt};
use tvmtune_core::poly::{Facts, Poly};
use tvmtune_core::schedule::LoopKind;
use tvmtune_core::target::CpuTarget;

use super::{Open, most};

/// Bytes in a cycle from the second and third cache, and from memory, for one core.
const BANDWIDTH: [f64; 3] = [40.0, 16.0, 7.0];
/// The last cache, of one core's share, in bytes.
const LAST_CACHE: u64 = 8 << 20;
/// Elements are counted as words, of which so many make a line.
const WORD: f64 = 4.0;
const LINE: f64 = 16.0;

/// One access, inside its loops.
struct Access {
    /// In each dimension, with that dimension's largest extent; `None` if it depends on data.
    index: Vec<(Option<Poly>, f64)>,
    /// The loops around it.
    loops: Vec<Open>,
}

/// Cycles of one thread that moves what `stmt` accesses.
pub(super) fn cycles(nest: &Nest, stmt: &Stmt, target: &CpuTarget, facts: &Facts) -> f64 {
    let mut accesses = Vec::new();
    let mut facts = facts.clone();
    collect(nest, stmt, &mut facts, &mut Vec::new(), &mut accesses);
    let caches = [target.l1_bytes, target.l2_bytes, LAST_CACHE];
    let worst = caches
        .iter()
        .zip(BANDWIDTH)
        .map(|(cache, bandwidth)| moved(&accesses, *cache as f64 * 0.8) * WORD / bandwidth);
    worst.fold(0.0, f64::max)
}

fn collect(
    nest: &Nest,
    stmt: &Stmt,
    facts: &mut Facts,
    loops: &mut Vec<Open>,
    accesses: &mut Vec<Access>,
) {
    match stmt {
        Stmt::For { var, extent, body, .. } => {
            facts.bound_var(*var, extent.clone());
            loops.push(Open { var: *var, extent: most(extent, facts), kind: LoopKind::Serial });
            body.iter().for_each(|it| collect(nest, it, facts, loops, accesses));
            loops.pop();
        }
        Stmt::If { body, .. } => {
            body.iter().for_each(|it| collect(nest, it, facts, loops, accesses));
        }
        Stmt::Store { tensor, index, value } | Stmt::Update { tensor, index, value, .. } => {
            let mut add = |tensor: TensorId, index: Vec<Option<Poly>>| {
                let buffer = nest.buffer(tensor);
                if buffer.scope != Scope::Local {
                    let extents = buffer.shape.iter().map(|it| most(it, facts) as f64);
                    let index = index.into_iter().zip(extents).collect();
                    accesses.push(Access { index, loops: loops.clone() });
                }
            };
            add(*tensor, index.iter().cloned().map(Some).collect());
            value.walk(&mut |it| {
                let Expr::Read { tensor, index } = it else { return };
                let affine = |it: &Subscript| match it {
                    Subscript::Affine(poly) => Some(poly.clone()),
                    Subscript::Value(_) => None,
                };
                add(*tensor, index.iter().map(affine).collect());
            });
        }
    }
}

/// Words moved into a cache of that many bytes.
fn moved(accesses: &[Access], cache: f64) -> f64 {
    let deepest = accesses.iter().map(|it| it.loops.len()).max().unwrap_or(0);
    // The outermost depth at which what all accesses touch fits.
    let touched = |depth: usize| -> f64 { accesses.iter().map(|it| it.footprint(depth)).sum() };
    let fits = (0..=deepest).find(|it| touched(*it) * WORD <= cache).unwrap_or(deepest);
    accesses.iter().map(|it| it.moved(fits)).sum()
}

impl Access {
    /// Words of all lines touched while the loops from number `depth` on run.
    fn footprint(&self, depth: usize) -> f64 {
        let inner = &self.loops[depth.min(self.loops.len())..];
        let width = |(poly, most): &(Option<Poly>, f64)| {
            let Some(poly) = poly else { return *most };
            let span = |it: &Open| {
                let step = poly.split_linear(it.var).and_then(|it| it.0.as_constant());
                step.unwrap_or(1).unsigned_abs() as f64 * (it.extent as f64 - 1.0)
            };
            most.min(inner.iter().map(span).sum::<f64>() + 1.0)
        };
        // Neighbors come in whole lines; rows that are touched from end to end are neighbors.
        let (mut together, mut apart, mut is_whole) = (1.0, 1.0, true);
        for dim in self.index.iter().rev() {
            let width = width(dim);
            *if is_whole { &mut together } else { &mut apart } *= width;
            is_whole &= width >= dim.1;
        }
        let all: f64 = inner.iter().map(|it| it.extent as f64).product();
        (apart * (together / LINE).ceil()).min(all) * LINE
    }

    /// Words moved if the loops from number `depth` on run out of a cache.
    fn moved(&self, depth: usize) -> f64 {
        let depth = depth.min(self.loops.len());
        let depends = |it: &Open| {
            self.index
                .iter()
                .any(|(poly, _)| poly.as_ref().is_none_or(|poly| poly.mentions(it.var)))
        };
        // Iterations of the loop right outside share lines, and what windows have in common.
        let Some(moving) = self.loops[..depth].iter().rposition(depends) else {
            return self.footprint(depth);
        };
        let again: f64 = self.loops[..moving].iter().map(|it| it.extent as f64).product();
        self.footprint(moving) * again
    }
}
