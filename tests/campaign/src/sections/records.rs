//! Mutated records, read as a build reads them: what is embedded is the code of a schedule that computes
//! the program, and nothing is written elsewhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use proc_macro2::TokenStream;
use tvmtune_build::op::Op;
use tvmtune_build::plan::{self, PlanTarget, Variant};
use tvmtune_ir::dag::DType;
use tvmtune_ir::name::ProgramName;
use tvmtune_ir::target::{CpuTarget, Isa};
use tvmtune_plan::database::{Cache, Database, Files, Store, StoreKind};
use tvmtune_plan::handoff::OpSource;
use tvmtune_plan::record::{
    Bucket, End, Entry, GENERATOR, Measured, Provenance, Record, SearchLimits, Source,
};
use tvmtune_schedule::Schedule;
use tvmtune_tuner::random::Random;
use tvmtune_tuner::space::Space;

use crate::case::Case;
use crate::execute::{self, Comparison, ISAS};
use crate::hostile;
use crate::launch::{Launch, Numbers};
use crate::mutate::{self, Material};
use crate::program;
use crate::section::{Problem, Section, Verdict};

const LIMITS: SearchLimits = SearchLimits { trials: 1000, seconds: 60.0 };

/// Programs of which there are records: options, and the function.
const PROGRAMS: &[(&str, &str)] = &[
    (
        "dims(M = 1..=16, N = 24, K = 16), buckets(M = [4, 16])",
        "fn product(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {
            compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
        }",
    ),
    (
        "dims(R = 1..=9, D = 33)",
        "fn rows(x: Tensor<f32, R, D>) -> Tensor<f32, R, D> {
            let m = compute(|r| max(0..D, |d| x[[r, d]]));
            let e = compute(|r, d| x[[r, d]] - m[[r]]);
            let s = compute(|r| sum(0..D, |d| e[[r, d]]));
            compute(|r, d| e[[r, d]] + s[[r]])
        }",
    ),
    (
        "dims(C = 3, H = 9, O = 8)",
        "fn window(x: Tensor<f32, C, H>, w: Weight<f32, O, C, 3>) -> Tensor<f32, O, H> {
            compute(|o, y| sum((0..C, 0..3), |c, r| x.get([c, y + r - 1]).unwrap_or(0.0) * w[[o, c, r]]))
        }",
    ),
];

/// A program with a valid record of it, as text.
struct Recorded {
    op: Op,
    text: String,
}

static RECORDED: LazyLock<Vec<Recorded>> = LazyLock::new(|| {
    let recorded = |(n, (options, item)): (usize, &(&str, &str))| {
        let name = item["fn ".len()..].split('(').next().unwrap_or_default().to_owned();
        let source = OpSource { name, options: (*options).to_owned(), item: (*item).to_owned() };
        let op = Op::from_source(&source, Path::new("lib.rs"))?;
        let text = record(&op, &mut Random::new(n as u64)).to_toml();
        Some(Recorded { op, text })
    };
    PROGRAMS.iter().enumerate().filter_map(recorded).collect()
});

/// This machine, as far as records are concerned.
fn machine() -> CpuTarget {
    CpuTarget { threads: 2, ..CpuTarget::generic(Isa::Avx2) }
}

/// A record with schedules of both instruction sets in every bucket.
fn record(op: &Op, random: &mut Random) -> Record {
    let mut buckets = Vec::new();
    for dims in &op.buckets {
        let dag = op.dag.specialize(dims);
        let mut schedules = Vec::new();
        for isa in ISAS {
            let space = Space::new(&dag, &CpuTarget { isa, ..machine() }.into());
            let mut points = space.defaults();
            points.truncate(1);
            points.extend((0..2).map(|_| space.random(random)));
            for (n, point) in points.iter().enumerate() {
                let Ok(schedule) = Schedule::replay(&dag, &space.instructions(point)) else {
                    continue;
                };
                let source = if n == 0 { Source::Default } else { Source::Evolved };
                schedules.extend(entry(&schedule, isa, source, dims.iter().map(|it| it.hi)));
            }
        }
        let dims = dims.clone();
        buckets.push(Bucket { dims, trials: 9, seconds: 1.5, schedules, ..Bucket::default() });
    }
    Record {
        schema: 1,
        workload: op.id,
        name: ProgramName::of(op.name()),
        device: machine().key(),
        generator: GENERATOR,
        dag: op.text.clone(),
        provenance: Provenance { tool: "campaign".to_owned(), ..Provenance::default() },
        buckets,
        end: End {},
    }
}

fn entry(
    schedule: &Schedule,
    isa: Isa,
    source: Source,
    dims: impl Iterator<Item = i64>,
) -> Option<Entry> {
    let generated = tvmtune_cpu::generate(schedule, isa).ok()?;
    let measured = Measured {
        dims: dims.collect(),
        threads: 2,
        median_ns: if source == Source::Default { 2000.0 } else { 1000.0 },
        min_ns: 900.0,
        p10_ns: 950.0,
        p90_ns: 2100.0,
        samples: 9,
        ..Measured::default()
    };
    Some(Entry {
        platform: isa.into(),
        artifact: generated.artifact,
        measured_code: None,
        source,
        trace: schedule.trace.iter().map(ToString::to_string).collect(),
        measured: Some(measured),
        accuracy: None,
        lineage: Vec::new(),
        images: Vec::new(),
    })
}

/// The section.
pub(super) struct Records;

impl Section for Records {
    fn name(&self) -> &'static str {
        "records"
    }

    fn about(&self) -> &'static str {
        "mutated records and traces, through the database into the plan of a build"
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(20)
    }

    fn cases_of_a_test(&self) -> u64 {
        60
    }

    fn check(&self, case: &mut Case) -> Result<Verdict, Problem> {
        let at = case.random.below(RECORDED.len());
        let Recorded { op, text } = &RECORDED[at];
        let text = mutant(case, text);
        case.input("record.toml", text.as_slice());
        let folders = Folders::new(case, op, &text);
        let verdict = plan(case, op, &folders)?;
        folders.check_victim()?;
        Ok(verdict)
    }
}

fn mutant(case: &mut Case, text: &str) -> Vec<u8> {
    let other = RECORDED[case.random.below(RECORDED.len())].text.as_str();
    let words =
        &["schema", "median_ns", "trace", "bucket", "split s0 a0 [4]", "threads all", "[end]"];
    let material = Material { words, other };
    match case.random.below(8) {
        0 => text.as_bytes().to_vec(),
        1..=2 => mutate::bytes(text.as_bytes(), material, &mut case.random),
        3 => mutate::tokens(text, material, &mut case.random).into_bytes(),
        4 => traces(text, &mut case.random).into_bytes(),
        _ => match hostile::values(text, &mut case.random) {
            Some(text) => text.into_bytes(),
            None => text.as_bytes().to_vec(),
        },
    }
}

/// The text with other numbers in lines of traces, which stay instructions.
fn traces(text: &str, random: &mut Random) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let in_trace = |it: &str| it.trim_start().starts_with('"') && it.contains(" s");
    for line in lines.iter_mut().filter(|it| in_trace(it)) {
        if random.chance(0.15) {
            let mut lexemes: Vec<String> =
                mutate::lexemes(line).into_iter().map(str::to_owned).collect();
            for it in &mut lexemes {
                let is_number = it.chars().all(|it| it.is_ascii_digit());
                if is_number && random.chance(0.5) {
                    *it = random.below(40).to_string();
                }
            }
            *line = lexemes.concat();
        }
    }
    lines.join("\n") + "\n"
}

/// The folders of a build, and one that is nobody's business.
struct Folders {
    root: PathBuf,
    cache: Cache,
    package: PathBuf,
}

const VICTIM: &str = "precious = true\n";

impl Folders {
    /// Folders with one record in one of the layers.
    fn new(case: &mut Case, op: &Op, record: &[u8]) -> Self {
        let layer = case.random.below(3);
        let root = case.folder().to_owned();
        let cache = Cache::new(&root.join("cache"));
        let package = root.join("package/tvmtune");
        let folders = Self { root, cache, package };
        let stores = folders.stores();
        let dir = stores[layer].dir.join(op.name());
        let device = machine().key().to_string().replace(':', "_");
        let file = dir.join(format!("{}.{device}.toml", &op.id.to_string()[..12]));
        // A disk without room is not what this section is about.
        let _ = fs::create_dir_all(&dir);
        let _ = fs::write(file, record);
        let _ = fs::create_dir_all(folders.root.join("victim"));
        let _ = fs::write(folders.victim(), VICTIM);
        folders
    }

    fn victim(&self) -> PathBuf {
        self.root.join("victim/settings.toml")
    }

    fn stores(&self) -> [Store; 3] {
        let store = |kind, dir| Store { kind, dir };
        [
            store(StoreKind::Cache, self.cache.records()),
            store(StoreKind::Overlay, self.root.join("overlay")),
            store(StoreKind::Crate, self.package.clone()),
        ]
    }

    fn database(&self) -> Database {
        Database::new(self.stores().to_vec(), Some(self.cache.clone()))
    }

    /// Checks that nothing was written beside the folders of the build.
    fn check_victim(&self) -> Result<(), Problem> {
        if fs::read(self.victim()).ok().as_deref() != Some(VICTIM.as_bytes()) {
            return Err(Problem::wrong("a file outside of the database was written"));
        }
        let own = ["cache", "package", "overlay", "victim"];
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let mut names = entries.map(|it| it.file_name().to_string_lossy().into_owned());
        match names.find(|it| !own.contains(&it.as_str())) {
            Some(name) => Err(Problem::wrong(format!("`{name}` appeared beside the database"))),
            None => Ok(()),
        }
    }
}

/// Plans a build, and keeps and accepts what was read as commands do.
fn plan(case: &mut Case, op: &Op, folders: &Folders) -> Result<Verdict, Problem> {
    let database = folders.database();
    let lookup = database.get(&op.id, &ProgramName::of(op.name()), &op.text);
    for warning in &lookup.warnings {
        let text = warning.to_string();
        if text.chars().any(|it| it.is_control()) {
            return Err(Problem::wrong(format!("a warning has control characters\n{text:?}")));
        }
    }
    let target = PlanTarget { device: Some(machine()), gpu: None, limits: LIMITS };
    let specs = plan::variant_specs(op, &lookup, &target);
    let mut variants = Vec::new();
    for spec in &specs {
        if let Ok(variant) = plan::realize(op, spec, &target) {
            check_variant(case, op, &variant)?;
            variants.push(variant);
        }
    }
    let text = plan::text(op, &variants, LIMITS);
    if text.parse::<TokenStream>().is_err() {
        return Err(Problem::wrong(format!("a plan is no Rust:\n{text}")));
    }
    for stored in &lookup.records {
        // Refusals are fine: where it is written is what counts.
        let _ = database.put(&stored.record, &Files::default());
        let _ = Database::accept(&folders.package, &stored.record, &Files::default(), 2);
    }
    let is_read = database.list().all(|it| it.2.is_ok()) && !lookup.records.is_empty();
    case.count(format!("{} records read", lookup.records.len()));
    Ok(if is_read { Verdict::Accepted } else { Verdict::Rejected })
}

/// Checks that the code of a variant is that of its schedule, and computes the program.
fn check_variant(case: &mut Case, op: &Op, variant: &Variant<'_>) -> Result<(), Problem> {
    let dag = op.dag.specialize(variant.bucket);
    execute::check_trace(&variant.schedule, &dag)?;
    let generated = tvmtune_cpu::generate(&variant.schedule, variant.isa);
    if generated.ok().map(|it| it.artifact) != Some(variant.generated.artifact) {
        return Err(Problem::wrong("the code of a plan is not that of its schedule"));
    }
    if variant.median_ns().is_some_and(|it| !it.is_finite() || it <= 0.0) {
        return Err(Problem::wrong(format!("a time of {:?} ns", variant.median_ns())));
    }
    let Some(choice) = variant.choice else { return Ok(()) };
    case.count(format!("a schedule of tier {}", choice.tier.name()));
    if !case.random.chance(0.3) {
        return Ok(());
    }
    let dims = program::dims(&dag, &mut case.random);
    let launch = Launch::new(&dag, &dims, Numbers::Whole, &mut case.random);
    let exact: &dyn Fn(DType) -> f64 = &|_| 0.0;
    let comparison = Comparison { tolerance: Some(exact), nest: false };
    execute::check(case, &variant.schedule, &[launch], comparison)
}
