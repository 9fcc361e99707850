//! Prefix scans, by blocks and in order: the loop nests, their results, and refusals.

use crate::nest::lower;
use crate::nest::tests::{nest_of, scheduled};
use crate::{ErrorKind, Instruction, LoopKind, Schedule, StageId};
use tvmtune_ir::dsl;
use tvmtune_ir::interp::{self, Array};

#[test]
fn prefixes_are_those_of_blocks_and_of_what_comes_before_them() {
    let program = "
        #[autotune(dims(N = 1..=100))]
        fn sums(x: Tensor<f32, N>) -> Tensor<f32, N> {
            compute(|i| sum(0..=i, |k| x[[k]]))
        }";
    let trace = "
        split s0 a1 [8]
        scan s0 a3
        inline s1
        split s3 a1 [4]
        scan s3 a3
        inline s4";
    insta::assert_snapshot!(nest_of(program, trace), @r"
    workspace out_within[((N + 7)/(8)), 8]: f32
    workspace out_before[((N + 7)/(8))]: f32
    workspace out_before_within[((N + 31)/(32)), 4]: f32
    workspace out_before_before[((N + 31)/(32))]: f32
    for i_b in 0..(((N + 7)/(8)))
      for i_r in 0..8
        out_within[i_b, i_r] = 0
        for k in 0..8
          out_within[i_b, i_r] += select(k <= i_r, select((8*i_b + k) < N, x[8*i_b + k], 0), 0)
    for i_b_b in 0..(((N + 31)/(32)))
      for i_b_r in 0..4
        out_before_within[i_b_b, i_b_r] = 0
        for k in 0..4
          out_before_within[i_b_b, i_b_r] += select(k <= i_b_r, select((4*i_b_b + k - 1) >= 0, select((4*i_b_b + k - 1) < (((N + 7)/(8))), out_within[4*i_b_b + k - 1, 7], 0), 0), 0)
    for i_b_b in 0..(((N + 31)/(32)))
      out_before_before[i_b_b] = 0
      for k in 0..(((N + 31)/(32)))
        out_before_before[i_b_b] += select(k < i_b_b, out_before_within[k, 3], 0)
    for i_b in 0..(((N + 7)/(8)))
      out_before[i_b] = out_before_before[((i_b)/(4))] + out_before_within[((i_b)/(4)), ((i_b)%(4))]
    for i in 0..N
      out[i] = out_before[((i)/(8))] + out_within[((i)/(8)), ((i)%(8))]
    ");
}

#[test]
fn a_prefix_in_order_is_the_one_before_and_an_operand() {
    let program = "
        #[autotune(dims(N = 1..=100))]
        fn sums(x: Tensor<f32, N, 6>) -> Tensor<f32, N, 6> {
            compute(|i, j| sum(0..i, |k| x[[k, j]]))
        }";
    insta::assert_snapshot!(nest_of(program, "scan_in_order s0"), @r"
    for i in 0..N
      for j in 0..6
        out[i, j] = select((i - 1) >= 0, x[i - 1, j], 0) + select(i >= 1, out[i - 1, j], 0)
    ");
    // States of a task are local.
    let trace = "scan_in_order s0\nreorder s0 [a1, a0]\nannotate s0 a1 parallel";
    insta::assert_snapshot!(nest_of(program, trace), @r"
    local out_state[]: f32
    parallel j in 0..6
      out_state[] = 0
      for i in 0..N
        out_state[] = select((i - 1) >= 0, x[i - 1, j], 0) + out_state[]
        out[i, j] = out_state[]
    ");
}

#[test]
fn a_suffix_in_order_starts_at_the_other_end() {
    let program = "
        #[autotune(dims(N = 1..=100))]
        fn sums(x: Tensor<f32, N, 6>) -> Tensor<f32, N> {
            compute(|i| max((i + 1..N, 0..6), |k, c| x[[k, c]]))
        }";
    insta::assert_snapshot!(nest_of(program, "scan_in_order s0"), @r"
    workspace out_terms[N]: f32
    workspace out_reversed[N]: f32
    for i_t in 0..N
      out_terms[i_t] = -inf
      for c in 0..6
        out_terms[i_t] max= select((N - i_t) < N, x[N - i_t, c], -inf)
    for i in 0..N
      out_reversed[i] = max(out_terms[i], select(i >= 1, out_reversed[i - 1], -inf))
    for i in 0..N
      out[i] = out_reversed[N - i - 1]
    ");
}

/// Returns the refusal of a trace, its lines separated by `; `, on a program of a reduction.
fn refusal(reduction: &str, trace: &str) -> Option<ErrorKind> {
    let program = format!(
        "#[autotune(dims(N = 64))]
         fn sums(x: Tensor<f32, N>) -> Tensor<f32, N> {{ compute(|i| {reduction}) }}"
    );
    refused(&program, trace)
}

fn refused(program: &str, trace: &str) -> Option<ErrorKind> {
    let dag = dsl::program(program).unwrap();
    let mut schedule = Schedule::new(&dag);
    let mut lines = trace.split("; ").map(|it| it.parse::<Instruction>().unwrap());
    lines.find_map(|it| schedule.apply(&it).err()).map(|it| it.kind)
}

#[test]
fn only_prefixes_in_untouched_loops_are_scanned() {
    let kind = refusal;
    let sums = "sum(0..=i, |k| x[[k]])";
    assert_eq!(kind(sums, "split s0 a1 [8]; scan s0 a3"), None);
    assert_eq!(kind(sums, "split s0 a1 [8]; scan s0 a2"), Some(ErrorKind::NotPrefix));
    assert_eq!(kind(sums, "scan s0 a1"), Some(ErrorKind::NotPrefix));
    assert_eq!(kind(sums, "split s0 a1 [2, 8]; scan s0 a4"), Some(ErrorKind::NotPrefix));
    assert_eq!(kind(sums, "split s0 a0 [8]; scan s0 a3"), Some(ErrorKind::NotPrefix));
    assert_eq!(
        kind(sums, "split s0 a1 [8]; annotate s0 a3 unrolled; scan s0 a3"),
        Some(ErrorKind::NotSerial(LoopKind::Unrolled)),
    );
    assert_eq!(
        kind(sums, "split s0 a1 [8]; annotate s0 a2 unrolled; scan s0 a3"),
        Some(ErrorKind::AlreadyScheduled),
    );
    let all = "sum(0..N, |k| x[[k]])";
    assert_eq!(kind(all, "split s0 a0 [8]; scan s0 a2"), Some(ErrorKind::NotPrefix));
}

#[test]
fn only_prefixes_of_untouched_stages_are_scanned_in_order() {
    let kind = |trace: &str| refusal("sum(0..=i, |k| x[[k]])", trace);
    assert_eq!(kind("scan_in_order s0"), None);
    assert_eq!(kind("scan_in_order s1"), Some(ErrorKind::Unknown));
    assert_eq!(kind("split s0 a0 [8]; scan_in_order s0"), Some(ErrorKind::AlreadyScheduled));
    let annotated = "annotate s0 a1 unrolled; scan_in_order s0";
    assert_eq!(kind(annotated), Some(ErrorKind::AlreadyScheduled));
    // The stage is no reduction any more.
    assert_eq!(kind("scan_in_order s0; scan_in_order s0"), Some(ErrorKind::NotReduction));
    assert_eq!(kind("scan_in_order s0; annotate s0 a0 parallel"), Some(ErrorKind::Recurrent));
    assert_eq!(
        kind("cache_read t0 s0; compute_at s1 s0 a0; scan_in_order s0"),
        Some(ErrorKind::HasAttached)
    );

    let in_order = |reduction: &str| refusal(reduction, "scan_in_order s0");
    assert_eq!(in_order("x[[i]]"), Some(ErrorKind::NotReduction));
    assert_eq!(in_order("sum(0..N, |k| x[[k]])"), Some(ErrorKind::NotPrefix));
    assert_eq!(in_order("sum(0..=i, |k| x[[k]] * x[[i]])"), Some(ErrorKind::NotPrefix));
}

#[test]
fn scans_in_order_are_stages_of_their_own_and_leave_a_fixed_order() {
    let program = "
        #[autotune(dims(N = 64))]
        fn f(x: Tensor<f32, N, N>) -> Tensor<f32, N, N> {
            let y = compute(|r, i| exp(x[[r, i]]));
            let s: Tensor<f32, N, N> = compute(|r, i| sum(0..=i, |k| y[[r, k]]));
            compute(|r, i| s[[r, i]] * x[[i, r]])
        }";
    assert_eq!(refused(program, "scan_in_order s1"), None);
    let inside = "compute_at s1 s2 a0; scan_in_order s1";
    assert_eq!(refused(program, inside), Some(ErrorKind::NotRoot));
    let operand_inside = "compute_at s0 s1 a0; scan_in_order s1";
    assert_eq!(refused(program, operand_inside), Some(ErrorKind::HasAttached));
    assert_eq!(refused(program, "inline s0; scan_in_order s1"), None);
    let in_order = |reduction: &str| {
        let source = format!(
            "#[autotune(dims(N = 64))]
             fn f(x: Tensor<f32, N>) -> Tensor<f32, N> {{ compute(|i| {reduction}) }}"
        );
        let mut dag = dsl::program(&source).unwrap();
        dag.fix_numerics();
        Schedule::new(&dag).scan_in_order(StageId(0)).err().map(|it| it.kind)
    };
    assert_eq!(in_order("sum(0..=i, |k| x[[k]])"), None);
    let fixed = Some(ErrorKind::FixedNumerics);
    assert_eq!(in_order("sum(i..N, |k| x[[k]])"), fixed);
    assert_eq!(in_order("sum((0..=i, 0..3), |k, l| x[[k]] * l as f32)"), fixed);
}

#[test]
fn extremes_up_to_an_index_ignore_nan_and_keep_the_zero_that_came_first() {
    let x = vec![f32::NAN, -0.0, 0.0, f32::NAN, -1.0, 2.0, f32::NAN, 2.0];
    for reducer in ["max", "min"] {
        let program = format!(
            "#[autotune(dims(N = 8))]
             fn f(x: Tensor<f32, N>) -> Tensor<f32, N> {{
                 compute(|i| {reducer}(0..=i, |k| x[[k]]))
             }}"
        );
        let nest = lower(&scheduled(&program, "scan_in_order s0"));
        let params = [Array::from_f32(&[8], x.clone())];
        let bits = |it: &[Array]| it[0].to_f32_vec().iter().map(|it| it.to_bits()).collect();
        let mut dag = dsl::program(&program).unwrap();
        dag.fix_numerics();
        let expected: Vec<u32> = bits(&interp::run_in_order(&dag, &[], &params, &[]));
        let got: Vec<u32> = bits(&crate::interp::run(&nest, &[], &params, &[]).unwrap());
        assert_eq!(got, expected, "{reducer}");
    }
}

/// A program of a reduction, in order, in one level of blocks, and in two.
#[track_caller]
fn check(reduction: &str) {
    let program = format!(
        "#[autotune(dims(N = 1..=70))]
         fn f(x: Tensor<f32, N>, y: Tensor<f32, N, 3>) -> Tensor<f32, N> {{
             compute(|i| {reduction})
         }}"
    );
    let one_level = "split s0 a1 [4]\nscan s0 a3";
    let two_levels = "split s0 a1 [4]\nscan s0 a3\nsplit s3 a1 [3]\nscan s3 a3";
    let parts_in_order = "scan_in_order s0\nsplit s0 a0 [4]";
    for trace in ["scan_in_order s0", parts_in_order, one_level, two_levels] {
        // Over two axes, the parts of the first come after both.
        let trace =
            if reduction.contains("|k, c|") { trace.replacen("a3", "a4", 1) } else { trace.into() };
        let schedule = scheduled(&program, &trace);
        let nest = lower(&schedule);
        for n in [1, 3, 4, 5, 11, 12, 13, 70] {
            let shape = n as u64;
            let params = [
                Array::whole_numbers(tvmtune_ir::dag::DType::F32, &[shape], 1),
                Array::whole_numbers(tvmtune_ir::dag::DType::F32, &[shape, 3], 2),
            ];
            let expected = interp::run(&schedule.dag, &[n], &params, &[]);
            let got = crate::interp::run(&nest, &[n], &params, &[]).unwrap();
            assert!(got == expected, "{reduction} of {n}: {got:?}, not {expected:?}\n{nest}");
        }
    }
}

#[test]
fn prefixes_are_what_the_program_says() {
    for reduction in [
        "sum(0..=i, |k| x[[k]])",
        "sum(0..i, |k| x[[k]])",
        "max(i..N, |k| x[[k]])",
        "min(i + 1..N, |k| x[[k]])",
        "sum((0..=i, 0..3), |k, c| y[[k, c]])",
        "max((i..N, 0..3), |k, c| y[[k, c]] - x[[k]])",
        // Three elements behind.
        "sum(0..N, |k| if k + 3 <= i { x[[k]] } else { 0.0 })",
        "min(0..N, |k| if k >= i + 2 { x[[k]] } else { f32::INFINITY })",
    ] {
        check(reduction);
    }
}
