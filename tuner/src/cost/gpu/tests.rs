//! Properties of estimates that hold for any constants.

use std::ops::Range;

use tvmtune_cuda::grid::{self, Grid, MemoryScope};
use tvmtune_ir::dag::Dag;
use tvmtune_ir::dsl;
use tvmtune_ir::poly::Poly;
use tvmtune_ir::target::Target;
use tvmtune_ir::target::gpu::{Arch, GpuTarget};
use tvmtune_schedule::{Instruction, Schedule, nest};
use tvmtune_space::default;
use tvmtune_space::fits::gpu::{ExceededLimit, fits};
use tvmtune_space::sketch::{Sketch, TemplateKind};

use super::*;
use crate::cost::analytic::AnalyticModel;
use crate::random::Random;
use crate::search::Score;
use crate::space::{Point, Space};

fn dag(source: &str) -> Dag {
    dsl::program(source).unwrap()
}

/// An H200.
fn hopper() -> GpuTarget {
    GpuTarget::generic(Arch { sm: 90, exact: true })
}

fn product(n: u64) -> Dag {
    dag(&format!(
        "#[autotune(dims(M = {n}, N = {n}, K = {n}))]
        fn mm(a: Tensor<f32, M, K>, b: Tensor<f32, K, N>) -> Tensor<f32, M, N> {{
            compute(|i, j| sum(0..K, |k| a[[i, k]] * b[[k, j]]))
        }}"
    ))
}

fn add(n: u64) -> Dag {
    dag(&format!(
        "#[autotune(dims(N = {n}))]
        fn add(a: Tensor<f32, N>, b: Tensor<f32, N>) -> Tensor<f32, N> {{
            compute(|i| a[[i]] + b[[i]])
        }}"
    ))
}

fn softmax(rows: u64, columns: u64) -> Dag {
    dag(&format!(
        "#[autotune(dims(M = {rows}, N = {columns}))]
        fn softmax(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {{
            let peak = compute(|i| max(0..N, |j| x[[i, j]]));
            let e = compute(|i, j| exp(x[[i, j]] - peak[[i]]));
            let total = compute(|i| sum(0..N, |j| e[[i, j]]));
            compute(|i, j| e[[i, j]] / total[[i]])
        }}"
    ))
}

fn copy(index: &str) -> Dag {
    dag(&format!(
        "#[autotune(dims(N = 8192))]
        fn copy(x: Tensor<f32, N, N>) -> Tensor<f32, N, N> {{ compute(|i, j| x[[{index}]]) }}"
    ))
}

fn convolution() -> Dag {
    dag("#[autotune(dims(C = 32, H = 57, O = 48))]
        fn conv(x: Tensor<f32, C, H, H>, w: Weight<f32, O, C, 3, 3>) -> Tensor<f32, O, H, H> {
            compute(|o, y, p| sum((0..C, 0..3, 0..3), |c, r, s| {
                x.get([c, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[o, c, r, s]]
            }))
        }")
}

fn gather() -> Dag {
    dag("#[autotune(dims(R = 1..=4000, V = 1000, D = 384))]
        fn embed(ids: Tensor<i32, R>, table: Tensor<f32, V, D>) -> Tensor<f32, R, D> {
            compute(|i, j| table.get([ids[[i]], j]).unwrap_or(0.0))
        }")
}

fn grid_of(dag: &Dag, space: &Space, point: &Point) -> Grid {
    let schedule = Schedule::replay(dag, &space.instructions(point)).unwrap();
    grid::place(&nest::lower(&schedule)).unwrap()
}

/// The number of the first sketch of a kind.
fn sketch_of(space: &Space, is_wanted: impl Fn(&Sketch) -> bool) -> u16 {
    let names = || space.sketches.iter().map(|it| &it.name).collect::<Vec<_>>();
    let n = space.sketches.iter().position(is_wanted);
    n.unwrap_or_else(|| panic!("not among {:?}", names())) as u16
}

fn warp_specialized(space: &Space) -> u16 {
    sketch_of(space, |it| it.uses(TemplateKind::WgmmaWarpSpecialized))
}

/// The analytic choice of the first sketch whose name holds that text.
fn default_of(dag: &Dag, target: GpuTarget, name: &str) -> Grid {
    let space = Space::new(dag, &Target::from(target));
    let n = sketch_of(&space, |it| it.name.contains(name));
    grid_of(dag, &space, &space.defaults()[usize::from(n)])
}

/// The shares of the memory bandwidth that copies reach on an H200, 4.3 TB/s.
fn share_of_copies(dag: &Dag, bytes: f64) -> f64 {
    bytes / estimate(&default_of(dag, hopper(), ""), &hopper()).ns / 4300.0
}

#[test]
fn a_product_comes_close_to_what_the_best_kernels_reach() {
    let dag = product(4096);
    let space = Space::new(&dag, &Target::from(hopper()));
    let ranking = rank(&dag, &hopper(), &space, 400, 4, &mut Random::new(1));
    let best = &ranking.best[0].estimate;
    // cuBLAS: three quarters of 67 TFLOP/s.
    let share = 2.0 * 4096_f64.powi(3) / best.ns / 1e3 / (67.0 * 0.75);
    assert!((0.6..1.1).contains(&share), "{share} {best:?}");
    assert_eq!(best.kernels[0].part(Bound::Tensor), 0.0);
    let is_arithmetic = matches!(best.kernels[0].bound, Bound::Issue | Bound::Fma | Bound::Shared);
    assert!(is_arithmetic, "{best:?}");
}

#[test]
fn what_streams_comes_close_to_what_copies_reach() {
    let n = 1 << 26;
    let shares = [
        ("add", share_of_copies(&add(n), 12.0 * n as f64)),
        ("softmax", share_of_copies(&softmax(16384, 4096), 8.0 * n as f64)),
        ("softmax", share_of_copies(&softmax(65536, 1024), 8.0 * n as f64)),
        ("copy", share_of_copies(&copy("i, j"), 8.0 * n as f64)),
    ];
    assert!(shares.iter().all(|it| (0.7..1.0).contains(&it.1)), "{shares:?}");
}

#[test]
fn long_reductions_come_close_to_what_copies_reach() {
    let reductions = [
        "#[autotune(dims(M = 4096, N = 8192))]
        fn total(x: Tensor<f32, M, N>) -> Tensor<f32> { compute(|| sum((0..M, 0..N), |i, j| x[[i, j]])) }",
        "#[autotune(dims(M = 16384, N = 2048))]
        fn columns(x: Tensor<f32, M, N>) -> Tensor<f32, N> { compute(|j| sum(0..M, |i| x[[i, j]])) }",
        "#[autotune(dims(M = 16384, N = 2048))]
        fn rows(x: Tensor<f32, M, N>) -> Tensor<f32, M> { compute(|i| sum(0..N, |j| x[[i, j]])) }",
        "#[autotune(dims(K = 32, N = 1048576))]
        fn few(x: Tensor<f32, K, N>) -> Tensor<f32, K> { compute(|i| max(0..N, |j| x[[i, j]])) }",
        "#[autotune(dims(N = 4096, K = 8192))]
        fn across(x: Tensor<f32, K>, w: Tensor<f32, K, N>) -> Tensor<f32, N> {
            compute(|j| sum(0..K, |k| x[[k]] * w[[k, j]]))
        }",
    ];
    reductions.iter().for_each(|it| check_share(it, f64::from(1 << 27), 0.5..1.2));
}

fn check_share(source: &str, bytes: f64, expected: Range<f64>) {
    let dag = dag(source);
    let share = share_of_copies(&dag, bytes);
    assert!(expected.contains(&share), "{}: {share} of the speed of a copy", dag.name);
}

#[test]
fn what_passes_over_memory_twice_comes_close_to_two_copies() {
    // Read twice, and read and written.
    let programs = [
        "#[autotune(dims(M = 65536, N = 512))]
        fn variance(x: Tensor<f32, M, N>) -> Tensor<f32, N> {
            let c = compute(|j| mean(0..M, |i| x[[i, j]]));
            compute(|j| mean(0..M, |i| (x[[i, j]] - c[[j]]) * (x[[i, j]] - c[[j]])))
        }",
        "#[autotune(dims(M = 8192, N = 4096))]
        fn sums(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
            compute(|i, j| sum(0..=j, |k| x[[i, k]]))
        }",
    ];
    programs.iter().for_each(|it| check_share(it, f64::from(1 << 28), 0.7..1.0));
}

#[test]
fn convolutions_of_narrow_numbers_are_products() {
    let dag = dag("#[autotune(dims(B = 32, H = 28, C = 128))]
        fn conv(x: Tensor<f16, B, H, H, C>, w: Weight<f16, C, 3, 3, C>) -> Tensor<f16, B, H, H, C> {
            compute(|n, y, p, o| sum((0..3, 0..3, 0..C), |r, s, c| {
                x.get([n, y + r - 1, p + s - 1, c]).unwrap_or(0.0) * w[[o, r, s, c]]
            }))
        }");
    let ns = |rule: &str| estimate(&default_of(&dag, hopper(), rule), &hopper()).ns;
    let [default, fed, tensor, tile] = ["", "fed group", "tensor", "tile"].map(ns);
    assert!(default == fed && 1.5 * fed < tensor, "{default}, {fed} and {tensor} ns");
    assert!(5.0 * tensor < tile, "{tensor} and {tile} ns");
}

#[test]
fn small_kernels_are_launches() {
    let all = estimate(&default_of(&add(64), hopper(), ""), &hopper());
    assert_eq!(all.kernels[0].bound, Bound::Launch);
    assert!(all.ns < 2.0 * all.kernels[0].part(Bound::Launch), "{all:?}");
}

#[test]
fn more_bytes_never_take_less_time() {
    let of = |dag: &Dag| estimate(&default_of(dag, hopper(), ""), &hopper());
    let sums: Vec<Estimate> = (10..28).map(|it| of(&add(1 << it))).collect();
    let rows: Vec<Estimate> = (4..16).map(|it| of(&softmax(1 << it, 1024))).collect();
    for some in [sums, rows] {
        assert!(some.is_sorted_by(|a, b| a.ns <= b.ns), "{some:?}");
        assert!(some.is_sorted_by(|a, b| a.kernels[0].dram_bytes < b.kernels[0].dram_bytes));
    }
}

/// A grid whose shared memory has rows of so many elements.
fn with_rows(grid: &Grid, n: i64) -> Grid {
    let mut grid = grid.clone();
    for buffer in grid.buffers.iter_mut().filter(|it| matches!(it.scope, MemoryScope::Shared(_))) {
        *buffer.shape.last_mut().unwrap() = Poly::constant(n);
    }
    grid
}

#[test]
fn neighbors_are_cheaper_than_what_lies_apart() {
    let target = hopper();
    let along = estimate(&default_of(&copy("i, j"), target, "flat"), &target);
    let apart = estimate(&default_of(&copy("j, i"), target, "flat"), &target);
    let across = default_of(&copy("j, i"), target, "across");
    let across = estimate(&with_rows(&across, 33), &target);
    assert!(apart.ns > 1.5 * along.ns, "{apart:?} {along:?}");
    assert!(apart.kernels[0].l2_bytes > 2.0 * along.kernels[0].l2_bytes);
    assert!(across.ns < apart.ns / 1.5, "{across:?} {apart:?}");
    assert!(across.ns >= along.ns, "{across:?} {along:?}");
}

#[test]
fn a_row_in_one_bank_costs_more_than_a_padded_one() {
    let grid = default_of(&copy("j, i"), hopper(), "across");
    let [conflicts, padded] = [32, 33].map(|it| estimate(&with_rows(&grid, it), &hopper()));
    let shared = |it: &Estimate| it.kernels[0].part(Bound::Shared);
    assert!(shared(&conflicts) > 8.0 * shared(&padded), "{conflicts:?} {padded:?}");
    assert!(conflicts.ns > padded.ns);
}

#[test]
fn rows_that_data_chooses_are_still_rows() {
    let all = estimate(&default_of(&gather(), hopper(), ""), &hopper());
    let written = 4000.0 * 384.0 * 4.0;
    assert!((2.0..3.0).contains(&(all.kernels[0].l2_bytes / written)), "{all:?}");
}

#[test]
fn what_does_not_stay_in_the_cache_is_read_by_every_wave() {
    let grid = default_of(&product(4096), hopper(), "");
    let bytes = |l2_bytes: u64| {
        let all = estimate(&grid, &GpuTarget { l2_bytes, ..hopper() });
        all.kernels[0].dram_bytes / (3.0 * 4096.0 * 4096.0 * 4.0)
    };
    assert_eq!(bytes(1 << 30), 1.0);
    assert!(bytes(50 << 20) > 1.5, "{}", bytes(50 << 20));
}

#[test]
fn what_one_thread_writes_others_do_not() {
    let dag = dag("#[autotune(dims(M = 1000, N = 16384))]
        fn sums(x: Tensor<f32, M, N>) -> Tensor<f32, M> { compute(|i| sum(0..N, |j| x[[i, j]])) }");
    let kernel = &estimate(&default_of(&dag, hopper(), "rows"), &hopper()).kernels[0];
    assert_eq!(kernel.l2_bytes, 1000.0 * (16384.0 * 4.0 + 32.0), "a sector for each row");
}

#[test]
fn a_block_too_many_is_a_wave_too_many() {
    let target = hopper();
    let waves = |n: u64| {
        // One block has 256 threads with 4 elements, and 8 of them are resident.
        let all = estimate(&default_of(&add(n * 132 * 8 * 1024), target, ""), &target);
        (all.kernels[0].waves, all.kernels[0].part(Bound::Waves))
    };
    assert_eq!(waves(16), (16, 0.0));
    let more = estimate(&default_of(&add(16 * 132 * 8 * 1024 + 1024), target, ""), &target);
    assert_eq!(more.kernels[0].waves, 17);
    assert!(more.kernels[0].part(Bound::Waves) > 0.0);
}

#[test]
fn a_larger_gpu_is_never_slower() {
    let programs = [product(2048), add(1 << 26), softmax(16384, 2048), copy("j, i"), convolution()];
    for dag in &programs {
        let grid = default_of(dag, hopper(), "");
        let ns = |times: u32| {
            let mut target = hopper();
            target.multiprocessors = 33 * times;
            target.bandwidth_gbps = 1200 * times;
            target.l2_bytes = (12 << 20) * u64::from(times);
            estimate(&grid, &target).ns
        };
        let times = [1, 2, 4, 8].map(ns);
        assert!(times.is_sorted_by(|a, b| a >= b), "{}: {times:?}", dag.name);
    }
}

#[test]
fn registers_that_are_known_count() {
    let (target, dag) = (hopper(), product(2048));
    let grid = default_of(&dag, target, "");
    let at = |registers| estimate_at(&grid, &target, &[], &[registers]);
    let (few, many) = (at(64), at(168));
    assert!(few.kernels[0].occupancy > many.kernels[0].occupancy);
    assert!(few.ns <= many.ns, "{few:?} {many:?}");
    assert_eq!(at(256).ns, f64::INFINITY, "no block is resident");
}

#[test]
fn every_point_of_every_sketch_has_an_estimate() {
    let mut tiny = GpuTarget::generic(Arch { sm: 75, exact: false });
    (tiny.multiprocessors, tiny.l2_bytes, tiny.clock_mhz) = (1, 0, 1);
    let programs = [
        product(100),
        add(37),
        softmax(3, 1000),
        copy("j, i"),
        convolution(),
        gather(),
        dag("#[autotune(dims(N = 9))]
            fn best(x: Tensor<f64, N>) -> Tensor<i32> { compute(|| argmax(0..N, |j| x[[j]]) as i32) }"),
    ];
    for dag in &programs {
        for target in [tiny, hopper()] {
            let space = Space::new(dag, &Target::from(target));
            let n_sketches = space.sketches.len() as u16;
            let mut random = Random::new(3);
            for n in 0..40 {
                let point = space.random_of(n % n_sketches, &mut random);
                let Ok(schedule) = Schedule::replay(dag, &space.instructions(&point)) else {
                    continue;
                };
                let Ok(grid) = grid::place(&nest::lower(&schedule)) else { continue };
                let all = estimate(&grid, &target);
                assert!(all.ns > 0.0, "{}: {all:?}", dag.name);
                assert_eq!(all.ns.is_finite(), all.kernels.iter().all(|it| it.occupancy > 0));
                let parts = all.kernels.iter().flat_map(|it| it.parts);
                assert!(parts.into_iter().all(|it| it >= 0.0 && it.is_finite()), "{all:?}");
            }
        }
    }
}

#[test]
fn a_ranking_is_sorted_and_says_what_it_dropped() {
    let (dag, target) = (product(1024), hopper());
    let space = Space::new(&dag, &Target::from(target));
    let ranking = rank(&dag, &target, &space, 300, 300, &mut Random::new(1));
    assert_eq!(ranking, rank(&dag, &target, &space, 300, 300, &mut Random::new(1)));
    assert_eq!(ranking.n_points, 300);
    assert!(ranking.best.is_sorted_by(|a, b| a.estimate.ns <= b.estimate.ns));
    assert!(ranking.best.len() < 300 && ranking.best.len() > 100, "{}", ranking.best.len());
    assert!(ranking.dropped.contains_key("registers"), "{:?}", ranking.dropped);
    let default = estimate(&default_of(&dag, target, ""), &target).ns;
    assert!(ranking.best[0].estimate.ns <= default, "the default is among the points");
    let points: Vec<Point> = ranking.best.iter().map(|it| it.point.clone()).collect();
    let scores = AnalyticModel::new(&dag, target.into(), 2).score(&space, &points);
    assert!(scores.is_sorted() && scores.iter().all(|it| it.is_finite()));
    let small = add(4);
    let space = Space::new(&small, &Target::from(target));
    let ranking = rank(&small, &target, &space, 300, 300, &mut Random::new(1));
    assert!((ranking.n_points as u64) <= space.n_points());
}

#[test]
fn what_does_not_fit_says_why() {
    let (dag, target) = (product(1024), hopper());
    let space = Space::new(&dag, &Target::from(target));
    let with = |wanted: &[(&str, u64)]| {
        let value = |name: &str, _| wanted.iter().find(|it| name.ends_with(it.0)).map(|it| it.1);
        fits(&grid_of(&dag, &space, &space.nearest(0, &value)), &target)
    };
    assert_eq!(with(&[]), Ok(()));
    let kinds = |misfits: Result<(), Vec<ExceededLimit>>| {
        let name = |it: ExceededLimit| {
            it.to_string().split(' ').rev().take(2).collect::<Vec<_>>().join(" ")
        };
        misfits.unwrap_err().into_iter().map(name).collect::<Vec<_>>()
    };
    let large = kinds(with(&[("inner", 16), ("repeats", 1)]));
    assert_eq!(large, ["thread one", "thread one", "unrolled once"]);
    let long = kinds(with(&[("depth", 64), ("inner", 8), ("repeats", 2)]));
    assert!(long.contains(&"unrolled once".to_owned()), "{long:?}");
    let mut grid = default_of(&dag, target, "");
    grid.body[0].shared_bytes = 300 << 10;
    assert_eq!(fits(&grid, &target), Err(vec![ExceededLimit::Shared(300 << 10)]));
    grid.body[0].threads = 2048;
    assert!(fits(&grid, &target).unwrap_err().contains(&ExceededLimit::Threads(2048)));
}

#[test]
fn blocks_that_take_several_tiles_are_no_slower() {
    let product = |m: u64, n: u64, k: u64, dtype: &str| {
        dag(&format!(
            "#[autotune(dims(M = {m}, N = {n}, K = {k}))]
            fn linear(x: Tensor<bf16, M, K>, w: Weight<bf16, N, K>, b: Weight<bf16, N>) -> Tensor<{dtype}, M, N> {{
                let h = compute(|i, j| sum(0..K, |k| x[[i, k]] as f32 * w[[j, k]] as f32));
                compute(|i, j| max(h[[i, j]] + b[[j]] as f32, 0.0) as {dtype})
            }}"
        ))
    };
    let convolution = dag("#[autotune(dims(B = 8, H = 64, C = 128))]
        fn conv(x: Tensor<f16, B, H, H, C>, w: Weight<f16, C, 3, 3, C>) -> Tensor<f32, B, H, H, C> {
            compute(|n, y, p, o| sum((0..3, 0..3, 0..C), |r, s, c| {
                x.get([n, y + r - 1, p + s - 1, c]).unwrap_or(0.0) * w[[o, r, s, c]]
            }))
        }");
    let extents = [(4096, 4096, 4096), (8192, 3072, 768), (2048, 11008, 4096), (2100, 1000, 64)];
    let products = extents.map(|(m, n, k)| product(m, n, k, "bf16"));
    for dag in products.into_iter().chain([product(8192, 8192, 512, "f32"), convolution]) {
        let space = Space::new(&dag, &Target::from(hopper()));
        let n = warp_specialized(&space);
        let default = grid_of(&dag, &space, &space.defaults()[usize::from(n)]);
        assert!(default.body[0].tiles.is_some(), "{}", dag.name);
        let each = |name: &str, _| name.ends_with("persistent").then_some(0);
        let each = grid_of(&dag, &space, &space.nearest(n, &each));
        assert!(each.body[0].tiles.is_none());
        let [turns, each] = [default, each].map(|it| estimate(&it, &hopper()));
        assert_eq!(turns.kernels[0].blocks, 132);
        assert_eq!(turns.kernels[0].waves, each.kernels[0].waves);
        assert_eq!(turns.kernels[0].dram_bytes, each.kernels[0].dram_bytes);
        assert!(turns.ns < each.ns && 0.8 * each.ns < turns.ns, "{turns:?} {each:?}");
    }
}

#[test]
fn blocks_that_divide_tiles_gain_what_others_idle() {
    // Of 66 pairs of blocks: tiles for one round and a few, for one and most of another, for many
    // rounds, and for no round; and which share of the time of whole tiles is left.
    for (m, n, range) in [
        (2560, 1792, 0.5..0.75),
        (4096, 2048, 0.95..1.2),
        (8192, 11008, 0.9..1.02),
        (1024, 1024, 0.3..0.7),
    ] {
        let dag = dag(&format!(
            "#[autotune(dims(M = {m}, N = {n}, K = 8192))]
            fn linear(x: Tensor<bf16, M, K>, w: Weight<bf16, N, K>) -> Tensor<bf16, M, N> {{
                compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
            }}"
        ));
        let space = Space::new(&dag, &Target::from(hopper()));
        let sketch = warp_specialized(&space);
        let large = |blocks: u64| {
            let tile = [("groups", 2), ("rows", 1), ("panels", 4), ("slots", 4), ("cluster", 2)];
            let choices = move |name: &str, _| {
                let mut all = [("persistent", blocks)].into_iter().chain(tile);
                all.find(|it| name.ends_with(it.0)).map(|it| it.1)
            };
            let grid = grid_of(&dag, &space, &space.nearest(sketch, &choices));
            estimate(&grid, &hopper())
        };
        let [whole, divided] = [1, 101].map(large);
        assert_eq!(divided.kernels.len(), 2);
        let ratio = divided.ns / whole.ns;
        assert!(range.contains(&ratio), "{m} {n}: {ratio}");
    }
}

#[test]
fn matrix_instructions_are_worth_it() {
    let product = |dtype: &str| {
        format!(
            "#[autotune(dims(M = 4096, N = 4096, K = 4096))]
            fn matmul(x: Tensor<{dtype}, M, K>, w: Tensor<{dtype}, N, K>) -> Tensor<f32, M, N> {{
                compute(|i, j| sum(0..K, |k| x[[i, k]] as f32 * w[[j, k]] as f32))
            }}"
        )
    };
    let time = |dtype: &str| {
        let dag = dag(&product(dtype));
        estimate(&default_of(&dag, hopper(), ""), &hopper())
    };
    let (wide, narrow) = (time("f32"), time("bf16"));
    assert!(narrow.ns * 3.0 < wide.ns, "{narrow:?} {wide:?}");
    // No faster than the tensor cores are.
    let least = 2.0 * 4096_f64.powi(3) / 989e3;
    assert!(narrow.ns > least, "{narrow:?}");
}

#[test]
fn loops_that_masks_end_count_as_on_average() {
    let dag = dag("#[autotune(dims(H = 32, S = 2048, D = 128))]
        fn attention(q: Tensor<bf16, H, S, D>, k: Tensor<bf16, H, S, D>, v: Tensor<bf16, H, S, D>)
            -> Tensor<bf16, H, S, D> {
            let s = compute(|h, i, j| {
                let x = sum(0..D, |d| q[[h, i, d]] * k[[h, j, d]]);
                if j <= i { x } else { f32::NEG_INFINITY }
            });
            let m = compute(|h, i| max(0..S, |j| s[[h, i, j]]));
            let e = compute(|h, i, j| exp(s[[h, i, j]] - m[[h, i]]));
            let l = compute(|h, i| sum(0..S, |j| e[[h, i, j]]));
            compute(|h, i, d| sum(0..S, |j| e[[h, i, j]] * v[[h, j, d]]) / l[[h, i]])
        }");
    let trimmed = default::schedule(&dag, &Target::Gpu(hopper())).trace;
    let mut whole = trimmed.clone();
    whole.retain(|it| !matches!(it, Instruction::TightenBounds { .. }));
    assert!(whole.len() < trimmed.len());
    let ns = |trace: &[Instruction]| {
        let schedule = Schedule::replay(&dag, trace).unwrap();
        estimate(&grid::place(&nest::lower(&schedule)).unwrap(), &hopper()).ns
    };
    let share = ns(&trimmed) / ns(&whole);
    assert!((0.5..0.6).contains(&share), "{share}");
}
