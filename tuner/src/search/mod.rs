//! Search strategies, with an ask-and-tell interface: they propose points and observe outcomes.
//!
//! In: a [`Space`](crate::space::Space), cost models that score its points, and the outcomes of
//! earlier proposals. Out: points worth measuring. Next: the tuning loop builds and measures them.
//!
//! Evolution explores, droplet search refines its best points, transfer proposes schedules of other
//! workloads; [`Combined`] allocates the trials among them. The rest are baselines for studies.
//!
//! # Invariants
//!
//! - No strategy proposes a point twice, nor one whose outcome it observed.
//! - Proposals are a function of the seed, the scores and the observed outcomes, and of nothing else:
//!   no clock, no threads, no hardware. A test can fake the hardware.
//! - A space may grow between two proposals; its points keep their meaning.
//!
//! # Source
//!
//! Ask and tell: TVM's `MetaSchedule` (`GenerateMeasureCandidates`, `NotifyRunnerResults`).

mod annealing;
mod ansor;
mod chain;
mod combined;
mod droplet;
mod evolutionary;
mod genetic;
mod grid;
mod hill_climbing;
mod random;
mod seen;
mod strategy;
mod transferred;

pub use annealing::Annealing;
pub use ansor::Ansor;
pub use chain::Chain;
pub use combined::{Allocation, Combined};
pub use droplet::Droplet;
pub use evolutionary::{Effort, Evolutionary};
pub use genetic::Genetic;
pub use grid::Grid;
pub use hill_climbing::HillClimbing;
pub use random::Random;
pub use strategy::{Proposal, Score, SearchContext, Strategy};
pub use transferred::Transferred;
