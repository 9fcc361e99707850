//! Bugs, planted into kernels that are right: each is reported as what it is, at its line.

use tvmtune_emulator::{Argument, FaultKind, Launch, Options};

use crate::common::{Run, assert_fault, module};
use crate::simt::sgemm;

#[test]
fn one_element_too_many_is_out_of_bounds() {
    let module = module("vector_add.oob.sm_75");
    let ones = [1f32; 40];
    let run = Run::new(1, 64).buffer(&ones).buffer(&ones).buffer(&ones).argument(40i32);
    let run = run.run(&module, "vector_add");
    assert_fault(run, FaultKind::OutOfBounds, "vector_add.cu", "c[i] = a[i] + b[i];");
}

#[test]
fn bugs_of_a_tiled_product_are_found() {
    let run = |bug: &str| sgemm(&format!("sgemm.{bug}.sm_75"), [60, 32, 24], &Options::default());
    let file = "sgemm.cu";
    let store = "c[row * n + col] = acc[i][j];";
    let load_next = "if (k0 + BK < k) load(k0 + BK, buffer ^ 1);";
    assert_fault(run("missing_barrier"), FaultKind::Race, file, load_next);
    assert_fault(run("uninitialised"), FaultKind::Uninitialised, file, "const float4 y =");
    assert_fault(run("oob"), FaultKind::OutOfBounds, file, store);
    assert_fault(run("cross_cta"), FaultKind::CrossCtaRace, file, store);
    // Half of the warps run ahead: into a race, or else to the end, where the others wait for them.
    let divergent = "if (t < 64) __syncthreads();";
    assert_fault(run("divergent_barrier"), FaultKind::Race, file, load_next);
    let unchecked = Options { check: false, ..Options::default() };
    let fault = sgemm("sgemm.divergent_barrier.sm_75", [60, 32, 24], &unchecked);
    assert_fault(fault, FaultKind::Deadlock, file, divergent);
}

#[test]
fn bugs_of_cooperating_threads_are_found() {
    let run = |fixture: &str, kernel: &str, threads: u32| {
        let module = module(fixture);
        let run = Run::new(1, threads).buffer(&[3i32; 600]).buffer(&[0i32; 600]);
        let takes_length = module.kernel(kernel).unwrap().parameters().len() == 3;
        let run = if takes_length { run.argument(600i32) } else { run };
        run.run(&module, kernel)
    };
    let softmax = run("softmax.missing_barrier.sm_80", "softmax", 128);
    assert_fault(softmax, FaultKind::Uninitialised, "softmax.cu", "m = of_block(m, most");
    let scan = run("scan.missing_barrier.sm_75", "scan", 256);
    assert_fault(scan, FaultKind::Race, "scan.cu", "if (lane == 31) warps[warp] = v;");
    let step = run("warps.no_syncwarp.sm_80", "warps", 32);
    assert_fault(step, FaultKind::Race, "warps.cu", "int v = s[31 - t];");
    let shuffle = run("warps.divergent_shuffle.sm_80", "warps", 32);
    let line = "if (t < 16) v += __shfl_xor_sync(~0u, v, 1);";
    assert_fault(shuffle, FaultKind::DivergentCollective, "warps.cu", line);
}

#[test]
fn a_block_that_reads_what_others_left_needs_their_fence() {
    let module = module("reduce.no_fence.sm_80");
    // Numbers, slices of their sum, the sum, and the count of blocks.
    let run = Run::new(2, 128).buffer(&[1f32; 100]).buffer(&[0f32; 2]).buffer(&[0f32]);
    let run = run.buffer(&[0u32]).argument(100i32).run(&module, "last_block");
    assert_fault(run, FaultKind::CrossCtaRace, "reduce.cu", "/* slices */");
}

#[test]
fn failed_assertions_and_bad_launches_are_faults() {
    let module = module("calls.sm_80");
    let run = |launch: Launch, n_arguments: usize| {
        let run = Run::of(launch).buffer(&[1f32; 40]).buffer(&[1f32; 40]).argument(13i32);
        let run = run.argument(Argument::Value(vec![0; 8]));
        let run = if n_arguments == 5 { run.argument(3i32) } else { run };
        run.run(&module, "calls").err().expect("a fault")
    };
    let fault = run(Launch::linear(1, 8), 5);
    assert_eq!(fault.kind, FaultKind::Assertion);
    assert_eq!(fault.event.thread, Some([3, 0, 0]), "{fault}");
    let texts = [
        run(Launch::linear(1, 8), 4),
        run(Launch::linear(1, 2000), 5),
        run(Launch { dynamic_shared_bytes: 1 << 20, ..Launch::linear(1, 8) }, 5),
        run(Launch { cluster: Some([2, 1, 1]), ..Launch::linear(3, 8) }, 5),
    ]
    .map(|it| it.to_string());
    insta::assert_snapshot!(texts.join("\n"), @r#"
    `calls`: bad launch: 4 arguments; the kernel takes 5
    `calls`: bad launch: 2000 threads in a block; at most 1024
    `calls`: bad launch: 1048576 bytes of shared memory; at most 232448
    `calls`: bad launch: a grid of [3, 1, 1]; not whole clusters of [2, 1, 1]
    "#);
}
