//! The acceptance of GPUs, as far as it goes without one: it says so, and what it would run is complete.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tvmtune_acceptance::candidate::{Goal, Manifest};
use tvmtune_acceptance::case;
use tvmtune_tests::nvrtc::{self, nvrtc};

fn acceptance(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_acceptance"));
    command.args(arguments).current_dir(folder);
    // No device, whatever this machine has: what one says is for `run` on a machine that has one.
    command.env("CUDA_VISIBLE_DEVICES", "").env("TVMTUNE_CACHE", folder.join("cache"));
    if let Some(nvrtc) = nvrtc::optional() {
        command.env("TVMTUNE_NVRTC", nvrtc.path());
    }
    command.output().unwrap()
}

#[track_caller]
fn said(output: &Output, code: i32) -> String {
    let text = [&output.stdout[..], &output.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    assert_eq!(output.status.code(), Some(code), "{text}");
    text
}

/// A bundle of some cases.
fn bundle(folder: &Path, only: &str) -> Option<Manifest> {
    nvrtc()?;
    let made = acceptance(folder, &["bundle", "made", "--only", only, "--ranked", "4"]);
    said(&made, 0);
    Some(Manifest::read(&folder.join("made")).unwrap())
}

#[test]
fn a_bundle_has_code_and_a_prediction_for_every_candidate() {
    let folder = tempfile::tempdir().unwrap();
    let Some(manifest) = bundle(folder.path(), "row_sums") else { return };
    assert_eq!(manifest.arch, "sm_90a");
    let case = case::named("row_sums_f32").unwrap();
    for candidate in &manifest.candidates {
        let image = fs::read(folder.path().join("made").join(&candidate.image)).unwrap();
        assert!(image.starts_with(b"\x7fELF"), "{}", candidate.title());
        let predicted = candidate.predicted.as_ref().unwrap();
        assert!(predicted.ns > 1e3 && predicted.ns < 1e9, "{predicted:?}");
        assert!(
            !predicted.kernels.is_empty() && predicted.kernels.iter().all(|it| it.registers > 0)
        );
        let (_, problem) = candidate.problem().unwrap();
        candidate.generate(&problem.dag).unwrap();
        assert!(!candidate.launches(case, &problem).is_empty());
    }
    let n = |goal| manifest.candidates.iter().filter(|it| it.goal == goal).count();
    assert!(n(Goal::Check) >= 2 && n(Goal::Time) >= case.times.len());
    let text = said(&acceptance(folder.path(), &["predictions", "--folder", "made"]), 0);
    let rows = text.lines().filter(|it| it.starts_with("| row_sums_f32 |"));
    let (n_rows, text) = (rows.clone().count(), rows.collect::<String>());
    assert!(n_rows == case.times.len() && text.contains(" us, memory |"), "{text}");
    for file in ["README.md", "peers.py", "acceptance"] {
        assert!(folder.path().join("made").join(file).is_file(), "{file}");
    }
}

#[test]
fn without_a_gpu_it_says_so_and_ends() {
    let folder = tempfile::tempdir().unwrap();
    if bundle(folder.path(), "total").is_none() {
        return;
    }
    let text = said(&acceptance(folder.path(), &["run", "--folder", "made"]), 3);
    assert!(text.contains("no GPU to run on: "), "{text}");
    assert!(!folder.path().join("made/results").exists(), "nothing was found out");
}

#[test]
fn a_folder_that_is_no_bundle_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let text = said(&acceptance(folder.path(), &["run", "--folder", "."]), 2);
    assert!(text.contains("items.json"), "{text}");
}

#[test]
fn every_program_that_is_timed_has_a_peer() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let peers = fs::read_to_string(root.join("acceptance/bundle/peers.py")).unwrap();
    for case in case::all().filter(|it| !it.times.is_empty()) {
        assert!(peers.contains(&format!("\"{}\": (", case.name())), "{}", case.name());
    }
}
