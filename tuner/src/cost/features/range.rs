//! Interval analysis of indices: their values while some of the loops around them run.

use tvmtune_ir::poly::{Atom, Poly, VarId};

use super::row::MAX;

/// The bound of extents.
const MAX_EXTENT: f64 = (1_u64 << 40) as f64;

/// The largest value of each dimension, and the depth and extent of each loop variable.
#[derive(Clone, Debug)]
pub(super) struct Ranges {
    dims: Vec<f64>,
    vars: Vec<LoopVar>,
}

/// A loop variable.
#[derive(Clone, Copy, Debug)]
struct LoopVar {
    /// The number of loops around its loop.
    depth: usize,
    extent: f64,
}

impl Ranges {
    pub(super) fn new(dims: Vec<f64>, n_vars: u32) -> Self {
        let dims = dims.into_iter().map(|it| it.min(MAX_EXTENT)).collect();
        Self { dims, vars: vec![LoopVar { depth: 0, extent: 1.0 }; n_vars as usize] }
    }

    /// Opens a loop at a depth; returns its largest extent.
    pub(super) fn open(&mut self, var: VarId, depth: usize, extent: &Poly) -> f64 {
        let extent = self.max_extent(extent);
        // Well-formed nests number their variables.
        if let Some(it) = self.vars.get_mut(var.0 as usize) {
            *it = LoopVar { depth, extent };
        }
        extent
    }

    /// Returns the largest value of an extent, in `1..=2^40`.
    pub(super) fn max_extent(&self, extent: &Poly) -> f64 {
        self.interval(extent, 0).1.clamp(1.0, MAX_EXTENT)
    }

    /// Returns the least and the greatest value while the loops from number `depth` on run, and
    /// those around them are in their first iteration.
    pub(super) fn interval(&self, poly: &Poly, depth: usize) -> (f64, f64) {
        self.range(poly, &|var| match self.vars.get(var.0 as usize) {
            Some(it) if it.depth >= depth => (0.0, it.extent - 1.0),
            _ => (0.0, 0.0),
        })
    }

    /// Returns the difference between values of successive iterations of a loop: of the first two,
    /// or if that is zero, the mean over all.
    pub(super) fn step(&self, poly: &Poly, var: VarId) -> f64 {
        let Some(LoopVar { extent, .. }) = self.vars.get(var.0 as usize) else { return 0.0 };
        let value_at =
            |n: f64| self.range(poly, &|it| if it == var { (n, n) } else { (0.0, 0.0) }).0;
        let next = value_at(1.0) - value_at(0.0);
        let steps = extent - 1.0;
        if next == 0.0 && steps > 1.0 { (value_at(steps) - value_at(0.0)) / steps } else { next }
    }

    fn range(&self, poly: &Poly, var: &dyn Fn(VarId) -> (f64, f64)) -> (f64, f64) {
        let mut sum = (0.0, 0.0);
        for (atoms, coefficient) in poly.terms() {
            let mut product = (coefficient as f64, coefficient as f64);
            for atom in atoms {
                product = times(product, self.atom(atom, var));
            }
            sum = (sum.0 + product.0, sum.1 + product.1);
        }
        sum
    }

    fn atom(&self, atom: &Atom, var: &dyn Fn(VarId) -> (f64, f64)) -> (f64, f64) {
        match atom {
            Atom::Dim(dim) => {
                let extent = self.dims.get(dim.0 as usize).copied().unwrap_or(1.0);
                (extent, extent)
            }
            Atom::Var(it) => var(*it),
            Atom::Div(value, divisor) => {
                let (value, divisor) = (self.range(value, var), self.divisor(divisor, var));
                ((value.0 / divisor).floor(), (value.1 / divisor).floor())
            }
            Atom::Mod(value, divisor) => {
                let (value, divisor) = (self.range(value, var), self.divisor(divisor, var));
                let first = (value.0 / divisor).floor();
                // Without a wrap-around the remainder is a shift.
                if first == (value.1 / divisor).floor() {
                    (value.0 - first * divisor, value.1 - first * divisor)
                } else {
                    (0.0, divisor - 1.0)
                }
            }
            Atom::Min(a, b) => {
                let (a, b) = (self.range(a, var), self.range(b, var));
                (a.0.min(b.0), a.1.min(b.1))
            }
            Atom::Max(a, b) => {
                let (a, b) = (self.range(a, var), self.range(b, var));
                (a.0.max(b.0), a.1.max(b.1))
            }
        }
    }

    fn divisor(&self, divisor: &Poly, var: &dyn Fn(VarId) -> (f64, f64)) -> f64 {
        self.range(divisor, var).1.max(1.0)
    }
}

fn times(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    let all = [a.0 * b.0, a.0 * b.1, a.1 * b.0, a.1 * b.1];
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (least.max(-MAX), greatest.min(MAX))
}
