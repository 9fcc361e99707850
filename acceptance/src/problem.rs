//! A case at some extents: what it computes, from which arguments, and whether results are right.

use std::sync::Arc;

use tvmtune_core::dag::{self, DType, Dag};
use tvmtune_core::dsl;
use tvmtune_core::interp::{Array, Number};
use tvmtune_tuner::random::Random;
use tvmtune_tuner::tune::{Tolerance, sample};

use crate::case::Case;

/// See the module.
#[derive(Clone, Debug)]
pub struct Problem {
    /// What it is.
    pub dag: Arc<Dag>,
    /// How far results may be from the reference.
    pub tolerance: Tolerance,
    /// Numbers that elements are looked up by are below this, but for a few.
    looked_up: Option<i64>,
}

/// Elements that are drawn; larger arrays repeat them. A prime, so that rows differ.
const DRAWN: usize = 1_000_003;

impl Problem {
    /// A case at extents, as `dims(..)` has them.
    ///
    /// # Errors
    ///
    /// If this is no program.
    pub fn new(case: &Case, dims: &str) -> Result<Self, String> {
        let text = format!("#[autotune(dims({dims}))] {}", case.function);
        let failed = |it: syn::Error| format!("{} at {dims}: {it}", case.name);
        let function: syn::ItemFn = syn::parse_str(&text).map_err(failed)?;
        let options = dsl::attribute(&function).ok_or("no attribute")?.map_err(failed)?;
        let program = dsl::parse(options, &function).map_err(failed)?;
        // Relative to the results alone: those of a softmax over a long row are below any constant.
        let tolerance = Tolerance { rel: program.tolerance().rel, abs: 0.0 };
        let dag = Arc::new(dag::build(&program).map_err(failed)?);
        Ok(Self { dag, tolerance, looked_up: case.looked_up.and_then(|it| extent(dims, it)) })
    }

    /// The largest extents of the dynamic dimensions.
    pub fn largest(&self) -> Vec<i64> {
        self.dag.dims.iter().map(|it| it.range.hi).collect()
    }

    /// Random parameters.
    pub fn params(&self, dims: &[i64]) -> Vec<Array> {
        let param = |(seed, id)| {
            let tensor = self.dag.tensor(id);
            array(tensor.dtype, &shape(&self.dag, id, dims), seed, self.looked_up)
        };
        (1..).zip(self.dag.params()).map(param).collect()
    }

    /// The run-time scalars: neither zero nor one.
    pub fn scalars(&self) -> Vec<Number> {
        let scalar = |(n, dtype): (i64, DType)| match dtype {
            DType::Bool => Number::Bool(true),
            it if it.is_float() => Number::Float(0.375 + n as f64 / 8.0),
            _ => Number::Int(3 + n),
        };
        (0..).zip(self.dag.scalars.iter().map(|it| it.dtype)).map(scalar).collect()
    }

    /// The type and shape of each result.
    pub fn results(&self, dims: &[i64]) -> Vec<(DType, Vec<u64>)> {
        let result = |id: &_| (self.dag.tensor(*id).dtype, shape(&self.dag, *id, dims));
        self.dag.outputs.iter().map(result).collect()
    }

    /// Where results differ from what is right; `None` if nowhere. Of large ones, some elements are
    /// looked at.
    pub fn difference(&self, dims: &[i64], params: &[Array], results: &[Array]) -> Option<String> {
        let scalars = self.scalars();
        let arguments = (params, scalars.as_slice());
        let found = sample::difference(&self.dag, dims, arguments, results, self.tolerance);
        found.map(|it| format!("at {dims:?}: {it}"))
    }
}

/// The extent of a fixed dimension.
fn extent(dims: &str, name: &str) -> Option<i64> {
    let value =
        |part: &str| part.trim().strip_prefix(name)?.trim().strip_prefix('=')?.trim().parse().ok();
    dims.split(',').find_map(value)
}

/// The extents of a tensor.
fn shape(dag: &Dag, tensor: dag::TensorId, dims: &[i64]) -> Vec<u64> {
    dag.tensor(tensor).shape.iter().map(|it| it.eval_dims(dims).max(0).cast_unsigned()).collect()
}

fn array(dtype: DType, shape: &[u64], seed: u64, looked_up: Option<i64>) -> Array {
    let n = shape.iter().product::<u64>() as usize;
    let n_drawn = [n.min(DRAWN) as u64];
    let drawn = match looked_up.filter(|_| matches!(dtype, DType::I32 | DType::I64)) {
        // Two of them are outside.
        Some(below) => {
            let mut random = Random::new(seed);
            let number = |_| Number::Int(random.below(below as usize + 2) as i64 - 1);
            Array::from_fn(dtype, &n_drawn, number)
        }
        None => Array::random(dtype, &n_drawn, seed),
    };
    let bytes = drawn.bytes();
    let n_bytes = n * dtype.bytes() as usize;
    let mut all = Vec::with_capacity(n_bytes);
    while all.len() < n_bytes {
        all.extend_from_slice(&bytes[..bytes.len().min(n_bytes - all.len())]);
    }
    Array::from_bytes(dtype, shape, &all)
}

#[cfg(test)]
mod tests {
    use tvmtune_core::interp;

    use super::*;
    use crate::case;

    #[test]
    fn every_case_is_a_program_with_arguments() {
        for case in case::all() {
            for check in case.checks {
                let problem = Problem::new(case, check.dims).unwrap();
                assert_eq!(problem.dag.name, case.name);
                for dims in check.at {
                    let params = problem.params(dims);
                    let results = interp::dag::run(&problem.dag, dims, &params, &problem.scalars());
                    assert_eq!(problem.difference(dims, &params, &results), None);
                    let mut wrong = results.clone();
                    let last = wrong[0].len() - 1;
                    let (dtype, value) = (wrong[0].dtype, wrong[0].get(last).to_f64());
                    wrong[0].set(last, Number::Float(value + 1.0 + value.abs()).cast(dtype));
                    assert!(problem.difference(dims, &params, &wrong).is_some(), "{}", case.name);
                }
            }
            for dims in case.times {
                assert!(Problem::new(case, dims).unwrap().dag.dims.is_empty(), "{}", case.name);
            }
        }
    }

    #[test]
    fn nothing_is_not_close_to_small_results() {
        let problem =
            Problem::new(case::named("softmax_f32").unwrap(), "R = 2, D = 32768").unwrap();
        let zeros = [Array::zeros(DType::F32, &[2, 32768])];
        assert!(problem.difference(&[], &problem.params(&[]), &zeros).is_some());
    }

    #[test]
    fn large_arrays_repeat_what_was_drawn() {
        let array = array(DType::F16, &[3, 500_000], 1, None);
        assert_eq!(array.get(0), array.get(DRAWN));
        assert_ne!(array.get(0), array.get(500_000));
    }

    #[test]
    fn what_elements_are_looked_up_by_is_nearly_always_inside() {
        assert_eq!(extent("T = 1..=6, V = 10, D = 33", "V"), Some(10));
        let ids = array(DType::I32, &[1000], 1, Some(10));
        let ids: Vec<i64> = (0..1000).map(|it| ids.get(it).to_i64()).collect();
        assert!((0..10).all(|it| ids.contains(&it)));
        assert!(ids.iter().all(|it| (-1..=10).contains(it)) && ids.contains(&10));
    }
}
