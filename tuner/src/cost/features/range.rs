//! Which values an index takes while some of the loops around it run.

use tvmtune_ir::poly::{Atom, Poly, VarId};

/// Extents longer than that count as that long.
const LONGEST: f64 = (1_u64 << 40) as f64;

/// The largest value of each dimension, and of each variable how deep it stands and its extent.
#[derive(Clone, Debug)]
pub(super) struct Ranges {
    dims: Vec<f64>,
    vars: Vec<(usize, f64)>,
}

impl Ranges {
    pub(super) fn new(dims: Vec<f64>, n_vars: u32) -> Self {
        let dims = dims.into_iter().map(|it| it.min(LONGEST)).collect();
        Self { dims, vars: vec![(0, 1.0); n_vars as usize] }
    }

    /// Notes a loop inside so many others. Its largest extent.
    pub(super) fn open(&mut self, var: VarId, depth: usize, extent: &Poly) -> f64 {
        let extent = self.most(extent);
        // Well-formed nests number their variables.
        if let Some(it) = self.vars.get_mut(var.0 as usize) {
            *it = (depth, extent);
        }
        extent
    }

    /// The largest value of an extent.
    pub(super) fn most(&self, extent: &Poly) -> f64 {
        self.of(extent, 0).1.clamp(1.0, LONGEST)
    }

    /// The least and the greatest value while the loops from number `depth` on run, and those
    /// around them are in their first iteration.
    pub(super) fn of(&self, poly: &Poly, depth: usize) -> (f64, f64) {
        self.range(poly, &|var| match self.vars.get(var.0 as usize) {
            Some((level, extent)) if *level >= depth => (0.0, extent - 1.0),
            _ => (0.0, 0.0),
        })
    }

    /// How far an iteration of a loop moves a value: the next one, or where that is not far, all of
    /// them on average.
    pub(super) fn step(&self, poly: &Poly, var: VarId) -> f64 {
        let Some((_, extent)) = self.vars.get(var.0 as usize) else { return 0.0 };
        let at = |n: f64| self.range(poly, &|it| if it == var { (n, n) } else { (0.0, 0.0) }).0;
        let next = at(1.0) - at(0.0);
        let steps = extent - 1.0;
        if next == 0.0 && steps > 1.0 { (at(steps) - at(0.0)) / steps } else { next }
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
                let most = self.dims.get(dim.0 as usize).copied().unwrap_or(1.0);
                (most, most)
            }
            Atom::Var(it) => var(*it),
            Atom::Div(value, divisor) => {
                let (value, divisor) = (self.range(value, var), self.divisor(divisor, var));
                ((value.0 / divisor).floor(), (value.1 / divisor).floor())
            }
            Atom::Mod(value, divisor) => {
                let (value, divisor) = (self.range(value, var), self.divisor(divisor, var));
                let first = (value.0 / divisor).floor();
                // What does not wrap around keeps its place.
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
    let most = super::MOST;
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (least.max(-most), greatest.min(most))
}
