//! The cases that are checked on GPUs, here by the emulator: one program of each class that users
//! write, at awkward extents, by its default schedule and sampled ones, copies completing early and late.

use tvmtune_acceptance::bundle;
use tvmtune_acceptance::case::{self, Case, Check, Class};
use tvmtune_acceptance::problem::Problem;
use tvmtune_emulator::{Completion, Options, Order};
use tvmtune_runtime::cuda::nvrtc::Nvrtc;
use tvmtune_tests::emulate;
use tvmtune_tests::nvrtc::nvrtc;

use super::{module, target};

/// Checks all cases of a class.
#[track_caller]
fn check(class: Class) {
    let Some(nvrtc) = nvrtc() else { return };
    let cases = case::all().filter(|it| it.class == class);
    for (case, check) in cases.flat_map(|case| case.checks.iter().map(move |it| (case, it))) {
        check_at(nvrtc, case, check);
    }
}

#[track_caller]
fn check_at(nvrtc: &Nvrtc, case: &Case, check: &Check) {
    let problem = Problem::new(case, check.dims).unwrap();
    let candidates = bundle::checked(&problem, &target(), bundle::SAMPLED)
        .unwrap_or_else(|why| panic!("{}: {why}", case.name()));
    for (_, _, generated) in candidates {
        let source = &generated.unit.source;
        let module = module(nvrtc, &generated);
        for (n, dims) in check.at.iter().enumerate() {
            let case = problem.case(dims);
            let (params, scalars) = (case.params(), case.scalars());
            let completion = [Completion::Late, Completion::Random(5)][n % 2];
            let order = [Order::Random(3), Order::Descending][n % 2];
            let options = Options { completion, order, ..Options::default() };
            let results = emulate::run(&generated, &module, dims, &params, &scalars, &options)
                .unwrap_or_else(|it| panic!("{it}\n{}\n{source}", generated.nest));
            let difference = problem.difference(&case, &results);
            assert_eq!(difference, None, "{dims:?}\n{}\n{source}", generated.nest);
        }
    }
}

#[test]
fn products_of_f32() {
    check(Class::MatrixF32);
}

#[test]
fn products_by_matrix_instructions() {
    check(Class::MatrixNarrow);
}

#[test]
fn products_of_f32_by_matrix_instructions() {
    check(Class::MatrixTf32);
}

#[test]
fn convolutions() {
    check(Class::Convolution);
}

#[test]
fn attention_as_its_parts() {
    check(Class::Attention);
}

#[test]
fn rows() {
    check(Class::Rows);
}

#[test]
fn reductions() {
    check(Class::Reduction);
}

#[test]
fn scans() {
    check(Class::Scan);
}

#[test]
fn elementwise_programs() {
    check(Class::Elementwise);
}

#[test]
fn gathers_and_transposes() {
    check(Class::Movement);
}
