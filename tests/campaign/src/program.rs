//! Programs: reading them, extents to run them at, and what holds of every one.

use proc_macro2::TokenStream;
use tvmtune_ir::dag::{DType, Dag, print, verify};
use tvmtune_ir::dsl;
use tvmtune_ir::poly::Interval;
use tvmtune_ir::workload::{self, Strength};
use tvmtune_tuner::random::Random;

use crate::generate::Flavor;
use crate::section::Problem;

/// Reads every program of a function.
///
/// # Errors
///
/// All errors of the function.
pub fn read(text: &str) -> syn::Result<Vec<Dag>> {
    let function: syn::ItemFn = syn::parse_str(text)?;
    let options = dsl::attribute(&function).unwrap_or_else(|| Ok(TokenStream::new()))?;
    let instances = dsl::instances(options, &function)?;
    dsl::for_each_instance(&instances, |it| dsl::build(&dsl::parse(it.options.clone(), &it.item)?))
}

/// Returns an extent for each dynamic dimension, in its range: small ones, ends of ranges, and
/// numbers around those of vectors.
pub fn dims(dag: &Dag, random: &mut Random) -> Vec<i64> {
    let value = |random: &mut Random, range: Interval| {
        let Interval { lo, hi } = range;
        let near = [1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33][random.below(12)];
        let value = match random.below(6) {
            0 => lo,
            1 => hi.min(40),
            2 => hi.min(40) - 1,
            3 => lo.saturating_add(near),
            _ => near,
        };
        value.min(hi).max(lo)
    };
    let mut dims: Vec<i64> = dag.dims.iter().map(|it| value(random, it.range)).collect();
    // Ends depend on one another, without a cycle.
    for _ in &dag.dims {
        for (at, dim) in dag.dims.iter().enumerate() {
            let end = dim.lower_end.as_ref().map_or(0, |it| it.eval_dims(&dims));
            dims[at] = dims[at].max(end);
        }
    }
    dims
}

/// Returns how far results of a program from the grammar may be from its definition, by type; `None`
/// where that cannot be said.
pub fn tolerance(flavor: Flavor, dag: &Dag) -> Option<fn(DType) -> f64> {
    let narrow = dag.tensors.iter().any(|it| matches!(it.dtype, DType::F16 | DType::Bf16));
    match flavor {
        Flavor::Exact => Some(|_| 0.0),
        Flavor::Smooth if narrow => Some(|dtype| if dtype.is_float() { 0.2 } else { 0.0 }),
        Flavor::Smooth => Some(|dtype| if dtype.is_float() { 2e-3 } else { 0.0 }),
        Flavor::Extreme => None,
    }
}

/// Returns the text of a program and the extents of a launch, for readers.
pub fn describe(dag: &Dag, dims: &[i64]) -> String {
    format!("{}\ndims {dims:?}\n", print::canonical(dag))
}

/// Checks that a dag is well formed, also at its greatest extents, and is what its text says.
///
/// # Errors
///
/// What is not.
pub fn check_text(dag: &Dag) -> Result<(), Problem> {
    let largest: Vec<_> = dag.dims.iter().map(|it| Interval::point(it.range.hi)).collect();
    for dag in [dag, &dag.specialize(&largest)] {
        if let [first, ..] = verify(dag).as_slice() {
            return Err(Problem::wrong(format!("the dag is not well formed: {first}")));
        }
    }
    let text = print::canonical(dag);
    let read: Dag = match text.parse() {
        Ok(read) => read,
        Err(error) => return Err(Problem::wrong(format!("canonical text: {error}\n{text}"))),
    };
    if workload::id(&read) != workload::id(dag) {
        return Err(Problem::wrong(format!("another identity comes back from\n{text}")));
    }
    for strength in Strength::ALL {
        if workload::class(&read, strength) != workload::class(dag, strength) {
            return Err(Problem::wrong(format!("another class comes back from\n{text}")));
        }
    }
    Ok(())
}
