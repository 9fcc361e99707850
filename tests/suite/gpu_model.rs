//! The model of the GPU beside what an H200 took for the same schedules.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tvmtune_acceptance::case;
use tvmtune_acceptance::problem::Problem;
use tvmtune_ir::target::gpu::{Arch, GpuTarget};
use tvmtune_schedule::Schedule;
use tvmtune_tuner::cost::gpu::estimate_at;
use tvmtune_tuner::parallel::on_all_cores;
use tvmtune_tuner::statistics::{median, spearman};

/// A line of `docs/results/h200/measured.jsonl`.
struct Measured {
    is_default: bool,
    /// The median, in ns.
    measured: f64,
    /// By the model, in ns.
    predicted: f64,
}

impl Measured {
    fn read(line: &Value) -> Self {
        let text = |key: &str| line[key].as_str().unwrap();
        let list = |key: &str| line[key].as_array().unwrap().iter();
        let problem = Problem::new(case::named(text("case")).unwrap(), text("dims")).unwrap();
        let trace = list("trace").map(|it| it.as_str().unwrap().parse().unwrap());
        let schedule = Schedule::replay(&problem.dag, &trace.collect::<Vec<_>>()).unwrap();
        let generated = tvmtune_cuda::generate(&schedule).unwrap();
        let target = GpuTarget::generic(Arch { sm: 90, exact: true });
        // Of a thread of each kernel, as compiled.
        let registers: Vec<u32> = list("registers").map(|it| it.as_u64().unwrap() as u32).collect();
        let all = estimate_at(&generated.grid, &target, &problem.largest(), &registers);
        let measured = line["ns"].as_f64().unwrap();
        Self { is_default: text("source") == "default", measured, predicted: all.ns }
    }
}

#[test]
fn predictions_are_near_what_an_h200_took() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let text = fs::read_to_string(root.join("docs/results/h200/measured.jsonl")).unwrap();
    let lines: Vec<Value> = text.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let all = on_all_cores(&lines, Measured::read);
    for (is_default, n) in [(true, 91), (false, 79)] {
        let some: Vec<&Measured> = all.iter().filter(|it| it.is_default == is_default).collect();
        assert_eq!(some.len(), n);
        let errors: Vec<f64> =
            some.iter().map(|it| (it.predicted / it.measured - 1.0).abs()).collect();
        let [measured, predicted]: [Vec<f64>; 2] = [
            some.iter().map(|it| it.measured).collect(),
            some.iter().map(|it| it.predicted).collect(),
        ];
        let (error, correlation) = (median(&errors), spearman(&measured, &predicted));
        assert!(error < 0.12 && correlation > 0.95, "default {is_default}: {error} {correlation}");
    }
}
