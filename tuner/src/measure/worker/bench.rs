//! A problem with its arguments in memory, and what happens to a candidate there.

use std::io;

use tvmtune_ir::interp::Array;
use tvmtune_runtime::raw::Code;

use super::super::protocol::{
    CodeSpec, CpuSpec, Frame, OutputSpec, Policy, Problem, Response, Run,
};
use super::gpu::{self, Gpu};
use super::{Trouble, cpu, invalid, opened};
use crate::outcome::{Outcome, Timing};

/// See the module.
#[derive(Default)]
pub(super) struct Bench {
    problem: Problem,
    cpu: cpu::Side,
    gpu: gpu::Side,
    /// For each case, for each result, its bytes.
    expected: Vec<Vec<Vec<u8>>>,
}

/// A candidate that can be launched.
enum Loaded<'a> {
    Cpu(Code, &'a CpuSpec),
    Gpu(gpu::Loaded),
}

impl Bench {
    pub(super) fn run(
        &mut self,
        run: Run,
        blob: &[u8],
        gpu: &mut Option<Gpu>,
    ) -> Result<Frame<Response>, Trouble> {
        Ok(match run {
            Run::Evaluate { code, case } => {
                let loaded = load(&[&code], blob, gpu)?.remove(0);
                let results = self.evaluate(&loaded, case, gpu)?;
                Frame { message: Response::Results, blob: results.concat() }
            }
            Run::Measure { code, policy } => {
                let loaded = load(&[&code], blob, gpu)?.remove(0);
                Frame::new(Response::Outcome(self.measure(&loaded, &policy, gpu)?))
            }
            Run::Compare { codes, rounds, policy } => {
                let loaded = load(&codes.iter().collect::<Vec<_>>(), blob, gpu)?;
                let samples = self.compare(&loaded, rounds, &policy, gpu)?;
                let timing = |it| Timing::new(it).ok_or_else(|| invalid("no sample"));
                let timings = samples.into_iter().map(timing).collect::<io::Result<_>>()?;
                Frame::new(Response::Timings(timings))
            }
        })
    }

    /// Whether it has the arguments of that problem.
    pub(super) fn has_arguments_of(&self, problem: &Problem) -> bool {
        let (here, there) = (&self.problem.cases, &problem.cases);
        here.len() == there.len()
            && self.problem.on_gpu == problem.on_gpu
            && here.iter().zip(there).all(|(here, there)| here.has_arguments_of(there))
    }

    /// How many bytes its arguments have.
    pub(super) fn n_bytes(&self) -> usize {
        self.cpu.n_bytes()
    }

    /// Gives back the memory of the GPU.
    pub(super) fn leave_gpu(&mut self) {
        self.gpu = gpu::Side::default();
    }

    /// Makes the arguments of a problem, on the GPU if candidates are timed there.
    pub(super) fn set_up(
        &mut self,
        problem: Problem,
        expected: &[u8],
        gpu: Option<&Gpu>,
    ) -> io::Result<()> {
        self.expected.clear();
        if problem.has_expected {
            if problem.expected_bytes() != expected.len() as u64 {
                return Err(invalid("the expected results are of another size"));
            }
            let mut rest = expected;
            let mut next = |it: &OutputSpec| {
                let (bytes, others) = rest.split_at(it.bytes() as usize);
                rest = others;
                bytes.to_vec()
            };
            let cases = problem.cases.iter();
            self.expected = cases.map(|it| it.outputs.iter().map(&mut next).collect()).collect();
        }
        if !self.has_arguments_of(&problem) {
            (self.cpu, self.gpu) = (cpu::Side::default(), gpu::Side::default());
        }
        // What is only asked for results now and then has time for it then.
        match gpu {
            None => self.cpu.prepare(&problem)?,
            // Where there is too little memory, the first candidate is told so.
            Some(gpu) => self.gpu.prepare(gpu, &problem).unwrap_or_default(),
        }
        self.problem = problem;
        Ok(())
    }

    /// The results of one launch on a case.
    fn evaluate(
        &mut self,
        loaded: &Loaded<'_>,
        case: usize,
        gpu: &mut Option<Gpu>,
    ) -> Result<Vec<Vec<u8>>, Trouble> {
        match loaded {
            Loaded::Cpu(code, spec) => Ok(self.cpu.evaluate(&self.problem, (code, spec), case)?),
            Loaded::Gpu(it) => self.gpu.evaluate(opened(gpu)?, &self.problem, it, case),
        }
    }

    /// How the results on a case differ from the expected ones; `None` if they do not.
    fn verify(
        &mut self,
        loaded: &Loaded<'_>,
        case: usize,
        gpu: &mut Option<Gpu>,
    ) -> Result<Option<String>, Trouble> {
        let results = self.evaluate(loaded, case, gpu)?;
        let outputs = &self.problem.cases[case].outputs;
        let expected = self.expected.get(case).ok_or_else(|| invalid("nothing is expected"))?;
        let pairs = outputs.iter().zip(results.iter().zip(expected));
        Ok(pairs.enumerate().find_map(|(n, (output, (got, want)))| {
            let mismatch = differs(output, got, want)?;
            Some(format!("case {case}, result {n}: {mismatch}"))
        }))
    }

    /// Verifies on the first case, then times, and verifies on the others what might be the best.
    fn measure(
        &mut self,
        loaded: &Loaded<'_>,
        policy: &Policy,
        gpu: &mut Option<Gpu>,
    ) -> Result<Outcome, Trouble> {
        if let Some(why) = self.verify(loaded, 0, gpu)? {
            return Ok(Outcome::Wrong(why));
        }
        let samples = match loaded {
            Loaded::Cpu(code, spec) => self.cpu.time(&self.problem, (code, spec), policy)?,
            Loaded::Gpu(it) => self.gpu.time(opened(gpu)?, &self.problem, it, policy)?,
        };
        let timing = Timing::new(samples).ok_or_else(|| invalid("no sample"))?;
        // With some room: what is a little slower now may still win when timed again.
        if policy.best_ns.is_none_or(|best| timing.min_ns() < best * 1.1) {
            for case in 1..self.problem.cases.len() {
                if let Some(why) = self.verify(loaded, case, gpu)? {
                    return Ok(Outcome::Wrong(why));
                }
            }
        }
        Ok(Outcome::Timed(timing))
    }

    /// Times codes in turn, so that a drift of the clock meets all of them alike.
    fn compare(
        &mut self,
        loaded: &[Loaded<'_>],
        rounds: usize,
        policy: &Policy,
        gpu: &mut Option<Gpu>,
    ) -> Result<Vec<Vec<f64>>, Trouble> {
        let (mut here, mut there) = (Vec::new(), Vec::new());
        for it in loaded {
            match it {
                Loaded::Cpu(code, spec) => here.push((code, *spec)),
                Loaded::Gpu(it) => there.push(it),
            }
        }
        match there.as_slice() {
            [] => Ok(self.cpu.compare(&self.problem, &here, rounds, policy)?),
            there => self.gpu.compare(opened(gpu)?, &self.problem, there, rounds, policy),
        }
    }
}

/// The codes that a blob holds, one after the other.
fn load<'a>(
    specs: &[&'a CodeSpec],
    blob: &[u8],
    gpu: &mut Option<Gpu>,
) -> Result<Vec<Loaded<'a>>, Trouble> {
    if specs.iter().map(|it| it.n_bytes()).sum::<usize>() != blob.len() {
        return Err(invalid("the code is of another size").into());
    }
    let mut rest = blob;
    let mut loaded = Vec::new();
    for spec in specs {
        let (bytes, others) = rest.split_at(spec.n_bytes());
        rest = others;
        loaded.push(match spec {
            CodeSpec::Cpu(spec) => Loaded::Cpu(cpu::load(spec, bytes)?, spec),
            CodeSpec::Gpu(spec) => Loaded::Gpu(opened(gpu)?.load(spec, bytes)?),
        });
    }
    Ok(loaded)
}

/// How a result differs from the expected one by more than it may; `None` if it does not.
fn differs(output: &OutputSpec, got: &[u8], want: &[u8]) -> Option<String> {
    if got == want {
        return None;
    }
    let array = |bytes| Array::from_bytes(output.dtype, &output.shape, bytes);
    let mismatch = array(got).max_error(&array(want), output.rel, output.abs)?;
    Some(mismatch.to_string())
}
