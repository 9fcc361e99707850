//! Gradient-boosted decision trees (GBDT), with histograms.
//!
//! In: programs, each with rows of numbers, a label, and a weight. Out: a [`Gbdt`], which predicts a
//! number for each row; the predictions of a program's rows, added up, approximate its label.
//!
//! # Invariants
//!
//! - The same programs in the same order give the same ensemble, for any number of threads.
//! - Predictions are finite.
//!
//! # Source
//!
//! `XGBoost` (Chen and Guestrin, KDD 2016) for gains and leaves, its histogram method for speed,
//! Ansor for the objective ("pack-sum"). There, the gradient of a row takes the other rows of its
//! program as constant, so that all together overshoot; here the hessian of a row counts all rows of
//! its program.

mod bins;
mod ensemble;
mod stored;
#[cfg(test)]
mod tests;
mod tree;

pub use ensemble::{Gbdt, Objective, Program};
