//! The definition of a program, which results are compared with.
//!
//! In: the extents and arguments of a launch. Out: its results. Most programs are defined by their computes,
//! which are interpreted. Hand-written kernels may be defined by a function of Rust, which is compiled once,
//! by the compiler of the user, and runs in a process of its own: it may panic, or never return.

mod compiled;
pub(crate) mod exact; // in double precision
pub mod rounding; // errors of ill-conditioned elements

use std::sync::OnceLock;

use tvmtune_ir::dag::{Dag, Number, Numerics};
use tvmtune_ir::interp::{self, Array};

use compiled::Compiled;

/// The definition of one program. See the [module documentation](self).
#[derive(Debug, Default)]
pub struct Definition {
    compiled: OnceLock<Result<Compiled, String>>,
}

impl Definition {
    /// Computes all results of `dag`: the same program in each call, for all or some of its extents.
    ///
    /// # Errors
    ///
    /// If a function of Rust defines the program, and it does not compile, panics, or takes too long.
    ///
    /// # Panics
    ///
    /// As [`interp::run`].
    pub fn results(
        &self,
        dag: &Dag,
        dims: &[i64],
        params: &[Array],
        scalars: &[Number],
    ) -> Result<Vec<Array>, String> {
        let Some(reference) = dag.reference() else {
            return Ok(match dag.numerics {
                Numerics::Free => interp::run(dag, dims, params, scalars),
                Numerics::Fixed => interp::run_in_order(dag, dims, params, scalars),
            });
        };
        let compiled = self.compiled.get_or_init(|| Compiled::new(dag, reference));
        compiled.as_ref().map_err(String::clone)?.run(dag, dims, params, scalars)
    }
}

#[cfg(test)]
mod tests;
