//! Times the default schedules of programs with fixed numerics beside those with free ones, on this CPU:
//! the costs that docs/numerics.md has. `fixed_cost rms` takes programs whose names contain this, and
//! `fixed_cost ops.rs` those of a file.
//!
//! Of each program of the library of kernels and of MiniLM, at the largest extents of each bucket, and of
//! each layer of the zoo; both kinds of code are timed in turn.

use std::collections::BTreeSet;
use std::sync::Arc;

use tvmtune_ir::dag::Dag;
use tvmtune_ir::dsl;
use tvmtune_ir::poly::Interval;
use tvmtune_ir::workload;
use tvmtune_plan::device;
use tvmtune_space::default;
use tvmtune_tuner::measure::{CaseSpec, Job, Measure, Measurer, Policy, WorkerCommand, worker};
use tvmtune_tuner::statistics::{median, quantile};

const SOURCES: [&str; 4] = [
    include_str!("../../../kernels/src/conv.rs"),
    include_str!("../../../kernels/src/matmul.rs"),
    include_str!("../../../kernels/src/rows.rs"),
    include_str!("../../../examples/minilm/src/ops.rs"),
];

/// Samples of each kind of code.
const ROUNDS: usize = 41;

fn main() {
    worker::maybe_run();
    let only = std::env::args().nth(1).unwrap_or_default();
    let target = device::detect().expect("an x86 CPU with AVX2 or AVX-512");
    let command = WorkerCommand::this_executable().expect("this is a file");
    let mut measurer = Measurer::new(command);
    println!("| program | extents | free | fixed | fixed / free | quartiles |");
    println!("|---|---|---|---|---|---|");
    let mut ratios = Vec::new();
    let all = match only.ends_with(".rs") {
        true => ops(&std::fs::read_to_string(&only).expect("a file")),
        false => programs().into_iter().filter(|(dag, _)| dag.name.contains(&only)).collect(),
    };
    for (dag, dims) in all.into_iter().filter(|(dag, _)| dag.without_fixed_order().is_none()) {
        let mut fixed = dag.clone();
        fixed.fix_numerics();
        let point: Vec<Interval> = dims.iter().map(|it| Interval::point(*it)).collect();
        let cases = [CaseSpec::new(&Arc::new(dag.clone()), &dims, 1, &|_| (0.0, 0.0))];
        let jobs = [dag.specialize(&point), fixed.specialize(&point)].map(|dag| {
            let schedule = default::schedule(&dag, &target.into());
            let code = tvmtune_cpu::generate(&schedule, target.isa).ok()?;
            Some(Job::on_cpu(&code, &cases))
        });
        let [Some(free), Some(fixed)] = &jobs else { continue };
        measurer.set_up(&cases, None).expect("a worker starts");
        let timings = measurer.compare(&[free, fixed], ROUNDS, &Policy::default());
        let timings = timings.expect("a worker runs").expect("the code is right");
        let ratio: Vec<f64> = (timings[1].samples_ns().iter())
            .zip(timings[0].samples_ns())
            .map(|(fixed, free)| fixed / free)
            .collect();
        let [free, fixed] = [0, 1].map(|n: usize| median(timings[n].samples_ns()) / 1e3);
        let [low, ratio, high] = [0.25, 0.5, 0.75].map(|it| quantile(&ratio, it));
        let name = &dag.name;
        println!(
            "| {name} | {dims:?} | {free:.1} us | {fixed:.1} us | {ratio:.3} | {low:.3} to {high:.3} |"
        );
        ratios.push(ratio);
    }
    let mean = (ratios.iter().map(|it| it.ln()).sum::<f64>() / ratios.len() as f64).exp();
    let worst = ratios.iter().copied().fold(0.0, f64::max);
    println!("\n{} programs: geometric mean {mean:.3}, at worst {worst:.3}", ratios.len());
}

/// The programs, each at the largest extents of its buckets.
fn programs() -> Vec<(Dag, Vec<i64>)> {
    let mut all = Vec::new();
    let mut seen = BTreeSet::new();
    for network in tvmtune_zoo::networks() {
        for layer in &network.layers {
            let dag = layer.dag();
            if dag.dims.is_empty() && seen.insert(workload::id(&dag)) {
                let name = format!("{} {}", network.name, dag.name);
                all.push((Dag { name, ..dag }, Vec::new()));
            }
        }
    }
    all.extend(SOURCES.iter().flat_map(|it| ops(it)));
    all
}

/// The programs of a source file, each at the largest extents of its buckets.
fn ops(source: &str) -> Vec<(Dag, Vec<i64>)> {
    let mut all = Vec::new();
    for item in source.split("#[autotune").skip(1) {
        let end = item.find("\n}").expect("a function ends") + 2;
        let text = format!("#[autotune{}", &item[..end]);
        let function: syn::ItemFn = syn::parse_str(&text).expect("a function");
        let options = dsl::attribute(&function).expect("an attribute").expect("with options");
        let program = dsl::parse(options, &function).expect("a program");
        let dag = dsl::build(&program).expect("a dag");
        let mut points = vec![Vec::new()];
        for buckets in program.buckets() {
            let longer = |point: &Vec<i64>| {
                let point = point.clone();
                buckets.iter().map(move |it| [&point[..], &[it.hi]].concat()).collect::<Vec<_>>()
            };
            points = points.iter().flat_map(longer).collect();
        }
        all.extend(points.into_iter().map(|it| (dag.clone(), it)));
    }
    all
}
