//! Functions of the language hold what docs/language.md promises, on a sample of all of `f32`: by
//! machine code and by portable code. `cargo run -p tvmtune-tests --bin numerics` runs them on all.

use tvmtune_cpu::vector;
use tvmtune_ir::dag::DType;
use tvmtune_ir::interp::Array;
use tvmtune_ir::{dsl, target};
use tvmtune_runtime::{Cpu, Isa};
use tvmtune_schedule::{Schedule, nest};
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
