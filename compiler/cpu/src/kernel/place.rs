//! Where local buffers live: in registers, if every element is known when code is generated; else
//! in the scratch memory of the thread.

use std::collections::{BTreeMap, BTreeSet};

use super::affine::{Affine, Coef};
use super::tree::{Item, Kind, Loop, Tree};
use super::{Base, Reg};
use tvmtune_ir::dag::TensorId;
use tvmtune_ir::poly::{Poly, VarId};
use tvmtune_ir::target::Isa;

/// Alignment of what is placed in scratch memory, in bytes: a cache line, and a vector.
const LINE_BYTES: i64 = 64;

/// Where a tensor lives.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Place {
    /// By offset in elements: that of lane 0, or of the one element that fills a register.
    Registers,
    /// At that many bytes from a base.
    Memory(Base, Poly),
}

/// Where local tensors live, and which registers stand for them at the moment.
#[derive(Debug, Default)]
pub(super) struct Places {
    places: BTreeMap<TensorId, Place>,
    homes: BTreeMap<TensorId, Vec<VarId>>,
    living: BTreeMap<Option<VarId>, Vec<TensorId>>,
    mapped: BTreeMap<(TensorId, i64), Reg>,
    /// Bytes of scratch memory.
    pub(super) scratch: Poly,
}

/// A vectorized loop in which lanes would share what each must have for itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotParallel(pub(super) VarId);

impl Places {
    pub(super) fn local(&self, tensor: TensorId) -> Option<&Place> {
        self.places.get(&tensor)
    }

    pub(super) fn in_registers(&self, tensor: TensorId) -> bool {
        self.places.get(&tensor) == Some(&Place::Registers)
    }

    /// The loops around every access of a local tensor, outermost first.
    pub(super) fn home(&self, tensor: TensorId) -> &[VarId] {
        self.homes.get(&tensor).map_or(&[], Vec::as_slice)
    }

    /// The tensors in registers that live for one iteration of a loop; without one, for a phase.
    pub(super) fn living_in(&self, var: Option<VarId>) -> Option<Vec<TensorId>> {
        self.living.get(&var).cloned()
    }

    pub(super) fn n_mapped(&self) -> usize {
        self.mapped.len()
    }

    pub(super) fn reg(&self, tensor: TensorId, offset: i64) -> Option<Reg> {
        self.mapped.get(&(tensor, offset)).copied()
    }

    pub(super) fn map(&mut self, tensor: TensorId, offset: i64, reg: Reg) {
        self.mapped.insert((tensor, offset), reg);
    }

    pub(super) fn forget(&mut self, tensors: &[TensorId]) {
        if !tensors.is_empty() {
            self.mapped.retain(|(tensor, _), _| !tensors.contains(tensor));
        }
    }
}

/// One access of a local tensor.
struct Use<'t> {
    offset: &'t Affine,
    affine: bool,
    loops: Vec<&'t Loop>,
    accumulates: bool,
}

/// Places every local tensor.
pub(super) fn choose(tree: &Tree<'_>, isa: Isa) -> Result<Places, NotParallel> {
    let mut places = Places::default();
    for phase in &tree.phases {
        choose_phase(tree, isa, phase, &mut places)?;
    }
    Ok(places)
}

fn choose_phase(
    tree: &Tree<'_>,
    isa: Isa,
    phase: &[Item],
    places: &mut Places,
) -> Result<(), NotParallel> {
    let uses = uses(tree, phase);
    let mut wanted = Vec::new();
    for (tensor, uses) in &uses {
        let home = common_prefix(uses);
        let groups = groups(tree, isa, uses, &home);
        let accumulates = uses.iter().any(|it| it.accumulates);
        wanted.push((!accumulates, groups.unwrap_or(usize::MAX), *tensor));
        places.homes.insert(*tensor, home);
    }
    check_lanes(tree, phase, places)?;
    wanted.sort_unstable();
    let mut left = isa.registers() as usize;
    let mut bytes = Poly::default();
    for (_, groups, tensor) in wanted {
        let place = if groups <= left {
            left -= groups;
            let home = places.home(tensor).last().copied();
            places.living.entry(home).or_default().push(tensor);
            Place::Registers
        } else {
            let in_lanes = uses[&tensor][0].loops.iter().find(|it| {
                matches!(it.kind, Kind::Lanes(_)) && places.home(tensor).contains(&it.var)
            });
            if let Some(lanes) = in_lanes {
                return Err(NotParallel(lanes.var));
            }
            let buffer = &tree.buffers[tensor.0 as usize];
            let at = bytes.clone();
            let size = buffer.size.clone() * buffer.dtype.bytes() as i64;
            bytes += size.ceil_div(LINE_BYTES, &tree.facts) * LINE_BYTES;
            Place::Memory(Base::Scratch, at)
        };
        places.places.insert(tensor, place);
    }
    places.scratch = places.scratch.greater(&bytes, &tree.facts);
    Ok(())
}

fn uses<'t>(tree: &'t Tree<'_>, phase: &'t [Item]) -> BTreeMap<TensorId, Vec<Use<'t>>> {
    let mut uses: BTreeMap<TensorId, Vec<Use<'t>>> = BTreeMap::new();
    Item::for_each_write(phase, &mut Vec::new(), &mut |write, path| {
        let loops = path.iter().filter_map(|it| match it {
            Item::Loop(it) => Some(it),
            _ => None,
        });
        let loops: Vec<&Loop> = loops.collect();
        let mut add = |access: &'t super::tree::Access, accumulates| {
            if tree.buffers[access.tensor.0 as usize].local {
                uses.entry(access.tensor).or_default().push(Use {
                    offset: &access.offset,
                    affine: access.gather.is_empty(),
                    loops: loops.clone(),
                    accumulates,
                });
            }
        };
        add(&write.target, write.reducer.is_some());
        write.for_each_read(&mut |read| add(read, false));
    });
    uses
}

fn common_prefix(uses: &[Use<'_>]) -> Vec<VarId> {
    let mut prefix: Vec<VarId> = uses[0].loops.iter().map(|it| it.var).collect();
    for it in &uses[1..] {
        let same = it.loops.iter().zip(&prefix).take_while(|(a, b)| a.var == **b).count();
        prefix.truncate(same);
    }
    prefix
}

/// How many registers hold a tensor; `None` if registers cannot.
///
/// Each access must name, for each vector, the same elements as every other one: vectors that
/// overlap without being equal would need elements moved between lanes.
fn groups(tree: &Tree<'_>, isa: Isa, uses: &[Use<'_>], home: &[VarId]) -> Option<usize> {
    let most = 2 * isa.registers() as usize;
    let lanes = i64::from(isa.lanes());
    let mut widths: BTreeMap<i64, i64> = BTreeMap::new();
    let mut vectors = BTreeSet::new();
    for it in uses {
        if !it.affine || !it.offset.dims.is_zero() {
            return None;
        }
        let mut bases = vec![(it.offset.constant, 1)];
        let mut is_vector = false;
        for (var, coefficient) in &it.offset.terms {
            let Coef::Const(step) = coefficient else { return None };
            let loop_ = it.loops.iter().find(|it| it.var == *var)?;
            if home.contains(var) || tree.var(*var).derived.is_some() {
                return None;
            }
            let next: Vec<(i64, i64)> = match loop_.kind {
                Kind::Unrolled(n) => (0..n).map(|at| (at * step, 0)).collect(),
                Kind::Lanes(n) if *step == 1 => {
                    is_vector = true;
                    (0..n).step_by(lanes as usize).map(|at| (at, lanes.min(n - at))).collect()
                }
                _ => return None,
            };
            if bases.len() * next.len() > most {
                return None;
            }
            bases = bases
                .iter()
                .flat_map(|(base, width)| {
                    next.iter().map(move |(at, w)| (base + at, *width.max(w)))
                })
                .collect();
        }
        vectors.insert(is_vector);
        for (base, width) in bases {
            let entry = widths.entry(base).or_insert(width);
            *entry = width.max(*entry);
        }
    }
    let ends = widths.iter().map(|(base, width)| base + width);
    let apart = ends.zip(widths.keys().skip(1)).all(|(end, next)| end <= *next);
    (vectors.len() == 1 && apart).then_some(widths.len())
}

/// Finds a vectorized loop whose lanes store to one element.
fn check_lanes(tree: &Tree<'_>, phase: &[Item], places: &Places) -> Result<(), NotParallel> {
    let mut found = None;
    Item::for_each_write(phase, &mut Vec::new(), &mut |write, path| {
        for item in path {
            if let Item::Loop(Loop { var, kind: Kind::Lanes(_), .. }) = item {
                let own = places.home(write.target.tensor).contains(var);
                let varies = tree.mentions(&write.target.offset, *var);
                if !own && !varies && write.reducer.is_none() {
                    found = Some(*var);
                }
            }
        }
    });
    found.map_or(Ok(()), |var| Err(NotParallel(var)))
}
