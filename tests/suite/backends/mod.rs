//! The second judge: printed Rust, compiled by rustc, computes what the interpreter does.
//!
//! No interpreter sees a lost parenthesis or a swapped argument in text. So many programs under
//! many schedules are printed into one crate, which is compiled once and run.

mod crate_of;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use tvmtune_core::arbitrary::{any_case, any_move, instruction};
use tvmtune_core::dag::Dag;
use tvmtune_core::interp::{self, Array, Number};
use tvmtune_core::nest::{self, Nest};
use tvmtune_core::schedule::Schedule;

/// One launch: what runs, on what, and what should come of it.
struct Launch {
    /// For people: what it is.
    label: String,
    nest: Nest,
    dims: Vec<i64>,
    scalars: Vec<Number>,
    /// As stored.
    params: Vec<Array>,
    expected: Vec<Array>,
}

impl Launch {
    fn new(
        dag: &Dag,
        schedule: &Schedule,
        (dims, params, scalars): (Vec<i64>, &[Array], Vec<Number>),
    ) -> Self {
        let nest = nest::lower(schedule);
        let expected = interp::dag::run(dag, &dims, params, &scalars);
        let stored = |(id, array): (&_, &Array)| match &nest.buffer(*id).layout {
            Some(layout) => interp::pack(array, layout),
            None => array.clone(),
        };
        let params = nest.params.iter().zip(params).map(stored).collect();
        let trace: String = schedule.trace.iter().map(|it| format!("{it}\n")).collect();
        let label = format!("`{}` of {dims:?} by\n{trace}", dag.name);
        Self { label, nest, dims, scalars, params, expected }
    }
}

/// Compiles and runs all launches, and checks what each one computes.
#[track_caller]
fn check(name: &str, launches: &[Launch]) {
    let results = crate_of::run(name, launches);
    for (launch, results) in launches.iter().zip(results) {
        let shown = || {
            let text = tvmtune_core::codegen::rust::print(&launch.nest);
            format!("{}\n{}\n{text}", launch.label, launch.nest)
        };
        let Some(results) = results else { panic!("panicked: {}", shown()) };
        for (got, want) in results.iter().zip(&launch.expected) {
            if let Some(mismatch) = got.max_error(want, 1e-5, 1e-5) {
                panic!("{mismatch:?}: {}", shown());
            }
        }
    }
}

#[test]
fn printed_rust_computes_what_any_schedule_says() {
    let mut runner = TestRunner::deterministic();
    let moves = proptest::collection::vec(any_move(), 0..12);
    let mut launches = Vec::new();
    for _ in 0..300 {
        let case = any_case().new_tree(&mut runner).unwrap().current();
        let mut schedule = Schedule::new(&case.dag);
        for it in &moves.new_tree(&mut runner).unwrap().current() {
            let instruction = instruction(&schedule, it);
            let _ = schedule.apply(&instruction);
        }
        let arguments = (case.dims.clone(), case.params(), case.scalars());
        let arguments = (arguments.0, arguments.1.as_slice(), arguments.2);
        launches.push(Launch::new(&case.dag, &schedule, arguments));
    }
    check("any_schedule", &launches);
}
