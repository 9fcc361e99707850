//! Schedules of other workloads as candidates for this one.
//!
//! In: a pool of [`Donor`]s, from records and from what was found since, and a program. Out:
//! [`Transfer`]s: traces that apply to the program and fit the target, those of the nearest donors
//! first. Next: the tuning loop ranks them by its cost model, measures the best few, and tells how
//! they did.
//!
//! # Invariants
//!
//! - The same pool, told the same, gives the same transfers in the same order.
//! - A transfer replays on the program it was made for, and fits the target.
//! - Text of a record that can't be read is a donor less, and no error.
//!
//! # Source
//!
//! Gibson and Cano, "Transfer-Tuning", 2022: schedules of the same class of kernels, factors as they
//! are. Classes of several strengths, other policies, and ranking by kernel are ours.

mod donor;
mod history;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use tvmtune_cuda::grid;
use tvmtune_ir::dag::Dag;
use tvmtune_ir::dag::anchor::Anchor;
use tvmtune_ir::poly::Poly;
use tvmtune_ir::target::{DeviceKey, Target};
use tvmtune_ir::workload::{self, ClassId, Strength, WorkloadId};
use tvmtune_plan::record::Ancestor;
use tvmtune_schedule::{FactorPolicy, Instruction, Schedule, nest, repair_by};
use tvmtune_space::fits;

use self::history::History;
use tvmtune_plan::database::devices_apart;

pub use self::donor::Donor;

/// Schedules that may suit other workloads too.
#[derive(Clone, Debug, Default)]
pub struct Donors {
    donors: Vec<Known>,
    /// The donors of a class, by number.
    classes: BTreeMap<(Strength, ClassId), Vec<usize>>,
    history: History,
}

/// A schedule of another workload, made to fit this one.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    /// It replays on the program, and fits the target.
    pub trace: Vec<Instruction>,
    /// Whose schedule it was.
    pub donor: WorkloadId,
    /// Where it was measured.
    pub device: DeviceKey,
    /// Its latency there.
    pub donor_ns: f64,
    /// What both programs have in common.
    pub strength: Strength,
    /// The class that both are in.
    pub class: ClassId,
    /// What became of its factors.
    pub policy: FactorPolicy,
    /// How far the donor is: the log ratios of extents, and what class and device add.
    pub distance: f64,
    /// How far its trace moved: see [`Repaired`](tvmtune_schedule::Repaired).
    pub moved: f64,
}

/// A donor, with what is asked about it often.
#[derive(Clone, Debug)]
struct Known {
    donor: Donor,
    /// The identity of the program for the ranges of the bucket.
    narrowed: WorkloadId,
}

/// A donor for a program.
struct Suitor<'a> {
    known: &'a Known,
    strength: Strength,
    class: ClassId,
    distance: f64,
    /// The distance, and what is held for or against it.
    rank: f64,
}

/// What it adds to the distance that a class is so wide.
fn penalty(strength: Strength) -> f64 {
    match strength {
        Strength::Shape => 0.0,
        Strength::Access => 4.0_f64.ln(),
        Strength::Anchor => 16.0_f64.ln(),
    }
}

/// What it adds to the rank that so many better schedules of the same workload are there.
const BESIDE: f64 = 0.5;
/// Schedules that are made for each one wanted: most fit.
const TRIES: usize = 8;

impl Transfer {
    /// What a record says of where the schedule came from; `device` is that of the record.
    pub fn ancestor(&self, device: &DeviceKey) -> Ancestor {
        let donor = Ancestor::donor(self.donor.clone(), self.donor_ns);
        if self.device == *device { donor } else { donor.on(self.device.clone()) }
    }
}

impl Donors {
    /// Adds a schedule.
    pub fn add(&mut self, donor: Donor) {
        let narrowed = workload::id(&donor.dag);
        self.add_known(Known { donor, narrowed }, None);
    }

    /// Adds a schedule; `classes` are those of its program, if they are known.
    fn add_known(&mut self, known: Known, classes: Option<&[ClassId; 3]>) {
        let computed = match classes {
            Some(classes) => classes.clone(),
            None => classes_of(&known.donor.dag),
        };
        let number = self.donors.len();
        for (strength, class) in Strength::ALL.into_iter().zip(computed) {
            self.classes.entry((strength, class)).or_default().push(number);
        }
        self.donors.push(known);
    }

    /// How many schedules there are.
    pub fn len(&self) -> usize {
        self.donors.len()
    }

    /// Whether there is no schedule.
    pub fn is_empty(&self) -> bool {
        self.donors.is_empty()
    }

    /// Up to `limit` schedules for a program, those of the nearest donors first, each donor's by
    /// several policies, none twice.
    pub fn candidates(&self, dag: &Dag, target: &Target, limit: usize) -> Vec<Transfer> {
        let (mut found, mut seen, mut n_tries) = (Vec::new(), BTreeSet::new(), 0);
        for suitor in self.suitors(dag, target) {
            let donor = &suitor.known.donor;
            let parsed: Result<Vec<Instruction>, _> =
                donor.trace.iter().map(|it| it.parse()).collect();
            let Ok(trace) = parsed else { continue };
            for policy in FactorPolicy::TRANSFER {
                if found.len() == limit || n_tries == limit.saturating_mul(TRIES) {
                    return found;
                }
                n_tries += 1;
                let Ok(repaired) = repair_by(policy, &trace, &donor.dag, dag) else { break };
                if !seen.insert(repaired.schedule.trace.clone())
                    || !is_fit(&repaired.schedule, target)
                {
                    continue;
                }
                found.push(Transfer {
                    trace: repaired.schedule.trace,
                    donor: donor.workload.clone(),
                    device: donor.device.clone(),
                    donor_ns: donor.median_ns,
                    strength: suitor.strength,
                    class: suitor.class.clone(),
                    policy,
                    distance: suitor.distance,
                    moved: repaired.distance,
                });
            }
        }
        found
    }

    /// Learns how a transfer did: whether it was better than all before it.
    pub fn tell(&mut self, transfer: &Transfer, succeeded: bool) {
        self.history.tell(&transfer.donor, &transfer.class, succeeded);
    }

    /// The donors for a program, the best first.
    fn suitors(&self, dag: &Dag, target: &Target) -> Vec<Suitor<'_>> {
        let (own, device) = (workload::id(dag), target.key());
        let (mut suitors, mut seen) = (Vec::new(), BTreeSet::new());
        for (strength, class) in Strength::ALL.into_iter().zip(classes_of(dag)) {
            if self.history.is_given_up(&class) {
                continue;
            }
            let members = self.classes.get(&(strength, class.clone()));
            for number in members.into_iter().flatten() {
                let known = &self.donors[*number];
                let is_own = known.narrowed == own && known.donor.device == device;
                let far = platforms_apart(&known.donor, target);
                let Some(far) = far.filter(|_| !is_own && seen.insert(*number)) else { continue };
                let extents = extents_apart(&known.donor.dag, dag, strength);
                let distance = extents + penalty(strength) + far;
                let rank = distance + self.history.penalty(&known.donor.workload, &class);
                suitors.push(Suitor { known, strength, class: class.clone(), distance, rank });
            }
        }
        // Of the schedules of one workload, the best one counts fully.
        suitors.sort_by(|a, b| a.known.donor.median_ns.total_cmp(&b.known.donor.median_ns));
        let mut n_before: BTreeMap<_, f64> = BTreeMap::new();
        for it in &mut suitors {
            let key = (&it.known.narrowed, &it.known.donor.device, it.known.donor.platform);
            let n = n_before.entry(key).or_default();
            it.rank += BESIDE * *n;
            *n += 1.0;
        }
        suitors.sort_by(|a, b| a.rank.total_cmp(&b.rank));
        suitors
    }
}

fn classes_of(dag: &Dag) -> [ClassId; 3] {
    Strength::ALL.map(|it| workload::class(dag, it))
}

/// How far apart two devices are that a schedule may suit; `None` for a CPU and a GPU.
fn platforms_apart(donor: &Donor, target: &Target) -> Option<f64> {
    /// Of two instruction sets, or two architectures.
    const OTHER: f64 = 1.0;
    /// For an octave of cache, or of threads.
    const OCTAVE: f64 = 0.1;
    let apart = devices_apart(&donor.device, &target.key());
    let other = if donor.platform == target.platform() { 0.0 } else { OTHER };
    apart.is_finite().then_some(apart * OCTAVE + other)
}

/// The sum of the log ratios of the extents of what takes most of the work.
fn extents_apart(donor: &Dag, dag: &Dag, strength: Strength) -> f64 {
    let Some(anchor) = Anchor::of(dag) else { return 0.0 };
    let place = match strength {
        // Computes are the same, one by one.
        Strength::Shape | Strength::Access => Some(anchor.compute),
        Strength::Anchor => Anchor::of(donor).map(|it| it.compute),
    };
    let compute = place.and_then(|it| donor.computes.get(it.0 as usize));
    let Some(compute) = compute else { return 0.0 };
    let facts = [donor.facts(), dag.facts()];
    let longest = |extent: &Poly, n: usize| extent.interval(&facts[n]).hi.max(1) as f64;
    let axes = compute.axes.iter().zip(&dag.compute(anchor.compute).axes);
    axes.map(|(a, b)| (longest(&a.extent, 0) / longest(&b.extent, 1)).ln().abs()).sum()
}

fn is_fit(schedule: &Schedule, target: &Target) -> bool {
    let nest = nest::lower(schedule);
    match target {
        Target::Cpu(cpu) => fits::cpu::fits(&nest, cpu).is_ok(),
        Target::Gpu(gpu) => {
            grid::place(&nest).is_ok_and(|grid| fits::gpu::fits(&grid, gpu).is_ok())
        }
    }
}
