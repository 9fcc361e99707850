//! Hand-written kernels whose results a function of Rust defines, where the language has no words for them.

use std::fs;

use tvmtune_build::op::Op;
use tvmtune_plan::source::{self, Cfg};
use tvmtune_tests::nvrtc::nvrtc;
use tvmtune_tests::sandbox::{Said, Sandbox, said};

const TVMTUNE: &str = env!("CARGO_BIN_EXE_tvmtune");
const SCRIPT: &str = env!("CARGO_BIN_EXE_script");

const SOURCE: &str = r#"
use tvmtune_runtime::autotune;

#[autotune(
    dims(M = 1..=100, N = 64),
    template = "kernels/sort.cu",
    reference("kernels/sort.rs", sort_rows),
    knobs(ROWS in [2, 1, 4]),
    kernels(sort(grid = (M + ROWS - 1) / ROWS, block = ROWS * N / 2))
)]
pub fn sort(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {}
"#;

/// Bitonic sort: a thread compares one pair of a row in each step.
const KERNEL: &str = r#"extern "C" __global__ void sort(const float* x, float* sorted, int M) {
  __shared__ float rows[ROWS][N];
  const int in_block = threadIdx.x / (N / 2), pair = threadIdx.x % (N / 2);
  const int row = blockIdx.x * ROWS + in_block;
  float* mine = rows[in_block];
  for (int n = pair; n < N; n += N / 2) mine[n] = row < M ? x[row * N + n] : 0.0f;
  for (int length = 2; length <= N; length *= 2) {
    for (int distance = length / 2; distance > 0; distance /= 2) {
      __syncthreads();
      const int low = pair / distance * 2 * distance + pair % distance, high = low + distance;
      const bool is_ascending = (low & length) == 0;
      const float a = mine[low], b = mine[high];
      if ((a > b) == is_ascending) {
        mine[low] = b;
        mine[high] = a;
      }
    }
  }
  __syncthreads();
  for (int n = pair; n < N; n += N / 2) {
    if (row < M) sorted[row * N + n] = mine[n];
  }
}
"#;

const REFERENCE: &str = "
/// Sorts each row.
pub fn sort_rows(x: &[f32], sorted: &mut [f32], m: usize) {
    assert_eq!(x.len(), m * 64);
    sorted.copy_from_slice(x);
    sorted.chunks_mut(64).for_each(|row| row.sort_by(f32::total_cmp));
}
";

fn sandbox(kernel: &str, reference: &str) -> Sandbox {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    sandbox.write("kernels/sort.cu", kernel);
    sandbox.write("kernels/sort.rs", reference);
    sandbox
}

/// Runs `cargo tvmtune emulate`.
fn emulate(sandbox: &Sandbox, arguments: &[&str]) -> Option<Said> {
    let nvrtc = nvrtc()?;
    let mut command = sandbox.command(TVMTUNE);
    command.env("TVMTUNE_NVRTC", nvrtc.path()).arg("emulate").args(arguments);
    Some(said(&mut command))
}

#[test]
fn a_function_of_rust_judges_a_kernel() {
    let sorts = sandbox(KERNEL, REFERENCE);
    for extents in ["M=1", "M=3", "M=8", "M=99", "M=100"] {
        let Some(said) = emulate(&sorts, &["--all", "--at", extents]) else { return };
        assert_eq!(said.code, Some(0), "{said:?}");
        assert_eq!(said.out.matches(" right ").count(), 3, "{said:?}");
    }
    let unsorted = sandbox(&KERNEL.replace("length <= N;", "length < N;"), REFERENCE);
    let wrong = emulate(&unsorted, &[]).expect("there is NVRTC");
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    assert!(wrong.err.contains("of result 0 is ") && wrong.err.contains("differ"), "{}", wrong.err);
}

#[test]
fn mistakes_of_the_function_are_said_by_its_lines() {
    let check = |from: &str, to: &str, parts: &[&str]| {
        let Some(said) = emulate(&sandbox(KERNEL, &REFERENCE.replace(from, to)), &[]) else {
            return;
        };
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(parts.iter().all(|it| said.err.contains(it)), "{said:?}");
        assert_eq!(said.err.matches("error: sort").count(), 1, "once: {said:?}");
    };
    check(
        "m: usize",
        "m: i64",
        &["expected `pub fn sort_rows(x: &[f32], out: &mut [f32], m: usize)`", "E0308"],
    );
    check("m * 64", "m * 65", &["`sort_rows` of `kernels/sort.rs` failed", "kernels/sort.rs:4:"]);
}

/// The ops of a sandbox.
fn ops(sandbox: &Sandbox) -> Vec<Op> {
    let scan = source::scan(&sandbox.package(), &Cfg::of_host());
    scan.functions.into_iter().flat_map(Op::all).flatten().collect()
}

#[test]
fn a_change_of_the_function_is_another_workload_and_its_file_is_watched() {
    let sandbox = sandbox(KERNEL, REFERENCE);
    let before = ops(&sandbox)[0].id;
    let path = sandbox.package().join("kernels/sort.rs");
    sandbox.write("kernels/sort.rs", &REFERENCE.replace('\n', "\r\n"));
    assert_eq!(ops(&sandbox)[0].id, before, "ends of lines are no change");
    sandbox.write("kernels/sort.rs", &REFERENCE.replace("total_cmp", "total_cmp /* as is */"));
    assert_ne!(ops(&sandbox)[0].id, before);
    let scan = source::scan(&sandbox.package(), &Cfg::of_host());
    assert!(scan.watched.contains(&path));
    fs::remove_file(&path).unwrap();
    let scan = source::scan(&sandbox.package(), &Cfg::of_host());
    assert!(scan.missing.contains(&path));
    assert!(ops(&sandbox).is_empty(), "the macro reports it");
}

#[test]
fn a_cpu_runs_the_function_itself() {
    let sandbox = sandbox(KERNEL, REFERENCE);
    let command = |arguments: &[&str]| said(sandbox.command(TVMTUNE).args(arguments));
    let status = command(&["status"]);
    assert!(status.out.contains("portable"), "{status:?}");
    let tuned = command(&["tune", "--trials", "4"]);
    assert_eq!(tuned.code, Some(0), "{tuned:?}");
    assert!(sandbox.records().is_empty(), "there is nothing to tune");
    let used = sandbox.script(SCRIPT, "out", &[("TVMTUNE", "require")]);
    assert_eq!(used.code, Some(0), "{used:?}");
    let (_, plan) = &sandbox.plans("out")[0];
    assert!(plan.contains("reference::sort_rows(t0, t1, d0 as usize);"), "{plan}");
}
