//! Other files that somebody may have written: configuration, what a build script hands over, logs of
//! trials, progress, cost models, peaks. Each is read, or passed over with a reason.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use tvmtune_build::config::{Config, FILE_NAME};
use tvmtune_ir::dsl;
use tvmtune_ir::target::{CpuTarget, Isa};
use tvmtune_plan::database::Cache;
use tvmtune_plan::handoff::{Handoff, OpSource, Request};
use tvmtune_plan::mode::Mode;
use tvmtune_plan::record::Source;
use tvmtune_tuner::cost::learned;
use tvmtune_tuner::cost::model::CostModel;
use tvmtune_tuner::outcome::{Outcome, Timing};
use tvmtune_tuner::tune::{Phase, Progress, Stage, Trial, replay, running, trials};

use crate::case::Case;
use crate::hostile;
use crate::mutate::{self, Material};
use crate::section::{Problem, Section, Verdict};

const CONFIG: &str = "schema = 1\n\n[policy]\nrequire = [\"avx512\", \"sm_90a\"]\n\n[targets]\n\
cuda = [\"native\", \"sm_80\"]\n\n[budget]\ntrials = 200\nper_kernel = \"20s\"\ntotal = \"10m\"\n";

const PEAKS: &str = "product_gflops = 100.0\nl1_gbps = 300.0\nl2_gbps = 150.0\nl3_gbps = 80.0\n\
memory_gbps = 20.0\n";

/// The files as tvmtune writes them.
static KINDS: LazyLock<[(&str, String); 6]> = LazyLock::new(|| {
    [
        ("tvmtune.toml", CONFIG.to_owned()),
        ("handoff.toml", handoff()),
        ("trials.jsonl", log_text()),
        ("progress.json", progress_text()),
        ("model.json", model_text()),
        ("peaks.toml", PEAKS.to_owned()),
    ]
});

/// What a function writes into a folder, as text.
fn written(write: impl FnOnce(&Path)) -> String {
    let Ok(folder) = tempfile::tempdir() else { return String::new() };
    write(folder.path());
    let entries = fs::read_dir(folder.path()).into_iter().flatten().flatten();
    entries.filter_map(|it| fs::read_to_string(it.path()).ok()).collect()
}

fn handoff() -> String {
    let handoff = Handoff::new(Mode::Use, "../../script".into());
    // Without a file there is no text, which is a case, too.
    written(|folder| drop(handoff.write(folder)))
}

fn log_text() -> String {
    let trial = |outcome, stage| Trial {
        workload: "ab".repeat(32),
        generator: 2,
        bucket: vec![(1, 16)],
        isa: "avx2".to_owned(),
        source: Source::Random,
        stage,
        sketch: "tile".to_owned(),
        choices: vec![0, 1, 2],
        parent: Vec::new(),
        trace: vec!["split s0 a0 [4]".to_owned()],
        artifact: "5417".to_owned(),
        outcome,
        cold: Some(vec![1]),
        slowdown: 1.0,
        generate_ms: 1.5,
        measure_ms: 2.5,
        unix_ms: 1_700_000_000_000,
        seed: 3,
    };
    let timed = Timing::new(vec![1000.0, 1001.5]).map(Outcome::Timed);
    let screened = timed.clone().map(|it| trial(it, Stage::Screen));
    let compared = timed.map(|it| trial(it, Stage::Compare));
    let wrong = Some(trial(Outcome::Wrong("0 of 3".to_owned()), Stage::Screen));
    let lines = [screened, compared, wrong].into_iter().flatten();
    lines.filter_map(|it| Some(serde_json::to_string(&it).ok()? + "\n")).collect()
}

fn progress_text() -> String {
    let progress = Progress {
        process: 1,
        package: "model".to_owned(),
        phase: Phase::Tuning,
        started_unix_ms: 1_700_000_000_000,
        // Later than any clock, so that it is not old.
        updated_unix_ms: u64::MAX,
        budget_seconds: 60.0,
        n_tasks: 3,
        n_begun: 2,
        n_finished: 1,
        n_trials: 40,
        latest: "linear 2.1 us".to_owned(),
        now: "linear: first search".to_owned(),
    };
    serde_json::to_string(&progress).unwrap_or_default()
}

fn model_text() -> String {
    let program = "#[autotune(dims(N = 64))] fn f(x: Tensor<f32, N>) -> Tensor<f32, N> {
        compute(|i| x[[i]] + 1.0)
    }";
    let Ok(dag) = dsl::program(program) else { return String::new() };
    let target = CpuTarget::generic(Isa::Avx2).into();
    let mut model = CostModel::new(1);
    for n in 0..40 {
        if let Some(features) = learned::features(&dag, &target, &[]) {
            model.add(n % 2, features, Some(1000.0 + n as f64));
        }
    }
    written(|folder| drop(model.save(&folder.join("model.json"))))
}

/// The section.
pub(super) struct OtherFiles;

impl Section for OtherFiles {
    fn name(&self) -> &'static str {
        "files"
    }

    fn about(&self) -> &'static str {
        "mutated configuration, handoffs, logs, progress, models and peaks: read or passed over"
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn cases_of_a_test(&self) -> u64 {
        200
    }

    fn check(&self, case: &mut Case) -> Result<Verdict, Problem> {
        let kind = case.random.below(KINDS.len());
        let (name, text) = &KINDS[kind];
        let text = mutant(case, text);
        case.input(name, text.as_slice());
        case.count(*name);
        let folder = case.folder().to_owned();
        let is_read = match kind {
            0 => config(&folder, &text)?,
            1 => hand_over(&folder, &text),
            2 => log(&folder, &text),
            3 => progress(&folder, &text),
            4 => model(&folder, &text)?,
            _ => peaks(&folder, &text)?,
        };
        Ok(if is_read { Verdict::Accepted } else { Verdict::Rejected })
    }
}

fn mutant(case: &mut Case, text: &str) -> Vec<u8> {
    let words = &["per_kernel", "total", "1h", "-5s", "1e30s", "native", "sm_999", "true", "[[a]]"];
    let other = KINDS[case.random.below(KINDS.len())].1.as_str();
    let material = Material { words, other };
    match case.random.below(6) {
        0..=1 => mutate::tokens(text, material, &mut case.random).into_bytes(),
        2..=3 => mutate::bytes(text.as_bytes(), material, &mut case.random),
        _ => match hostile::values(text, &mut case.random) {
            Some(text) => text.into_bytes(),
            None => mutate::tokens(text, material, &mut case.random).into_bytes(),
        },
    }
}

/// Writes a file; the folders around it are made.
fn write(path: &Path, text: &[u8]) {
    // A disk without room is not what this section is about.
    let _ = path.parent().map(fs::create_dir_all);
    let _ = fs::write(path, text);
}

fn config(folder: &Path, text: &[u8]) -> Result<bool, Problem> {
    write(&folder.join(FILE_NAME), text);
    match Config::read(folder) {
        Ok(_) => Ok(true),
        Err(error) if error.to_string().is_empty() => Err(Problem::wrong("an error without text")),
        Err(_) => Ok(false),
    }
}

fn hand_over(folder: &Path, text: &[u8]) -> bool {
    let plans = folder.join("plans");
    // The name of the file is that of the module.
    let _ = fs::create_dir_all(&plans);
    let _ = Handoff::new(Mode::Use, "script".into()).write(&plans);
    for entry in fs::read_dir(&plans).into_iter().flatten().flatten() {
        write(&entry.path(), text);
    }
    let text = String::from_utf8_lossy(text);
    let request = Request::from_toml(&text);
    let op = OpSource {
        name: "f".to_owned(),
        options: text.clone().into_owned(),
        item: text.into_owned(),
    };
    let asked = Request { plans: plans.clone(), op: Some(op) };
    let back = Request::from_toml(&asked.to_toml());
    Handoff::read(&plans).is_some() || request.is_some() && back.is_some()
}

fn log(folder: &Path, text: &[u8]) -> bool {
    let path = folder.join("trials.jsonl");
    write(&path, text);
    let trials = trials(&path);
    replay(&trials);
    !trials.is_empty()
}

fn progress(folder: &Path, text: &[u8]) -> bool {
    let cache = Cache::new(folder);
    write(&cache.progress().join("1.json"), text);
    !running(&cache).is_empty()
}

fn model(folder: &Path, text: &[u8]) -> Result<bool, Problem> {
    let path = folder.join("model.json");
    write(&path, text);
    match CostModel::load(&path, 1) {
        Ok(model) if model.is_trained() && model.n_samples() == 0 => {
            Err(Problem::wrong("a model is trained on nothing"))
        }
        Ok(_) => Ok(true),
        Err(_) => Ok(false),
    }
}

fn peaks(folder: &Path, text: &[u8]) -> Result<bool, Problem> {
    let cache = Cache::new(folder);
    let device = CpuTarget::generic(Isa::Avx2).key();
    let Ok(peaks) = toml::from_str(&String::from_utf8_lossy(text)) else { return Ok(false) };
    // Written as they are, since a file may hold any numbers.
    let _ = cache.keep_peaks(&device, &peaks);
    Ok(cache.peaks(&device).is_some())
}
