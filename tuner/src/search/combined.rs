//! Several strategies by turns: bursts of search, with transfer and droplet in between.
//!
//! # Source
//!
//! Parker et al. (2024) name as future work what is done here: short bursts, all from one budget, and
//! what one strategy finds is told to all others. The adaptive way is UCB1 (Auer et al., 2002) with
//! forgetting, as what a strategy can still find changes all the time.

use super::{Proposal, Scene, Strategy};
use crate::outcome::{Outcome, Timing};
use crate::space::Point;

/// Who gets the next burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Allocation {
    /// Whoever is furthest behind its share of the trials.
    #[default]
    Fixed,
    /// Whoever gained most in a second of late, or was hardly tried.
    Bandit,
}

/// Strategies that take turns. All of them are told everything.
pub struct Combined {
    arms: Vec<Arm>,
    allocation: Allocation,
    /// Whose proposals are being measured.
    turn: usize,
}

struct Arm {
    strategy: Box<dyn Strategy>,
    /// Of the trials, next to others.
    share: f64,
    trials: f64,
    /// Discounted sums over bursts.
    bursts: f64,
    gain: f64,
    seconds: f64,
}

/// What remains of earlier bursts with each that follows.
const MEMORY: f64 = 0.9;
/// How much an arm that was hardly tried counts.
const CURIOSITY: f64 = 0.5;

impl Combined {
    /// Strategies with their shares of the trials; the shares count where allocation is fixed.
    pub fn new(arms: Vec<(Box<dyn Strategy>, f64)>, allocation: Allocation) -> Self {
        let arm = |(strategy, share)| Arm {
            strategy,
            share,
            trials: 0.0,
            bursts: 0.0,
            gain: 0.0,
            seconds: 0.0,
        };
        Self { arms: arms.into_iter().map(arm).collect(), allocation, turn: 0 }
    }

    /// The arms, whose turn it is first.
    fn order(&self) -> Vec<usize> {
        let urgency: Vec<f64> = match self.allocation {
            Allocation::Fixed => self.arms.iter().map(|it| -it.trials / it.share).collect(),
            Allocation::Bandit => {
                let bursts: f64 = self.arms.iter().map(|it| it.bursts).sum();
                let best = self.arms.iter().map(Arm::rate).fold(0.0, f64::max);
                let bound = |it: &Arm| {
                    if it.bursts == 0.0 {
                        return f64::INFINITY;
                    }
                    let unknown = (bursts.max(1.0).ln().max(0.1) / it.bursts).sqrt();
                    it.rate() / best.max(1e-12) + CURIOSITY * unknown
                };
                self.arms.iter().map(bound).collect()
            }
        };
        let mut order: Vec<usize> = (0..self.arms.len()).collect();
        // Stable: of equals, the first.
        order.sort_by(|a, b| urgency[*b].total_cmp(&urgency[*a]));
        order
    }

    fn each(&mut self) -> impl Iterator<Item = &mut Box<dyn Strategy>> {
        self.arms.iter_mut().map(|it| &mut it.strategy)
    }
}

impl Arm {
    /// Gain a second.
    fn rate(&self) -> f64 {
        self.gain / self.seconds.max(1e-6)
    }
}

impl Strategy for Combined {
    fn propose(&mut self, scene: &Scene<'_>, n: usize) -> Vec<Proposal> {
        for turn in self.order() {
            let arm = &mut self.arms[turn];
            let proposals = arm.strategy.propose(scene, n);
            if !proposals.is_empty() {
                arm.trials += proposals.len() as f64;
                self.turn = turn;
                return proposals;
            }
            // Who has nothing to propose does not save up for later.
            let pace = self.arms.iter().map(|it| it.trials / it.share).fold(0.0, f64::max);
            let arm = &mut self.arms[turn];
            arm.trials = arm.trials.max(pace * arm.share);
        }
        Vec::new()
    }

    fn observe(&mut self, point: &Point, outcome: &Outcome) {
        self.each().for_each(|it| it.observe(point, outcome));
    }

    fn rivals(&mut self) -> Vec<Point> {
        let rivals: Vec<Point> = self.each().flat_map(|it| it.rivals()).collect();
        self.arms[self.turn].trials += rivals.len().saturating_sub(1) as f64;
        rivals
    }

    fn compared(&mut self, timings: &[(Point, Timing)]) {
        self.each().for_each(|it| it.compared(timings));
    }

    fn offer(&mut self, points: &[Point]) {
        self.each().for_each(|it| it.offer(points));
    }

    fn reward(&mut self, gain: f64, seconds: f64) {
        for it in &mut self.arms {
            it.bursts *= MEMORY;
            it.gain *= MEMORY;
            it.seconds *= MEMORY;
        }
        let arm = &mut self.arms[self.turn];
        arm.bursts += 1.0;
        arm.gain += gain;
        arm.seconds += seconds;
        arm.strategy.reward(gain, seconds);
    }
}
