//! Loop kinds (parallel, vectorized, unrolled, bound to threads ...), and the number of threads.

use crate::error::ScheduleError;
use crate::{AxisId, Instruction, LoopKind, Schedule, StageId, Threads};

impl Schedule {
    /// Sets the kind of a loop; [`LoopKind::Serial`] undoes it.
    ///
    /// `Unrolled` is legal anywhere: where the extent turns out not to be a small constant, the
    /// loop is lowered to a serial one.
    ///
    /// # Rewrite
    ///
    /// ```text
    /// for i in 0..e        =>   parallel i in 0..e
    ///   body(i)                   body(i)
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::NotLive`](super::super::ErrorKind::NotLive) if the axis is no loop.
    /// - [`ErrorKind::NotInnermost`](super::super::ErrorKind::NotInnermost) for a vectorized loop,
    ///   [`ErrorKind::HasAttached`](super::super::ErrorKind::HasAttached) if a stage runs at it.
    /// - [`ErrorKind::NotOutermost`](super::super::ErrorKind::NotOutermost) or
    ///   [`ErrorKind::WrongRole`](super::super::ErrorKind::WrongRole) for a parallel loop that is
    ///   not among the outermost spatial ones of a root stage.
    /// - [`ErrorKind::Recurrent`](super::super::ErrorKind::Recurrent) for steps of a recurrence that would
    ///   not run one after the other.
    ///
    /// # Source
    ///
    /// Halide's `parallel`, `vectorize` and `unroll`; TVM's `bind` and `tensorize`.
    pub fn annotate(
        &mut self,
        stage: StageId,
        axis: AxisId,
        kind: LoopKind,
    ) -> Result<(), ScheduleError> {
        self.loop_position(stage, axis)?;
        let declared = &mut self.stage_mut(stage).axes[axis.0 as usize].kind;
        let before = std::mem::replace(declared, kind);
        let checked = self.check_kinds(stage);
        if checked.is_err() {
            self.stage_mut(stage).axes[axis.0 as usize].kind = before;
            return checked;
        }
        self.trace.push(Instruction::Annotate { stage, axis, kind });
        Ok(())
    }

    /// Sets the number of threads that may run the kernel.
    pub fn set_threads(&mut self, threads: Threads) {
        self.threads = threads;
        self.trace.push(Instruction::Threads { threads });
    }
}
