//! Tensor memory access, mbarriers, clusters and warpgroups.

use half::bf16;
use tvmtune_emulator::{Element, Fault, FaultKind, Launch, Memory, Options, Swizzle, TensorMap};

use crate::common::{Numbers, all_options, assert_close, assert_fault, buffer, module, of_bytes};

/// Runs `C = A * B^T` on few CTAs and returns `C` and what it should be.
fn gemm(
    variant: &str,
    [m, n, k]: [usize; 3],
    options: &Options,
) -> Result<(Vec<f32>, Vec<f64>), Box<Fault>> {
    let module = module(&format!("gemm_wgmma{variant}.sm_90a"));
    let kernel = module.kernel("gemm_wgmma").unwrap();
    let cluster = kernel.cluster().map_or(1, |it| it[0]);
    let mut memory = Memory::new();
    let mut numbers = Numbers::new(11);
    let mut values =
        |n: usize| -> Vec<bf16> { numbers.floats(n).into_iter().map(bf16::from_f32).collect() };
    let (x, y) = (values(m * k), values(n * k));
    let a = buffer(&mut memory, "a", &x);
    let b = buffer(&mut memory, "b", &y);
    let c = buffer(&mut memory, "c", &vec![bf16::NAN; m * n]);
    let map = |buffer, rows: usize, columns: usize, box_rows| {
        let dims = [columns as u64, rows as u64];
        TensorMap::dense(buffer, Element::Bf16, &dims, &[64, box_rows]).swizzled(Swizzle::Bytes128)
    };
    let mut launch = Launch::linear(2 * cluster, 160);
    launch.dynamic_shared_bytes = 2 * 16384 + 8192 + 32;
    let arguments = [
        map(a, m, k, 64).into(),
        map(b, n, k, 64 / cluster).into(),
        map(c, m, n, 64).into(),
        (m as i32).into(),
        (n as i32).into(),
        (k as i32).into(),
    ];
    kernel.run(&launch, &arguments, &mut memory, options)?;
    let want = (0..m * n)
        .map(|at| (0..k).map(|l| x[at / n * k + l].to_f64() * y[at % n * k + l].to_f64()).sum())
        .collect();
    let got: Vec<bf16> = of_bytes(memory.bytes(c));
    Ok((got.iter().map(|it| it.to_f32()).collect(), want))
}

#[test]
fn a_ring_of_stages_feeds_a_warpgroup() {
    for variant in ["", ".cluster_2"] {
        for sizes in [[64, 64, 64], [64, 64, 8], [72, 80, 200], [200, 136, 72]] {
            let (got, want) = gemm(variant, sizes, &Options::default()).unwrap();
            assert_close(&got, &want, 4e-3);
        }
        for options in all_options() {
            let (got, want) = gemm(variant, [130, 72, 136], &options).unwrap();
            assert_close(&got, &want, 4e-3);
        }
    }
}

#[test]
fn bugs_of_the_ring_are_found() {
    let file = "gemm_wgmma.cu";
    let expected = [
        (".no_full_wait", FaultKind::Race, "/* multiply */"),
        (".early_release", FaultKind::Race, "/* load of a */"),
        (".no_proxy_fence", FaultKind::MissingProxyFence, "/* store */"),
        (".tx_bytes", FaultKind::Race, "/* multiply */"),
        (".no_store_wait", FaultKind::Race, "/* keep */"),
    ];
    for (bug, kind, line) in expected {
        let run = gemm(bug, [64, 200, 256], &Options::default());
        assert_fault(run, kind, file, line);
    }
    let fault = gemm(".barrier_count", [64, 64, 64], &Options::default()).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Deadlock, "{fault}");
}

#[test]
fn what_a_product_lacks_is_said_with_both_sides() {
    let fault = |bug| gemm(bug, [64, 200, 256], &Options::default()).unwrap_err().to_string();
    let texts = [".early_release", ".no_proxy_fence", ".barrier_count"].map(fault);
    insta::assert_snapshot!(texts.join("\n"), @r#"
    `gemm_wgmma`: race: write of a bulk copy of shared+0 by thread (128, 0, 0) of CTA (0, 0, 0) at gemm_wgmma.cu:79 in gemm_wgmma.cu:27; not ordered after the read of `wgmma` of warpgroup 0 at gemm_wgmma.cu:101 in gemm_wgmma.cu:40
    `gemm_wgmma`: missing `fence.proxy.async`: read of a bulk copy of shared+32768 by thread (0, 0, 0) of CTA (0, 0, 0) at gemm_wgmma.cu:132 in gemm_wgmma.cu:32; not fenced since the write by thread (0, 0, 0) of CTA (0, 0, 0) at gemm_wgmma.cu:125
    `gemm_wgmma`: deadlock: a wait for parity 0 of the mbarrier at shared+40960, where 1 of 2 arrivals and 0 bytes are missing, by thread (0, 0, 0) of CTA (0, 0, 0) at gemm_wgmma.cu:96 in gemm_wgmma.cu:23; a wait for parity 0 of the mbarrier at shared+40960, where 1 of 2 arrivals and 0 bytes are missing, by thread (32, 0, 0) of CTA (0, 0, 0) at gemm_wgmma.cu:96 in gemm_wgmma.cu:23; a wait for parity 0 of the mbarrier at shared+40960, where 1 of 2 arrivals and 0 bytes are missing, by thread (64, 0, 0) of CTA (0, 0, 0) at gemm_wgmma.cu:96 in gemm_wgmma.cu:23; a wait for parity 0 of the mbarrier at shared+40960, where 1 of 2 arrivals and 0 bytes are missing, by thread (96, 0, 0) of CTA (0, 0, 0) at gemm_wgmma.cu:96 in gemm_wgmma.cu:23; a wait for parity 0 of the mbarrier at shared+40976, where 1 of 1 arrivals and 0 bytes are missing, by thread (128, 0, 0) of CTA (0, 0, 0) at gemm_wgmma.cu:73 in gemm_wgmma.cu:23
    "#);
}
