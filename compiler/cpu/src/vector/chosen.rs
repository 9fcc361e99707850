//! Loops of which data choose the one iteration that counts.
//!
//! ```text
//! for s { acc[s] += if segment[e] == s { x[e] } else { 0 } }   =>   s = segment[e]; acc[s] += x[e]
//! ```
//!
//! In all other iterations the reducer's identity is added. So the sums of segments, histograms and tables that
//! are updated by index take a step for each term instead of one for each term and each element.

use super::affine::Affine;
use super::build::TreeBuilder;
use super::certain::Certain;
use super::context::{Binding, ElementRef, Lowering};
use super::numbering::{MaskRef, ValueId};
use super::tree::{GuardId, Loop, LoopMode, Node, Term, TermKind};
use super::{Stmt, Storage, Unsupported, Value};
use tvmtune_ir::dag::chosen::Chosen;
use tvmtune_ir::dag::integer_range;
use tvmtune_ir::poly::{Interval, VarId};
use tvmtune_schedule::nest::{self, ChosenIteration};

/// The number of the iteration that counts, `data - less`. No iteration counts if it is outside of the extent.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    data: Term,
    less: Affine,
}

impl TreeBuilder<'_> {
    /// Builds a loop of which data choose the one iteration that counts, with guards in it.
    pub(super) fn chosen_loop(
        &mut self,
        var: VarId,
        body: &[nest::Stmt],
        limits: &[GuardId],
    ) -> Result<Option<Node>, Unsupported> {
        let Some(found) = ChosenIteration::of(self.tree.nest, var, body) else { return Ok(None) };
        let mut around = Vec::new();
        for guard in &found.guards {
            around.push(self.guard(&guard.value, &guard.bound)?);
        }
        let n_before = self.enclosing_guards.len();
        self.enclosing_guards.extend(found.guards);
        let choice = self.choice(var, &found.chosen)?;
        let body = choice.map(|it| (it, self.nodes(&found.body, false)));
        self.enclosing_guards.truncate(n_before);
        let Some((choice, body)) = body else { return Ok(None) };
        self.tree.choices.insert(var, choice);
        let body = Node::guarded(limits.to_vec(), body?);
        let loop_ = Node::Loop(Loop { var, kind: LoopMode::Chosen, body });
        Ok(Node::guarded(around, vec![loop_]).pop())
    }

    /// Returns the iteration that is chosen, if its number can be computed before the loop.
    fn choice(&mut self, var: VarId, chosen: &Chosen) -> Result<Option<Choice>, Unsupported> {
        self.certain = Certain::default();
        let data = self.term(&chosen.data, !chosen.is_certain)?;
        let mut is_readable = true;
        data.for_each_read(&mut |it| is_readable &= it.in_bounds);
        let less = self.flatten(&chosen.offset)?;
        let (from, of_var) = (self.tree.interval(&less), self.tree.var(var).range);
        let is_natural = from.lo >= 0 && from.hi < i32::MAX.into();
        let is_whole = integer_range(chosen.dtype).includes(from.plus(of_var));
        Ok((is_readable && is_natural && is_whole).then_some(Choice { data, less }))
    }
}

impl<'t> Lowering<'t> {
    /// Lowers the iteration of a loop that data choose.
    pub(super) fn chosen_iteration(&mut self, loop_: &'t Loop) -> Result<(), Unsupported> {
        let choice = &self.tree.choices[&loop_.var];
        let extent = self.tree.var(loop_.var).extent.clone();
        let greatest = extent.interval(&self.tree.facts).hi.saturating_sub(1);
        if greatest < 0 {
            return Ok(());
        }
        if self.lane.is_some() || i32::try_from(greatest).is_err() {
            return Err(Unsupported::Index);
        }
        let (count, less) = (self.table.count(&extent), self.eval(&choice.less)?);
        let less = self.table.linear(&less);
        let value = match self.long_in_memory(&choice.data)? {
            Some(load) => load,
            None => {
                let (value, reg) = (self.chosen_value(&choice.data)?, self.new_reg());
                self.set(reg, value, MaskRef::All)?;
                Value::Reg(reg)
            }
        };
        let mut var = None;
        let body = self.nested(&mut |this| {
            let new = this.new_var(Interval { lo: 0, hi: greatest });
            var = Some(new);
            this.iteration(loop_, Binding::Form(Affine::var(new)), &mut |this| {
                this.nodes(&loop_.body)
            })
        })?;
        if let (Some(var), false) = (var, body.is_empty()) {
            self.block().stmts.push(Stmt::Choose { var, value, less, count, body });
        }
        Ok(())
    }

    /// Returns the load of a 64-bit integer that is an element of a tensor.
    pub(super) fn long_in_memory(&mut self, data: &Term) -> Result<Option<Value>, Unsupported> {
        let TermKind::Read(access) = &data.kind else { return Ok(None) };
        if !self.is_wide(data) || !access.gather.is_empty() || !self.masks.is_empty() {
            return Ok(None);
        }
        let ElementRef::Words { words: [low, _], lanes, .. } = self.element_ref(access, false)?
        else {
            return Ok(None);
        };
        let address = self.interned.addresses.get(low);
        Ok(Some(Value::Load { address, lanes, storage: Storage::Long, mask: None }))
    }

    /// Computes the integer that chooses; of two words, it is some negative one if it does not fit one of them.
    fn chosen_value(&mut self, data: &Term) -> Result<ValueId, Unsupported> {
        if !self.is_wide(data) {
            return self.term(data);
        }
        let words = self.words(data)?;
        Ok(self.graph().natural_or_negative(words))
    }
}
