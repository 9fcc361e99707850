//! What a statement moves between the caches.
//!
//! Of each loop, the body's footprint is what all its accesses touch. For a cache, the outermost
//! loop whose body fits tells what stays: everything inside is moved once for each iteration of the
//! loops further out, but for what those loops do not depend on, right outside.

use tvmtune_ir::dag::{Expr, TensorId};
use tvmtune_ir::poly::{Facts, Poly};
use tvmtune_ir::target::CpuTarget;
use tvmtune_schedule::LoopKind;
use tvmtune_schedule::nest::{Nest, Scope, Stmt};

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
    /// The extents of the loops around it, and whether it depends on them.
    loops: Vec<(f64, bool)>,
    /// Words of all lines touched while the loops from that number on run.
    footprints: Vec<f64>,
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
            let mut add = |tensor: TensorId, index: &mut dyn Iterator<Item = Option<&Poly>>| {
                let buffer = nest.buffer(tensor);
                if buffer.scope != Scope::Local {
                    let extents = buffer.shape.iter().map(|it| most(it, facts) as f64);
                    let index: Vec<_> = index.zip(extents).collect();
                    accesses.push(Access::new(&index, loops));
                }
            };
            add(*tensor, &mut index.iter().map(Some));
            value.walk(&mut |it| {
                let Expr::Read { tensor, index } = it else { return };
                add(*tensor, &mut index.iter().map(super::block::affine));
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
    /// An access, by its index in each dimension (`None` if it depends on data), with that
    /// dimension's largest extent.
    fn new(index: &[(Option<&Poly>, f64)], loops: &[Open]) -> Self {
        let depends =
            |it: &Open| index.iter().any(|(poly, _)| poly.is_none_or(|poly| poly.mentions(it.var)));
        let around = loops.iter().map(|it| (it.extent as f64, depends(it)));
        // How many elements of each dimension are touched: more with each loop, innermost first.
        let mut widths = vec![1.0; index.len()];
        let mut footprints = vec![LINE; loops.len() + 1];
        let mut all = 1.0;
        for (depth, it) in loops.iter().enumerate().rev() {
            for (width, (poly, _)) in widths.iter_mut().zip(index) {
                let step = poly.and_then(|poly| poly.step(it.var)).unwrap_or(1);
                *width += step.unsigned_abs() as f64 * (it.extent as f64 - 1.0);
            }
            all *= it.extent as f64;
            footprints[depth] = lines(&widths, index).min(all) * LINE;
        }
        Self { loops: around.collect(), footprints }
    }

    fn footprint(&self, depth: usize) -> f64 {
        self.footprints[depth.min(self.loops.len())]
    }

    /// Words moved if the loops from number `depth` on run out of a cache.
    fn moved(&self, depth: usize) -> f64 {
        let depth = depth.min(self.loops.len());
        // Iterations of the loop right outside share lines, and what windows have in common.
        let Some(moving) = self.loops[..depth].iter().rposition(|(_, depends)| *depends) else {
            return self.footprint(depth);
        };
        let again: f64 = self.loops[..moving].iter().map(|(extent, _)| extent).product();
        self.footprint(moving) * again
    }
}

/// Lines that hold a box of elements of these widths: neighbors come in whole lines, and rows that
/// are touched from end to end are neighbors.
fn lines(widths: &[f64], index: &[(Option<&Poly>, f64)]) -> f64 {
    let (mut together, mut apart, mut is_whole) = (1.0, 1.0, true);
    for (width, (poly, most)) in widths.iter().zip(index).rev() {
        let width = if poly.is_some() { most.min(*width) } else { *most };
        *if is_whole { &mut together } else { &mut apart } *= width;
        is_whole &= width >= *most;
    }
    apart * (together / LINE).ceil()
}
