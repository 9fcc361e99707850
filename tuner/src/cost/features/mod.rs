//! The features of a schedule for the cost model: numbers that follow from its loops.
//!
//! In: a [`Nest`]. Out: [`Features`], a row of numbers for each buffer that is written. Nothing is
//! placed or generated for it, and every number is finite, whatever the nest.
//!
//! # Layout
//!
//! | from | group | numbers |
//! |---|---|---|
//! | 0 | operations | of floats, then of integers: multiply-adds (always 0), sums, products, quotients, comparisons, functions, others; then logic and choices. Of all statements that write the buffer |
//! | 16 | vectorized loops | how many, product of their extents, the innermost one's, and where they run: nowhere, inner, middle or outer dimension written, inner, middle or outer reduction, several of these |
//! | 27 | unrolled loops | the same |
//! | 38 | parallel loops | the same; none on a GPU |
//! | 49 | threads | whether it is a GPU, its blocks (x, y, z), threads (x, y, z), and unrolled loops around threads |
//! | 57 | buffers | five, those with most lines first: see `buffer.rs` |
//! | 147 | intensity | operations for each byte touched by more and more of the loops, ten times |
//! | 157 | memory | bytes of the buffer, elements times allocations, allocations, and runs of the statement per allocation |
//! | 161 | loops | product of extents, how many there are, copies of the statement in the code |
//! | 164 | the program | the same in all rows: its analytic cost (cycles; on a GPU, ns), and that per thousand operations |
//!
//! Hand-written kernels on a GPU have a row for each launch instead: the values of their knobs in the
//! place of operations, the numbers of the launch in those of threads and memory, the cost of the program,
//! and zeros, see `hand_written.rs`.
//!
//! All but positions and the first of "threads" are logarithms, see [`slog`]. A buffer is described
//! by the statement that writes it most often. Dynamic dimensions have their largest extent.
//!
//! # Source
//!
//! The first 164 are those of Ansor (`feature.cc` of TVM 0.16), with its defects corrected:
//! positions of annotations, lines and distinct lines are computed as documented, and neither of the
//! statements that initialize and update a buffer hides the other.

mod buffer;
mod hand_written;
mod intensity;
mod loops;
mod operations;
mod range;
mod row;
mod rows;
mod statement;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use tvmtune_ir::target::Target;
use tvmtune_schedule::nest::Nest;

use row::STEPS;
pub use row::slog;

use crate::device::Device;

/// The version of the layout: a model reads features of its own version only.
pub const FEATURES: u32 = 1;

/// Numbers in a row.
pub const WIDTH: usize = 166;

/// The position of the analytic cost in a row, and of the first numbers of threads and of memory.
const ANALYTIC_COST: usize = 164;
/// See [`ANALYTIC_COST`].
const THREADS: usize = 49;
/// See [`ANALYTIC_COST`].
const MEMORY: usize = 157;

/// A row of [`WIDTH`] numbers for each buffer that a nest writes, or for each launch of hand-written kernels.
///
/// Stored as whole numbers of [`STEPS`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "Vec<i32>", from = "Vec<i32>")]
pub struct Features {
    numbers: Vec<f32>,
}

impl Features {
    /// Computes the features of a nest; `None` if it does not fit the target.
    pub fn of(nest: &Nest, target: &Target) -> Option<Self> {
        Some(Self::new(nest, target, super::analytic::cost(nest, target)?))
    }

    /// Computes the features of a nest with that analytic cost.
    pub(super) fn new(nest: &Nest, target: &Target, analytic_cost: f64) -> Self {
        let device = match target {
            Target::Cpu(_) => Device::Cpu,
            Target::Gpu(_) => Device::Gpu,
        };
        Self::of_loops(nest, device, analytic_cost)
    }

    fn of_loops(nest: &Nest, device: Device, analytic_cost: f64) -> Self {
        let numbers = match &nest.hand_written {
            Some(written) if device == Device::Gpu => {
                hand_written::rows(nest, written, analytic_cost)
            }
            _ => rows::rows(&statement::Statements::new(nest), device, analytic_cost),
        };
        Self { numbers }
    }

    /// Returns the rows.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.numbers.chunks_exact(WIDTH)
    }

    /// Returns the analytic cost of the program, as [`slog`] has it; 0 if nothing is written.
    pub fn analytic_cost(&self) -> f32 {
        self.rows().next().map_or(0.0, |it| it[ANALYTIC_COST])
    }

    /// Returns all rows, concatenated.
    pub(super) fn numbers(&self) -> &[f32] {
        &self.numbers
    }

    /// Tells if all rows are complete and all numbers finite.
    pub(super) fn is_sound(&self) -> bool {
        self.numbers.len().is_multiple_of(WIDTH) && self.numbers.iter().all(|it| it.is_finite())
    }

    #[cfg(test)]
    pub(super) fn from_numbers(numbers: Vec<f32>) -> Self {
        Self { numbers }
    }
}

impl From<Features> for Vec<i32> {
    fn from(features: Features) -> Self {
        features.numbers.iter().map(|it| (it * STEPS).round() as i32).collect()
    }
}

impl From<Vec<i32>> for Features {
    fn from(numbers: Vec<i32>) -> Self {
        Self { numbers: numbers.iter().map(|it| *it as f32 / STEPS).collect() }
    }
}
