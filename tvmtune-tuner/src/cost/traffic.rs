//! What a statement moves between the caches.
//!
//! Of each loop, the body's footprint is what all its accesses touch. For a cache, the outermost
//! loop whose body fits tells what stays: everything inside is moved once for each iteration of the
//! loops further out, but for what those loops do not depend on, right outside.

use tvmtune_core::dag::{Expr, Subscript};
use tvmtune_core::nest::{Nest, Scope, Stmt};
use tvmtune_core::poly::{Facts, Poly};
use tvmtune_core::schedule::LoopKind;
use tvmtune_core::target::Target;

use super::{Open, most};

/// Bytes in a cycle from the second and third cache, and from memory, for one core.
const BANDWIDTH: [f64; 3] = [40.0, 16.0, 7.0];
/// The last cache, of one core's share, in bytes.
const LAST_CACHE: u64 = 8 << 20;
/// Elements are counted as words.
const WORD: f64 = 4.0;

/// One access, inside its loops.
struct Access {
    index: Vec<Option<Poly>>,
    /// The numbers of its loops among all of the statement.
    loops: Vec<Open>,
}

/// Cycles of one thread that moves what `stmt` accesses.
pub(super) fn cycles(nest: &Nest, stmt: &Stmt, target: &Target, facts: &Facts) -> f64 {
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
            if nest.buffer(*tensor).scope != Scope::Local {
                let index = index.iter().cloned().map(Some).collect();
                accesses.push(Access { index, loops: loops.clone() });
            }
            value.walk(&mut |it| {
                let Expr::Read { tensor, index } = it else { return };
                if nest.buffer(*tensor).scope != Scope::Local {
                    let affine = |it: &Subscript| match it {
                        Subscript::Affine(poly) => Some(poly.clone()),
                        Subscript::Value(_) => None,
                    };
                    let index = index.iter().map(affine).collect();
                    accesses.push(Access { index, loops: loops.clone() });
                }
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
    /// Words touched while the loops from number `depth` on run.
    fn footprint(&self, depth: usize) -> f64 {
        let inner = &self.loops[depth.min(self.loops.len())..];
        let width = |poly: &Option<Poly>| {
            let Some(poly) = poly else {
                return inner.iter().map(|it| it.extent as f64).product::<f64>();
            };
            let span = |it: &Open| {
                let step = poly.split_linear(it.var).and_then(|it| it.0.as_constant());
                step.unwrap_or(1).unsigned_abs() as f64 * (it.extent as f64 - 1.0)
            };
            inner.iter().map(span).sum::<f64>() + 1.0
        };
        let all: f64 = inner.iter().map(|it| it.extent as f64).product();
        self.index.iter().map(width).product::<f64>().min(all)
    }

    /// Words moved if the loops from number `depth` on run out of a cache.
    fn moved(&self, depth: usize) -> f64 {
        let depth = depth.min(self.loops.len());
        let depends = |it: &Open| {
            self.index.iter().any(|poly| poly.as_ref().is_none_or(|poly| poly.mentions(it.var)))
        };
        let outer = self.loops[..depth].iter().rev();
        let again: f64 = outer.skip_while(|it| !depends(it)).map(|it| it.extent as f64).product();
        self.footprint(depth) * again
    }
}
