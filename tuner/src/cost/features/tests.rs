//! Features of programs with known loops, those of Ansor's own tests among them; and for all programs,
//! that numbers are finite.

use proptest::prelude::*;
use tvmtune_ir::dag::{self, Subscript};
use tvmtune_ir::dsl;
use tvmtune_ir::poly::Poly;
use tvmtune_ir::target::CpuTarget;
use tvmtune_ir::target::gpu::{Arch, GpuTarget};
use tvmtune_schedule::arbitrary::{any_case, any_moves, config, scheduled};
use tvmtune_schedule::nest::{self, Stmt};
use tvmtune_schedule::{Instruction, Schedule};

use super::*;

const MATMUL: &str = "
    #[autotune(dims(N = 512))]
    fn matmul(a: Tensor<f32, N, N>, b: Tensor<f32, N, N>) -> Tensor<f32, N, N> {
        compute(|i, j| sum(0..N, |k| a[[i, k]] * b[[k, j]]))
    }";

const COPIES: &str = "
    #[autotune(dims(M = 64, N = 32))]
    fn copies(a: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
        let b = compute(|i, j| a[[i, j]] * 1.5);
        compute(|i, j| b[[i, j]] * 2.5)
    }";

/// The positions of the buffers in a row, and of the numbers within a buffer.
const BUFFERS: usize = 57;
const BUFFER_WIDTH: usize = 18;
const BYTES: usize = 3;
const UNIQUE_BYTES: usize = 4;
const LINES: usize = 5;
const UNIQUE_LINES: usize = 6;
const REUSE: usize = 7;
const REUSE_ITERATIONS: usize = 10;
const REUSE_BYTES: usize = 11;
const REUSE_TIMES: usize = 12;
const BYTES_FOR_EACH_USE: usize = 13;
const STRIDE: usize = 17;

fn nest_of(source: &str, trace: &str) -> Nest {
    let lines = trace.lines().map(str::trim).filter(|it| !it.is_empty());
    let trace: Vec<Instruction> = lines.map(|it| it.parse().unwrap()).collect();
    nest::lower(&Schedule::replay(&dsl::program(source).unwrap(), &trace).unwrap())
}

fn rows_of(nest: &Nest, device: Device) -> Vec<Vec<f32>> {
    let features = Features::of_loops(nest, device, 0.0);
    features.rows().map(<[f32]>::to_vec).collect()
}

fn rows(source: &str, trace: &str) -> Vec<Vec<f32>> {
    rows_of(&nest_of(source, trace), Device::Cpu)
}

/// The numbers of the buffers of a row, those of a certain access: read, written, or both.
fn buffers(row: &[f32], access: usize) -> Vec<&[f32]> {
    let buffers = row[BUFFERS..].chunks_exact(BUFFER_WIDTH).take(5);
    buffers.filter(|it| it[access] == 1.0).collect()
}

#[track_caller]
fn check(number: f32, expected: f64) {
    assert!((number - slog(expected)).abs() < 1e-4, "{} is not {expected}", number.exp2() - 1.0);
}

#[test]
fn a_tiled_product_is_described() {
    let trace = "
        split s0 a0 [16]
        split s0 a1 [8]
        reorder s0 [a3, a5, a2, a4, a6]
        annotate s0 a3 parallel
        annotate s0 a5 parallel
        annotate s0 a2 unrolled
        annotate s0 a6 vectorized";
    let rows = rows(MATMUL, trace);
    assert_eq!(rows.len(), 1);
    let row = &rows[0];
    let c = buffers(row, 2)[0];
    let all = 512.0 * 512.0 * 512.0;
    check(c[BYTES], all * 4.0);
    assert_eq!(c[REUSE..REUSE + 3], [1.0, 0.0, 0.0]);
    check(c[REUSE_TIMES], 512.0);
    check(c[REUSE_ITERATIONS], 8.0 * 16.0);
    check(c[REUSE_BYTES], (8.0 * 16.0 + 8.0 + 16.0) * 4.0);
    check(c[BYTES_FOR_EACH_USE], all * 4.0 / 512.0);
    let factors = buffers(row, 0);
    factors.iter().for_each(|it| check(it[UNIQUE_BYTES], 512.0 * 512.0 * 4.0));
    // Lanes move along rows of `b`, and not through `a`.
    let mut strides = [factors[0][STRIDE], factors[1][STRIDE]];
    strides.sort_by(f32::total_cmp);
    assert_eq!(strides, [0.0, slog(1.0)]);
    check(row[16], 1.0);
    check(row[17], 8.0);
    check(row[27], 1.0);
    check(row[28], 512.0);
    check(row[38], 2.0);
    check(row[39], 32.0 * 64.0);
    check(row[40], 64.0);
    assert_eq!(row[49..57], [0.0; 8]);
    check(row[161], all);
    check(row[162], 5.0);
}

#[test]
fn positions_of_annotated_loops_are_told() {
    let position = |trace: &str, group: usize| {
        let row = rows(MATMUL, trace).remove(0);
        let found: Vec<usize> = (0..8).filter(|it| row[group + 3 + it] == 1.0).collect();
        assert_eq!(found.len(), 1, "{trace}");
        found[0]
    };
    let reordered = "reorder s0 [a0, a2, a1]\n";
    assert_eq!(position("", 16), 0, "nowhere");
    assert_eq!(position(&format!("{reordered}annotate s0 a1 vectorized"), 16), 1, "inner spatial");
    assert_eq!(position("annotate s0 a0 parallel", 38), 3, "outer spatial");
    assert_eq!(position("annotate s0 a2 unrolled", 27), 4, "inner reduction");
    let split = "split s0 a2 [4, 4]\n";
    assert_eq!(position(&format!("{split}annotate s0 a4 unrolled"), 27), 5, "middle reduction");
    assert_eq!(position(&format!("{split}annotate s0 a3 unrolled"), 27), 6, "outer reduction");
    let both = "annotate s0 a0 parallel\nannotate s0 a1 parallel";
    assert_eq!(position(both, 38), 7, "several");
}

#[test]
fn operations_are_counted() {
    let row = rows(MATMUL, "").remove(0);
    let all = 512.0 * 512.0 * 512.0;
    check(row[1], all);
    check(row[2], all);
    assert_eq!(row[0], 0.0);
    assert!(row[3..16].iter().all(|it| *it == 0.0));
    let softmax = "
        #[autotune(dims(R = 8, D = 16))]
        fn softmax(x: Tensor<f32, R, D>) -> Tensor<f32, R, D> {
            let m = compute(|r| max(0..D, |d| x[[r, d]]));
            let s = compute(|r| sum(0..D, |d| exp(x[[r, d]] - m[[r]])));
            compute(|r, d| exp(x[[r, d]] - m[[r]]) / s[[r]])
        }";
    let rows = rows(softmax, "");
    assert_eq!(rows.len(), 3);
    let written = |n: usize, kind: usize| rows.iter().filter(|it| it[kind] > 0.0).count() == n;
    assert!(written(2, 1) && written(1, 3) && written(1, 4) && written(2, 5));
}

#[test]
fn lines_are_those_that_are_touched() {
    let row = rows(MATMUL, "").remove(0);
    let all = 512.0 * 512.0 * 512.0;
    let c = buffers(&row, 2)[0];
    // 16 floats a line; `k` adds into the same element.
    check(c[LINES], all / 512.0 / 16.0);
    check(c[UNIQUE_LINES], 512.0 * 512.0 / 16.0);
    let factors = buffers(&row, 0);
    check(factors[0][LINES], all);
    check(factors[1][LINES], all / 16.0);
    factors.iter().for_each(|it| check(it[UNIQUE_LINES], 512.0 * 512.0 / 16.0));
}

#[test]
fn two_columns_of_a_matrix_are_a_line_for_each_row() {
    let source = "
        #[autotune(dims(M = 100, N = 128))]
        fn columns(x: Tensor<f32, M, N>) -> Tensor<f32, M, 2> {
            compute(|i, j| x[[i, j]] * 2.0)
        }";
    let row = rows(source, "").remove(0);
    let x = buffers(&row, 0)[0];
    check(x[UNIQUE_BYTES], 800.0);
    check(x[UNIQUE_LINES], 100.0);
}

#[test]
fn a_fused_statement_reuses_what_was_just_written() {
    let b_is_reused = |rows: &[Vec<f32>]| {
        for (row, access) in [(&rows[0], 0), (&rows[1], 1)] {
            let b = buffers(row, access).into_iter().find(|it| it[REUSE + 1] == 1.0).unwrap();
            check(b[REUSE_ITERATIONS], 1.0);
            check(b[REUSE_BYTES], 16.0);
            check(b[REUSE_TIMES], 1.0);
            let others = row[BUFFERS..].chunks_exact(BUFFER_WIDTH).take(5);
            assert_eq!(others.filter(|it| it[REUSE + 1] == 1.0).count(), 1);
        }
    };
    // In a buffer of one element, as lowering makes it.
    let mut nest = nest_of(COPIES, "compute_at s0 s1 a1");
    let mut found = rows_of(&nest, Device::Cpu);
    found.sort_by(|a, b| a[157].total_cmp(&b[157]));
    b_is_reused(&found);
    // In one as large as the others.
    let b = nest.buffers.iter_mut().find(|it| it.name == "b").unwrap();
    (b.shape, b.scope) = ([64, 32].map(Poly::constant).to_vec(), nest::Scope::Workspace);
    let Stmt::For { body: rows, .. } = &mut nest.body[0] else { panic!("no loop") };
    let Stmt::For { body: columns, .. } = &mut rows[0] else { panic!("no loop") };
    let [Stmt::Store { index: written, .. }, Stmt::Store { index: to, value, .. }] =
        columns.as_mut_slice()
    else {
        panic!("no two statements")
    };
    written.clone_from(to);
    *value = value.replace_reads(&mut |tensor, _| {
        let index = to.iter().cloned().map(Subscript::Affine).collect();
        Some(dag::Expr::Read { tensor, index })
    });
    let mut found = rows_of(&nest, Device::Cpu);
    found.sort_by(|a, b| a[157].total_cmp(&b[157]));
    b_is_reused(&found);
    check(found[1][157], 64.0 * 32.0 * 4.0);
}

#[test]
fn blocks_and_threads_are_told_apart() {
    let source = "
        #[autotune(dims(N = 512))]
        fn twice(a: Tensor<f32, N>) -> Tensor<f32, N> { compute(|i| a[[i]] * 2.0) }";
    let trace = "
        split s0 a0 [4, 16]
        annotate s0 a1 parallel
        annotate s0 a2 unrolled
        annotate s0 a3 thread";
    let nest = nest_of(source, trace);
    let row = rows_of(&nest, Device::Gpu).remove(0);
    assert_eq!(row[49], 1.0);
    let expected = [8, 1, 1, 16, 1, 1, 4].map(|it| slog(f64::from(it)));
    assert_eq!(row[50..57], expected);
    assert_eq!(row[38], 0.0, "blocks are no parallel loops");
    let on_cpu = rows_of(&nest, Device::Cpu).remove(0);
    assert_eq!(on_cpu[49..57], [0.0; 8]);
    check(on_cpu[38], 1.0);
    check(on_cpu[27], 1.0);
}

#[test]
fn intensity_grows_with_the_loops_that_use_something_again() {
    let trace = "reorder s0 [a2, a0, a1]";
    let row = rows(MATMUL, trace).remove(0);
    let curve = &row[147..157];
    assert!(curve.is_sorted(), "{curve:?}");
    let bytes = 3.0 * 512.0 * 512.0 * 4.0;
    check(curve[9], 2.0 * 512.0 * 512.0 * 512.0 / bytes);
}

#[test]
fn dimensions_count_at_their_largest_extent() {
    let dynamic = MATMUL.replace("N = 512", "N = 1..=512");
    assert_eq!(rows(&dynamic, ""), rows(MATMUL, ""));
}

#[test]
fn a_schedule_that_does_not_fit_has_no_features() {
    let target = Target::Cpu(CpuTarget::generic(tvmtune_ir::target::Isa::Avx2));
    assert!(Features::of(&nest_of(MATMUL, ""), &target).is_some());
    let large = "reorder s0 [a0, a2, a1]\nsplit s0 a1 [512]\nannotate s0 a4 unrolled";
    let unrolled = format!("{large}\nsplit s0 a2 [64]\nannotate s0 a6 unrolled");
    assert!(Features::of(&nest_of(MATMUL, &unrolled), &target).is_none());
}

#[test]
fn slog_keeps_signs_and_order() {
    assert_eq!([-3.0, 0.0, 1.0, 7.0].map(slog), [-2.0, 0.0, 1.0, 3.0]);
    assert!(slog(f64::INFINITY).is_finite());
}

proptest! {
    #![proptest_config(config(200))]

    /// Any schedule of any program: whole rows of finite numbers, the same each time.
    #[test]
    fn numbers_are_finite(
        case in any_case(),
        moves in any_moves(15),
    ) {
        let schedule = scheduled(&case.dag, &moves);
        let nest = nest::lower(&schedule);
        for device in [Device::Cpu, Device::Gpu] {
            let features = Features::of_loops(&nest, device, 0.0);
            prop_assert!(features.is_sound(), "{nest}");
            prop_assert!(features.rows().len() > 0);
            prop_assert_eq!(&features, &Features::of_loops(&nest, device, 0.0));
        }
        let gpu = GpuTarget::generic(Arch { sm: 90, exact: true });
        for target in [Target::generic(tvmtune_ir::target::Isa::Avx2), Target::Gpu(gpu)] {
            prop_assert!(Features::of(&nest, &target).is_none_or(|it| it.is_sound()));
        }
    }
}

/// Two hand-written kernels with two knobs.
const WRITTEN: &str = r#"#[autotune(
        dims(N = 1..=4096),
        template = "f.cu" ("extern \"C\" __global__ void f() { int n = ITEMS; }\n"),
        knobs(BLOCK in [128, 32, 64, 256, 512], ITEMS in [1, 2, 4, 8, 16]),
        kernels(f(grid = (N / BLOCK + 1, 2), block = BLOCK, shared = BLOCK * 4), f(grid = 1, block = 32))
    )]
    fn f(x: Tensor<f32, N>) -> Tensor<f32, N> { compute(|n| x[[n]]) }"#;

fn gpu() -> Target {
    GpuTarget::generic(Arch { sm: 90, exact: true }).into()
}

/// The features of a setting of the knobs.
fn of_setting(values: [u64; 2]) -> Features {
    let trace = format!("set_knobs {values:?}");
    Features::of(&nest_of(WRITTEN, &trace), &gpu()).unwrap()
}

#[test]
fn hand_written_kernels_have_their_knobs_and_launches() {
    let features = of_setting([64, 8]);
    let rows: Vec<&[f32]> = features.rows().collect();
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|it| it[..3] == [slog(64.0), slog(8.0), 0.0]));
    let threads = |row: &[f32], numbers: [f64; 6]| {
        assert_eq!(row[THREADS], 1.0);
        assert_eq!(row[THREADS + 1..THREADS + 7], numbers.map(slog));
    };
    threads(rows[0], [65.0, 2.0, 1.0, 64.0, 1.0, 1.0]);
    threads(rows[1], [1.0, 1.0, 1.0, 32.0, 1.0, 1.0]);
    let memory = [256.0, 256.0 * 130.0, 130.0, 64.0 * 130.0].map(slog);
    assert_eq!(rows[0][MEMORY..MEMORY + 4], memory);
    let on_cpu = Features::of_loops(&nest_of(WRITTEN, "set_knobs [64, 8]"), Device::Cpu, 0.0);
    assert_eq!(on_cpu.rows().len(), 1, "there it is a program like others");
}

/// A model of knobs: settings that it has not seen are ranked by those that it has.
#[test]
fn the_learned_model_ranks_settings_that_it_has_not_seen() {
    let latency = |[block, items]: [u64; 2]| {
        let (block, items) = (block as f64, items as f64);
        // The best: blocks of 256 threads, with 4 values each.
        1000.0 * (1.0 + 0.3 * (block / 256.0).log2().abs() + 0.2 * (items / 4.0).log2().abs())
    };
    let settings: Vec<[u64; 2]> = [32, 64, 128, 256, 512]
        .into_iter()
        .flat_map(|it| [1, 2, 4, 8, 16].map(|n| [it, n]))
        .collect();
    let (seen, unseen): (Vec<_>, Vec<_>) =
        settings.iter().enumerate().partition(|(n, _)| n % 3 != 1);
    let mut model = crate::cost::model::CostModel::new(1);
    for (_, setting) in &seen {
        model.add(0, of_setting(**setting), Some(latency(**setting)));
    }
    assert!(model.train());
    let judged: Vec<(f64, f64)> = unseen
        .iter()
        .map(|(_, it)| (model.predict(&[of_setting(**it)])[0], latency(**it)))
        .collect();
    let pairs = judged.iter().flat_map(|a| judged.iter().map(move |b| (a, b)));
    let (mut n_right, mut n) = (0, 0);
    for (a, b) in pairs.filter(|(a, b)| a.1 < b.1) {
        n += 1;
        n_right += usize::from(a.0 > b.0);
    }
    assert!(n_right * 4 > n * 3, "{n_right} of {n} pairs are in order");
}
