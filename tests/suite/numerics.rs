//! Functions of the language hold what docs/language.md promises, on a sample of all of `f32`: by
//! machine code and by portable code. `cargo run -p tvmtune-tests --bin numerics` runs them on all.

use tvmtune_cpu::vector;
use tvmtune_ir::dag::DType;
use tvmtune_ir::interp::{Array, run_in_order};
use tvmtune_ir::{dsl, target};
use tvmtune_runtime::{Cpu, Isa, Weight};
use tvmtune_schedule::{Schedule, nest};
use tvmtune_tests::numerics::ops::{LEN, product};
use tvmtune_tests::numerics::{FUNCTIONS, Function, PAIRS, pairs, sample, worst, worst_pair};

/// The machine with its best code, and with portable code.
fn cpus() -> [Cpu; 2] {
    [Cpu::new(), Cpu::new().at_most(Isa::Portable)]
}

#[test]
fn functions_hold_their_errors() {
    let arguments = sample(100_000);
    let mut faults = Vec::new();
    for cpu in cpus() {
        for it in FUNCTIONS {
            let worst = worst(it, &cpu, &arguments);
            if worst.error > it.limit {
                faults.push(format!("{}, {}: {worst:x?}", it.name, cpu.isa()));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn functions_of_two_numbers_hold_their_errors() {
    let arguments = pairs(50_000);
    let mut faults = Vec::new();
    for cpu in cpus() {
        for it in PAIRS {
            let worst = worst_pair(it, &cpu, &arguments);
            if worst.error > it.limit {
                faults.push(format!("{}, {}: {worst:x?}", it.name, cpu.isa()));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn portable_code_has_the_bits_of_machine_code() {
    let arguments = sample(100_000);
    let [machine, portable] = cpus();
    for it in FUNCTIONS {
        let [fast, slow] = [&machine, &portable].map(|cpu| results(it, cpu, &arguments));
        for ((at, fast), slow) in arguments.iter().zip(&fast).zip(&slow) {
            let both_nan = (it.is_nan)(*fast) && (it.is_nan)(*slow);
            assert!(fast == slow || both_nan, "{}, {at:#x}: {fast:#x}, {slow:#x}", it.name);
        }
    }
    let (a, b): (Vec<f32>, Vec<f32>) = pairs(50_000).into_iter().take(40 * LEN).unzip();
    for it in PAIRS {
        for (a, b) in a.chunks_exact(LEN).zip(b.chunks_exact(LEN)) {
            let [fast, slow] = [&machine, &portable].map(|cpu| {
                let mut results = vec![0.0; LEN];
                (it.run)(cpu, a, b, &mut results);
                results
            });
            for (((a, b), fast), slow) in a.iter().zip(b).zip(&fast).zip(&slow) {
                let same = fast.to_bits() == slow.to_bits() || fast.is_nan() && slow.is_nan();
                assert!(same, "{} of {a:e} and {b:e}: {fast:e}, {slow:e}", it.name);
            }
        }
    }
}

#[test]
fn products_have_the_bits_of_the_definition_on_every_cpu() {
    let source = "#[autotune(dims(M = 1..=9, N = 40, K = 70))]
        fn product(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {
            let h = compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]));
            compute(|i, j| gelu(h[[i, j]]) * exp(h[[i, j]] * 0.1))
        }";
    let dag = dsl::program(source).unwrap();
    let floats = |it: &Array| -> Vec<f32> {
        it.bytes().chunks(4).map(|it| f32::from_le_bytes(it.try_into().unwrap())).collect()
    };
    let bits = |it: &[f32]| -> Vec<u32> { it.iter().map(|it| it.to_bits()).collect() };
    for m in [1, 2, 8, 9] {
        let x = Array::random(DType::F32, &[m, 70], 1);
        let w = Array::random(DType::F32, &[40, 70], 2);
        let expected = run_in_order(&dag, &[m as i64], &[x.clone(), w.clone()], &[]);
        let weight = Weight::new(floats(&w));
        for cpu in cpus() {
            let mut y = vec![0.0; 40 * m as usize];
            product(&cpu, &floats(&x), &weight, &mut y).unwrap();
            assert_eq!(bits(&y), bits(&floats(&expected[0])), "{} rows, {}", m, cpu.isa());
        }
    }
}

/// The results of a function on a CPU.
fn results(function: &Function, cpu: &Cpu, arguments: &[u32]) -> Vec<u32> {
    let mut all = Vec::new();
    for chunk in arguments.chunks(LEN) {
        let (mut padded, mut results) = (chunk.to_vec(), vec![0; LEN]);
        padded.resize(LEN, 0);
        (function.run)(cpu, &padded, &mut results);
        all.extend_from_slice(&results[..chunk.len()]);
    }
    all
}

#[test]
fn vector_code_of_every_width_has_the_same_results() {
    let mut arguments: Vec<u32> = sample(5_000).into_iter().step_by(17).collect();
    // A whole number of vectors of either width.
    arguments.truncate(arguments.len() / 16 * 16);
    for it in FUNCTIONS {
        let [wide, narrow] =
            [target::Isa::Avx512, target::Isa::Avx2].map(|isa| interpreted(it, isa, &arguments));
        for ((at, wide), narrow) in arguments.iter().zip(&wide).zip(&narrow) {
            let both_nan = (it.is_nan)(*wide) && (it.is_nan)(*narrow);
            assert!(wide == narrow || both_nan, "{}, {at:#x}: {wide:#x}, {narrow:#x}", it.name);
            let error = (it.error)(*at, *wide);
            assert!(error <= it.limit, "{}, {at:#x}: {wide:#x} is {error} {}", it.name, it.unit);
        }
    }
}

/// The results of a function as vector code, lane by lane.
fn interpreted(function: &Function, isa: target::Isa, arguments: &[u32]) -> Vec<u32> {
    let n = arguments.len();
    let [from, to] = function.types;
    let source = format!(
        "#[autotune(dims(N = {n}))] fn f(x: Tensor<{from}, N>) -> Tensor<{to}, N> {{
            compute(|i| {})
        }}",
        function.expression
    );
    let dag = dsl::program(&source).unwrap();
    let [from, to] = [from, to].map(|it| it.parse::<DType>().unwrap());
    let shape = [n as u64];
    let bytes = |dtype: DType| dtype.bytes() as usize;
    let elements = arguments.iter().flat_map(|it| it.to_le_bytes()[..bytes(from)].to_vec());
    let params = [Array::from_bytes(from, &shape, &elements.collect::<Vec<u8>>())];
    let trace = ["annotate s0 a0 vectorized".parse().unwrap()];
    let schedule = Schedule::replay(&dag, &trace).unwrap();
    let kernel = vector::lower(&nest::lower(&schedule), isa).unwrap();
    let like = [Array::zeros(to, &shape)];
    let results = tvmtune_cpu::interp::run(&kernel, &[], &params, &[], &like).unwrap();
    let word = |it: &[u8]| it.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
    results[0].bytes().chunks(bytes(to)).map(word).collect()
}
