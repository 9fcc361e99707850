//! Scatters: reductions of which data choose the elements that a term is added to, as the sums of segments.

use super::Builder;
use tvmtune_ir::dag::bounds::PathFacts;
use tvmtune_ir::dag::chosen::{Chosen, chosen_axes};
use tvmtune_ir::dag::{BinaryOp, Expr, integer_range};
use tvmtune_ir::poly::VarId;
use tvmtune_ir::size::Size;
use tvmtune_ir::target::Target;
use tvmtune_schedule::{ReductionOrder, StageId};

/// Cycles of a term besides those of its vectors: its element is chosen, and waits for the term before if that
/// has the same; estimated.
const CYCLES_PER_TERM: f64 = 7.0;
/// Cycles of a vector: one that is added to memory, and one of a reduction over all terms; estimated.
const CYCLES_PER_VECTOR: f64 = 2.0;
const CYCLES_PER_MASKED_VECTOR: f64 = 1.0;

/// The axes of a scatter.
pub(super) struct Scatter {
    /// Axes of which data choose the index.
    pub(super) chosen: Vec<usize>,
    /// Spatial and reduced axes that index the data which choose.
    pub(super) deciding: Vec<usize>,
    /// All other axes.
    pub(super) others: Vec<usize>,
}

impl Scatter {
    fn of(b: &Builder, stage: StageId) -> Option<Self> {
        let compute = b.compute(stage);
        let order = b.schedule.stage(stage).reduction;
        let is_possible = matches!(order, ReductionOrder::Any | ReductionOrder::Sequence);
        if compute.reducer.is_none() || !is_possible || b.scan_stage(stage).is_some() {
            return None;
        }
        let extents = b.extents(stage);
        let found: Vec<(usize, Chosen)> = chosen_axes(compute, &b.schedule)
            .into_iter()
            .filter(|(axis, it)| is_read_anywhere(b, stage, *axis, it))
            .collect();
        let is_chosen = |axis: usize| found.iter().any(|it| it.0 == axis);
        let is_independent = |(axis, chosen): &(usize, Chosen)| {
            let greatest = integer_range(chosen.dtype).hi.min(i32::MAX.into());
            let from = chosen.offset.as_constant().filter(|it| *it >= 0);
            let last = from.and_then(|it| it.checked_add_unsigned(extents[*axis] - 1));
            let mentions = |other: &usize| chosen.data.mentions(VarId(*other as u32));
            last.is_some_and(|it| it <= greatest)
                && !(0..extents.len()).filter(|it| is_chosen(*it)).any(|it| mentions(&it))
        };
        if found.is_empty() || !found.iter().all(is_independent) {
            return None;
        }
        let decides =
            |axis: &usize| found.iter().any(|(_, it)| it.data.mentions(VarId(*axis as u32)));
        let rest = (0..extents.len()).filter(|it| !is_chosen(*it));
        let (deciding, others): (Vec<usize>, Vec<usize>) = rest.partition(decides);
        let chosen: Vec<usize> = found.iter().map(|it| it.0).collect();
        let loops = deciding.iter().chain(&chosen).chain(&others);
        let is_in_order = loops.filter(|it| **it >= compute.n_spatial).is_sorted();
        let keeps_order = is_in_order || order == ReductionOrder::Any;
        keeps_order.then_some(Self { chosen, deciding, others })
    }

    /// Returns the number of vectors that a term is added to; none if it is added to one element.
    fn n_vectors(&self, b: &Builder, stage: StageId) -> u64 {
        let extents = b.extents(stage);
        let n_spatial = b.n_spatial(stage);
        let vectors = |axis: &usize| match *axis + 1 == n_spatial {
            true => extents[*axis].div_ceil(b.lanes()),
            false => extents[*axis],
        };
        match self.others.as_slice() {
            [] => 0,
            others => others.iter().map(vectors).collect::<Vec<_>>().iter().size(),
        }
    }

    /// Estimates the cycles that it takes on one thread.
    pub(super) fn cycles(&self, b: &Builder, stage: StageId) -> f64 {
        let n_terms = product(&b.extents(stage), self.deciding.iter().copied()) as f64;
        n_terms * self.cycles_per_term(b, stage)
    }

    fn cycles_per_term(&self, b: &Builder, stage: StageId) -> f64 {
        CYCLES_PER_TERM + CYCLES_PER_VECTOR * self.n_vectors(b, stage) as f64
    }

    /// Returns whether steps for each term are fewer than vectors of all elements for each term.
    fn pays(&self, b: &Builder, stage: StageId) -> bool {
        let extents = b.extents(stage);
        let of = |axes: &[usize]| axes.iter().map(|it| extents[*it] as f64).product::<f64>();
        let all = of(&self.chosen) * of(&self.others) / b.lanes() as f64;
        self.cycles_per_term(b, stage) < CYCLES_PER_MASKED_VECTOR * all
    }
}

/// Returns whether the data can be read before an element is chosen: no other condition guards the read, or those
/// that are the same for all elements keep it in bounds, as the end of the terms of a thread does.
fn is_read_anywhere(b: &Builder, stage: StageId, axis: usize, chosen: &Chosen) -> bool {
    if chosen.is_certain {
        return true;
    }
    let compute = b.compute(stage);
    let mut known = PathFacts::new(compute.facts(&b.schedule.dag.facts()));
    assume_guards(&mut known, &compute.body, VarId(axis as u32));
    let mut is_inside = true;
    chosen.data.for_each_read(&mut |tensor, index| {
        let shape = &b.schedule.tensor(tensor).tensor.shape;
        is_inside &= index.iter().zip(shape).all(|(it, extent)| {
            known.is_above(it, &b.schedule) && known.is_below(it, extent, &b.schedule)
        });
    });
    is_inside
}

/// Assumes the conditions of indices under which a term is more than the identity, up to those of data.
fn assume_guards(known: &mut PathFacts, term: &Expr, element: VarId) {
    let Expr::Select { condition, then, .. } = term else { return };
    let guard = |it: &Expr| {
        let (mut reads, mut of_element) = (false, false);
        it.walk(&mut |it| reads |= matches!(it, Expr::Read { .. }));
        it.for_each_poly(&mut |it| of_element |= it.mentions(element));
        (!reads, !reads && !of_element)
    };
    match (&**condition, guard(condition)) {
        (_, (true, is_outside)) => {
            if is_outside {
                known.assume(condition, true);
            }
            assume_guards(known, then, element);
        }
        (Expr::Binary(BinaryOp::And, first, _), _) if guard(first).1 => known.assume(first, true),
        _ => {}
    }
}

impl Builder {
    /// Returns the axes of a stage that is a scatter, if it takes fewer steps by terms than by elements. On GPUs,
    /// it would take atomic operations.
    pub(super) fn scatter(&self, stage: StageId) -> Option<Scatter> {
        match self.target {
            Target::Cpu(_) => Scatter::of(self, stage).filter(|it| it.pays(self, stage)),
            Target::Gpu(_) => None,
        }
    }

    /// Returns the number of iterations of a stage.
    pub(super) fn n_iterations(&self, stage: StageId) -> u64 {
        let extents = self.extents(stage);
        match self.scatter(stage) {
            Some(it) => product(&extents, it.deciding.into_iter().chain(it.others)),
            None => extents.iter().size(),
        }
    }
}

/// Returns the number of iterations of some axes.
pub(super) fn product(extents: &[u64], axes: impl IntoIterator<Item = usize>) -> u64 {
    axes.into_iter().map(|it| extents[it]).collect::<Vec<_>>().iter().size()
}
