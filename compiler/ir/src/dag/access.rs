//! Access analysis: the reads of a compute with their strides, and reuse.
//!
//! In: a [`Compute`] and the shapes of the tensors. Out: [`Access`]es, and predicates on them that
//! decide which sketch rules apply. All follow from subscripts and extents, none from the name of an
//! operation.
//!
//! # Source
//!
//! Ansor's access analysis (`compute_dag.cc` of TVM 0.16): `needs_tiling` is its
//! `NeedsMultiLevelTiling`. Strides, for layouts and vectors, are ours.

use super::{BinaryOp, Compute, Expr, Subscript, TensorId, UnaryOp};
use crate::poly::{Facts, Poly, VarId, gcd};
use crate::size::Size;

/// One read in the body of a compute.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// The tensor that is read.
    pub tensor: TensorId,
    /// For each axis of the compute, the stride between iterations in elements of the row-major
    /// tensor. `None` if it is not constant, or depends on data.
    pub strides: Vec<Option<Poly>>,
    /// For each dimension of the tensor, for each axis, the coefficient in the subscript. `None` for
    /// subscripts that are not linear in all axes, or depend on data.
    pub steps: Vec<Option<Vec<i64>>>,
    /// True if it is evaluated under a condition only.
    pub conditional: bool,
    /// True if a read before it is of the same element in every iteration: `x` in the second factor of
    /// `(x - y) * (x - y)`.
    pub repeated: bool,
    /// True if a subscript is data, `x[ids[i]]`, or multiplies axes, `x[i * i]`.
    pub indirect: bool,
}

impl Access {
    /// Returns whether different iterations of that axis read different elements, as far as is known.
    pub fn depends_on(&self, axis: usize) -> bool {
        self.strides[axis].as_ref().is_none_or(|it| !it.is_zero())
    }

    /// Returns whether iterations of that axis read adjacent elements.
    pub fn is_contiguous(&self, axis: usize) -> bool {
        self.strides[axis].as_ref().and_then(Poly::as_constant) == Some(1)
    }

    /// Returns whether iterations of that axis read every other element.
    pub fn is_every_other(&self, axis: usize) -> bool {
        self.strides[axis].as_ref().and_then(Poly::as_constant) == Some(2)
    }

    /// Returns whether iterations of that axis read elements that data chooses, or a product of axes.
    pub fn is_gathered(&self, axis: usize) -> bool {
        self.indirect && self.strides[axis].is_none()
    }

    /// Recomputes the strides for a tensor whose dimensions are stored in another order.
    pub fn permute(&mut self, order: &[usize], shape: &[Poly]) {
        let stored = |axis: usize| {
            let step = |stride: Poly, dim: &usize| {
                let step = self.steps[*dim].as_ref()?[axis];
                Some(stride * shape[*dim].clone() + Poly::constant(step))
            };
            order.iter().try_fold(Poly::default(), step)
        };
        self.strides = (0..self.strides.len()).map(stored).collect();
    }

    /// Returns an upper bound on the elements read while each axis runs that many iterations.
    pub fn footprint(&self, extents: &[u64]) -> u64 {
        let width = |steps: &Option<Vec<i64>>| {
            let steps = steps.as_ref()?.iter().zip(extents);
            let reach = steps.map(|(step, n)| step.unsigned_abs().saturating_mul(n - 1));
            Some(reach.fold(1, u64::saturating_add))
        };
        let widths: Option<Vec<u64>> = self.steps.iter().map(width).collect();
        widths.map_or_else(|| extents.iter().size(), |it| it.iter().size())
    }
}

/// Returns every read of a compute, in order of evaluation.
pub fn accesses(
    compute: &Compute,
    shape: &dyn Fn(TensorId) -> Vec<Poly>,
    facts: &Facts,
) -> Vec<Access> {
    let mut found = Vec::new();
    let n_axes = compute.axes.len();
    let mut before: Vec<(TensorId, Vec<Subscript>, bool)> = Vec::new();
    for_each_read(&compute.body, &mut |tensor, index, conditional| {
        // A read below a condition may not be evaluated where a later one is.
        let is_same = |it: &(TensorId, Vec<Subscript>, bool)| {
            it.0 == tensor && it.1 == index && it.2 <= conditional
        };
        let repeated = before.iter().any(is_same);
        before.push((tensor, index.to_vec(), conditional));
        let shape = shape(tensor);
        let steps = index.iter().map(|it| steps(it, n_axes)).collect();
        let strides = strides(index, &shape, n_axes, facts);
        let indirect = index.iter().any(|it| it.affine().is_none_or(Poly::multiplies_vars));
        found.push(Access { tensor, strides, steps, conditional, repeated, indirect });
    });
    found
}

/// Returns whether tiling pays: some tensor is reused along a spatial axis with more than one iteration, of a
/// reduction; or two tensors are. The steps of a recurrence are no tiles.
pub fn needs_tiling(compute: &Compute, accesses: &[Access], extent: &dyn Fn(usize) -> u64) -> bool {
    let mut tensors: Vec<TensorId> = accesses.iter().map(|it| it.tensor).collect();
    tensors.sort_unstable();
    tensors.dedup();
    let reused = |tensor: &&TensorId| {
        (0..compute.n_spatial).any(|axis| {
            let mut reads = accesses.iter().filter(|it| it.tensor == **tensor);
            extent(axis) > 1 && reads.all(|it| !it.depends_on(axis))
        })
    };
    let n_reused = tensors.iter().filter(reused).count();
    let is_reused = n_reused >= 2 || (n_reused >= 1 && compute.reducer.is_some());
    is_reused && !compute.is_recurrent()
}

/// Returns the number of leading spatial axes that index `tensor` unchanged, in all reads of it.
pub fn leading_axes(compute: &Compute, tensor: TensorId) -> usize {
    let mut n = compute.n_spatial;
    for_each_read(&compute.body, &mut |read, index, _| {
        let same = |(axis, it): &(usize, &Subscript)| matches!(it, Subscript::Affine(poly) if poly.as_var() == Some(VarId(*axis as u32)));
        if read == tensor {
            n = n.min(index.iter().enumerate().take_while(same).count());
        }
    });
    n
}

/// Returns the number of iterations of an axis after which some quotient or remainder in the body of a
/// compute takes a whole step, of those up to `max`: the least common multiple where there are several, 1
/// where there are none.
pub fn period(compute: &Compute, axis: usize, max: u64) -> u64 {
    let mut period = 1;
    compute.body.for_each_poly(&mut |poly| {
        poly.for_each_division(&mut |dividend, divisor| {
            let step = dividend.step(VarId(axis as u32)).filter(|it| *it != 0);
            let (Some(by), Some(step)) = (divisor.as_constant(), step) else { return };
            let of_one = by / gcd(by, step);
            let of_both = period / gcd(period, of_one) * of_one;
            if of_both <= max as i64 {
                period = of_both;
            }
        });
    });
    period as u64
}

/// Estimates the cost of evaluating an expression once, in vector instructions; loads and index
/// arithmetic are free.
pub fn work(expr: &Expr) -> u64 {
    let own = match expr {
        Expr::Const(..) | Expr::Index(_) | Expr::Scalar(_) | Expr::Read { .. } => 0,
        Expr::Unary(op, _) => match op {
            UnaryOp::Sqrt | UnaryOp::Rsqrt => 8,
            UnaryOp::Exp | UnaryOp::Exp2 => 12,
            UnaryOp::Ln
            | UnaryOp::Log2
            | UnaryOp::ExpM1
            | UnaryOp::Ln1p
            | UnaryOp::Tanh
            | UnaryOp::Erf
            | UnaryOp::Sin
            | UnaryOp::Cos
            | UnaryOp::Atan => 20,
            UnaryOp::Tf32 => 4,
            UnaryOp::Neg
            | UnaryOp::Not
            | UnaryOp::Abs
            | UnaryOp::Floor
            | UnaryOp::Ceil
            | UnaryOp::Round => 1,
        },
        Expr::Binary(op, ..) => match op {
            BinaryOp::Div | BinaryOp::Rem => 6,
            BinaryOp::Pow => 40,
            BinaryOp::Add
            | BinaryOp::Sub
            | BinaryOp::Mul
            | BinaryOp::Min
            | BinaryOp::Max
            | BinaryOp::And
            | BinaryOp::Or
            | BinaryOp::BitAnd
            | BinaryOp::BitOr
            | BinaryOp::BitXor
            | BinaryOp::Shl
            | BinaryOp::Shr => 1,
        },
        Expr::Compare(..) | Expr::Select { .. } | Expr::Cast(..) => 1,
    };
    expr.children().into_iter().map(work).sum::<u64>() + own
}

/// Calls `f` for each read of an expression, in order of evaluation, outermost first: with the tensor, the
/// index, and true if the read is evaluated under a condition only.
pub fn for_each_read(expr: &Expr, f: &mut dyn FnMut(TensorId, &[Subscript], bool)) {
    visit(expr, false, f);
}

fn visit(expr: &Expr, conditional: bool, f: &mut dyn FnMut(TensorId, &[Subscript], bool)) {
    if let Expr::Read { tensor, index } = expr {
        f(*tensor, index, conditional);
    }
    if let Expr::Select { condition, then, otherwise } = expr {
        visit(condition, conditional, f);
        visit(then, true, f);
        return visit(otherwise, true, f);
    }
    for child in expr.children() {
        visit(child, conditional, f);
    }
}

fn steps(subscript: &Subscript, n_axes: usize) -> Option<Vec<i64>> {
    let Subscript::Affine(poly) = subscript else { return None };
    let step = |axis: usize| poly.split_linear(VarId(axis as u32))?.0.as_constant();
    (0..n_axes).map(step).collect()
}

fn strides(index: &[Subscript], shape: &[Poly], n_axes: usize, facts: &Facts) -> Vec<Option<Poly>> {
    let mut flat = Poly::default();
    for (subscript, extent) in index.iter().zip(shape) {
        let Some(poly) = subscript.affine() else {
            return data_dependent_strides(index, shape, n_axes, facts);
        };
        flat = flat * extent.clone() + poly.clone();
    }
    let stride = |axis: usize| {
        let (stride, _) = flat.split_linear(VarId(axis as u32))?;
        (!stride.has_vars()).then_some(stride)
    };
    (0..n_axes).map(stride).collect()
}

/// Returns the strides of the affine subscripts, for axes on which no data-dependent one depends.
fn data_dependent_strides(
    index: &[Subscript],
    shape: &[Poly],
    n_axes: usize,
    facts: &Facts,
) -> Vec<Option<Poly>> {
    let zero = || Subscript::Affine(Poly::default());
    let known: Vec<Subscript> = index
        .iter()
        .map(|it| if matches!(it, Subscript::Value(_)) { zero() } else { it.clone() })
        .collect();
    let mut strides = strides(&known, shape, n_axes, facts);
    for value in index.iter().filter_map(Subscript::value) {
        for (axis, stride) in strides.iter_mut().enumerate() {
            if value.mentions(VarId(axis as u32)) {
                *stride = None;
            }
        }
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dag::{CompareOp, ComputeAxis, Reducer};

    const X: TensorId = TensorId(0);
    const W: TensorId = TensorId(1);

    /// `c[i, j] = sum(k, body)` over 4 x 5 x 6.
    fn compute(body: Expr) -> Compute {
        let axis = |(name, extent): (&str, i64)| ComputeAxis {
            name: name.into(),
            extent: Poly::constant(extent),
        };
        let axes = [("i", 4), ("j", 5), ("k", 6)].map(axis).to_vec();
        Compute { tensor: TensorId(2), axes, n_spatial: 2, reducer: Some(Reducer::Sum), body }
    }

    fn var(n: u32) -> Poly {
        Poly::var(VarId(n))
    }

    fn analyzed(body: Expr, shapes: [&[i64]; 2]) -> (Compute, Vec<Access>) {
        let compute = compute(body);
        let shape =
            |it: TensorId| shapes[it.0 as usize].iter().map(|n| Poly::constant(*n)).collect();
        let accesses = accesses(&compute, &shape, &Facts::default());
        (compute, accesses)
    }

    fn strides(access: &Access) -> Vec<Option<i64>> {
        access.strides.iter().map(|it| it.as_ref().and_then(Poly::as_constant)).collect()
    }

    #[test]
    fn a_product_of_matrices_reuses_both() {
        let body =
            Expr::read(X, [var(0), var(2)]).binary(BinaryOp::Mul, Expr::read(W, [var(1), var(2)]));
        let (compute, accesses) = analyzed(body, [&[4, 6], &[5, 6]]);
        assert_eq!(strides(&accesses[0]), [Some(6), Some(0), Some(1)]);
        assert_eq!(strides(&accesses[1]), [Some(0), Some(6), Some(1)]);
        assert!(needs_tiling(&compute, &accesses, &|_| 4));
        assert_eq!(accesses[0].footprint(&[2, 5, 3]), 6);
    }

    #[test]
    fn a_sum_of_rows_reuses_nothing() {
        let (compute, accesses) =
            analyzed(Expr::read(X, [var(0), var(1), var(2)]), [&[4, 5, 6], &[]]);
        assert!(!needs_tiling(&compute, &accesses, &|_| 4));
        assert!(accesses[0].is_contiguous(2) && !accesses[0].is_contiguous(1));
    }

    #[test]
    fn axes_that_run_once_are_no_reuse() {
        let (compute, accesses) = analyzed(Expr::read(X, [var(0), var(2)]), [&[4, 6], &[]]);
        assert!(needs_tiling(&compute, &accesses, &|_| 5));
        assert!(!needs_tiling(&compute, &accesses, &|_| 1));
    }

    #[test]
    fn quotients_and_remainders_have_a_period() {
        let divided = |by: i64| var(0).div(&Poly::constant(by), &Facts::default());
        let body = Expr::read(X, [divided(2), divided(3)]);
        let (compute, _) = analyzed(body, [&[4, 6], &[]]);
        assert_eq!([6, 5, 1].map(|max| period(&compute, 0, max)), [6, 2, 1]);
        assert_eq!(period(&compute, 1, 6), 1);
        let steps = (var(0) * 6).modulo(&Poly::constant(4), &Facts::default());
        let (compute, _) = analyzed(Expr::read(X, [steps, var(1)]), [&[4, 6], &[]]);
        assert_eq!(period(&compute, 0, 8), 2);
    }

    #[test]
    fn reads_are_repeated_where_one_before_is_of_the_same_element_and_always_evaluated() {
        let x = |column: Poly| Expr::read(X, [var(0), column]);
        let sum = |a: Expr, b: Expr| a.binary(BinaryOp::Add, b);
        let chosen = |then: Expr, otherwise: Expr| {
            let condition = Expr::Index(var(0)).compare(CompareOp::Lt, Expr::Index(var(1)));
            condition.select(then, otherwise)
        };
        let repeated = |body: Expr| -> Vec<bool> {
            let (_, accesses) = analyzed(body, [&[4, 6], &[4, 6]]);
            accesses.iter().map(|it| it.repeated).collect()
        };
        let k = || x(var(2));
        assert_eq!(repeated(sum(sum(k(), k()), x(var(1)))), [false, true, false]);
        assert_eq!(repeated(sum(k(), Expr::read(W, [var(0), var(2)]))), [false, false]);
        // A branch may not be taken.
        assert_eq!(repeated(sum(chosen(k(), x(var(1))), k())), [false, false, false]);
        assert_eq!(repeated(sum(k(), chosen(k(), x(var(1))))), [false, true, false]);
    }

    #[test]
    fn windows_overlap_in_their_footprint() {
        let (_, accesses) = analyzed(Expr::read(X, [var(0) * 2 + var(2), var(1)]), [&[16, 5], &[]]);
        assert_eq!(strides(&accesses[0]), [Some(10), Some(1), Some(5)]);
        assert_eq!(accesses[0].footprint(&[4, 1, 3]), 9);
    }

    #[test]
    fn a_gather_has_strides_where_it_does_not_look_up() {
        let row = Subscript::Value(Box::new(Expr::read(W, [var(0)])));
        let index = vec![row, Subscript::Affine(var(1))];
        let (_, accesses) = analyzed(Expr::Read { tensor: X, index }, [&[100, 5], &[4]]);
        assert_eq!(strides(&accesses[0]), [None, Some(1), Some(0)]);
        // The tensor of indices has the strides of its own axes.
        assert_eq!(strides(&accesses[1]), [Some(1), Some(0), Some(0)]);
        let gathered = |access: &Access| [0, 1, 2].map(|axis| access.is_gathered(axis));
        assert_eq!(gathered(&accesses[0]), [true, false, false]);
        assert_eq!(gathered(&accesses[1]), [false; 3]);
    }

    #[test]
    fn a_condition_is_always_evaluated_and_its_branches_are_not() {
        let test = Expr::read(W, [var(0)]);
        let (then, otherwise) = (Expr::read(X, [var(0), var(1)]), Expr::read(X, [var(0), var(2)]));
        let inner = test.clone().select(then, otherwise);
        let (_, accesses) = analyzed(test.select(inner, Expr::read(W, [var(1)])), [&[4, 6], &[6]]);
        let conditional: Vec<bool> = accesses.iter().map(|it| it.conditional).collect();
        assert_eq!(conditional, [false, true, true, true, true]);
    }
}
