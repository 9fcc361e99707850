//! The reference oracle: the expected results of a task's candidates.
//!
//! A small program is evaluated by definition, in full, and so is one that a function of Rust defines. For a large program, that would take minutes,
//! so a *reference kernel* computes the results: the program without a schedule, a plain loop nest
//! without tiles, predication, tasks, packed weights or fused stages. It is accepted if a few thousand
//! of its elements agree with the definition, among them the ends of rows, where remainders are handled.
//! Every candidate is then compared with it in all elements, so that an error in an element that was
//! not sampled would show as a disagreement with every other schedule: a task whose default schedule
//! disagrees is given up, and nothing is recorded.
//!
//! For a program so large that even the plain loops would take long, the default schedule is the
//! reference kernel. The reference kernel of a GPU task runs on the CPU, if that can run the program.
//!
//! An element is ill-conditioned if rounding errors move it beyond the tolerance of its result. If the default
//! schedule disagrees, ill-conditioned elements get a larger tolerance, and it is verified again.
//!
//! Judging is kept within a time limit: the oracle estimates what each way would take, from what it
//! took before in this process, and samples as many elements as there is time for, but never none.
//! Results are kept by workload and extents: tasks of other platforms and ranges share them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tvmtune_ir::dag::{Dag, Number, Numerics};
use tvmtune_ir::interp::Array;
use tvmtune_ir::target::Target;
use tvmtune_schedule::{Instruction, Schedule};
use tvmtune_space::default;

use super::code::Builder;
use super::sample::{self, Inputs, MAX_INTERPRETED, allowed, is_perturbable, n_operations};
use super::task::Task;
use crate::definition::rounding;
use crate::measure::{CaseSpec, Job, Measure, MeasureError};

/// Operations of a program whose plain loops are the reference kernel, at most: some seconds.
const MAX_PLAIN_OPERATIONS: f64 = 5e9;
/// The time of an operation in ns, before anything was timed: in the interpreter, unoptimised, and in
/// plain loops on a busy core.
const INTERPRETED_NS: f64 = 50.0;
const PLAIN_NS: f64 = 1.0;
/// Operations from which a time tells the speed.
const MIN_OPERATIONS: f64 = 1e5;

/// Computes and keeps expected results.
#[derive(Debug)]
pub(super) struct Oracle {
    /// By the number of the workload in the run, and extents.
    known: BTreeMap<(usize, Vec<i64>), Arc<Expected>>,
    interpreted: Speed,
    plain: Speed,
}

/// The expected results of one case.
#[derive(Debug)]
struct Expected {
    /// All results, concatenated.
    bytes: Vec<u8>,
    /// The relative and absolute tolerance of each.
    allowed: Vec<(f64, f64)>,
    /// The definition gave them, and not a reference kernel.
    by_definition: bool,
    /// The time of computing them.
    time: Duration,
}

/// Arguments with their expected results.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    /// The cases; candidates are timed on the first.
    pub(super) cases: Vec<CaseSpec>,
    expected: Vec<Arc<Expected>>,
}

/// The speed of evaluating a program in one way, as last seen.
#[derive(Clone, Copy, Debug)]
struct Speed {
    ns_per_operation: f64,
}

/// The conditions of judging: arguments are drawn from a seed, and there is a time limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judging {
    pub(super) seed: u64,
    pub(super) limit: Duration,
}

/// The verdict on a candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// Its results are right: the largest difference is that share of the tolerance, where it ran.
    Correct { error: Option<f64> },
    /// Its results are wrong, or it failed.
    Wrong,
}

/// One case of several, and the time limit of computing its results.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    cases: &'a [CaseSpec],
    n: usize,
    limit: Duration,
}

/// The results of a case as arrays, and as bytes.
struct Results {
    arrays: Vec<Array>,
    bytes: Vec<u8>,
}

impl Reference {
    /// Returns the results of all cases, concatenated.
    pub(super) fn expected(&self) -> Vec<u8> {
        self.expected.iter().map(|it| it.bytes.as_slice()).collect::<Vec<_>>().concat()
    }

    /// Estimates the time of judging one more candidate, on arguments of another seed.
    pub(super) fn time_of_case(&self) -> Duration {
        let all: Duration = self.expected.iter().map(|it| it.time).sum();
        all / self.expected.len().max(1) as u32
    }
}

impl Speed {
    /// Estimates the time of a number of operations.
    fn time(self, n_operations: f64) -> Duration {
        Duration::from_nanos((n_operations * self.ns_per_operation) as u64)
    }

    /// Learns from an evaluation.
    fn observe(&mut self, n_operations: f64, time: Duration) {
        if n_operations >= MIN_OPERATIONS {
            self.ns_per_operation = time.as_nanos() as f64 / n_operations;
        }
    }
}

impl Oracle {
    /// Creates an oracle that knows nothing.
    pub(super) fn new() -> Self {
        Self {
            known: BTreeMap::new(),
            interpreted: Speed { ns_per_operation: INTERPRETED_NS },
            plain: Speed { ns_per_operation: PLAIN_NS },
        }
    }

    /// Computes the expected results of a task at several extents; the seed is the same for all tasks.
    /// The inner error says why that failed.
    pub(super) fn reference(
        &mut self,
        task: &Task,
        dims: &[Vec<i64>],
        judging: Judging,
        measurer: &mut dyn Measure,
    ) -> Result<Result<Reference, String>, MeasureError> {
        let Judging { seed, limit } = judging;
        let exact = |_| (0.0, 0.0);
        if !measurer.runs_code() {
            // Logged outcomes were verified when they were measured.
            let cases =
                vec![CaseSpec::new(&task.dag, &dims[0], seed, &exact).with_cold(&task.cold)];
            return Ok(Ok(Reference { cases, expected: Vec::new() }));
        }
        let clock = Instant::now();
        let cases: Vec<_> =
            dims.iter().map(|it| CaseSpec::new(&task.dag, it, seed, &exact)).collect();
        let mut expected = Vec::new();
        for (n, case) in cases.iter().enumerate() {
            let key = (task.workload, case.dims().to_vec());
            let of_case = match self.known.get(&key) {
                Some(known) => Arc::clone(known),
                None => {
                    let left = limit.saturating_sub(clock.elapsed()) / (cases.len() - n) as u32;
                    let wanted = Wanted { cases: &cases, n, limit: left };
                    match self.compute(task, wanted, measurer)? {
                        Ok(computed) => Arc::new(computed),
                        Err(why) => return Ok(Err(why)),
                    }
                }
            };
            self.known.insert(key, Arc::clone(&of_case));
            expected.push(of_case);
        }
        let with_tolerance = |(case, expected): (&CaseSpec, &Arc<Expected>)| {
            let allowed = |id| {
                let output = task.dag.outputs.iter().position(|it| *it == id).unwrap_or(0);
                expected.allowed[output]
            };
            CaseSpec::new(&task.dag, case.dims(), seed, &allowed).with_cold(&task.cold)
        };
        let cases = cases.iter().zip(&expected).map(with_tolerance).collect();
        Ok(Ok(Reference { cases, expected }))
    }

    /// Returns the reference with a larger tolerance for ill-conditioned elements, in the cases that the
    /// interpreter evaluates in full; `None` if there are no such elements.
    pub(super) fn with_ill_conditioned(
        &self,
        task: &Task,
        reference: &Reference,
        limit: Duration,
    ) -> Option<Reference> {
        let (clock, mut found, mut reference) = (Instant::now(), false, reference.clone());
        for (case, expected) in reference.cases.iter_mut().zip(&reference.expected) {
            let left = limit.saturating_sub(clock.elapsed());
            // The perturbed program is compared with its definition, not with a kernel that may be wrong.
            let is_known = expected.by_definition
                && is_perturbable(&task.dag)
                && self.is_evaluated(&task.dag, case.dims(), left);
            let Some(results) = case.results(&expected.bytes).filter(|_| is_known) else {
                continue;
            };
            let (params, scalars) = (case.params(), case.scalars());
            let inputs = (&params[..], &scalars[..]);
            let tolerances = &expected.allowed;
            let elements =
                rounding::ill_conditioned(&task.dag, case.dims(), inputs, &results, tolerances);
            found |= elements.iter().any(|it| !it.is_empty());
            *case = case.clone().with_ill_conditioned(elements);
        }
        found.then_some(reference)
    }

    /// Compares the results of a candidate on arguments drawn from another seed, at the extents where it
    /// is timed: in all elements of a small program, else in a sample. Where numerics are fixed, on hostile
    /// numbers, too: they tell orders apart, and no tolerance has to allow for them.
    pub(super) fn verdict(
        &mut self,
        task: &Task,
        job: &Job,
        judging: Judging,
        measurer: &mut dyn Measure,
    ) -> Result<Verdict, MeasureError> {
        if !measurer.runs_code() {
            return Ok(Verdict::Correct { error: None });
        }
        let case = CaseSpec::new(&task.dag, &task.dims()[0], judging.seed, &|_| (0.0, 0.0));
        let verdict = self.verdict_on(task, job, (&case, judging.limit), measurer)?;
        if task.dag.numerics == Numerics::Free || verdict == Verdict::Wrong {
            return Ok(verdict);
        }
        let case = case.with_hostile_numbers();
        Ok(match self.verdict_on(task, job, (&case, judging.limit), measurer)? {
            Verdict::Correct { .. } => verdict,
            Verdict::Wrong => Verdict::Wrong,
        })
    }

    /// Compares the results of a candidate on one case.
    fn verdict_on(
        &self,
        task: &Task,
        job: &Job,
        (case, limit): (&CaseSpec, Duration),
        measurer: &mut dyn Measure,
    ) -> Result<Verdict, MeasureError> {
        measurer.set_up(std::slice::from_ref(case), None)?;
        let results = measurer.evaluate(job, 0)?.ok().and_then(|it| case.results(&it));
        let Some(results) = results else { return Ok(Verdict::Wrong) };
        let (params, scalars) = (case.params(), case.scalars());
        let inputs = inputs(task, case, &params, &scalars);
        let compared = match self.is_evaluated(&task.dag, case.dims(), limit) {
            true => sample::difference(&inputs, &results),
            false => sample::sampled(&inputs, &results, limit),
        };
        Ok(match compared {
            Ok(error) => Verdict::Correct { error: Some(error) },
            Err(_) => Verdict::Wrong,
        })
    }

    /// Tells if a program is evaluated by definition in full.
    fn is_evaluated(&self, dag: &Dag, dims: &[i64], limit: Duration) -> bool {
        if dag.reference().is_some() {
            return true;
        }
        let n_operations = n_operations(dag, dims);
        n_operations <= MAX_INTERPRETED && self.interpreted.time(n_operations) <= limit
    }

    /// Computes the results of a case, by definition or by a reference kernel.
    fn compute(
        &mut self,
        task: &Task,
        wanted: Wanted<'_>,
        measurer: &mut dyn Measure,
    ) -> Result<Result<Expected, String>, MeasureError> {
        let (clock, case) = (Instant::now(), &wanted.cases[wanted.n]);
        let by_definition = self.is_evaluated(&task.dag, case.dims(), wanted.limit);
        let results = if by_definition {
            let (params, scalars) = (case.params(), case.scalars());
            let clock = Instant::now();
            let arrays = task.definition.results(&task.dag, case.dims(), &params, &scalars);
            let arrays = match arrays {
                Ok(arrays) => arrays,
                Err(why) => return Ok(Err(why)),
            };
            if task.dag.reference().is_none() {
                self.interpreted.observe(n_operations(&task.dag, case.dims()), clock.elapsed());
            }
            let bytes = arrays.iter().flat_map(Array::bytes).collect();
            Results { arrays, bytes }
        } else {
            match self.run_kernel(task, wanted, measurer)? {
                Ok(results) => results,
                Err(why) => return Ok(Err(why)),
            }
        };
        let allowed = results.arrays.iter().map(|it| allowed(task.tolerance, it)).collect();
        let time = clock.elapsed();
        Ok(Ok(Expected { bytes: results.bytes, allowed, by_definition, time }))
    }

    /// Computes the results of a case by the first reference kernel that agrees with the definition.
    fn run_kernel(
        &mut self,
        task: &Task,
        wanted: Wanted<'_>,
        measurer: &mut dyn Measure,
    ) -> Result<Result<Results, String>, MeasureError> {
        let Wanted { cases, n, limit } = wanted;
        let (clock, case) = (Instant::now(), &cases[n]);
        let mut why = String::new();
        for (builder, trace) in self.reference_kernels(task, case, limit / 2) {
            let code = match builder.build(&task.dag, &trace) {
                Ok(code) => code,
                Err(refusal) => {
                    why = refusal;
                    continue;
                }
            };
            measurer.set_up(cases, None)?;
            let running = Instant::now();
            let bytes = match measurer.evaluate(&code.job(cases), n)? {
                Ok(bytes) => bytes,
                Err(failure) => {
                    why = format!("the reference kernel {failure}");
                    continue;
                }
            };
            if trace.is_empty() {
                self.plain.observe(n_operations(&task.dag, case.dims()), running.elapsed());
            }
            let Some(arrays) = case.results(&bytes) else { continue };
            let (params, scalars) = (case.params(), case.scalars());
            let left = limit.saturating_sub(clock.elapsed());
            match sample::sampled(&inputs(task, case, &params, &scalars), &arrays, left) {
                Ok(_) => return Ok(Ok(Results { arrays, bytes })),
                Err(mismatch) => why = format!("the reference kernel is wrong: {mismatch}"),
            }
        }
        Ok(Err(why))
    }

    /// Returns the candidates for the reference kernel, in order of preference, with their builders.
    fn reference_kernels(
        &self,
        task: &Task,
        case: &CaseSpec,
        limit: Duration,
    ) -> Vec<(Builder, Vec<Instruction>)> {
        let host = match task.target() {
            Target::Cpu(_) => Some(task.builder.clone()),
            Target::Gpu(_) => tvmtune_plan::device::detect().map(Builder::Cpu),
        };
        let plain = host.map(|it| (it, Schedule::new(&task.dag).trace));
        let n_operations = n_operations(&task.dag, case.dims());
        let is_plain_fast =
            n_operations <= MAX_PLAIN_OPERATIONS && self.plain.time(n_operations) <= limit;
        let default = default::schedule(&task.dag, &task.target()).trace;
        plain
            .into_iter()
            .filter(|_| is_plain_fast)
            .chain([(task.builder.clone(), default)])
            .collect()
    }
}

/// Compares the results of a case with the definition; returns the first mismatch.
pub(super) fn first_mismatch(task: &Task, case: &CaseSpec, results: &[Array]) -> Option<String> {
    sample::difference(&inputs(task, case, &case.params(), &case.scalars()), results).err()
}

/// Returns the arguments of a case, in the form that the evaluation of samples needs.
fn inputs<'a>(
    task: &'a Task,
    case: &'a CaseSpec,
    params: &'a [Array],
    scalars: &'a [Number],
) -> Inputs<'a> {
    Inputs {
        dag: &task.dag,
        definition: &task.definition,
        dims: case.dims(),
        params,
        scalars,
        tolerance: task.tolerance,
    }
}
