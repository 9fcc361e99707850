//! The model on a GPU, which is the emulator: what lies in `tvmtune/` is what runs.
//!
//! If a kernel has no code here, the code generator has changed since it was prepared:
//! `cargo tvmtune compile --record -p minilm`, then `cargo tvmtune accept -p minilm`.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "what tests call is part of a test")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use minilm::device::gpu;
use minilm::model::Model;
use minilm::weights::Weights;
use tvmtune_runtime::Cpu;

/// Set where the driver is the fake one.
const FAKE_DRIVER: &str = "MINILM_TESTS_FAKE_DRIVER";

/// Starts a program on a machine whose CUDA driver is the fake one.
fn run(program: &Path, arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let driver = std::env::current_exe().unwrap().with_file_name("libtvmtune_fake_driver.so");
    fs::copy(&driver, folder.path().join("libcuda.so.1")).unwrap();
    let mut command = Command::new(program);
    command.args(arguments).env(FAKE_DRIVER, "yes").env("LD_LIBRARY_PATH", folder.path());
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

#[test]
fn embeddings_are_those_of_the_cpu() {
    if std::env::var_os(FAKE_DRIVER).is_none() {
        let this = ["embeddings_are_those_of_the_cpu", "--exact"];
        let output = run(&std::env::current_exe().unwrap(), &this);
        assert!(output.status.success(), "{}", said(&output));
        return;
    }
    let weights = Weights::Synthetic { n_layers: 2 };
    let on_cpu = Model::new(Cpu::default(), &weights).unwrap();
    let on_gpu = Model::new(gpu().unwrap(), &weights).unwrap();
    let batches: [&[&[u32]]; 6] = [
        &[&[101]],
        &[&[101, 102]],
        // Launched and recorded, then replayed for other ids and lengths.
        &[&[101, 2000, 102], &[5]],
        &[&[7, 8], &[30_521, 0, 999]],
        // A kept session, after one of another shape.
        &[&[29_000]],
        // No word of the vocabulary.
        &[&[40_000]],
    ];
    for batch in batches {
        let batch: Vec<Vec<u32>> = batch.iter().map(|it| it.to_vec()).collect();
        let (got, want) = (on_gpu.embed(&batch).unwrap(), on_cpu.embed(&batch).unwrap());
        assert_eq!(got.len(), batch.len());
        for (g, w) in got.iter().flatten().zip(want.iter().flatten()) {
            assert!((g - w).abs() <= 1e-5, "{batch:?}: {g}, expected {w}");
        }
    }
    let error = on_gpu.embed(&[vec![]]).unwrap_err().to_string();
    assert_eq!(error, "sentence 0 has 0 tokens; expected 1 to 256");
}

#[test]
fn a_benchmark_needs_no_model_and_compares_with_the_cpu() {
    let arguments = "--bench --device cuda --random-weights=1 --shapes 1x1 --rounds 2 --json";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let output = run(Path::new(env!("CARGO_BIN_EXE_minilm")), &arguments);
    assert!(output.status.success(), "{}", said(&output));
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    // By the clock of this device a kernel takes 1 ms; two of the seven operations have two.
    assert_eq!((&rows[0]["device_ms"], &rows[0]["rounds"]), (&9.0.into(), &2.into()), "{rows}");
}

#[test]
fn a_machine_without_a_driver_is_told_so() {
    if gpu().is_ok() {
        return;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_minilm"));
    command.args(["--bench", "--device", "cuda", "--random-weights=1"]);
    let output = command.env("RUST_BACKTRACE", "0").output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.starts_with("Error: ") && !error.contains("panicked"), "{error}");
}
