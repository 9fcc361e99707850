//! The value of a partial schedule: the share of the best speed that its best completion reaches.
//!
//! In: measured trials of programs. Out: a [`ValueFunction`], by which [`beam_search`] takes the decisions
//! of a schedule one after the other, and measures nothing.
//!
//! ```text
//! trials -> prefixes, the best latency under each -> ValueFunction -> beam_search -> points
//! ```
//!
//! A state is a [`Prefix`]: a sketch, and the first of its decisions. Templates open decisions stage by
//! stage, the tile of an axis in registers before the blocks around it: they are taken in that order.
//!
//! # Source
//!
//! Steiner et al., "Value Function Based Performance Optimization of Deep Learning Workloads" (2020). There
//! a state is the prefix of a network's schedule, and the model an LSTM over its layers; here ops are
//! scheduled one by one, and the stages of an op are what layers are there.

mod beam;
mod choose;
mod function;
mod held_out;
mod model;
mod prefix;
mod samples;
#[cfg(test)]
mod tests;
mod train;

pub use beam::beam_search;
pub use choose::{Chosen, Policy};
pub use function::{Analysis, Features, ValueFunction};
pub use held_out::{Fold, Judged, best_margin, folds, held_out_latency};
pub use model::{DeviceNumbers, TrainedOn, ValueModel, ValueModelError};
pub use prefix::Prefix;
pub use samples::{Label, Measured, Sample, samples};
pub use train::{TrainingProgram, explore, train, training_samples};
