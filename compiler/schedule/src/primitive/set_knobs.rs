//! Running a program by its hand-written kernels.

use crate::error::{ErrorKind, ScheduleError, refuse_if};
use crate::{Instruction, Schedule};

impl Schedule {
    /// Runs the program by the kernels of its template, with these values of the knobs, instead of by
    /// its loops.
    ///
    /// The loops stay what they are, the definition: they say which buffers there are, and no code is
    /// made of them. This is the one primitive that relies on somebody's word: kernels that compute
    /// something else are found where results are compared with the definition.
    ///
    /// # Rewrite
    ///
    /// ```text
    /// y[i] = ..        =>   histogram<<<grid, block>>>(x, y) with BLOCK = 256, ITEMS = 4
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::NoTemplate`] if the program has no kernels, or another primitive came before.
    /// - [`ErrorKind::KnobsRefused`] if a constraint of the template does not hold.
    ///
    /// # Source
    ///
    /// Tunable parameters with restrictions: Kernel Tuner (van Werkhoven, 2019).
    pub fn set_knobs(&mut self, values: &[u64]) -> Result<(), ScheduleError> {
        let no_template = ErrorKind::NoTemplate.of_program();
        refuse_if(!self.trace.is_empty(), no_template)?;
        let template = self.dag.kernel_template.as_ref().ok_or(no_template)?;
        let refused = ErrorKind::KnobsRefused.of_program();
        refuse_if(!template.allows(values), refused)?;
        refuse_if(template.launches(values, &self.dag.facts()).is_none(), refused)?;
        self.knobs = Some(values.to_vec());
        self.trace.push(Instruction::SetKnobs { values: values.to_vec() });
        Ok(())
    }
}
