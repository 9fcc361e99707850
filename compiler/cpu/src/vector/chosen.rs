//! Loops of which data choose the one iteration that counts.
//!
//! ```text
//! for s { acc[s] += if segment[e] == s { x[e] } else { 0 } }   =>   s = segment[e]; acc[s] += x[e]
//! ```
//!
//! In all other iterations the reducer's identity is added. So the sums of segments, histograms and tables that
//! are updated by index take a step for each term instead of one for each term and each element.

use super::affine::{Affine, Coef};
use super::context::{Binding, Lowering};
use super::numbering::{MaskRef, ValueId};
use super::tree::{Loop, LoopMode, Node, Term, TermKind, Tree, Write, literal_bits};
use super::{Stmt, Unsupported, Value, VectorBinary};
use tvmtune_ir::dag::{BinaryOp, CompareOp, DType, Literal, integer_range};
use tvmtune_ir::poly::{Interval, VarId};

/// The iteration of a loop that counts: the integer, less the form. If there is no such iteration, none does.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    data: Term,
    less: Affine,
}

/// Finds such loops.
pub(super) fn find(tree: &mut Tree<'_>) {
    let mut phases = std::mem::take(&mut tree.phases);
    phases.iter_mut().for_each(|it| nodes(tree, it));
    tree.phases = phases;
}

fn nodes(tree: &mut Tree<'_>, nodes_of: &mut [Node]) {
    for node in nodes_of {
        match node {
            Node::Loop(it) => {
                if it.kind == LoopMode::Serial
                    && let Some(choice) = choice(tree, it)
                {
                    tree.choices.insert(it.var, choice);
                    it.kind = LoopMode::Chosen;
                }
                // Lanes share the iteration of a loop inside them.
                if !matches!(it.kind, LoopMode::Vectorized(_)) {
                    nodes(tree, &mut it.body);
                }
            }
            Node::If { body, .. } => nodes(tree, body),
            Node::Write(_) => {}
        }
    }
}

/// Returns the iteration that counts, and removes the comparison from the only statement of the loop.
fn choice(tree: &Tree<'_>, loop_: &mut Loop) -> Option<Choice> {
    let mut inside = vec![loop_.var];
    let mut guards = Vec::new();
    let write = only_write(&mut loop_.body, &mut inside, &mut guards)?;
    let reducer = write.reducer?;
    let target = write.target.tensor;
    let dtype = tree.buffers[target.0 as usize].dtype;
    let identity = literal_bits(reducer.identity(dtype), dtype, tree.simd.width).ok()?;
    let truth = literal_bits(Literal::Bool(true), DType::Bool, tree.simd.width).ok()?;
    let mut value = write.value.clone();
    let choice =
        remove_comparison(&mut value, identity, truth, &|a, b| choice_of(tree, &inside, a, b))?;
    // Elements that data choose are read before the guards inside the loop are tested.
    let mut is_legal = true;
    choice.data.for_each_read(&mut |it| is_legal &= it.in_bounds && it.tensor != target);
    choice.data.for_each_index(&mut |_, form| {
        for var in tree.leaves(form) {
            is_legal &= !guards.iter().any(|id| tree.mentions(&tree.guards[*id], var));
        }
    });
    is_legal.then(|| {
        write.value = value;
        choice
    })
}

/// Returns the only statement of a loop, with the variables of the loops and the guards around it.
fn only_write<'n>(
    body: &'n mut [Node],
    inside: &mut Vec<VarId>,
    guards: &mut Vec<usize>,
) -> Option<&'n mut Write> {
    let [node] = body else { return None };
    match node {
        Node::Write(write) => Some(write),
        Node::Loop(it) => {
            inside.push(it.var);
            only_write(&mut it.body, inside, guards)
        }
        Node::If { guards: own, body } => {
            guards.extend_from_slice(own);
            only_write(body, inside, guards)
        }
    }
}

/// Replaces the comparison without which a term is the identity by the truth, and returns what it chooses.
fn remove_comparison(
    term: &mut Term,
    identity: u64,
    truth: u64,
    choice_of: &dyn Fn(&Term, &Term) -> Option<Choice>,
) -> Option<Choice> {
    match &mut term.kind {
        TermKind::Select(parts) => {
            let [condition, then, otherwise] = &mut **parts;
            if !matches!(otherwise.kind, TermKind::Bits(it) if it == identity) {
                return None;
            }
            from_condition(condition, truth, choice_of)
                .or_else(|| remove_comparison(then, identity, truth, choice_of))
        }
        // A condition that is false, and the number of it, are 0.
        TermKind::Cast(it) if it.dtype == DType::Bool && identity == 0 => {
            from_condition(it, truth, choice_of)
        }
        _ if term.dtype == DType::Bool && identity == 0 => from_condition(term, truth, choice_of),
        _ => None,
    }
}

/// Replaces a comparison without which a condition fails.
fn from_condition(
    condition: &mut Term,
    truth: u64,
    choice_of: &dyn Fn(&Term, &Term) -> Option<Choice>,
) -> Option<Choice> {
    let found = match &mut condition.kind {
        TermKind::Binary(BinaryOp::And, a, b) => {
            return from_condition(a, truth, choice_of)
                .or_else(|| from_condition(b, truth, choice_of));
        }
        TermKind::Compare(CompareOp::Eq, a, b) => choice_of(a, b).or_else(|| choice_of(b, a))?,
        _ => return None,
    };
    *condition = Term::bits(truth, DType::Bool);
    Some(found)
}

/// Returns the iteration of the first of some nested loops in which an integer that none of them changes is an
/// index.
fn choice_of(tree: &Tree<'_>, loops: &[VarId], data: &Term, index: &Term) -> Option<Choice> {
    let mut is_invariant = data.dtype.is_integer();
    data.for_each_index(&mut |_, form| {
        is_invariant &= !loops.iter().any(|it| tree.mentions(form, *it));
    });
    let mut less = index_of(tree, index)?.clone();
    let is_step = less.take(loops[0]) == Some(Coef::Const(1));
    let rest = tree.interval(&less);
    let is_natural = rest.lo >= 0 && rest.hi < i32::MAX.into();
    let is_outside = !loops.iter().any(|it| tree.mentions(&less, *it));
    (is_invariant && is_step && is_natural && is_outside)
        .then(|| Choice { data: data.clone(), less })
}

/// Returns the form of an index that is converted to integers which have all its values.
fn index_of<'t>(tree: &Tree<'_>, term: &'t Term) -> Option<&'t Affine> {
    match &term.kind {
        TermKind::Index(form) => Some(form),
        TermKind::Cast(it) if term.dtype.is_integer() => {
            let form = index_of(tree, it)?;
            integer_range(term.dtype).includes(tree.interval(form)).then_some(form)
        }
        _ => None,
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
        let count = self.table.count(&extent);
        let value = self.chosen_value(choice)?;
        let reg = self.new_reg();
        self.set(reg, value, MaskRef::All)?;
        let mut var = None;
        let body = self.nested(&mut |this| {
            let new = this.new_var(Interval { lo: 0, hi: greatest });
            var = Some(new);
            this.iteration(loop_, Binding::Form(Affine::var(new)), &mut |this| {
                this.nodes(&loop_.body)
            })
        })?;
        if let (Some(var), false) = (var, body.is_empty()) {
            self.block().stmts.push(Stmt::Choose { var, value: Value::Reg(reg), count, body });
        }
        Ok(())
    }

    /// Computes the number of the iteration; it is negative, or large, if there is none.
    fn chosen_value(&mut self, Choice { data, less }: &Choice) -> Result<ValueId, Unsupported> {
        let value = if self.is_wide(data) {
            let words = self.words(data)?;
            self.graph().natural_or_negative(words)
        } else {
            self.term(data)?
        };
        if less.as_constant() == Some(0) {
            return Ok(value);
        }
        let less = self.index_value(less)?;
        let graph = self.graph();
        // Without that, the least integers less the form would be natural.
        let negative = graph.int(-1);
        let value = graph.binary(VectorBinary::MaxI, value, negative);
        Ok(graph.binary(VectorBinary::SubI, value, less))
    }
}
