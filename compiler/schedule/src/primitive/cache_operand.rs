//! Staging of a single read, in the iteration order of its reader.

use crate::error::{ErrorKind, ScheduleError, refuse_if};
use crate::{Attach, Instruction, Schedule, StageId};
use tvmtune_ir::dag::access::for_each_read;
use tvmtune_ir::dag::{Compute, Expr, Subscript, TensorId};
use tvmtune_ir::poly::{Poly, VarId};

impl Schedule {
    /// Makes one read of `reader`, by its number in order of evaluation, and all reads of the same
    /// element, read a copy whose dimensions are the reader's axes on which the read depends. Returns
    /// the stage that copies. Unlike
    /// [`cache_read`](Self::cache_read) it leaves other reads of the tensor alone, and turns any
    /// access into one that is indexed by plain loops, which a layout can permute.
    ///
    /// # Rewrite
    ///
    /// ```text
    /// c[i, j] = sum(k, a[i, k] * a[j, k + 8])      -- cache_operand c 1
    /// =>
    /// a_copy[j, k] = a[j, k + 8]
    /// c[i, j] = sum(k, a[i, k] * a_copy[j, k])
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::NotRead`] if the stage has no such read.
    /// - [`ErrorKind::Conditional`] if it is evaluated under a condition only.
    /// - [`ErrorKind::NotRoot`] if the tensor is computed inside another stage, [`ErrorKind::Recurrent`] if
    ///   the reader itself computes it.
    /// - [`ErrorKind::TooLarge`] if the copy could have more than 2^53 elements.
    ///
    /// # Source
    ///
    /// TVM's `reindex_cache_read`.
    pub fn cache_operand(&mut self, reader: StageId, read: u32) -> Result<StageId, ScheduleError> {
        self.with_rollback(|it| it.copy_operand(reader, read))
    }

    fn copy_operand(&mut self, reader: StageId, read: u32) -> Result<StageId, ScheduleError> {
        let found = self.live_stage(reader)?;
        let Operand { tensor, index, conditional } =
            operand(&found.compute.body, read).ok_or(ErrorKind::NotRead.of_stage(reader))?;
        refuse_if(conditional, ErrorKind::Conditional.of_stage(reader))?;
        let producer = self.tensor(tensor).stage;
        refuse_if(producer == Some(reader), ErrorKind::Recurrent.of_stage(reader))?;
        if producer.is_some_and(|it| self.stage(it).attach != Attach::Root) {
            return Err(ErrorKind::NotRoot.of_tensor(tensor));
        }

        let (stage, copy) = self.next_ids();
        let facts = self.dag.facts();
        let axes = &found.compute.axes;
        let used: Vec<u32> =
            (0..axes.len() as u32).filter(|it| mentions(&index, VarId(*it))).collect();
        let renumbered = |var: VarId| {
            let at = used.iter().position(|it| *it == var.0)?;
            Some(Poly::var(VarId(at as u32)))
        };
        let original = Expr::Read { tensor, index };
        let compute = Compute {
            tensor: copy,
            axes: used.iter().map(|it| axes[*it as usize].clone()).collect(),
            n_spatial: used.len(),
            reducer: None,
            body: original.clone().substitute_vars(&renumbered, &facts),
        };
        self.check_stage_size(reader, &compute)?;
        let copied = Expr::read(copy, used.iter().map(|it| Poly::var(VarId(*it))));
        let body = replaced(&found.compute.body, &original, &copied);
        let origin = self.tensor(tensor).tensor.clone();
        self.add_stage_before(reader, compute, &origin, "operand");
        self.stage_mut(reader).compute.body = body;
        self.trace.push(Instruction::CacheOperand { reader, read });
        Ok(stage)
    }
}

/// One read of an expression.
struct Operand {
    tensor: TensorId,
    index: Vec<Subscript>,
    conditional: bool,
}

/// Finds the read of that number, in order of evaluation, outermost first.
fn operand(body: &Expr, number: u32) -> Option<Operand> {
    let (mut left, mut found) = (number, None);
    for_each_read(body, &mut |tensor, index, conditional| match left.checked_sub(1) {
        Some(fewer) => left = fewer,
        None => {
            found.get_or_insert_with(|| Operand { tensor, index: index.to_vec(), conditional });
        }
    });
    found
}

/// Replaces a read wherever it stands.
fn replaced(body: &Expr, read: &Expr, by: &Expr) -> Expr {
    match body == read {
        true => by.clone(),
        false => body.map_children(&mut |child| replaced(child, read, by)),
    }
}

fn mentions(index: &[Subscript], var: VarId) -> bool {
    index.iter().any(|it| match it {
        Subscript::Affine(poly) => poly.mentions(var),
        Subscript::Value(value) => value.mentions(var),
    })
}
