//! Schedule spaces: traces with open arguments.
//!
//! In: a [`Dag`] and a [`Target`]. Out: [`Sketch`]es. A sketch fixes which primitives are applied, in
//! which order; the numbers in them (factors, layouts, orders of loops, numbers of threads) are
//! [`Decision`]s. An option for each decision gives a trace. Next: search picks options;
//! [`super::default`] takes those of the analytic cost model.
//!
//! ```text
//! Dag -> fusion groups (`fusion`) -> templates (`cpu`, `gpu`) -> primitives and decisions (`builder`)
//! ```
//!
//! # Invariants
//!
//! - Every instruction list of a sketch hands out the same ids, whatever the options.
//! - Options are sorted where neighbors resemble each other ([`DecisionKind::is_ordered`]).
//! - `default` holds one option for each decision.
//!
//! # Layers
//!
//! A module uses those above it only: `types`; `builder`, `scatter`, `ragged`, `fusion_group`; `template`, `layout`; `cpu`
//! and `gpu`, templates with the analysis that they and fusion ask for; `fusion`, `chain`, `scan`; this
//! module.
//! `ansor`, `encode`, `hand_written` and `import_trace` stand beside the templates.
//!
//! # Source
//!
//! Sketches: Ansor (Zheng et al., OSDI 2020). Decisions as data: TVM's `MetaSchedule`. Instead of
//! one tiling structure for all programs, each template here comes with the analytic choice that
//! makes its sketch a good default.

mod ansor;
mod builder;
mod chain;
mod cpu;
mod encode;
mod fusion;
mod fusion_group;
#[cfg(feature = "cuda")]
mod gpu;
#[cfg(not(feature = "cuda"))]
#[path = "no_gpu.rs"]
mod gpu;
mod hand_written;
mod import_trace;
mod layout;
mod ragged;
mod scan;
mod scatter;
mod template;
mod types;

pub use self::ansor::ansor;
pub use self::encode::Encoded;
pub use self::hand_written::Knobs;
pub use self::types::{Decision, DecisionId, DecisionKind, Factor, Sketch, Step, TemplateKind};

use self::builder::Builder;
use self::fusion_group::{FusionGroup, Rows, Tiled};
use self::template::{Bound, Template};
use self::types::Result;
use tvmtune_ir::dag::Dag;
use tvmtune_ir::target::Target;

/// No dag has more sketches than this: up to here the templates of all groups are combined, beyond
/// it one group at a time leaves its best one.
const MAX_SKETCHES: usize = 24;

/// Returns the sketches of a dag on a target, at least one; the first holds the default schedule.
pub fn sketches(dag: &Dag, target: &Target) -> Vec<Sketch> {
    if let Some(written) = hand_written::sketch(dag, target) {
        return vec![written];
    }
    let mut start = Builder::new(dag, target);
    start.decompose_into_phases();
    start.multiply_by_reciprocals();
    start.inline_stages();
    start.hoist_operands();
    let mut sketches = Vec::new();
    let factored = start.with_factors_out();
    if let Some(groups) = chain::fuse_chains(&factored, &factored.fusion_groups()) {
        sketches.extend(factored.sketches_of(&groups));
    }
    if let Target::Gpu(_) = target
        && let Some(split) = gpu::split_k(&start)
    {
        sketches.extend(split.sketches_of(&split.fusion_groups()));
    }
    for scanned in scan::variants(&start) {
        sketches.extend(scanned.sketches_of(&scanned.fusion_groups()));
    }
    let groups = start.fusion_groups();
    sketches.extend(start.sketches_of(&groups));
    if sketches.is_empty() {
        sketches.push(start.sketch_of_what_applies(&groups));
    }
    sketches
}

impl Builder {
    /// Returns the sketches in which each of these groups runs on its own.
    fn sketches_of(&self, groups: &[FusionGroup]) -> Vec<Sketch> {
        let cycles = self.cycles_of_all();
        let templates: Vec<Vec<Bound<'_>>> = groups.iter().map(|it| self.templates(it)).collect();
        let mut sketches: Vec<Sketch> = Vec::new();
        for choice in combinations(&templates.iter().map(Vec::len).collect::<Vec<_>>()) {
            let mut b = self.clone();
            let mut chosen = choice.iter().zip(&templates).map(|(n, it)| &it[*n]);
            let applied = chosen.all(|schedule| schedule(&mut b).is_ok());
            if applied && (b.is_gpu() || b.decide_threads(cycles).is_ok()) {
                sketches.push(b.finish());
            }
        }
        sketches
    }

    /// Returns the sketch in which each group runs by its first template that is not refused. Where all are, its
    /// loops run as the program wrote them.
    fn sketch_of_what_applies(&self, groups: &[FusionGroup]) -> Sketch {
        let mut b = self.clone();
        for group in groups {
            let apply = |schedule: &Bound<'_>| {
                let mut with = b.clone();
                schedule(&mut with).is_ok().then_some(with)
            };
            let applied = self.templates(group).iter().find_map(apply);
            b = applied.unwrap_or(b);
        }
        let mut threaded = b.clone();
        if !b.is_gpu() && threaded.decide_threads(self.cycles_of_all()).is_ok() {
            b = threaded;
        }
        b.finish()
    }

    /// Returns the estimated cycles of the whole program on a CPU, by which it gets its threads.
    fn cycles_of_all(&self) -> f64 {
        match self.target {
            Target::Cpu(_) => self.cycles(&self.schedule.order).max(self.memory_cycles()),
            Target::Gpu(_) => 0.0,
        }
    }

    /// Returns the templates of a group, the most promising first.
    fn templates<'a>(&self, group: &'a FusionGroup) -> Vec<Bound<'a>> {
        match self.target {
            Target::Cpu(_) => cpu::templates(self, group),
            Target::Gpu(_) => gpu::templates(self, group),
        }
    }
}

/// Returns which template each group takes: all combinations if they are few, else one group at a
/// time leaves template 0.
fn combinations(n_templates: &[usize]) -> Vec<Vec<usize>> {
    let start = vec![0; n_templates.len()];
    let with = |choice: &Vec<usize>, group: usize, template: usize| {
        let mut choice = choice.clone();
        choice[group] = template;
        choice
    };
    let n_all = n_templates.iter().try_fold(1_usize, |n, it| n.checked_mul(*it));
    if n_all.is_none_or(|it| it > MAX_SKETCHES) {
        let mut some = vec![start.clone()];
        for (group, n) in n_templates.iter().enumerate() {
            some.extend((1..*n).map(|template| with(&start, group, template)));
        }
        some.truncate(MAX_SKETCHES);
        return some;
    }
    let mut all = vec![start];
    for (group, n) in n_templates.iter().enumerate() {
        let choices = |template: usize| all.iter().map(move |it| with(it, group, template));
        all = (0..*n).flat_map(choices).collect();
    }
    all
}

#[cfg(test)]
mod tests;
