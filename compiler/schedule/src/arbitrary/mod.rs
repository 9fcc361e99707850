//! Random programs and random schedules of them, for property tests (feature `arbitrary`).
//!
//! Programs are small, and all their values are small whole numbers if those of the parameters are:
//! then `f32` sums are exact in any order, and results compare with `==`. Extents are non-divisible:
//! ones, primes, both ends of a dynamic range.
//!
//! [`config`] is the one configuration of property tests, and [`scheduled`] the one loop that applies
//! random moves.

mod dags;
mod moves;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use tvmtune_ir::dag::{Dag, Number, WrittenOrder};
use tvmtune_ir::interp::Array;

pub use dags::{Family, dag};
pub use moves::{Move, any_move, any_moves, instruction, move_by_move, scheduled};

/// The cases that `proptest` tries where `PROPTEST_CASES` is not set.
const DEFAULT_CASES: u32 = 256;

/// Returns the configuration of a property test that tries `cases` cases.
///
/// `proptest` reads the environment: `PROPTEST_RNG_SEED` fixes the seed, and `PROPTEST_CASES`
/// replaces the number of cases.
pub fn config(cases: u32) -> Config {
    let environment = Config::default();
    let cases = if environment.cases == DEFAULT_CASES { cases } else { environment.cases };
    Config { cases, failure_persistence: None, ..environment }
}

/// Returns a runner of a property test that tries `cases` cases.
pub fn runner(cases: u32) -> TestRunner {
    TestRunner::new(config(cases))
}

/// A program with the extents of its dynamic dimensions.
#[derive(Clone, Debug)]
pub struct Case {
    /// The kind of program.
    pub family: Family,
    /// The program.
    pub dag: Dag,
    /// An extent for each dynamic dimension, in its range.
    pub dims: Vec<i64>,
    /// The seed of the parameters' values.
    pub seed: u64,
}

/// Makes any program of any family.
pub fn any_case() -> impl Strategy<Value = Case> {
    let numbers = proptest::collection::vec(any::<u32>(), 24);
    (proptest::sample::select(&Family::ALL[..]), numbers, any::<u64>()).prop_map(
        |(family, numbers, seed)| {
            let (dag, dims) = dag(family, &numbers);
            Case { family, dag, dims, seed }
        },
    )
}

/// Makes orders of reductions that a person may write, of the lengths that programs have here.
pub fn any_order() -> impl Strategy<Value = WrittenOrder> {
    let lanes = || proptest::sample::select(&[2, 4, 8, 16, 32, 64, 128][..]);
    let size = proptest::sample::select(&[2, 3, 4, 5, 7, 8, 16, 31, 64][..]);
    let blocks = (size, proptest::option::of(lanes()));
    prop_oneof![
        1 => Just(WrittenOrder::Sequence),
        3 => lanes().prop_map(WrittenOrder::Lanes),
        4 => blocks.prop_map(|(size, lanes)| WrittenOrder::Blocks { size, lanes }),
    ]
}

impl Case {
    /// Small whole numbers for each parameter.
    ///
    /// Parameters of an integer type are indices into a table of a few rows, some outside.
    pub fn params(&self) -> Vec<Array> {
        let param = |(n, id)| {
            let tensor = self.dag.tensor(id);
            let shape: Vec<u64> =
                tensor.shape.iter().map(|it| it.eval_dims(&self.dims) as u64).collect();
            Array::whole_numbers(tensor.dtype, &shape, self.seed.wrapping_add(n))
        };
        (0..).zip(self.dag.params()).map(param).collect()
    }

    /// A value for each run-time scalar.
    pub fn scalars(&self) -> Vec<Number> {
        let value = Number::Int((self.seed % 5) as i64);
        self.dag.scalars.iter().map(|it| value.cast(it.dtype)).collect()
    }
}
