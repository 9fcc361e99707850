//! Tensor memory access, mbarriers, clusters and warpgroups.

use half::bf16;
use tvmtune_emulator::{Element, Fault, FaultKind, Options, Swizzle, TensorMap};

use crate::common::{
    Numbers, Product, Run, all_options, assert_close, assert_fault, bf16s, compared, module,
};

/// Runs `C = A * B^T` on few CTAs and returns `C` and what it should be.
fn gemm(variant: &str, [m, n, k]: [usize; 3], options: &Options) -> Result<Product, Box<Fault>> {
    let module = module(&format!("gemm_wgmma{variant}.sm_90a"));
    let cluster = module.kernel("gemm_wgmma").unwrap().cluster().map_or(1, |it| it[0]);
    let mut numbers = Numbers::new(11);
    let (x, y) = (bf16s(&mut numbers, m * k), bf16s(&mut numbers, n * k));
    let shared_bytes = 2 * 16384 + 8192 + 32;
    let mut run = Run::new(2 * cluster, 160).shared_bytes(shared_bytes).options(options);
    let [a, b, c] = [&x, &y, &vec![bf16::NAN; m * n]].map(|it| run.add(it));
    let map = |buffer, rows: usize, columns: usize, box_rows| {
        let dims = [columns as u64, rows as u64];
        TensorMap::dense(buffer, Element::Bf16, &dims, &[64, box_rows]).swizzled(Swizzle::Bytes128)
    };
    let maps = [map(a, m, k, 64), map(b, n, k, 64 / cluster), map(c, m, n, 64)];
    let run = maps.into_iter().fold(run, Run::argument);
    let run = [m, n, k].into_iter().fold(run, |run, it| run.argument(it as i32));
    let got: Vec<bf16> = run.run(&module, "gemm_wgmma")?.read(2);
    Ok(compared(&got, (&x, &y), [m, n, k]))
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
fn faults_of_a_product_name_both_sides() {
    let fault = |bug| gemm(bug, [64, 200, 256], &Options::default()).unwrap_err().to_string();
    let texts = [".early_release", ".no_proxy_fence", ".barrier_count"].map(fault);
    insta::assert_snapshot!(texts.join("\n"), @r#"
    `gemm_wgmma`: race: write of a bulk copy of shared+0 by thread (128, 0, 0) of CTA (0, 0, 0) at gemm_wgmma.cu:79 in gemm_wgmma.cu:27; not ordered after the read of `wgmma` of warpgroup 0 at gemm_wgmma.cu:101 in gemm_wgmma.cu:40
    `gemm_wgmma`: missing `fence.proxy.async`: read of a bulk copy of shared+32768 by thread (0, 0, 0) of CTA (0, 0, 0) at gemm_wgmma.cu:132 in gemm_wgmma.cu:32; not fenced since the write by thread (0, 0, 0) of CTA (0, 0, 0) at gemm_wgmma.cu:125
    `gemm_wgmma`: deadlock: a wait for parity 0 of the mbarrier at shared+40960, where 1 of 2 arrivals and 0 bytes are missing, by thread (0, 0, 0) of CTA (0, 0, 0) at gemm_wgmma.cu:96 in gemm_wgmma.cu:23; a wait for parity 0 of the mbarrier at shared+40960, where 1 of 2 arrivals and 0 bytes are missing, by thread (32, 0, 0) of CTA (0, 0, 0) at gemm_wgmma.cu:96 in gemm_wgmma.cu:23; a wait for parity 0 of the mbarrier at shared+40960, where 1 of 2 arrivals and 0 bytes are missing, by thread (64, 0, 0) of CTA (0, 0, 0) at gemm_wgmma.cu:96 in gemm_wgmma.cu:23; a wait for parity 0 of the mbarrier at shared+40960, where 1 of 2 arrivals and 0 bytes are missing, by thread (96, 0, 0) of CTA (0, 0, 0) at gemm_wgmma.cu:96 in gemm_wgmma.cu:23; a wait for parity 0 of the mbarrier at shared+40976, where 1 of 1 arrivals and 0 bytes are missing, by thread (128, 0, 0) of CTA (0, 0, 0) at gemm_wgmma.cu:73 in gemm_wgmma.cu:23
    "#);
}
