//! Rejects timings below the [lower bound](tvmtune_space::lower_bound) of a program.

use crate::outcome::Outcome;

/// Rejects a timing below the lower bound: something was not computed.
pub(super) fn check(outcome: Outcome, lower_bound_ns: f64) -> Outcome {
    match outcome.timing() {
        Some(timing) if timing.min_ns() < lower_bound_ns => Outcome::Wrong(format!(
            "it took {:.0} ns, less than the {lower_bound_ns:.0} ns that this machine needs at least",
            timing.min_ns(),
        )),
        _ => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Timing;

    #[test]
    fn a_timing_below_the_lower_bound_is_wrong() {
        let timing = |ns: f64| Outcome::Timed(Timing::new(vec![ns]).unwrap());
        let checked = check(timing(90.0), 100.0);
        assert!(matches!(checked, Outcome::Wrong(why) if why.contains("at least")));
        assert!(check(timing(110.0), 100.0).timing().is_some());
        assert_eq!(check(Outcome::TimedOut, 100.0), Outcome::TimedOut);
    }
}
