//! The configuration of property tests.

use proptest::test_runner::{Config, TestRunner};

/// Returns the configuration of a property test that tries `cases` cases.
///
/// The environment changes it as `proptest` documents, which reads it here: `PROPTEST_RNG_SEED`
/// fixes the seed, and `PROPTEST_CASES`, if it is set, replaces the number of cases.
pub fn config(cases: u32) -> Config {
    let defaults = Config::default();
    // Without the variable, `proptest` has a default of its own.
    let is_set = defaults.cases != UNSET_CASES;
    Config {
        cases: if is_set { defaults.cases } else { cases },
        failure_persistence: None,
        ..defaults
    }
}

/// The cases that `proptest` tries where the environment says nothing.
const UNSET_CASES: u32 = 256;

/// Returns a runner of a property test that tries `cases` cases.
pub fn runner(cases: u32) -> TestRunner {
    TestRunner::new(config(cases))
}
