//! Weights: where they come from, what they decide, and what they leave alone.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tvmtune_build::op::Op;
use tvmtune_plan::handoff::OpSource;
use tvmtune_tests::sandbox::{SOURCE, Said, Sandbox, said};
use tvmtune_tests::workload;
use tvmtune_tuner::executor::TuningJob;
use tvmtune_tuner::tune::{self, Event, Reason, Workload};

use crate::tuning::Machine;

const TVMTUNE: &str = env!("CARGO_BIN_EXE_tvmtune");

/// A product, nearly as large as the other one.
fn product(name: &str, rows: u32, weight: f64) -> Workload {
    let source = format!(
        "#[autotune(dims(M = {rows}, N = 64, K = 64))]
        fn {name}(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {{
            compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
        }}"
    );
    Workload { weight, ..workload(&source) }
}

#[test]
fn rounds_go_to_the_op_that_runs_often() {
    let Some(machine) = Machine::new() else { return };
    // Whichever is listed first, and whichever of the programs it is.
    for often in [0, 1] {
        let weight = |n: usize| if n == often { 1e6 } else { 1e-6 };
        let workloads = [product("first", 32, weight(0)), product("second", 31, weight(1))];
        let mut options = machine.options(400);
        options.budget.total = Duration::from_secs(3);
        options.reuse = tune::Reuse::Ignore;
        let often = &*workloads[often].dag.name;
        let (mut is_over, mut n_rounds, mut wrong) = (false, 0, Vec::new());
        let mut on_event = |it: Event<'_>| match it {
            Event::Chosen { task, reason: Reason::Saving(share) } => {
                n_rounds += usize::from(task.program == often);
                if task.program != often && !is_over {
                    wrong.push(format!("{task}: {share}"));
                }
            }
            Event::Finished { task, .. } => is_over |= task.program == often,
            _ => {}
        };
        let (lock, database) = (machine.lock(), machine.database());
        let job = TuningJob::holding(&lock);
        tune::run(&workloads, &options, &database, &job, &mut on_event).unwrap();
        assert!(n_rounds > 0, "{often} got no round");
        assert!(wrong.is_empty(), "rounds of the other one before {often} was finished: {wrong:?}");
    }
}

#[test]
fn a_weight_is_no_part_of_a_program() {
    let op = |weight: &str| {
        let source = OpSource {
            name: "scale".to_owned(),
            options: format!("dims(M = 1..=64), buckets(M = [8]){weight}"),
            item: "fn scale(x: Tensor<f32, M>) -> Tensor<f32, M> { compute(|m| x[[m]] * 2.0) }"
                .to_owned(),
        };
        Op::from_source(&source, Path::new("lib.rs")).unwrap()
    };
    let (plain, weighted) = (op(""), op(", weight = 2.5"));
    assert_eq!((plain.weight, weighted.weight), (1.0, 2.5));
    assert_eq!((plain.id, &plain.text), (weighted.id, &weighted.text));
    assert_eq!(plain.plan_name(), weighted.plan_name());
}

#[test]
fn the_file_goes_before_the_attribute() {
    let weighted = SOURCE.replace("buckets(", "weight = 12, buckets(");
    let sandbox = Sandbox::new("weighted", &weighted);
    let status = |arguments: &[&str]| -> Said {
        let said = said(sandbox.command(TVMTUNE).arg("status").args(arguments));
        assert_eq!(said.code, Some(0), "{said:?}");
        said
    };
    let weights = || -> Vec<f64> {
        let rows: Value = serde_json::from_str(&status(&["--json"]).out).unwrap();
        rows.as_array().unwrap().iter().map(|it| it["weight"].as_f64().unwrap()).collect()
    };
    assert_eq!(weights(), [12.0, 12.0], "one for each bucket: they share it");
    assert!(status(&[]).out.contains("scaled_sum (weight 12)  M 1..=8"));
    sandbox.write("tvmtune.toml", "[weights]\nscaled_sum = 0.5\ngone = 3\n");
    assert_eq!(weights(), [0.5, 0.5]);
    let warned = status(&[]).err;
    assert!(warned.contains("names `gone`, which is no kernel of `weighted`"), "{warned}");
    sandbox.write("tvmtune.toml", "[weights]\nscaled_sum = -1\n");
    let refused = said(sandbox.command(TVMTUNE).arg("status"));
    assert_eq!(refused.code, Some(2), "{refused:?}");
    for part in ["tvmtune.toml", "the weight of `scaled_sum` is -1; expected a positive number"] {
        assert!(refused.err.contains(part), "{part}: {refused:?}");
    }
}
