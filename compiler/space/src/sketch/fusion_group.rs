//! Fusion groups: a stage that runs on its own, and the stages computed inside it.

use tvmtune_schedule::StageId;

/// Stages that run together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FusionGroup {
    /// A reduction in tiles.
    Tiled(Tiled),
    /// Rows of any other stages.
    Rows(Rows),
    /// Two products with a softmax between them.
    Chain(Chain),
}

/// A reduction whose operands are used more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tiled {
    /// The elementwise epilogue, which runs on its own and reads the reduction; the reduction
    /// itself if it has none.
    pub(super) root: StageId,
    /// The reduction.
    pub(super) anchor: StageId,
}

/// Stages that are computed row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rows {
    /// The stage that runs on its own.
    pub(super) root: StageId,
    /// The stages computed inside it, in topological order.
    pub(super) inside: Vec<StageId>,
    /// The number of leading axes that all of them share: the rows.
    pub(super) depth: usize,
}

/// The stages that are computed along with the second of two products, block by block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    /// The stage that stores the result.
    pub(super) root: StageId,
    /// The second product.
    pub(super) anchor: StageId,
    /// The axis of rows of the second product.
    pub(super) row: usize,
    /// The axis of columns of the second product.
    pub(super) column: usize,
    /// Stages with an element for each row and column of a block, in topological order.
    pub(super) scores: Vec<Score>,
    /// Reductions of such blocks along their columns.
    pub(super) reductions: Vec<RowReduction>,
}

/// A stage with an element for each row and column of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Score {
    pub(super) stage: StageId,
    /// Its axis of rows.
    pub(super) row: usize,
    /// Its axis of columns.
    pub(super) column: usize,
}

/// A stage that reduces the columns of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowReduction {
    pub(super) stage: StageId,
    /// Its axis of rows.
    pub(super) row: usize,
}

impl Chain {
    /// Returns the stages that are computed along with the second product.
    pub(super) fn members(&self) -> impl Iterator<Item = StageId> {
        let scores = self.scores.iter().map(|it| it.stage);
        scores.chain(self.reductions.iter().map(|it| it.stage))
    }

    /// Returns the score that a stage is.
    pub(super) fn score(&self, stage: StageId) -> Option<&Score> {
        self.scores.iter().find(|it| it.stage == stage)
    }
}
