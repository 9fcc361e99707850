//! Any schedule computes the results of its program, without races, at any extents.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tvmtune_schedule::arbitrary::{
    Case, Move, any_case, any_move, any_moves, move_by_move, runner,
};
use tvmtune_schedule::nest::verify::Problem;
use tvmtune_schedule::{Instruction, Schedule, nest};

/// Applies the moves; a move that is refused must leave the schedule as it was.
fn scheduled(case: &Case, moves: &[Move]) -> Schedule {
    let mut schedule = Schedule::new(&case.dag);
    move_by_move(&mut schedule, moves, |schedule, instruction| {
        let before = schedule.clone();
        if schedule.apply(instruction).is_err() {
            assert_eq!(schedule, &before, "refused `{instruction}` changed the schedule");
        }
    });
    schedule
}

fn text(trace: &[Instruction]) -> String {
    trace.iter().map(|it| format!("{it}\n")).collect()
}

fn check(case: &Case, moves: &[Move]) -> Result<(), TestCaseError> {
    let schedule = scheduled(case, moves);
    let nest = nest::lower(&schedule);
    let (params, scalars) = (case.params(), case.scalars());
    let expected = tvmtune_ir::interp::run(&case.dag, &case.dims, &params, &scalars);
    let shown = || format!("{:?} {:?}\n{}\n{nest}", case.family, case.dims, text(&schedule.trace));
    let mut findings = nest::verify(&nest);
    findings.retain(|it| !is_unproven(&it.problem));
    prop_assert!(findings.is_empty(), "{findings:?}:\n{}", shown());
    match tvmtune_schedule::interp::run(&nest, &case.dims, &params, &scalars) {
        Ok(results) => prop_assert!(results == expected, "wrong result:\n{}", shown()),
        Err(fault) => prop_assert!(false, "{fault}:\n{}", shown()),
    }
    Ok(())
}

#[test]
fn no_schedule_changes_the_result() {
    runner(3000).run(&(any_case(), any_moves(15)), |(case, moves)| check(&case, &moves)).unwrap();
}

fn is_unproven(problem: &Problem) -> bool {
    matches!(problem, Problem::MayBeOutside(..) | Problem::NegativeGuard(_))
}

#[test]
fn nearly_all_accesses_are_proven_to_be_in_bounds() {
    let mut runner = TestRunner::deterministic();
    let moves = any_moves(15);
    let mut unproven = 0;
    for _ in 0..2000 {
        let case = any_case().new_tree(&mut runner).unwrap().current();
        let moves = moves.new_tree(&mut runner).unwrap().current();
        let schedule = scheduled(&case, &moves);
        unproven += u32::from(!nest::verify(&nest::lower(&schedule)).is_empty());
    }
    assert!(unproven <= 2, "{unproven} of 2000 nests");
}

#[test]
fn most_random_moves_apply() {
    let mut counts: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    let mut runner = TestRunner::deterministic();
    let moves = proptest::collection::vec(any_move(), 12);
    for _ in 0..500 {
        let case = any_case().new_tree(&mut runner).unwrap().current();
        let moves = moves.new_tree(&mut runner).unwrap().current();
        let mut schedule = Schedule::new(&case.dag);
        move_by_move(&mut schedule, &moves, |schedule, instruction| {
            let name = instruction.to_string().split(' ').next().unwrap_or("").to_owned();
            let (applied, tried) = counts.entry(name).or_default();
            *tried += 1;
            *applied += u32::from(schedule.apply(instruction).is_ok());
        });
    }
    let share = |(applied, tried): &(u32, u32)| f64::from(*applied) / f64::from(*tried);
    let all = counts.values().fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
    assert!(share(&all) > 0.6, "{counts:?}");
    for (name, count) in &counts {
        assert!(share(count) > 0.1, "{name}: {counts:?}");
    }
}
