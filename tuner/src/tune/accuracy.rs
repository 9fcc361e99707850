//! The accuracy of schedules: the errors of their results, on arguments of several classes.
//!
//! In: a task, and code of it. Out: the distance of some elements of its results from exact values, for each
//! class of arguments that there is time for. Next: records have the errors of the winner, and a winner that is
//! wrong where the default schedule is right is left out.

use std::time::{Duration, Instant};

use tvmtune_ir::interp::Array;
use tvmtune_plan::record::accuracy::Errors;
use tvmtune_plan::record::{Accuracy, Class};

use super::sample::sample_indices;
use super::task::Task;
use crate::definition::exact::{self, Exact, Program, distance};
use crate::measure::{CaseSpec, Job, Measure, MeasureError};
use crate::statistics;

/// The seed of all arguments, so that errors of different schedules compare.
const SEED: u64 = 0xacc;
/// Bodies that are evaluated in search of exact values, for each class and result.
const MAX_BODIES: u64 = 20_000;
/// The relative tolerance of elements of programs that state none, since their numerics are fixed.
const TOLERANCE: f64 = 1e-4;
/// The relative error of one rounding.
const ROUNDING: f64 = 1.0 / 16_777_216.0;

/// Returns the arguments by which accuracy is measured, of ordinary numbers, at the extents where a task is
/// timed.
pub(super) fn case(task: &Task) -> CaseSpec {
    let dims = task.dims().swap_remove(0);
    CaseSpec::new(&task.dag, &dims, SEED, &|_| (0.0, 0.0))
}

/// Measures the errors of several jobs, class by class, until a time limit; none of a job that does not run, and
/// none at all if exact values are not known.
pub(super) fn errors(
    task: &Task,
    jobs: &[&Job],
    limit: Duration,
    measurer: &mut dyn Measure,
) -> Result<Vec<Option<Accuracy>>, MeasureError> {
    let mut found = vec![Some(Accuracy::default()); jobs.len()];
    if !exact::has_exact_values(&task.dag) {
        return Ok(vec![None; jobs.len()]);
    }
    let clock = Instant::now();
    let ordinary = case(task);
    let allowed = if task.tolerance.rel > 0.0 { task.tolerance.rel } else { TOLERANCE } / ROUNDING;
    // Classes are of floats: programs whose parameters are integers have one.
    let has_floats = task.dag.params().any(|it| task.dag.tensor(it).dtype.is_float());
    let classes = if has_floats { &Class::ALL[..] } else { &[Class::Ordinary] };
    for class in classes {
        if clock.elapsed() >= limit {
            break;
        }
        let case = ordinary.clone().with_class(*class);
        let exact = exact_values(task, &case);
        if exact.is_empty() {
            continue;
        }
        measurer.set_up(std::slice::from_ref(&case), None)?;
        for (job, found) in jobs.iter().zip(&mut found) {
            let results = measurer.evaluate(job, 0)?.ok().and_then(|it| case.results(&it));
            match (results, found.as_mut()) {
                (Some(results), Some(found)) => {
                    found.0.insert(*class, compared(&exact, &results, allowed));
                }
                _ => *found = None,
            }
        }
    }
    // A job has no certificate if there was no time for any class.
    Ok(found.into_iter().map(|it| it.filter(|it| !it.0.is_empty())).collect())
}

/// Returns exact values of some elements of the results of a case.
fn exact_values(task: &Task, case: &CaseSpec) -> Vec<Exact> {
    let (params, scalars) = (case.params(), case.scalars());
    let program = Program { dag: &task.dag, dims: case.dims(), params: &params, scalars: &scalars };
    let positions: Vec<_> = case.shapes().map(sample_indices).collect();
    exact::values(program, &positions, MAX_BODIES)
}

/// Compares results with exact values; those further away than `allowed` roundings are wrong.
fn compared(exact: &[Exact], results: &[Array], allowed: f64) -> Errors {
    let (mut errors, mut wrong) = (Vec::new(), 0);
    for Exact { output, at, value, unit } in exact {
        let result = results[*output].get(*at).to_f64();
        let error = distance(result, *value) / unit;
        if error <= allowed {
            errors.push(error);
        } else {
            wrong += 1;
        }
    }
    let worst = errors.iter().copied().fold(0.0, f64::max);
    let typical = if errors.is_empty() { 0.0 } else { statistics::median(&errors) };
    Errors { worst: hundredths(worst), typical: hundredths(typical), wrong }
}

fn hundredths(error: f64) -> f64 {
    (error * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use tvmtune_ir::dag::Number;
    use tvmtune_ir::interp;
    use tvmtune_ir::target::{CpuTarget, Isa};

    use super::super::code::Builder;
    use super::super::task::{Tolerance, Workload};
    use super::*;
    use crate::measure::Policy;
    use crate::outcome::{Outcome, Timing};

    /// A machine whose first job of a case computes the definition, and whose others lose small results.
    #[derive(Default)]
    struct Machine {
        case: Option<CaseSpec>,
        n_jobs: usize,
    }

    impl Measure for Machine {
        fn runs_code(&self) -> bool {
            true
        }
        fn set_up(&mut self, cases: &[CaseSpec], _: Option<&[u8]>) -> Result<(), MeasureError> {
            (self.case, self.n_jobs) = (cases.first().cloned(), 0);
            Ok(())
        }
        fn evaluate(
            &mut self,
            _: &Job,
            _: usize,
        ) -> Result<Result<Vec<u8>, Outcome>, MeasureError> {
            let case = self.case.as_ref().unwrap();
            let dag = dag();
            let mut results = interp::run(&dag, case.dims(), &case.params(), &case.scalars());
            self.n_jobs += 1;
            for n in 0..results[0].len() {
                let is_small = results[0].get(n).to_f64().abs() < 1e-30;
                if self.n_jobs > 1 && is_small {
                    results[0].set(n, Number::Float(0.0));
                }
            }
            Ok(Ok(results[0].bytes()))
        }
        fn measure(&mut self, _: &Job, _: &Policy) -> Result<Outcome, MeasureError> {
            Ok(Outcome::TimedOut)
        }
        fn compare(
            &mut self,
            _: &[&Job],
            _: usize,
            _: &Policy,
        ) -> Result<Result<Vec<Timing>, Outcome>, MeasureError> {
            Ok(Err(Outcome::TimedOut))
        }
    }

    fn dag() -> tvmtune_ir::dag::Dag {
        let program =
            "fn half(x: Tensor<f32, 64>) -> Tensor<f32, 64> { compute(|i| x[[i]] * 0.5) }";
        tvmtune_ir::dsl::program(program).unwrap()
    }

    #[test]
    fn a_schedule_that_loses_small_numbers_is_wrong_on_tiny_ones() {
        let tolerance = Tolerance { rel: 1e-4, abs: 1e-4 };
        let workload = Workload::new(dag(), vec![Vec::new()], tolerance);
        let builder = Builder::new(CpuTarget::generic(Isa::Avx2).into(), None).unwrap();
        let task = Task::new(&workload, &[], &builder);
        let (job, mut machine) = (Job::default(), Machine::default());
        let found = errors(&task, &[&job, &job], Duration::MAX, &mut machine).unwrap();
        let [Some(right), Some(wrong)] = &found[..] else { panic!("both run: {found:?}") };
        assert!(right.0.values().all(|it| it.wrong == 0 && it.worst <= 2.0), "{right:?}");
        let loss = wrong.wrong_beside(right).unwrap();
        assert_eq!(loss.class, Class::Tiny);
        assert_eq!(right.wrong_beside(wrong), None);
        let without_time = errors(&task, &[&job], Duration::ZERO, &mut machine).unwrap();
        assert_eq!(without_time, [None]);
    }

    #[test]
    fn errors_are_counted_in_units_and_what_is_no_number_is_wrong() {
        let exact = |at, value, unit| Exact { output: 0, at, value, unit };
        let infinity = f64::INFINITY;
        let exact =
            [exact(0, 1.0, 0.5), exact(1, 2.0, 0.25), exact(2, infinity, 1.0), exact(3, 0.0, 1.0)];
        let of =
            |results: [f32; 4]| compared(&exact, &[Array::from_f32(&[4], results.to_vec())], 100.0);
        assert_eq!(of([1.0, 2.0, f32::INFINITY, 0.0]), Errors::default());
        let off = of([2.0, 1.0, f32::INFINITY, 0.0]);
        assert_eq!(off, Errors { worst: 4.0, typical: 1.0, wrong: 0 });
        let wrong = of([1.0, f32::NAN, f32::NEG_INFINITY, 101.0]);
        assert_eq!(wrong, Errors { worst: 0.0, typical: 0.0, wrong: 3 });
    }
}
