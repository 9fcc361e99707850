//! The text of nests, from a program and a trace.

use super::{lower, verify};
use crate::{Instruction, Schedule, ScheduleError};

const MATMUL: &str = "
    #[autotune(dims(M = 1..=100, N = 32, K = 24))]
    fn matmul(a: Tensor<f32, M, K>, b: Weight<f32, N, K>, c: Tensor<f32, N>) -> Tensor<f32, M, N> {
        let h = compute(|i, j| sum(0..K, |k| a[[i, k]] * b[[j, k]]));
        compute(|i, j| h[[i, j]] + c[[j]])
    }";

const CONV: &str = "
    #[autotune(dims(C = 3, H = 14, O = 8, T = 3))]
    fn conv(x: Tensor<f32, C, H, H>, w: Weight<f32, O, C, T, T>) -> Tensor<f32, O, { H / 2 }, { H / 2 }> {
        let h: Tensor<f32, O, { H / 2 }, { H / 2 }> = compute(|o, y, z| {
            sum((0..C, 0..T, 0..T), |c, r, s| {
                x.get([c, y * 2 + r - 1, z * 2 + s - 1]).unwrap_or(0.0) * w[[o, c, r, s]]
            })
        });
        compute(|o, y, z| h[[o, y, z]].max(0.0))
    }";

const SOFTMAX: &str = "
    #[autotune(dims(R = 1..=8192, D = 384))]
    fn softmax(x: Tensor<f32, R, D>) -> Tensor<f32, R, D> {
        let m = compute(|r| max(0..D, |d| x[[r, d]]));
        let e = compute(|r, d| exp(x[[r, d]] - m[[r]]));
        let s = compute(|r| sum(0..D, |d| e[[r, d]]));
        compute(|r, d| e[[r, d]] / s[[r]])
    }";

const GATHER: &str = "
    #[autotune(dims(B = 8, V = 64, H = 16))]
    fn gather(ids: Tensor<i32, B>, t: Weight<f32, V, H>) -> Tensor<f32, B, H> {
        let u = compute(|v, h| t[[v, h]] * 2.0 + v as f32);
        compute(|b, h| u.get([ids[[b]], h]).unwrap_or(0.0))
    }";

const SCORES: &str = "
    #[autotune(dims(M = 1..=100, D = 16))]
    fn scores(a: Tensor<f32, M, D>) -> Tensor<f32, M, M> {
        compute(|i, j| sum(0..8, |k| a[[i, k]] * a[[j, k + 8]]))
    }";

/// Lowers a program under a trace; returns the text of the nest.
#[track_caller]
pub(crate) fn nest_of(program: &str, trace: &str) -> String {
    let nest = lower(&scheduled(program, trace));
    assert_eq!(verify(&nest), []);
    nest.to_string()
}

/// Schedules a program by a trace, one instruction a line; returns the first refusal.
pub(crate) fn tried(program: &str, trace: &str) -> Result<Schedule, ScheduleError> {
    let dag = tvmtune_ir::dsl::program(program).unwrap();
    let trace: Vec<Instruction> = trace.lines().map(|it| it.trim().parse().unwrap()).collect();
    Schedule::replay(&dag, &trace)
}

/// Schedules a program by a trace, one instruction a line.
#[track_caller]
pub(crate) fn scheduled(program: &str, trace: &str) -> Schedule {
    let dag = tvmtune_ir::dsl::program(program).unwrap();
    let mut schedule = Schedule::new(&dag);
    for line in trace.lines().map(str::trim).filter(|it| !it.is_empty()) {
        let instruction: Instruction = line.parse().unwrap();
        schedule
            .apply(&instruction)
            .unwrap_or_else(|it| panic!("{line}: {it}\n{}", lower(&schedule)));
    }
    schedule
}

#[test]
fn a_program_nobody_scheduled_runs_stage_by_stage() {
    insta::assert_snapshot!(nest_of(MATMUL, ""), @r"
    workspace h[M, 32]: f32
    for i in 0..M
      for j in 0..32
        h[i, j] = 0
        for k in 0..24
          h[i, j] += a[i, k] * b[j, k]
    for i in 0..M
      for j in 0..32
        out[i, j] = h[i, j] + c[j]
    ");
}

#[test]
fn split_guards_a_tail_and_only_a_tail() {
    insta::assert_snapshot!(nest_of(MATMUL, "
        split s1 a0 [4]
        split s1 a1 [2, 8]
    "), @r"
    workspace h[M, 32]: f32
    for i in 0..M
      for j in 0..32
        h[i, j] = 0
        for k in 0..24
          h[i, j] += a[i, k] * b[j, k]
    for i_0 in 0..(((M + 3)/(4)))
      for i_1 in 0..4
        for j_0 in 0..2
          for j_1 in 0..2
            for j_2 in 0..8
              if 4*i_0 + i_1 < M
                out[4*i_0 + i_1, 16*j_0 + 8*j_1 + j_2] = h[4*i_0 + i_1, 16*j_0 + 8*j_1 + j_2] + c[16*j_0 + 8*j_1 + j_2]
    ");
}

#[test]
fn a_factor_longer_than_its_axis_is_one_tile_of_the_whole() {
    insta::assert_snapshot!(nest_of(MATMUL, "split s1 a1 [4, 64]"), @r"
    workspace h[M, 32]: f32
    for i in 0..M
      for j in 0..32
        h[i, j] = 0
        for k in 0..24
          h[i, j] += a[i, k] * b[j, k]
    for i in 0..M
      for j_2 in 0..32
        out[i, j_2] = h[i, j_2] + c[j_2]
    ");
}

#[test]
fn fused_loops_divide_back_and_their_quotients_need_no_guard() {
    insta::assert_snapshot!(nest_of(MATMUL, "
        fuse s1 a0 a1
        split s1 a2 [16]
    "), @r"
    workspace h[M, 32]: f32
    for i in 0..M
      for j in 0..32
        h[i, j] = 0
        for k in 0..24
          h[i, j] += a[i, k] * b[j, k]
    for i_j_0 in 0..2*M
      for i_j_1 in 0..16
        out[((i_j_0)/(2)), i_j_1 + 16*((i_j_0)%(2))] = h[((i_j_0)/(2)), i_j_1 + 16*((i_j_0)%(2))] + c[i_j_1 + 16*((i_j_0)%(2))]
    ");
}

#[test]
fn accumulators_are_computed_in_the_tile_that_writes_them_from_packed_panels() {
    insta::assert_snapshot!(nest_of(MATMUL, "
        pack t1 [0:16] [0, 2, 1]
        split s1 a0 [4]
        split s1 a1 [16]
        reorder s1 [a4, a2, a3, a5]
        annotate s1 a4 parallel
        annotate s1 a5 vectorized
        compute_at s0 s1 a2
        reorder s0 [a2, a0, a1]
        annotate s0 a0 unrolled
        annotate s0 a1 vectorized
    "), @r"
    packed b[2, 24, 16]: f32
    local h[4, 16]: f32
    parallel j_0 in 0..2
      for i_0 in 0..(((M + 3)/(4)))
        unrolled i in 0..4
          vectorized j in 0..16
            if 4*i_0 + i < M
              h[i, j] = 0
        for k in 0..24
          unrolled i in 0..4
            vectorized j in 0..16
              if 4*i_0 + i < M
                h[i, j] += a[4*i_0 + i, k] * b[j_0, k, j]
        for i_1 in 0..4
          vectorized j_1 in 0..16
            if 4*i_0 + i_1 < M
              out[4*i_0 + i_1, 16*j_0 + j_1] = h[i_1, j_1] + c[16*j_0 + j_1]
    ");
}

#[test]
fn padding_is_made_in_each_tile_and_the_inner_loops_ask_nothing() {
    insta::assert_snapshot!(nest_of(CONV, "
        cache_padded t0 s0
        fuse s1 a0 a1
        reorder s1 [a3, a2]
        annotate s1 a3 parallel
        compute_at s0 s1 a3
        compute_at s2 s1 a3
    "), @r"
    local h[1, 1, 7]: f32
    local x_padded[3, 3, 15]: f32
    parallel o_y in 0..56
      for x0 in 0..3
        for x1 in 0..3
          for x2 in 0..15
            x_padded[x0, x1, x2] = select((x1 + 2*((o_y)%(7)) - 1) >= 0, select((x2 - 1) >= 0, x[x0, x1 + 2*((o_y)%(7)) - 1, x2 - 1], 0), 0)
      for z in 0..7
        h[0, 0, z] = 0
        for c in 0..3
          for r in 0..3
            for s in 0..3
              h[0, 0, z] += x_padded[c, r, 2*z + s] * w[((o_y)/(7)), c, r, s]
      for z in 0..7
        out[((o_y)/(7)), ((o_y)%(7)), z] = max(h[0, 0, z], 0)
    ");
}

#[test]
fn without_padding_what_one_iteration_reads_starts_outside_and_everything_is_computed() {
    insta::assert_snapshot!(nest_of(CONV, "
        cache_read t0 s0
        compute_at s2 s0 a1
    "), @r"
    workspace h[8, 7, 7]: f32
    local x_copy[3, 14, 14]: f32
    for o in 0..8
      for y in 0..7
        for x0 in 0..3
          for x1 in 0..14
            for x2 in 0..14
              x_copy[x0, x1, x2] = x[x0, x1, x2]
        for z in 0..7
          h[o, y, z] = 0
          for c in 0..3
            for r in 0..3
              for s in 0..3
                h[o, y, z] += select((2*y + r - 1) >= 0 && (2*z + s - 1) >= 0, x_copy[c, 2*y + r - 1, 2*z + s - 1], 0) * w[o, c, r, s]
    for o in 0..8
      for y in 0..7
        for z in 0..7
          out[o, y, z] = max(h[o, y, z], 0)
    ");
}

#[test]
fn one_read_of_a_tensor_is_copied_by_its_loops_and_the_other_stays() {
    insta::assert_snapshot!(nest_of(SCORES, "
        cache_operand s0 r1
        pack t2 [] [1, 0]
        split s0 a1 [16]
        reorder s0 [a3, a0, a2, a4]
        compute_at s1 s0 a3
    "), @r"
    local a_operand[8, 16]: f32
    for j_0 in 0..(((M + 15)/(16)))
      for j in 0..16
        for k in 0..8
          if 16*j_0 + j < M
            a_operand[k, j] = a[16*j_0 + j, k + 8]
      for i in 0..M
        for j_1 in 0..16
          if 16*j_0 + j_1 < M
            out[i, 16*j_0 + j_1] = 0
        for k in 0..8
          for j_1 in 0..16
            if 16*j_0 + j_1 < M
              out[i, 16*j_0 + j_1] += a[i, k] * a_operand[k, j_1]
    ");
}

#[test]
fn reads_of_the_same_element_are_copied_once() {
    let distances = "#[autotune(dims(M = 4, N = 6))]
        fn f(a: Tensor<f32, M, 8>, b: Tensor<f32, N, 8>) -> Tensor<f32, M, N> {
            compute(|i, j| sum(0..8, |k| (a[[i, k]] - b[[j, k]]) * (a[[i, k]] - b[[j, k]])))
        }";
    let nest = nest_of(distances, "cache_operand s0 r1");
    assert_eq!(
        (nest.matches("b_operand[j, k]").count(), nest.matches("b[j, k]").count()),
        (3, 1),
        "{nest}"
    );
}

#[test]
fn stages_that_run_in_one_row_keep_what_later_ones_read() {
    insta::assert_snapshot!(nest_of(SOFTMAX, "
        annotate s3 a0 parallel
        compute_at s2 s3 a0
        compute_at s1 s3 a0
        compute_at s0 s3 a0
        split s2 a1 [32]
        annotate s2 a3 vectorized
        annotate s1 a1 vectorized
    "), @r"
    local m[1]: f32
    local e[1, 384]: f32
    local s[1]: f32
    parallel r in 0..R
      m[0] = -inf
      for d in 0..384
        m[0] max= x[r, d]
      vectorized d in 0..384
        e[0, d] = exp(x[r, d] - m[0])
      s[0] = 0
      for d_0 in 0..12
        vectorized d_1 in 0..32
          s[0] += e[0, 32*d_0 + d_1]
      for d in 0..384
        out[r, d] = e[0, d] / s[0]
    ");
}

#[test]
fn partial_sums_get_an_axis_of_their_own_and_start_at_zero_in_the_tail() {
    insta::assert_snapshot!(nest_of(MATMUL, "
        split s0 a2 [16]
        rfactor s0 a4
        compute_at s2 s0 a1
        reorder s2 [a3, a2]
        annotate s2 a2 vectorized
    "), @r"
    workspace h[M, 32]: f32
    local h_part[1, 1, 16]: f32
    for i in 0..M
      for j in 0..32
        vectorized k_1 in 0..16
          h_part[0, 0, k_1] = 0
        for k_0 in 0..2
          vectorized k_1 in 0..16
            h_part[0, 0, k_1] += select((16*k_0 + k_1) < 24, a[i, 16*k_0 + k_1] * b[j, 16*k_0 + k_1], 0)
        h[i, j] = 0
        for k_1 in 0..16
          h[i, j] += h_part[0, 0, k_1]
    for i in 0..M
      for j in 0..32
        out[i, j] = h[i, j] + c[j]
    ");
}

#[test]
fn a_reduction_is_split_from_the_writing_of_its_result() {
    insta::assert_snapshot!(nest_of(SOFTMAX, "
        inline s1
        cache_write s2
        compute_at s4 s2 a0
    "), @r"
    workspace m[R]: f32
    workspace s[R]: f32
    local s_acc[1]: f32
    for r in 0..R
      m[r] = -inf
      for d in 0..384
        m[r] max= x[r, d]
    for r in 0..R
      s_acc[0] = 0
      for d in 0..384
        s_acc[0] += exp(x[r, d] - m[r])
      s[r] = s_acc[0]
    for r in 0..R
      for d in 0..384
        out[r, d] = exp(x[r, d] - m[r]) / s[r]
    ");
}

#[test]
fn a_stage_is_put_into_data_dependent_subscripts() {
    insta::assert_snapshot!(nest_of(GATHER, "
        inline s0
        pack t1 [0:8] [0, 2, 1]
    "), @r"
    packed t[8, 16, 8]: f32
    for b in 0..8
      for h in 0..16
        out[b, h] = select(ids[b] >= 0 && ids[b] < 64, t[i64(ids[b]) / 8, h, i64(ids[b]) % 8] * 2 + f32(i64(ids[b])), 0)
    ");
}

/// The maximum and the sum of a softmax in one loop, for a log-sum-exp.
#[test]
fn reductions_that_roll_along() {
    let program = "
        #[autotune(dims(R = 9, S = 1..=100))]
        fn logsumexp(x: Tensor<f32, R, S>) -> Tensor<f32, R> {
            let m = compute(|r| max(0..S, |j| x[[r, j]]));
            let l = compute(|r| sum(0..S, |j| exp((x[[r, j]] - m[[r]]) * 2.0)));
            compute(|r| m[[r]] + ln(l[[r]]))
        }";
    let trace = "
        compute_at s1 s2 a0
        split s1 a1 [8]
        reorder s1 [a2, a0, a3]
        online_reduction s0 s1 a2";
    insta::assert_snapshot!(nest_of(program, trace), @r"
    local m[1]: f32
    local l[1]: f32
    local m_before[1]: f32
    local m_factor[1]: f32
    for r in 0..9
      l[0] = 0
      m[0] = -inf
      for j_0 in 0..(((S + 7)/(8)))
        m_before[0] = m[0]
        for j in 0..8
          if 8*j_0 + j < S
            m[0] max= x[r, 8*j_0 + j]
        m_factor[0] = exp((max(m_before[0], -3.4028234663852886e38) - max(m[0], -3.4028234663852886e38)) * 2)
        l[0] *= m_factor[0]
        for j_1 in 0..8
          if 8*j_0 + j_1 < S
            l[0] += exp((x[r, 8*j_0 + j_1] - max(m[0], -3.4028234663852886e38)) * 2)
      m_factor[0] = exp((max(m[0], -3.4028234663852886e38) - m[0]) * 2)
      l[0] *= m_factor[0]
      out[r] = m[0] + ln(l[0])
    ");
}

const CAUSAL: &str = "
    #[autotune(dims(S = 1..=100, T = 1..=100))]
    fn causal(x: Tensor<f32, S, T>) -> Tensor<f32, S> {
        compute(|i| sum(0..T, |j| if j <= i + T - S { x[[i, j]] } else { 0.0 }))
    }";

#[test]
fn a_tightened_loop_ends_with_the_last_row_of_a_tile() {
    insta::assert_snapshot!(nest_of(CAUSAL, "split s0 a0 [8]\nsplit s0 a1 [4]\nreorder s0 [a2, a4, a3, a5]\ntrim s0 a4"), @r"
    for i_0 in 0..(((S + 7)/(8)))
      for i_1 in 0..8
        if 8*i_0 + i_1 < S
          out[8*i_0 + i_1] = 0
      for j_0 in 0..((min(((T + 3)/(4)), (((max(-S + T + 8*i_0 + 11, 0)))/(4)))))
        for i_1 in 0..8
          for j_1 in 0..4
            if 8*i_0 + i_1 < S && 4*j_0 + j_1 < T
              out[8*i_0 + i_1] += select((4*j_0 + j_1) <= (-S + T + 8*i_0 + i_1), x[8*i_0 + i_1, 4*j_0 + j_1], 0)
    ");
    // Row by row, and threads of a block all alike.
    let ends = |trace: &str| {
        let nest = nest_of(CAUSAL, trace);
        let line = nest.lines().rfind(|it| it.contains("for j")).map(str::trim);
        line.unwrap_or_default().to_owned()
    };
    insta::assert_snapshot!(ends("tighten_bounds s0 a1"), @"for j in 0..((max(-S + T + i + 1, 0)))");
    insta::assert_snapshot!(ends("split s0 a0 [8]\nannotate s0 a3 thread\ntrim s0 a1"), @"for j in 0..((min(T, (max(-S + T + 8*i_0 + 8, 0)))))");
    // A part of the axis inside of another one.
    insta::assert_snapshot!(ends("split s0 a1 [5]\nreorder s0 [a2, a0, a3]\ntrim s0 a3"), @"for j_1 in 0..((min(5, (max(-S + T - 5*j_0 + i + 1, 0)))))");
}

#[test]
fn a_tightened_loop_begins_with_the_first_row_of_a_tile() {
    let window = CAUSAL.replace("j <= i + T - S", "j <= i + T - S && j + 20 > i + T - S");
    insta::assert_snapshot!(nest_of(&window, "split s0 a0 [8]\nsplit s0 a1 [4]\nreorder s0 [a2, a4, a3, a5]\ntighten_bounds s0 a4"), @r"
    for i_0 in 0..(((S + 7)/(8)))
      for i_1 in 0..8
        if 8*i_0 + i_1 < S
          out[8*i_0 + i_1] = 0
      for j_0 in 0..((min(((T + 3)/(4)), (((max(-S + T + 8*i_0 + 11, 0)))/(4)))))
        if T + 8*i_0 < S + 4*j_0 + 23
          for i_1 in 0..8
            for j_1 in 0..4
              if 8*i_0 + i_1 < S && 4*j_0 + j_1 < T
                out[8*i_0 + i_1] += select((4*j_0 + j_1) <= (-S + T + 8*i_0 + i_1) && (4*j_0 + j_1 + 20) > (-S + T + 8*i_0 + i_1), x[8*i_0 + i_1, 4*j_0 + j_1], 0)
    ");
    let below = CAUSAL.replace("j <= i + T - S", "j > i");
    insta::assert_snapshot!(nest_of(&below, "tighten_bounds s0 a1"), @r"
    for i in 0..S
      out[i] = 0
      for j in 0..T
        if i < j
          out[i] += select(j > i, x[i, j], 0)
    ");
    // Threads of a block meet in each iteration.
    let threads = nest_of(&below, "split s0 a0 [8]\nannotate s0 a3 thread\ntighten_bounds s0 a1");
    assert!(!threads.contains("if i"), "{threads}");
}

#[test]
fn a_tightened_loop_ends_with_the_last_of_its_online_reductions() {
    let program = "
        #[autotune(dims(S = 64))]
        fn f(x: Tensor<f32, S, S>) -> Tensor<f32, S> {
            let a = compute(|i| sum(0..S, |j| if j <= i { x[[i, j]] } else { 0.0 }));
            let b = compute(|i| max(0..S, |j| if j < i + 20 { x[[i, j]] } else { f32::NEG_INFINITY }));
            let c = compute(|i| sum(0..S, |j| if j + 9 > i && 2 * j < i { x[[i, j]] } else { 0.0 }));
            compute(|i| a[[i]] + b[[i]] + c[[i]])
        }";
    let trace = "split s3 a0 [8]
        compute_at s2 s3 a1
        split s2 a1 [4]
        reorder s2 [a2, a0, a3]
        online_reduction s1 s2 a2
        online_reduction s0 s2 a2
        tighten_bounds s2 a2";
    let nest = nest_of(program, trace);
    let line = nest.lines().find(|it| it.contains("for j_0")).map(str::trim);
    insta::assert_snapshot!(line.unwrap(), @"for j_0 in 0..((min(16, 2*i_0 + 7)))");
}

#[test]
fn reads_stand_in_bounds_in_both_branches_of_a_choice() {
    for index in ["(i + 20) % 56", "(i + 55) % 56", "if i > 50 { 50 } else { i.min(40) }"] {
        let source = format!(
            "#[autotune(dims(H = 56))]
            fn f(x: Tensor<f32, H>) -> Tensor<f32, {{ H + 2 }}> {{ compute(|i| x[[{index}]]) }}"
        );
        let schedule = Schedule::new(&tvmtune_ir::dsl::program(&source).unwrap());
        assert_eq!(verify(&lower(&schedule)), [], "{index}");
    }
}
