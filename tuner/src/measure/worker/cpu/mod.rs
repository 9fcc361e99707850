//! Candidates for this CPU: launched by the function that launches kernels in the user's program.

use std::io;

use tvmtune_runtime::raw::{Code, Threads};

use super::super::protocol::{CpuLaunch, CpuSpec, Policy, Problem};
use super::invalid;
use memory::{Arguments, Placement, Purpose};
use timer::Launch;

pub(super) mod memory;
mod rotation;
mod timer;

/// The arguments of each case, as far as they were needed.
#[derive(Default)]
pub(super) struct Memory(Vec<Option<Arguments>>);

/// LoadedCandidate code, with its launches.
pub(super) struct LoadedCandidate<'a> {
    code: Code,
    spec: &'a CpuSpec,
}

impl<'a> LoadedCandidate<'a> {
    /// Loads code from its bytes, phase by phase.
    pub(super) fn new(spec: &'a CpuSpec, mut bytes: &[u8]) -> io::Result<Self> {
        let mut phases = Vec::new();
        for size in &spec.phases {
            let (phase, others) = bytes.split_at(*size);
            bytes = others;
            phases.push(phase);
        }
        Ok(Self { code: Code::load(&phases)?, spec })
    }

    /// Returns the launch on a case.
    fn launch(&self, case: usize) -> io::Result<&CpuLaunch> {
        let launch = self.spec.launches.get(case);
        let launch = launch.ok_or_else(|| invalid("no launch for this case"))?;
        if launch.n_tasks.len() != self.spec.phases.len() {
            return Err(invalid("not a number of tasks for each phase"));
        }
        Ok(launch)
    }

    /// Launches the code once.
    fn run(&self, launch: &CpuLaunch, table: &[u64]) {
        let threads = if self.spec.parallel { Threads::All } else { Threads::One };
        self.code.try_out(&launch.n_tasks, table, launch.scratch_bytes as usize, threads);
    }
}

/// Launches on the first case, which take their argument tables in turn.
struct Timed<'a> {
    loaded: &'a LoadedCandidate<'a>,
    launch: &'a CpuLaunch,
    tables: Vec<Vec<u64>>,
    arguments: &'a mut Arguments,
}

impl Launch for Timed<'_> {
    fn run(&mut self) {
        let turn = self.arguments.next_turn() % self.tables.len();
        self.loaded.run(self.launch, &self.tables[turn]);
    }

    fn restore(&mut self) -> bool {
        self.arguments.restore()
    }
}

impl Memory {
    /// Creates the arguments of all cases.
    pub(super) fn prepare(&mut self, problem: &Problem) -> io::Result<()> {
        (0..problem.cases.len()).try_for_each(|it| self.arguments(problem, it).map(|_| ()))
    }

    /// Returns the size of the arguments, in bytes.
    pub(super) fn n_bytes(&self) -> usize {
        self.0.iter().flatten().map(Arguments::n_bytes).sum()
    }

    /// Frees memory that can be filled anew, as other problems are current.
    pub(super) fn free_rotations(&mut self) {
        self.0.iter_mut().flatten().for_each(Arguments::free_rotations);
    }

    /// Launches code once on a case, with guard pages around its arguments; returns the results.
    pub(super) fn evaluate(
        &mut self,
        problem: &Problem,
        loaded: &LoadedCandidate<'_>,
        case: usize,
    ) -> io::Result<Vec<Vec<u8>>> {
        let launch = loaded.launch(case)?;
        let arguments = self.arguments(problem, case)?;
        let table = arguments.table(&launch.table, Placement::Tight)?;
        arguments.poison_outputs();
        loaded.run(launch, &table);
        Ok(arguments.outputs())
    }

    /// Times launches on the first case.
    pub(super) fn time(
        &mut self,
        problem: &Problem,
        loaded: &LoadedCandidate<'_>,
        policy: &Policy,
    ) -> io::Result<Vec<f64>> {
        let launch = loaded.launch(0)?;
        let arguments = self.arguments(problem, 0)?;
        let tables = arguments.tables(&launch.table)?;
        Ok(timer::time(&mut Timed { loaded, launch, tables, arguments }, policy))
    }

    /// Times several codes on the first case, interleaved.
    pub(super) fn compare(
        &mut self,
        problem: &Problem,
        codes: &[&LoadedCandidate<'_>],
        rounds: usize,
        policy: &Policy,
    ) -> io::Result<Vec<Vec<f64>>> {
        let mut samples = vec![Vec::new(); codes.len()];
        let mut n_launches = vec![0; codes.len()];
        for round in 0..rounds.max(1) {
            for (n, loaded) in codes.iter().enumerate() {
                let launch = loaded.launch(0)?;
                let arguments = self.arguments(problem, 0)?;
                let tables = arguments.tables(&launch.table)?;
                let mut launch = Timed { loaded, launch, tables, arguments };
                if round == 0 {
                    let cold = timer::sample(&mut launch, 1);
                    let first = match cold >= timer::LONG_LAUNCH_NS {
                        true => (1, cold),
                        false => timer::calibrate(&mut launch, policy.min_sample_ns),
                    };
                    n_launches[n] = first.0;
                    samples[n].push(first.1);
                    continue;
                }
                if samples[n][0] < timer::LONG_LAUNCH_NS {
                    // Other codes ran in between and evicted its data, those with its layouts less than others.
                    launch.run();
                }
                samples[n].push(timer::sample(&mut launch, n_launches[n]));
            }
        }
        Ok(samples)
    }

    /// Returns the arguments of a case, created if necessary.
    fn arguments(&mut self, problem: &Problem, case: usize) -> io::Result<&mut Arguments> {
        let wanted = problem.cases.get(case).ok_or_else(|| invalid("no such case"))?;
        if self.0.len() < problem.cases.len() {
            self.0.resize_with(problem.cases.len(), || None);
        }
        if self.0[case].is_none() {
            let is_timed = case == 0 && !problem.on_gpu;
            let purpose = if is_timed { Purpose::Timing } else { Purpose::Verification };
            let made = Arguments::new(wanted, purpose, self.0.iter().flatten())?;
            self.0[case] = Some(made);
        }
        self.0[case].as_mut().ok_or_else(|| invalid("no such case"))
    }
}
