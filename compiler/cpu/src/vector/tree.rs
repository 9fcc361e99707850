//! The loop tree: a nest with affine forms instead of polynomials, typed terms, and guards by id.
//!
//! # Invariants
//!
//! - Extents depend on dimensions only; loop-variant extents are guards.
//! - Loops that cannot be vectorized are serial; long vectorized loops are strip-mined.
//! - The offset of an element in its buffer is one affine form.

use std::collections::{BTreeMap, BTreeSet};

use super::affine::{Affine, Coef};
use super::bounded::LoopBounds;
use super::chosen::Choice;
use super::{PrefetchHint, Simd, Unsupported, numbering};
use tvmtune_ir::dag::{BinaryOp, CompareOp, DType, Literal, Reducer, ScalarId, TensorId, UnaryOp};
use tvmtune_ir::half::{Bf16, F16};
use tvmtune_ir::poly::{Facts, Interval, Poly, VarId};
use tvmtune_math::lane::{self, Width};
use tvmtune_math::lane64;
use tvmtune_schedule::nest::Nest;

/// A guard by index into [`Tree::guards`]: it holds where the form is negative.
pub(super) type GuardId = usize;

/// A loop tree. See the [module documentation](self).
#[derive(Debug)]
pub(super) struct Tree<'n> {
    pub(super) nest: &'n Nest,
    pub(super) simd: Simd,
    /// In lanes of 32 bits, words that differ from lane to lane are divided, too: it takes some hundred
    /// instructions.
    pub(super) divides_words: bool,
    /// In lanes of 32 bits, 64-bit integers are added up, word by word.
    pub(super) adds_words: bool,
    /// Ranges of the dimensions.
    pub(super) facts: Facts,
    /// Loop variables by id, then derived variables: quotients, remainders, minima, maxima.
    pub(super) vars: Vec<Var>,
    /// Guards: forms that must be negative.
    pub(super) guards: Vec<Affine>,
    /// Buffers by tensor: those of the nest, then those that promotion adds.
    pub(super) buffers: Vec<Buffer>,
    /// The iterations of loops that data choose.
    pub(super) choices: BTreeMap<VarId, Choice>,
    /// The iterations of loops that data leave.
    pub(super) bounds: BTreeMap<VarId, LoopBounds>,
    /// Loops of strided accesses to consecutive words, which [`super::interchange`] unrolled.
    pub(super) transposed: BTreeSet<VarId>,
    /// Phases: each a parallel loop, or the serial nodes between two of them.
    pub(super) phases: Vec<Vec<Node>>,
}

#[derive(Clone, Debug)]
pub(super) struct Buffer {
    pub(super) dtype: DType,
    pub(super) local: bool,
    /// Number of elements.
    pub(super) size: Poly,
    /// Loops whose iterations have partial results of the same element here, which are combined later.
    pub(super) partial_over: Vec<VarId>,
    /// True if guards on the index of an element leave out terms, not elements.
    pub(super) is_partial: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Var {
    /// Iterations of the loop; an upper bound of a derived variable.
    pub(super) extent: Poly,
    /// All values.
    pub(super) range: Interval,
    /// The definition of a derived variable; `None` for a loop's.
    pub(super) derived: Option<Derived>,
}

/// The definition `a op b` of a derived variable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Derived {
    pub(super) op: DerivedOp,
    pub(super) a: Affine,
    pub(super) b: Affine,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DerivedOp {
    Div,
    Mod,
    Min,
    Max,
}

#[derive(Clone, Debug)]
pub(super) enum Node {
    Loop(Loop),
    If { guards: Vec<GuardId>, body: Vec<Node> },
    Write(Write),
}

#[derive(Clone, Debug)]
pub(super) struct Loop {
    pub(super) var: VarId,
    pub(super) kind: LoopMode,
    pub(super) body: Vec<Node>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopMode {
    Serial,
    /// The iteration in [`Tree::choices`] only.
    Chosen,
    /// A loop of the task grid; outermost.
    Parallel,
    Unrolled(i64),
    Vectorized(i64),
}

#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) target: Access,
    /// The reducer of an update; `None` for a store.
    pub(super) reducer: Option<Reducer>,
    /// The update replaces the element, which is known to be the reducer's identity.
    pub(super) overwrites: bool,
    pub(super) value: Term,
    /// Elements to prefetch; they may be out of bounds.
    pub(super) prefetches: Vec<(Access, PrefetchHint)>,
}

#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) tensor: TensorId,
    /// The affine part of the offset, in elements.
    pub(super) offset: Affine,
    /// The data-dependent part of the offset: strides in elements, and indices.
    pub(super) gather: Vec<(Poly, Term)>,
    /// In bounds whenever the statement runs, even where a select does not evaluate it.
    pub(super) in_bounds: bool,
}

/// A typed expression.
#[derive(Clone, Debug)]
pub(super) struct Term {
    pub(super) dtype: DType,
    pub(super) kind: TermKind,
}

#[derive(Clone, Debug)]
pub(super) enum TermKind {
    /// The bits of a literal in a lane.
    Bits(u64),
    Index(Affine),
    Scalar(ScalarId),
    Read(Access),
    Unary(UnaryOp, Box<Term>),
    Binary(BinaryOp, Box<Term>, Box<Term>),
    Compare(CompareOp, Box<Term>, Box<Term>),
    Select(Box<[Term; 3]>),
    Cast(Box<Term>),
}

impl Var {
    pub(super) fn of_loop(extent: Poly, facts: &Facts) -> Self {
        let hi = extent.interval(facts).hi.saturating_sub(1).max(0);
        Self { extent, range: Interval { lo: 0, hi }, derived: None }
    }
}

impl Tree<'_> {
    pub(super) fn var(&self, var: VarId) -> &Var {
        &self.vars[var.0 as usize]
    }

    pub(super) fn new_var(&mut self, extent: Poly) -> VarId {
        self.vars.push(Var::of_loop(extent, &self.facts));
        VarId(self.vars.len() as u32 - 1)
    }

    /// Returns whether the elements of a tensor take two words.
    pub(super) fn is_of_words(&self, tensor: TensorId) -> bool {
        let dtype = self.buffers[tensor.0 as usize].dtype;
        dtype == DType::I64 && self.simd.width == Width::Bits32
    }

    /// Bounds a form over variables of the tree.
    pub(super) fn interval(&self, value: &Affine) -> Interval {
        value.interval(&self.facts, &|var| self.var(var).range)
    }

    /// Returns the loop variables of a form, also those of derived variables.
    pub(super) fn leaves(&self, value: &Affine) -> Vec<VarId> {
        let mut leaves = Vec::new();
        for (var, _) in &value.terms {
            match &self.var(*var).derived {
                None => leaves.push(*var),
                Some(it) => {
                    leaves.extend([&it.a, &it.b].into_iter().flat_map(|it| self.leaves(it)));
                }
            }
        }
        leaves
    }

    /// Returns whether a variable occurs in a form, also in derived variables.
    pub(super) fn mentions(&self, value: &Affine, var: VarId) -> bool {
        let in_derived = |it: &Derived| self.mentions(&it.a, var) || self.mentions(&it.b, var);
        value
            .terms
            .iter()
            .any(|(it, _)| *it == var || self.var(*it).derived.as_ref().is_some_and(in_derived))
    }
}

impl Node {
    /// Puts nodes under guards, if there are any.
    pub(super) fn guarded(guards: Vec<GuardId>, body: Vec<Node>) -> Vec<Node> {
        if guards.is_empty() { body } else { vec![Node::If { guards, body }] }
    }

    pub(super) fn loops<'a>(path: &[&'a Node]) -> impl Iterator<Item = &'a Loop> {
        path.iter().filter_map(|it| match it {
            Node::Loop(it) => Some(it),
            _ => None,
        })
    }

    pub(super) fn body(&self) -> &[Node] {
        match self {
            Node::Loop(Loop { body, .. }) | Node::If { body, .. } => body,
            Node::Write(_) => &[],
        }
    }

    /// Calls `visit` for each write, with the loops and guards around it, outermost first.
    pub(super) fn for_each_write<'a>(
        nodes: &'a [Node],
        path: &mut Vec<&'a Node>,
        visit: &mut dyn FnMut(&'a Write, &[&'a Node]),
    ) {
        for node in nodes {
            if let Node::Write(write) = node {
                visit(write, path);
            } else {
                path.push(node);
                Self::for_each_write(node.body(), path, visit);
                path.pop();
            }
        }
    }
}

impl Access {
    /// An element without a data-dependent part, in bounds.
    pub(super) fn new(tensor: TensorId, offset: Affine) -> Self {
        Self { tensor, offset, gather: Vec::new(), in_bounds: true }
    }

    fn for_each_form_mut(&mut self, visit: &mut dyn FnMut(&mut Affine)) {
        visit(&mut self.offset);
        self.gather.iter_mut().for_each(|(_, index)| index.for_each_form_mut(visit));
    }
}

impl Write {
    pub(super) fn new(target: Access, reducer: Option<Reducer>, value: Term) -> Self {
        Self { target, reducer, overwrites: false, value, prefetches: Vec::new() }
    }

    /// Calls `visit` for each linear form: that of the target, and those of the value.
    pub(super) fn for_each_form<'a>(&'a self, visit: &mut dyn FnMut(&'a Affine)) {
        self.for_each_index(&mut |_, form| visit(form));
    }

    /// Calls `visit` for each linear form, with the tensor whose elements it indexes.
    pub(super) fn for_each_index<'a>(
        &'a self,
        visit: &mut dyn FnMut(Option<TensorId>, &'a Affine),
    ) {
        visit(Some(self.target.tensor), &self.target.offset);
        self.value.for_each_index(visit);
    }

    /// Calls `visit` for each linear form, those of prefetches included.
    pub(super) fn for_each_form_mut(&mut self, visit: &mut dyn FnMut(&mut Affine)) {
        self.target.for_each_form_mut(visit);
        self.prefetches.iter_mut().for_each(|it| it.0.for_each_form_mut(visit));
        self.value.for_each_form_mut(visit);
    }
}

impl Term {
    pub(super) fn bits(bits: u64, dtype: DType) -> Self {
        Self { dtype, kind: TermKind::Bits(bits) }
    }

    pub(super) fn children(&self) -> Vec<&Term> {
        match &self.kind {
            TermKind::Bits(_) | TermKind::Index(_) | TermKind::Scalar(_) => Vec::new(),
            TermKind::Read(access) => access.gather.iter().map(|(_, index)| index).collect(),
            TermKind::Unary(_, a) | TermKind::Cast(a) => vec![a],
            TermKind::Binary(_, a, b) | TermKind::Compare(_, a, b) => vec![a, b],
            TermKind::Select(parts) => parts.iter().collect(),
        }
    }

    /// Calls `visit` for each read, those in subscripts included.
    pub(super) fn for_each_read<'a>(&'a self, visit: &mut dyn FnMut(&'a Access)) {
        if let TermKind::Read(access) = &self.kind {
            visit(access);
        }
        for child in self.children() {
            child.for_each_read(visit);
        }
    }

    /// Calls `visit` for each linear form: indices as values, and offsets, with their tensors.
    pub(super) fn for_each_index<'a>(
        &'a self,
        visit: &mut dyn FnMut(Option<TensorId>, &'a Affine),
    ) {
        match &self.kind {
            TermKind::Index(form) => visit(None, form),
            TermKind::Read(access) => visit(Some(access.tensor), &access.offset),
            _ => {}
        }
        for child in self.children() {
            child.for_each_index(visit);
        }
    }

    /// The same for changes.
    pub(super) fn for_each_form_mut(&mut self, visit: &mut dyn FnMut(&mut Affine)) {
        match &mut self.kind {
            TermKind::Bits(_) | TermKind::Scalar(_) => {}
            TermKind::Index(form) => visit(form),
            TermKind::Read(access) => access.for_each_form_mut(visit),
            TermKind::Unary(_, a) | TermKind::Cast(a) => a.for_each_form_mut(visit),
            TermKind::Binary(_, a, b) | TermKind::Compare(_, a, b) => {
                a.for_each_form_mut(visit);
                b.for_each_form_mut(visit);
            }
            TermKind::Select(parts) => parts.iter_mut().for_each(|it| it.for_each_form_mut(visit)),
        }
    }
}

/// Returns the bits of a literal in a lane.
pub(super) fn literal_bits(
    literal: Literal,
    dtype: DType,
    width: Width,
) -> Result<u64, Unsupported> {
    let float = |value: f64| match width {
        Width::Bits32 => (value as f32).to_bits().into(),
        Width::Bits64 if dtype == DType::F32 => f64::from(value as f32).to_bits(),
        Width::Bits64 => value.to_bits(),
    };
    let int = |value: i64| {
        let fits = match (dtype, width) {
            (_, Width::Bits64) => true,
            (DType::U32, Width::Bits32) => u32::try_from(value).is_ok(),
            (_, Width::Bits32) => i32::try_from(value).is_ok(),
        };
        if fits { Ok(numbering::int_bits(value, width)) } else { Err(Unsupported::Range) }
    };
    Ok(match (literal, dtype) {
        (Literal::Bool(value), _) => match width {
            Width::Bits32 => lane::truth(value).into(),
            Width::Bits64 => lane64::truth(value),
        },
        (Literal::Float(value), DType::F16) => float(F16::from_f64(value).to_f32().into()),
        (Literal::Float(value), DType::Bf16) => float(Bf16::from_f64(value).to_f32().into()),
        (Literal::Float(value), _) => float(value),
        (Literal::Int(value), it) if it.is_float() => match width {
            Width::Bits32 => (value as f32).to_bits().into(),
            Width::Bits64 if dtype == DType::F32 => f64::from(value as f32).to_bits(),
            Width::Bits64 => (value as f64).to_bits(),
        },
        (Literal::Int(value), _) => int(value)?,
    })
}

pub(super) fn add_stride(offset: &mut Affine, index: &Affine, stride: &Poly) {
    offset.add_scaled(index, &Coef::from_poly(stride.clone()));
}

/// Makes a loop serial.
pub(super) fn make_serial(nodes: &mut [Node], var: VarId) {
    for node in nodes {
        match node {
            Node::Loop(it) if it.var == var => it.kind = LoopMode::Serial,
            Node::Loop(Loop { body, .. }) | Node::If { body, .. } => make_serial(body, var),
            Node::Write(_) => {}
        }
    }
}

/// Calls `check` for each linear form of nodes, those of guards included.
pub(super) fn for_each_form(nodes: &[Node], tree: &Tree<'_>, check: &mut dyn FnMut(&Affine)) {
    for_each_index(nodes, tree, &mut |_, form| check(form));
}

/// Calls `check` for each linear form: with true for guards and indices of elements, with false for values.
pub(super) fn for_each_index(
    nodes: &[Node],
    tree: &Tree<'_>,
    check: &mut dyn FnMut(bool, &Affine),
) {
    for node in nodes {
        match node {
            Node::Loop(it) => for_each_index(&it.body, tree, check),
            Node::If { guards, body } => {
                guards.iter().for_each(|id| check(true, &tree.guards[*id]));
                for_each_index(body, tree, check);
            }
            Node::Write(write) => {
                write.for_each_index(&mut |tensor, form| check(tensor.is_some(), form));
            }
        }
    }
}
