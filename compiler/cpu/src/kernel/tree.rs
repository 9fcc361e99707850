//! The nest as lowering wants it: linear forms instead of polynomials, typed terms, guards by id.
//!
//! What is settled here, once, so that nothing later has to ask: every loop has an extent that
//! depends on dimensions only (other extents became guards); loops that cannot be vectorized are
//! serial; a vectorized loop is short enough to be repeated vector by vector (longer ones were
//! split); an element's place in a buffer is one linear form.

use super::Unsupported;
use super::affine::{Affine, Coef};
use tvmtune_ir::dag::{BinaryOp, CompareOp, DType, Literal, Reducer, ScalarId, TensorId, UnaryOp};
use tvmtune_ir::poly::{Facts, Interval, Poly, VarId};
use tvmtune_schedule::nest::Nest;

/// A guard: [`Tree::guards`] at that place is negative.
pub(super) type GuardId = usize;

/// A nest, prepared. See the [module documentation](self).
#[derive(Debug)]
pub(super) struct Tree<'n> {
    pub(super) nest: &'n Nest,
    /// Ranges of the dimensions.
    pub(super) facts: Facts,
    /// Loop variables by id, and after them quotients and remainders.
    pub(super) vars: Vec<Var>,
    /// Forms that must be negative.
    pub(super) guards: Vec<Affine>,
    /// The shapes of buffers, by tensor; promotion adds some to those of the nest.
    pub(super) buffers: Vec<Buffer>,
    /// A parallel loop each, or what runs on one thread between two of them.
    pub(super) phases: Vec<Vec<Item>>,
}

/// Memory or registers of one tensor.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    pub(super) dtype: DType,
    pub(super) local: bool,
    /// Number of elements.
    pub(super) size: Poly,
}

/// What is known of a variable.
#[derive(Clone, Debug)]
pub(super) struct Var {
    /// Iterations of the loop; a bound for what is computed.
    pub(super) extent: Poly,
    /// Every value.
    pub(super) range: Interval,
    /// How it is computed, if it belongs to no loop.
    pub(super) derived: Option<Derived>,
}

/// `a op b`.
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
pub(super) enum Item {
    Loop(Loop),
    If { guards: Vec<GuardId>, body: Vec<Item> },
    Write(Write),
}

#[derive(Clone, Debug)]
pub(super) struct Loop {
    pub(super) var: VarId,
    pub(super) kind: Kind,
    pub(super) body: Vec<Item>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// As many iterations as the variable's extent says.
    Serial,
    /// The same, as tasks; outermost.
    Parallel,
    Unrolled(i64),
    Lanes(i64),
}

/// A store or an update.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) target: Access,
    /// How old and new combine; `None` for a store.
    pub(super) reducer: Option<Reducer>,
    /// The old value is the reducer's identity and was not written: the result is the new one.
    pub(super) fresh: bool,
    pub(super) value: Term,
    /// What later iterations read, to be on its way when they do: nothing that must be in bounds.
    pub(super) prefetches: Vec<Access>,
}

/// One element of a buffer.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) tensor: TensorId,
    /// In elements; the part known from variables.
    pub(super) offset: Affine,
    /// The part known from data: strides in elements, and what they multiply.
    pub(super) gather: Vec<(Poly, Term)>,
    /// In bounds wherever the statement runs, whatever conditions within it say.
    pub(super) sure: bool,
}

/// A typed expression.
#[derive(Clone, Debug)]
pub(super) struct Term {
    pub(super) dtype: DType,
    pub(super) kind: TermKind,
}

#[derive(Clone, Debug)]
pub(super) enum TermKind {
    /// A literal, as it stands in a lane.
    Bits(u32),
    Index(Affine),
    Scalar(ScalarId),
    Read(Access),
    Unary(UnaryOp, Box<Term>),
    Binary(BinaryOp, Box<Term>, Box<Term>),
    Compare(CompareOp, Box<Term>, Box<Term>),
    Select(Box<[Term; 3]>),
    Cast(Box<Term>),
}

impl Tree<'_> {
    pub(super) fn var(&self, var: VarId) -> &Var {
        &self.vars[var.0 as usize]
    }

    pub(super) fn new_var(&mut self, extent: Poly) -> VarId {
        let hi = extent.interval(&self.facts).hi.saturating_sub(1).max(0);
        self.vars.push(Var { extent, range: Interval { lo: 0, hi }, derived: None });
        VarId(self.vars.len() as u32 - 1)
    }

    /// Every value of a form over variables of the tree.
    pub(super) fn interval(&self, value: &Affine) -> Interval {
        value.interval(&self.facts, &|var| self.var(var).range)
    }

    /// The loop variables that occur, also below quotients.
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

    /// Whether a variable occurs, also below quotients.
    pub(super) fn mentions(&self, value: &Affine, var: VarId) -> bool {
        value.terms.iter().any(|(it, _)| {
            *it == var
                || self.vars[it.0 as usize]
                    .derived
                    .as_ref()
                    .is_some_and(|it| self.mentions(&it.a, var) || self.mentions(&it.b, var))
        })
    }
}

impl Item {
    pub(super) fn body(&self) -> &[Item] {
        match self {
            Item::Loop(Loop { body, .. }) | Item::If { body, .. } => body,
            Item::Write(_) => &[],
        }
    }

    /// Calls `visit` for each write below, with the loops and guards around it, outermost first.
    pub(super) fn for_each_write<'a>(
        items: &'a [Item],
        path: &mut Vec<&'a Item>,
        visit: &mut dyn FnMut(&'a Write, &[&'a Item]),
    ) {
        for item in items {
            if let Item::Write(write) = item {
                visit(write, path);
            } else {
                path.push(item);
                Self::for_each_write(item.body(), path, visit);
                path.pop();
            }
        }
    }
}

impl Write {
    pub(super) fn new(target: Access, reducer: Option<Reducer>, value: Term) -> Self {
        Self { target, reducer, fresh: false, value, prefetches: Vec::new() }
    }

    /// Calls `visit` for each read, those in subscripts included.
    pub(super) fn for_each_read<'a>(&'a self, visit: &mut dyn FnMut(&'a Access)) {
        for (_, index) in &self.target.gather {
            index.for_each_read(visit);
        }
        self.value.for_each_read(visit);
    }
}

impl Term {
    pub(super) fn bits(bits: u32, dtype: DType) -> Self {
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

    fn for_each_read<'a>(&'a self, visit: &mut dyn FnMut(&'a Access)) {
        if let TermKind::Read(access) = &self.kind {
            visit(access);
        }
        for child in self.children() {
            child.for_each_read(visit);
        }
    }

    /// Calls `visit` for each linear form: indices as values, and offsets.
    pub(super) fn for_each_form<'a>(&'a self, visit: &mut dyn FnMut(&'a Affine)) {
        match &self.kind {
            TermKind::Index(form) => visit(form),
            TermKind::Read(access) => visit(&access.offset),
            _ => {}
        }
        for child in self.children() {
            child.for_each_form(visit);
        }
    }
}

/// A literal as it stands in a lane.
pub(super) fn literal_bits(literal: Literal, dtype: DType) -> Result<u32, Unsupported> {
    Ok(match (literal, dtype) {
        (Literal::Bool(value), _) => {
            if value {
                u32::MAX
            } else {
                0
            }
        }
        (Literal::Float(value), DType::F16) => half::f16::from_f64(value).to_f32().to_bits(),
        (Literal::Float(value), DType::Bf16) => half::bf16::from_f64(value).to_f32().to_bits(),
        (Literal::Float(value), _) => (value as f32).to_bits(),
        (Literal::Int(value), it) if it.is_float() => (value as f32).to_bits(),
        (Literal::Int(value), _) => int_bits(value)?,
    })
}

/// The bits of an integer in a lane.
fn int_bits(value: i64) -> Result<u32, Unsupported> {
    i32::try_from(value).map(|it| it as u32).map_err(|_| Unsupported::Range)
}

/// A stride, or nothing where it is 0.
pub(super) fn add_stride(offset: &mut Affine, index: &Affine, stride: &Poly) {
    offset.add_scaled(index, &Coef::from_poly(stride.clone()));
}
