//! Sketches of CPUs: their templates and defaults, and that every point computes the program.

use super::programs::{
    Oracle, Rhs, add, any_point, c, column_sum, conv, linear, matmul, pool, programs, random,
    softmax, transpose,
};
use crate::default;
use crate::sketch::{Builder, FusionGroup, sketches};
use tvmtune_ir::dag::Dag;
use tvmtune_ir::dsl;
use tvmtune_ir::poly::{DimId, Poly};
use tvmtune_ir::target::{CpuTarget, Isa, Target};
use tvmtune_schedule::{Instruction, Schedule, nest};

fn names(dag: &Dag) -> Vec<String> {
    sketches(dag, &Target::generic(Isa::Avx512)).into_iter().map(|it| it.name).collect()
}

#[test]
fn templates_follow_from_accesses() {
    assert_eq!(names(&linear(c(128), 768, 768, &[]))[0], "y: tile j");
    let all = names(&matmul(512, 512, 512, Rhs::RowMajor));
    assert_eq!(all[..3], ["c: tile j panel", "c: tile j", "c: tile j copy"]);
    assert_eq!(names(&matmul(1024, 1024, 1024, Rhs::RowMajor))[0], "c: tile j copy");
    assert_eq!(names(&matmul(512, 512, 512, Rhs::Transposed))[0], "c: tile j panel");
    // Few outputs share an operand: copies that lanes of columns need would take longer than dot products.
    assert_eq!(names(&matmul(2, 512, 512, Rhs::Transposed)), ["c: rows"]);
    assert_eq!(names(&matmul(2, 512, 512, Rhs::RowMajor))[0], "c: tile j");
    assert_eq!(names(&linear(c(2), 768, 768, &[]))[0], "y: tile j");
    assert_eq!(names(&softmax(c(128), 768, &[])), ["y: rows"]);
    assert_eq!(names(&add([8, 14, 14])), ["z: flat"]);
    assert_eq!(names(&column_sum(512, 512)), ["y: tile i"]);
    assert_eq!(names(&pool(64, 7)), ["y: rows"]);
    assert_eq!(names(&transpose(64, 48)), ["y: flat"]);
    assert_eq!(names(&conv(64, 56, 64, 3))[..2], ["y: tile j", "y: tile l"]);
    assert_eq!(names(&conv(512, 7, 512, 3))[0], "y: tile j");
}

#[test]
fn a_group_whose_templates_are_refused_leaves_the_others_theirs() {
    let dag = dsl::program(
        "#[autotune]
         fn f(x: Tensor<f32, 64, 512>) -> (Tensor<f32, 64>, Tensor<f32, 512>) {
             let rows = compute(|i| sum(0..512, |k| x[[i, k]]));
             (rows, compute(|k| sum(0..64, |i| x[[i, k]])))
         }",
    )
    .unwrap();
    let start = Builder::new(&dag, &Target::generic(Isa::Avx2));
    let groups = start.fusion_groups();
    assert_eq!(groups.len(), 2);
    // A group that is scheduled already refuses.
    let twice = [&groups[..1], &groups[..]].concat();
    assert!(start.sketches_of(&twice).is_empty());
    let trace = |groups: &[FusionGroup]| {
        let sketch = start.sketch_of_what_applies(groups);
        sketch.instructions(&sketch.default)
    };
    assert_eq!(trace(&twice), trace(&groups));
    assert!(trace(&groups[1..]).len() > 1, "the second group alone has a schedule");
}

#[test]
fn rows_shorter_than_a_vector_are_reduced_in_tiles_that_transpose_them() {
    let first = |isa: Isa, source: &str| {
        let dag = dsl::program(&format!("#[autotune] fn f({source} }}")).unwrap();
        sketches(&dag, &Target::generic(isa)).remove(0).name
    };
    let sum = |isa: Isa, k: u64| {
        let text = format!(
            "x: Tensor<f32, 4096, {k}>) -> Tensor<f32, 4096> {{ compute(|i| sum(0..{k}, |k| x[[i, k]]))"
        );
        first(isa, &text)
    };
    let (tile, rows) = ("out: tile i transposed", "out: rows");
    for (isa, length, expected) in [
        (Isa::Avx512, 4, tile),
        (Isa::Avx512, 5, tile),
        (Isa::Avx512, 6, tile),
        (Isa::Avx512, 8, tile),
        (Isa::Avx512, 9, tile),
        (Isa::Avx512, 12, tile),
        (Isa::Avx512, 16, rows),
        (Isa::Avx2, 4, tile),
        (Isa::Avx2, 7, tile),
        (Isa::Avx2, 8, rows),
    ] {
        assert_eq!(sum(isa, length), expected, "{length} on {isa:?}");
    }
    // The index of a maximum reads the row that the maximum has read; a softmax does not.
    let index =
        "x: Tensor<f32, 4096, 8>) -> Tensor<i64, 4096> { compute(|i| argmax(0..8, |k| x[[i, k]]))";
    assert_eq!(first(Isa::Avx512, index), rows);
    let softmax = "x: Tensor<f32, 4096, 8>) -> Tensor<f32, 4096, 8> {
        let m: Tensor<f32, 4096> = compute(|i| max(0..8, |k| x[[i, k]]));
        let s: Tensor<f32, 4096> = compute(|i| sum(0..8, |k| (x[[i, k]] - m[[i]]).exp()));
        compute(|i, j| (x[[i, j]] - m[[i]]).exp() / s[[i]])";
    assert_eq!(first(Isa::Avx512, softmax), "m: tile i transposed s: tile i transposed out: flat");
    // One value is left of the lanes of each row.
    let products = "x: Tensor<f32, 2, 8>, y: Tensor<f32, 500, 8>) -> Tensor<f32, 2, 500> {
        compute(|i, j| sum(0..8, |k| x[[i, k]] * y[[j, k]]))";
    assert_eq!(first(Isa::Avx512, products), "out: tile j transposed");
    // Each of four runs of eight words is a vector of its own.
    let runs = "x: Tensor<f32, 2, 4, 20>, y: Tensor<f32, 500, 4, 20>) -> Tensor<f32, 2, 500> {
        compute(|i, j| sum((0..4, 0..8), |k, s| x[[i, k, s]] * y[[j, k, s]]))";
    assert_eq!(first(Isa::Avx512, runs), "out: tile j transposed");
}

#[test]
fn windows_have_register_tiles_where_numerics_are_fixed() {
    for body in [
        "sum((0..3, 0..3), |r, s| x.get([c, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[c, r, s]])",
        "max((0..3, 0..3), |r, s| x.get([c, y + r - 1, p + s - 1]).unwrap_or(f32::NEG_INFINITY))",
    ] {
        let dag = dsl::program(&format!(
            "#[autotune(dims(C = 64, H = 56), numerics = \"fixed\")]
             fn f(x: Tensor<f32, C, H, H>, w: Tensor<f32, C, 3, 3>) -> Tensor<f32, C, H, H> {{
                 compute(|c, y, p| {body})
             }}"
        ));
        let name = sketches(&dag.unwrap(), &Target::generic(Isa::Avx2)).remove(0).name;
        assert!(name.starts_with("out: tile "), "{name}");
    }
}

#[test]
fn tasks_of_short_rows_take_a_vector_for_each_row() {
    let tasks = |k: u64| {
        let dag = dsl::program(&format!(
            "#[autotune] fn f(x: Tensor<f32, 1000000, {k}>) -> Tensor<f32, 1000000> {{
                 compute(|i| sum(0..{k}, |k| (x[[i, k]] * 2.0 + 1.0) * x[[i, k]]))
             }}"
        ));
        let schedule = default::schedule(&dag.unwrap(), &Target::generic(Isa::Avx512));
        let text = nest::lower(&schedule).to_string();
        text.lines().find(|it| it.starts_with("parallel")).unwrap().to_owned()
    };
    // A row of 6, or of 15 elements, is one vector.
    assert_eq!(tasks(6), tasks(15));
}

#[test]
fn one_operand_of_a_tile_is_copied_however_often_it_is_read() {
    let copied = |dims: &str, body: &str| -> Vec<u32> {
        let source = format!(
            "#[autotune(dims(N = 512))]
             fn f(a: Tensor<f32, {dims}>, b: Tensor<f32, N, N>) -> Tensor<f32, N, N> {{
                 compute(|i, j| sum(0..N, |k| {body}))
             }}"
        );
        let trace =
            default::schedule(&dsl::program(&source).unwrap(), &Target::generic(Isa::Avx512)).trace;
        let read = |it: &Instruction| match it {
            Instruction::CacheOperand { read, .. } => Some(*read),
            _ => None,
        };
        trace.iter().filter_map(read).collect()
    };
    assert_eq!(copied("N, N", "a[[i, k]] * b[[j, k]]"), [1]);
    assert_eq!(copied("N, N", "(a[[i, k]] - b[[j, k]]) * (a[[i, k]] - b[[j, k]])"), [1]);
    assert_eq!(copied("N, N", "a[[i, k]] * a[[i, k]] * b[[j, k]]"), [2]);
    // Every other element is read in place.
    assert_eq!(copied("N, 1024", "a[[k, 2 * j]] * b[[j, k]] * a[[i, k]]"), [1]);
}

#[test]
fn padding_is_masked_in_place_where_rows_of_an_image_are_one_tile_of_one_channel() {
    let copies = |signature: &str, body: &str| {
        let dag = dsl::program(&format!("#[autotune] fn f({signature} {{ {body} }}")).unwrap();
        let trace = default::schedule(&dag, &Target::generic(Isa::Avx512)).trace;
        let count = |is: fn(&Instruction) -> bool| trace.iter().filter(|it| is(it)).count();
        let padded = count(|it| matches!(it, Instruction::CachePadded { .. }));
        [padded, count(|it| matches!(it, Instruction::Inline { .. }))]
    };
    let depthwise = |extent: u64| {
        let shape = format!("Tensor<f32, 64, {extent}, {extent}>");
        let body = "compute(|c, i, j| sum((0..3, 0..3), |r, s|
            x.get([c, i + r - 1, j + s - 1]).unwrap_or(0.0) * w[[c, r, s]]))";
        copies(&format!("x: {shape}, w: Weight<f32, 64, 3, 3>) -> {shape}"), body)
    };
    assert_eq!(depthwise(14), [0, 0]);
    assert_eq!(depthwise(300), [1, 0]);
    // Channels share the image.
    let convolution = "compute(|o, i, j| sum((0..64, 0..3, 0..3), |c, r, s|
        x.get([c, i + r - 1, j + s - 1]).unwrap_or(0.0) * w[[o, c, r, s]]))";
    let shared =
        "x: Tensor<f32, 64, 14, 14>, w: Weight<f32, 64, 64, 3, 3>) -> Tensor<f32, 64, 14, 14>";
    assert_eq!(copies(shared, convolution), [1, 0]);
    // A padded copy is no stage; a mask by two indices is one, which the product would have in each term.
    let copied = "let z: Tensor<f32, 64, 16, 16> = compute(|c, i, j| x.get([c, i - 1, j - 1]).unwrap_or(0.0));
        compute(|o, i, j| sum((0..64, 0..3, 0..3), |c, r, s| z[[c, i + r, j + s]] * w[[o, c, r, s]]))";
    assert_eq!(copies(shared, copied), [1, 1]);
    let masked =
        "let z: Tensor<f32, 256, 256> = compute(|i, k| if k <= i { x[[i, k]] } else { 0.0 });
        compute(|i, j| sum(0..256, |k| z[[i, k]] * w[[k, j]]))";
    let square = "x: Tensor<f32, 256, 256>, w: Weight<f32, 256, 256>) -> Tensor<f32, 256, 256>";
    assert_eq!(copies(square, masked), [0, 0]);
}

#[test]
fn windows_are_unrolled_where_they_are_small_and_overlap() {
    for (taps, step, is_unrolled) in
        [(3, 1, true), (5, 1, true), (3, 2, true), (3, 3, false), (7, 1, false)]
    {
        let extent = 13 * step + taps;
        for order in ["r, s", "s, r"] {
            let dag = dsl::program(&format!(
                "#[autotune] fn f(x: Tensor<f32, 64, {extent}, {extent}>, w: Weight<f32, 64, {taps}, {taps}>) -> Tensor<f32, 64, 14, 14> {{
                     compute(|c, i, j| sum((0..{taps}, 0..{taps}), |{order}| x[[c, {step} * i + r, {step} * j + s]] * w[[c, r, s]]))
                 }}"
            ));
            let schedule = default::schedule(&dag.unwrap(), &Target::generic(Isa::Avx512));
            let text = nest::lower(&schedule).to_string();
            let unrolled = ["unrolled r", "unrolled s"].map(|it| text.contains(it));
            assert_eq!(unrolled == [true; 2], is_unrolled, "{taps} by {step}: {text}");
        }
    }
}

#[test]
fn defaults_compute_the_program_and_fit() {
    for isa in [Isa::Avx512, Isa::Avx2] {
        for (dag, dims) in programs() {
            let schedule = default::schedule(&dag, &Target::generic(isa));
            assert!(Oracle::new(dag, dims).check(&schedule, isa));
        }
    }
}

#[test]
fn every_point_computes_the_program() {
    let mut random = random(1);
    let (mut n_points, mut n_fit) = (0, 0);
    for (dag, dims) in programs() {
        let oracle = Oracle::new(dag, dims);
        for isa in [Isa::Avx512, Isa::Avx2] {
            for sketch in sketches(&oracle.dag, &Target::generic(isa)) {
                for _ in 0..10 {
                    let trace = sketch.instructions(&any_point(&sketch, &mut random));
                    let schedule = Schedule::replay(&oracle.dag, &trace)
                        .unwrap_or_else(|error| panic!("{}: {error:?}", sketch.name));
                    n_points += 1;
                    n_fit += usize::from(oracle.check(&schedule, isa));
                }
            }
        }
    }
    assert!(n_fit * 2 > n_points, "only {n_fit} of {n_points} points fit");
}

#[test]
fn parts_of_one_weight_share_its_layout() {
    let parts = |sum: &str| {
        let source = format!(
            "#[autotune(dims(M = 1..=20, D = 12, U = 21))]
             fn f(x: Tensor<f32, M, D>, y: Tensor<f32, M, D>, w: Weight<f32, {{ 2 * U }}, {{ 2 * U }}>) -> Tensor<f32, M, U> {{
                 compute(|i, u| sum(0..D, |d| {sum}))
             }}"
        );
        dsl::program(&source).unwrap()
    };
    let mut random = random(3);
    for (sum, layouts) in [
        ("w[[u, d]] * x[[i, d]] + w[[u + U, D + d]] * y[[i, d]]", 1),
        // Rows of one part are columns of the other.
        ("w[[u, d]] * x[[i, d]] + w[[d, u + U]] * y[[i, d]]", 0),
    ] {
        let oracle = Oracle::new(parts(sum), vec![17]);
        for isa in [Isa::Avx512, Isa::Avx2] {
            let found = sketches(&oracle.dag, &Target::generic(isa));
            assert_ne!(found[0].name, "plain", "{sum}");
            for sketch in &found {
                let points = (0..4).map(|_| any_point(sketch, &mut random));
                for point in points.chain([sketch.default.clone()]) {
                    let trace = sketch.instructions(&point);
                    let packs = trace.iter().filter(|it| matches!(it, Instruction::Pack { .. }));
                    assert!(packs.count() >= layouts, "{sum}");
                    oracle.check(&Schedule::replay(&oracle.dag, &trace).unwrap(), isa);
                }
            }
        }
    }
}

/// A reduction that is long for these caches, so that tiles take it block by block.
#[test]
fn every_point_of_a_blocked_reduction_computes_the_program() {
    let mut random = random(4);
    let m = || Poly::dim(DimId(0));
    for (k, blocks) in [(160, "even"), (149, "with a shorter last one")] {
        for n_rows in [1, 17, 30] {
            let oracle = Oracle::new(linear(m(), 45, k, &[(1, 30)]), vec![n_rows]);
            for isa in [Isa::Avx512, Isa::Avx2] {
                let cpu =
                    CpuTarget { l1_bytes: 4 << 10, l2_bytes: 16 << 10, ..CpuTarget::generic(isa) };
                let found = sketches(&oracle.dag, &cpu.into());
                let blocked: Vec<_> =
                    found.iter().filter(|it| it.name.contains("blocked")).collect();
                assert!(!blocked.is_empty(), "no sketch with blocks, {blocks}");
                for sketch in blocked {
                    let points = (0..8).map(|_| any_point(sketch, &mut random));
                    for point in points.chain([sketch.default.clone()]) {
                        let trace = sketch.instructions(&point);
                        oracle.check(&Schedule::replay(&oracle.dag, &trace).unwrap(), isa);
                    }
                }
            }
        }
    }
}

#[test]
fn the_default_of_a_product_of_matrices() {
    let dag = linear(Poly::dim(DimId(0)), 768, 384, &[(1, 512)]);
    let schedule = default::schedule(&dag, &Target::generic(Isa::Avx512));
    insta::assert_snapshot!(nest::lower(&schedule), @r"
    packed w[16, 384, 48]: f32
    local h[8, 48]: f32
    parallel i_0 in 0..(((m + 255)/(256)))
      parallel j_0 in 0..8
        pipelined j_1 in 0..2
          for i_1 in 0..32
            unrolled i in 0..8
              vectorized j in 0..48
                if 256*i_0 + 8*i_1 + i < m
                  h[i, j] = 0
            for k_0 in 0..96
              unrolled k_1 in 0..4
                unrolled i in 0..8
                  vectorized j in 0..48
                    if 256*i_0 + 8*i_1 + i < m
                      h[i, j] += x[256*i_0 + 8*i_1 + i, 4*k_0 + k_1] * w[2*j_0 + j_1, 4*k_0 + k_1, j]
            unrolled i_2 in 0..8
              vectorized j_2 in 0..48
                if 256*i_0 + 8*i_1 + i_2 < m
                  y[256*i_0 + 8*i_1 + i_2, 96*j_0 + 48*j_1 + j_2] = max(h[i_2, j_2] + b[96*j_0 + 48*j_1 + j_2], 0)
    ");
}

#[test]
fn the_default_of_a_softmax() {
    let dag = softmax(c(4096), 1000, &[]);
    let schedule = default::schedule(&dag, &Target::generic(Isa::Avx512));
    insta::assert_snapshot!(nest::lower(&schedule), @r"
    local m[1]: f32
    local e[1, 1000]: f32
    local s[1]: f32
    local y_same[1]: f32
    local m_part[1, 64]: f32
    local s_part[1, 64]: f32
    parallel i_0 in 0..512
      pipelined i_1 in 0..8
        vectorized j_1 in 0..64
          m_part[0, j_1] = -inf
        for j_0 in 0..16
          vectorized j_1 in 0..64
            m_part[0, j_1] max= select((64*j_0 + j_1) < 1000, x[8*i_0 + i_1, 64*j_0 + j_1], -inf)
        m[0] = -inf
        vectorized j_1 in 0..64
          m[0] max= m_part[0, j_1]
        for j_0 in 0..16
          vectorized j_1 in 0..64
            if 64*j_0 + j_1 < 1000
              e[0, 64*j_0 + j_1] = exp(x[8*i_0 + i_1, 64*j_0 + j_1] - m[0])
        vectorized j_1 in 0..64
          s_part[0, j_1] = 0
        for j_0 in 0..16
          vectorized j_1 in 0..64
            s_part[0, j_1] += select((64*j_0 + j_1) < 1000, e[0, 64*j_0 + j_1], 0)
        s[0] = 0
        vectorized j_1 in 0..64
          s[0] += s_part[0, j_1]
        y_same[0] = 1 / s[0]
        for j_0 in 0..16
          vectorized j_1 in 0..64
            if 64*j_0 + j_1 < 1000
              y[8*i_0 + i_1, 64*j_0 + j_1] = e[0, 64*j_0 + j_1] * y_same[0]
    ");
}

#[test]
fn the_default_of_a_convolution() {
    let dag = conv(64, 56, 64, 3);
    let schedule = default::schedule(&dag, &Target::generic(Isa::Avx512));
    insta::assert_snapshot!(nest::lower(&schedule), @r"
    packed w[2, 64, 3, 3, 32]: f32
    local y_acc[1, 1, 14, 32]: f32
    workspace x_padded[1, 64, 58, 58]: f32
    parallel x0 in 0..1
      parallel x1 in 0..64
        for x2 in 0..58
          vectorized x3_1 in 0..58
            x_padded[0, x1, x2, x3_1] = select((x2 - 1) >= 0, select((x2 - 1) < 56, select((x3_1 - 1) >= 0, select((x3_1 - 1) < 56, x[0, x1, x2 - 1, x3_1 - 1], 0), 0), 0), 0)
    parallel i in 0..1
      parallel k_0 in 0..28
        parallel l_0 in 0..1
          parallel j_0 in 0..2
            for k_1 in 0..2
              for l_1 in 0..4
                unrolled l in 0..14
                  vectorized j in 0..32
                    y_acc[0, 0, l, j] = 0
                for p in 0..64
                  for q in 0..3
                    unrolled r_1 in 0..3
                      unrolled l in 0..14
                        vectorized j in 0..32
                          y_acc[0, 0, l, j] += x_padded[0, p, 2*k_0 + k_1 + q, 14*l_1 + r_1 + l] * w[j_0, p, q, r_1, j]
                unrolled l_2 in 0..14
                  vectorized j_2 in 0..32
                    y[0, 32*j_0 + j_2, 2*k_0 + k_1, 14*l_1 + l_2] = y_acc[0, 0, l_2, j_2]
    ");
}

/// A launch may have one sample of a batch that has no buckets.
#[test]
fn one_sample_of_a_batch_is_shared_out_over_threads() {
    let cpu = CpuTarget { threads: 4, ..CpuTarget::generic(Isa::Avx2) };
    let n_tasks = |batch: &str| {
        let dag = dsl::program(&format!(
            "#[autotune(dims(B = {batch}, C = 40, O = 240))]
             fn f(x: Tensor<f32, B, C, 28, 28>, w: Weight<f32, O, C>) -> Tensor<f32, B, O, 28, 28> {{
                 compute(|n, o, y, p| sum(0..C, |c| x[[n, c, y, p]] * w[[o, c]]))
             }}"
        ));
        let text = nest::lower(&default::schedule(&dag.unwrap(), &cpu.into())).to_string();
        let loops = text.lines().filter_map(|it| it.trim().strip_prefix("parallel "));
        let extents = loops.filter_map(|it| it.rsplit_once("0..")?.1.parse::<u64>().ok());
        extents.product::<u64>()
    };
    assert!(n_tasks("1..=64") >= 8, "{} tasks of a sample", n_tasks("1..=64"));
    assert!(n_tasks("1") >= 8);
}
