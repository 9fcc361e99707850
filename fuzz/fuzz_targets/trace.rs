//! The lines of a trace: instructions that apply to a program, or are refused and change nothing.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tvmtune_ir::dag::Dag;
use tvmtune_ir::dsl;
use tvmtune_schedule::{Instruction, Schedule, nest};

/// More lines are not looked at: each may double the loops.
const MAX_LINES: usize = 24;

/// A sum of products in a window, with something done to it.
static DAG: LazyLock<Dag> = LazyLock::new(|| {
    dsl::program(
        "#[autotune(dims(M = 1..=64, N = 24, K = 16))]
        fn f(x: Tensor<f32, M, K>, w: Weight<f32, N, K>, b: Weight<f32, N>) -> Tensor<f32, M, N> {
            let h = compute(|i, j| sum(0..K, |k| x.get([i, k - 1]).unwrap_or(0.0) * w[[j, k]]));
            let m = compute(|i| max(0..N, |j| h[[i, j]]));
            compute(|i, j| max(h[[i, j]] - m[[i]] + b[[j]], 0.0))
        }",
    )
    .expect("a program")
});

fuzz_target!(|text: &str| {
    let mut schedule = Schedule::new(&DAG);
    for line in text.lines().take(MAX_LINES) {
        let Ok(instruction) = line.parse::<Instruction>() else { continue };
        let before = schedule.clone();
        match schedule.apply(&instruction) {
            Ok(_) => {
                let text = instruction.to_string();
                assert_eq!(text.parse::<Instruction>().as_ref(), Ok(&instruction));
            }
            Err(_) => assert_eq!(schedule, before),
        }
    }
    assert_eq!(Schedule::replay(&DAG, &schedule.trace).as_ref(), Ok(&schedule));
    nest::lower(&schedule);
});
