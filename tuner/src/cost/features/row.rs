//! A row under construction.

use super::number::slog;

/// The kind of device that a row is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Device {
    Cpu,
    Gpu,
}

/// The numbers of a row, in the order of the layout.
#[derive(Debug)]
pub(super) struct Row(pub(super) Vec<f32>);

impl Row {
    /// Adds the logarithm of a number.
    pub(super) fn add(&mut self, number: f64) {
        self.0.push(slog(number));
    }

    /// Adds a number as it is.
    pub(super) fn add_raw(&mut self, number: f32) {
        self.0.push(number);
    }

    /// Adds a one-hot encoding of one of `n` choices.
    pub(super) fn add_choice(&mut self, choice: usize, n: usize) {
        (0..n).for_each(|it| self.add_raw(if it == choice { 1.0 } else { 0.0 }));
    }
}
