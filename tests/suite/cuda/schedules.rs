//! Default schedules, random points of their sketches, and random schedules: a thousand in each run.

use proptest::prelude::*;
use tvmtune_schedule::Schedule;
use tvmtune_schedule::arbitrary::{Case, Move, any_case, any_moves, scheduled};
use tvmtune_space::default;
use tvmtune_space::sketch::ansor;
use tvmtune_tests::nvrtc::nvrtc;
use tvmtune_tuner::random::Random;
use tvmtune_tuner::space::Space;

use super::batch::check_all;
use super::target;

#[test]
fn default_schedules_are_right() {
    let Some(nvrtc) = nvrtc() else { return };
    let schedule = |case: &Case, (): &()| default::schedule(&case.dag, &target().into());
    let n_placed = check_all(nvrtc, 300, &(any_case(), Just(())), &schedule);
    assert_eq!(n_placed, 300, "every default schedule can be placed");
}

#[test]
fn random_points_of_sketches_are_right() {
    let Some(nvrtc) = nvrtc() else { return };
    let schedule = |case: &Case, seed: &u64| {
        let space = Space::new(&case.dag, &target().into());
        let point = space.random(&mut Random::new(*seed));
        let replayed = Schedule::replay(&case.dag, &space.instructions(&point));
        replayed.unwrap_or_else(|_| Schedule::new(&case.dag))
    };
    let n_placed = check_all(nvrtc, 350, &(any_case(), any::<u64>()), &schedule);
    assert!(n_placed > 245, "only {n_placed} of the points can be placed");
}

#[test]
fn random_points_of_ansors_sketches_are_right() {
    let Some(nvrtc) = nvrtc() else { return };
    let schedule = |case: &Case, seed: &u64| {
        let space = Space { sketches: ansor(&case.dag, &target().into()), is_analytic: false };
        let point = space.random(&mut Random::new(*seed));
        let replayed = Schedule::replay(&case.dag, &space.instructions(&point));
        replayed.unwrap_or_else(|_| Schedule::new(&case.dag))
    };
    let n_placed = check_all(nvrtc, 150, &(any_case(), any::<u64>()), &schedule);
    assert!(n_placed > 100, "only {n_placed} of the points can be placed");
}

#[test]
fn random_schedules_are_right() {
    let Some(nvrtc) = nvrtc() else { return };
    let schedule = |case: &Case, moves: &Vec<Move>| scheduled(&case.dag, moves);
    let n_placed = check_all(nvrtc, 350, &(any_case(), any_moves(15)), &schedule);
    assert!(n_placed > 175, "only {n_placed} of the schedules can be placed");
}
