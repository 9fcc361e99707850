//! Implicit GEMM: the rows of a matrix tile go over one axis, or over the pixels of images (im2col).
//!
//! An image is rarely as wide as an instruction is high. So the 64 rows of an instruction are a box of
//! pixels: some images, some of their rows, some pixels of each, all powers of two. TMA copies boxes, and
//! each row of the matrix is a row of such a copy, in order. The box with the least padding is chosen.
//!
//! ```text
//! 32 images of 14 x 14:   16 images x 2 rows x 2 pixels; no padding
//! 56 x 56:                1 image x 8 rows x 8 pixels
//! 1 image of 28 x 28:     2 rows x 32 pixels, of which 4 are padding
//! ```
//!
//! # Source
//!
//! CUTLASS, `implicit_gemm_convolution.md`; boxes instead of runs of pixels.

use std::cmp::Reverse;

use super::mma::{Operands, Product, candidate, moves_with, product};
use crate::sketch::{Builder, Factor, Result};
use tvmtune_ir::dag::access::Access;
use tvmtune_ir::size::Size;
use tvmtune_schedule::{AxisId, StageId};

/// Columns of a panel.
pub(super) const PANEL: u64 = 64;
/// Rows of a WGMMA instruction: four warps with two halves of eight lines each.
pub(super) const ROWS: u64 = WARPS * HALVES * LINES;
const WARPS: u64 = 4;
const HALVES: u64 = 2;
const LINES: u64 = 8;

/// The tile of a thread block in warpgroups, instructions and panels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Side {
    /// Warpgroups along the rows.
    pub(super) warpgroups: u64,
    /// Instructions of a warpgroup along the rows.
    pub(super) each: u64,
    /// Panels of columns.
    pub(super) panels: u64,
}

impl Side {
    /// Returns a tile with one instruction along the rows of each warpgroup.
    pub(super) const fn new(warpgroups: u64, panels: u64) -> Self {
        Self { warpgroups, each: 1, panels }
    }

    /// Counts the instructions along the rows.
    pub(super) fn instructions(self) -> u64 {
        self.warpgroups * self.each
    }
}

/// The rows of instructions, over one axis or more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MmaRows {
    /// The axes, outermost first, and the iterations of each in an instruction: powers of two.
    pub(super) axes: Vec<(usize, u64)>,
    /// The axis along which instructions follow one another; they have one iteration of axes further
    /// out.
    pub(super) tall: usize,
    /// The rows are pixels of images.
    pub(super) is_im2col: bool,
}

impl MmaRows {
    /// Returns the iterations of an axis in so many instructions, if it is one of the rows.
    pub(super) fn tiled(&self, axis: usize, below: u64) -> Option<u64> {
        let (_, each) = self.axes.iter().find(|it| it.0 == axis)?;
        Some(if axis == self.tall { each * below } else { *each })
    }

    /// Returns the iterations of the tall axis in so many instructions.
    pub(super) fn high(&self, below: u64) -> u64 {
        self.tiled(self.tall, below).unwrap_or(1)
    }

    /// Counts the tiles of so many instructions.
    pub(super) fn n_tiles(&self, extents: &[u64], below: u64) -> u64 {
        let along =
            |axis: usize| self.tiled(axis, below).map_or(1, |it| extents[axis].div_ceil(it));
        self.axes.iter().map(|it| along(it.0)).size()
    }

    /// Returns whether at least half of the rows of instructions are no padding.
    pub(super) fn fill(&self, extents: &[u64]) -> bool {
        if self.is_im2col {
            let rows: u64 = self.axes.iter().map(|it| extents[it.0]).size();
            return 2 * rows > self.n_tiles(extents, 1) * ROWS;
        }
        self.axes.iter().all(|(axis, each)| extents[*axis] > each / 2)
    }

    /// Splits the axes of a stage: the tall axis by warpgroups and instructions (`below`) and its
    /// blocks by `order`, all axes by the fragment layout.
    pub(super) fn split(
        &self,
        b: &mut Builder,
        stage: StageId,
        order: &[Factor],
        below: [Factor; 2],
    ) -> Result<Loops> {
        let id = |axis: usize| AxisId(axis as u32);
        // Loops over the rows of a plain product have all iterations.
        let extent = |b: &Builder, axis: usize| match self.is_im2col {
            true => b.extent(stage, id(axis)),
            false => u64::MAX,
        };
        let mut left = ModesLeft { lines: LINES, halves: HALVES };
        let (mut beside, mut modes) = (Vec::new(), Vec::new());
        for (axis, each) in self.axes.iter().rev().filter(|it| it.0 != self.tall && it.1 > 1) {
            let own = left.take(*each, extent(b, *axis));
            let factors: Vec<Factor> = own.iter().map(|it| Factor::Fixed(it.1)).collect();
            let parts = b.split(stage, id(*axis), &factors)?;
            beside.insert(0, parts[0]);
            modes.splice(0..0, own.into_iter().map(|it| it.0).zip(parts.into_iter().skip(1)));
        }
        let own = left.take(self.high(1), extent(b, self.tall));
        let mut factors = order.to_vec();
        factors.extend(below);
        factors.extend(own.iter().map(|it| Factor::Fixed(it.1)));
        let parts = b.split(stage, id(self.tall), &factors)?;
        let (blocks, inside) = parts.split_at(1 + order.len());
        modes.splice(0..0, own.into_iter().map(|it| it.0).zip(inside.iter().skip(2).copied()));
        let loops_of = |mode: Mode| modes.iter().filter(|it| it.0 == mode).map(|it| it.1).collect();
        let halves: Vec<AxisId> = loops_of(Mode::Half);
        Ok(Loops {
            beside,
            first: blocks[0],
            ordered: blocks[1..].to_vec(),
            below: [inside[0], inside[1]],
            warps: loops_of(Mode::Warp),
            halves: halves[0],
            lines: loops_of(Mode::Line),
        })
    }
}

/// The loops over the rows of a stage.
pub(super) struct Loops {
    /// Over blocks: along all axes but the tall one, and along that with its `order`.
    pub(super) beside: Vec<AxisId>,
    pub(super) first: AxisId,
    pub(super) ordered: Vec<AxisId>,
    /// Over warpgroups, and instructions of each.
    pub(super) below: [AxisId; 2],
    /// Over warps, their halves, and lines of these; outermost first.
    pub(super) warps: Vec<AxisId>,
    pub(super) halves: AxisId,
    pub(super) lines: Vec<AxisId>,
}

/// A mode of the fragment layout: a factor of the row number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Warp,
    Half,
    Line,
}

/// The modes that no axis has taken yet.
struct ModesLeft {
    lines: u64,
    halves: u64,
}

impl ModesLeft {
    /// Takes the modes of the next axis further out, outermost first, each with its extent: `each`
    /// iterations of an axis of `extent`.
    fn take(&mut self, each: u64, extent: u64) -> Vec<(Mode, u64)> {
        let lines = each.min(self.lines);
        let halves = (each / lines).min(self.halves);
        let warps = each / lines / halves;
        (self.lines, self.halves) = (self.lines / lines, self.halves / halves);
        let all = [(Mode::Warp, warps), (Mode::Half, halves), (Mode::Line, lines)];
        let mut modes: Vec<_> = all.into_iter().filter(|it| it.1 > 1).collect();
        // Loops are no longer than the axis: then the outermost one has two iterations.
        if let Some((first, n)) = modes.first_mut().filter(|it| extent < each && it.1 > 2) {
            *n /= 2;
            let first = (*first, 2);
            modes.insert(0, first);
        }
        modes
    }
}

/// Returns the product that a reduction is for WGMMA: with pixels as rows, if they fill instructions.
pub(super) fn wgmma_product(b: &Builder, anchor: StageId) -> Option<Product> {
    let im2col = candidate(b, anchor, Operands::InOrder).filter(|it| {
        let rows = rows_of(b, anchor, *it, 1);
        rows.is_im2col && rows.fill(&b.extents(anchor))
    });
    im2col.or_else(|| product(b, anchor))
}

/// Returns the rows of a product in tiles of so many instructions.
pub(super) fn rows_of(b: &Builder, anchor: StageId, product: Product, below: u64) -> MmaRows {
    let extents = b.extents(anchor);
    let im2col = pixel_axes(b, anchor, product).and_then(|it| least_padded(&extents, &it, below));
    if let Some(im2col) = im2col {
        return im2col;
    }
    let few = extents[product.row] < ROWS;
    let outer = product.beside.filter(|it| few && moves_with(b, anchor, *it, product.row));
    let axes = match outer {
        Some(outer) if outer < product.row => vec![(outer, ROWS / LINES), (product.row, LINES)],
        _ => vec![(product.row, ROWS)],
    };
    MmaRows { tall: axes[0].0, axes, is_im2col: false }
}

/// Chooses the tile, and the axes of its rows, if these are pixels: the one for which tensor cores, shared
/// memory, and the second-level cache take least time for all tiles.
pub(super) fn side(b: &Builder, anchor: StageId, product: Product) -> Option<(Side, MmaRows)> {
    const SIDES: [Side; 6] = [
        Side::new(2, 4),
        Side::new(2, 2),
        Side::new(2, 1),
        Side::new(1, 4),
        Side::new(1, 2),
        Side::new(1, 1),
    ];
    let (extents, axes) = (b.extents(anchor), pixel_axes(b, anchor, product)?);
    let columns = extents[product.column];
    let cycles = |(side, rows): &(Side, MmaRows)| {
        let n_rows = side.instructions() * ROWS;
        let wide = (side.panels * PANEL).min(columns.next_power_of_two());
        let tiles = rows.n_tiles(&extents, side.instructions()) * columns.div_ceil(wide);
        let waves = tiles.div_ceil(b.gpu().multiprocessors.into());
        // Eighths of a cycle for 16 steps of a reduction of 2-byte numbers: an instruction takes as
        // long as its multiply-adds, or its reads; a single warpgroup waits a little between two;
        // copies come from the second-level cache, columns for both thread blocks of a cluster.
        let instruction = (wide / 2).max((ROWS + wide) / 4);
        let each = if side.warpgroups == 1 { 9 } else { 8 };
        let instructions = side.instructions() * instruction * each;
        waves * instructions.max((n_rows + wide / 2) * 6)
    };
    let fits = |side: Side, rows: &MmaRows| {
        let wide = side.panels == 1 || side.panels * PANEL < 2 * columns;
        wide && (side.warpgroups == 1 || rows.high(side.warpgroups) < 2 * extents[rows.tall])
    };
    let with_rows = |side: Side| {
        let rows = least_padded(&extents, &axes, side.instructions())?;
        fits(side, &rows).then_some((side, rows))
    };
    SIDES.into_iter().filter_map(with_rows).min_by_key(cycles)
}

/// Returns the axes of the pixels, if the operand with the rows is a tensor of images with contiguous
/// channels, read in windows or pixel by pixel.
fn pixel_axes(b: &Builder, anchor: StageId, product: Product) -> Option<Vec<usize>> {
    let n_spatial = b.n_spatial(anchor);
    let accesses = b.accesses(anchor);
    let is_of_row = |it: &&Access| it.depends_on(product.row) && !it.depends_on(product.column);
    let access = accesses.iter().find(is_of_row)?;
    let other = accesses.iter().find(|it| !is_of_row(it))?;
    let own = |it: &usize| access.depends_on(*it) && !other.depends_on(*it);
    let axes: Vec<usize> = (0..n_spatial).filter(own).collect();
    // Each moves along a dimension of its own, outer ones along outer ones.
    let dims: Option<Vec<usize>> = axes.iter().map(|it| dim_of(access, *it)).collect();
    let in_order = dims?.is_sorted_by(|a, b| a < b);
    let moves = |steps: &[i64]| steps.iter().any(|it| *it != 0);
    let is_window = |steps: &Option<Vec<i64>>| {
        steps.as_ref().is_some_and(|it| moves(&it[..n_spatial]) && moves(&it[n_spatial..]))
    };
    let is_im2col = axes.len() > 2 || access.steps.iter().any(is_window);
    (in_order && is_im2col && access.is_contiguous(product.depth)).then_some(axes)
}

/// The largest element stride of a TMA box.
const MAX_STEP: i64 = 8;

/// Returns the one dimension that an axis indexes, if a TMA box can follow it.
fn dim_of(access: &Access, axis: usize) -> Option<usize> {
    let step = |it: &Option<Vec<i64>>| it.as_ref().map(|it| it[axis]);
    let steps: Vec<i64> = access.steps.iter().map(step).collect::<Option<_>>()?;
    let mut moving = (0..steps.len()).filter(|it| steps[*it] != 0);
    let dim = moving.next()?;
    (moving.next().is_none() && (1..=MAX_STEP).contains(&steps[dim])).then_some(dim)
}

/// Returns the box of an instruction with the least padding of tiles; of those, the one with the longest
/// rows of pixels.
fn least_padded(extents: &[u64], axes: &[usize], below: u64) -> Option<MmaRows> {
    let size = |rows: &MmaRows| {
        let sides: Vec<u64> = axes.iter().rev().filter_map(|it| rows.tiled(*it, below)).collect();
        (rows.n_tiles(extents, below) * below, rows.n_tiles(extents, 1), Reverse(sides))
    };
    let all = axes.iter().enumerate().flat_map(|(n, tall)| {
        let outside = axes[..n].iter().map(|it| (*it, 1));
        let with = move |inside| MmaRows {
            axes: outside.clone().chain(inside).collect(),
            tall: *tall,
            is_im2col: true,
        };
        boxes(&axes[n..], ROWS).into_iter().map(with)
    });
    let fits = |it: &MmaRows| it.axes.iter().all(|(axis, each)| *each < 2 * extents[*axis]);
    all.filter(fits).min_by_key(size)
}

/// Returns all boxes of `n` iterations of some axes.
fn boxes(axes: &[usize], n: u64) -> Vec<Vec<(usize, u64)>> {
    let Some((axis, rest)) = axes.split_first() else {
        return if n == 1 { vec![Vec::new()] } else { Vec::new() };
    };
    let sides = (0..=n.ilog2()).map(|it| 1 << it);
    let with = |each: u64| {
        let inside = boxes(rest, n / each).into_iter();
        inside.map(move |it| [vec![(*axis, each)], it].concat())
    };
    sides.flat_map(with).collect()
}
