//! Strategies interleaved, with fixed shares of the trials or allocated by a multi-armed bandit.
//!
//! # Source
//!
//! Parker et al. (2024) name it as future work: short bursts from one budget, whose outcomes all
//! strategies observe. The bandit is discounted UCB1 (Auer et al., 2002; discounting since the gain
//! of a strategy is not stationary).

use serde::{Deserialize, Serialize};

use super::strategy::{Proposal, SearchContext, Strategy};
use crate::space::Point;

/// The policy that chooses the strategy of the next burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Allocation {
    /// The strategy that is furthest behind its share of the trials.
    #[default]
    Fixed,
    /// The strategy with the highest upper confidence bound of its gain per second.
    Bandit,
}

/// Interleaved strategies. All of them observe all outcomes.
pub struct Combined {
    arms: Vec<Arm>,
    allocation: Allocation,
    /// The arm whose proposals are being measured.
    turn: usize,
}

struct Arm {
    strategy: Box<dyn Strategy>,
    /// Its share of the trials, relative to other arms.
    share: f64,
    trials: f64,
    /// Discounted sums over its bursts.
    bursts: f64,
    gain: f64,
    seconds: f64,
}

/// The discount of earlier bursts with each new one; an estimate.
const DISCOUNT: f64 = 0.9;
/// The weight of the confidence radius; an estimate.
const EXPLORATION: f64 = 0.5;

impl Combined {
    /// Creates it of strategies with their shares of the trials, which [`Allocation::Fixed`] uses.
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

    /// Returns the arms in the order in which they are asked.
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
                    let radius = (bursts.max(1.0).ln().max(0.1) / it.bursts).sqrt();
                    it.rate() / best.max(1e-12) + EXPLORATION * radius
                };
                self.arms.iter().map(bound).collect()
            }
        };
        let mut order: Vec<usize> = (0..self.arms.len()).collect();
        // Stable: of equals, the first.
        order.sort_by(|a, b| urgency[*b].total_cmp(&urgency[*a]));
        order
    }
}

impl Arm {
    /// Returns the gain per second.
    fn rate(&self) -> f64 {
        self.gain / self.seconds.max(1e-6)
    }
}

impl Strategy for Combined {
    fn propose(&mut self, context: &SearchContext<'_>, n: usize) -> Vec<Proposal> {
        for turn in self.order() {
            let arm = &mut self.arms[turn];
            let proposals = arm.strategy.propose(context, n);
            if !proposals.is_empty() {
                arm.trials += proposals.len() as f64;
                self.turn = turn;
                return proposals;
            }
            // An arm without proposals does not accumulate a claim to later trials.
            let pace = self.arms.iter().map(|it| it.trials / it.share).fold(0.0, f64::max);
            let arm = &mut self.arms[turn];
            arm.trials = arm.trials.max(pace * arm.share);
        }
        Vec::new()
    }

    fn parts(&mut self) -> Vec<&mut Box<dyn Strategy>> {
        self.arms.iter_mut().map(|it| &mut it.strategy).collect()
    }

    fn finalists(&mut self) -> Vec<Point> {
        let finalists: Vec<Point> =
            self.parts().into_iter().flat_map(|it| it.finalists()).collect();
        self.arms[self.turn].trials += finalists.len().saturating_sub(1) as f64;
        finalists
    }

    fn reward(&mut self, gain: f64, seconds: f64) {
        for it in &mut self.arms {
            it.bursts *= DISCOUNT;
            it.gain *= DISCOUNT;
            it.seconds *= DISCOUNT;
        }
        let arm = &mut self.arms[self.turn];
        arm.bursts += 1.0;
        arm.gain += gain;
        arm.seconds += seconds;
        arm.strategy.reward(gain, seconds);
    }
}
