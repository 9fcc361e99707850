//! A case at some extents: its program, its arguments, and the check of results.

use std::sync::Arc;

use tvmtune_ir::dag::Dag;
use tvmtune_ir::dsl;
use tvmtune_ir::interp::Array;
use tvmtune_tuner::definition::Definition;
use tvmtune_tuner::measure::CaseSpec;
use tvmtune_tuner::tune::{Tolerance, sample};

use crate::case::Case;

/// See the module.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The program.
    pub dag: Arc<Dag>,
    /// The tolerance of results relative to the reference.
    pub tolerance: Tolerance,
}

/// The seed of arguments.
const SEED: u64 = 1;

impl Problem {
    /// A case at extents, as `dims(..)` has them.
    ///
    /// # Errors
    ///
    /// If this is no program.
    pub fn new(case: &Case, dims: &str) -> Result<Self, String> {
        let text = format!("#[autotune(dims({dims}))] {}", case.function);
        let failed = |it: syn::Error| format!("{} at {dims}: {it}", case.name());
        let function: syn::ItemFn = syn::parse_str(&text).map_err(failed)?;
        let options = dsl::attribute(&function).ok_or("no attribute")?.map_err(failed)?;
        let program = dsl::parse(options, &function).map_err(failed)?;
        // Relative to the results alone: those of a softmax over a long row are below any constant.
        let tolerance = Tolerance { rel: program.tolerance().rel, abs: 0.0 };
        let dag = Arc::new(dsl::build(&program).map_err(failed)?);
        Ok(Self { dag, tolerance })
    }

    /// Returns the largest extents of the dynamic dimensions.
    pub fn largest(&self) -> Vec<i64> {
        self.dag.dims.iter().map(|it| it.range.hi).collect()
    }

    /// Returns the arguments at some extents, which timed launches find in memory.
    pub fn case(&self, dims: &[i64]) -> CaseSpec {
        let all = vec![true; self.dag.params().count()];
        CaseSpec::new(&self.dag, dims, SEED, &|_| (0.0, 0.0)).with_cold(&all)
    }

    /// Returns the first difference of results from the reference; `None` if there is none. Of
    /// large results, some elements are compared.
    pub fn difference(&self, case: &CaseSpec, results: &[Array]) -> Option<String> {
        let (params, scalars) = (case.params(), case.scalars());
        let inputs = sample::Inputs {
            dag: &self.dag,
            definition: &Definition::default(),
            dims: case.dims(),
            params: &params,
            scalars: &scalars,
            tolerance: self.tolerance,
        };
        let found = sample::difference(&inputs, results).err();
        found.map(|it| format!("at {:?}: {it}", case.dims()))
    }
}

#[cfg(test)]
mod tests {
    use tvmtune_ir::dag::{DType, Number};

    use super::*;
    use crate::case;

    #[test]
    fn every_case_is_a_program_with_arguments() {
        for case in case::all() {
            for check in case.checks {
                let problem = Problem::new(case, check.dims).unwrap();
                assert_eq!(problem.dag.name, case.name());
                for dims in check.at {
                    let case = problem.case(dims);
                    let (params, scalars) = (case.params(), case.scalars());
                    let results = tvmtune_ir::interp::run(&problem.dag, dims, &params, &scalars);
                    assert_eq!(problem.difference(&case, &results), None);
                    let mut wrong = results.clone();
                    let last = wrong[0].len() - 1;
                    let (dtype, value) = (wrong[0].dtype, wrong[0].get(last).to_f64());
                    wrong[0].set(last, Number::Float(value + 1.0 + value.abs()).cast(dtype));
                    assert!(problem.difference(&case, &wrong).is_some(), "{}", problem.dag.name);
                }
            }
            for dims in case.times {
                assert!(Problem::new(case, dims).unwrap().dag.dims.is_empty(), "{}", case.name());
            }
        }
    }

    #[test]
    fn nothing_is_not_close_to_small_results() {
        let problem =
            Problem::new(case::named("softmax_f32").unwrap(), "R = 2, D = 32768").unwrap();
        let zeros = [Array::zeros(DType::F32, &[2, 32768])];
        assert!(problem.difference(&problem.case(&[]), &zeros).is_some());
    }
}
