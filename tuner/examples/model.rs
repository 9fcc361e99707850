//! Measures the cost model: how fast candidates are scored, and how well predictions rank.
//!
//! ```text
//! cargo run --release -p tvmtune-tuner --example model -- speed kernels/src/*.rs
//! cargo run --release -p tvmtune-tuner --example model -- evolve kernels/src/*.rs
//! cargo run --release -p tvmtune-tuner --example model -- gather <trials> 200 kernels/src/*.rs
//! cargo run --release -p tvmtune-tuner --example model -- quality <trials> kernels/src/*.rs
//! ```
//!
//! `speed` needs no quiet machine: it counts the time that its thread runs. `evolve` has evolution
//! score some 8,000 points by each cost model for one batch, on two threads. `gather` measures so many
//! random points of each program, on one thread. `quality` trains on the trials of `gather`, or of tuning
//! (`<cache>/v1/trials`).

#![expect(clippy::unwrap_used, reason = "a tool for those who change the model")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tvmtune_ir::dag::Dag;
use tvmtune_ir::target::{CpuTarget, Isa, Target};
use tvmtune_ir::{dsl, workload};
use tvmtune_plan::record::{GENERATOR, Source};
use tvmtune_schedule::nest::{self, Nest};
use tvmtune_schedule::{Instruction, Schedule, Threads};
use tvmtune_space::cost::cycles;
use tvmtune_space::default;
use tvmtune_space::fits::cpu::fits;
use tvmtune_tuner::cost::analytic::AnalyticModel;
use tvmtune_tuner::cost::features::Features;
use tvmtune_tuner::cost::learned::{self, Analytic, Learned};
use tvmtune_tuner::cost::model::CostModel;
use tvmtune_tuner::cost::rank::{Prediction, pairwise_accuracy, regret};
use tvmtune_tuner::measure::{CaseSpec, Job, Measure, Measurer, Policy, WorkerCommand, worker};
use tvmtune_tuner::outcome::{Outcome, Timing};
use tvmtune_tuner::parallel::n_cores;
use tvmtune_tuner::random::Random;
use tvmtune_tuner::search::{Effort, Evolutionary, Score, SearchContext, Strategy};
use tvmtune_tuner::space::{Point, Space};
use tvmtune_tuner::tune::{Stage, Trial, trials};

/// The relative difference below which pairs do not count.
const NOISE: f64 = 0.05;

fn main() {
    worker::maybe_run();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["speed", files @ ..] => programs(files).iter().for_each(speed),
        ["evolve", files @ ..] => programs(files).iter().for_each(evolve),
        ["gather", logs, n, files @ ..] => {
            programs(files).iter().for_each(|it| gather(it, Path::new(logs), n.parse().unwrap()));
        }
        ["quality", logs, files @ ..] => quality(Path::new(logs), &programs(files)),
        _ => println!(
            "usage: model speed <file>... | evolve <file>... | gather <trials> <n> <file>... | quality <trials> <file>..."
        ),
    }
}

fn target() -> CpuTarget {
    CpuTarget {
        threads: 2,
        l1_bytes: 48 << 10,
        l2_bytes: 1 << 20,
        ..CpuTarget::generic(Isa::Avx512)
    }
}

/// The annotated functions of some files.
fn programs(files: &[&str]) -> Vec<Dag> {
    let items = files
        .iter()
        .flat_map(|it| syn::parse_file(&fs::read_to_string(it).unwrap()).unwrap().items);
    let dag = |item: syn::Item| {
        let syn::Item::Fn(function) = item else { return None };
        let options = dsl::attribute(&function)?.unwrap();
        Some(dsl::build(&dsl::parse(options, &function).unwrap()).unwrap())
    };
    items.filter_map(dag).collect()
}

/// Time that this thread has run, in us.
fn now_us() -> f64 {
    let spent = fs::read_to_string("/proc/thread-self/schedstat").ok();
    let spent = spent.and_then(|it| it.split(' ').next()?.parse::<f64>().ok());
    spent.unwrap_or_else(|| Instant::now().elapsed().as_nanos() as f64) / 1e3
}

/// Measures the time of each step for random candidates.
fn speed(dag: &Dag) {
    let target = target();
    let space = Space::new(dag, &Target::Cpu(target));
    let mut random = Random::new(1);
    let points: Vec<_> = (0..2000).map(|_| space.random(&mut random)).collect();
    let mut last = now_us();
    // The time of a step, for each of the points that it looks at.
    let mut step = |n_points: usize| {
        let spent = now_us() - last;
        last += spent;
        spent / n_points.max(1) as f64
    };
    let traces: Vec<_> = points.iter().map(|it| space.instructions(it)).collect();
    let tracing = step(points.len());
    let replay = |it: &Vec<Instruction>| Schedule::replay(dag, it).ok();
    let schedules: Vec<Schedule> = traces.iter().filter_map(replay).collect();
    let replaying = step(points.len());
    let nests: Vec<Nest> = schedules.iter().map(nest::lower).collect();
    let lowering = step(points.len());
    let fitting: Vec<&Nest> = nests.iter().filter(|it| fits(it, &target).is_ok()).collect();
    let checking = step(points.len());
    let analytic: f64 = fitting.iter().map(|it| cycles(it, &target)).sum();
    let estimating = step(fitting.len());
    let features: Vec<Features> =
        fitting.iter().filter_map(|it| Features::of(it, &Target::Cpu(target))).collect();
    let describing = step(fitting.len());
    let rows: usize = features.iter().map(|it| it.rows().len()).sum();
    let mut model = CostModel::new(2);
    for (n, it) in features.iter().cycle().take(1000).enumerate() {
        model.add(0, it.clone(), Some(random.unit() + 1.0 + n as f64 * 1e-3));
    }
    let began = (Instant::now(), now_us());
    model.train();
    let (wall, own) = (began.0.elapsed().as_secs_f64(), (now_us() - began.1) / 1e6);
    let began = now_us();
    let predictions = model.predict(&features);
    let predicting = (now_us() - began) / features.len().max(1) as f64;
    let n_fitting = fitting.len();
    let describing_all = describing * n_fitting as f64 / points.len() as f64;
    println!(
        "{:28} trace {tracing:5.1} replay {replaying:6.1} lower {lowering:6.1} fits {checking:5.1} \
         | analytic {estimating:6.1} features {describing:6.1} predict {predicting:5.1} us; \
         {n_fitting:3} of {} fit, {:.1} rows; {:6.0} candidates/s; \
         training {wall:.2} s, {own:.2} s of it here ({:.0}, {:.1})",
        dag.name,
        points.len(),
        rows as f64 / features.len().max(1) as f64,
        1e6 / (tracing + replaying + lowering + describing_all + predicting),
        analytic.log2(),
        predictions.first().unwrap_or(&0.0),
    );
}

/// Measures the time of one batch of which as many points are scored as in Ansor's five generations of
/// 2,048; here half of a generation is new.
fn evolve(dag: &Dag) {
    let target = Target::Cpu(target());
    let space = Space::new(dag, &target);
    let analytic = AnalyticModel::new(dag, target, 2);
    let mut random = Random::new(1);
    let points: Vec<Point> = (0..200).map(|_| space.random(&mut random)).collect();
    let costs = analytic.score(&space, &points);
    let effort = Effort { population: 2048, generations: 8 };
    let mut search = Evolutionary::new(1, effort);
    let mut model = CostModel::new(2);
    for (point, cycles) in points.iter().zip(costs) {
        let Some(timing) = Timing::new(vec![cycles; 3]) else { continue };
        let features = learned::features(dag, &target, &space.instructions(point));
        features.into_iter().for_each(|it| model.add(0, it, Some(cycles)));
        search.observe(point, &Outcome::Timed(timing));
    }
    model.train();
    let (model, analytic_part) = (&model, Analytic::Included);
    let score = Learned { model, dag, target: &target, analytic: analytic_part, n_threads: 2 };
    let learned = Counted { score, n: Cell::new(0) };
    let context = SearchContext { space: &space, analytic: Some(&analytic), model: Some(&learned) };
    let began = Instant::now();
    let n_proposed = search.propose(&context, 64).len();
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{:28} {:6} scores, {n_proposed:3} proposed: {seconds:.2} s",
        dag.name,
        learned.n.get()
    );
}

/// Counts scores.
struct Counted<S> {
    score: S,
    n: Cell<usize>,
}

impl<S: Score> Score for Counted<S> {
    fn score(&self, space: &Space, points: &[Point]) -> Vec<f64> {
        self.n.set(self.n.get() + points.len());
        self.score.score(space, points)
    }
}

/// Measures random points that fit, on one thread; a line of a log for each.
fn gather(dag: &Dag, logs: &Path, n: usize) {
    let target = target();
    let space = Space::new(dag, &Target::Cpu(target));
    let folder = logs.join(&dag.name);
    fs::create_dir_all(&folder).unwrap();
    let mut log = fs::File::create(folder.join("random.jsonl")).unwrap();
    let cases = [CaseSpec::new(&Arc::new(dag.clone()), &[], 1, &|_| (1e-2, 1e-2))];
    let mut measurer = Measurer::new(WorkerCommand::this_executable().unwrap());
    measurer.set_up(&cases, None).unwrap();
    let default =
        tvmtune_cpu::generate(&default::schedule(dag, &Target::Cpu(target)), target.isa).unwrap();
    let default = Job::new(&default.kernel, &default.code.phases, &cases);
    let expected = measurer.evaluate(&default, 0).unwrap().unwrap();
    measurer.set_up(&cases, Some(&expected)).unwrap();
    let policy = Policy { repeats: 6, min_sample_ns: 100_000.0, best_ns: None, hopeless: 1e9 };
    let mut random = Random::new(2);
    let mut left = n;
    while left > 0 {
        let mut trace = space.instructions(&space.random(&mut random));
        trace.push(Instruction::Threads { threads: Threads::One });
        let schedule = Schedule::replay(dag, &trace).unwrap();
        if fits(&nest::lower(&schedule), &target).is_err() {
            continue;
        }
        left -= 1;
        let Ok(generated) = tvmtune_cpu::generate(&schedule, target.isa) else { continue };
        let job = Job::new(&generated.kernel, &generated.code.phases, &cases);
        let outcome = measurer.measure(&job, &policy).unwrap();
        let trial = Trial {
            stage: Stage::Screen,
            parent: Vec::new(),
            cold: None,
            slowdown: 1.0,
            workload: workload::id(dag).to_string(),
            generator: GENERATOR,
            bucket: Vec::new(),
            isa: target.isa.name().to_owned(),
            source: Source::Random,
            sketch: String::new(),
            choices: Vec::new(),
            trace: trace.iter().map(ToString::to_string).collect(),
            artifact: generated.artifact.to_string(),
            outcome,
            generate_ms: 0.0,
            measure_ms: 0.0,
            unix_ms: 0,
            seed: 0,
        };
        serde_json::to_writer(&mut log, &trial).unwrap();
        writeln!(log).unwrap();
    }
    println!("{}", dag.name);
}

/// One trial of a log.
struct Sample {
    features: Features,
    analytic_cost: f64,
    latency_ns: f64,
}

/// The timed trials of a program on this instruction set that can be replayed, each schedule once.
fn samples(dag: &Dag, logs: &Path) -> Vec<Sample> {
    let id = workload::id(dag).to_string();
    let mut best: BTreeMap<Vec<String>, f64> = BTreeMap::new();
    for entry in fs::read_dir(logs.join(&dag.name)).into_iter().flatten() {
        for trial in trials(&entry.unwrap().path()) {
            let Outcome::Timed(timing) = trial.outcome else { continue };
            if trial.workload == id && trial.isa == "avx512" {
                let fastest = best.entry(trial.trace).or_insert(f64::INFINITY);
                *fastest = fastest.min(timing.min_ns());
            }
        }
    }
    let target = target();
    let sample = |(trace, latency_ns): (Vec<String>, f64)| {
        let trace: Vec<Instruction> =
            trace.iter().map(|it| it.parse().ok()).collect::<Option<_>>()?;
        let nest = nest::lower(&Schedule::replay(dag, &trace).ok()?);
        let features = Features::of(&nest, &Target::Cpu(target))?;
        Some(Sample { features, analytic_cost: cycles(&nest, &target), latency_ns })
    };
    let mut samples: Vec<Sample> = best.into_iter().filter_map(sample).collect();
    // In random order.
    let mut random = Random::new(5);
    (1..samples.len()).for_each(|n| samples.swap(n, random.below(n + 1)));
    samples
}

/// The quality of predictions: accuracy of pairs, and the regret of the top 1 and 10.
type Quality = [f64; 3];

fn print_quality(name: &str, [accuracy, one, ten]: Quality) {
    print!(" | {name} {accuracy:.3} {:5.1}% {:5.1}%", one * 100.0, ten * 100.0);
}

fn evaluate(samples: &[Sample], predicted: impl Fn(&Sample) -> f64) -> Quality {
    let prediction =
        |it: &Sample| Prediction { predicted: predicted(it), latency_ns: it.latency_ns };
    let all: Vec<Prediction> = samples.iter().map(prediction).collect();
    let accuracy = pairwise_accuracy(&all, NOISE).unwrap_or(1.0);
    [accuracy, regret(&all, 1).unwrap_or(0.0), regret(&all, 10).unwrap_or(0.0)]
}

/// Trains on some samples of each task.
fn trained<'a>(tasks: impl Iterator<Item = (usize, &'a [Sample])>) -> CostModel {
    let mut model = CostModel::new(n_cores());
    for (task, samples) in tasks {
        for it in samples {
            model.add(task, it.features.clone(), Some(it.latency_ns));
        }
    }
    model.train();
    model
}

/// Prints the quality of all models on each task.
fn quality(logs: &Path, programs: &[Dag]) {
    let tasks: Vec<(&str, Vec<Sample>)> =
        programs.iter().map(|it| (it.name.as_str(), samples(it, logs))).collect();
    let tasks: Vec<_> = tasks.into_iter().filter(|(_, it)| it.len() >= 100).collect();
    let n = tasks.len() as f64;
    let mut means = [Quality::default(); 7];
    let names = [
        "analytic",
        "32 learned",
        "with analytic",
        "64 learned",
        "with analytic",
        "other tasks",
        "with analytic",
    ];
    for (task, (name, samples)) in tasks.iter().enumerate() {
        let (training, test) = samples.split_at(samples.len() / 2);
        let first = |n: usize| trained([(task, &training[..n.min(training.len())])].into_iter());
        let others = tasks.iter().enumerate().filter(|(other, _)| *other != task);
        let others = trained(others.map(|(n, (_, it))| (n, &it[..it.len().min(100)])));
        let quality = |model: &CostModel, analytic: Analytic| {
            evaluate(test, |it| {
                let share = model.predict(std::slice::from_ref(&it.features))[0];
                let cost = (analytic == Analytic::Included).then_some(it.analytic_cost);
                -learned::combine(share, cost)
            })
        };
        let mut qualities = vec![evaluate(test, |it| -it.analytic_cost)];
        for model in [first(32), first(64), others] {
            qualities
                .extend([Analytic::Excluded, Analytic::Included].map(|it| quality(&model, it)));
        }
        print!("{name:28} {:4}", samples.len());
        for ((mean, it), name) in means.iter_mut().zip(&qualities).zip(names) {
            mean.iter_mut().zip(it).for_each(|(a, b)| *a += b / n);
            print_quality(name, *it);
        }
        println!();
    }
    print!("{:28} {n:4}", "mean");
    means.iter().zip(names).for_each(|(it, name)| print_quality(name, *it));
    println!();
}
