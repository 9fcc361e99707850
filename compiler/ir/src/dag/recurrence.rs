//! Recurrences: computes whose elements depend on the element before along one axis.
//!
//! ```text
//! t1[v0, v1] = add(mul(0.9_f32, select(ge(index(v0), index(1)), t1[v0 - 1, v1], 0.0_f32)), t0[v0, v1])
//! ```
//!
//! Such a compute reads its own tensor, always at one place: its own axes, and along the *recurrent* axis
//! the index before. Iterations of that axis run in order, one after the other; those of all other axes are
//! independent. The first iteration must not read what is before it, which the verifier proves as for any
//! read.

use super::{Compute, Expr, Subscript};
use crate::poly::{Poly, VarId};

/// The state of a recurrence, as its body reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// The expression that reads it: the element before, or `first` where there is none.
    pub read: Expr,
    /// The state before the first step, which does not depend on steps.
    pub first: Expr,
}

impl Compute {
    /// Returns whether elements depend on others of the same tensor.
    pub fn is_recurrent(&self) -> bool {
        self.reducer.is_none() && self.reads(self.tensor)
    }

    /// Returns the axis along which elements depend on the one before; `None` if the compute reads no
    /// element of its own tensor, or others than the one before.
    pub fn recurrent_axis(&self) -> Option<usize> {
        let mut found = None;
        let mut is_one = self.reducer.is_none();
        self.body.for_each_read(&mut |tensor, index| {
            if tensor == self.tensor {
                let axis = step_back(index, self.n_spatial);
                is_one &= axis.is_some() && found.is_none_or(|it| Some(it) == axis);
                found = axis;
            }
        });
        found.filter(|_| is_one)
    }

    /// Returns the state of a recurrence; `None` if its body reads elements of its own tensor in other ways
    /// than [`state_before`] says, or in several.
    pub fn state(&self) -> Option<State> {
        let step = VarId(self.recurrent_axis()? as u32);
        let mut found: Option<State> = None;
        let mut is_one = true;
        let mut n_reads = 0;
        self.body.walk(&mut |it| {
            let Expr::Select { then, otherwise, .. } = it else { return };
            if matches!(&**then, Expr::Read { tensor, .. } if *tensor == self.tensor)
                && state_before(step, (**then).clone(), (**otherwise).clone()) == *it
            {
                n_reads += 1;
                is_one &= found.as_ref().is_none_or(|found| found.read == *it);
                found = Some(State { read: it.clone(), first: (**otherwise).clone() });
            }
        });
        let mut n_own = 0;
        self.body.for_each_read(&mut |tensor, _| n_own += usize::from(tensor == self.tensor));
        let is_state = |it: &State| !it.first.mentions(step) && !it.first.reads(self.tensor);
        found.filter(|it| is_one && n_reads == n_own && is_state(it))
    }
}

/// Returns the axis along which an index is one less than the axes.
fn step_back(index: &[Subscript], n_axes: usize) -> Option<usize> {
    let distance = |(n, it): (usize, &Subscript)| match it {
        Subscript::Affine(poly) => {
            (Poly::var(VarId(n as u32)) - poly.clone()).as_constant().filter(|it| *it >= 0)
        }
        Subscript::Value(_) => None,
    };
    let distances: Vec<i64> = index.iter().enumerate().map(distance).collect::<Option<_>>()?;
    let is_step = distances.len() == n_axes && distances.iter().sum::<i64>() == 1;
    distances.iter().position(|it| *it == 1).filter(|_| is_step)
}

/// Returns the state before each step: `state`, the element before, or `first` where there is none.
pub fn state_before(step: VarId, state: Expr, first: Expr) -> Expr {
    let is_later =
        Expr::Index(Poly::var(step)).compare(super::CompareOp::Ge, Expr::Index(Poly::constant(1)));
    is_later.select(state, first)
}
