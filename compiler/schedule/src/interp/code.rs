//! Nests resolved for given extents: ids and polynomials become positions and integers.

use std::collections::BTreeMap;

use crate::LoopKind;
use crate::nest::{Nest, Statement, Stmt};
use tvmtune_ir::dag::{BinaryOp, CompareOp, DType, Expr, Number, Subscript, TensorId, UnaryOp};
use tvmtune_ir::poly::{Atom, Facts, Poly, VarId};

/// A nest with known dimensions.
pub(super) struct Code {
    pub(super) body: Vec<Op>,
    /// The names of the buffers.
    pub(super) names: Vec<String>,
}

/// A statement.
pub(super) enum Op {
    For {
        var: usize,
        name: String,
        extent: Affine,
        kind: LoopKind,
        /// Local buffers that each iteration allocates: all their accesses are inside this loop.
        allocates: Vec<usize>,
        body: Vec<Op>,
    },
    If {
        guards: Vec<(Affine, Affine)>,
        /// A buffer written inside, for error messages.
        writes: usize,
        body: Vec<Op>,
    },
    Store {
        buffer: usize,
        index: Vec<Affine>,
        value: Node,
    },
    Update {
        buffer: usize,
        index: Vec<Affine>,
        value: Node,
        dtype: DType,
        /// The reduction of old and new.
        reducer: BinaryOp,
        /// The variables on which the index depends.
        along: Vec<usize>,
    },
}

/// An expression.
pub(super) enum Node {
    Constant(Number),
    Index(Affine),
    Read {
        buffer: usize,
        index: Vec<Result<Affine, Node>>,
    },
    Unary(UnaryOp, DType, Box<Node>),
    Binary(BinaryOp, DType, Box<Node>, Box<Node>),
    Compare(CompareOp, Box<Node>, Box<Node>),
    /// Condition, then, otherwise.
    Select(Box<[Node; 3]>),
    Cast(DType, Box<Node>),
}

/// An index as a function of the loop variables.
pub(super) enum Affine {
    /// `constant + sum of coefficient * variable`.
    Linear(i64, Vec<(usize, i64)>),
    /// With divisions in it.
    General(Poly),
}

impl Affine {
    pub(super) fn eval(&self, vars: &[i64]) -> i64 {
        match self {
            Affine::Linear(constant, terms) => {
                terms.iter().fold(*constant, |sum, (var, by)| sum + vars[*var] * by)
            }
            Affine::General(poly) => poly
                .eval(&|it| unreachable!("dimension {it:?} is known"), &|it| vars[it.0 as usize]),
        }
    }
}

impl Code {
    pub(super) fn new(nest: &Nest, dims: &[i64], scalars: &[Number]) -> Self {
        let resolver = Resolver { nest, dims, scalars, lifetimes: nest.lifetimes(&nest.body) };
        let body = resolver.block(&nest.body);
        Self { body, names: nest.buffers.iter().map(|it| it.name.clone()).collect() }
    }
}

struct Resolver<'a> {
    nest: &'a Nest,
    dims: &'a [i64],
    scalars: &'a [Number],
    /// The loops that contain all accesses of a local buffer, outermost first.
    lifetimes: BTreeMap<TensorId, Vec<VarId>>,
}

impl Resolver<'_> {
    fn block(&self, body: &[Stmt]) -> Vec<Op> {
        body.iter().map(|it| self.stmt(it)).collect()
    }

    fn stmt(&self, stmt: &Stmt) -> Op {
        match stmt {
            Stmt::For { var, name, extent, kind, body } => Op::For {
                var: var.0 as usize,
                name: name.clone(),
                extent: self.affine(extent),
                kind: *kind,
                allocates: (self.lifetimes.iter())
                    .filter(|(_, loops)| loops.last() == Some(var))
                    .map(|(tensor, _)| tensor.0 as usize)
                    .collect(),
                body: self.block(body),
            },
            Stmt::If { guards, body } => Op::If {
                guards: (guards.iter())
                    .map(|it| (self.affine(&it.value), self.affine(&it.bound)))
                    .collect(),
                writes: written(body).map_or(0, |it| it.0 as usize),
                body: self.block(body),
            },
            Stmt::Store { tensor, index, value } => Op::Store {
                buffer: tensor.0 as usize,
                index: index.iter().map(|it| self.affine(it)).collect(),
                value: self.node(value),
            },
            Stmt::Update { tensor, index, reducer, value } => Op::Update {
                buffer: tensor.0 as usize,
                index: index.iter().map(|it| self.affine(it)).collect(),
                value: self.node(value),
                dtype: self.nest.buffer(*tensor).dtype,
                reducer: reducer.op(),
                along: variables(index),
            },
        }
    }

    fn node(&self, expr: &Expr) -> Node {
        let boxed = |it: &Expr| Box::new(self.node(it));
        match expr {
            Expr::Const(literal, dtype) => Node::Constant(Number::literal(*literal, *dtype)),
            Expr::Index(poly) => Node::Index(self.affine(poly)),
            Expr::Scalar(scalar) => {
                let n = scalar.0 as usize;
                Node::Constant(self.scalars[n].cast(self.nest.scalars[n].dtype))
            }
            Expr::Read { tensor, index } => {
                let subscript = |it: &Subscript| match it {
                    Subscript::Affine(poly) => Ok(self.affine(poly)),
                    Subscript::Value(value) => Err(self.node(value)),
                };
                let index = index.iter().map(subscript).collect();
                Node::Read { buffer: tensor.0 as usize, index }
            }
            Expr::Unary(op, a) => Node::Unary(*op, a.dtype(self.nest), boxed(a)),
            Expr::Binary(op, a, b) => Node::Binary(*op, a.dtype(self.nest), boxed(a), boxed(b)),
            Expr::Compare(op, a, b) => Node::Compare(*op, boxed(a), boxed(b)),
            Expr::Select { condition, then, otherwise } => Node::Select(Box::new([
                self.node(condition),
                self.node(then),
                self.node(otherwise),
            ])),
            Expr::Cast(to, a) => Node::Cast(*to, boxed(a)),
        }
    }

    fn affine(&self, poly: &Poly) -> Affine {
        let dim = |atom: &Atom| match atom {
            Atom::Dim(dim) => Some(Poly::constant(self.dims[dim.0 as usize])),
            _ => None,
        };
        let known = poly.substitute(&dim, &Facts::default());
        let mut terms = Vec::new();
        let mut constant = 0;
        for (atoms, coefficient) in known.terms() {
            match atoms {
                [] => constant = coefficient,
                [Atom::Var(var)] => terms.push((var.0 as usize, coefficient)),
                _ => return Affine::General(known.clone()),
            }
        }
        Affine::Linear(constant, terms)
    }
}

/// The variables on which an index depends.
fn variables(index: &[Poly]) -> Vec<usize> {
    let mut vars = Vec::new();
    for poly in index {
        poly.for_each_leaf(&mut |leaf| {
            if let Atom::Var(var) = leaf {
                vars.push(var.0 as usize);
            }
        });
    }
    vars
}

/// The buffer that the first store or update writes.
fn written(body: &[Stmt]) -> Option<TensorId> {
    body.iter().find_map(|it| it.write().map(|it| it.0).or_else(|| written(it.body())))
}
