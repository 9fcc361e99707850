//! A row under construction: logarithms, quantized so that they are the same in a file and in memory.

/// Steps of one binary digit: numbers that differ by half a percent are told apart.
pub(super) const STEPS: f32 = 128.0;

/// The bound of all numbers: 64 loops of the longest extent there is have fewer iterations.
pub(super) const MAX: f64 = 1e200;

/// Returns `sign(x) * log2(|x| + 1)`, rounded to the nearest multiple of `1 / STEPS`.
pub fn slog(x: f64) -> f32 {
    let x = x.clamp(-MAX, MAX);
    let digits = (x.abs() + 1.0).log2().copysign(x) as f32;
    (digits * STEPS).round() / STEPS
}

/// Returns the product of some numbers, at most [`MAX`].
pub(super) fn product(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.fold(1.0, |product, it| (product * it).min(MAX))
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
