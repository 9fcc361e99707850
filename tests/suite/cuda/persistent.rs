//! Blocks that take several tiles, on a GPU with few multiprocessors: at extents with fewer tiles
//! than blocks, as many, one more, and many more; and what the text of such kernels is made of.

use tvmtune_acceptance::case;
use tvmtune_acceptance::problem::Problem;
use tvmtune_cuda::Generated;
use tvmtune_emulator::{Completion, FaultKind, Options};
use tvmtune_ir::dag::Dag;
use tvmtune_ir::dsl;
use tvmtune_ir::interp::Array;
use tvmtune_ir::target::gpu::GpuTarget;
use tvmtune_schedule::Schedule;
use tvmtune_space::sketch::{Decision, TemplateKind};
use tvmtune_tests::nvrtc::nvrtc;
use tvmtune_tests::{arguments, emulate};
use tvmtune_tuner::cost;
use tvmtune_tuner::random::Random;
use tvmtune_tuner::space::{Point, Space};

use super::programs::{einsum, linear};
use super::{
    HOPPER, Launch, check_assembled, check_results, default_point, generate, module, target, timing,
};

/// A small GPU.
pub(super) fn small(multiprocessors: u32) -> GpuTarget {
    GpuTarget { multiprocessors, ..target() }
}

/// Points of the warp-specialized rule for WGMMA, the default one first, with so many blocks for
/// each multiprocessor, or whatever option that is.
pub(super) fn points(space: &Space, n_random: u64, blocks: u64) -> Vec<Point> {
    let default = default_point(space, TemplateKind::WgmmaWarpSpecialized);
    let default = default.expect("there is a rule for producer warps");
    let mut random = Random::new(11);
    let sampled = (0..n_random).map(|_| space.random_of(default.sketch, &mut random));
    let mut points: Vec<Point> = [default.clone()].into_iter().chain(sampled).collect();
    for point in &mut points {
        for (decision, choice) in space.decisions(point).to_vec().iter().zip(&mut point.choices) {
            if decision.name.ends_with("persistent") {
                let option = decision.options.iter().position(|it| *it == blocks);
                *choice = option.expect("an option of the rule") as u16;
            }
        }
    }
    points
}

/// The code of a point, if it can be placed.
pub(super) fn placed(dag: &Dag, space: &Space, point: &Point) -> Option<Generated> {
    generate(&Schedule::replay(dag, &space.instructions(point)).unwrap(), HOPPER).ok()
}

/// Arguments and results.
pub(super) fn data(dag: &Dag, dims: &[i64]) -> (Vec<Array>, Vec<Array>) {
    let params = arguments(dag, dims, Array::whole_numbers);
    let expected = tvmtune_ir::interp::run(dag, dims, &params, &[]);
    (params, expected)
}

/// Runs points on GPUs of 1, 3 and 5 multiprocessors, at each extent of the dynamic dimension;
/// the grid of at least one of them has a property.
#[track_caller]
fn check(text: &str, extents: &[i64], is_seen: &dyn Fn(&Generated) -> bool) {
    let Some(nvrtc) = nvrtc() else { return };
    let dag = dsl::program(text).unwrap();
    let (mut n_placed, mut seen) = (0, false);
    for (multiprocessors, blocks, n_random) in [(3, 1, 3), (5, 2, 2), (1, 1, 1)] {
        let space = Space::new(&dag, &small(multiprocessors).into());
        for point in points(&space, n_random, blocks) {
            let Some(generated) = placed(&dag, &space, &point) else { continue };
            seen |= is_seen(&generated);
            if generated.grid.body.iter().all(|it| it.tiles.is_none()) {
                continue;
            }
            n_placed += 1;
            check_text(&generated);
            let module = module(nvrtc, &generated);
            for (n, extent) in extents.iter().enumerate() {
                let dims = &[*extent];
                let (params, expected) = &data(&dag, dims);
                let launch = Launch { dims, params, scalars: &[], expected };
                check_results(&generated, &module, &launch, &timing(n), &|_| (1e-3, 1e-3));
            }
        }
    }
    assert!(n_placed >= 3, "only {n_placed} points can be placed");
    assert!(seen, "no point has the property that is tested");
}

/// The lines of the block that a line opens.
fn inside<'t>(lines: &[&'t str], opens: usize) -> Vec<&'t str> {
    let depth = |it: &str| it.len() - it.trim_start().len();
    let rest = &lines[opens + 1..];
    let n = rest.iter().take_while(|it| depth(it) > depth(lines[opens])).count();
    rest[..n].to_vec()
}

/// Both sides have one loop over tiles around all that they do; nothing in it makes barriers ready,
/// or starts to count anew.
#[track_caller]
fn check_text(generated: &Generated) {
    let source = &generated.unit.source;
    for (kernel, entry) in generated.grid.body.iter().zip(&generated.unit.entries) {
        if kernel.tiles.is_none() {
            continue;
        }
        let all: Vec<&str> = source.lines().collect();
        let opens = all.iter().position(|it| it.contains(&format!(" {}(", entry.name))).unwrap();
        let lines = inside(&all, opens);
        let position = |lines: &[&str], start: &str| {
            let found = lines.iter().position(|it| it.trim_start().starts_with(start));
            found.unwrap_or_else(|| panic!("no `{start}`\n{source}"))
        };
        let producer = position(&lines, &format!("if (threadIdx.x == {})", kernel.threads));
        for side in [producer, position(&lines, "else {")] {
            let side = inside(&lines, side);
            let over_tiles = |it: &&&str| it.trim_start().starts_with("for (Index tile = ");
            assert_eq!(side.iter().filter(over_tiles).count(), 1, "{source}");
            let opens = position(&side, "for (Index tile = ");
            let each = inside(&side, opens);
            let counts = side[..opens].iter().filter(|it| it.contains("phase_")).count();
            assert_eq!(
                counts,
                kernel.circular_buffers.len(),
                "counted from the first tile on\n{source}"
            );
            for start in ["Index stage", "u32 phase", "mbarrier_init", "cluster_sync", "__sync"] {
                assert!(!each.iter().any(|it| it.trim().starts_with(start)), "{start}\n{source}");
            }
            let around = side.len() - each.len();
            let waits = each.iter().filter(|it| it.contains("mbarrier_wait")).count();
            assert!(waits > 0 && around <= 12, "all is in the loop\n{source}");
        }
    }
}

fn is_in_clusters(generated: &Generated) -> bool {
    generated.grid.body.iter().any(|it| it.tiles.is_some() && it.cluster() > 1)
}

#[test]
fn products_at_any_number_of_tiles() {
    let text = linear("M = 1..=460, N = 200, K = 136", "bf16");
    check(&text, &[1, 63, 64, 65, 127, 129, 191, 257, 449, 460], &|_| true);
}

#[test]
fn products_in_clusters() {
    let tensors = ["Tensor<f16, B, M, K>", "Tensor<f16, K, N>", "Tensor<f32, B, M, N>"];
    let text = einsum("B = 1..=4, M = 512, N = 136, K = 200", tensors);
    check(&text, &[1, 2, 3], &is_in_clusters);
}

#[test]
fn batches_of_products() {
    let tensors = ["Tensor<f16, B, M, K>", "Tensor<f16, B, N, K>", "Tensor<f16, B, M, N>"];
    let text = einsum("B = 1..=13, M = 70, N = 72, K = 80", tensors);
    check(&text, &[1, 2, 5, 13], &|_| true);
}

#[test]
fn pixels_of_any_number_of_pictures() {
    let tensors = ["Tensor<f16, B, H, W, C>", "Weight<f16, O, T, T, C>", "Tensor<f16, B, H, W, O>"];
    let text = einsum("B = 1..=9, C = 64, H = 7, W = 14, O = 72, T = 3", tensors);
    check(&text, &[1, 5, 9], &|_| true);
}

#[test]
fn products_of_a_single_step() {
    check(
        "#[autotune(dims(B = 1..=7, M = 130, N = 136, K = 64))]
        fn scores(q: Tensor<bf16, B, M, K>, k: Tensor<bf16, B, N, K>) -> Tensor<f32, B, M, N> {
            compute(|b, i, j| sum(0..K, |d| q[[b, i, d]] as f32 * k[[b, j, d]] as f32) * 0.125)
        }",
        &[1, 2, 3, 7],
        &|it| it.grid.body.iter().all(|it| !it.producer.is_empty()),
    );
}

#[test]
fn convolutions() {
    check(
        "#[autotune(dims(B = 1..=3, H = 16, C = 64, O = 72))]
        fn conv(x: Tensor<f16, B, H, H, C>, w: Weight<f16, O, 3, 3, C>, b: Weight<f16, O>) -> Tensor<f16, B, H, H, O> {
            let h: Tensor<f32, B, H, H, O> = compute(|n, y, p, o| sum((0..3, 0..3, 0..C), |r, s, c| {
                x.get([n, y + r - 1, p + s - 1, c]).unwrap_or(0.0) * w[[o, r, s, c]]
            }) + b[[o]]);
            compute(|n, y, p, o| max(h[[n, y, p, o]], 0.0))
        }",
        &[1, 3],
        &|_| true,
    );
}

/// A product of matrices.
pub(super) fn product(dims: &str) -> Dag {
    let tensors = ["Tensor<bf16, M, K>", "Weight<bf16, N, K>", "Tensor<f32, M, N>"];
    dsl::program(&einsum(dims, tensors)).unwrap()
}

/// Puts a mistake into the text of a product with several tiles for each block of a GPU with so
/// many multiprocessors; it must be seen.
#[track_caller]
fn check_mistake(
    (dims, multiprocessors): (&str, u32),
    mistake: &dyn Fn(&str) -> String,
    kinds: &[FaultKind],
) {
    let Some(nvrtc) = nvrtc() else { return };
    // The circular buffer goes around in each tile.
    let dag = product(&format!("{dims}, K = 840"));
    let space = Space::new(&dag, &small(multiprocessors).into());
    let mut generated = placed(&dag, &space, &points(&space, 0, 1)[0]).unwrap();
    let before = generated.unit.source.clone();
    generated.unit.source = mistake(&before);
    assert_ne!(before, generated.unit.source, "{before}");
    let module = module(nvrtc, &generated);
    let (params, expected) = data(&dag, &[]);
    for completion in [Completion::Eager, Completion::Late] {
        let options = Options { completion, ..Options::default() };
        match emulate::run(&generated, &module, &[], &params, &[], &options) {
            Err(fault) if kinds.contains(&fault.kind) => return,
            Err(fault) => panic!("{fault}\n{}", generated.unit.source),
            Ok(results) => {
                let error = results[0].max_error(&expected[0], 1e-3, 1e-3);
                assert!(error.is_none(), "a wrong result, but no fault: {error:?}");
            }
        }
    }
    panic!("nobody noticed\n{}", generated.unit.source);
}

/// Three tiles, by one block.
const ALONE: (&str, u32) = ("M = 192, N = 64", 1);
/// Eight tiles, by one cluster.
const CLUSTER: (&str, u32) = ("M = 512, N = 64", 2);

/// The text with the first loop over tiles, which is the producer's, or the last one, changed.
fn with_loop(text: &str, first: bool, change: &dyn Fn(&str) -> String) -> String {
    let is_loop = |it: &&str| it.trim_start().starts_with("for (Index tile = ");
    let mut loops = text.lines().filter(is_loop);
    let line = if first { loops.next() } else { loops.next_back() }.expect("a loop over tiles");
    let at = if first { text.find(line) } else { text.rfind(line) }.expect("it is there");
    format!("{}{}{}", &text[..at], change(line), &text[at + line.len()..])
}

/// The text with both loops over tiles changed.
fn with_loops(text: &str, change: &dyn Fn(&str) -> String) -> String {
    with_loop(&with_loop(text, true, change), false, change)
}

#[test]
fn a_stage_that_starts_anew_with_each_tile_is_seen() {
    // Each side has a count of its own.
    let producer = |it: &str| format!("{it}\nstage = 0; phase_0 = 0;");
    let others = |it: &str| format!("{it}\nstage_2 = 0; phase_0 = 0;");
    let kinds = [FaultKind::Deadlock, FaultKind::Race];
    check_mistake(ALONE, &|text| with_loop(text, true, &producer), &kinds);
    check_mistake(ALONE, &|text| with_loop(text, false, &others), &kinds);
    check_mistake(
        ALONE,
        &|text| with_loop(&with_loop(text, true, &producer), false, &others),
        &kinds,
    );
}

#[test]
fn a_producer_that_is_a_tile_short_or_long_is_seen() {
    let short = |it: &str| it.replacen("tile < ", "tile + 1 < ", 1);
    check_mistake(ALONE, &|text| with_loop(text, true, &short), &[FaultKind::Deadlock]);
    let long = |it: &str| it.replacen("tile < ", "tile < 1 + ", 1);
    let kinds = [FaultKind::Deadlock, FaultKind::ExitWhilePending];
    check_mistake(ALONE, &|text| with_loop(text, true, &long), &kinds);
}

#[test]
fn a_tile_behind_the_last_one_is_seen() {
    let behind = |it: &str| it.replacen("tile < ", "tile < 1 + ", 1);
    check_mistake(ALONE, &|text| with_loops(text, &behind), &[FaultKind::OutOfBounds]);
}

#[test]
fn a_block_with_fewer_tiles_than_the_others_of_its_cluster_is_seen() {
    let fewer = |it: &str| it.replacen("tile < ", "tile + int(cluster_rank()) < ", 1);
    check_mistake(CLUSTER, &|text| with_loops(text, &fewer), &[FaultKind::Deadlock]);
}

/// The assembler keeps the accumulators of large products in registers from one tile to the
/// next, and instructions need not wait for one another.
#[test]
fn accumulators_of_many_tiles_stay_in_registers() {
    let Some(nvrtc) = nvrtc() else { return };
    for (m, n, dtype) in
        [("4096", 4096, "bf16"), ("1..=8192", 11008, "bf16"), ("2048", 4096, "f32")]
    {
        let text = format!(
            "#[autotune(dims(M = {m}, N = {n}, K = 4096))]
            fn linear(x: Tensor<bf16, M, K>, w: Weight<bf16, N, K>, b: Weight<bf16, N>) -> Tensor<{dtype}, M, N> {{
                let h = compute(|i, j| sum(0..K, |k| x[[i, k]] as f32 * w[[j, k]] as f32));
                compute(|i, j| max(h[[i, j]] + b[[j]] as f32, 0.0) as {dtype})
            }}"
        );
        let dag = dsl::program(&text).unwrap();
        let space = Space::new(&dag, &target().into());
        for blocks in [0, 1] {
            let generated = placed(&dag, &space, &points(&space, 0, blocks)[0]).unwrap();
            assert_eq!(generated.grid.body[0].tiles.is_some(), blocks > 0);
            check_assembled(nvrtc, &generated);
        }
    }
}

/// Of everything that is timed on GPUs: what analysis chose is no slower than a tile for each block,
/// as far as the model knows.
#[test]
fn default_schedules_are_predicted_to_be_no_slower() {
    let target = target();
    let (mut n_persistent, mut most) = (0, 0.0_f64);
    for case in case::all() {
        for dims in case.times {
            let dag = Problem::new(case, dims).unwrap().dag;
            let space = Space::new(&dag, &target.into());
            for default in space.defaults() {
                let decisions = space.decisions(&default).to_vec();
                let is_open = |it: &Decision| it.name.ends_with("persistent");
                if !decisions.iter().any(is_open) {
                    continue;
                }
                let mut each = default.clone();
                for (choice, decision) in each.choices.iter_mut().zip(&decisions) {
                    *choice = if is_open(decision) { 0 } else { *choice };
                }
                let [Some(some), Some(each)] = [&default, &each].map(|it| placed(&dag, &space, it))
                else {
                    continue;
                };
                n_persistent += usize::from(some.grid.body.iter().any(|it| it.tiles.is_some()));
                let [some, each] = [some, each].map(|it| cost::gpu::estimate(&it.grid, &target).ns);
                assert!(some <= each, "{} [{dims}]: {some} and {each} ns", case.name());
                most = most.max(each / some);
            }
        }
    }
    assert!(n_persistent >= 10 && most < 1.3, "{n_persistent}, {most}");
}
