//! Tuning on a GPU from end to end, on one that the emulator plays: a worker finds it, candidates are
//! verified and timed there, survive each other, and the best are recorded with their code.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tvmtune_cuda::Generated;
use tvmtune_cuda::grid::MemoryScope;
use tvmtune_ir::name::ProgramName;
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::GpuTarget;
use tvmtune_plan::database::{Cache, Database, Files, Store, StoreKind};
use tvmtune_plan::embed::CUDA_MARK;
use tvmtune_plan::record::{Entry, Provenance, Source, Tier};
use tvmtune_schedule::{Instruction, Schedule, repair};
use tvmtune_space::default;
use tvmtune_tests::nvrtc::{self, nvrtc};
use tvmtune_tests::sandbox::{SOURCE, Sandbox, said};
use tvmtune_tests::workload;
use tvmtune_tuner::allocation::Scheduler;
use tvmtune_tuner::compile::{self, Code, Compiler};
use tvmtune_tuner::executor::{Executor, MachineLock, MachineLocks, Span, TuningJob};
use tvmtune_tuner::measure::{CaseSpec, Job, Measure, Measurer, Policy, WorkerCommand};
use tvmtune_tuner::outcome::Outcome;
use tvmtune_tuner::tune::{
    self, Budget, Event, Hardware, Options, Recipe, Reuse, Workload, trials,
};

use crate::fake_driver;

/// Warp groups that multiply, fed by copies of boxes.
const LINEAR: &str = "#[autotune(dims(M = 1..=70, N = 72, K = 80), buckets(M = [70]))]
    fn linear(x: Tensor<bf16, M, K>, w: Weight<bf16, N, K>) -> Tensor<bf16, M, N> {
        compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
    }";

/// Threads that share rows.
const SOFTMAX: &str = "#[autotune(dims(R = 1..=9, D = 700), buckets(R = [9]))]
    fn softmax(x: Tensor<f32, R, D>) -> Tensor<f32, R, D> {
        let m = compute(|r| max(0..D, |d| x[[r, d]]));
        let e = compute(|r, d| exp(x[[r, d]] - m[[r]]));
        let s = compute(|r| sum(0..D, |d| e[[r, d]]));
        compute(|r, d| e[[r, d]] / s[[r]])
    }";

/// A weight that is read along the other dimension than it lies.
const PACKED: &str = "#[autotune(dims(M = 1..=40, N = 48, K = 64), buckets(M = [40]))]
    fn packed(x: Tensor<i8, M, K>, w: Weight<i8, K, N>) -> Tensor<i32, M, N> {
        compute(|i, j| sum(0..K, |k| x[[i, k]] as i32 * w[[k, j]] as i32))
    }";

/// Two functions, with memory between them: as much as there are rows.
const TWICE: &str = "#[autotune(dims(M = 1..=40, N = 24, K = 32), buckets(M = [40]))]
    fn twice(x: Tensor<f32, M, K>, v: Weight<f32, N, K>, w: Weight<f32, N, N>) -> Tensor<f32, M, N> {
        let h = compute(|i, j| sum(0..K, |k| x[[i, k]] * v[[j, k]]));
        compute(|i, j| sum(0..N, |n| h[[i, n]] * w[[j, n]]))
    }";

/// A kernel that somebody wrote, with two versions of its file.
fn hand_written(comment: &str) -> Workload {
    let file = format!(
        "// {comment}\nextern \"C\" __global__ void scale(const float* x, float* y, float s, int N) {{\n\
         for (int k = 0; k < ITEMS; ++k) {{\n\
         const int n = (blockIdx.x * ITEMS + k) * BLOCK + threadIdx.x;\n\
         if (n < N) y[n] = x[n] * s;\n}}\n}}\n"
    );
    workload(&format!(
        "#[autotune(dims(N = 1..=700), buckets(N = [700]), template = \"scale.cu\" ({file:?}),
            knobs(BLOCK in [128, 32, 64, 256], ITEMS in 1..=4), constraints(BLOCK * ITEMS <= 512),
            kernels(scale(grid = (N + BLOCK * ITEMS - 1) / (BLOCK * ITEMS), block = BLOCK)))]
        fn scale(x: Tensor<f32, N>, s: f32) -> Tensor<f32, N> {{ compute(|n| x[[n]] * s) }}"
    ))
}

/// A machine with that GPU, and a cache of its own.
struct Machine {
    root: TempDir,
    worker: WorkerCommand,
    gpu: GpuTarget,
}

impl Machine {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let worker = worker(&fake_driver::driver(root.path()));
        let gpu = Measurer::on_gpu(worker.clone()).gpu().unwrap().unwrap();
        assert_eq!((&*gpu.name, gpu.capability), ("the emulator", (9, 0)));
        let gpu = tvmtune_tuner::device::gpu_target(&gpu).unwrap();
        assert_eq!((gpu.multiprocessors, gpu.l2_bytes, gpu.clock_mhz), (132, 64 << 10, 1980));
        Self { root, worker, gpu }
    }

    fn database(&self) -> Database {
        let cache = Cache::new(self.root.path());
        let store = Store { kind: StoreKind::Cache, dir: cache.records() };
        Database::new(vec![store], Some(cache))
    }

    fn cache(&self) -> Cache {
        Cache::new(self.root.path())
    }

    fn tune(&self, workloads: &[Workload], trials: u64) -> tune::Summary {
        let lock = MachineLock::of_device(&self.cache(), &self.gpu.into(), MINUTES).unwrap();
        self.tune_as(&TuningJob::holding(&lock), workloads, trials)
    }

    fn tune_as(&self, job: &TuningJob<'_>, workloads: &[Workload], trials: u64) -> tune::Summary {
        let options = Options {
            device: self.gpu.into(),
            targets: vec![self.gpu.into()],
            nvrtc: nvrtc::optional(),
            budget: Budget { trials, per_task: MINUTES, total: MINUTES },
            seed: 1,
            hardware: Hardware::Worker(self.worker.clone()),
            n_threads: 2,
            recipe: Recipe::default(),
            scheduler: Scheduler::default(),
            reuse: Reuse::Compete,
            provenance: Provenance::default(),
        };
        let database = self.database();
        let mut say = |event: Event<'_>| match event {
            Event::Skipped { task, why } => panic!("{task}: {why}"),
            Event::Trial {
                task,
                outcome: outcome @ (Outcome::Wrong(_) | Outcome::Crashed(_)),
                ..
            } => {
                panic!("{task}: {outcome}")
            }
            Event::Warning { what } => panic!("{what}"),
            _ => {}
        };
        tune::run(workloads, &options, &database, job, &mut say).unwrap()
    }
}

const MINUTES: Duration = Duration::from_secs(600);

/// Workers whose driver lies in a folder.
fn worker(folder: &Path) -> WorkerCommand {
    // Set for workers alone: this process is to find no driver.
    let library = format!("LD_LIBRARY_PATH={}", folder.display());
    WorkerCommand::new("/usr/bin/env".into()).arg(library).arg(env!("CARGO_BIN_EXE_helper"))
}

#[test]
fn jobs_on_one_gpu_measure_one_at_a_time_and_compute_beside_each_other() {
    if nvrtc().is_none() {
        return;
    }
    let machine = Machine::new();
    let executor = Executor::of_this_machine(MachineLocks::new(&machine.cache()));
    let jobs = [LINEAR, SOFTMAX].map(|source| (executor.job(0), workload(source)));
    std::thread::scope(|scope| {
        for (job, workload) in jobs {
            let machine = &machine;
            scope.spawn(move || {
                let summary = machine.tune_as(&job, &[workload], 6);
                assert_eq!((summary.results.len(), summary.results[0].trials), (1, 6));
            });
        }
    });
    let timeline = executor.timeline();
    assert_eq!(timeline.disturbed(), 0.0, "{timeline:?}");
    let timed = timeline.spans.iter().filter(|it| it.stage.is_timed());
    let is_beside = |it: &Span| {
        let others = timeline.spans.iter().filter(|other| other.job != it.job);
        others.clone().any(|other| other.start < it.end && it.start < other.end)
    };
    assert!(timed.clone().count() > 4 && timed.clone().any(is_beside), "{timeline:?}");
}

#[test]
fn without_a_driver_there_is_no_gpu_and_that_is_said() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["libcuda.so", "libcuda.so.1"] {
        fs::write(folder.path().join(name), "no library").unwrap();
    }
    let why = Measurer::on_gpu(worker(folder.path())).gpu().unwrap().unwrap_err();
    assert!(why.contains("no CUDA driver"), "{why}");
}

/// The default code of a workload at its largest extents, compiled.
fn compiled(workload: &Workload, gpu: &GpuTarget) -> Option<(Generated, Code)> {
    let dag = workload.dag.specialize(&workload.buckets[0]);
    let generated = tvmtune_cuda::generate(&default::schedule(&dag, &(*gpu).into())).unwrap();
    let (arch, text) = (gpu.arch.to_string(), &generated.unit.source);
    let source = compile::Source { name: "k.cu", text, arch: &arch, options: &[] };
    let code = Compiler::new(nvrtc()?, None).compile(&source).unwrap();
    Some((generated, code))
}

#[test]
fn a_candidate_that_breaks_the_gpu_costs_itself_only() {
    let machine = Machine::new();
    let (mut n_packed, mut n_between) = (0, 0);
    for source in [LINEAR, SOFTMAX, PACKED, TWICE] {
        let workload = workload(source);
        let Some((generated, code)) = compiled(&workload, &machine.gpu) else { return };
        let buffers = &generated.grid.buffers;
        n_packed += buffers.iter().filter(|it| it.layout.is_some()).count();
        n_between += buffers.iter().filter(|it| it.scope == MemoryScope::Workspace).count();
        let dag = Arc::new(workload.dag.specialize(&workload.buckets[0]));
        let tolerance = (workload.tolerance.rel, workload.tolerance.abs);
        let hi: Vec<i64> = workload.buckets[0].iter().map(|it| it.hi).collect();
        let cases = [hi, vec![1]].map(|dims| CaseSpec::new(&dag, &dims, 1, &|_| tolerance));
        let results = cases
            .iter()
            .flat_map(|it| tvmtune_ir::interp::run(&dag, it.dims(), &it.params(), &it.scalars()));
        let expected: Vec<u8> = results.flat_map(|it| it.bytes()).collect();
        let job = |change: &dyn Fn(&str) -> String| {
            let lines = code.ptx.lines().map(change).collect::<Vec<_>>();
            let code = Code { ptx: lines.join("\n"), ..code.clone() };
            Job::on_gpu(&generated, (&code, machine.gpu.arch), &cases)
        };
        // `[%rd1+16]` becomes `[%rd1+1073741824]`.
        let stray = |line: &str| match line.split_once('[').zip(line.split_once(']')) {
            Some(((before, inside), (_, after))) if line.contains("st.global") => {
                let register = inside.split([']', '+']).next().unwrap();
                format!("{before}[{register}+1073741824]{after}")
            }
            _ => line.to_owned(),
        };
        let silent = |line: &str| match line.contains("st.global") {
            true => String::new(),
            false => line.to_owned(),
        };
        let [good, stray, silent, garbage] =
            [job(&str::to_owned), job(&stray), job(&silent), job(&|_| "no PTX".to_owned())];
        let mut measurer = Measurer::on_gpu(machine.worker.clone());
        measurer.set_up(&cases, Some(&expected)).unwrap();
        let mut measure = |job| measurer.measure(job, &Policy::GPU).unwrap();
        let n_functions = generated.unit.entries.len() as f64;
        for _ in 0..2 {
            // By the clock of this device a launch of a function takes 1 ms.
            let outcome = measure(&good);
            let Some(timing) = outcome.timing() else { panic!("{outcome}") };
            assert!((timing.median_ns() / 1e6 - n_functions).abs() < 1e-3, "{timing:?}");
            let outcome = measure(&silent);
            assert!(matches!(&outcome, Outcome::Wrong(why) if why.contains("case 0")), "{outcome}");
            let outcome = measure(&stray);
            let is_told = |why: &str| why.contains("CUDA_ERROR_ILLEGAL_ADDRESS");
            assert!(matches!(&outcome, Outcome::Crashed(why) if is_told(why)), "{outcome}");
            let outcome = measure(&garbage);
            assert!(matches!(&outcome, Outcome::Invalid(_)), "{outcome}");
        }
        let hopeless = Policy { best_ns: Some(1e5), ..Policy::GPU };
        let outcome = measurer.measure(&good, &hopeless).unwrap();
        assert_eq!(outcome.timing().unwrap().samples_ns().len(), 1, "given up early");
        let timings = measurer.compare(&[&good, &good], 3, &Policy::GPU).unwrap().unwrap();
        assert!(timings.iter().all(|it| it.samples_ns().len() == 3), "{timings:?}");
    }
    assert!(n_packed > 0 && n_between > 0, "what these programs are here for");
}

#[test]
fn programs_are_tuned_on_a_gpu_and_recorded_with_their_code() {
    if nvrtc().is_none() {
        return;
    }
    let machine = Machine::new();
    let workloads = [LINEAR, SOFTMAX].map(workload);
    let first = machine.tune(&workloads, 6);
    assert_eq!(first.results.len(), 2);
    for (workload, result) in workloads.iter().zip(&first.results) {
        assert!(result.best_ns <= result.default_ns, "{result:?}");
        check_record(&machine, workload);
    }
    let again = machine.tune(&workloads, 9);
    for (first, again) in first.results.iter().zip(&again.results) {
        assert!(again.trials > first.trials, "it went on: {again:?}");
    }
}

#[test]
fn knobs_of_hand_written_kernels_are_tuned_recorded_and_transferred() {
    if nvrtc().is_none() {
        return;
    }
    let machine = Machine::new();
    let first = hand_written("the first version");
    let summary = machine.tune(std::slice::from_ref(&first), 9);
    assert_eq!((summary.results.len(), summary.results[0].trials), (1, 9));
    check_record(&machine, &first);
    let second = hand_written("the second version");
    assert_ne!(first.id, second.id);
    machine.tune(std::slice::from_ref(&second), 6);
    check_record(&machine, &second);
    let lookup =
        |it: &Workload| machine.database().get(&it.id, &ProgramName::of(&it.dag.name), &it.text);
    let found = lookup(&second);
    let record = &found.records[0].record;
    let schedules = &record.bucket(&second.buckets[0]).unwrap().schedules;
    let knobs = |it: &str| it.starts_with("set_knobs [") && !it.contains("s0");
    assert!(schedules.iter().all(|it| it.trace.len() == 1 && knobs(&it.trace[0])), "{schedules:?}");
    let best = lookup(&first).records[0].record.buckets[0].schedules[0].trace.clone();
    let original: Vec<Instruction> = best.iter().map(|it| it.parse().unwrap()).collect();
    let repaired = repair(&original, &first.dag, &second.dag).unwrap();
    assert_eq!((repaired.schedule.trace, repaired.distance), (original, 0.0));
}

/// Checks that what is recorded of a workload is of this GPU, with code that a build can embed.
#[track_caller]
fn check_record(machine: &Machine, workload: &Workload) {
    let (database, arch) = (machine.database(), machine.gpu.arch);
    let lookup = database.get(&workload.id, &ProgramName::of(&workload.dag.name), &workload.text);
    assert!(lookup.warnings.is_empty(), "{:?}", lookup.warnings);
    let bucket: &[Interval] = &workload.buckets[0];
    let best = lookup.best(&machine.gpu.key(), bucket, arch).unwrap();
    assert_eq!((best.tier, &best.record.device), (Tier::Exact, &machine.gpu.key()));
    let images = lookup.images.of(arch, &best.entry.artifact);
    assert!(!images.is_empty() && images[0].bytes.starts_with(b"\x7fELF"));
    assert_eq!(Files::beside(best.path, best.record).1.len(), 0);
    let entries = &best.record.bucket(bucket).unwrap().schedules;
    assert!(entries.iter().any(|it| it.source == Source::Default));
    let measured = |it: &Entry| it.measured.as_ref().and_then(|it| it.image);
    assert!(entries.iter().all(|it| measured(it).is_some()));
    assert_eq!(measured(best.entry), Some(images[0].image.sha256), "what was measured is recorded");
    for entry in entries {
        let trace: Vec<Instruction> = entry.trace.iter().map(|it| it.parse().unwrap()).collect();
        let schedule = Schedule::replay(&workload.dag.specialize(bucket), &trace).unwrap();
        assert_eq!(tvmtune_cuda::generate(&schedule).unwrap().artifact, entry.artifact);
    }
    let logs = Cache::new(machine.root.path()).trials().join(&workload.dag.name);
    let log = fs::read_dir(logs).unwrap().next().unwrap().unwrap().path();
    let trials = trials(&log);
    assert!(trials.len() >= 6 && trials.iter().all(|it| it.isa == arch.to_string()));
}

const SCRIPT: &str = env!("CARGO_BIN_EXE_script");
const TVMTUNE: &str = env!("CARGO_BIN_EXE_tvmtune");

#[test]
fn a_package_is_tuned_for_the_gpu_of_its_machine_if_it_asks_for_it() {
    let Some(nvrtc) = nvrtc().and_then(|it| it.path().to_str()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let driver = fake_driver::driver(folder.path());
    let here = [("LD_LIBRARY_PATH", driver.to_str().unwrap()), ("TVMTUNE_NVRTC", nvrtc)];
    let nowhere = [("LD_LIBRARY_PATH", "/nowhere"), ("CUDA_VISIBLE_DEVICES", "")];
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let build = |out: &str, variables: &[(&str, &str)]| {
        let output = sandbox.build(SCRIPT, out, &[&[("TVMTUNE", "tune")], variables].concat());
        assert_eq!(output.code, Some(0), "{output:?}");
        let warnings: Vec<String> =
            output.directives("warning").into_iter().map(str::to_owned).collect();
        let [(_, text)] = &sandbox.plans(out)[..] else { panic!("one kernel, one plan") };
        let lines = text.split_once(CUDA_MARK).map_or("", |it| it.1).lines().skip(1);
        let lines = lines.map_while(|it| it.strip_prefix("// M in ")).map(str::to_owned);
        (lines.collect::<Vec<String>>(), warnings)
    };
    assert_eq!(build("plain", &here), (Vec::new(), Vec::new()), "nobody asked for it");
    assert_eq!(sandbox.records().len(), 1, "the CPU's");

    sandbox.write("tvmtune.toml", "[targets]\ncuda = [\"native\"]\n");
    let (embedded, warnings) = build("without", &nowhere);
    assert!(embedded.is_empty(), "{embedded:?}");
    assert!(warnings.len() == 1 && warnings[0].contains("`native`"), "{warnings:?}");
    let exact = ["1..=8", "9..=64"].map(|it| format!("{it}: sm_90a exact, 1000.0 us")).to_vec();
    assert_eq!(build("out", &here), (exact.clone(), Vec::new()));
    assert_eq!(sandbox.records().len(), 2);
    let touched = || fs::metadata(&sandbox.records()[1]).unwrap().modified().unwrap();
    let before = touched();
    assert_eq!(build("out", &here), (exact, Vec::new()));
    assert_eq!(touched(), before, "nothing was left to be tuned");
    // One that measures nothing, and looks for no GPU, embeds what was found for it.
    let (embedded, _) = build("use", &[("TVMTUNE", "use"), nowhere[0], nowhere[1]]);
    assert!(embedded.len() == 2 && embedded[0].contains("sm_90a"), "{embedded:?}");

    let tvmtune = |arguments: &[&str]| {
        let mut command = sandbox.command(TVMTUNE);
        let output = said(command.args(arguments).envs(here));
        assert_eq!(output.code, Some(0), "{output:?}");
        output.out
    };
    let status = tvmtune(&["status", "--json"]);
    assert_eq!(status.matches("\"sm_90a\"").count(), 2, "{status}");
    assert_eq!(status.matches("\"exact\"").count(), 4, "{status}");
    let tuned = tvmtune(&["tune", "--target", "cuda", "--trials", "6"]);
    assert!(tuned.contains("2 kernels in "), "{tuned}");
    let again = tvmtune(&["tune", "--target", "cuda", "--trials", "4"]);
    assert!(again.contains("nothing to do"), "{again}");
    let bench = tvmtune(&["bench", "--target", "cuda"]);
    assert_eq!(bench.matches("sm_90a").count(), 2, "{bench}");
    let verified = tvmtune(&["verify"]);
    let n_schedules = verified.split_once(' ').unwrap().0;
    assert!(verified.contains(&format!("{n_schedules} run and right")), "{verified}");
    let doctor = tvmtune(&["doctor"]);
    assert!(doctor.contains("cuda-sm_90a-mp132-l2:64-"), "{doctor}");
}

/// Takes what was measured for code that another NVRTC made of the same source.
fn measured_by_another_compiler(sandbox: &Sandbox) {
    let path = &sandbox.records()[1];
    let text = fs::read_to_string(path).unwrap();
    let (before, n) = (", image = \"", text.matches(", image = \"").count());
    let changed =
        |it: &str| format!("{before}{}{}", if &it[..1] == "0" { "1" } else { "0" }, &it[1..]);
    let mut parts = text.split(before);
    let first = parts.next().unwrap().to_owned();
    assert!(n >= 2, "{text}");
    fs::write(path, first + &parts.map(changed).collect::<String>()).unwrap();
}

#[test]
fn code_that_another_compiler_makes_of_a_measured_source_was_not_measured() {
    let Some(nvrtc) = nvrtc().and_then(|it| it.path().to_str()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let driver = fake_driver::driver(folder.path());
    let here = [("LD_LIBRARY_PATH", driver.to_str().unwrap()), ("TVMTUNE_NVRTC", nvrtc)];
    let sandbox = Sandbox::new("sandbox", SOURCE);
    sandbox.write("tvmtune.toml", "[targets]\ncuda = [\"native\"]\n");
    let build = |mode: &str| {
        let output = sandbox.build(SCRIPT, "out", &[&[("TVMTUNE", mode)], &here[..]].concat());
        assert_eq!(output.code, Some(0), "{output:?}");
        let [(_, text)] = &sandbox.plans("out")[..] else { panic!("one kernel, one plan") };
        text.matches(": sm_90a exact, 1000.0 us").count()
    };
    let tvmtune = |arguments: &[&str]| said(sandbox.command(TVMTUNE).args(arguments).envs(here));
    assert_eq!(build("tune"), 2);
    measured_by_another_compiler(&sandbox);
    let record = fs::read_to_string(&sandbox.records()[1]).unwrap();

    let status = tvmtune(&["status", "--json"]);
    assert_eq!(status.out.matches("\"replayed\"").count(), 2, "{status:?}");
    assert_eq!(build("use"), 0, "no time of this code is known");
    let again = tvmtune(&["compile", "--record", "--target", "cuda:sm_90a"]);
    assert!(again.code == Some(1) && again.err.contains("another version of NVRTC"), "{again:?}");
    assert_eq!(fs::read_to_string(&sandbox.records()[1]).unwrap(), record);
    assert_eq!(build("tune"), 2, "it was measured anew");
    let status = tvmtune(&["status", "--json"]);
    assert_eq!(status.out.matches("\"replayed\"").count(), 0, "{status:?}");
}
