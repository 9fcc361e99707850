//! Numbers of a row: logarithms, quantized so that they are the same in a file and in memory.

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
