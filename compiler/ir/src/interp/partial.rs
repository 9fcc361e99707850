//! The partial results of one reduction whose order is fixed: of its lanes, and of its blocks.
//!
//! In: the terms of the reduction, in the order of its ranges, each with its place. Out: the result.

use std::mem;

use crate::dag::Order;
use crate::dag::order::Place;

/// A reduction that is being computed. `combine` takes what is added first, then what is there.
pub(super) struct PartialResults<T, F> {
    order: Order,
    identity: T,
    combine: F,
    /// The partial results of the lanes of the current block.
    lanes: Vec<T>,
    /// The blocks before the current one, combined.
    before: T,
    block: u64,
}

impl<T: Clone, F: Fn(T, T) -> T> PartialResults<T, F> {
    /// Makes the partial results of a reduction without any term.
    pub(super) fn new(order: Order, identity: T, combine: F) -> Self {
        let n_lanes = order.lanes().map_or(1, |it| it.n as usize);
        let lanes = vec![identity.clone(); n_lanes];
        Self { order, before: identity.clone(), identity, combine, lanes, block: 0 }
    }

    /// Replaces the partial result at a place, that of the next term, by one with the term.
    pub(super) fn add(&mut self, place: Place, with_term: impl FnOnce(T) -> T) {
        if place.block != self.block {
            self.end_block();
            self.block = place.block;
        }
        let partial = &mut self.lanes[place.lane];
        *partial = with_term(mem::replace(partial, self.identity.clone()));
    }

    /// Combines the results of all lanes and blocks.
    pub(super) fn result(mut self) -> T {
        match self.order {
            Order::Sequence | Order::Lanes(_) => self.of_lanes(),
            Order::Blocks { .. } => {
                self.end_block();
                self.before
            }
        }
    }

    fn end_block(&mut self) {
        let block = self.of_lanes();
        let before = mem::replace(&mut self.before, self.identity.clone());
        self.before = (self.combine)(block, before);
    }

    /// Combines the first half of the lanes with the second, until one is left, and that with the identity: a
    /// sum is never -0.0. Of equal numbers a minimum is that of the second half. Leaves the identity in each
    /// lane.
    fn of_lanes(&mut self) -> T {
        let fresh = vec![self.identity.clone(); self.lanes.len()];
        let mut partial = mem::replace(&mut self.lanes, fresh);
        while partial.len() > 1 {
            let upper = partial.split_off(partial.len() / 2);
            let pairs = partial.into_iter().zip(upper);
            partial = pairs.map(|(lower, upper)| (self.combine)(lower, upper)).collect();
        }
        let result = partial.pop().unwrap_or_else(|| self.identity.clone());
        match self.order.lanes() {
            Some(_) => (self.combine)(result, self.identity.clone()),
            None => result,
        }
    }
}
