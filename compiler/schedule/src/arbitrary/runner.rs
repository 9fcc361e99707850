//! The configuration of property tests.

use proptest::test_runner::{Config, TestRunner};

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
