//! `types(W in [..])`: one function for several element types, which the types of arguments choose
//! from.

use std::path::Path;

use half::{bf16, f16};
use tvmtune_build::op::Op;
use tvmtune_build::package::Package;
use tvmtune_ir::dag::{DType, Number};
use tvmtune_ir::interp::{self, Array};
use tvmtune_plan::source::Cfg;
use tvmtune_runtime::{Cpu, Element, Error, Weight, autotune};

/// A product with weights of three types.
#[autotune(dims(M = 1..=20, N = 24, K = 10), buckets(M = [1, 20]), types(W in [f32, bf16, i8]))]
pub fn mixed_linear(x: Tensor<f32, M, K>, w: Weight<W, N, K>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]] as f32))
}

/// Neither `B` nor `S` follows from a length, so callers pass them.
#[autotune(dims(B = 1..=4, S = 1..=4), types(A in [f32, f16], T in [i32, f64]))]
fn scaled_transpose(x: Tensor<A, B, S>, by: T) -> (Tensor<A, S, B>, Tensor<T, 2>) {
    let y = compute(|s, b| (x[[b, s]] as f32 * by as f32) as A);
    let z = compute(|_| by);
    (y, z)
}

/// The programs of this package, as a build finds them, whose names begin with this one.
fn scanned(name: &str) -> Vec<Op> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let package = Package::load("tvmtune-tests", folder, None, &Cfg::of_host()).unwrap();
    package.ops.into_iter().filter(|it| it.name().starts_with(name)).collect()
}

fn numbers(array: &Array) -> Vec<f64> {
    (0..array.len()).map(|n| array.get(n).to_f64()).collect()
}

/// Compares `mixed_linear` with the interpreter, on whole numbers, whose sums are exact.
fn check<W: Element>(op: &Op, convert: impl Fn(f64) -> W)
where
    mixed_linear::Program: mixed_linear::Instance<W>,
{
    for m in [1, 2, 7, 20] {
        let params = tvmtune_tests::arguments(&op.dag, &[m], Array::whole_numbers);
        let expected = interp::run(&op.dag, &[m], &params, &[]);
        let x: Vec<f32> = numbers(&params[0]).into_iter().map(|it| it as f32).collect();
        let w: Vec<W> = numbers(&params[1]).into_iter().map(&convert).collect();
        let mut y = vec![f32::NAN; expected[0].len()];
        mixed_linear(&Cpu::new(), &x, &Weight::new(w), &mut y).unwrap();
        let y: Vec<f64> = y.into_iter().map(f64::from).collect();
        assert_eq!(y, numbers(&expected[0]), "{} at {m}", op.name());
    }
}

#[test]
fn the_type_of_an_argument_chooses_the_program() {
    let ops = scanned("mixed_linear");
    let names: Vec<&str> = ops.iter().map(Op::name).collect();
    assert_eq!(names, ["mixed_linear_f32", "mixed_linear_bf16", "mixed_linear_i8"]);
    check(&ops[0], |it| it as f32);
    check(&ops[1], bf16::from_f64);
    check(&ops[2], |it| it as i8);
}

#[test]
fn a_build_and_the_macro_find_the_same_workloads() {
    let ids = |name| scanned(name).iter().map(|it| it.id.to_string()).collect::<Vec<_>>();
    let [f32, bf16, i8] =
        [mixed_linear::f32::SPEC, mixed_linear::bf16::SPEC, mixed_linear::i8::SPEC];
    assert_eq!([f32, bf16, i8].map(|it| it.workload).as_slice(), ids("mixed_linear"));
    assert_eq!((bf16.name, bf16.params[1].dtype), ("mixed_linear_bf16", "bf16"));
    use scaled_transpose as all;
    let specs = [all::f32_i32::SPEC, all::f32_f64::SPEC, all::f16_i32::SPEC, all::f16_f64::SPEC];
    assert_eq!(specs.map(|it| it.workload).as_slice(), ids("scaled_transpose"));
}

#[test]
fn each_program_is_a_kernel_of_its_own() {
    let cpu = Cpu::new();
    let (x, w) = ([1.0; 20], Weight::new(vec![bf16::from_f32(2.0); 240]));
    let (mut y, mut z) = ([0.0; 48], [0.0; 48]);
    let kernel = mixed_linear::bf16::load(&cpu).unwrap();
    kernel.prepare(&w).unwrap();
    kernel.launch(&cpu, mixed_linear::Dims { m: 2 }, &x, &w, &mut y).unwrap();
    mixed_linear::bf16(&cpu, &x, &w, &mut z).unwrap();
    assert_eq!((y, z), ([20.0; 48], [20.0; 48]));
    let bucket = mixed_linear::i8::plan(mixed_linear::Dims { m: 2 }).unwrap().bucket;
    assert_eq!(bucket, [(2, 20)]);
    let error = mixed_linear(&cpu, &x, &[0_i8; 239], &mut y).unwrap_err();
    let Error::Length { kernel, arg, .. } = error else { panic!("{error}") };
    assert_eq!((kernel, arg), ("mixed_linear_i8", "w"));
}

#[test]
fn several_types_scalars_and_passed_dimensions() {
    let cpu = Cpu::new();
    let dims = scaled_transpose::Dims { b: 2, s: 3 };
    let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0].map(f16::from_f32);
    let (mut y, mut z) = ([f16::ZERO; 6], [0; 2]);
    scaled_transpose(&cpu, dims, &x, 2, &mut y, &mut z).unwrap();
    assert_eq!((y.map(f16::to_f32), z), ([2.0, 8.0, 4.0, 10.0, 6.0, 12.0], [2, 2]));
    let op = scanned("scaled_transpose").remove(3);
    let x = Array::from_fn(DType::F16, &[2, 3], |n| Number::Float(x[n].to_f64()));
    let expected = interp::run(&op.dag, &[2, 3], std::slice::from_ref(&x), &[Number::Float(0.5)]);
    let (mut y, mut z) = ([f16::ZERO; 6], [0.0; 2]);
    let x: Vec<f16> = numbers(&x).into_iter().map(f16::from_f64).collect();
    scaled_transpose(&cpu, dims, &x, 0.5_f64, &mut y, &mut z).unwrap();
    assert_eq!(y.map(f16::to_f64).as_slice(), numbers(&expected[0]));
    assert_eq!(z.as_slice(), numbers(&expected[1]));
}
