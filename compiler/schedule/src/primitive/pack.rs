//! Layout transformation of tensors in memory.

use crate::error::{ErrorKind, ScheduleError, refuse_if};
use crate::{Attach, Instruction, Layout, Schedule};
use tvmtune_ir::dag::{TensorId, TensorKind};

impl Schedule {
    /// Gives a weight, or a tensor that a stage defines and the program does not return, a layout.
    /// Weights are packed once, when they are loaded; a stage's tensor is written and read in its
    /// layout.
    ///
    /// # Rewrite
    ///
    /// ```text
    /// w[j, k]                      =>   w[j / 48, k, j % 48]      -- split [0:48] order [0, 2, 1]
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::NoLayout`] if the tensor is an input, inlined, or has a layout.
    /// - [`ErrorKind::IsOutput`] if the program returns it.
    /// - [`ErrorKind::TooLarge`] if, padded, the tensor could have more than 2^53 elements.
    /// - [`ErrorKind::BadLayout`] if a split names no dimension, has factor 0, or the order is no
    ///   permutation of the dimensions after all splits.
    ///
    /// # Source
    ///
    /// TVM's `transform_layout`, for splits and transpositions.
    pub fn pack(&mut self, tensor: TensorId, layout: Layout) -> Result<(), ScheduleError> {
        self.known_tensor(tensor)?;
        let found = self.tensor(tensor);
        let packable = match (found.tensor.kind, found.stage) {
            (TensorKind::Weight, _) => true,
            (_, Some(stage)) => self.stage(stage).attach != Attach::Inline,
            (_, None) => false,
        };
        refuse_if(!packable || found.layout.is_some(), ErrorKind::NoLayout.of_tensor(tensor))?;
        refuse_if(self.is_output(tensor), ErrorKind::IsOutput.of_tensor(tensor))?;
        refuse_if(!layout.fits(found.tensor.shape.len()), ErrorKind::BadLayout.of_tensor(tensor))?;
        let stored = layout.shape(&found.tensor.shape, &self.dag.facts());
        self.check_indexable(&stored, |it| it.of_tensor(tensor))?;

        self.tensors[tensor.0 as usize].layout = Some(layout.clone());
        self.trace.push(Instruction::Pack { tensor, layout });
        Ok(())
    }
}
