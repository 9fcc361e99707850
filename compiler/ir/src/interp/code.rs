//! Bodies of computes resolved for given extents: positions instead of subscripts.

use super::column::Column;
use super::{Env, Semantics};
use crate::dag::{BinaryOp, CompareOp, DType, Expr, Number, Subscript, UnaryOp};
use crate::interp::Array;
use crate::interp::array::Storage;
use crate::poly::{Atom, Facts, Poly, VarId};

/// An expression whose polynomials depend on the axes only.
pub(super) struct Code<'a> {
    lane_axis: Option<usize>,
    arrays: &'a [Array],
    semantics: Semantics,
    root: Node,
}

enum Node {
    Constant(Number),
    Index(Affine),
    Read { array: usize, subscripts: Vec<SubscriptNode> },
    Unary(UnaryOp, DType, Box<Node>),
    Binary(BinaryOp, DType, Box<Node>, Box<Node>),
    Compare(CompareOp, Box<Node>, Box<Node>),
    Select { condition: Box<Node>, then: Box<Node>, otherwise: Box<Node> },
    Cast(DType, Box<Node>),
}

enum SubscriptNode {
    Affine(Affine),
    Value(Node),
}

/// An index as a function of the axes.
enum Affine {
    /// `constant + sum of coefficient * axis`.
    Linear { constant: i64, coefficients: Vec<(usize, i64)> },
    /// With divisions in it.
    General(Poly),
}

impl<'a> Code<'a> {
    pub(super) fn new(
        body: &Expr,
        env: &Env<'a>,
        extents: &[i64],
        lane_axis: Option<usize>,
    ) -> Self {
        let mut facts = Facts::default();
        for (n, extent) in extents.iter().enumerate() {
            facts.bound_var(VarId(n as u32), Poly::constant(*extent));
        }
        let root = Resolver { env, facts }.node(body).0;
        Self { lane_axis, arrays: env.arrays, semantics: env.semantics, root }
    }

    /// The values at `point`, with the lane axis at each of `lanes`; these are ascending.
    pub(super) fn column(&self, point: &[i64], lanes: &[i64]) -> Column {
        self.eval(&self.root, point, lanes)
    }

    fn eval(&self, node: &Node, point: &[i64], lanes: &[i64]) -> Column {
        match node {
            Node::Constant(value) => Column::splat(*value, lanes.len()),
            Node::Index(index) => Column::Int(self.affine(index, point, lanes)),
            Node::Read { array, subscripts } => {
                self.read(&self.arrays[*array], subscripts, point, lanes)
            }
            Node::Unary(op, dtype, a) => {
                let a = self.eval(a, point, lanes);
                match (self.semantics, dtype) {
                    (Semantics::InOrder, DType::F32) => a.unary_of_kernels(*op),
                    _ => a.unary(*op, *dtype),
                }
            }
            Node::Binary(op, dtype, a, b) => {
                let (a, b) = (self.eval(a, point, lanes), self.eval(b, point, lanes));
                match (self.semantics, op, dtype) {
                    (Semantics::InOrder, BinaryOp::Pow, DType::F32) => a.pow_of_kernels(b),
                    _ => a.binary(*op, b, *dtype),
                }
            }
            Node::Compare(op, a, b) => {
                Column::Bool(self.eval(a, point, lanes).compare(*op, self.eval(b, point, lanes)))
            }
            Node::Cast(to, a) => self.eval(a, point, lanes).cast(*to),
            Node::Select { condition, then, otherwise } => {
                let Column::Bool(condition) = self.eval(condition, point, lanes) else {
                    unreachable!("a condition is a bool");
                };
                self.select(&condition, then, otherwise, point, lanes)
            }
        }
    }

    /// Each branch is evaluated for the lanes that chose it, and not at all if none did.
    fn select(
        &self,
        condition: &[bool],
        then: &Node,
        otherwise: &Node,
        point: &[i64],
        lanes: &[i64],
    ) -> Column {
        if condition.iter().all(|it| *it) {
            return self.eval(then, point, lanes);
        }
        if !condition.contains(&true) {
            return self.eval(otherwise, point, lanes);
        }
        let chosen = |side: bool| -> Vec<i64> {
            let both = lanes.iter().zip(condition);
            both.filter(|(_, it)| **it == side).map(|(lane, _)| *lane).collect()
        };
        let then = self.eval(then, point, &chosen(true));
        let otherwise = self.eval(otherwise, point, &chosen(false));
        Column::merge(condition, &then, &otherwise)
    }

    fn read(
        &self,
        array: &Array,
        subscripts: &[SubscriptNode],
        point: &[i64],
        lanes: &[i64],
    ) -> Column {
        // Linear subscripts add up to a first position and a stride; the others to `offsets`.
        let (mut first, mut stride, mut offsets) = (0, 0, Vec::new());
        let mut step = array.len() as i64;
        for (subscript, extent) in subscripts.iter().zip(&array.shape) {
            let extent = *extent as i64;
            step /= extent.max(1);
            let values = match subscript {
                SubscriptNode::Affine(it @ Affine::Linear { .. }) => {
                    let (start, slope) = self.line(it, point);
                    let ends = [lanes[0], lanes[lanes.len() - 1]].map(|it| start + slope * it);
                    check_bounds(&ends, extent);
                    first += start * step;
                    stride += slope * step;
                    continue;
                }
                SubscriptNode::Affine(it) => self.affine(it, point, lanes),
                SubscriptNode::Value(it) => match self.eval(it, point, lanes) {
                    Column::Int(values) => values,
                    _ => unreachable!("a subscript is an integer"),
                },
            };
            check_bounds(&values, extent);
            offsets.resize(lanes.len(), 0);
            offsets.iter_mut().zip(values).for_each(|(sum, it)| *sum += it * step);
        }
        if offsets.is_empty() {
            gather(array, lanes.iter().map(|it| (first + stride * it) as usize))
        } else {
            let both = lanes.iter().zip(&offsets);
            gather(array, both.map(|(lane, offset)| (first + stride * lane + offset) as usize))
        }
    }

    fn affine(&self, affine: &Affine, point: &[i64], lanes: &[i64]) -> Vec<i64> {
        match affine {
            Affine::Linear { .. } => {
                let (start, slope) = self.line(affine, point);
                lanes.iter().map(|lane| start + slope * lane).collect()
            }
            Affine::General(poly) => {
                let value = |lane: i64| {
                    let axis = |var: VarId| match var.0 as usize {
                        axis if Some(axis) == self.lane_axis => lane,
                        axis => point[axis],
                    };
                    poly.eval(&|_| unreachable!("extents are constants here"), &axis)
                };
                lanes.iter().map(|lane| value(*lane)).collect()
            }
        }
    }

    /// `(start, slope)` such that the value in a lane is `start + slope * lane`.
    fn line(&self, affine: &Affine, point: &[i64]) -> (i64, i64) {
        let Affine::Linear { constant, coefficients } = affine else {
            unreachable!("asked for linear ones only");
        };
        let (mut start, mut slope) = (*constant, 0);
        for (axis, coefficient) in coefficients {
            if Some(*axis) == self.lane_axis {
                slope += coefficient;
            } else {
                start += coefficient * point[*axis];
            }
        }
        (start, slope)
    }
}

struct Resolver<'a, 'e> {
    env: &'e Env<'a>,
    facts: Facts,
}

impl Resolver<'_, '_> {
    fn node(&self, expr: &Expr) -> (Node, DType) {
        let boxed = |it: &Expr| {
            let (node, dtype) = self.node(it);
            (Box::new(node), dtype)
        };
        match expr {
            Expr::Const(value, dtype) => (Node::Constant(Number::literal(*value, *dtype)), *dtype),
            Expr::Index(poly) => (Node::Index(self.affine(poly)), DType::I64),
            Expr::Scalar(scalar) => {
                let value = self.env.scalars[scalar.0 as usize];
                (Node::Constant(value), self.env.scalar_types[scalar.0 as usize])
            }
            Expr::Read { tensor, index } => {
                let array = tensor.0 as usize;
                let subscripts = index.iter().map(|it| match it {
                    Subscript::Affine(poly) => SubscriptNode::Affine(self.affine(poly)),
                    Subscript::Value(value) => SubscriptNode::Value(self.node(value).0),
                });
                let subscripts = subscripts.collect();
                (Node::Read { array, subscripts }, self.env.arrays[array].dtype)
            }
            Expr::Unary(op, a) => {
                let (a, dtype) = boxed(a);
                (Node::Unary(*op, dtype, a), dtype)
            }
            Expr::Binary(op, a, b) => {
                let (a, dtype) = boxed(a);
                (Node::Binary(*op, dtype, a, boxed(b).0), dtype)
            }
            Expr::Compare(op, a, b) => (Node::Compare(*op, boxed(a).0, boxed(b).0), DType::Bool),
            Expr::Select { condition, then, otherwise } => {
                let (then, dtype) = boxed(then);
                let (condition, otherwise) = (boxed(condition).0, boxed(otherwise).0);
                (Node::Select { condition, then, otherwise }, dtype)
            }
            Expr::Cast(to, a) => (Node::Cast(*to, boxed(a).0), *to),
        }
    }

    fn affine(&self, poly: &Poly) -> Affine {
        let extent = |atom: &Atom| match atom {
            Atom::Dim(dim) => Some(Poly::constant(self.env.dims[dim.0 as usize])),
            _ => None,
        };
        let poly = poly.substitute(&extent, &self.facts);
        let mut coefficients = Vec::new();
        for (atoms, coefficient) in poly.terms() {
            match atoms {
                [] => {}
                [Atom::Var(var)] => coefficients.push((var.0 as usize, coefficient)),
                _ => return Affine::General(poly.clone()),
            }
        }
        Affine::Linear { constant: poly.constant_term(), coefficients }
    }
}

fn check_bounds(values: &[i64], extent: i64) {
    for it in values {
        assert!((0..extent).contains(it), "index {it} of a dimension of {extent}");
    }
}

fn gather(array: &Array, positions: impl Iterator<Item = usize>) -> Column {
    match array.elements() {
        Storage::F32(it) => Column::Float(positions.map(|n| it[n].into()).collect()),
        Storage::F16(it) => Column::Float(positions.map(|n| it[n].to_f64()).collect()),
        Storage::Bf16(it) => Column::Float(positions.map(|n| it[n].to_f64()).collect()),
        Storage::F64(it) => Column::Float(positions.map(|n| it[n]).collect()),
        Storage::I8(it) => Column::Int(positions.map(|n| it[n].into()).collect()),
        Storage::U8(it) => Column::Int(positions.map(|n| it[n].into()).collect()),
        Storage::I32(it) => Column::Int(positions.map(|n| it[n].into()).collect()),
        Storage::U32(it) => Column::Int(positions.map(|n| it[n].into()).collect()),
        Storage::I64(it) => Column::Int(positions.map(|n| it[n]).collect()),
        Storage::Bool(it) => Column::Bool(positions.map(|n| it[n]).collect()),
    }
}
