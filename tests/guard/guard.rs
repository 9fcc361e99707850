//! Digests of the code generated for every program of the zoo, the kernels, the examples and the
//! acceptance of GPUs: a
//! refactoring that is meant to leave generated code alone does.
//!
//! In: programs, and points of their schedule spaces drawn from a fixed seed. Out: a line for each
//! program and platform, compared with `digests.txt`. For CPUs the machine code is hashed; for GPUs
//! the CUDA C++ with its names replaced by numbers, since no name changes what is compiled.
//!
//! `TVMTUNE_WRITE_DIGESTS=1 cargo test -p tvmtune-guard` writes the digests anew.

#![expect(clippy::unwrap_used, reason = "what tests call is part of a test")]

#[path = "../../acceptance/src/case/mod.rs"]
#[expect(dead_code, unreachable_pub, reason = "the acceptance of GPUs uses all of it")]
mod case;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

use sha2::{Digest, Sha256};
use tvmtune_build::package::Package;
use tvmtune_build::scan::Cfg;
use tvmtune_cpu::generate;
use tvmtune_ir::dag::{Dag, print};
use tvmtune_ir::dsl;
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::gpu::Arch;
use tvmtune_ir::target::{GpuTarget, Isa, Platform, Target};
use tvmtune_schedule::{Schedule, nest};
use tvmtune_space::default;
use tvmtune_space::fits;
use tvmtune_space::sketch::{Sketch, sketches};

/// Sampled points of a program on a platform, besides its default schedule.
const POINTS: usize = 50;

const PLATFORMS: [Platform; 4] = [
    Platform::Cpu(Isa::Avx512),
    Platform::Cpu(Isa::Avx2),
    Platform::Cuda(Arch { sm: 80, exact: false }),
    Platform::Cuda(Arch { sm: 90, exact: true }),
];

/// Names in CUDA C++ that the text does not declare: of the language, the device and the headers.
/// Their position in this list is what is hashed, so that a header may rename what it declares.
const EXTERNAL: &str = include_str!("external.txt");

struct Case {
    name: String,
    dag: Dag,
    buckets: Vec<Vec<Interval>>,
}

/// Every program, each once.
fn cases() -> Vec<Case> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let (mut cases, mut seen) = (Vec::new(), BTreeSet::new());
    for network in tvmtune_zoo::networks() {
        for layer in &network.layers {
            let dag = layer.dag();
            if seen.insert(print::canonical(&dag)) {
                let name = format!("{}/{}", network.name, layer.name);
                cases.push(Case { name, dag, buckets: vec![Vec::new()] });
            }
        }
    }
    for folder in ["kernels", "examples/quickstart", "examples/minilm"] {
        let package = Package::load(folder, &root.join(folder), None, &Cfg::of_host()).unwrap();
        for op in package.ops {
            let name = format!("{folder}/{}", op.name());
            cases.push(Case { name, dag: op.dag, buckets: op.buckets });
        }
    }
    for it in case::all() {
        let checks = it.checks.iter().map(|check| check.dims);
        for dims in it.times.iter().copied().chain(checks) {
            let source = format!("#[autotune(dims({dims}))]\n{}", it.function);
            let (name, dag) = (format!("acceptance/{}/{dims}", it.name()), dsl::program(&source));
            let (dag, buckets) = (dag.unwrap(), vec![Vec::new()]);
            let buckets = if dag.dims.is_empty() { buckets } else { Vec::new() };
            cases.push(Case { name, dag, buckets });
        }
    }
    cases
}

/// `SplitMix64`.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * n as u128) >> 64) as usize
    }
}

/// A point of any sketch: a decision keeps its default in two of five cases.
fn sample(sketches: &[Sketch], random: &mut Random) -> (usize, Vec<u16>) {
    let n = random.below(sketches.len());
    let Sketch { decisions, default, .. } = &sketches[n];
    let mut choices = Vec::new();
    for (decision, best) in decisions.iter().zip(default) {
        let keeps = random.below(5) < 2;
        let other = random.below(decision.options.len()) as u16;
        choices.push(if keeps { *best } else { other });
    }
    (n, choices)
}

/// The code of a schedule, in a form in which names do not count; a word where there is none.
fn code(schedule: &Schedule, target: &Target) -> Vec<u8> {
    match target {
        Target::Cpu(cpu) => {
            if fits::cpu::fits(&nest::lower(schedule), cpu).is_err() {
                return b"misfit".to_vec();
            }
            let Ok(generated) = generate(schedule, cpu.isa) else { return b"unsupported".to_vec() };
            let phases = generated.code.phases.iter();
            phases.flat_map(|it| [&(it.len() as u64).to_le_bytes()[..], it].concat()).collect()
        }
        Target::Gpu(gpu) => {
            let Ok(generated) = tvmtune_cuda::generate(schedule) else {
                return b"unplaceable".to_vec();
            };
            if fits::gpu::fits(&generated.grid, gpu).is_err() {
                return b"misfit".to_vec();
            }
            normal_form(&generated.unit.source).into_bytes()
        }
    }
}

/// CUDA C++ without includes, with its own names numbered in order of appearance.
fn normal_form(source: &str) -> String {
    let external: BTreeMap<&str, usize> = EXTERNAL.lines().zip(0..).collect();
    let (mut own, mut text) = (BTreeMap::new(), String::new());
    let lines = source.lines().filter(|it| !it.starts_with("#include") && !it.is_empty());
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for line in lines {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            // Members are looked up with their dot: variables may have the same name.
            let is_member =
                first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_alphabetic());
            let start = usize::from(is_member);
            let length = rest[start..].find(|c| !is_word(c)).map_or(rest.len(), |n| n + start);
            let (word, after) = rest.split_at(length.max(first.len_utf8()));
            rest = after;
            if !(is_member || first.is_ascii_alphabetic() || first == '_') {
                text.push_str(word);
            } else if let Some(n) = external.get(word) {
                write!(text, "x{n} ").unwrap();
            } else {
                let next = own.len();
                write!(text, "v{} ", own.entry(word).or_insert(next)).unwrap();
            }
        }
        text.push('\n');
    }
    text
}

fn hex(hash: Sha256) -> String {
    hash.finalize()[..12].iter().map(|it| format!("{it:02x}")).collect()
}

/// The line of a program on a platform: digests of its default code, for each bucket, and of the
/// code of sampled points.
fn line(case: &Case, platform: Platform) -> String {
    let target = match platform {
        Platform::Cpu(isa) => Target::generic(isa),
        Platform::Cuda(arch) => GpuTarget::generic(arch).into(),
    };
    let mut defaults = Sha256::new();
    for ranges in &case.buckets {
        let schedule = default::schedule(&case.dag.specialize(ranges), &target);
        defaults.update(code(&schedule, &target));
    }
    let (mut points, mut n_code) = (Sha256::new(), 0);
    let sketches = sketches(&case.dag, &target);
    let mut random = Random(1);
    for _ in 0..if sketches.is_empty() { 0 } else { POINTS } {
        let (n, choices) = sample(&sketches, &mut random);
        let code = match Schedule::replay(&case.dag, &sketches[n].instructions(&choices)) {
            Ok(schedule) => code(&schedule, &target),
            Err(_) => b"refused".to_vec(),
        };
        n_code += usize::from(code.len() > 11);
        points.update((code.len() as u64).to_le_bytes());
        points.update(code);
    }
    format!("{} {platform} {} {} of {n_code}", case.name, hex(defaults), hex(points))
}

#[test]
fn generated_code_is_as_it_was() {
    let cases = cases();
    let (next, lines) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let n_cases = cases.len() * PLATFORMS.len();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= n_cases {
                        break;
                    }
                    let (case, platform) = (n / PLATFORMS.len(), n % PLATFORMS.len());
                    let line = line(&cases[case], PLATFORMS[platform]);
                    lines.lock().unwrap().push((n, line));
                }
            });
        }
    });
    let mut lines = lines.into_inner().unwrap();
    lines.sort();
    let text: String = lines.iter().map(|(_, line)| format!("{line}\n")).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("digests.txt");
    if env::var_os("TVMTUNE_WRITE_DIGESTS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let before = fs::read_to_string(&path).unwrap();
    let before: BTreeSet<&str> = before.lines().collect();
    let changed: Vec<&str> = text.lines().filter(|it| !before.contains(it)).collect();
    assert!(changed.is_empty(), "generated code changed:\n{}", changed.join("\n"));
    assert_eq!(text.lines().count(), before.len(), "programs are gone");
}
