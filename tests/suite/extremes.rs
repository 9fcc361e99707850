//! Programs and sources that nobody expects: they stop neither a build nor a command.

use tvmtune_tests::sandbox::{SOURCE, Sandbox, said};

use crate::cargo::command;

const SCRIPT: &str = env!("CARGO_BIN_EXE_script");

/// Runs a command of `cargo tvmtune`.
fn tvmtune(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let said = said(sandbox.command(env!("CARGO_BIN_EXE_tvmtune")).args(arguments));
    assert_eq!(said.code, Some(0), "{said:?}");
    said.out
}

#[test]
fn a_mean_over_the_first_axis_is_built_beside_what_reads_it() {
    let standardized = "
        #[autotune(dims(R = 4096, D = 512))]
        pub fn standardized(x: Tensor<f32, R, D>) -> Tensor<f32, R, D> {
            let m = compute(|d| mean(0..R, |r| x[[r, d]]));
            let c = compute(|r, d| x[[r, d]] - m[[d]]);
            compute(|r, d| c[[r, d]] / (m[[d]] + 1.0))
        }";
    let sandbox = Sandbox::new("standardized", &format!("{SOURCE}{standardized}"));
    let script = sandbox.script(SCRIPT, "out", &[("TVMTUNE", "use")]);
    assert_eq!(script.code, Some(0), "{script:?}");
    assert_eq!(sandbox.plans("out").len(), 2);
    let status = tvmtune(&sandbox, &["status"]);
    assert!(status.contains("standardized") && status.contains("scaled_sum"), "{status}");
}

#[test]
fn deep_and_long_sources_are_passed_over() {
    let deep = format!("fn deep() -> i32 {{ {}1{} }}", "(".repeat(100_000), ")".repeat(100_000));
    let long = format!("fn long() {{ if a {{ 1 }} {} }}", "else if a { 1 } ".repeat(100_000));
    let chain = format!("const N: usize = 1{};", " + 1".repeat(100_000));
    let op = "#[autotune(dims(K = 8))] pub fn inner(x: Tensor<f32, K>) -> Tensor<f32, K> { compute(|k| -x[[k]]) }";
    let sandbox = Sandbox::new("deep", &format!("{SOURCE}\nmod deep;"));
    sandbox.write("src/deep.rs", &format!("{deep}\n{long}\n{op}"));
    let script = sandbox.script(SCRIPT, "out", &[("TVMTUNE", "use")]);
    assert_eq!(script.code, Some(0), "{script:?}");
    assert_eq!(sandbox.plans("out").len(), 2);
    sandbox.write("src/deep.rs", &format!("{op}\nmod chain {{ {chain} }}"));
    let status = tvmtune(&sandbox, &["status"]);
    assert!(status.contains("inner") && status.contains("scaled_sum"), "{status}");
}

#[test]
fn no_length_is_right_for_an_extent_that_is_no_extent() {
    let source = "
        #![forbid(unsafe_code)]
        use tvmtune_runtime::{Cpu, autotune};
        #[autotune(dims(M = 1..=2147483647, K = 4))]
        pub fn first(x: Tensor<f32, M, K>) -> Tensor<f32, M> { compute(|i| x[[i, 0]]) }
        #[test]
        fn lengths_are_those_of_the_extents() {
            let mut y = [0.0; 3];
            assert!(first(&Cpu::new(), &[] as &[f32], &mut y[..0]).is_err());
            assert!(first(&Cpu::new(), &[1.0; 11], &mut y).is_err());
            first(&Cpu::new(), &[2.0; 12], &mut y).unwrap();
            assert_eq!(y, [2.0; 3]);
            let dims = first::Dims { m: usize::MAX / 16 + 1 };
            let kernel = first::load(&Cpu::new()).unwrap();
            assert!(kernel.launch(&Cpu::new(), dims, &[] as &[f32], &mut y[..0]).is_err());
        }";
    let sandbox = Sandbox::new("lengths", source);
    let test = said(command(&sandbox, "", &["test", "--lib"]).env("TVMTUNE", "use"));
    assert_eq!(test.code, Some(0), "{test:?}");
}
