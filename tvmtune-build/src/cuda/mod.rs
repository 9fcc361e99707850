//! Decides which code a crate embeds for CUDA devices.
//!
//! In: an [`Op`], what the database knows of it, and GPUs, each of another architecture. Out:
//! [`VariantSpec`]s, one for each bucket and GPU, and with the feature `cuda` their code. Next:
//! [`crate::emit`].
//!
//! A crate without records of GPUs, whose `tvmtune.toml` names none, has no [`VariantSpec`]s: nothing
//! here costs its build anything.
//!
//! # Invariants
//!
//! - An image (a cubin, or PTX) is embedded if it was compiled from the CUDA source that this version
//!   generates for the schedule, and comes from a trusted store ([`Images`]).
//! - Only builds that may tune compile. Other builds embed recorded images, so they are reproducible.

#[cfg(feature = "cuda")]
mod code;
// The same interface, for builds without a code generator for GPUs.
#[cfg(not(feature = "cuda"))]
#[path = "left_out.rs"]
mod code;

use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::gpu::Arch;
use tvmtune_ir::target::{GpuTarget, Platform};
use tvmtune_plan::database::{Choice, Images, Lookup};

#[cfg(feature = "cuda")]
pub use self::code::{Variant, realize};
pub(crate) use self::code::{add_to_digest, plan};
use crate::config::Config;
use crate::op::Op;
use crate::report::TuningStatus;

/// One bucket of an op on one GPU, and the schedules that are known for it.
pub struct VariantSpec<'a> {
    /// The range of each dynamic dimension.
    pub bucket: &'a [Interval],
    /// The GPU, which stands for all of its architecture.
    pub target: GpuTarget,
    /// Schedules of the database, best first.
    pub choices: Vec<Choice<'a>>,
}

/// Sources of images.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// Those of records.
    pub known: &'a Images,
    /// The compiler of those that are missing.
    pub compiler: Option<&'a Compiler>,
}

/// Compiles what records have no images of, with the NVRTC of the machine.
#[cfg(all(feature = "tune", feature = "cuda"))]
pub struct Compiler(tvmtune_tuner::compile::Compiler<'static>);

/// A build without the tuner, or without code for GPUs, has no compiler.
#[cfg(not(all(feature = "tune", feature = "cuda")))]
pub struct Compiler(std::convert::Infallible);

impl Compiler {
    /// `None` if there is no NVRTC.
    pub fn find() -> Option<Self> {
        #[cfg(all(feature = "tune", feature = "cuda"))]
        {
            let cache = tvmtune_plan::database::Cache::discover();
            tvmtune_tuner::compile::Compiler::of_machine(cache.as_ref()).map(Self)
        }
        #[cfg(not(all(feature = "tune", feature = "cuda")))]
        None
    }

    /// Its version, `(13, 2)`.
    pub(crate) fn version(&self) -> (u32, u32) {
        #[cfg(all(feature = "tune", feature = "cuda"))]
        return self.0.version();
        #[cfg(not(all(feature = "tune", feature = "cuda")))]
        match self.0 {}
    }
}

/// The part of an op's plan that is for CUDA devices.
#[derive(Default)]
pub(crate) struct Planned {
    /// Rust source; empty if there is none.
    pub(crate) text: String,
    /// The files that the text includes, by name.
    pub(crate) includes: Vec<(String, Vec<u8>)>,
    /// The tuning status of the variant for the GPU of this machine, if one was looked for.
    pub(crate) gpu: Option<TuningStatus>,
    /// The time that the rest of its search may take, in seconds.
    pub(crate) seconds_left: f64,
    /// Architectures that code was asked for and that have none.
    pub(crate) missing_archs: Vec<String>,
}

/// The GPUs that code of an op is embedded for, one of each architecture, the newest first. That of
/// this machine stands for its architecture, if the package has code for that.
pub fn targets(config: &Config, lookup: &Lookup, here: Option<GpuTarget>) -> Vec<GpuTarget> {
    let of_records = || {
        let trusted = lookup.records.iter().filter(|it| it.store.is_trusted());
        let schedules = trusted.flat_map(|it| &it.record.buckets).flat_map(|it| &it.schedules);
        let arch = |platform| match platform {
            Platform::Cuda(arch) => Some(arch),
            Platform::Cpu(_) => None,
        };
        schedules.filter_map(|it| arch(it.platform)).collect::<Vec<_>>()
    };
    let mut archs: Vec<Arch> = match (&config.targets.cuda, here) {
        (Some(it), Some(here)) if it.native => [&*it.archs, &[here.arch]].concat(),
        // A build that does not look for a GPU embeds what earlier ones found for it.
        (Some(it), None) if it.native => [it.archs.clone(), of_records()].concat(),
        (Some(it), _) => it.archs.clone(),
        (None, _) => of_records(),
    };
    archs.sort_unstable_by(|a, b| b.cmp(a));
    archs.dedup();
    let target = |arch| here.filter(|it| it.arch == arch).unwrap_or(GpuTarget::generic(arch));
    archs.into_iter().map(target).collect()
}

/// Returns whether a package has code for GPUs, as far as is known without asking for a GPU.
pub fn is_wanted(config: &Config, lookups: &[Lookup]) -> bool {
    let native = config.targets.cuda.as_ref().is_some_and(|it| it.native);
    native || lookups.iter().any(|it| !targets(config, it, None).is_empty())
}

/// Returns the known schedules for each bucket and GPU of an op, bucket by bucket.
pub fn variant_specs<'a>(
    op: &'a Op,
    lookup: &'a Lookup,
    targets: &[GpuTarget],
) -> Vec<VariantSpec<'a>> {
    let spec = |bucket: &'a Vec<Interval>, target: &GpuTarget| {
        let cold = op.cold_operands(bucket, &(*target).into());
        let choices = lookup.choices(&target.key(), bucket, target.arch, cold.as_deref());
        VariantSpec { bucket, target: *target, choices }
    };
    op.buckets.iter().flat_map(|it| targets.iter().map(move |target| spec(it, target))).collect()
}

impl VariantSpec<'_> {
    /// The architecture.
    pub fn arch(&self) -> Arch {
        self.target.arch
    }
}
