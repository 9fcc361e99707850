//! Default schedules, random points of their sketches, and random schedules.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tvmtune_core::arbitrary::{Case, Move, any_case, any_move, instruction};
use tvmtune_core::codegen::generate_cuda;
use tvmtune_core::schedule::{Schedule, default};
use tvmtune_emulator::Options;
use tvmtune_tests::nvrtc::nvrtc;
use tvmtune_tuner::random::Random;
use tvmtune_tuner::space::Space;

use super::{check, target};

const ARCH: &str = "compute_90a";

fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() })
}

#[test]
fn default_schedules_are_right() {
    let Some(nvrtc) = nvrtc() else { return };
    let run = |case: Case| {
        let schedule = default::schedule(&case.dag, &target().into());
        if let Err(why) = generate_cuda(&schedule) {
            prop_assert!(false, "{why}: {:?} {:?}", case.family, schedule.trace);
        }
        check(nvrtc, &case, &schedule, ARCH, &Options::default())?;
        Ok(())
    };
    runner(150).run(&any_case(), run).unwrap();
}

#[test]
fn random_points_of_sketches_are_right() {
    let Some(nvrtc) = nvrtc() else { return };
    let (n_tried, n_placed) = (Cell::new(0), Cell::new(0));
    let run = |(case, seed): (Case, u64)| {
        let space = Space::new(&case.dag, &target().into());
        let point = space.random(&mut Random::new(seed));
        let Ok(schedule) = Schedule::replay(&case.dag, &space.instructions(&point)) else {
            return Ok(());
        };
        n_tried.set(n_tried.get() + 1);
        let placed = check(nvrtc, &case, &schedule, ARCH, &Options::default())?;
        n_placed.set(n_placed.get() + u32::from(placed));
        Ok(())
    };
    runner(200).run(&(any_case(), any::<u64>()), run).unwrap();
    let share = f64::from(n_placed.get()) / f64::from(n_tried.get());
    assert!(share > 0.7, "only {share} of the points can be placed");
}

#[test]
fn random_schedules_are_right() {
    let Some(nvrtc) = nvrtc() else { return };
    let n_placed = Cell::new(0);
    let run = |(case, moves): (Case, Vec<Move>)| {
        let mut schedule = Schedule::new(&case.dag);
        for it in &moves {
            let instruction = instruction(&schedule, it);
            // What does not apply changes nothing.
            let _ = schedule.apply(&instruction);
        }
        let placed = check(nvrtc, &case, &schedule, ARCH, &Options::default())?;
        n_placed.set(n_placed.get() + u32::from(placed));
        Ok(())
    };
    let moves = proptest::collection::vec(any_move(), 0..16);
    runner(200).run(&(any_case(), moves), run).unwrap();
    assert!(n_placed.get() > 100, "only {} of the schedules can be placed", n_placed.get());
}
