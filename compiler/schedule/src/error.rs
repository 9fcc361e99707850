//! Refusals of primitives: small values for search.

use std::fmt;

use super::{AxisId, AxisRole, LoopKind, StageId};
use tvmtune_ir::dag::TensorId;

/// A primitive's precondition does not hold; the schedule is as it was.
///
/// Search meets this error very often, so it is small, holds no text and allocates nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} ({subject})")]
pub struct ScheduleError {
    /// The object that the primitive was asked to change.
    pub subject: Subject,
    /// The precondition that does not hold.
    pub kind: ErrorKind,
}

/// The object of a [`ScheduleError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A stage as a whole.
    Stage(StageId),
    /// One loop of a stage.
    Axis(StageId, AxisId),
    /// A tensor.
    Tensor(TensorId),
    /// The program as a whole.
    Program,
}

/// The preconditions that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No primitive so far handed out that id.
    #[error("there is no such id")]
    Unknown,
    /// The stage's body was put into its readers.
    #[error("the stage was inlined")]
    Inlined,
    /// An earlier primitive split or fused the axis away.
    #[error("the loop no longer exists")]
    NotLive,
    /// The loop is parallel, vectorized or unrolled.
    #[error("the loop is {0:?}, not serial")]
    NotSerial(LoopKind),
    /// A factor is 0, or the product of all is too large.
    #[error("a factor is 0 or the product of the factors exceeds 2^31")]
    FactorOutOfRange,
    /// The list of factors is empty.
    #[error("there is nothing to split by")]
    NoFactors,
    /// The second axis is not the loop right below the first.
    #[error("the loops do not follow each other")]
    NotAdjacent,
    /// A spatial and a reduce axis.
    #[error("one loop is spatial, the other reduces")]
    MixedRoles,
    /// The role of the axis does not allow it.
    #[error("the loop's role is {0:?}")]
    WrongRole(AxisRole),
    /// The same axis twice.
    #[error("an axis is listed twice")]
    Repeated,
    /// Another stage runs at this loop (or in this stage).
    #[error("another stage runs inside it")]
    HasAttached,
    /// Only the innermost loop may be vectorized.
    #[error("a vectorized loop must be innermost")]
    NotInnermost,
    /// Only the outermost loops, all parallel, of a root stage are tasks.
    #[error("parallel loops must be the outermost ones of a root stage")]
    NotOutermost,
    /// The stage runs inside another one, or was to.
    #[error("the stage does not run on its own")]
    NotRoot,
    /// A result of the program cannot be computed at another stage, inlined or given a layout.
    #[error("it is a result of the program")]
    IsOutput,
    /// A stage outside the loop reads the tensor, or nothing does.
    #[error("not all readers lie inside that loop")]
    ReadersOutside,
    /// A result in place replaces elements before the stage reads them.
    #[error("a stage reads elements that a result has replaced, or may have")]
    Overwritten,
    /// The primitive applies to reductions only.
    #[error("the stage is not a reduction")]
    NotReduction,
    /// The primitive applies to stages without a reduction only.
    #[error("the stage is a reduction")]
    IsReduction,
    /// The stage's loops were already changed.
    #[error("the stage's loops were already changed")]
    AlreadyScheduled,
    /// The named stage does not read the tensor.
    #[error("the stage does not read the tensor")]
    NotRead,
    /// The reads are not affine, or not below a condition that is exactly the bounds check.
    #[error("the reads are not padded reads")]
    NotPadded,
    /// The read is evaluated under a condition only.
    #[error("the read stands below a condition")]
    Conditional,
    /// Data-dependent subscripts reach an expression that cannot be computed from them.
    #[error("a data-dependent subscript is divided")]
    DataDependent,
    /// Only weights and intermediate results may have a layout, and only one.
    #[error("the tensor's layout cannot be chosen")]
    NoLayout,
    /// An online reduction cannot share the loop: it is not the outermost one of a reduction over an
    /// axis of the same extent, or does not run sequentially.
    #[error("the reductions do not run over one axis, block by block of the outermost loop")]
    NotFusible,
    /// A partial sum depends on a running maximum, and no factor rescales it.
    #[error("no factor rescales the partial sum when the running maximum grows")]
    Uncorrectable,
    /// No part of the expression is loop-invariant, or no divisor is a constant.
    #[error("no part is loop-invariant, or no divisor is constant")]
    NothingInvariant,
    /// No term depends on remainders of spatial indices, or terms depend on other remainders too.
    #[error("terms do not depend on remainders of spatial indices alone")]
    NotPeriodic,
    /// Not every element is reduced up to its own index, or from it on; or the loop is not the
    /// inner of two along which it is.
    #[error("it is no prefix reduction, split into two loops of which this is the inner")]
    NotPrefix,
    /// No mask ends the loop: its last iterations may contribute.
    #[error("no mask ends the loop")]
    NotMasked,
    /// A narrower type would lose range or precision that readers need.
    #[error("the values cannot be stored in that type")]
    PrecisionLoss,
    /// A loop would have more iterations, or a tensor more elements, than indices can tell apart.
    #[error("the loop's iterations or the tensor's elements may be more than 2^53")]
    TooLarge,
    /// The layout's dimensions or its order do not fit the tensor.
    #[error("the layout does not fit the tensor's shape")]
    BadLayout,
    /// The program fixes the order of its reductions and the rounding of each operation.
    #[error("it would change the bits of results, which the program fixes")]
    FixedNumerics,
    /// Each step of a recurrence needs the one before.
    #[error("each step needs the one before: steps run in order, in a stage of their own")]
    Recurrent,
    /// The program has no hand-written kernels, or its loops were changed before.
    #[error("there is no kernel template, or loops were changed before")]
    NoTemplate,
    /// A value is not among those of its knob, a constraint does not hold, or a launch is too large.
    #[error("the kernel template does not allow these values of its knobs")]
    KnobsRefused,
    /// The program runs by hand-written kernels.
    #[error("the kernels are hand-written")]
    HandWritten,
}

impl ErrorKind {
    /// This error about a stage.
    pub fn of_stage(self, stage: StageId) -> ScheduleError {
        ScheduleError { subject: Subject::Stage(stage), kind: self }
    }

    /// This error about a loop.
    pub fn of_axis(self, stage: StageId, axis: AxisId) -> ScheduleError {
        ScheduleError { subject: Subject::Axis(stage, axis), kind: self }
    }

    /// This error about a tensor.
    pub(crate) fn of_tensor(self, tensor: TensorId) -> ScheduleError {
        ScheduleError { subject: Subject::Tensor(tensor), kind: self }
    }

    /// This error about the program.
    pub(crate) fn of_program(self) -> ScheduleError {
        ScheduleError { subject: Subject::Program, kind: self }
    }
}

/// Refuses where a condition holds.
pub(crate) fn refuse_if(condition: bool, why: ScheduleError) -> Result<(), ScheduleError> {
    if condition { Err(why) } else { Ok(()) }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Stage(stage) => write!(f, "s{}", stage.0),
            Subject::Axis(stage, axis) => write!(f, "s{} a{}", stage.0, axis.0),
            Subject::Tensor(tensor) => write!(f, "t{}", tensor.0),
            Subject::Program => f.write_str("the program"),
        }
    }
}
