//! Code of an op for CUDA devices: that of the best schedule of each slot, with its images.
//!
//! In: [`VariantSpec`]s, and [`Sources`] of images. Out: [`Variant`]s, and the text of a plan. Next:
//! [`crate::emit`].

use std::path::Path;

use tvmtune_cuda::Generated;
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::gpu::Arch;
use tvmtune_plan::database::{Choice, ImageFile, Lookup};
use tvmtune_plan::embed::cuda as embed;
use tvmtune_plan::embed::cuda::ptx_version;
use tvmtune_plan::record::{Effort, Format, Image, SearchLimits, Source, Tier};
use tvmtune_schedule::Schedule;
use tvmtune_space::default;

use super::{Compiler, Planned, Sources, VariantSpec};
use crate::op::Op;
use crate::plan::{self, Digest, PlanTarget};
use crate::report::TuningStatus;

/// The code of a variant spec.
pub struct Variant<'a> {
    /// The range of each dynamic dimension.
    pub bucket: &'a [Interval],
    /// The architecture.
    pub arch: Arch,
    /// The tier of the schedule.
    pub tier: Tier,
    /// True if the code is not the one that was measured, since another generator or another compiler
    /// made that.
    pub stale: bool,
    /// The known schedule it runs by; `None` if that is the default one.
    pub choice: Option<Choice<'a>>,
    /// The schedule.
    pub schedule: Schedule,
    /// The code.
    pub generated: Generated,
    /// The same, compiled, the most specific first.
    pub images: Vec<ImageFile>,
}

/// Adds all that the code of the variant_specs follows from to a digest.
pub(crate) fn add_to_digest(
    digest: &mut Digest,
    variant_specs: &[VariantSpec<'_>],
    lookup: &Lookup,
) {
    for spec in variant_specs {
        digest.add(&format!("{:?} {}", spec.bucket, spec.target.key()));
        spec.choices.iter().for_each(|it| digest.add_choice(it));
    }
    lookup.images.hashes().for_each(|it| digest.add(&it.to_string()));
}

/// Plans the code of an op's variant_specs. Adds the records whose schedules do not apply to `flawed`.
pub(crate) fn plan<'a>(
    op: &Op,
    variant_specs: &[VariantSpec<'a>],
    plan_target: &PlanTarget,
    sources: &Sources<'_>,
    flawed: &mut Option<&'a Path>,
) -> Planned {
    let (mut planned, mut variants) = (Planned::default(), Vec::new());
    for spec in variant_specs {
        let variant = realize(op, spec, sources, flawed);
        if plan_target.gpu == Some(spec.target) {
            let status = variant.as_ref().map(|it| it.status(plan_target.limits));
            let effort = variant.as_ref().map(|it| it.effort(plan_target.limits));
            planned.seconds_left += effort.unwrap_or_default().seconds_left(plan_target.limits);
            planned.gpu = planned.gpu.max(Some(status.unwrap_or(TuningStatus::Default)));
        }
        match variant {
            Ok(variant) => variants.push(variant),
            Err(_) => planned.missing_archs.push(spec.arch().to_string()),
        }
    }
    planned.missing_archs.sort();
    planned.missing_archs.dedup();
    planned.text = text(op, &variants, plan_target.limits);
    let images = variants.into_iter().flat_map(|it| it.images);
    planned.includes = images.map(|it| (file_name(&it.image), it.bytes)).collect();
    planned
}

/// The code of a spec: by the best schedule of which there are images, or can be. Adds the records whose
/// schedules do not apply to `flawed`.
///
/// # Errors
///
/// The reason why there is no code.
pub fn realize<'a>(
    op: &Op,
    spec: &VariantSpec<'a>,
    sources: &Sources<'_>,
    flawed: &mut Option<&'a Path>,
) -> Result<Variant<'a>, String> {
    let dag = op.dag.specialize(spec.bucket);
    let (bucket, arch) = (spec.bucket, spec.arch());
    let variant = |schedule: Schedule, choice: Option<Choice<'a>>| {
        let generated = tvmtune_cuda::generate(&schedule).ok()?;
        let tier = choice.map_or(Tier::Default, |it| it.tier);
        let is_other =
            |it: Choice<'_>| it.entry.artifact != generated.artifact || it.entry.is_replayed();
        let stale = tier != Tier::Transferred && choice.is_some_and(is_other);
        let images = Vec::new();
        Some(Variant { bucket, arch, tier, stale, choice, schedule, generated, images })
    };
    let mut variants = Vec::new();
    for choice in &spec.choices {
        match plan::schedule(op, choice, &dag) {
            Some(schedule) => variants.extend(variant(schedule, Some(*choice))),
            None if choice.tier == Tier::Transferred => {}
            None => *flawed = flawed.or(Some(choice.path)),
        }
    }
    // Code that was measured as it is now goes before code of another generator. The choice of a model
    // for these ranges goes before measurements of other ranges: on an H200, none of eight such
    // schedules was faster than the default one.
    let has_chosen = variants.iter().any(Variant::is_chosen_for_its_ranges);
    variants.sort_by_key(|it| (it.stale, has_chosen && it.tier == Tier::Transferred));
    // A stale default schedule is no better than today's.
    variants.retain(|it| !it.stale || it.tier != Tier::Default);
    let default = default::schedule(&dag, &spec.target.into());
    variants.extend(variant(default, None));
    first_with_images(op, variants, sources)
}

/// Returns the first variant of which there are images, with these. One that was measured with images
/// of another compiler gives way to one that was measured with its own, and was about as fast.
fn first_with_images<'a>(
    op: &Op,
    variants: Vec<Variant<'a>>,
    sources: &Sources<'_>,
) -> Result<Variant<'a>, String> {
    let (mut recompiled, mut why) = (None::<Variant<'a>>, "no code can be generated".to_owned());
    for variant in variants {
        if recompiled.as_ref().is_some_and(|it| !variant.may_replace(it)) {
            break;
        }
        match sources.images(op, variant.arch, &variant.generated) {
            Ok(images) if variant.stale || variant.was_measured_by(&images) => {
                return Ok(Variant { images, ..variant });
            }
            Ok(images) => {
                recompiled = recompiled.or(Some(Variant { images, stale: true, ..variant }));
            }
            Err(error) => why = error,
        }
    }
    recompiled.ok_or(why)
}

impl Sources<'_> {
    /// The images of some code for an architecture.
    ///
    /// # Errors
    ///
    /// The reason why there are none.
    pub fn images(
        &self,
        op: &Op,
        arch: Arch,
        generated: &Generated,
    ) -> Result<Vec<ImageFile>, String> {
        match (self.known.of(arch, &generated.artifact), self.compiler) {
            ([], Some(compiler)) => compiler.images(op.name(), arch, generated),
            ([], None) => Err("no record has code, and nothing compiles here".to_owned()),
            (known, _) => Ok(known.to_vec()),
        }
    }
}

impl Variant<'_> {
    /// Returns whether a cost model chose it for these ranges, and nobody measured it.
    fn is_chosen_for_its_ranges(&self) -> bool {
        let is_chosen = |it: Choice<'_>| it.entry.source != Source::Default;
        self.tier == Tier::Default && self.choice.is_some_and(is_chosen)
    }

    /// Returns whether its measurement, if it has one, is not known to be one of other machine code than
    /// the most specific of the images.
    fn was_measured_by(&self, images: &[ImageFile]) -> bool {
        let image = images.first().map(|it| &it.image);
        let is_measured = matches!(self.tier, Tier::Exact | Tier::SameIsa);
        !is_measured || self.choice.is_none_or(|it| it.entry.was_measured_by(image))
    }

    /// Returns whether it may be used instead of a variant that was measured with other machine code.
    fn may_replace(&self, recompiled: &Self) -> bool {
        let is_measured = matches!(self.tier, Tier::Exact | Tier::SameIsa) && !self.stale;
        is_measured
            && self.choice.is_some_and(|it| {
                recompiled.choice.is_none_or(|recompiled| !recompiled.clearly_beats(&it))
            })
    }

    /// The time of one launch where this code was measured for this bucket, in ns.
    pub fn median_ns(&self) -> Option<f64> {
        plan::median_ns(self.choice, self.tier, self.stale)
    }

    /// The effort of finding the schedule.
    pub fn effort(&self, limits: SearchLimits) -> Effort {
        plan::effort(self.choice, self.bucket, limits)
    }

    /// The tuning status.
    pub fn status(&self, limits: SearchLimits) -> TuningStatus {
        TuningStatus::new(self.tier, self.stale, self.effort(limits).search)
    }
}

/// The name of an image in the folder of plans: that of what is in it.
fn file_name(image: &Image) -> String {
    format!("{}.{}", image.sha256, image.format.extension())
}

/// The part of an op's plan that is for CUDA devices; empty if there is none.
fn text(op: &Op, variants: &[Variant<'_>], limits: SearchLimits) -> String {
    let image = |ImageFile { image, bytes }: &ImageFile| {
        let format = match image.format {
            Format::Cubin => embed::Format::Cubin,
            Format::Ptx => embed::Format::Ptx(ptx_version(std::str::from_utf8(bytes).ok()?)?),
        };
        Some(embed::Image { arch: image.arch, format, file: file_name(image) })
    };
    let images: Vec<Vec<embed::Image>> =
        variants.iter().map(|it| it.images.iter().filter_map(image).collect()).collect();
    let embedded = variants.iter().zip(&images).map(|(it, images)| embed::Variant {
        bucket: it.bucket,
        arch: it.arch,
        tier: it.tier,
        median_ns: it.median_ns(),
        effort: it.effort(limits),
        generated: &it.generated,
        images,
    });
    embed::plan(&op.dag, &op.buckets, &embedded.collect::<Vec<_>>())
}

#[cfg(feature = "tune")]
impl Compiler {
    fn images(
        &self,
        name: &str,
        arch: Arch,
        generated: &Generated,
    ) -> Result<Vec<ImageFile>, String> {
        let mut files = tvmtune_plan::database::Files::default();
        let source = (&*format!("{name}.cu"), generated);
        let images = self.0.images(source, arch, &mut files).map_err(|it| it.to_string())?;
        let file = |image: Image| {
            let bytes = files.get(&image.sha256)?.to_vec();
            Some(ImageFile { image, bytes })
        };
        Ok(images.into_iter().filter_map(file).collect())
    }
}

#[cfg(not(feature = "tune"))]
impl Compiler {
    fn images(&self, _: &str, _: Arch, _: &Generated) -> Result<Vec<ImageFile>, String> {
        match self.0 {}
    }
}
