//! Layouts of accesses: buffers with the scope of a block, distributed over the registers of its
//! threads.
//!
//! In: for each access of a buffer, the offset of its element as an affine function of thread indices
//! and of loops that one thread runs. Out: the register of a thread that holds the element; `None`
//! if threads would access each other's elements. A buffer is distributed if all accesses have the
//! same modes over threads, and the map from threads to elements is injective.
//!
//! A mode is a pair of extent and stride, as in layouts of CuTe. Offsets are decomposed in mixed
//! radix: a mode over threads, `stride * t` with `t < extent`, occupies the digits from `stride` to
//! `stride * extent`, and modes of loops must not overlap them.

use std::collections::BTreeMap;

use tvmtune_ir::poly::{Atom, Poly, VarId};

/// A mode of a layout: the stride and extent of one loop over threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LayoutMode {
    /// Distance of neighbors in the buffer.
    stride: i64,
    extent: i64,
    /// `thread % range / step`
    step: u32,
    range: u32,
}

/// A variable of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopAxis {
    /// A loop over threads: its extent, and threads for one iteration and for all.
    Threads { extent: i64, step: u32, range: u32 },
    /// A loop of one thread, of that extent.
    Loop(i64),
}

/// The loops around an access, outermost first.
pub(super) type Path = Vec<(VarId, LoopAxis)>;

/// A position as a layout: modes over threads, loops of one thread, and an offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AccessLayout {
    modes: Vec<LayoutMode>,
    loops: Vec<(VarId, i64, i64)>,
    constant: i64,
}

impl AccessLayout {
    /// Reads a position; `None` if it is not linear in variables that `runs` knows.
    pub(super) fn read(position: &Poly, runs: &BTreeMap<VarId, LoopAxis>) -> Option<Self> {
        let mut form = AccessLayout { modes: Vec::new(), loops: Vec::new(), constant: 0 };
        for (atoms, coefficient) in position.terms() {
            match atoms {
                [] => form.constant = coefficient,
                [Atom::Var(var)] => match *runs.get(var)? {
                    _ if coefficient < 0 => return None,
                    LoopAxis::Loop(extent) => form.loops.push((*var, coefficient, extent)),
                    LoopAxis::Threads { extent, step, range } => {
                        form.modes.push(LayoutMode { stride: coefficient, extent, step, range });
                    }
                },
                _ => return None,
            }
        }
        (form.constant >= 0).then(|| form.merged())
    }

    /// Coalesces modes that continue one another.
    fn merged(mut self) -> Self {
        self.modes.sort();
        let mut merged: Vec<LayoutMode> = Vec::new();
        for mode in self.modes {
            match merged.last_mut() {
                Some(low)
                    if mode.stride == low.stride * low.extent
                        && i64::from(mode.step) == i64::from(low.step) * low.extent
                        && low.range == mode.step =>
                {
                    *low =
                        LayoutMode { extent: low.extent * mode.extent, range: mode.range, ..*low };
                }
                _ => merged.push(mode),
            }
        }
        self.modes = merged;
        self
    }

    /// Returns the position among the registers of one thread, and the least number of those; `None`
    /// if loops reach the elements of other threads.
    fn local(&self) -> Option<(Poly, i64)> {
        let (mut place, mut size) = (Poly::constant(self.constant), self.constant + 1);
        for mode in &self.modes {
            let below = |stride: i64| stride < mode.stride;
            let lower = self.loops.iter().filter(|it| below(it.1)).map(|it| it.1 * (it.2 - 1));
            let lower_digits = self.modes.iter().filter(|it| below(it.stride));
            let lower_digits = lower_digits.map(|it| it.stride * (it.extent - 1));
            let reach = lower.sum::<i64>() + lower_digits.sum::<i64>();
            let above = self.loops.iter().filter(|it| !below(it.1));
            let aligned = above.clone().all(|it| it.1 % (mode.stride * mode.extent) == 0);
            if reach >= mode.stride || !aligned || self.constant > 0 {
                return None;
            }
        }
        let compressed = |stride: i64| {
            let taken = self.modes.iter().filter(|it| it.stride <= stride);
            stride / taken.map(|it| it.extent).product::<i64>()
        };
        for (var, stride, extent) in &self.loops {
            place += Poly::var(*var) * compressed(*stride);
            size += compressed(*stride) * (extent - 1);
        }
        Some((place, size))
    }
}

/// Returns for each access its position in the registers of a thread, and the number of those;
/// `None` if threads access one another's elements.
pub(super) fn place_in_registers(forms: &[AccessLayout]) -> Option<(Vec<Poly>, i64)> {
    let (first, others) = forms.split_first()?;
    if others.iter().any(|it| it.modes != first.modes) {
        return None;
    }
    let local: Vec<(Poly, i64)> = forms.iter().map(AccessLayout::local).collect::<Option<_>>()?;
    let size = local.iter().map(|it| it.1).max().unwrap_or(1);
    Some((local.into_iter().map(|it| it.0).collect(), size))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TY: VarId = VarId(0);
    const TX: VarId = VarId(1);
    const T: VarId = VarId(2);
    const I: VarId = VarId(3);
    const J: VarId = VarId(4);

    /// 8 x 16 threads, and loops of 4 and 2.
    fn form(terms: &[(VarId, i64)], constant: i64) -> Option<AccessLayout> {
        let runs = BTreeMap::from([
            (TY, LoopAxis::Threads { extent: 8, step: 16, range: 128 }),
            (TX, LoopAxis::Threads { extent: 16, step: 1, range: 16 }),
            (T, LoopAxis::Threads { extent: 128, step: 1, range: 128 }),
            (I, LoopAxis::Loop(4)),
            (J, LoopAxis::Loop(2)),
        ]);
        let terms = terms.iter().map(|(var, by)| Poly::var(*var) * *by);
        AccessLayout::read(&terms.fold(Poly::constant(constant), |a, b| a + b), &runs)
    }

    fn registers(forms: &[&[(VarId, i64)]]) -> Option<(Vec<Poly>, i64)> {
        let forms: Option<Vec<AccessLayout>> = forms.iter().map(|it| form(it, 0)).collect();
        place_in_registers(&forms.unwrap())
    }

    #[test]
    fn tiles_of_threads_become_registers() {
        // Rows of 32: element (4 ty + i, 2 tx + j).
        let tile = [(TY, 128), (I, 32), (TX, 2), (J, 1)];
        let place = Poly::var(I) * 2 + Poly::var(J);
        assert_eq!(registers(&[&tile, &tile]), Some((vec![place.clone(), place], 8)));
    }

    #[test]
    fn two_loops_over_the_same_threads_are_one() {
        let (pair, flat) = ([(TY, 16), (TX, 1), (I, 128)], [(T, 1), (I, 128)]);
        let place = Poly::var(I);
        assert_eq!(registers(&[&pair, &flat]), Some((vec![place.clone(), place], 4)));
    }

    #[test]
    fn elements_that_depend_on_no_thread_are_in_every_thread() {
        assert_eq!(registers(&[&[(J, 1)]]), Some((vec![Poly::var(J)], 2)));
    }

    #[test]
    fn elements_of_others_are_not_in_registers() {
        assert_eq!(registers(&[&[(TY, 1)], &[(TX, 1)]]), None, "transposed");
        assert_eq!(registers(&[&[(TX, 1), (I, 8)]]), None, "a loop over a distributed dimension");
        assert_eq!(registers(&[&[(TX, 2), (I, 1)]]), None, "a loop into the next thread's");
        assert_eq!(registers(&[&[(TX, 1)], &[(TX, 1), (J, 1)]]), None, "a window that slides");
    }

    #[test]
    fn positions_that_are_not_linear_have_no_layout() {
        let runs = BTreeMap::from([(I, LoopAxis::Loop(4))]);
        assert_eq!(AccessLayout::read(&(Poly::var(I) * Poly::var(I)), &runs), None);
        assert_eq!(AccessLayout::read(&Poly::var(J), &runs), None, "unknown");
    }
}
