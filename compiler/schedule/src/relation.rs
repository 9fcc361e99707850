//! Index arithmetic of splits and fusions: extents of tiles, values of parent axes, tails.
//!
//! A stage's own axes count the whole tensor; the same stage computed at another one covers only the
//! region that is read there. So extents are derived anew for each region.

use super::{AxisId, Relation, Stage};
use tvmtune_ir::poly::{Facts, Poly};

/// The tiles of one split, for one extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiles {
    /// The extents of all parts, outermost first.
    pub extents: Vec<Poly>,
    /// Iterations of the parent for which one iteration of each part stands.
    pub strides: Vec<i64>,
}

/// Derives the tiles of an axis of `extent` split by `factors`.
///
/// Factors larger than what is left to tile are lowered to it, from the innermost outwards, so
/// that a tile longer than its axis costs nothing: the whole axis is one tile.
pub fn tiles(extent: &Poly, factors: &[u64], facts: &Facts) -> Tiles {
    let n = factors.len();
    let mut rest = extent.clone();
    let mut most = extent.interval(facts).hi.max(1);
    let mut stride = 1;
    let mut tiles = Tiles { extents: vec![Poly::default(); n + 1], strides: vec![1; n + 1] };
    for part in (1..=n).rev() {
        let factor = i64::try_from(factors[part - 1]).unwrap_or(i64::MAX).min(most);
        tiles.extents[part] = Poly::constant(factor);
        tiles.strides[part] = stride;
        rest = rest.ceil_div(factor, facts);
        most = (most - 1) / factor + 1;
        stride *= factor;
    }
    tiles.extents[0] = rest;
    tiles.strides[0] = stride;
    tiles
}

/// The extents of a stage's axes for the region that it computes.
#[derive(Clone, Debug)]
pub struct Extents {
    /// The extent of every axis, by id.
    pub by_axis: Vec<Poly>,
    /// For each relation, in order, the strides of its parts; empty for a fusion.
    pub strides: Vec<Vec<i64>>,
}

impl Extents {
    /// Derives the extents of every axis of a stage when its compute's axes have the extents `declared`.
    pub fn derive(stage: &Stage, mut declared: Vec<Poly>, facts: &Facts) -> Self {
        declared.resize(stage.axes.len(), Poly::default());
        let mut it = Self { by_axis: declared, strides: Vec::with_capacity(stage.relations.len()) };
        for relation in &stage.relations {
            match relation {
                Relation::Split { parent, parts, factors } => {
                    let tiles = tiles(it.get(*parent), factors, facts);
                    for (part, extent) in parts.iter().zip(tiles.extents) {
                        it.by_axis[part.0 as usize] = extent;
                    }
                    it.strides.push(tiles.strides);
                }
                Relation::Fuse { outer, inner, fused } => {
                    it.by_axis[fused.0 as usize] = it.get(*outer).clone() * it.get(*inner).clone();
                    it.strides.push(Vec::new());
                }
            }
        }
        it
    }

    /// The extent of one axis.
    pub fn get(&self, axis: AxisId) -> &Poly {
        &self.by_axis[axis.0 as usize]
    }

    /// Derives the value of every axis, by id, from those of the loops; other entries are ignored.
    pub fn values(&self, stage: &Stage, mut loops: Vec<Poly>, facts: &Facts) -> Vec<Poly> {
        for (relation, strides) in stage.relations.iter().zip(&self.strides).rev() {
            match relation {
                Relation::Split { parent, parts, .. } => {
                    let mut sum = Poly::default();
                    for (part, stride) in parts.iter().zip(strides) {
                        sum += loops[part.0 as usize].clone() * *stride;
                    }
                    loops[parent.0 as usize] = sum;
                }
                Relation::Fuse { outer, inner, fused } => {
                    let value = &loops[fused.0 as usize];
                    let (above, below) = value.div_mod(self.get(*inner), facts);
                    loops[outer.0 as usize] = above;
                    loops[inner.0 as usize] = below;
                }
            }
        }
        loops
    }

    /// The axes whose tiles cover more than the axis, in order of their splits: guards must keep
    /// their values below their extents.
    pub fn tails(&self, stage: &Stage) -> impl Iterator<Item = AxisId> {
        stage.relations.iter().zip(&self.strides).filter_map(|(relation, strides)| {
            let Relation::Split { parent, parts, .. } = relation else { return None };
            let covered = self.get(*parts.first()?).clone() * *strides.first()?;
            (covered != *self.get(*parent)).then_some(*parent)
        })
    }
}
