//! The command line, run as users run it: what it prints, what it leaves, how it ends.

use std::fs;
use std::path::Path;

use tvmtune_ir::target::Isa;
use tvmtune_plan::device;
use tvmtune_plan::record::Record;
use tvmtune_tests::nvrtc::nvrtc;
use tvmtune_tests::sandbox::{SOURCE, Said, Sandbox, files, said};

const TVMTUNE: &str = env!("CARGO_BIN_EXE_tvmtune");

/// Runs a command in the sandbox.
fn tvmtune(sandbox: &Sandbox, arguments: &[&str]) -> Said {
    said(sandbox.command(TVMTUNE).args(arguments))
}

/// Runs a command that must end in this way.
#[track_caller]
fn check(sandbox: &Sandbox, arguments: &[&str], code: i32) -> Said {
    let said = tvmtune(sandbox, arguments);
    assert_eq!(said.code, Some(code), "{said:?}");
    said
}

/// The name of the best instruction set here; the others are tuned by sessions after it.
fn own_isa() -> &'static str {
    device::isas()[0].name()
}

#[test]
fn a_kernel_is_tuned_accepted_checked_and_shown() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let before = check(&sandbox, &["status"], 0);
    assert!(before.out.contains("1 kernel: 1 default"), "{before:?}");
    let missing = check(&sandbox, &["check"], 1);
    assert!(missing.out.contains("scaled_sum [M 1..=8]: any: default"), "{missing:?}");

    let tuned = check(&sandbox, &["tune", "--trials", "4"], 0);
    assert!(tuned.out.contains("scaled_sum"), "{tuned:?}");
    assert_eq!(sandbox.records().len(), 1);
    let again = check(&sandbox, &["tune", "--isa", own_isa()], 0);
    assert!(again.out.contains("nothing to do"), "{again:?}");

    check(&sandbox, &["accept"], 0);
    let shipped = files(&sandbox.package().join("tvmtune"));
    assert_eq!(shipped.len(), 1);
    let read = |path: &Path| Record::from_toml(&fs::read_to_string(path).expect("readable"));
    let mut cached = read(&sandbox.records()[0]).expect("a record");
    cached.keep_best(1);
    cached.schema = cached.needed_schema();
    assert_eq!(read(&shipped[0]), Ok(cached), "the best of each bucket, for reviewers");
    check(&sandbox, &["check"], 0);
    let nothing_new = check(&sandbox, &["accept"], 0);
    assert!(nothing_new.out.contains("nothing new"), "{nothing_new:?}");

    let after = check(&sandbox, &["status"], 0);
    assert!(after.out.contains("1 kernel: 1 exact"), "{after:?}");
    let shown = check(&sandbox, &["show", "scaled"], 0);
    for part in ["workload ", "trace", "out[", "4 trials"] {
        assert!(shown.out.contains(part), "{part}: {shown:?}");
    }
}

#[test]
fn answers_are_json_on_request() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let json = |arguments: &[&str]| -> serde_json::Value {
        serde_json::from_str(&check(&sandbox, arguments, 0).out).expect("JSON")
    };
    let status = json(&["status", "--json"]);
    assert_eq!(status[0]["name"], "scaled_sum");
    assert_eq!(status[0]["tier"], "default");
    let tuned = json(&["tune", "--trials", "4", "--json"]);
    assert_eq!(tuned["kernels"][0]["name"], "scaled_sum");
    for bench in [json(&["bench", "--json"]), json(&["bench", "--default", "--json"])] {
        assert_eq!(bench[0]["name"], "scaled_sum");
        assert!(bench[0]["latency_us"].as_f64().is_some_and(|it| it > 0.0), "{bench}");
        assert!(bench[0]["gbps"].is_f64(), "{bench}");
        // Peaks are measured where nothing was tuned yet; noise may carry a kernel beyond them.
        assert!(bench[0]["roofline"].as_f64().is_some_and(|it| it > 0.0 && it < 10.0), "{bench}");
    }
    // One schedule has one time.
    let untuned = Sandbox::new("untuned", SOURCE);
    let bench: serde_json::Value =
        serde_json::from_str(&check(&untuned, &["bench", "--json"], 0).out).expect("JSON");
    assert_eq!(bench[0]["latency_us"], bench[0]["default_us"], "{bench}");
}

#[test]
fn the_time_of_a_kernel_on_a_gpu_is_predicted_without_one() {
    let Some(nvrtc) = nvrtc() else { return };
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let line = |arguments: &[&str]| -> serde_json::Value {
        let mut command = sandbox.command(TVMTUNE);
        let said = said(command.env("TVMTUNE_NVRTC", nvrtc.path()).args(arguments));
        assert_eq!(said.code, Some(0), "{said:?}");
        let lines: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
        lines[0].clone()
    };
    let default = line(&["compile", "--json"]);
    let best = line(&["compile", "--json", "--best", "30"]);
    for line in [&default, &best] {
        assert_eq!(line["name"], "scaled_sum");
        assert!(line["waves"].as_u64().is_some_and(|it| it > 0), "{line}");
        assert_eq!(line["bound"], "launch", "the kernel is small: {line}");
    }
    assert_eq!((&best["spill_bytes"], &best["frame_bytes"]), (&0.into(), &0.into()));
    let us = |line: &serde_json::Value| line["predicted_us"].as_f64().expect("a time");
    assert!(us(&best) <= us(&default), "the default is ranked too: {best} {default}");
    let at = line(&["compile", "--json", "--at", "M=9"]);
    assert_eq!(at["extents"], "M 9..=64", "the other bucket is left out");
    assert!(us(&at) <= us(&line(&["compile", "--json", "--at", "M=64"])), "{at}");
}

#[test]
fn records_of_kernels_that_are_gone_are_found_and_removed_on_demand() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    check(&sandbox, &["tune", "--trials", "4"], 0);
    check(&sandbox, &["accept"], 0);
    assert!(check(&sandbox, &["gc"], 0).out.contains("every record belongs"));
    sandbox.write("src/lib.rs", &SOURCE.replace("0.5", "0.25"));
    assert!(check(&sandbox, &["gc"], 0).out.contains("1 record of no kernel"));
    let shipped = || files(&sandbox.package().join("tvmtune")).len();
    assert_eq!(shipped(), 1);
    check(&sandbox, &["gc", "--apply"], 0);
    assert_eq!(shipped(), 0);
}

#[test]
fn databases_are_united() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    check(&sandbox, &["tune", "--trials", "4"], 0);
    let from = sandbox.cache().join("v4").join("records");
    let into = sandbox.package().join("elsewhere");
    let folders = [from.display().to_string(), into.display().to_string()];
    let merged = check(&sandbox, &["merge", &folders[0], "--into", &folders[1]], 0);
    assert!(merged.out.contains("1 record merged"), "{merged:?}");
    assert_eq!(files(&into).len(), 1);
}

#[test]
fn other_orders_of_reductions_are_timed_beside_the_one_that_is_written() {
    let source = SOURCE.replace("K = 32)", "K = 320), order = \"lanes(32)\"");
    let sandbox = Sandbox::new("sandbox", &source);
    let text = check(&sandbox, &["bench", "--orders", "--bucket", "M=64", "--json"], 0).out;
    let rows: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let rows = rows.as_array().expect("a list");
    let own: Vec<bool> = rows.iter().map(|it| it["is_own"] == true).collect();
    assert_eq!((own[0], own.iter().filter(|it| **it).count()), (true, 1), "{rows:?}");
    for option in ["numerics = \"free\"", "order = \"sequence\"", "order = \"blocks(256)\""] {
        let row = rows.iter().find(|it| it["option"] == option).expect("a row for each order");
        assert!(row["latency_us"].as_f64() > Some(0.0), "{row}");
    }
}

#[test]
fn impossible_requests_are_answered_with_possible_ones() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let refused = |arguments: &[&str], parts: [&str; 2]| {
        let said = check(&sandbox, arguments, 2);
        for part in parts {
            assert!(said.err.contains(part), "{part}: {said:?}");
        }
    };
    refused(&["status", "-p", "nobody"], ["`nobody`", "cargo metadata"]);
    refused(&["show", "nothing"], ["`nothing`", "cargo tvmtune status"]);
    refused(&["tune", "--budget", "soon"], ["`soon`", "90s"]);
    refused(&["merge", "nowhere"], ["`nowhere`", "no folder"]);
    refused(&["dance"], ["dance", "--help"]);
    sandbox.write("src/lib.rs", "");
    refused(&["status"], ["#[autotune]", "annotated"]);
}

#[test]
fn the_doctor_names_device_and_cache() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let said = check(&sandbox, &["doctor"], 0);
    assert!(said.out.contains("cpu-avx"), "{said:?}");
    assert!(said.out.contains(&sandbox.cache().display().to_string()), "{said:?}");
    assert!(said.out.contains("(writable)"), "{said:?}");
}

#[test]
fn records_are_verified_and_those_that_say_something_else_are_found() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let nothing = check(&sandbox, &["verify"], 0);
    assert!(nothing.out.contains("0 schedules: 0 not as recorded"), "{nothing:?}");
    check(&sandbox, &["tune", "--trials", "4"], 0);
    check(&sandbox, &["accept"], 0);
    let lines = |arguments: &[&str], code| -> serde_json::Value {
        serde_json::from_str(&check(&sandbox, arguments, code).out).expect("JSON")
    };
    let all = lines(&["verify", "--json"], 0);
    let all = all.as_array().expect("a list");
    assert!(all.iter().any(|it| it["verdict"] == "right"), "{all:?}");
    assert!(all.iter().all(|it| it["verdict"] == "right" || it["verdict"] == "same"), "{all:?}");

    let shipped = files(&sandbox.package().join("tvmtune")).remove(0);
    let text = fs::read_to_string(&shipped).expect("readable");
    let artifact = all[0]["artifact"].as_str().expect("a hash");
    let changes = [
        (text.replacen(artifact, &"0".repeat(artifact.len()), 1), "replayed"),
        (text.replacen("trace = [", "trace = [\n    \"split s99.0 4\",", 1), "bad"),
    ];
    for (changed, verdict) in changes {
        assert_ne!(changed, text);
        fs::write(&shipped, changed).expect("writable");
        let lines = lines(&["verify", "--shipped", "--json"], 1);
        let lines = lines.as_array().expect("a list");
        assert_eq!(lines.iter().filter(|it| it["verdict"] == verdict).count(), 1, "{lines:?}");
    }
    fs::write(&shipped, &text[..text.len() / 2]).expect("writable");
    let cut = check(&sandbox, &["verify", "--shipped"], 1);
    assert!(cut.out.contains("0 schedules: 1 not as recorded"), "{cut:?}");
}

#[test]
fn bits_are_verified_where_numerics_are_fixed() {
    let free = "
        #[autotune(dims(N = 40), numerics = \"free\")]
        pub fn free(x: Tensor<f32, N>) -> Tensor<f32, N> { compute(|n| x[[n]] * 2.0) }";
    let sandbox = Sandbox::new("sandbox", &format!("{SOURCE}{free}"));
    sandbox.write("tvmtune.toml", "numerics = \"fixed\"\n");
    let status = check(&sandbox, &["status"], 0).out;
    let notes = |kernel: &str| {
        let mut lines = status.lines().filter(|it| it.contains(kernel));
        lines.all(|it| it.contains("fixed numerics"))
    };
    assert!(notes("scaled_sum") && !notes("free"), "{status}");

    check(&sandbox, &["tune", "--trials", "4", "-k", "scaled_sum"], 0);
    check(&sandbox, &["accept"], 0);
    let all = check(&sandbox, &["verify", "--bits"], 0).out;
    assert!(all.contains("of 1 kernel with fixed numerics, on "), "{all}");
    assert!(all.contains(": 0 runs with other bits"), "{all}");
    assert!(all.contains("1 kernel with free numerics left out"), "{all}");
    let lines: Vec<serde_json::Value> =
        serde_json::from_str(&check(&sandbox, &["verify", "--bits", "--json"], 0).out)
            .expect("JSON");
    let of_record = |it: &&serde_json::Value| it["schedule"] != "default";
    assert!(lines.iter().any(|it| of_record(&it)) && !lines.iter().all(|it| of_record(&it)));
    assert!([1, 2, 3].iter().all(|n| lines.iter().any(|it| it["threads"] == *n)), "{lines:?}");
    assert!(lines.iter().all(|it| it["places"].as_u64() >= Some(2)), "{lines:?}");

    let shipped = files(&sandbox.package().join("tvmtune")).remove(0);
    let text = fs::read_to_string(&shipped).expect("readable");
    let changed = text.replacen("trace = [", "trace = [\n    \"rfactor s0 a1\",", 1);
    fs::write(&shipped, changed).expect("writable");
    let said = check(&sandbox, &["verify", "--bits", "--shipped"], 1).out;
    assert!(said.contains("would change the bits of results"), "{said}");
}

/// Two programs of one name, and one of another.
const NAMESAKES: &str = "
pub mod small {
    #[tvmtune_runtime::autotune(dims(N = 8))]
    pub fn scale(x: Tensor<f32, N>) -> Tensor<f32, N> { compute(|n| x[[n]] * 2.0) }
}
pub mod large {
    #[tvmtune_runtime::autotune(dims(N = 512))]
    pub fn scale(x: Tensor<f32, N>) -> Tensor<f32, N> { compute(|n| x[[n]] * 2.0) }
    #[tvmtune_runtime::autotune(dims(N = 512))]
    pub fn shift(x: Tensor<f32, N>) -> Tensor<f32, N> { compute(|n| x[[n]] + 2.0) }
}
";

#[test]
fn kernels_of_one_name_are_told_apart_by_their_modules() {
    let sandbox = Sandbox::new("sandbox", NAMESAKES);
    let names = |arguments: &[&str]| -> Vec<String> {
        let text = check(&sandbox, arguments, 0).out;
        let lines: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let lines = if lines.is_array() { &lines } else { &lines["kernels"] };
        let names = lines.as_array().expect("a list").iter().map(|it| it["name"].to_string());
        names.map(|it| it.trim_matches('"').to_owned()).collect()
    };
    assert_eq!(names(&["status", "--json"]), ["small::scale", "large::scale", "shift"]);
    assert_eq!(names(&["status", "--json", "-k", "large::scale"]), ["large::scale"]);
    assert_eq!(names(&["status", "--json", "-k", "large::"]), ["large::scale", "shift"]);
    assert_eq!(names(&["status", "--json", "-k", "scale"]), ["small::scale", "large::scale"]);
    assert_eq!(names(&["bench", "--json", "-k", "small::"]), ["small::scale"]);
    let mut tuned = names(&["tune", "--trials", "4", "--json", "-k", "scale"]);
    tuned.sort();
    assert_eq!(tuned, ["large::scale", "small::scale"]);
    let folder = |it: &std::path::PathBuf| {
        let folder = it.parent().and_then(|it| it.file_name()).expect("a folder");
        folder.to_string_lossy().into_owned()
    };
    let folders: Vec<String> = sandbox.records().iter().map(folder).collect();
    assert_eq!(folders, ["large.scale", "small.scale"]);
    let again = check(&sandbox, &["tune", "-k", "scale", "--isa", own_isa()], 0);
    assert!(again.out.contains("nothing to do"), "found by the same names: {again:?}");
}

#[test]
fn a_function_that_is_no_program_is_named_with_what_is_wrong() {
    let broken = "#[autotune(dims(N = 8))]
        pub fn broken(x: Tensor<f32, N>) -> Tensor<f32, N> { compute(|n| x[[n + 1]]) }";
    let sandbox = Sandbox::new("sandbox", &format!("{SOURCE}\n{broken}"));
    for (arguments, code, severity) in [
        (["status"].as_slice(), 0, "warning"),
        (&["bench", "-k", "broken"], 2, "error"),
        (&["tune", "-k", "broken"], 2, "error"),
    ] {
        let said = check(&sandbox, arguments, code);
        let start = format!("{severity}: `broken` in ");
        let why = "lib.rs is left out: index `n + 1` ranges over 1..=8";
        assert!(said.err.contains(&start) && said.err.contains(why), "{said:?}");
    }
    let other = check(&sandbox, &["status", "-k", "scaled_sum"], 0);
    assert!(!other.err.contains("broken"), "nobody asked for it: {other:?}");
}

#[test]
fn ranges_instruction_sets_and_features_can_be_chosen() {
    let source = format!(
        "{SOURCE}
        #[cfg(feature = \"extra\")]
        #[autotune(dims(N = 8))]
        pub fn extra(x: Tensor<f32, N>) -> Tensor<f32, N> {{ compute(|n| x[[n]] * 3.0) }}"
    );
    let sandbox = Sandbox::new("sandbox", &source);
    let manifest = fs::read_to_string(sandbox.package().join("Cargo.toml")).expect("readable");
    sandbox.write("Cargo.toml", &(manifest + "[features]\nmore = [\"extra\"]\nextra = []\n"));
    let status = |arguments: &[&str]| check(&sandbox, &[&["status"], arguments].concat(), 0).out;
    assert!(!status(&[]).contains("extra"), "it is off");
    for features in [&["--features", "more"], &["--features", "sandbox/extra"]] {
        assert!(status(features).contains("extra"), "{features:?}");
    }
    assert!(status(&["--all-features"]).contains("extra"));
    let misspelt = check(&sandbox, &["status", "-F", "mor"], 2);
    assert!(misspelt.err.contains("`mor`") && misspelt.err.contains("`more`"), "{misspelt:?}");

    let tuned = check(&sandbox, &["tune", "--trials", "4", "--bucket", "M=9"], 0).out;
    assert!(tuned.contains("M 9..=64") && !tuned.contains("M 1..=8"), "{tuned}");
    let bench = check(&sandbox, &["bench", "--bucket", "M=64"], 0).out;
    assert!(bench.contains("M 9..=64") && !bench.contains("M 1..=8"), "{bench}");
    let shown = check(&sandbox, &["show", "scaled", "--isa", "avx2", "--bucket", "M=1"], 0).out;
    assert!(shown.contains("== M 1..=8 on avx2") && !shown.contains("M 9..=64 on"), "{shown}");
    let isas = device::isas();
    if !isas.contains(&Isa::Avx512) {
        let refused = check(&sandbox, &["tune", "--isa", "avx512"], 2);
        assert!(refused.err.contains("does not run avx512"), "{refused:?}");
    }
    // Code for an older instruction set is recorded under the key of this machine.
    check(&sandbox, &["tune", "--trials", "4", "--isa", "avx2"], 0);
    let record = fs::read_to_string(&sandbox.records()[0]).expect("readable");
    let best = device::detect().expect("it tuned").key();
    assert!(record.contains(&format!("device = \"{best}\"")), "{record}");
    assert!(record.contains("isa = \"avx2\""), "{record}");
}
