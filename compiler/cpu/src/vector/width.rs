//! The width of lanes that a program needs, before it is lowered: templates and models count vectors by it.
//!
//! It may be wrong: a product of 64-bit integers, say, takes wide lanes only where range analysis cannot
//! prove that it fits 32 bits. Then tiles have half or twice the vectors they were made for.

use super::{Simd, Width};
use tvmtune_ir::dag::{Compute, DType, Dag};
use tvmtune_ir::target::Isa;
use tvmtune_schedule::nest::{Nest, Stmt};

/// Returns the width of lanes that a program is expected to be computed in.
#[must_use]
pub fn of_dag(dag: &Dag) -> Width {
    let reduces_long =
        |it: &Compute| it.reducer.is_some() && dag.tensor(it.tensor).dtype == DType::I64;
    let is_long = dag.tensors.iter().any(|it| it.dtype == DType::F64)
        || dag.computes.iter().any(reduces_long);
    width(is_long)
}

/// Returns the number of lanes of the vectors that a nest is expected to be computed with.
#[must_use]
pub fn lanes_of_nest(isa: Isa, nest: &Nest) -> u64 {
    let is_long = nest.buffers.iter().any(|it| it.dtype == DType::F64)
        || nest.body.iter().any(|it| reduces_long(nest, it));
    Simd { isa, width: width(is_long) }.lanes().unsigned_abs()
}

fn width(is_long: bool) -> Width {
    if is_long { Width::Bits64 } else { Width::Bits32 }
}

fn reduces_long(nest: &Nest, stmt: &Stmt) -> bool {
    match stmt {
        Stmt::For { body, .. } | Stmt::If { body, .. } => {
            body.iter().any(|it| reduces_long(nest, it))
        }
        Stmt::Update { tensor, .. } => nest.buffer(*tensor).dtype == DType::I64,
        Stmt::Store { .. } => false,
    }
}
