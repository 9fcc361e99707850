//! Kernels for GPUs that were prepared where there is none: compiled, recorded, shipped, embedded,
//! and never taken from strangers.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use tvmtune_cuda::Generated;
use tvmtune_ir::artifact::ArtifactId;
use tvmtune_ir::digest::Digest;
use tvmtune_ir::dsl;
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::GpuTarget;
use tvmtune_ir::target::gpu::Arch;
use tvmtune_ir::workload;
use tvmtune_plan::embed::CUDA_MARK;
use tvmtune_plan::embed::plan_name;
use tvmtune_plan::record::{Measured, Record, Source};
use tvmtune_space::default;
use tvmtune_tests::nvrtc::nvrtc;
use tvmtune_tests::sandbox::{SOURCE, Said, Sandbox, files, said};

const SCRIPT: &str = env!("CARGO_BIN_EXE_script");
const TVMTUNE: &str = env!("CARGO_BIN_EXE_tvmtune");
const USE: (&str, &str) = ("TVMTUNE", "use");
/// A machine without NVRTC.
const BARE: (&str, &str) = ("TVMTUNE_NVRTC", "/nowhere");
const HOPPER: Arch = Arch { sm: 90, exact: true };

/// Runs a command of the tool in the sandbox.
fn tvmtune(sandbox: &Sandbox, arguments: &[&str], variable: (&str, &str)) -> Said {
    said(sandbox.command(TVMTUNE).args(arguments).env(variable.0, variable.1))
}

/// A package whose folder holds what was prepared for an architecture; the cache is empty. `None`
/// where nothing compiles.
#[track_caller]
fn shipped(arch: &str) -> Option<Sandbox> {
    shipped_by(arch, &[])
}

/// The same, prepared with more options.
#[track_caller]
fn shipped_by(arch: &str, options: &[&str]) -> Option<Sandbox> {
    let nvrtc = nvrtc()?.path().to_str().expect("a path in Unicode");
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let target = format!("cuda:{arch}");
    let compile = [&["compile", "--record", "--target", &target], options].concat();
    for arguments in [&compile[..], &["accept"]] {
        let output = tvmtune(&sandbox, arguments, ("TVMTUNE_NVRTC", nvrtc));
        assert_eq!(output.code, Some(0), "{output:?}");
    }
    fs::remove_dir_all(sandbox.cache()).expect("it is there");
    Some(sandbox)
}

/// Runs the script of a package on a machine that compiles nothing.
#[track_caller]
fn build(sandbox: &Sandbox, out: &str, variables: &[(&str, &str)]) -> (String, Vec<String>) {
    let output = sandbox.script(SCRIPT, out, &[&[USE, BARE], variables].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    let [(_, text)] = &sandbox.plans(out)[..] else { panic!("one kernel, one plan") };
    let warnings = output.directives("warning").into_iter().map(str::to_owned);
    // The warning of all builds here: nothing was measured for this CPU.
    let warnings = warnings.filter(|it| !it.contains("1 kernel: 1 default")).collect();
    (text.clone(), warnings)
}

/// The files with that ending that a package ships.
fn artifacts(sandbox: &Sandbox, extension: &str) -> Vec<PathBuf> {
    let files = files(&sandbox.package().join("tvmtune")).into_iter();
    files.filter(|it| it.extension().is_some_and(|it| it == extension)).collect()
}

fn hash(path: &Path) -> Digest {
    Digest::of([&fs::read(path).expect("readable")[..]])
}

#[test]
fn a_crate_ships_and_embeds_what_was_prepared() {
    let Some(sandbox) = shipped("sm_90a") else { return };
    let [record] = &artifacts(&sandbox, "toml")[..] else { panic!("one record") };
    let record = Record::from_toml(&fs::read_to_string(record).expect("readable")).expect("valid");
    assert_eq!(record.device, GpuTarget::generic(HOPPER).key());
    let schedules: Vec<_> = record.buckets.iter().flat_map(|it| &it.schedules).collect();
    let named: BTreeSet<Digest> =
        schedules.iter().flat_map(|it| &it.images).map(|it| it.sha256).collect();
    let compiled = [artifacts(&sandbox, "cubin"), artifacts(&sandbox, "ptx")].concat();
    let hashes: BTreeSet<Digest> = compiled.iter().map(|it| hash(it)).collect();
    assert_eq!(hashes, named);
    // Sources are for people: they are named by the artifact.
    let sources = artifacts(&sandbox, "cu");
    let is_source = |path: &PathBuf, artifact: &ArtifactId| {
        let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
        name.ends_with(&format!(".{}.cu", artifact.0.short()))
    };
    assert_eq!(sources.len(), schedules.len());
    for it in &schedules {
        assert!(sources.iter().any(|path| is_source(path, &it.artifact)), "{}", it.artifact);
    }

    let (text, warnings) = build(&sandbox, "out", &[]);
    assert_eq!(warnings, [""; 0]);
    let (cpu, cuda) = text.split_once(CUDA_MARK).expect("code for devices");
    for hash in &hashes {
        assert!(cuda.contains(&hash.to_string()), "{hash} is not embedded");
        let included = files(&sandbox.cache().with_file_name("out").join("tvmtune"));
        assert!(
            included
                .iter()
                .any(|it| it.file_stem().is_some_and(|it| it == hash.to_string().as_str()))
        );
    }
    assert_eq!(build(&sandbox, "out", &[]), (text.clone(), warnings), "kept as it is");
    fs::remove_dir_all(sandbox.package().join("tvmtune")).expect("it is there");
    let (without, _) = build(&sandbox, "out", &[]);
    assert_eq!(without.trim_end(), cpu.trim_end(), "what CPUs run is the same with and without");
    let left = files(&sandbox.cache().with_file_name("out").join("tvmtune"));
    assert!(!left.iter().any(|it| it.extension().is_some_and(|it| it == "cubin")), "{left:?}");
}

#[test]
fn the_schedule_that_the_model_ranks_first_is_prepared_on_request() {
    let Some(sandbox) = shipped_by("sm_90a", &["--best", "40"]) else { return };
    let [record] = &artifacts(&sandbox, "toml")[..] else { panic!("one record") };
    let record = Record::from_toml(&fs::read_to_string(record).expect("readable")).expect("valid");
    let schedules: Vec<_> = record.buckets.iter().flat_map(|it| &it.schedules).collect();
    assert!(schedules.iter().all(|it| it.measured.is_none() && it.source == Source::Random));
    let (text, warnings) = build(&sandbox, "out", &[]);
    assert_eq!(warnings, [""; 0]);
    for hash in artifacts(&sandbox, "cubin").iter().map(|it| hash(it)) {
        assert!(text.contains(&hash.to_string()), "{hash} is not embedded");
    }
    let images =
        |it: &Sandbox| artifacts(it, "cu").iter().map(|it| hash(it)).collect::<BTreeSet<_>>();
    let by_default = shipped("sm_90a").expect("there is a compiler");
    assert_ne!(images(&sandbox), images(&by_default), "another schedule than the default one");
}

#[test]
fn a_schedule_that_the_model_chose_for_a_range_goes_before_one_that_was_measured_for_another() {
    let Some(sandbox) = shipped_by("sm_90a", &["--best", "40"]) else { return };
    let [path] = &artifacts(&sandbox, "toml")[..] else { panic!("one record") };
    let mut record =
        Record::from_toml(&fs::read_to_string(path).expect("readable")).expect("valid");
    let (one, other) = record.buckets.split_at_mut(1);
    let (measured, chosen) = (&mut one[0].schedules[0], &other[0].schedules[0]);
    let ns = 5e3;
    measured.measured = Some(Measured {
        median_ns: ns,
        min_ns: ns,
        p10_ns: ns,
        p90_ns: ns,
        samples: 5,
        threads: 1,
        dims: Vec::new(),
        cold: None,
        error: None,
        image: None,
    });
    let hashes: Vec<Digest> = chosen.images.iter().map(|it| it.sha256).collect();
    assert!(!hashes.is_empty() && measured.trace != chosen.trace);
    fs::write(path, record.to_toml()).expect("writable");
    // It could compile the schedule of the other range.
    let nvrtc = nvrtc().expect("it compiled").path().to_str().expect("a path in Unicode");
    let output = sandbox.script(SCRIPT, "out", &[USE, ("TVMTUNE_NVRTC", nvrtc)]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let [(_, text)] = &sandbox.plans("out")[..] else { panic!("one kernel, one plan") };
    for hash in hashes {
        assert!(text.contains(&hash.to_string()), "{hash} is not embedded");
    }
}

#[test]
fn damaged_and_missing_kernels_are_not_used_and_one_line_says_so() {
    let Some(sandbox) = shipped("sm_90a") else { return };
    let check = |code| {
        let output = tvmtune(&sandbox, &["check", "--require", "sm_90a"], BARE);
        assert_eq!(output.code, Some(code), "{output:?}");
        output.out
    };
    check(0);
    let (whole, _) = build(&sandbox, "out", &[]);
    let cubin = artifacts(&sandbox, "cubin").remove(0);
    let (name, mut bytes) = (cubin.display().to_string(), fs::read(&cubin).expect("readable"));
    let sha256 = hash(&cubin);
    let half = bytes.len() / 2;
    bytes[half] ^= 1;
    let changes: [&dyn Fn(); 3] = [
        &|| fs::write(&cubin, &bytes).expect("writable"),
        &|| fs::write(&cubin, &bytes[..half]).expect("writable"),
        &|| fs::remove_file(&cubin).expect("it is there"),
    ];
    for (n, change) in changes.into_iter().enumerate() {
        change();
        // Twice: what the first script remembers must not hide it.
        for _ in 0..2 {
            let (text, warnings) = build(&sandbox, &format!("out-{n}"), &[]);
            assert!(warnings.len() == 1 && warnings[0].contains(&name), "{warnings:?}");
            assert!(!text.contains(&sha256.to_string()), "the cubin is embedded");
            assert!(text.contains("Format::Ptx"), "the PTX is whole");
        }
        assert!(check(1).contains(&name));
    }
    assert!(whole.contains(&sha256.to_string()));
    artifacts(&sandbox, "ptx").iter().for_each(|it| fs::remove_file(it).expect("it is there"));
    let (_, warnings) = build(&sandbox, "other", &[]);
    let lacking = "tvmtune: 1 kernel has no code for sm_90a; run `cargo tvmtune compile --record`";
    assert!(warnings.iter().any(|it| it == lacking), "{warnings:?}");
    let output = check(1);
    // Which of its buckets the first cubin belongs to depends on the compiler.
    assert!(output.contains("scaled_sum [M") && output.contains("]: sm_90a: no code"), "{output}");
    // Files that no record names are found.
    let stray = cubin.with_file_name("0123456789ab.cuda.0123456789ab.cubin");
    fs::write(&stray, "stray").expect("writable");
    let output = tvmtune(&sandbox, &["gc", "--apply"], BARE);
    assert!(output.out.contains("1 file of compiled code removed"), "{output:?}");
    assert!(!stray.exists());
}

#[test]
fn compiled_code_of_strangers_is_never_taken_over() {
    let Some(sandbox) = shipped("sm_80") else { return };
    let (own, foreign) = (sandbox.package().join("tvmtune"), sandbox.package().join("foreign"));
    fs::rename(&own, &foreign).expect("both are here");
    let foreign = foreign.to_str().expect("a path in Unicode");
    let (text, warnings) = build(&sandbox, "out", &[("TVMTUNE_DB", foreign)]);
    assert!(!text.contains(CUDA_MARK), "nobody asked for it");
    assert_eq!(warnings, [""; 0]);

    sandbox.write("tvmtune.toml", "[targets]\ncuda = [\"sm_80\"]\n");
    let (text, warnings) = build(&sandbox, "out", &[("TVMTUNE_DB", foreign)]);
    assert!(!text.contains(CUDA_MARK), "a stranger's code is embedded");
    assert!(warnings.len() == 1 && warnings[0].contains("no code for sm_80"), "{warnings:?}");

    let own = own.to_str().expect("a path in Unicode");
    for into in [&["merge", foreign][..], &["merge", foreign, "--into", own]] {
        let output = tvmtune(&sandbox, into, BARE);
        assert_eq!(output.code, Some(0), "{output:?}");
    }
    let merged = [files(&sandbox.cache()), files(Path::new(own))].concat();
    let is_code = |it: &&PathBuf| {
        let extension = it.extension().and_then(|it| it.to_str());
        extension.is_some_and(|it| ["cubin", "ptx", "cu"].contains(&it))
    };
    assert_eq!(merged.iter().find(is_code), None);
    let records = merged.iter().filter(|it| it.extension().is_some_and(|it| it == "toml"));
    for path in records.clone() {
        let text = fs::read_to_string(path).expect("readable");
        assert!(text.contains("isa = \"sm_80\"") && !text.contains("image"), "{text}");
    }
    assert_eq!(records.count(), 2);
    assert!(!build(&sandbox, "out", &[]).0.contains(CUDA_MARK));
}

#[test]
fn several_architectures_are_embedded_the_newest_first() {
    let Some(sandbox) = shipped("sm_80") else { return };
    let nvrtc = nvrtc().and_then(|it| it.path().to_str()).expect("it was there");
    let compile = ["compile", "--record", "--target", "cuda:sm_90a"];
    assert_eq!(tvmtune(&sandbox, &compile, ("TVMTUNE_NVRTC", nvrtc)).code, Some(0));
    let archs = |variables: &[(&str, &str)]| -> Vec<String> {
        let (text, _) = build(&sandbox, "out", variables);
        let lines = text.split_once(CUDA_MARK).map_or("", |it| it.1).lines().skip(1);
        let lines = lines.map_while(|it| it.strip_prefix("// M in 1..=8: "));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(archs(&[]), ["sm_90a default", "sm_80 default"]);
    sandbox.write("tvmtune.toml", "[targets]\ncuda = [\"sm_80\"]\n");
    assert_eq!(archs(&[]), ["sm_80 default"]);
    sandbox.write("tvmtune.toml", "[targets]\ncuda = []\n");
    assert_eq!(archs(&[]), [""; 0]);
    let status = tvmtune(&sandbox, &["status", "--json"], BARE);
    assert!(!status.out.contains("sm_"), "{status:?}");
}

/// Runs on the CPU, finds that there is no driver, and says what is embedded.
const MAIN: &str = r#"
use sandbox::scaled_sum;
use tvmtune_runtime::cuda::Device;
use tvmtune_runtime::{Cpu, Error};

#[allow(dead_code)]
mod code {
    use tvmtune_runtime as rt;
    include!(concat!(env!("TVMTUNE_PLAN_DIR"), "/PLAN.rs"));
}

fn on_a_device() -> Result<(), Error> {
    let stream = Device::open(0)?.stream()?;
    scaled_sum::load(&stream)?;
    Ok(())
}

fn main() {
    let mut y = [0.0; 3];
    scaled_sum(&Cpu::new(), &[2.0; 3 * 32], &mut y).expect("it runs");
    println!("{y:?}");
    for (variants, dims) in code::CUDA.iter().zip([[1, 8], [9, 64]]) {
        for it in *variants {
            println!("{}", it.artifact);
            for image in it.images {
                println!("{} {:?} {}", image.arch, image.bytes.get(..4), image.bytes.len());
            }
            for it in it.functions {
                println!("{} {:?} {}", it.name, it.block, it.shared_bytes);
            }
            for m in dims {
                let mut numbers = vec![0; it.n_numbers()];
                (it.numbers)(&[m], &mut numbers);
                println!("{:?}", &numbers[it.table.len()..]);
            }
        }
    }
    match on_a_device() {
        Ok(()) => println!("loaded"),
        Err(Error::NoDriver { .. }) => println!("no driver"),
        Err(other) => println!("{other}"),
    }
}
"#;

/// An application: it computes the same on the CPU, on a device, and by a graph.
const APPLICATION: &str = r#"
use sandbox::scaled_sum::{self, Dims};
use tvmtune_runtime::Cpu;
use tvmtune_runtime::cuda::Device;
use tvmtune_runtime::cuda::cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::open(0)?;
    // SAFETY: there is one stream.
    unsafe { device.context().disable_event_tracking() };
    let stream = device.stream()?;
    for m in [1, 8, 9, 37, 64] {
        let numbers = |from: usize| -> Vec<f32> {
            (from..from + 32 * m).map(|it| (it * 7 % 101) as f32).collect()
        };
        let on_cpu = |x: &Vec<f32>| -> Result<Vec<f32>, tvmtune_runtime::Error> {
            let mut y = vec![0.0; m];
            sandbox::scaled_sum(&Cpu::new(), x, &mut y).map(|()| y)
        };
        let first = numbers(1);
        let mut x = stream.clone_htod(&first)?;
        let mut y = stream.alloc_zeros::<f32>(m)?;
        sandbox::scaled_sum(&stream, &x, &mut y)?;
        assert_eq!(stream.clone_dtoh(&y)?, on_cpu(&first)?);

        let kernel = scaled_sum::load(&stream)?;
        stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
        kernel.launch(&stream, Dims { m }, &x, &mut y)?;
        let graph = stream.end_capture(CUgraphInstantiate_flags(0))?.expect("a launch");
        for from in [2, 3] {
            let next = numbers(from);
            stream.memcpy_htod(&next, &mut x)?;
            graph.launch()?;
            assert_eq!(stream.clone_dtoh(&y)?, on_cpu(&next)?);
        }
    }
    println!("{}", device.name());
    Ok(())
}
"#;

/// Lets the package have a program of that name, which no other test has, and runs it.
fn run(sandbox: &Sandbox, (name, text): (&str, &str), variables: &[(&str, &str)]) -> Said {
    let manifest = fs::read_to_string(sandbox.package().join("Cargo.toml")).expect("readable");
    // Of the runtime, and of the build script, which generates code for GPUs.
    // `cuda` implies `half`.
    let manifest = manifest.replace(", features = [\"half\"]", "");
    sandbox.write("Cargo.toml", &manifest.replace(" }", ", features = [\"cuda\"] }"));
    sandbox.write(&format!("src/bin/{name}.rs"), text);
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join("Cargo.lock");
    fs::copy(lock, sandbox.package().join("Cargo.lock")).expect("the lock file is there");
    let mut command = sandbox.command(env!("CARGO"));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sandbox");
    command.args(["run", "--offline"]).envs([USE, BARE]).env("CARGO_TARGET_DIR", target);
    said(command.envs(variables.iter().copied()))
}

#[test]
#[cfg(target_os = "linux")]
fn applications_launch_what_was_prepared_on_newer_devices() {
    let Some(sandbox) = shipped("sm_80") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let driver = crate::fake_driver::driver(folder.path());
    let library = ("LD_LIBRARY_PATH", driver.to_str().expect("a path in Unicode"));
    let output = run(&sandbox, ("application", APPLICATION), &[library]);
    assert_eq!((output.code, &*output.out), (Some(0), "the emulator\n"), "{output:?}");
}

/// Returns the program's description of the code of a bucket.
fn described(generated: &Generated, images: &[(String, PathBuf)], dims: [i64; 2]) -> String {
    let mut text = format!("{}\n", generated.artifact);
    for (arch, path) in images {
        let bytes = fs::read(path).expect("readable");
        writeln!(text, "{arch} {:?} {}", bytes.get(..4), bytes.len()).expect("a string");
    }
    for it in &generated.unit.entries {
        writeln!(text, "{} {:?} {}", it.name, it.block, it.shared_bytes).expect("a string");
    }
    for m in dims {
        let blocks = generated.unit.entries.iter().flat_map(|it| it.blocks_at(&[m]));
        writeln!(text, "{:?}", blocks.collect::<Vec<_>>()).expect("a string");
    }
    text
}

#[test]
fn building_a_crate_with_prepared_kernels_needs_no_toolkit_and_no_device() {
    let Some(sandbox) = shipped("sm_90a") else { return };
    let dag = dsl::program(SOURCE.split_once("\n\n").expect("a `use`").1).expect("valid");
    let buckets = [(1, 8), (9, 64)].map(|(lo, hi)| vec![Interval { lo, hi }]);
    let plan = plan_name(&workload::id(&dag).to_string(), &buckets);
    let main = MAIN.replace("/PLAN", &format!("/{plan}"));
    let output = run(&sandbox, ("describe", &main), &[]);
    assert_eq!(output.code, Some(0), "{output:?}");

    let mut expected = "[32.0, 32.0, 32.0]\n".to_owned();
    let record = artifacts(&sandbox, "toml").remove(0);
    let record = Record::from_toml(&fs::read_to_string(record).expect("readable")).expect("valid");
    for (lo, hi) in [(1, 8), (9, 64)] {
        let range = [Interval { lo, hi }];
        let schedule =
            default::schedule(&dag.specialize(&range), &GpuTarget::generic(HOPPER).into());
        let generated = tvmtune_cuda::generate(&schedule).expect("placed");
        let images = &record.bucket(&range).and_then(|it| it.best(HOPPER)).expect("there").images;
        let image = |it: &tvmtune_plan::record::Image| {
            let files = artifacts(&sandbox, it.format.extension()).into_iter();
            (
                it.arch.to_string(),
                files.clone().find(|path| hash(path) == it.sha256).expect("there"),
            )
        };
        let images: Vec<_> = images.iter().map(image).collect();
        assert_eq!(images.len(), 2, "a cubin, and PTX for what comes after");
        expected += &described(&generated, &images, [lo, hi]);
    }
    let (embedded, device) = output.out.trim_end().rsplit_once('\n').expect("lines");
    assert_eq!(embedded, expected.trim_end());
    // On a machine with a GPU its architecture decides; there is no other output.
    let outcomes = ["no driver", "loaded"];
    let fits =
        outcomes.contains(&device) || device.contains("no code") || device.contains("device");
    assert!(fits, "{device}");
}

#[test]
fn images_are_verified_where_nothing_runs_them() {
    let Some(sandbox) = shipped("sm_90a") else { return };
    let verdicts = |code| {
        let output = tvmtune(&sandbox, &["verify", "--json"], BARE);
        assert_eq!(output.code, Some(code), "{output:?}");
        let lines: serde_json::Value = serde_json::from_str(&output.out).expect("JSON");
        let lines = lines.as_array().expect("a list").clone();
        lines.iter().map(|it| it["verdict"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let before = verdicts(0);
    assert!(!before.is_empty() && before.iter().all(|it| it == "same"), "{before:?}");
    let cubin = artifacts(&sandbox, "cubin").remove(0);
    let mut bytes = fs::read(&cubin).expect("readable");
    let half = bytes.len() / 2;
    bytes[half] ^= 1;
    fs::write(&cubin, bytes).expect("writable");
    let after = verdicts(1);
    assert_eq!(after.iter().filter(|it| *it == "bad").count(), 1, "{after:?}");
}
