//! Decides for each kernel of a build which schedule it runs by, and generates its code.
//!
//! In: an [`Op`], what the database knows of it, and the [`PlanTarget`]. Out: [`VariantSpec`]s, one for each
//! bucket and instruction set, and of each a [`Variant`] with its code. Next: [`crate::emit`].
//!
//! # Invariants
//!
//! - Code is generated here from a trace, never taken from a record: a database is data.
//! - A trace that doesn't apply is passed over for the next one; the default schedule is the last.
//! - A trace whose code is not the one that was measured is replayed where the recorded schedule was
//!   clearly faster, in its record, than what else there is, else the default schedule takes its place; its
//!   recorded time is not shown.
//! - Where no measurement compares a schedule with the default one, the cost model does.

use std::cell::LazyCell;
use std::path::Path;

use sha2::{Digest as _, Sha256};
use tvmtune_cpu::vector::Unsupported;
use tvmtune_cpu::{self, Generated};
use tvmtune_ir::dag::Dag;
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{CpuTarget, DeviceKey, GpuTarget, Isa};
use tvmtune_plan::contain::{Panicked, contained};
use tvmtune_plan::database::{Choice, Lookup};
use tvmtune_plan::embed;
use tvmtune_plan::record::{Bucket, Effort, Entry, Search, SearchLimits, Source, Tier};
use tvmtune_schedule::repair::repair;
use tvmtune_schedule::{Instruction, Schedule, nest};
use tvmtune_space::{cost, default};

use crate::op::Op;
use crate::report::TuningStatus;

/// The instruction sets a binary is prepared for, best first: it may travel.
pub const ISAS: [Isa; 2] = [Isa::Avx512, Isa::Avx2];

/// Costs in that of the default schedule, by the cost model: a schedule that has more is slower, mostly; one
/// that has less is faster, also if it was measured for other ranges, or beside another default schedule.
/// Chosen by measurement (docs/results/builds-zen3-2-cores.md): 109 schedules of other ranges with costs between
/// the two had 0.95 of the default schedule's speed in the mean, and a third of it at worst.
const MAX_COST: f64 = 1.25;
const CLEARLY_CHEAPER: f64 = 0.8;
/// The same for a replayed schedule that was compared with the very default schedule: its record knows more
/// than the model, which is wrong by less than this.
const MAX_REPLAYED_COST: f64 = 3.0;
/// Known schedules that are tried for a kernel before the default one is taken.
const MAX_TRIED: usize = 64;

/// The machine a build plans for.
#[derive(Clone, Copy, Debug)]
pub struct PlanTarget {
    /// This machine; `None` if the result must not depend on it.
    pub device: Option<CpuTarget>,
    /// Its GPU, if the package is for GPUs.
    pub gpu: Option<GpuTarget>,
    /// The limits of the search of one kernel.
    pub limits: SearchLimits,
}

/// One bucket of an op on one instruction set, and the schedules that are known for it.
pub struct VariantSpec<'a> {
    /// The range of each dynamic dimension.
    pub bucket: &'a [Interval],
    /// The instruction set.
    pub isa: Isa,
    /// Schedules of the database, best first; the default schedule is not among them.
    pub choices: Vec<Choice<'a>>,
}

/// The code of a variant spec.
pub struct Variant<'a> {
    /// The range of each dynamic dimension.
    pub bucket: &'a [Interval],
    /// The instruction set.
    pub isa: Isa,
    /// The tier of the schedule.
    pub tier: Tier,
    /// True if the code is not the one that was measured: another release made that of the same trace.
    pub stale: bool,
    /// The known schedule it runs by; `None` if that is the default one.
    pub choice: Option<Choice<'a>>,
    /// The record of a better schedule whose trace does not apply.
    pub flawed: Option<&'a Path>,
    /// The record of a better schedule whose code is not the one that was measured: another
    /// generator made that, or somebody edited the trace.
    pub outdated: Option<&'a Path>,
    /// The schedule.
    pub schedule: Schedule,
    /// The code.
    pub generated: Generated,
}

impl PlanTarget {
    /// The machine that kernels of that instruction set are planned for.
    pub fn target(&self, isa: Isa) -> CpuTarget {
        self.device.map_or(CpuTarget::generic(isa), |it| CpuTarget { isa, ..it })
    }

    /// The device whose records fit best.
    fn key(&self) -> DeviceKey {
        self.device.unwrap_or(CpuTarget::generic(ISAS[0])).key()
    }

    /// The instruction set whose plan tells how a build went.
    pub fn isa(&self) -> Isa {
        self.device.map_or(ISAS[0], |it| it.isa)
    }
}

/// Returns the known schedules for each bucket and instruction set of an op, bucket by bucket.
pub fn variant_specs<'a>(
    op: &'a Op,
    lookup: &'a Lookup,
    plan_target: &PlanTarget,
) -> Vec<VariantSpec<'a>> {
    let spec = |bucket: &'a Vec<Interval>, isa: Isa| {
        let cold = op.cold_operands(bucket, &plan_target.target(isa).into());
        let choices = lookup.choices(&plan_target.key(), bucket, isa, cold.as_deref());
        VariantSpec { bucket, isa, choices }
    };
    op.buckets.iter().flat_map(|bucket| ISAS.map(|isa| spec(bucket, isa))).collect()
}

/// Returns the time of one launch where the code of a schedule was measured for its bucket, in ns.
pub(crate) fn median_ns(choice: Option<Choice<'_>>, tier: Tier, stale: bool) -> Option<f64> {
    let measured = !stale && matches!(tier, Tier::Exact | Tier::SameIsa);
    choice.filter(|_| measured)?.entry.median_ns()
}

/// Returns the effort of finding a schedule, where that was measured on this device for these ranges.
pub(crate) fn effort(
    choice: Option<Choice<'_>>,
    bucket: &[Interval],
    limits: SearchLimits,
) -> Effort {
    let Some(choice) = choice.filter(|it| it.tier == Tier::Exact) else {
        return Effort::default();
    };
    let Some(recorded) = choice.record.bucket(bucket) else { return Effort::default() };
    match recorded.effort(limits) {
        effort if choice.is_as_used => effort,
        // The search was for launches that find other operands in memory: it begins anew.
        effort => Effort { seconds: 0.0, search: Search::Partial, ..effort },
    }
}

/// A digest of everything the code of an op follows from, but for the generator.
pub(crate) struct Digest(Sha256);

impl Digest {
    /// With what the code for CPUs follows from.
    pub(crate) fn new(
        op: &Op,
        variant_specs: &[VariantSpec<'_>],
        plan_target: &PlanTarget,
    ) -> Self {
        let mut digest = Self(Sha256::new());
        digest.add(op.name());
        digest.add(&op.text);
        digest.add(&format!("{:?}", plan_target.limits));
        for spec in variant_specs {
            digest.add(&format!("{:?} {}", spec.bucket, plan_target.target(spec.isa).key()));
            spec.choices.iter().for_each(|it| digest.add_choice(it));
        }
        digest
    }

    pub(crate) fn add(&mut self, text: &str) {
        self.0.update(text.as_bytes());
        self.0.update([0]);
    }

    pub(crate) fn add_choice(&mut self, choice: &Choice<'_>) {
        self.add(choice.tier.name());
        self.add(if choice.is_as_used { "" } else { "measured otherwise" });
        let efforts = choice.record.buckets.iter();
        efforts.for_each(|it| self.add(&format!("{} {} {}", it.trials, it.seconds, it.complete)));
        self.add(&choice.entry.artifact.to_string());
        self.add(if choice.entry.is_replayed() { "replayed" } else { "" });
        self.add(&choice.entry.median_ns().map_or(String::new(), |it| it.to_string()));
        choice.entry.trace.iter().for_each(|it| self.add(it));
    }

    pub(crate) fn finish(self) -> String {
        self.0.finalize().iter().map(|it| format!("{it:02x}")).collect()
    }
}

/// Why there is no machine code for an op.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoCode {
    /// None can be generated: it runs as portable Rust.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The compiler is to blame.
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

/// Generates the code of a variant spec.
///
/// # Errors
///
/// If there is no machine code for the op.
pub fn realize<'a>(
    op: &Op,
    spec: &VariantSpec<'a>,
    plan_target: &PlanTarget,
) -> Result<Variant<'a>, NoCode> {
    let generate = || generate(op, spec, plan_target);
    Ok(contained(op.name(), || op.text.clone(), generate)??)
}

fn generate<'a>(
    op: &Op,
    spec: &VariantSpec<'a>,
    plan_target: &PlanTarget,
) -> Result<Variant<'a>, Unsupported> {
    let dag = op.dag.specialize(spec.bucket);
    let VariantSpec { bucket, isa, .. } = *spec;
    let cpu = plan_target.target(isa);
    let default = LazyCell::new(|| default::schedule(&dag, &cpu.into()));
    let (mut flawed, mut replayed): (_, Option<Variant<'_>>) = (None, None);
    for choice in spec.choices.iter().take(MAX_TRIED) {
        let measured = matches!(choice.tier, Tier::Exact | Tier::SameIsa);
        if let Some(it) = &replayed
            && (!measured || it.choice.is_some_and(|it| it.clearly_beats(choice)))
        {
            break;
        }
        let Some(mut schedule) = schedule(op, choice, &dag) else {
            // A schedule for other extents need not apply here; one for these does.
            flawed = flawed.or_else(|| measured.then_some(choice.path));
            continue;
        };
        if choice.tier == Tier::Transferred {
            // They follow from the amount of work, which is another one here.
            schedule.set_threads(default.threads);
            let is_faster = || relative_cost(&schedule, &default, &cpu) <= CLEARLY_CHEAPER;
            if !choice.beats_default() || !is_faster() {
                continue;
            }
        }
        let Ok(mut generated) = tvmtune_cpu::generate(&schedule, isa) else { continue };
        let is_other = generated.artifact != choice.entry.artifact || choice.entry.is_replayed();
        let stale = measured && is_other;
        if stale && choice.entry.source == Source::Default {
            // The default schedule of today may be another one.
            schedule = default.clone();
            generated = tvmtune_cpu::generate(&schedule, isa)?;
        }
        let (tier, choice) = (choice.tier, Some(*choice));
        let variant = Variant {
            bucket,
            isa,
            tier,
            stale,
            choice,
            flawed: None,
            outdated: None,
            schedule,
            generated,
        };
        if !stale {
            let outdated = replayed.and_then(|it| it.choice).map(|it| it.path);
            return Ok(Variant { flawed, outdated, ..variant });
        }
        // Its time is that of other code: what was measured as it is now, and was about as fast, goes
        // before it.
        replayed = replayed.or(Some(variant));
    }
    if let Some(variant) = replayed {
        if variant.choice.is_some_and(|it| serves(&it, &variant.schedule, &default, &cpu)) {
            return Ok(Variant { flawed, ..variant });
        }
        let schedule = default.clone();
        let generated = tvmtune_cpu::generate(&schedule, isa)?;
        return Ok(Variant { flawed, schedule, generated, ..variant });
    }
    let schedule = default.clone();
    let generated = tvmtune_cpu::generate(&schedule, isa)?;
    let (tier, stale, choice, outdated) = (Tier::Default, false, None, None);
    Ok(Variant { bucket, isa, tier, stale, choice, flawed, outdated, schedule, generated })
}

impl Variant<'_> {
    /// The time of one launch where this code was measured for this bucket, in ns.
    pub fn median_ns(&self) -> Option<f64> {
        median_ns(self.choice, self.tier, self.stale)
    }

    /// The effort of finding the schedule.
    pub fn effort(&self, limits: SearchLimits) -> Effort {
        effort(self.choice, self.bucket, limits)
    }

    /// The tuning status.
    pub fn status(&self, limits: SearchLimits) -> TuningStatus {
        TuningStatus::new(self.tier, self.stale, self.effort(limits).search)
    }
}

/// Returns whether a replayed schedule is expected to be faster than the default one. Its record says so
/// if it was compared with the same one, as far as the cost model finds that possible; a release may have
/// made that another one. A time of other code alone is no reason.
fn serves(choice: &Choice<'_>, schedule: &Schedule, default: &Schedule, cpu: &CpuTarget) -> bool {
    if choice.entry.source == Source::Default {
        return true;
    }
    let is_same =
        |it: &Entry| default.trace.iter().map(Instruction::to_string).eq(it.trace.iter().cloned());
    let max_cost = match choice.recorded_default() {
        Some(it) if is_same(it) => MAX_REPLAYED_COST,
        Some(_) => CLEARLY_CHEAPER,
        None => MAX_COST,
    };
    choice.beats_default() && relative_cost(schedule, default, cpu) <= max_cost
}

/// Returns the cost of a schedule by the analytic cost model, in that of the default schedule.
fn relative_cost(schedule: &Schedule, default: &Schedule, cpu: &CpuTarget) -> f64 {
    let cycles = |it: &Schedule| cost::cycles(&nest::lower(it), cpu);
    cycles(schedule) / cycles(default)
}

/// A known schedule on the dag of a bucket; one that was made for other ranges is repaired.
pub(crate) fn schedule(op: &Op, choice: &Choice<'_>, dag: &Dag) -> Option<Schedule> {
    let trace = choice.entry.trace.iter().map(|it| it.parse());
    let trace: Vec<Instruction> = trace.collect::<Result<_, _>>().ok()?;
    if choice.tier != Tier::Transferred {
        return Schedule::replay(dag, &trace).ok();
    }
    let holds_it = |it: &&Bucket| it.schedules.iter().any(|it| std::ptr::eq(it, choice.entry));
    let made_for = op.dag.specialize(&choice.record.buckets.iter().find(holds_it)?.dims);
    Some(repair(&trace, &made_for, dag).ok()?.schedule)
}

/// The text of an op's plan: what the macro expands to.
pub fn text(op: &Op, variants: &[Variant<'_>], limits: SearchLimits) -> String {
    let embedded = variants.iter().map(|it| embed::Variant {
        bucket: it.bucket,
        tier: it.tier,
        median_ns: it.median_ns(),
        effort: it.effort(limits),
        generated: &it.generated,
    });
    embed::plan(&op.dag, &op.buckets, &embedded.collect::<Vec<_>>())
}
