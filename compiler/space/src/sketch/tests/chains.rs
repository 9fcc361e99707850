//! Chains of pointwise definitions of which each mentions the one before several times.

use crate::default;
use tvmtune_ir::dag::Dag;
use tvmtune_ir::dsl;
use tvmtune_ir::target::{Isa, Target};
use tvmtune_schedule::{Attach, Instruction, LoopKind, nest};

/// `h = v * tanh(v + 1)`, so many times, each of the one before.
fn chain(depth: usize, shape: &str, axes: &str) -> Dag {
    let link = |n: usize| {
        let before = if n == 0 { "x".to_owned() } else { format!("h{}", n - 1) };
        let v = format!("{before}[[{axes}]]");
        format!("let h{n} = compute(|{axes}| {v} * ({v} + 1.0).tanh());")
    };
    let links: String = (0..depth).map(link).collect();
    let last = depth - 1;
    let text = format!(
        "#[autotune(dims(M = 48, N = 200))]
         fn f(x: Tensor<f32, {shape}>) -> Tensor<f32, {shape}> {{ {links} h{last} }}"
    );
    dsl::program(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn each_link_is_computed_once_and_in_vectors() {
    for isa in [Isa::Avx2, Isa::Avx512] {
        for (shape, axes) in [("M, N", "i, j"), ("{ M * N }", "i")] {
            let n_bytes = |depth: usize| {
                let schedule = default::schedule(&chain(depth, shape, axes), &Target::generic(isa));
                let attached = |it: &&_| schedule.stage(**it).attach != Attach::Inline;
                let n_stages = schedule.order.iter().filter(attached).count();
                let is_vectorized = |it: &&_| {
                    matches!(it, Instruction::Annotate { kind: LoopKind::Vectorized, .. })
                };
                let n_vectorized = schedule.trace.iter().filter(is_vectorized).count();
                assert_eq!(n_vectorized, n_stages, "{depth} links of {shape}");
                let portable = tvmtune_cpu::rust::print(&nest::lower(&schedule));
                assert_eq!(portable.matches("tanh(").count(), depth, "{portable}");
                tvmtune_cpu::generate(&schedule, isa)
                    .expect("machine code")
                    .code
                    .phases
                    .iter()
                    .map(Vec::len)
                    .sum::<usize>()
            };
            let (one, ten) = (n_bytes(1), n_bytes(10));
            assert!(ten < 12 * one, "{one} bytes for one link, {ten} for ten");
        }
    }
}
