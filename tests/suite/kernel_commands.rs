//! `cargo tvmtune` takes hand-written kernels for what they are in every command: kernels.

use std::fs;

use tvmtune_tests::nvrtc::nvrtc;
use tvmtune_tests::sandbox::{Said, Sandbox, said};

use crate::templates;

const TVMTUNE: &str = env!("CARGO_BIN_EXE_tvmtune");

/// Runs a command that must end so.
#[track_caller]
fn run(sandbox: &Sandbox, arguments: &[&str], code: i32) -> Said {
    let nvrtc = nvrtc().expect("callers have one").path();
    let mut command = sandbox.command(TVMTUNE);
    command.env("TVMTUNE_NVRTC", nvrtc);
    let said = said(command.args(arguments));
    assert_eq!(said.code, Some(code), "{arguments:?}: {said:?}");
    said
}

#[track_caller]
fn check_parts(said: &Said, parts: &[&str]) {
    for part in parts {
        assert!(said.out.contains(part), "{part}: {said:?}");
    }
}

#[test]
fn commands_know_hand_written_kernels() {
    if nvrtc().is_none() {
        return;
    }
    let sandbox = templates::sandbox(str::to_owned);
    let compiled = run(&sandbox, &["compile", "--target", "cuda:sm_80"], 0);
    check_parts(&compiled, &["histogram", "clear", "count", "2048"]);
    check_parts(&run(&sandbox, &["status"], 0), &["histogram", "N 1..=3000"]);
    let refused = run(&sandbox, &["check", "--require", "sm_80"], 1);
    check_parts(&refused, &["histogram [N 1..=3000]: sm_80: no code"]);

    run(&sandbox, &["compile", "--record", "--target", "cuda:sm_80"], 0);
    run(&sandbox, &["accept"], 0);
    let status = run(&sandbox, &["status"], 0);
    assert!(
        status.out.lines().any(|it| it.contains("sm_80") && it.contains("default")),
        "{status:?}"
    );
    run(&sandbox, &["check", "--require", "sm_80"], 0);
    run(&sandbox, &["verify"], 0);
    let shown = run(&sandbox, &["show", "histogram"], 0);
    let knobs = ["set_knobs [256, 4, 2]", "#define ITEMS 4", "extern \"C\" __global__ void count"];
    check_parts(&shown, &knobs);
    check_parts(&shown, &["cubin for sm_80", "template kernels/histogram.cu"]);

    // CPUs compute the definition, which is tuned and timed like any program.
    run(&sandbox, &["tune", "--trials", "2", "--target", "cpu"], 0);
    check_parts(&run(&sandbox, &["bench"], 0), &["histogram"]);
    // Records of a kernel that is there are no garbage.
    assert!(!run(&sandbox, &["gc"], 0).out.contains("histogram"));
}

#[test]
fn records_of_a_kernel_whose_file_changed_are_misses_and_garbage() {
    if nvrtc().is_none() {
        return;
    }
    let sandbox = templates::sandbox(str::to_owned);
    run(&sandbox, &["compile", "--record", "--target", "cuda:sm_80"], 0);
    run(&sandbox, &["accept"], 0);
    run(&sandbox, &["check", "--require", "sm_80"], 0);
    let path = sandbox.package().join("kernels/shared_counts.cuh");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{text}// another line\n")).unwrap();
    run(&sandbox, &["check", "--require", "sm_80"], 1);
    let listed = run(&sandbox, &["gc"], 0);
    assert!(listed.out.contains("histogram"), "{listed:?}");
    fs::write(&path, text).unwrap();
    run(&sandbox, &["check", "--require", "sm_80"], 0);
}
