//! Blocks that divide tiles between them, on GPUs with few multiprocessors: whatever the number of
//! tiles, and of iterations of each, blocks have the same work, and each tile is stored once.

use tvmtune_cuda::Generated;
use tvmtune_cuda::grid::Decomposition;
use tvmtune_emulator::{Fault, Launch, Memory, Module, Options};
use tvmtune_ir::dag::Dag;
use tvmtune_ir::dsl;
use tvmtune_tests::emulate;
use tvmtune_tests::nvrtc::nvrtc;
use tvmtune_tuner::space::Space;

use super::persistent::{data, placed, points, product, small};
use super::programs::{einsum, linear};
use super::{check_assembled, module, ptx, target, timing};

/// The options of the rule that divide tiles between one block for each multiprocessor, or two.
const STREAM_K: [u64; 2] = [101, 102];

/// Returns whether a kernel is divided by stream-K, with a fix-up.
fn divides(generated: &Generated) -> bool {
    generated.grid.body.iter().any(|it| it.tiles.as_ref().is_some_and(|it| it.stream_k.is_some()))
}

/// The points of a program on a GPU of so many multiprocessors whose blocks divide tiles.
fn generated(dag: &Dag, multiprocessors: u32, option: u64, n_random: u64) -> Vec<Generated> {
    let space = Space::new(dag, &small(multiprocessors).into());
    let all = points(&space, n_random, option).into_iter();
    all.filter_map(|it| placed(dag, &space, &it)).filter(divides).collect()
}

/// Runs code with copies that complete early or late, and blocks in some order.
fn run(
    dag: &Dag,
    it: &Generated,
    module: &Module,
    dims: &[i64],
    n: usize,
) -> Result<Option<String>, Box<Fault>> {
    let (params, expected) = data(dag, dims);
    let results = emulate::run(it, module, dims, &params, &[], &timing(n))?;
    let mut all = results.iter().zip(&expected);
    Ok(all
        .find_map(|(it, expected)| it.max_error(expected, 1e-3, 1e-3))
        .map(|it| format!("{it:?}")))
}

/// Runs points on GPUs of 3, 5 and 7 multiprocessors, at each extent of the dynamic dimension.
#[track_caller]
fn check(text: &str, extents: &[i64]) {
    let Some(nvrtc) = nvrtc() else { return };
    let dag = dsl::program(text).unwrap();
    let mut n_placed = 0;
    for (multiprocessors, option, n_random) in
        [(3, STREAM_K[0], 3), (5, STREAM_K[1], 2), (7, STREAM_K[0], 2)]
    {
        for it in generated(&dag, multiprocessors, option, n_random) {
            n_placed += 1;
            let module = module(nvrtc, &it);
            for (n, extent) in extents.iter().enumerate() {
                let error = run(&dag, &it, &module, &[*extent], n)
                    .unwrap_or_else(|fault| panic!("{extent}: {fault}\n{}", it.unit.source));
                assert_eq!(error, None, "{extent}\n{}\n{}", it.nest, it.unit.source);
            }
        }
    }
    assert!(n_placed >= 3, "only {n_placed} points divide tiles");
}

#[test]
fn products_at_any_number_of_tiles() {
    let text = linear("M = 1..=460, N = 200, K = 520", "bf16");
    check(&text, &[1, 63, 64, 65, 127, 129, 191, 257, 449, 460]);
}

#[test]
fn reductions_of_any_length() {
    let tensors = ["Tensor<bf16, M, R, K>", "Tensor<bf16, N, R, K>", "Tensor<f32, M, N>"];
    check(&einsum("M = 200, N = 136, R = 1..=9, K = 72", tensors), &[1, 2, 3, 7, 9]);
}

#[test]
fn convolutions() {
    let tensors = ["Tensor<f16, B, H, W, C>", "Weight<f16, O, T, T, C>", "Tensor<f16, B, H, W, O>"];
    let text = einsum("B = 1..=5, H = 7, W = 14, C = 64, O = 72, T = 3", tensors);
    check(&text, &[1, 2, 5]);
}

#[test]
fn products_in_clusters() {
    let tensors = ["Tensor<f16, B, M, K>", "Tensor<f16, K, N>", "Tensor<f32, B, M, N>"];
    check(&einsum("B = 1..=4, M = 512, N = 136, K = 264", tensors), &[1, 2, 3]);
}

#[test]
fn tiles_that_all_blocks_have_the_same_number_of_are_not_divided() {
    let dag = product("M = 320, N = 64, K = 840");
    assert_eq!(generated(&dag, 5, STREAM_K[0], 0).len(), 0, "five tiles, five blocks");
    assert_eq!(generated(&dag, 3, STREAM_K[0], 0).len(), 1);
}

/// Mistakes in the text of a product whose blocks have a last, whole, and a first work unit.
#[test]
fn mistakes_are_seen() {
    const MISTAKES: &[(&str, &str)] = &[
        // A work unit that no fix-up adds, or that is added twice.
        ("n < parts", "n < parts - 1"),
        (
            "if (const Index parts = work_units.joined())",
            "if (const Index parts = work_units.joined() / 2)",
        ),
        ("work_units.begun()", "work_units.begun() - 1"),
        // A work unit that starts anew, for the producer.
        ("int(64 * k_0 + 64 * first)", "int(64 * k_0)"),
        // A tile that is stored before all of it is there.
        ("if (13 < (-first + end))", "if (0 < (-first + end))"),
        // The partial sums of a first and of a last work unit, at one place.
        ("tvmtune::min<Index>(1, first)", "0"),
    ];
    let Some(nvrtc) = nvrtc() else { return };
    let dag = product("M = 192, N = 64, K = 840");
    let all = generated(&dag, 5, STREAM_K[0], 0);
    let [right] = all.as_slice() else { panic!("one default schedule: {}", all.len()) };
    for (was, is) in MISTAKES {
        let mut wrong = right.clone();
        wrong.unit.source = wrong.unit.source.replace(was, is);
        assert_ne!(wrong.unit.source, right.unit.source, "no {was}\n{}", right.unit.source);
        let module = module(nvrtc, &wrong);
        let result = run(&dag, &wrong, &module, &[], 0);
        assert!(!matches!(result, Ok(None)), "nobody noticed {is}\n{}", wrong.unit.source);
    }
}

/// The assembler keeps the accumulators of large products in registers, and instructions need not wait
/// for one another.
#[test]
fn accumulators_of_work_units_stay_in_registers() {
    let Some(nvrtc) = nvrtc() else { return };
    for dims in ["M = 4096, N = 5120", "M = 1..=8192, N = 11008"] {
        let dag = product(&format!("{dims}, K = 4096"));
        let space = Space::new(&dag, &target().into());
        let generated = placed(&dag, &space, &points(&space, 0, STREAM_K[0])[0]).unwrap();
        assert!(divides(&generated));
        check_assembled(nvrtc, &generated);
    }
}

/// The decomposition on the device: each iteration has one block, all in order, and no block more of
/// them than others; and the cost model counts the same.
#[test]
fn every_iteration_of_every_tile_has_one_block() {
    let Some(nvrtc) = nvrtc() else { return };
    let text = include_str!("../nvrtc/any.cu");
    let kernel = &text[text.find("// Which block has").expect("the kernel is there")..];
    let text = format!("#include \"tvmtune/stream.cuh\"\nusing namespace tvmtune;\n{kernel}");
    let module = Module::parse(&ptx(nvrtc, &text, "compute_90")).unwrap();
    let kernel = module.kernel("parts").unwrap();
    for blocks in [1, 2, 3, 5, 8] {
        for (tiles, depth) in (1..24).flat_map(|it| [(it, 1), (it, 2), (it, 3), (it, 7)]) {
            let mut memory = Memory::new();
            let buffers =
                [tiles * depth, tiles].map(|n| memory.add("i32", vec![0xff; 4 * n as usize]));
            let numbers = [blocks, tiles, depth].map(|it: i32| it.into());
            let arguments: Vec<_> = buffers.map(Into::into).into_iter().chain(numbers).collect();
            let launch = Launch::linear(blocks as u32, 1);
            kernel.run(&launch, &arguments, &mut memory, &Options::default()).unwrap();
            let [block_of, joined] = buffers.map(|it| {
                let number = |it: &[u8]| i32::from_le_bytes(it.try_into().unwrap());
                memory.bytes(it).chunks(4).map(number).collect::<Vec<i32>>()
            });
            let decomposition = Decomposition::new(tiles.into(), depth.into(), blocks.into());
            let what = format!(
                "{tiles} tiles of {depth} for {blocks} blocks: {block_of:?}, {decomposition:?}"
            );
            assert!(block_of.iter().all(|it| (0..blocks).contains(it)), "{what}");
            let (whole, divided) =
                block_of.split_at((decomposition.rounds as i32 * blocks * depth) as usize);
            assert!(divided.is_sorted(), "{what}");
            let work = |of: &[i32]| {
                (0..blocks).map(|n| of.iter().filter(|it| **it == n).count() as i64).max()
            };
            assert_eq!(work(whole), Some(decomposition.rounds * i64::from(depth)), "{what}");
            assert_eq!(work(divided), Some(decomposition.iterations), "{what}");
            for (tile, said) in block_of.chunks(depth as usize).zip(&joined) {
                let n = tile.chunk_by(i32::eq).count() as i32;
                assert_eq!(*said, if n > 1 { n } else { -1 }, "{what}, {joined:?}");
            }
            let all = joined.iter().filter(|it| **it > 0);
            let counted = (all.clone().map(|it| i64::from(*it)).sum::<i64>(), all.count() as i64);
            assert_eq!(counted, (decomposition.work_units, decomposition.split_tiles), "{what}");
        }
    }
}
