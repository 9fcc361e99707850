//! Reductions that are made of others: means, the place of an extreme, logarithms of sums of exponentials.

use super::elaborate::Elaborator;
use super::errors::Location;
use super::reduce::{Axes, Range};
use super::scan::Step;
use super::value::cast;
use crate::dag::{BinaryOp, CompareOp, DType, Expr, Literal, Reducer, UnaryOp};
use crate::poly::{Poly, VarId};

/// The parts of a reduction.
pub(super) struct Reduced<'a> {
    pub(super) ranges: &'a [Range],
    /// The axes of the ranges.
    pub(super) axes: Vec<VarId>,
    /// The mask of the values that count, if some do not.
    pub(super) mask: Option<Expr>,
    /// The values.
    pub(super) body: Expr,
    pub(super) dtype: DType,
}

impl Reduced<'_> {
    /// Returns the values, where those that do not count change nothing.
    pub(super) fn masked(&self, reducer: Reducer) -> Expr {
        masked(reducer, self.mask.clone(), self.body.clone(), self.dtype)
    }
}

/// Returns a value that changes nothing where a mask does not hold.
fn masked(reducer: Reducer, mask: Option<Expr>, value: Expr, dtype: DType) -> Expr {
    match mask {
        None => value,
        Some(mask) => mask.select(value, Expr::Const(reducer.identity(dtype), dtype)),
    }
}

/// The last index of ranges.
struct Last {
    /// Of those that count for the enclosing axes.
    here: Poly,
    /// For any values of these.
    of_all: Poly,
}

impl Elaborator {
    /// Reads a reduction by a reducer. Where several ranges end at enclosing axes that the values do not depend
    /// on, as in `sum((0..=i, 0..=j), |r, s| x[[r, s]])`, it is a reduction of reductions, each up to one index:
    /// a scan takes one step for an element of these.
    pub(super) fn fold(&mut self, reducer: Reducer, reduced: Reduced<'_>) -> Expr {
        if !self.is_fold_of_prefixes(&reduced) {
            let body = reduced.masked(reducer);
            return self.accumulate(reducer, reduced.axes, body, reduced.dtype);
        }
        let Reduced { ranges, axes, mut body, dtype, .. } = reduced;
        let depth = self.around.len();
        for (n, range) in ranges.iter().enumerate().rev() {
            self.around.extend(&axes[..n]);
            let value = masked(reducer, range.mask(axes[n]), body, dtype);
            body = self.accumulate(reducer, vec![axes[n]], value, dtype);
            self.around.truncate(depth);
        }
        body
    }

    /// Returns whether two ranges at least end at enclosing axes, and the values depend on none of these.
    fn is_fold_of_prefixes(&self, reduced: &Reduced<'_>) -> bool {
        let Reduced { ranges, axes, body, .. } = reduced;
        let used = self.enclosing_axes_of([body]);
        let is_partial = |it: &&Range| self.around.iter().any(|axis| it.mentions(*axis));
        ranges.iter().filter(is_partial).count() > 1
            && !used.iter().any(|axis| ranges.iter().any(|it| it.mentions(*axis)))
            && self.is_always_in_bounds(axes, body)
    }

    pub(super) fn mean(&mut self, reduced: Reduced<'_>, location: Location) -> Option<Expr> {
        let body = reduced.masked(Reducer::Sum);
        let Reduced { ranges, axes, dtype, .. } = reduced;
        self.check_float("mean", dtype, location)?;
        let mut count = Poly::constant(1);
        for it in ranges {
            if !it.count.is_positive(&self.known.facts) {
                let message = "a range may be empty here, and the mean of nothing is no number";
                return self.errors.at_location(location, message);
            }
            count = self.index_binary(BinaryOp::Mul, &count, &it.count, location)?;
        }
        let count = match count.as_constant() {
            Some(it) => Expr::Const(Literal::Float(it as f64), dtype),
            None => cast(dtype, DType::I64, Expr::Index(count)),
        };
        Some(self.accumulate(Reducer::Sum, axes, body, dtype).binary(BinaryOp::Div, count))
    }

    /// Reads `m + ln(sum exp(x - m))`, where `m` is the maximum, or the finite number next to it: infinite
    /// values give an infinite result.
    pub(super) fn log_sum_exp(&mut self, reduced: Reduced<'_>, location: Location) -> Option<Expr> {
        self.check_float("logsumexp", reduced.dtype, location)?;
        // A recurrence has a state for each index of the longest prefix, and one at least.
        if self.is_prefix(&reduced) && self.is_always_in_bounds(&reduced.axes, &reduced.body) {
            return self.log_sum_exp_of_prefix(reduced, location);
        }
        let body = reduced.masked(Reducer::Max);
        let Reduced { axes, dtype, .. } = reduced;
        let most = if dtype == DType::F64 { f64::MAX } else { f64::from(f32::MAX) };
        let finite = |it: f64| Expr::Const(Literal::Float(it), dtype);
        let greatest = self.reduce(Reducer::Max, axes.clone(), body.clone(), dtype);
        let greatest =
            greatest.binary(BinaryOp::Min, finite(most)).binary(BinaryOp::Max, finite(-most));
        let term = body.binary(BinaryOp::Sub, greatest.clone()).unary(UnaryOp::Exp);
        let sum = self.accumulate(Reducer::Sum, axes, term, dtype);
        Some(sum.unary(UnaryOp::Ln).binary(BinaryOp::Add, greatest))
    }

    /// Returns whether ranges are one that ends at an axis, on which the values do not depend.
    fn is_prefix(&self, reduced: &Reduced<'_>) -> bool {
        let [range] = reduced.ranges else { return false };
        let (end, used) = (range.end(), self.enclosing_axes_of([&reduced.body]));
        let mut of_end = self.around.iter().filter(|it| end.mentions(**it)).peekable();
        !range.starts_at_axis() && of_end.peek().is_some() && of_end.all(|it| !used.contains(it))
    }

    /// Reads the last of the states `l' = ln(exp(l) + exp(x))`: a maximum for each prefix, and a sum that
    /// subtracts it, would take as many steps as there are pairs of elements.
    fn log_sum_exp_of_prefix(&mut self, reduced: Reduced<'_>, location: Location) -> Option<Expr> {
        let Reduced { ranges, axes, body, dtype, .. } = reduced;
        let x = self.materialized(&axes, body, dtype);
        let wide = if self.options.accum == Some(DType::F64) { DType::F64 } else { dtype };
        let x = cast(wide, dtype, x);
        let number = |it: f64| Expr::Const(Literal::Float(it), wide);
        let state = self.symbols.new_state(wide);
        let before = Expr::read(state, []);
        let distance = before.clone().binary(BinaryOp::Sub, x.clone()).unary(UnaryOp::Abs);
        let rest = distance.unary(UnaryOp::Neg).unary(UnaryOp::Exp).unary(UnaryOp::Ln1p);
        let sum = before.clone().binary(BinaryOp::Max, x.clone()).binary(BinaryOp::Add, rest);
        // Infinities have no distance from themselves.
        let twice = before.clone().binary(BinaryOp::Add, number(std::f64::consts::LN_2));
        let next = before.compare(CompareOp::Eq, x).select(twice, sum);
        let step = Step { axis: axes[0], state, next };
        let first = number(f64::NEG_INFINITY);
        let last = self.last_state(&ranges[0], step, first, wide, location)?;
        Some(cast(dtype, wide, last))
    }

    fn check_float(&mut self, name: &str, dtype: DType, location: Location) -> Option<()> {
        if dtype.is_float() {
            return Some(());
        }
        let message = format!("`{name}` applies to floats, not {dtype}: convert with `as f32`");
        self.errors.at_location(location, message)
    }

    /// Reads the least index at which the body is extreme, as `I64`; of several ranges, the number of its
    /// indices in row-major order.
    pub(super) fn arg(
        &mut self,
        name: &str,
        reducer: Reducer,
        reduced: Reduced<'_>,
        location: Location,
    ) -> Option<Expr> {
        let (place, last) = self.places(name, &reduced, location)?;
        let index_type = self.index_type(&last.of_all);
        let Reduced { axes, mask, dtype, .. } = &reduced;
        let value = match is_read(&reduced.body) {
            true => reduced.body.clone(),
            false => self.materialized(axes, reduced.masked(reducer), *dtype),
        };
        let values =
            Reduced { body: value.clone(), mask: mask.clone(), axes: axes.clone(), ..reduced };
        let best = self.reduce(reducer, axes.clone(), values.masked(reducer), *dtype);
        let index = |poly: Poly| cast(index_type, DType::I64, Expr::Index(poly));
        // The last index is valid even where all values are NaN, and none is equal.
        let last = index(last.here);
        let mut position = value.compare(CompareOp::Eq, best).select(index(place), last.clone());
        if let Some(mask) = mask {
            position = mask.clone().select(position, last);
        }
        let least = self.reduce(Reducer::Min, axes.clone(), position, index_type);
        Some(cast(DType::I64, index_type, least))
    }

    /// Returns the index of a value, and the last index.
    fn places(
        &mut self,
        name: &str,
        reduced: &Reduced<'_>,
        location: Location,
    ) -> Option<(Poly, Last)> {
        let (mut place, mut here, mut of_all) = (Poly::default(), Poly::default(), Poly::default());
        for (range, axis) in reduced.ranges.iter().zip(&reduced.axes) {
            if !range.count.is_positive(&self.known.facts) {
                let message =
                    format!("a range may be empty here, and `{name}` of nothing is no index");
                return self.errors.at_location(location, message);
            }
            // Of several ranges, rows are counted from 0.
            let first = if reduced.ranges.len() == 1 { range.lo.clone() } else { Poly::default() };
            let whole = first.clone() + range.extent.clone() - Poly::constant(1);
            of_all = self.index_binary(BinaryOp::Mul, &of_all, &range.extent, location)?;
            of_all = self.index_binary(BinaryOp::Add, &of_all, &whole, location)?;
            place = place * range.extent.clone() + first.clone() + Poly::var(*axis);
            let end = range.end() - range.lo.clone() - Poly::constant(1);
            here = here * range.extent.clone() + first + end;
        }
        Some((place, Last { here, of_all }))
    }

    /// Returns the type for indices up to that one.
    pub(super) fn index_type(&self, last: &Poly) -> DType {
        // Vectors of 32-bit integers are twice as fast, so they are used where they suffice.
        let narrow = last.interval(&self.known.facts).hi <= i64::from(i32::MAX);
        if narrow { DType::I32 } else { DType::I64 }
    }

    /// Gives a body that is read twice a tensor of its own, unless it is a mere read.
    pub(super) fn materialized(&mut self, axes: &[VarId], body: Expr, dtype: DType) -> Expr {
        if is_read(&body) {
            return body;
        }
        let mut spatial = self.enclosing_axes_of([&body]);
        spatial.extend(axes);
        let name = format!("{}_values", self.current);
        let tensor = self.define(name, Axes { spatial: &spatial, reduce: &[] }, None, &body, dtype);
        Expr::read(tensor, spatial.into_iter().map(Poly::var))
    }
}

/// Returns whether a value is an element of a tensor as it is, or in another type.
fn is_read(value: &Expr) -> bool {
    match value {
        Expr::Cast(_, inner) => matches!(**inner, Expr::Read { .. }),
        it => matches!(it, Expr::Read { .. }),
    }
}
