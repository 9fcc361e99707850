//! Verifies and times candidates of one problem, whose arguments it has in memory.

use std::io;

use tvmtune_ir::dag::DType;
use tvmtune_ir::interp::Array;

use super::super::protocol::{CodeSpec, Frame, OutputSpec, Policy, Problem, Response, Run};
use super::cpu;
use super::gpu::{self, Gpu};
use super::{LazyGpu, WorkerError, invalid};
use crate::definition::rounding;
use crate::outcome::{Outcome, Timing};

/// A problem with its arguments.
#[derive(Default)]
pub(super) struct Runner {
    problem: Problem,
    cpu: cpu::Memory,
    gpu: gpu::Memory,
    /// The expected bytes of each result of each case.
    expected: Vec<Vec<Vec<u8>>>,
}

/// A loaded candidate.
enum LoadedCandidate<'a> {
    Cpu(cpu::LoadedCandidate<'a>),
    Gpu(gpu::LoadedCandidate),
}

impl Runner {
    /// Executes a request to run code.
    pub(super) fn run(
        &mut self,
        run: Run,
        blob: &[u8],
        gpu: &mut LazyGpu,
    ) -> Result<Frame<Response>, WorkerError> {
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

    /// Tells if it has the arguments of that problem.
    pub(super) fn has_arguments_of(&self, problem: &Problem) -> bool {
        let (here, there) = (&self.problem.cases, &problem.cases);
        here.len() == there.len()
            && self.problem.on_gpu == problem.on_gpu
            && here.iter().zip(there).all(|(here, there)| here.has_arguments_of(there))
    }

    /// Returns the size of its arguments in main memory, in bytes.
    pub(super) fn n_bytes(&self) -> usize {
        self.cpu.n_bytes()
    }

    /// Frees its memory of the GPU, and copies of parameters, while another problem is the current one.
    pub(super) fn free_copies(&mut self) {
        self.gpu = gpu::Memory::default();
        self.cpu.free_rotations();
    }

    /// Creates the arguments of a problem, on the GPU if candidates are timed there.
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
            (self.cpu, self.gpu) = (cpu::Memory::default(), gpu::Memory::default());
        }
        // Only the device that times candidates is prepared: the other one computes few results.
        match gpu {
            None => self.cpu.prepare(&problem)?,
            // If there is too little memory, the first candidate fails.
            Some(gpu) => self.gpu.prepare(gpu, &problem).unwrap_or_default(),
        }
        self.problem = problem;
        Ok(())
    }

    /// Launches a candidate once on a case; returns its results.
    fn evaluate(
        &mut self,
        loaded: &LoadedCandidate<'_>,
        case: usize,
        gpu: &mut LazyGpu,
    ) -> Result<Vec<Vec<u8>>, WorkerError> {
        match loaded {
            LoadedCandidate::Cpu(it) => Ok(self.cpu.evaluate(&self.problem, it, case)?),
            LoadedCandidate::Gpu(it) => self.gpu.evaluate(gpu.get()?, &self.problem, it, case),
        }
    }

    /// Compares the results on a case with the expected ones; returns the first mismatch.
    fn verify(
        &mut self,
        loaded: &LoadedCandidate<'_>,
        case: usize,
        gpu: &mut LazyGpu,
    ) -> Result<Option<String>, WorkerError> {
        let results = self.evaluate(loaded, case, gpu)?;
        let outputs = &self.problem.cases[case].outputs;
        let expected = self.expected.get(case).ok_or_else(|| invalid("nothing is expected"))?;
        let pairs = outputs.iter().zip(results.iter().zip(expected));
        Ok(pairs.enumerate().find_map(|(n, (output, (got, want)))| {
            let mismatch = mismatch(output, got, want)?;
            Some(format!("case {case}, result {n}: {mismatch}"))
        }))
    }

    /// Verifies a candidate on the first case and times it; verifies it on the others if it may become
    /// the best.
    fn measure(
        &mut self,
        loaded: &LoadedCandidate<'_>,
        policy: &Policy,
        gpu: &mut LazyGpu,
    ) -> Result<Outcome, WorkerError> {
        if let Some(why) = self.verify(loaded, 0, gpu)? {
            return Ok(Outcome::Wrong(why));
        }
        let samples = match loaded {
            LoadedCandidate::Cpu(it) => self.cpu.time(&self.problem, it, policy)?,
            LoadedCandidate::Gpu(it) => self.gpu.time(gpu.get()?, &self.problem, it, policy)?,
        };
        let timing = Timing::new(samples).ok_or_else(|| invalid("no sample"))?;
        if policy.verifies_all_cases(timing.min_ns()) {
            for case in 1..self.problem.cases.len() {
                if let Some(why) = self.verify(loaded, case, gpu)? {
                    return Ok(Outcome::Wrong(why));
                }
            }
        }
        Ok(Outcome::Timed(timing))
    }

    /// Times candidates interleaved, so that a drift of the clock affects all of them alike.
    fn compare(
        &mut self,
        loaded: &[LoadedCandidate<'_>],
        rounds: usize,
        policy: &Policy,
        gpu: &mut LazyGpu,
    ) -> Result<Vec<Vec<f64>>, WorkerError> {
        let (mut on_cpu, mut on_gpu) = (Vec::new(), Vec::new());
        for it in loaded {
            match it {
                LoadedCandidate::Cpu(it) => on_cpu.push(it),
                LoadedCandidate::Gpu(it) => on_gpu.push(it),
            }
        }
        match on_gpu.as_slice() {
            [] => Ok(self.cpu.compare(&self.problem, &on_cpu, rounds, policy)?),
            on_gpu => self.gpu.compare(gpu.get()?, &self.problem, on_gpu, rounds, policy),
        }
    }
}

/// Loads the codes that are concatenated in a blob.
fn load<'a>(
    specs: &[&'a CodeSpec],
    blob: &[u8],
    gpu: &mut LazyGpu,
) -> Result<Vec<LoadedCandidate<'a>>, WorkerError> {
    if specs.iter().map(|it| it.n_bytes()).sum::<usize>() != blob.len() {
        return Err(invalid("the code is of another size").into());
    }
    let mut rest = blob;
    let mut loaded = Vec::new();
    for spec in specs {
        let (bytes, others) = rest.split_at(spec.n_bytes());
        rest = others;
        loaded.push(match spec {
            CodeSpec::Cpu(spec) => LoadedCandidate::Cpu(cpu::LoadedCandidate::new(spec, bytes)?),
            CodeSpec::Gpu(spec) => LoadedCandidate::Gpu(gpu.get()?.load(spec, bytes)?),
        });
    }
    Ok(loaded)
}

/// Describes a difference between results beyond the tolerance.
fn mismatch(output: &OutputSpec, got: &[u8], want: &[u8]) -> Option<String> {
    let is_f32 = output.dtype == DType::F32;
    if got == want || (is_f32 && are_close(got, want, output.rel as f32, output.abs as f32)) {
        return None;
    }
    let array = |bytes| Array::from_bytes(output.dtype, &output.shape, bytes);
    let (mut got, want) = (array(got), array(want));
    rounding::forgive(&mut got, &want, &output.ill_conditioned);
    got.max_error(&want, output.rel, output.abs).map(|it| it.to_string())
}

/// Tells if all elements are finite and within half of the tolerance, which is where those of right
/// candidates are. A plain loop over bytes: build scripts are compiled without optimisation, and every
/// candidate is compared in all elements.
fn are_close(got: &[u8], want: &[u8], rel: f32, abs: f32) -> bool {
    let (got, want) = (got.as_chunks::<4>().0, want.as_chunks::<4>().0);
    let (rel, abs, mut n) = (rel / 2.0, abs / 2.0, 0);
    while n < got.len() && n < want.len() {
        let (a, b) = (f32::from_le_bytes(got[n]), f32::from_le_bytes(want[n]));
        let difference = if a < b { b - a } else { a - b };
        let allowed = abs + rel * if b < 0.0 { -b } else { b };
        // Neither holds for a NaN, nor the second for an infinity.
        if !(difference <= allowed && allowed < f32::MAX) {
            return false;
        }
        n += 1;
    }
    got.len() == want.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_close_within_half_of_the_tolerance_and_only_if_finite() {
        let bytes = |it: &[f32]| Array::from_f32(&[it.len() as u64], it.to_vec()).bytes();
        let close = |got: &[f32], want: &[f32]| are_close(&bytes(got), &bytes(want), 1e-3, 1e-3);
        assert!(close(&[1.0, -2.0, 0.0], &[1.0005, -2.001, 0.0004]));
        assert!(!close(&[1.0, -2.0], &[1.0, -2.01]), "the last element counts");
        assert!(!close(&[0.0], &[0.0008]), "beyond half of it, the exact comparison decides");
        for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert!(!close(&[odd], &[odd]) && !close(&[1.0], &[odd]) && !close(&[odd], &[1.0]));
        }
    }
}
