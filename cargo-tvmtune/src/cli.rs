//! The command line: what can be asked, and how it is spelled.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tvmtune_build::config::Span;
use tvmtune_ir::target::gpu::GpuTarget;
use tvmtune_ir::target::{DeviceKey, Isa, Platform};

/// Tunes the kernels of a crate, and looks after what was found.
#[derive(Debug, Parser)]
#[command(name = "cargo tvmtune", bin_name = "cargo tvmtune", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure schedules on this machine until each kernel has a good one
    Tune(Tune),
    /// Say for each kernel how its code was found
    Status(Status),
    /// Show what builds and commands are tuning now
    Watch(Watch),
    /// Time the code that a build would embed
    Bench(Bench),
    /// Say what the launches of an application took, which ran with `TVMTUNE_TRACE` set to a file
    Profile(Profile),
    /// Propose the fewest buckets that are good enough at the extents of an application
    Buckets(Buckets),
    /// Compile kernels for a GPU that need not be here, and say what they use
    Compile(Compile),
    /// Run hand-written kernels on an emulator of GPUs, compare them with their definition, and say what
    /// each setting of their knobs takes; needs NVRTC, no GPU
    Emulate(Emulate),
    /// Move what was found from your cache into the crate, to be committed and shipped
    Accept(Accept),
    /// Fail if a kernel lacks a record for an instruction set the crate promises; needs no device
    Check(Check),
    /// Fail if a record does not say the truth: replay it, compare its code, and run that
    Verify(Verify),
    /// Show what a kernel computes, how it runs, and how that was found
    Show(Show),
    /// Add the records of other databases to yours
    Merge(Merge),
    /// Make records of earlier releases records of this one: what makes other code by now is measured
    Upgrade(Upgrade),
    /// Train a value function on what was measured here, for kernels that are not
    Train(Train),
    /// Choose schedules for kernels that were not tuned by a value function, and measure nothing
    Predict(Predict),
    /// List records of kernels that no longer exist, and what the cache has in vain
    Gc(Gc),
    /// Run an experiment: networks tuned in several ways, and what each way is worth
    Study(Study),
    /// Execute tuning tasks of a fleet on this machine, until it is interrupted
    Worker(Worker),
    /// Tune on the workers of a fleet, which meet at a NATS server
    #[command(subcommand)]
    Fleet(FleetCommand),
    /// Say what this machine can do, and what may be in the way
    Doctor,
    /// Tune what a build script asks for on standard input
    #[command(hide = true)]
    Job,
    /// Tune what another machine asks for on standard input
    #[command(hide = true)]
    Serve(Serve),
}

/// The selection of kernels.
#[derive(Clone, Debug, Args)]
pub(crate) struct Selection {
    /// Packages; without any, all members of the workspace that have kernels
    #[arg(short, long, value_name = "NAME")]
    pub(crate) package: Vec<String>,
    /// Kernels whose name contains this text; with modules before it, as in `layers::linear`
    #[arg(short, long, value_name = "NAME")]
    pub(crate) kernel: Option<String>,
    /// The manifest of the workspace or package
    #[arg(long, value_name = "PATH")]
    pub(crate) manifest_path: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) features: Features,
}

/// The features of packages, as cargo takes them: kernels behind others are left out.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Features {
    /// Features to enable, beside the default ones
    #[arg(short = 'F', long, value_name = "FEATURES", value_delimiter = ',')]
    pub(crate) features: Vec<String>,
    /// Enable all features
    #[arg(long)]
    pub(crate) all_features: bool,
    /// Enable no default features
    #[arg(long)]
    pub(crate) no_default_features: bool,
}

impl Features {
    /// Returns the names given, also those that share an argument.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.features.iter().flat_map(|it| it.split(' ')).filter(|it| !it.is_empty())
    }
}

/// The selection of ranges and instruction sets.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Variants {
    /// Ranges that contain these extents, such as `M=16`
    #[arg(long, value_name = "DIMS", value_delimiter = ',', value_parser = extent)]
    pub(crate) bucket: Vec<(String, i64)>,
    /// The instruction set, `avx512` or `avx2`, instead of the best of this machine
    #[arg(long, value_name = "ISA", value_parser = isa)]
    pub(crate) isa: Option<Isa>,
}

#[derive(Debug, Args)]
pub(crate) struct Tune {
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) variants: Variants,
    /// Candidates to measure for each kernel
    #[arg(long, value_name = "N")]
    pub(crate) trials: Option<u64>,
    /// Time for all kernels together, such as `90s` or `10m`
    #[arg(long, value_name = "TIME")]
    pub(crate) budget: Option<Span>,
    /// End the search of a kernel that is as fast as this, such as `35us`
    #[arg(long, value_name = "LATENCY")]
    pub(crate) until: Option<Span>,
    /// Share the time by how often kernels ran in an application, which wrote this file with `TVMTUNE_TRACE`;
    /// what did not run is left out
    #[arg(long, value_name = "FILE", conflicts_with = "on")]
    pub(crate) profile: Option<PathBuf>,
    /// Tune on this device only, instead of on the CPU, and on the GPU for what has code for GPUs
    #[arg(long, visible_alias = "device", value_name = "DEVICE")]
    pub(crate) target: Option<Device>,
    /// Tune on another machine, named as `ssh` names it: this program is copied there, and removed
    #[arg(long, value_name = "USER@HOST")]
    pub(crate) on: Option<String>,
    /// Tune also what was tuned on this machine before
    #[arg(long)]
    pub(crate) again: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The server of a fleet. What is not given is read from the variables of NATS' own command line.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct NatsServer {
    /// The NATS server, such as `nats://host:4222` or `tls://user:password@host`; without it, that of
    /// `NATS_URL`, else the one of this machine
    #[arg(long, value_name = "URL")]
    pub(crate) nats: Option<String>,
    /// A file of credentials for it
    #[arg(long, value_name = "FILE")]
    pub(crate) nats_creds: Option<PathBuf>,
    /// The certificate of the authority that signed its own
    #[arg(long, value_name = "FILE")]
    pub(crate) nats_ca: Option<PathBuf>,
    /// The certificate of this client
    #[arg(long, value_name = "FILE", requires = "nats_key")]
    pub(crate) nats_cert: Option<PathBuf>,
    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires = "nats_cert")]
    pub(crate) nats_key: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Worker {
    #[command(flatten)]
    pub(crate) server: NatsServer,
    /// The name of this worker, for people
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Tasks of one device that run at once, and share the machine stage by stage
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) tasks: u8,
    /// Serve tasks of this device only, instead of the CPU and the first GPU
    #[arg(long, value_name = "DEVICE")]
    pub(crate) target: Option<Device>,
}

/// A subcommand of `cargo tvmtune fleet`.
#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommand {
    /// Prepare a NATS server, and say what to type on the other machines
    Setup(FleetSetup),
    /// Send the kernels that were not tuned, and keep what workers find
    Tune(FleetTune),
    /// Say what waits, what runs where, and what was set aside
    Status(FleetStatus),
}

#[derive(Debug, Args)]
pub(crate) struct FleetSetup {
    #[command(flatten)]
    pub(crate) server: NatsServer,
    /// The time after which a silent worker loses its task
    #[arg(long, value_name = "TIME")]
    pub(crate) lease: Option<Span>,
    /// Workers that may fail at a task before it is set aside
    #[arg(long, value_name = "N")]
    pub(crate) tries: Option<u32>,
    /// Days for which outcomes are kept
    #[arg(long, value_name = "N")]
    pub(crate) days: Option<u32>,
    /// Copies of everything, in a cluster of servers
    #[arg(long, value_name = "N")]
    pub(crate) replicas: Option<u8>,
}

#[derive(Debug, Args)]
pub(crate) struct FleetTune {
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) server: NatsServer,
    /// Devices to tune for, as `cargo tvmtune doctor` names them; without any, those of the workers that
    /// are there
    #[arg(long, value_name = "KEY")]
    pub(crate) device: Vec<DeviceKey>,
    /// Candidates to measure for each kernel
    #[arg(long, value_name = "N")]
    pub(crate) trials: Option<u64>,
    /// Time for each kernel, such as `90s` or `10m`
    #[arg(long, value_name = "TIME")]
    pub(crate) budget: Option<Span>,
    /// Tune also what was tuned for these devices before
    #[arg(long)]
    pub(crate) again: bool,
    /// Send again what was set aside, failed or was not believed
    #[arg(long)]
    pub(crate) retry: bool,
    /// Wait so long for results, `0s` for not at all; the same command goes on later
    #[arg(long, value_name = "TIME")]
    pub(crate) wait: Option<Span>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct FleetStatus {
    #[command(flatten)]
    pub(crate) server: NatsServer,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Look for a GPU
    #[arg(long)]
    pub(crate) gpu: bool,
}

/// The place where a launch finds its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Operands {
    /// In memory
    Cold,
    /// In a cache, as far as they fit
    Warm,
}

/// A device of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Device {
    /// The CPU
    Cpu,
    /// The first GPU
    Cuda,
}

#[derive(Debug, Args)]
pub(crate) struct Train {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Rounds of improvement: in each, schedules that the function before would choose are measured
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) rounds: u32,
    /// Schedules of each kernel that a round measures, at most
    #[arg(long, value_name = "N", default_value_t = 24)]
    pub(crate) schedules: usize,
    /// Write the function also if it is no better than analysis
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Predict {
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) variants: Variants,
    /// The value function, instead of that of each package
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Accept {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Schedules of each instruction set and range to keep; builds use the first, searches on other
    /// devices begin with all
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) best: usize,
    /// Accept schedules whose results are further from exact ones than those of what they replace
    #[arg(long)]
    pub(crate) less_accurate: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Show how far results are from exact ones, on several classes of numbers, as records have it
    #[arg(long)]
    pub(crate) accuracy: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// Print the present state, and end
    #[arg(long)]
    pub(crate) once: bool,
    /// Print it as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) variants: Variants,
    /// Time the schedules used when nothing was measured, instead
    #[arg(long)]
    pub(crate) default: bool,
    /// Time default schedules by other orders of reductions, which change results, instead: an author may
    /// write one of them, `order = "lanes(64)"`
    #[arg(long, conflicts_with_all = ["default", "operands"])]
    pub(crate) orders: bool,
    /// Time launches that find all operands in memory, or in a cache, instead of each where the program
    /// finds it
    #[arg(long, value_name = "PLACE")]
    pub(crate) operands: Option<Operands>,
    /// Time on this device only, instead of on the CPU, and on the GPU what has code for GPUs
    #[arg(long, value_name = "DEVICE")]
    pub(crate) target: Option<Device>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Profile {
    /// The file that the application wrote
    pub(crate) file: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Buckets {
    /// The file that the application wrote with `TVMTUNE_TRACE`
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// How much slower than the fastest schedule a bucket may be at any extent, in percent
    #[arg(long, value_name = "PERCENT", default_value = "5", value_parser = percent)]
    pub(crate) within: f64,
    /// Extents of each kernel to time schedules at: those that took most time
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) extents: u16,
    /// Time on this device only, instead of on the CPU, and on the GPU for what has code for GPUs
    #[arg(long, visible_alias = "device", value_name = "DEVICE")]
    pub(crate) target: Option<Device>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Emulate {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// The target: `cuda:` and an architecture
    #[arg(long, value_name = "TARGET", default_value = "cuda:sm_90a", value_parser = str::parse::<GpuTarget>)]
    pub(crate) target: GpuTarget,
    /// Run at these extents, such as `N=1000`, instead of the least and some small ones of each bucket
    #[arg(long, value_name = "DIMS", value_delimiter = ',', value_parser = extent)]
    pub(crate) at: Vec<(String, i64)>,
    /// Run every setting that the constraints allow, instead of the default and those that differ from
    /// it in one knob
    #[arg(long)]
    pub(crate) all: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Compile {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// The target: `cuda:` and an architecture
    #[arg(long, value_name = "TARGET", default_value = "cuda:sm_90a", value_parser = str::parse::<GpuTarget>)]
    pub(crate) target: GpuTarget,
    /// Rank so many schedules of each kernel by the model of the GPU, compile the most promising,
    /// and keep the best that spills no registers, instead of the default schedule
    #[arg(long, value_name = "N")]
    pub(crate) best: Option<usize>,
    /// Predict for these extents, such as `M=128`, instead of the largest of each bucket; buckets
    /// without them are left out
    #[arg(long, value_name = "DIMS", value_delimiter = ',', value_parser = extent)]
    pub(crate) at: Vec<(String, i64)>,
    /// Leave source, PTX and cubins in this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) write: Option<PathBuf>,
    /// Keep what was compiled in your cache, as records of schedules that nobody measured; what was
    /// measured stays, also with `--best`
    #[arg(long, conflicts_with_all = ["write", "json", "at"])]
    pub(crate) record: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Instruction sets and GPU architectures to insist on, instead of those in `tvmtune.toml`
    #[arg(long, value_name = "ISA", value_delimiter = ',', value_parser = platform)]
    pub(crate) require: Vec<Platform>,
}

#[derive(Debug, Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Run kernels with fixed numerics by every schedule, default ones too, on every instruction set of this
    /// machine and on several numbers of threads: all bits are those of the definition
    #[arg(long)]
    pub(crate) bits: bool,
    /// Measure how far results of the code that a build would embed are from exact ones, on several classes
    /// of numbers
    #[arg(long, conflicts_with_all = ["bits", "shipped"])]
    pub(crate) accuracy: bool,
    /// Look at what the crate ships only, not at your cache
    #[arg(long)]
    pub(crate) shipped: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Upgrade {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Look at what the crate ships only, not at your cache
    #[arg(long)]
    pub(crate) shipped: bool,
    /// Carry over what makes the same code, mark what makes other code, and nothing else
    #[arg(long)]
    pub(crate) without_measuring: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The kernel's name, or a part of it
    pub(crate) name: String,
    /// Packages; without any, all members of the workspace that have kernels
    #[arg(short, long, value_name = "NAME")]
    pub(crate) package: Vec<String>,
    /// The manifest of the workspace or package
    #[arg(long, value_name = "PATH")]
    pub(crate) manifest_path: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) features: Features,
    #[command(flatten)]
    pub(crate) variants: Variants,
}

#[derive(Debug, Args)]
pub(crate) struct Merge {
    /// Folders of records
    #[arg(required = true, value_name = "FOLDER")]
    pub(crate) from: Vec<PathBuf>,
    /// The folder to add them to, instead of your cache
    #[arg(long, value_name = "FOLDER")]
    pub(crate) into: Option<PathBuf>,
    /// Take schedules whose results are further from exact ones than those of what they replace there
    #[arg(long, requires = "into")]
    pub(crate) less_accurate: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Gc {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Remove them
    #[arg(long)]
    pub(crate) apply: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Study {
    /// The study, such as `docs/studies/ablation.toml`
    pub(crate) file: PathBuf,
    /// The folder of results, which are read again; without it, `studies/` and the study's name
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// Trials for each layer, instead of those of the study
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) trials: Option<u64>,
    /// Wait so long before each cell until other programs are quiet, at most
    #[arg(long, value_name = "MINUTES", default_value_t = 0)]
    pub(crate) wait: u64,
    /// Run as little as shows that everything works
    #[arg(long)]
    pub(crate) smoke: bool,
    /// Measure nothing; write the report of what was measured before
    #[arg(long)]
    pub(crate) report_only: bool,
}

fn extent(text: &str) -> Result<(String, i64), String> {
    let parts = text.split_once('=').and_then(|(name, it)| Some((name, it.parse().ok()?)));
    let (name, extent) = parts.ok_or_else(|| "expected a dimension, such as M=128".to_owned())?;
    Ok((name.to_owned(), extent))
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|it: &f64| *it >= 0.0 && it.is_finite());
    number.ok_or_else(|| "expected a number that is not negative, such as 5".to_owned())
}

fn isa(name: &str) -> Result<Isa, String> {
    match Platform::from_name(name) {
        Some(Platform::Cpu(isa)) => Ok(isa),
        _ => Err("expected avx512 or avx2".to_owned()),
    }
}

fn platform(name: &str) -> Result<Platform, String> {
    let expected = || "expected avx512, avx2, or an architecture such as sm_90a".to_owned();
    Platform::from_name(name).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        Cli::command().debug_assert();
    }
}
