//! Builds, from a crate on disk to plans, records and one line of text.
//!
//! The build script runs by itself here; `cargo.rs` drives cargo.

use std::fs;
use std::path::{Path, PathBuf};

use tvmtune_ir::target::{CpuTarget, Isa};
use tvmtune_plan::database::{Database, Files};
use tvmtune_plan::device;
use tvmtune_plan::record::{Record, Source};
use tvmtune_tests::code;
use tvmtune_tests::sandbox::{SOURCE, Said, Sandbox, files};

const NO_FILES: [PathBuf; 0] = [];
const SCRIPT: &str = env!("CARGO_BIN_EXE_script");
const TUNE: (&str, &str) = ("TVMTUNE", "tune");
const USE: (&str, &str) = ("TVMTUNE", "use");

/// Runs the script of a package, and the session of a compiler that emits code; expects them to
/// succeed.
#[track_caller]
fn build(sandbox: &Sandbox, out: &str, variables: &[(&str, &str)]) -> Said {
    let output = sandbox.build(SCRIPT, out, variables);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(output.directives("error"), [""; 0]);
    output
}

/// Reads a record.
fn read(path: &Path) -> Record {
    Record::from_toml(&fs::read_to_string(path).expect("readable")).expect("a record")
}

#[test]
fn a_miss_is_tuned_once_and_remembered() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let first = build(&sandbox, "out", &[TUNE]);
    assert_eq!(first.directives("warning"), [""; 0]);
    let records = sandbox.records();
    assert_eq!(records.len(), 1, "{records:?}");
    let text = fs::read_to_string(&records[0]).expect("readable");
    let plans = sandbox.plans("out");
    assert_eq!(plans.len(), 1);

    let second = build(&sandbox, "out", &[TUNE]);
    assert_eq!(second.directives("warning"), [""; 0]);
    assert_eq!(fs::read_to_string(&records[0]).expect("readable"), text);
    assert_eq!(sandbox.plans("out"), plans);
}

#[test]
fn without_permission_nothing_is_measured_and_one_line_says_so() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let output = build(&sandbox, "out", &[USE]);
    let warnings = output.directives("warning");
    assert_eq!(
        warnings,
        ["tvmtune: 1 kernel: 1 default (TVMTUNE is set); run `cargo tvmtune status`"]
    );
    assert_eq!(sandbox.records(), NO_FILES);
    assert_eq!(sandbox.plans("out").len(), 1);
}

#[test]
fn a_script_measures_nothing_and_says_that_a_session_would() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let output = sandbox.script(SCRIPT, "out", &[TUNE]);
    assert_eq!((output.code, output.directives("warning")), (Some(0), Vec::new()), "{output:?}");
    assert_eq!(sandbox.records(), NO_FILES);
    assert!(sandbox.handoff("out").wants_session);
    build(&sandbox, "out", &[TUNE]);
    assert!(!sandbox.handoff("out").wants_session);
    sandbox.script(SCRIPT, "out", &[TUNE]);
    assert!(!sandbox.handoff("out").wants_session, "nothing was left");
    // Cargo would run a script again whose inputs a session writes.
    let output = sandbox.script(SCRIPT, "out", &[TUNE]);
    let watched = output.directives("rerun-if-changed");
    let records = sandbox.cache().join("v4").join("records");
    assert!(watched.iter().all(|it| !Path::new(it).starts_with(&records)), "{watched:?}");
    assert!(watched.iter().any(|it| it.ends_with("stamp")), "{watched:?}");
}

#[test]
fn only_existing_inputs_and_no_personal_variables_are_declared() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let output = build(&sandbox, "out", &[USE]);
    let watched = output.directives("rerun-if-changed");
    assert!(watched.iter().all(|it| Path::new(it).exists()), "{watched:?}");
    let lib = sandbox.package().join("src").join("lib.rs");
    assert!(watched.iter().any(|it| Path::new(it) == lib), "{watched:?}");
    let variables = output.directives("rerun-if-env-changed");
    for personal in ["PATH", "HOME", "CI", "RUSTC_WRAPPER"] {
        assert!(!variables.contains(&personal));
    }
}

#[test]
fn a_deleted_cache_costs_time_only() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    build(&sandbox, "out", &[TUNE]);
    fs::remove_dir_all(sandbox.cache()).expect("it is there");
    let output = build(&sandbox, "out", &[TUNE]);
    assert_eq!(output.directives("warning"), [""; 0]);
    assert_eq!(sandbox.records().len(), 1);
}

#[test]
fn a_mangled_record_is_a_miss_and_one_warning_that_names_it() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    build(&sandbox, "out", &[TUNE]);
    let record = sandbox.records().remove(0);
    let text = fs::read_to_string(&record).expect("readable");
    let (name, half) = (record.display().to_string(), &text[..text.len() / 2]);
    let newer = text.replacen("schema = ", "schema = 99", 1);
    let aimless = text.replacen("trace = [", "trace = [\"inline s77\", ", 1);
    assert_ne!(aimless, text);
    for bad in ["", "not a record", half, &newer] {
        fs::write(&record, bad).expect("writable");
        let output = build(&sandbox, "out", &[USE]);
        let warnings = output.directives("warning");
        let naming = warnings.iter().filter(|it| it.contains(&name));
        assert_eq!(naming.count(), 1, "{warnings:?}");
        assert!(warnings.iter().any(|it| it.contains("1 default")), "{warnings:?}");
        // The same again, where it can be mended.
        let output = build(&sandbox, "out", &[TUNE]);
        let warnings = output.directives("warning");
        assert!(warnings.len() == 1 && warnings[0].contains(&name), "{warnings:?}");
        assert!(warnings[0].ends_with("(this build did)"), "{warnings:?}");
        assert_eq!(build(&sandbox, "out", &[TUNE]).directives("warning"), [""; 0]);
    }
    fs::write(&record, aimless).expect("writable");
    // Twice: what the first script remembers must not hide it.
    for _ in 0..2 {
        let output = build(&sandbox, "out", &[USE]);
        let warnings = output.directives("warning");
        let naming = warnings.iter().filter(|it| it.contains(&name) && it.contains("apply"));
        assert_eq!(naming.count(), 1, "{warnings:?}");
    }
}

#[test]
fn a_record_of_other_code_is_replayed_and_measured_again() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    build(&sandbox, "out", &[TUNE]);
    let record = sandbox.records().remove(0);
    let text = fs::read_to_string(&record).expect("readable");
    let other = |line: &str| match line.strip_prefix("artifact = \"") {
        Some(_) => format!("artifact = \"{}\"\n", "0".repeat(64)),
        None => format!("{line}\n"),
    };
    fs::write(&record, text.lines().map(other).collect::<String>()).expect("writable");
    let output = build(&sandbox, "out", &[USE]);
    let status = || {
        let mut ops = sandbox.handoff("out").ops.into_values();
        ops.next().expect("one op").status
    };
    // Nothing falls to the default schedule, and nobody is told to act.
    assert_eq!(output.directives("warning"), [""; 0]);
    assert!(["replayed", "default"].contains(&status().as_str()), "{}", status());
    let output = build(&sandbox, "out", &[TUNE]);
    assert_eq!(output.directives("warning"), [""; 0]);
    assert_eq!(status(), "exact");
}

#[test]
fn a_shipped_schedule_that_is_slower_than_the_default_one_is_named_and_replaced() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    build(&sandbox, "out", &[TUNE]);
    let cached = sandbox.records().remove(0);
    let mut record = read(&cached);
    fs::remove_file(&cached).expect("writable");
    // Another machine found plain loops best.
    let target = CpuTarget::from_key(&record.device).expect("a CPU");
    let other = CpuTarget { threads: target.threads + 1, ..target };
    record.device = other.key();
    for bucket in &mut record.buckets {
        bucket.schedules.truncate(1);
        let entry = &mut bucket.schedules[0];
        (entry.trace, entry.source) = (Vec::new(), Source::Evolved);
        entry.artifact = code("other");
    }
    let shipped = sandbox.package().join("tvmtune");
    Database::accept(&shipped, &record, &Files::default(), 1).expect("writable");
    let output = build(&sandbox, "out", &[TUNE]);
    let warnings = output.directives("warning");
    let named = |it: &&&str| it.contains("the shipped schedule of `scaled_sum` takes");
    assert_eq!(warnings.iter().filter(named).count(), 1, "{warnings:?}");
    let mended = read(&sandbox.records().remove(0));
    assert!(mended.buckets.iter().all(|it| !it.schedules[0].trace.is_empty()), "{mended:?}");
}

#[test]
fn a_package_from_elsewhere_uses_what_it_ships_and_never_tunes() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    build(&sandbox, "out", &[TUNE]);
    for record in sandbox.records() {
        let folder = sandbox.package().join("tvmtune").join("scaled_sum");
        fs::create_dir_all(&folder).expect("writable");
        fs::copy(&record, folder.join(record.file_name().expect("a file"))).expect("writable");
    }
    fs::remove_dir_all(sandbox.cache()).expect("it is there");
    sandbox.write("Cargo.toml.orig", "");
    let output = build(&sandbox, "other", &[TUNE]);
    assert_eq!(output.directives("warning"), [""; 0]);
    assert_eq!(files(&sandbox.cache()), NO_FILES);
    assert_eq!(texts(&sandbox, "other"), texts(&sandbox, "out"));
    build(&sandbox, "required", &[("TVMTUNE", "require")]);
    let refusals = || {
        let ops = sandbox.handoff("required").ops.into_values();
        ops.filter_map(|it| it.refusal).collect::<Vec<_>>()
    };
    assert_eq!(refusals(), [""; 0], "a record of any instruction set will do");
    let other = if device::isas().contains(&Isa::Avx512) { "sm_80" } else { "avx512" };
    sandbox.write("tvmtune.toml", &format!("[policy]\nrequire = [\"{other}\"]\n"));
    build(&sandbox, "required", &[("TVMTUNE", "require")]);
    assert_eq!(refusals().len(), 1, "but the author names one");
}

#[test]
fn nothing_but_out_dir_and_the_cache_is_written() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let state = || -> Vec<_> {
        let time = |it: &Path| fs::metadata(it).and_then(|it| it.modified()).expect("readable");
        files(&sandbox.package()).into_iter().map(|it| (time(&it), it)).collect()
    };
    let before = state();
    build(&sandbox, "out", &[TUNE]);
    assert_eq!(state(), before);
}

#[test]
fn two_builds_at_once_agree() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    std::thread::scope(|scope| {
        for out in ["a", "b"] {
            scope.spawn(|| build(&sandbox, out, &[TUNE]));
        }
    });
    assert_eq!(sandbox.records().len(), 1);
    build(&sandbox, "a", &[USE]);
    build(&sandbox, "b", &[USE]);
    assert_eq!(texts(&sandbox, "a"), texts(&sandbox, "b"));
}

#[test]
fn a_missing_record_that_is_required_is_refused_with_the_next_command() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    build(&sandbox, "out", &[("TVMTUNE", "require")]);
    let refusals = sandbox.handoff("out").ops.into_values().filter_map(|it| it.refusal);
    let [text] = &refusals.collect::<Vec<_>>()[..] else { panic!("one kernel, one refusal") };
    assert!(text.contains("`scaled_sum`") && text.contains("(default)"), "{text}");
    assert!(text.contains("cargo tvmtune tune"), "{text}");
}

#[test]
fn a_mode_that_means_nothing_is_an_error() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let output = sandbox.script(SCRIPT, "out", &[("TVMTUNE", "requre")]);
    assert_eq!(output.code, Some(0), "cargo fails for the error, and prints it once");
    let errors = output.directives("error");
    assert!(errors.len() == 1 && errors[0].contains("`TVMTUNE=requre`"), "{errors:?}");
}

#[test]
fn a_configuration_that_means_nothing_is_an_error_that_names_it() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    sandbox.write("tvmtune.toml", "[budget]\ntrails = 3\n");
    let output = sandbox.script(SCRIPT, "out", &[USE]);
    assert_eq!(output.code, Some(0), "cargo fails for the error, and prints it once");
    let errors = output.directives("error");
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("tvmtune.toml") && errors[0].contains("`trails`"), "{errors:?}");
}

/// The texts of the plans, without where they lie.
fn texts(sandbox: &Sandbox, out: &str) -> Vec<String> {
    sandbox.plans(out).into_iter().map(|(_, text)| text).collect()
}
