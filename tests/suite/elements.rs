//! Two reference interpreters agree: programs by definition, all elements at once and one by one.

use proptest::prelude::*;
use tvmtune_ir::dag::DType;
use tvmtune_ir::interp::{Array, Elements};
use tvmtune_schedule::arbitrary::{Case, Family, any_case, dag, runner};

/// The parameters with fractions, where that means something.
fn params(case: &Case) -> Vec<Array> {
    let fractions = |it: Array| match it.dtype {
        DType::F32 => Array::random(DType::F32, &it.shape, case.seed),
        _ => it,
    };
    case.params().into_iter().map(fractions).collect()
}

fn check(case: &Case) -> Result<(), TestCaseError> {
    let Case { dag, dims, .. } = case;
    let (params, scalars) = (params(case), case.scalars());
    let all = tvmtune_ir::interp::run(dag, dims, &params, &scalars);
    let mut elements = Elements::new(dag, dims, &params, &scalars);
    for (id, array) in dag.outputs.iter().zip(&all) {
        // From the last one on, so that nothing depends on the order.
        for flat in (0..array.len()).rev() {
            let (one, expected) = (elements.get(*id, flat), array.get(flat));
            let both_nan = one.to_f64().is_nan() && expected.to_f64().is_nan();
            prop_assert!(one == expected || both_nan, "{flat}: {one:?}, {expected:?}");
        }
    }
    Ok(())
}

#[test]
fn elements_are_those_of_the_whole() {
    runner(600).run(&any_case(), |case| check(&case)).unwrap();
}

#[test]
fn an_element_is_evaluated_once_and_only_with_what_it_depends_on() {
    let (dag, dims) = dag(Family::ALL[0], &[7; 24]);
    let case = Case { family: Family::ALL[0], dag, dims, seed: 1 };
    let (params, scalars) = (case.params(), case.scalars());
    let mut elements = Elements::new(&case.dag, &case.dims, &params, &scalars);
    let first = elements.get(case.dag.outputs[0], 0);
    let of_one = elements.n_evaluated();
    assert_eq!(elements.get(case.dag.outputs[0], 0), first);
    assert_eq!(elements.n_evaluated(), of_one);
    elements.get(case.dag.outputs[0], 1);
    assert!(elements.n_evaluated() > of_one);
}
