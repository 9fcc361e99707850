//! How a tensor lies in memory.

use crate::error::{ErrorKind, ScheduleError};
use crate::{Attach, Instruction, Layout, Schedule};
use tvmtune_ir::dag::{TensorId, TensorKind};
use tvmtune_ir::poly::{Facts, Poly};

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
        if !packable || found.layout.is_some() {
            return Err(ErrorKind::NoLayout.of_tensor(tensor));
        }
        if self.is_output(tensor) {
            return Err(ErrorKind::IsOutput.of_tensor(tensor));
        }
        if !layout.fits(found.tensor.shape.len()) {
            return Err(ErrorKind::BadLayout.of_tensor(tensor));
        }

        self.tensors[tensor.0 as usize].layout = Some(layout.clone());
        self.trace.push(Instruction::Pack { tensor, layout });
        Ok(())
    }
}

impl Layout {
    /// Whether it describes tensors of that many dimensions.
    pub fn fits(&self, n_dims: usize) -> bool {
        let legal = |(n, (dim, factor)): (usize, &(usize, u64))| {
            *dim < n_dims + n && (1..=1 << 31).contains(factor)
        };
        let mut sorted = self.order.clone();
        sorted.sort_unstable();
        self.splits.iter().enumerate().all(legal)
            && sorted.into_iter().eq(0..n_dims + self.splits.len())
    }

    /// The extents as stored of a tensor of that shape, padding included.
    pub fn shape(&self, shape: &[Poly], facts: &Facts) -> Vec<Poly> {
        let split =
            |extent: &Poly, factor: i64| [extent.ceil_div(factor, facts), Poly::constant(factor)];
        self.place(shape.to_vec(), split)
    }

    /// Where the element at `index` is stored.
    pub fn index(&self, index: &[Poly], facts: &Facts) -> Vec<Poly> {
        let split = |it: &Poly, factor: i64| {
            let factor = Poly::constant(factor);
            [it.div(&factor, facts), it.modulo(&factor, facts)]
        };
        self.place(index.to_vec(), split)
    }

    /// Splits and reorders one value for each dimension.
    pub fn place<T: Clone>(&self, values: Vec<T>, split: impl Fn(&T, i64) -> [T; 2]) -> Vec<T> {
        let mut values = values;
        for (dim, factor) in &self.splits {
            let parts = split(&values[*dim], *factor as i64);
            values.splice(*dim..=*dim, parts);
        }
        self.order.iter().map(|it| values[*it].clone()).collect()
    }
}
