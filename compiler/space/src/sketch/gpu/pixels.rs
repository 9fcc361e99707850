//! Over which axes the rows of a matrix tile go: one, or those of the pixels of pictures.
//!
//! A picture is rarely as wide as an instruction is high. So the 64 rows of an instruction are a box
//! of pixels: some pictures, some of their rows, some pixels of each, all powers of two. Boxes are
//! what the hardware copies, and each row of a matrix is then a row of such a copy, in order. Of all
//! boxes the one is taken that sticks out of the pictures least.
//!
//! ```text
//! 32 pictures of 14 x 14:   16 pictures x 2 rows x 2 pixels; nothing sticks out
//! 56 x 56:                  1 picture x 8 rows x 8 pixels
//! 1 picture of 28 x 28:     2 rows x 32 pixels, of which 4 stick out
//! ```

use std::cmp::Reverse;

use super::tensor::{Product, candidate, moves_with, product};
use crate::sketch::Factor;
use crate::sketch::builder::Builder;
use tvmtune_ir::dag::access::Access;
use tvmtune_schedule::error::ScheduleError;
use tvmtune_schedule::{AxisId, StageId};

/// Columns of a panel.
pub(super) const PANEL: u64 = 64;
/// Rows of an instruction: four warps with two halves each of so many lines.
pub(super) const ROWS: u64 = WARPS * HALVES * LINES;
const WARPS: u64 = 4;
const HALVES: u64 = 2;
const LINES: u64 = 8;

/// The rows of instructions, over one axis or more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rows {
    /// The axes, outermost first, and how many iterations of each an instruction has: powers of two.
    pub(super) axes: Vec<(usize, u64)>,
    /// The axis along which instructions lie below one another; of those further out they have one
    /// iteration.
    pub(super) tall: usize,
    /// Whether they are pixels of pictures.
    pub(super) are_pixels: bool,
}

impl Rows {
    /// How much of an axis so many instructions have, if it is one of these.
    pub(super) fn tiled(&self, axis: usize, below: u64) -> Option<u64> {
        let (_, each) = self.axes.iter().find(|it| it.0 == axis)?;
        Some(if axis == self.tall { each * below } else { *each })
    }

    /// How much of the axis along which they lie below one another so many instructions have.
    pub(super) fn high(&self, below: u64) -> u64 {
        self.tiled(self.tall, below).unwrap_or(1)
    }

    /// How many tiles of so many instructions there are.
    pub(super) fn n_tiles(&self, extents: &[u64], below: u64) -> u64 {
        let along =
            |axis: usize| self.tiled(axis, below).map_or(1, |it| extents[axis].div_ceil(it));
        self.axes.iter().map(|it| along(it.0)).product()
    }

    /// Whether at least half of the rows of instructions are some.
    pub(super) fn fill(&self, extents: &[u64]) -> bool {
        if self.are_pixels {
            let rows: u64 = self.axes.iter().map(|it| extents[it.0]).product();
            return 2 * rows > self.n_tiles(extents, 1) * ROWS;
        }
        self.axes.iter().all(|(axis, each)| extents[*axis] > each / 2)
    }

    /// Splits the axes of a stage: by so many groups and instructions below one another, and the
    /// blocks of the first axis by `order`.
    pub(super) fn split(
        &self,
        b: &mut Builder,
        stage: StageId,
        order: &[Factor],
        below: [Factor; 2],
    ) -> Result<Loops, ScheduleError> {
        let id = |axis: usize| AxisId(axis as u32);
        // Of products, loops stay as short as there are rows.
        let extent = |b: &Builder, axis: usize| match self.are_pixels {
            true => b.extent(stage, id(axis)),
            false => u64::MAX,
        };
        let mut left = Digits { lines: LINES, halves: HALVES };
        let (mut beside, mut digits) = (Vec::new(), Vec::new());
        for (axis, each) in self.axes.iter().rev().filter(|it| it.0 != self.tall && it.1 > 1) {
            let own = left.take(*each, extent(b, *axis));
            let factors: Vec<Factor> = own.iter().map(|it| Factor::Fixed(it.1)).collect();
            let parts = b.split(stage, id(*axis), &factors)?;
            beside.insert(0, parts[0]);
            digits.splice(0..0, own.into_iter().map(|it| it.0).zip(parts.into_iter().skip(1)));
        }
        let own = left.take(self.high(1), extent(b, self.tall));
        let mut factors = order.to_vec();
        factors.extend(below);
        factors.extend(own.iter().map(|it| Factor::Fixed(it.1)));
        let parts = b.split(stage, id(self.tall), &factors)?;
        let (blocks, inside) = parts.split_at(1 + order.len());
        digits.splice(0..0, own.into_iter().map(|it| it.0).zip(inside.iter().skip(2).copied()));
        let of = |digit: Digit| digits.iter().filter(|it| it.0 == digit).map(|it| it.1).collect();
        let halves: Vec<AxisId> = of(Digit::Half);
        Ok(Loops {
            beside,
            first: blocks[0],
            ordered: blocks[1..].to_vec(),
            below: [inside[0], inside[1]],
            warps: of(Digit::Warp),
            halves: halves[0],
            lines: of(Digit::Line),
        })
    }
}

/// The loops over the rows of a stage.
pub(super) struct Loops {
    /// Over blocks: along all axes but the first, and along the first with what that is split by.
    pub(super) beside: Vec<AxisId>,
    pub(super) first: AxisId,
    pub(super) ordered: Vec<AxisId>,
    /// Over groups, and instructions below one another.
    pub(super) below: [AxisId; 2],
    /// Over warps, their halves, and lines of these; outermost first.
    pub(super) warps: Vec<AxisId>,
    pub(super) halves: AxisId,
    pub(super) lines: Vec<AxisId>,
}

/// What a digit of a row's number in an instruction counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Digit {
    Warp,
    Half,
    Line,
}

/// How many lines and halves no axis counts yet.
struct Digits {
    lines: u64,
    halves: u64,
}

impl Digits {
    /// The digits of the next axis further out, outermost first, with how many values each has: so
    /// many iterations, of more than half as many that there are.
    fn take(&mut self, each: u64, extent: u64) -> Vec<(Digit, u64)> {
        let lines = each.min(self.lines);
        let halves = (each / lines).min(self.halves);
        let warps = each / lines / halves;
        (self.lines, self.halves) = (self.lines / lines, self.halves / halves);
        let all = [(Digit::Warp, warps), (Digit::Half, halves), (Digit::Line, lines)];
        let mut digits: Vec<_> = all.into_iter().filter(|it| it.1 > 1).collect();
        // Loops are no longer than what is split: then the outermost one has both its iterations.
        if let Some((first, n)) = digits.first_mut().filter(|it| extent < each && it.1 > 2) {
            *n /= 2;
            let first = (*first, 2);
            digits.insert(0, first);
        }
        digits
    }
}

/// The product that a reduction is for instructions of four warps: of pixels, if they fill those.
pub(super) fn product_of_group(b: &Builder, anchor: StageId) -> Option<Product> {
    let of_pixels = candidate(b, anchor, false).filter(|it| {
        let rows = rows_of(b, anchor, *it, 1);
        rows.are_pixels && rows.fill(&b.extents(anchor))
    });
    of_pixels.or_else(|| product(b, anchor))
}

/// The rows of a product of which so many instructions lie below one another.
pub(super) fn rows_of(b: &Builder, anchor: StageId, product: Product, below: u64) -> Rows {
    let extents = b.extents(anchor);
    let of_pixels = pixels(b, anchor, product).and_then(|it| smallest(&extents, &it, below));
    if let Some(of_pixels) = of_pixels {
        return of_pixels;
    }
    let few = extents[product.row] < ROWS;
    let outer = product.beside.filter(|it| few && moves_with(b, anchor, *it, product.row));
    let axes = match outer {
        Some(outer) if outer < product.row => vec![(outer, ROWS / LINES), (product.row, LINES)],
        _ => vec![(product.row, ROWS)],
    };
    Rows { tall: axes[0].0, axes, are_pixels: false }
}

/// Groups, rows and panels of a block, and over what the rows go, if these are pixels: those with
/// which matrix units, the shared memory that they read, and the second-level cache take least time
/// for all tiles.
pub(super) fn side(b: &Builder, anchor: StageId, product: Product) -> Option<([u64; 3], Rows)> {
    const SIDES: [[u64; 3]; 6] = [[2, 1, 4], [2, 1, 2], [2, 1, 1], [1, 1, 4], [1, 1, 2], [1, 1, 1]];
    let (extents, axes) = (b.extents(anchor), pixels(b, anchor, product)?);
    let columns = extents[product.column];
    let cycles = |([groups, times, panels], of_rows): &([u64; 3], Rows)| {
        let wide = (panels * PANEL).min(columns.next_power_of_two());
        let tiles = of_rows.n_tiles(&extents, groups * times) * columns.div_ceil(wide);
        let waves = tiles.div_ceil(b.gpu().multiprocessors.into());
        // Eighths of a cycle for 16 steps of a reduction of 2-byte numbers: an instruction takes as
        // long as its multiply-adds, or what it reads; one group alone waits a little between two;
        // what is copied comes from the second-level cache, columns for two blocks of a cluster.
        let instruction = (wide / 2).max((ROWS + wide) / 4);
        let instructions = groups * times * instruction * if *groups == 1 { 9 } else { 8 };
        waves * instructions.max((groups * times * ROWS + wide / 2) * 6)
    };
    let fits = |[groups, _, panels]: &[u64; 3], of_rows: &Rows| {
        let wide = *panels == 1 || panels * PANEL < 2 * columns;
        wide && (*groups == 1 || of_rows.high(*groups) < 2 * extents[of_rows.tall])
    };
    let with_rows = |side: [u64; 3]| {
        let of_rows = smallest(&extents, &axes, side[0] * side[1])?;
        fits(&side, &of_rows).then_some((side, of_rows))
    };
    SIDES.into_iter().filter_map(with_rows).min_by_key(cycles)
}

/// The axes that number the pixels, if the factor with the rows has pictures whose channels lie side
/// by side: windows of them are read, or they are read one by one.
fn pixels(b: &Builder, anchor: StageId, product: Product) -> Option<Vec<usize>> {
    let n_spatial = b.schedule.stage(anchor).compute.n_spatial;
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
    let are_pixels = axes.len() > 2 || access.steps.iter().any(is_window);
    (in_order && are_pixels && access.is_contiguous(product.depth)).then_some(axes)
}

/// The most that boxes pass over: of so many elements one is copied.
const MOST_STEP: i64 = 8;

/// The one dimension along which an axis moves, if boxes can.
fn dim_of(access: &Access, axis: usize) -> Option<usize> {
    let step = |it: &Option<Vec<i64>>| it.as_ref().map(|it| it[axis]);
    let steps: Vec<i64> = access.steps.iter().map(step).collect::<Option<_>>()?;
    let mut moving = (0..steps.len()).filter(|it| steps[*it] != 0);
    let dim = moving.next()?;
    (moving.next().is_none() && (1..=MOST_STEP).contains(&steps[dim])).then_some(dim)
}

/// The box of an instruction with which tiles stick out least; of those, the one with the longest
/// rows of pixels.
fn smallest(extents: &[u64], axes: &[usize], below: u64) -> Option<Rows> {
    let size = |of: &Rows| {
        let sides: Vec<u64> = axes.iter().rev().filter_map(|it| of.tiled(*it, below)).collect();
        (of.n_tiles(extents, below) * below, of.n_tiles(extents, 1), Reverse(sides))
    };
    let all = axes.iter().enumerate().flat_map(|(n, tall)| {
        let outside = axes[..n].iter().map(|it| (*it, 1));
        let with = move |inside| Rows {
            axes: outside.clone().chain(inside).collect(),
            tall: *tall,
            are_pixels: true,
        };
        boxes(&axes[n..], ROWS).into_iter().map(with)
    });
    let fits = |it: &Rows| it.axes.iter().all(|(axis, each)| *each < 2 * extents[*axis]);
    all.filter(fits).min_by_key(size)
}

/// All boxes of so many iterations of some axes.
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
