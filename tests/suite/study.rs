//! Studies, run as users run them: small ones on this machine, and as little of those that are
//! shipped as shows that they work.

use std::fs;
use std::path::Path;

use tvmtune_plan::device;
use tvmtune_tests::sandbox::{SOURCE, Said, Sandbox, files, said};

const TVMTUNE: &str = env!("CARGO_BIN_EXE_tvmtune");

/// A network, and a package of one kernel, each with the records of the other.
const STUDY: &str = r#"
    name = "small"
    question = "Does it work?"
    networks = ["minilm"]
    packages = ["sandbox"]
    layers = ["mean_unit", "scaled_sum"]
    seeds = [1, 2]
    budget = { trials = 4 }
    baseline = "plain"
    donors = { pairs = "every-ordered-pair", budget = { trials = 4 } }
    [[arm]]
    name = "plain"
    recipe = { transfer = "never" }
    [[arm]]
    name = "given"
    recipe = { transfer = "once" }
"#;

fn study(sandbox: &Sandbox, arguments: &[&str]) -> Said {
    let output = said(sandbox.command(TVMTUNE).arg("study").args(arguments));
    assert_eq!(output.code, Some(0), "{output:?}");
    output
}

#[test]
fn a_study_is_run_once_and_reported_again() {
    if device::detect().is_none() {
        return;
    }
    let sandbox = Sandbox::new("sandbox", SOURCE);
    sandbox.write("small.toml", STUDY);
    let run = study(&sandbox, &["small.toml"]);
    // Two transfer sources from each of two seeds; of each seed and network an arm with a source, and one without.
    assert!(run.err.contains("12 cells to run"), "{run:?}");
    let out = sandbox.package().join("studies/small");
    let cells = fs::read_to_string(out.join("cells.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> =
        cells.lines().filter(|it| !it.is_empty()).map(|it| it.parse().unwrap()).collect();
    assert_eq!(lines.len(), 12);
    for cell in &lines {
        // The kernel has two buckets.
        let n_layers = if cell["target"] == "sandbox" { 2 } else { 1 };
        let layers = cell["layers"].as_array().unwrap();
        assert_eq!(layers.len(), n_layers, "{cell}");
        for layer in layers {
            assert!(layer["default_ns"].as_f64() >= layer["best_ns"].as_f64(), "{layer}");
            assert!(layer["trials"].as_u64().is_some_and(|it| (1..=4).contains(&it)), "{layer}");
            assert_eq!(layer["curve"][0][0], 1, "{layer}");
        }
        // A network has a latency once all of its layers have one.
        let first = cell["curve"][0][0].as_u64();
        assert!(first.is_some_and(|it| it >= n_layers as u64), "{cell}");
    }
    // The records of a source are in its folder, where transfer reads them.
    let source = out.join("cells/sandbox-donor-1");
    assert!(files(&source).iter().any(|it| it.extension().is_some_and(|it| it == "toml")));
    let report = fs::read_to_string(out.join("report.md")).unwrap();
    assert!(report.contains("| given | 4 |") && report.contains("Nothing."), "{report}");
    let plots = files(&out.join("plots"));
    assert!(plots.iter().any(|it| it.ends_with("minilm_trials.svg")), "{plots:?}");

    // Only the cell that was cut off is run again.
    fs::write(out.join("cells.jsonl"), &cells[..cells.len() - 30]).unwrap();
    let missing = study(&sandbox, &["small.toml", "--report-only"]);
    assert!(!missing.err.contains("to run"), "{missing:?}");
    let report = fs::read_to_string(out.join("report.md")).unwrap();
    assert!(report.contains("1 cells have not been run"), "{report}");
    let rest = study(&sandbox, &["small.toml"]);
    assert!(rest.err.contains("1 cell to run"), "{rest:?}");
    let report = fs::read_to_string(out.join("report.md")).unwrap();
    assert!(report.contains("Nothing."), "{report}");

    // An unfinished cell needs the records of its transfer sources: lost ones are tuned again, and nothing else.
    let transferred = |it: &&str| it.contains(r#""arm":"given""#);
    let kept: Vec<&str> = cells.lines().filter(|it| !transferred(it)).collect();
    let donors = lines.iter().filter(|it| it["arm"] == "donor").count();
    let open = 12 - kept.len();
    assert!(lines.iter().all(|it| it["other_load"].as_f64().is_some_and(|it| it <= 1.0)));
    fs::remove_dir_all(out.join("cells")).unwrap();
    fs::write(out.join("cells.jsonl"), kept.join("\n")).unwrap();
    let again = study(&sandbox, &["small.toml"]);
    assert!(again.err.contains(&format!("{} cells to run", donors + open)), "{again:?}");
    let report = fs::read_to_string(out.join("report.md")).unwrap();
    assert!(report.contains("Nothing."), "{report}");
}

#[test]
fn studies_that_are_shipped_run() {
    if device::detect().is_none() {
        return;
    }
    let sandbox = Sandbox::new("sandbox", SOURCE);
    // The folder that has the packages which studies name.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for file in files(&root.join("docs/studies"))
        .iter()
        .filter(|it| it.extension().is_some_and(|it| it == "toml"))
    {
        let name = file.file_stem().unwrap().to_str().unwrap();
        let out = sandbox.package().join(format!("studies/{name}-smoke"));
        let mut command = sandbox.command(TVMTUNE);
        command.current_dir(&root).arg("study").arg(file).args(["--smoke", "--out"]).arg(&out);
        let output = said(&mut command);
        assert_eq!(output.code, Some(0), "{output:?}");
        let report = fs::read_to_string(out.join("report.md")).unwrap();
        assert!(report.contains("### Left out\n\nNothing.\n"), "{report}");
    }
}
