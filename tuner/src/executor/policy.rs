//! Policies: the order in which waiting stages get what they need.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::fmt;
use std::time::Duration;

use super::decide::{Request, View};
use super::stage::Needs;

/// Chooses the next stage to start.
pub trait Policy: fmt::Debug + Send + Sync {
    /// Returns the position of the waiting stage that starts now; `None` if none does.
    fn next(&self, view: &View<'_>) -> Option<usize>;
}

/// One job after the other, as a tuner without an executor: the baseline.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sequential;

/// All jobs at once, as processes that know nothing of each other: the other baseline. Measurements
/// disturb each other.
#[derive(Clone, Copy, Debug, Default)]
pub struct NaiveParallel;

/// Stages of all jobs, in order of priority and arrival. None overtakes a stage that waits, unless that
/// does not make it wait longer.
#[derive(Clone, Copy, Debug)]
pub struct Interleaved {
    is_isolated: bool,
}

/// As [`Interleaved`], by the times that stages are expected to take: first the stages whose job can
/// measure soonest, so that no device is idle; shorter ones overtake what has to wait for long. The
/// time of waiting counts, so that every stage comes first one day.
#[derive(Clone, Copy, Debug, Default)]
pub struct Predictive;

impl Interleaved {
    /// Creates the policy: nothing runs beside a measurement on the CPU.
    pub fn new() -> Self {
        Self { is_isolated: true }
    }

    /// Creates a policy for comparison: devices have one job at a time, but other stages run beside
    /// measurements.
    pub fn without_isolation() -> Self {
        Self { is_isolated: false }
    }
}

impl Default for Interleaved {
    fn default() -> Self {
        Self::new()
    }
}

impl Policy for Sequential {
    fn next(&self, view: &View<'_>) -> Option<usize> {
        let first = view.first_job?;
        view.waiting.iter().position(|it| it.job == first)
    }
}

impl Policy for NaiveParallel {
    fn next(&self, view: &View<'_>) -> Option<usize> {
        (!view.waiting.is_empty()).then_some(0)
    }
}

impl Policy for Interleaved {
    fn next(&self, view: &View<'_>) -> Option<usize> {
        if !self.is_isolated {
            return first_with_its_device(view);
        }
        let mut order: Vec<usize> = (0..view.waiting.len()).collect();
        order.sort_by_key(|n| Reverse(view.waiting[*n].priority));
        first_that_delays_nobody(view, &order, |_, _| false)
    }
}

impl Policy for Predictive {
    fn next(&self, view: &View<'_>) -> Option<usize> {
        let rank = |it: &Request| {
            let waited = view.now.saturating_sub(it.since);
            (Reverse(it.priority), it.to_device.as_nanos() as i128 - waited.as_nanos() as i128)
        };
        let mut order: Vec<usize> = (0..view.waiting.len()).collect();
        order.sort_by_key(|n| rank(&view.waiting[*n]));
        let ends_before = |request: &Request, start: Duration| view.now + request.expected <= start;
        first_that_delays_nobody(view, &order, ends_before)
    }
}

/// Returns the first stage, in an order, that fits and delays none before it; `ends_before` tells if a
/// stage ends before a time.
fn first_that_delays_nobody(
    view: &View<'_>,
    order: &[usize],
    ends_before: impl Fn(&Request, Duration) -> bool,
) -> Option<usize> {
    let ledger = view.ledger;
    // Most stages of many jobs need the same; the time at which they can start is seldom asked for.
    let mut blocked: Vec<(&Needs, OnceCell<Duration>)> = Vec::new();
    for n in order {
        let request = &view.waiting[*n];
        if !ledger.fits(&request.needs) {
            if !blocked.iter().any(|it| *it.0 == request.needs) {
                blocked.push((&request.needs, OnceCell::new()));
            }
            continue;
        }
        let delays = |(needs, start): &(&Needs, OnceCell<Duration>)| {
            let start = || *start.get_or_init(|| ledger.expected_start(needs, view.now));
            !ledger.leaves_room(&request.needs, needs) && !ends_before(request, start())
        };
        if !blocked.iter().any(delays) {
            return Some(*n);
        }
    }
    None
}

/// Returns the first stage whose device is free, whatever runs on the cores.
fn first_with_its_device(view: &View<'_>) -> Option<usize> {
    view.waiting.iter().position(|it| {
        let only_device = Needs { device: it.needs.device.clone(), ..Needs::default() };
        view.ledger.fits(&only_device)
    })
}
