//! What a bundle holds: candidates with their code, and what is expected of them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use tvmtune_cuda::Generated;
use tvmtune_ir::dag::Dag;
use tvmtune_ir::target::GpuTarget;
use tvmtune_plan::record::{GENERATOR, Source};
use tvmtune_schedule::{Instruction, Schedule};
use tvmtune_space::fits::gpu::fits;
use tvmtune_tuner::compile::Code;
use tvmtune_tuner::cost::gpu::{Estimate, Known, estimate_at};
use tvmtune_tuner::cost::work::Work;

use crate::case::{self, Case};
use crate::problem::Problem;

/// The name of the list in a bundle.
const MANIFEST: &str = "items.json";

/// All of a bundle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of the code generator: another one makes other code of the same trace.
    pub generator: u32,
    /// The architecture of the images: `sm_90a`.
    pub arch: String,
    /// What compiled them: `13.2`.
    pub nvrtc: String,
    /// What is done with them, in order.
    pub items: Vec<Item>,
}

/// A candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// What is done with it.
    pub goal: Goal,
    /// The case.
    pub case: String,
    /// Its extents, as `dims(..)` has them.
    pub dims: String,
    /// Who proposed the schedule.
    pub source: Source,
    /// The primitives that make it, one a line.
    pub trace: Vec<String>,
    /// The identity of its source.
    pub artifact: String,
    /// The file with its code, below the folder of the bundle.
    pub image: String,
    /// How long it takes by the model of the GPU, and what that is made of.
    pub predicted: Option<Prediction>,
    /// What a launch can't do without.
    pub flops: f64,
    /// Bytes of parameters and results.
    pub bytes: f64,
}

/// What is done with a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Goal {
    /// It is compared with the interpreter, at several extents.
    Check,
    /// Some of its results are compared, then it is timed.
    Time,
}

/// What the model of a GPU says of a candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// All kernels, one after the other.
    pub ns: f64,
    /// Each kernel.
    pub kernels: Vec<PredictedKernel>,
}

/// What the model of a GPU, and the compiler, say of a kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictedKernel {
    /// With the launch.
    pub ns: f64,
    /// What takes most of that.
    pub bound: String,
    /// Of a thread, as compiled.
    pub registers: u32,
    /// Bytes of a thread in memory, for want of registers or to be indexed.
    pub frame_bytes: u32,
    /// Of a block.
    pub threads: u32,
    /// Of a block.
    pub shared_bytes: u32,
    /// Blocks that are resident on one multiprocessor.
    pub occupancy: u32,
    /// How often all multiprocessors are filled.
    pub waves: u64,
}

impl Manifest {
    /// The list of a bundle.
    ///
    /// # Errors
    ///
    /// If there is none, or it was made by another version.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(MANIFEST);
        let text = fs::read(&path).with_context(|| format!("`{}`", path.display()))?;
        let manifest: Self =
            serde_json::from_slice(&text).with_context(|| format!("`{}`", path.display()))?;
        let made = manifest.generator;
        ensure!(made == GENERATOR, "generator {made} made this bundle, and this is {GENERATOR}");
        Ok(manifest)
    }

    /// Writes it.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        Ok(fs::write(folder.join(MANIFEST), text)?)
    }
}

impl Item {
    /// What it is about.
    ///
    /// # Errors
    ///
    /// If there is no such case.
    pub fn problem(&self) -> Result<(&'static Case, Problem), String> {
        let case = case::named(&self.case).ok_or_else(|| format!("no case `{}`", self.case))?;
        Ok((case, Problem::new(case, &self.dims)?))
    }

    /// The code of its trace.
    ///
    /// # Errors
    ///
    /// If the trace does not apply, or makes other code than it did.
    pub fn generate(&self, dag: &Dag) -> Result<Generated, String> {
        let line = |it: &String| it.parse::<Instruction>().map_err(|it| it.to_string());
        let trace = self.trace.iter().map(line).collect::<Result<Vec<_>, _>>()?;
        let schedule = Schedule::replay(dag, &trace).map_err(|it| it.to_string())?;
        let generated = tvmtune_cuda::generate(&schedule).map_err(|it| it.to_string())?;
        match generated.artifact.0 == self.artifact {
            true => Ok(generated),
            false => Err("its trace makes other code than was compiled".to_owned()),
        }
    }

    /// The extents at which it is launched.
    pub fn launches(&self, case: &Case, problem: &Problem) -> Vec<Vec<i64>> {
        match self.goal {
            Goal::Time => vec![problem.largest()],
            Goal::Check => {
                let checks = case.checks.iter().filter(|it| it.dims == self.dims);
                checks.flat_map(|it| it.at).map(|it| it.to_vec()).collect()
            }
        }
    }

    /// What it is called in lists.
    pub fn title(&self) -> String {
        let Self { case, dims, source, artifact, .. } = self;
        format!("{case} [{dims}] {source} {}", &artifact[..8.min(artifact.len())])
    }
}

/// The code of a schedule, if the target can run it.
///
/// # Errors
///
/// Why it can't.
pub fn generate(schedule: &Schedule, target: &GpuTarget) -> Result<Generated, String> {
    let generated = tvmtune_cuda::generate(schedule).map_err(|it| it.to_string())?;
    let misfits = fits(&generated.grid, target).err().unwrap_or_default();
    match misfits.into_iter().find(|it| !it.runs()) {
        None => Ok(generated),
        Some(misfit) => Err(format!("it does not fit {}: {misfit}", target.arch)),
    }
}

/// A candidate with the code that was made of it.
pub fn item(
    (goal, case, dims): (Goal, &str, &str),
    (source, schedule): (Source, &Schedule),
    problem: &Problem,
    generated: &Generated,
    (code, target): (&Code, &GpuTarget),
) -> Item {
    let largest = problem.largest();
    let work = Work::of(&problem.dag, &largest);
    Item {
        goal,
        case: case.to_owned(),
        dims: dims.to_owned(),
        source,
        trace: schedule.trace.iter().map(ToString::to_string).collect(),
        artifact: generated.artifact.0.clone(),
        image: image_path(
            &generated.artifact.0,
            if code.cubin.is_empty() { "ptx" } else { "cubin" },
        ),
        predicted: Some(prediction(generated, code, target, &largest)),
        flops: work.flops,
        bytes: work.bytes,
    }
}

/// Where the code of an artifact lies, below the folder of a bundle: what it is, its name says.
pub fn image_path(artifact: &str, extension: &str) -> String {
    format!("images/{}.{extension}", &artifact[..16.min(artifact.len())])
}

fn prediction(generated: &Generated, code: &Code, target: &GpuTarget, dims: &[i64]) -> Prediction {
    let entries = &generated.unit.entries;
    let usage = |name: &str| code.usage(name).cloned().unwrap_or_default();
    // PTX tells nothing of registers: the model guesses them.
    let known: Vec<Known> = match code.cubin.is_empty() {
        true => Vec::new(),
        false => entries.iter().map(|it| Known { registers: usage(&it.name).registers }).collect(),
    };
    let Estimate { ns, kernels } = estimate_at(&generated.grid, target, dims, &known);
    let kernel = |(it, entry): (_, &tvmtune_cuda::codegen::Entry)| {
        let tvmtune_tuner::cost::gpu::KernelEstimate {
            ns, bound, registers, occupancy, waves, ..
        } = it;
        PredictedKernel {
            ns,
            bound: bound.to_string(),
            registers,
            frame_bytes: usage(&entry.name).frame_bytes,
            threads: entry.threads,
            shared_bytes: entry.shared_bytes,
            occupancy,
            waves,
        }
    };
    Prediction { ns, kernels: kernels.into_iter().zip(entries).map(kernel).collect() }
}
