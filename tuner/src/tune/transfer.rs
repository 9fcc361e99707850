//! Transfer between the tasks of a run: the session of a task publishes its best schedule, and tries
//! those that sessions of similar tasks published.

use std::collections::BTreeMap;
use std::sync::Arc;

use tvmtune_ir::workload::WorkloadId;
use tvmtune_plan::record::Source;

use super::recipe::When;
use super::session::{Session, lines};
use super::shared::Shared;
use crate::outcome::Outcome;
use crate::space::Point;
use crate::transfer::{Transfer, TransferResult, TransferSource};

/// The transfers that a task received so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Received {
    /// Rounds of the task.
    n_rounds: u32,
    /// The number of sources at the last offer.
    n_sources: usize,
    /// The transfers, by the points that they are in the space.
    pub(super) transfers: BTreeMap<Point, Transfer>,
}

/// Schedules that are offered to a task when it begins, at most.
const MAX_FIRST_OFFER: usize = 32;
/// Schedules of each later offer, at most.
const MAX_LATER_OFFER: usize = 8;
/// Rounds of a task between two offers.
const OFFER_PERIOD: u32 = 4;

impl Session {
    /// Offers new transfers to the strategy, every few rounds.
    pub(super) fn receive_transfers(&mut self, shared: &Shared) {
        let is_first = self.received.n_rounds == 0;
        let is_due = match self.recipe.transfer {
            When::Never => false,
            When::Once => is_first,
            When::Interleaved => self.received.n_rounds.is_multiple_of(OFFER_PERIOD),
        };
        self.received.n_rounds += 1;
        if !is_due || self.received.n_sources == shared.sources.n_sources() {
            return;
        }
        self.received.n_sources = shared.sources.n_sources();
        let limit = if is_first { MAX_FIRST_OFFER } else { MAX_LATER_OFFER };
        let target = self.task.target();
        let mut points = Vec::new();
        for it in shared.sources.candidates(&self.task.dag, &target, limit) {
            let point = self.space.import_trace(&self.task.dag, &target, &it.trace, "transferred");
            points.push(point.clone());
            self.received.transfers.entry(point).or_insert(it);
        }
        self.strategy.offer(&points);
    }

    /// Reports the outcome of a point to its transfer source, if it has one.
    pub(super) fn report_transfer(
        &self,
        point: &Point,
        outcome: &Outcome,
        best_ns: f64,
        shared: &mut Shared,
    ) {
        if let Some(transfer) = self.received.transfers.get(point) {
            let is_better = outcome.timing().is_some_and(|it| it.min_ns() < best_ns);
            let result =
                if is_better { TransferResult::Improved } else { TransferResult::NoBetter };
            shared.sources.report(transfer, result);
        }
    }

    /// Publishes its best schedule, if that is not the default one, as a transfer source.
    pub(super) fn publish(&self, workload: &WorkloadId, shared: &mut Shared) {
        let Some(best) = self.good.first() else { return };
        if best.source == Source::Default {
            return;
        }
        let default = self.good.iter().find(|it| it.source == Source::Default);
        shared.add_source(TransferSource {
            workload: *workload,
            dag: Arc::clone(&self.task.dag),
            bucket: self.task.bucket.clone(),
            trace: lines(&best.trace),
            device: self.task.target().key(),
            platform: self.task.platform(),
            median_ns: best.timing.median_ns(),
            default_ns: default.map(|it| it.timing.median_ns()),
        });
    }
}
