//! Kernels on tensors of candle: what slices give, from wherever a tensor lies; and errors that say
//! what to do.

use half::{bf16, f16};
use tvmtune_runtime::candle::candle_core::op::BackpropOp;
use tvmtune_runtime::candle::candle_core::{
    CpuStorage, CudaDevice, CustomOp1, DType, Device, Layout, MetalDevice, Result, Shape, Storage,
    Tensor, Var,
};
use tvmtune_runtime::candle::{self, NewTensor, TensorElement, View};
use tvmtune_runtime::{Cpu, DeviceKind, Error, Output, Unfit, Weight, autotune};

#[autotune(dims(M = 1..=40, N = 24, K = 10), buckets(M = [1, 16, 40]))]
fn linear(x: Tensor<f32, M, K>, w: Weight<f32, N, K>, b: Weight<f32, N>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]) + b[[j]])
}

#[autotune(dims(N = 1..=100))]
fn narrow(x: Tensor<f32, N>, by: f32) -> (Tensor<f16, N>, Tensor<bf16, N>, Tensor<f32>) {
    let scaled = compute(|n| x[[n]] * by);
    let halves = compute(|n| scaled[[n]] as f16);
    (halves, compute(|n| scaled[[n]] as bf16), compute(|| sum(0..N, |n| x[[n]])))
}

#[autotune(dims(R = 1..=20, D = 6))]
fn weigh(q: Tensor<f32, R, D>, k: Tensor<f32, R, D>, v: Tensor<f32, R, D>) -> Tensor<f32, R> {
    compute(|r| sum(0..D, |d| q[[r, d]] * k[[r, d]] * v[[r, d]]))
}

#[autotune(dims(N = 1..=9, K = 3))]
fn rows(x: Tensor<f64, N, K>, w: Weight<f64, K>) -> Tensor<f64, N> {
    compute(|n| sum(0..K, |k| x[[n, k]] * w[[k]]))
}

const CPU: Device = Device::Cpu;
const N: usize = 24;
const K: usize = 10;

fn ramp(n: usize) -> Vec<f32> {
    (0..n).map(|it| (it % 7) as f32 - 3.0).collect()
}

fn tensor(shape: impl Into<Shape>) -> Tensor {
    let shape = shape.into();
    Tensor::from_vec(ramp(shape.elem_count()), shape, &CPU).unwrap()
}

/// The elements, row by row.
fn elements<T: TensorElement>(tensor: &Tensor) -> Vec<T> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

fn weights() -> (Weight<f32>, Weight<f32>) {
    (Weight::new(ramp(N * K)), Weight::new(ramp(N)))
}

/// An error's text, without the backtrace that candle may add.
fn said(error: impl std::fmt::Display) -> String {
    error.to_string().lines().next().unwrap().to_owned()
}

/// Returns the result of `linear` for a tensor.
fn of(x: &Tensor) -> Result<Tensor> {
    let (w, b) = weights();
    let mut y = NewTensor::zeros((x.elem_count() / K, N), x.device())?;
    linear(x.device(), x, &w, &b, &mut y)?;
    Ok(y.into_tensor())
}

/// Returns the result for the same elements in a slice.
fn of_slice(x: &[f32]) -> Vec<f32> {
    let ((w, b), mut y) = (weights(), vec![f32::NAN; x.len() / K * N]);
    linear(&Cpu::new(), x, &w, &b, &mut y).unwrap();
    y
}

#[test]
fn tensors_give_what_slices_give_at_every_extent() {
    for m in 1..=40 {
        let y = of(&tensor((m, K))).unwrap();
        assert_eq!(y.dims(), [m, N]);
        assert_eq!(elements::<f32>(&y), of_slice(&ramp(m * K)), "m = {m}");
    }
    // Only the number of elements matters.
    assert_eq!(elements::<f32>(&of(&tensor((2, 3, K))).unwrap()), of_slice(&ramp(6 * K)));
}

macro_rules! both {
    ($($name:ident, $type:tt, $values:expr;)*) => {
        $(#[autotune(dims(R = 1..=9, D = 1..=40))]
        fn $name(x: Tensor<$type, R, D>) -> (Tensor<$type, R, D>, Tensor<$type, R, D>) {
            let twice = compute(|r, d| x[[r, d]] + x[[r, d]]);
            (twice, compute(|r, d| x[[r, d]] * x[[r, d]]))
        })*

        #[test]
        fn elements_are_of_any_type_that_candle_has_as_well() {
            $({
                let kernel = $name::load(&CPU).unwrap();
                for (r, d) in [(1, 1), (1, 40), (3, 7), (9, 31)] {
                    let values: Vec<$type> = (0..r * d).map(|it| $values(it % 11)).collect();
                    let x = Tensor::from_vec(values.clone(), (r, d), &CPU).unwrap();
                    let mut twice = NewTensor::zeros((r, d), &CPU).unwrap();
                    let mut square = NewTensor::zeros((r, d), &CPU).unwrap();
                    let dims = $name::Dims { r, d };
                    kernel.launch(&CPU, dims, &x, &mut twice, &mut square).unwrap();
                    let expected: Vec<$type> = values.iter().map(|it| *it + *it).collect();
                    assert_eq!(elements::<$type>(&twice.into_tensor()), expected);
                    let expected: Vec<$type> = values.iter().map(|it| *it * *it).collect();
                    assert_eq!(elements::<$type>(&square.into_tensor()), expected);
                }
            })*
        }
    };
}

both! {
    both_f32, f32, |it| it as f32 - 5.5;
    both_f16, f16, |it| f16::from_f32(it as f32 - 5.5);
    both_bf16, bf16, |it| bf16::from_f32(it as f32 - 5.5);
    both_f64, f64, |it| it as f64 - 5.5;
    both_u8, u8, |it| it as u8;
    both_i32, i32, |it| it as i32 - 5;
    both_i64, i64, |it| it as i64 - 5;
}

#[test]
fn several_results_of_several_types() {
    for n in [1, 2, 17, 64, 99, 100] {
        let x = tensor(n);
        let mut half = NewTensor::zeros(n, &CPU).unwrap();
        let mut brain = NewTensor::zeros(n, &CPU).unwrap();
        let mut total = NewTensor::zeros((), &CPU).unwrap();
        narrow(&CPU, &x, 1.5, &mut half, &mut brain, &mut total).unwrap();
        let (half, brain, total) = (half.into_tensor(), brain.into_tensor(), total.into_tensor());
        let scaled = || ramp(n).into_iter().map(|it| it * 1.5);
        assert_eq!(elements::<f16>(&half), scaled().map(f16::from_f32).collect::<Vec<_>>());
        assert_eq!(elements::<bf16>(&brain), scaled().map(bf16::from_f32).collect::<Vec<_>>());
        assert_eq!(total.to_scalar::<f32>().unwrap(), ramp(n).iter().sum::<f32>());
    }
}

#[test]
fn contiguous_tensors_are_taken_from_their_start() {
    let whole = tensor((41, K));
    let all = ramp(41 * K);
    for (start, len) in [(0, 40), (1, 40), (1, 1), (40, 1), (7, 16), (8, 17), (24, 17)] {
        let part = whole.narrow(0, start, len).unwrap();
        let expected = of_slice(&all[start * K..][..len * K]);
        assert_eq!(elements::<f32>(&of(&part).unwrap()), expected, "{start}, {len}");
    }
    // Three arguments in one storage, one of them twice.
    let qkv = tensor((3, 20, 6));
    let [q, k, v] = [0, 1, 2].map(|it| qkv.get(it).unwrap());
    for [q, k, v] in [[&q, &k, &v], [&k, &k, &q]] {
        let mut out = NewTensor::zeros(20, &CPU).unwrap();
        weigh(&CPU, q, k, v, &mut out).unwrap();
        let product = ((q * k).unwrap() * v).unwrap().sum(1).unwrap();
        assert_eq!(elements::<f32>(&out.into_tensor()), elements::<f32>(&product));
    }
}

#[test]
fn strided_tensors_are_refused() {
    let text = "`linear`: argument `x` is not contiguous; pass `.contiguous()?` of it";
    let row = tensor(K);
    for x in [
        tensor((K, 3)).t().unwrap(),
        tensor((3, K + 2)).narrow(1, 1, K).unwrap(),
        row.broadcast_as((3, K)).unwrap(),
    ] {
        assert_eq!(said(of(&x).unwrap_err()), text);
        let x = x.contiguous().unwrap();
        assert_eq!(elements::<f32>(&of(&x).unwrap()), of_slice(&elements::<f32>(&x)));
    }
    let ((w, b), mut y) = (weights(), NewTensor::zeros((1, N), &CPU).unwrap());
    let strided = tensor((K, N)).t().unwrap();
    let error = linear(&CPU, &row, &strided, &b, &mut y).unwrap_err();
    assert_eq!(error, Error::NotContiguous { kernel: "linear", arg: "w" });
    linear(&CPU, &row, &w, &b, &mut y).unwrap();
}

/// Launches `linear`; gives the error's text, and checks that nothing was written.
#[track_caller]
fn refused(device: &Device, x: &Tensor, w: &Tensor, shape: (usize, usize)) -> String {
    let mut y = NewTensor::zeros(shape, &CPU).unwrap();
    let error = linear(device, x, w, &Weight::new(ramp(N)), &mut y).unwrap_err();
    assert!(elements::<f32>(&y.into_tensor()).iter().all(|it| *it == 0.0));
    // As functions that return errors of candle pass it on.
    assert_eq!(said(candle::candle_core::Error::from(error)), error.to_string());
    error.to_string()
}

#[test]
fn wrong_tensors_are_errors_that_say_what_to_do() {
    let (x, w) = (tensor((2, K)), tensor((N, K)));
    let to = |tensor: &Tensor, dtype| tensor.to_dtype(dtype).unwrap();
    let refused_here = |x: &Tensor, w: &Tensor, shape| refused(&CPU, x, w, shape);
    for (text, expected) in [
        (
            refused_here(&to(&x, DType::BF16), &w, (2, N)),
            "argument `x` has elements of bf16, expected f32; convert it with \
             `.to_dtype(DType::F32)`",
        ),
        (
            refused_here(&x, &to(&w, DType::U32), (2, N)),
            "argument `w` has elements of u32, expected f32; convert it with \
             `.to_dtype(DType::F32)`",
        ),
        (
            refused_here(&tensor((2, K + 1)), &w, (2, N)),
            "no `M` gives argument `x` of shape [M, K] its 22 elements; pass a slice whose length \
             is a multiple of what the other dimensions make",
        ),
        (
            refused_here(&x, &tensor((N, K - 1)), (2, N)),
            "argument `w` has 216 elements, expected 240 for shape [N, K]; pass a slice of exactly \
             that length",
        ),
        (
            refused_here(&x, &w, (3, N)),
            "argument `out` has 72 elements, expected 48 for shape [M, N]; pass a slice of exactly \
             that length",
        ),
        (
            refused_here(&tensor((41, K)), &w, (41, N)),
            "dimension `M` is 41, outside of its range 1..=40; launch on parts of the data, or \
             widen `M` in `dims(..)` of `#[autotune]`",
        ),
    ] {
        assert_eq!(text, format!("`linear`: {expected}"));
    }
}

#[test]
fn wrong_devices_are_errors_that_say_what_to_do() {
    let (x, w) = (tensor((2, K)), tensor((N, K)));
    let (cuda, metal) = (Device::Cuda(CudaDevice), Device::Metal(MetalDevice));
    // A device without support in this build can't be launched on.
    assert_eq!(
        refused(&cuda, &x, &w, (2, N)),
        "`linear`: no kernel can be launched on a CUDA device; enable the feature `candle-cuda` of \
         `tvmtune-runtime`"
    );
    let on_metal = "no kernel can be launched on a Metal device; bring the tensors to the CPU with \
                    `.to_device(&Device::Cpu)`";
    assert_eq!(refused(&metal, &x, &w, (2, N)), format!("`linear`: {on_metal}"));
    let error = NewTensor::<f32>::zeros((2, N), &metal).unwrap_err();
    assert_eq!(said(error), format!("`NewTensor::zeros`: {on_metal}"));

    let kernel = linear::load(&CPU).unwrap();
    let (b, mut y) = (Weight::new(ramp(N)), NewTensor::zeros((2, N), &CPU).unwrap());
    let dims = linear::Dims { m: 2 };
    let error = kernel.launch(&cuda, dims, &x, &w, &b, &mut y).unwrap_err();
    assert_eq!(
        said(error),
        "`linear`: argument `x` is in memory of the CPU, and the launch is on a CUDA device; bring \
         it there with `.to_device(..)`, or launch on its device"
    );
    let unfit = y.elements_mut(&cuda).err();
    assert_eq!(unfit, Some(Unfit::OtherDevice { has: DeviceKind::Cpu, wants: DeviceKind::Cuda }));
    let (kernel, loaded, launched) = ("linear", DeviceKind::Cpu, DeviceKind::Cuda);
    assert_eq!(
        said(Error::LoadedElsewhere { kernel, loaded, launched }),
        "`linear`: was loaded for the CPU, and is launched on a CUDA device; call `load` with each \
         device that it is launched on"
    );
}

#[test]
fn weights_are_made_of_tensors() {
    let (x, b) = (tensor((17, K)), Weight::try_from(&tensor(N)).unwrap());
    let expected = of_slice(&ramp(17 * K));
    let kernel = linear::load(&CPU).unwrap();
    let launched = |w: &Weight<f32>| {
        let mut y = NewTensor::zeros((17, N), &CPU).unwrap();
        kernel.prepare(w, &b).unwrap();
        kernel.launch(&CPU, linear::Dims { m: 17 }, &x, w, &b, &mut y).unwrap();
        elements::<f32>(&y.into_tensor())
    };
    let w = tensor((N, K));
    let strided = w.t().unwrap().contiguous().unwrap().t().unwrap();
    assert!(!strided.is_contiguous());
    let part = Tensor::cat(&[&tensor((1, K)), &w], 0).unwrap().narrow(0, 1, N).unwrap();
    for w in [&w, &strided, &part] {
        assert_eq!(launched(&Weight::try_from(w).unwrap()), expected);
    }
    // Tensors are taken as well, variables and parts included.
    for w in [&part, Var::from_tensor(&w).unwrap().as_tensor()] {
        let mut y = NewTensor::zeros((17, N), &CPU).unwrap();
        linear(&CPU, &x, w, &tensor(N), &mut y).unwrap();
        assert_eq!(elements::<f32>(&y.into_tensor()), expected);
    }
    // Of `f64` as well.
    let x = tensor((4, 3)).to_dtype(DType::F64).unwrap();
    let w = tensor((2, 3)).to_dtype(DType::F64).unwrap().get(1).unwrap();
    let expected = x.matmul(&w.unsqueeze(1).unwrap()).unwrap();
    let [mut one, mut two] = [(); 2].map(|()| NewTensor::zeros(4, &CPU).unwrap());
    rows(&CPU, &x, &w, &mut one).unwrap();
    rows(&CPU, &x, &Weight::try_from(&w).unwrap(), &mut two).unwrap();
    for y in [one, two] {
        assert_eq!(elements::<f64>(&y.into_tensor()), elements::<f64>(&expected));
    }
    let w = tensor((N, K));
    let error = Weight::<f16>::try_from(&w).unwrap_err().to_string();
    assert!(error.starts_with("unexpected dtype, expected: F16, got: F32"), "{error}");
}

/// `linear` in candle's graph.
fn graph() -> candle::Op<impl Fn(&Device, [View<'_>; 3]) -> Result<NewTensor<f32>>, f32, 3> {
    candle::op("linear", |device, [x, w, b]| {
        let mut y = NewTensor::zeros((x.dims()[0], w.dims()[0]), device)?;
        linear(device, &x, &w, &b, &mut y)?;
        Ok(y)
    })
}

#[test]
fn operations_are_part_of_the_graph() {
    let x = Var::from_tensor(&tensor((8, K))).unwrap();
    let (w, b) = (tensor((N, K)), tensor(N));
    let y = x.apply_op3(&w, &b, graph()).unwrap();
    assert_eq!((y.dims(), elements::<f32>(&y)), (&[8, N][..], of_slice(&ramp(8 * K))));
    let error = y.sum_all().unwrap().backward().unwrap_err().to_string();
    assert!(error.starts_with("backward is not supported for linear"), "{error}");
    // Without the graph, and of a part: views know where they begin.
    let part = x.narrow(0, 3, 5).unwrap();
    let y = part.apply_op3_no_bwd(&w, &b, &graph()).unwrap();
    assert_eq!(elements::<f32>(&y), of_slice(&ramp(8 * K)[3 * K..]));
    // Results of direct calls have no history.
    assert!(of(&x).unwrap().backward().unwrap().get(&x).is_none());

    let strided = tensor((K, 8)).t().unwrap();
    let error = strided.apply_op3(&w, &b, graph()).unwrap_err().to_string();
    assert!(error.contains("`linear`: argument `x` is not contiguous"), "{error}");

    let one = tensor(7);
    let by_one = candle::op("both", |device, [x]| {
        let mut results = [NewTensor::zeros((1, 7), device)?, NewTensor::zeros((1, 7), device)?];
        let [twice, square] = &mut results;
        both_f32(device, both_f32::Dims { r: 1, d: 7 }, &x, twice, square)?;
        let [twice, _] = results;
        Ok(twice)
    });
    assert_eq!(
        elements::<f32>(&one.apply_op1(by_one).unwrap()),
        elements::<f32>(&(&one + &one).unwrap())
    );
    let by_two = candle::op("weigh", |device, [x, y]| {
        let mut out = NewTensor::zeros(2, device)?;
        weigh(device, &x, &y, &y, &mut out)?;
        Ok(out)
    });
    let [x, y] = [tensor((2, 6)), tensor((3, 6)).narrow(0, 1, 2).unwrap()];
    let product = ((&x * &y).unwrap() * &y).unwrap().sum(1).unwrap();
    assert_eq!(elements::<f32>(&x.apply_op2(&y, by_two).unwrap()), elements::<f32>(&product));
}

/// An operation of the user's own, whose storage and layout do not belong together.
struct Mismatched;

impl CustomOp1 for Mismatched {
    fn name(&self) -> &'static str {
        "mismatched"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        let layout = Layout::contiguous((3, K));
        let ((w, b), mut y) = (weights(), NewTensor::<f32>::zeros((3, N), &CPU)?);
        linear(&CPU, &View::on_cpu(storage, &layout), &w, &b, &mut y)?;
        match y.into_storage() {
            (Storage::Cpu(storage), shape) => Ok((storage, shape)),
            (other, _) => panic!("{other:?}"),
        }
    }
}

#[test]
fn no_layout_reaches_beyond_its_storage() {
    assert!(tensor((3, K)).apply_op1(Mismatched).is_ok());
    let error = tensor((3, K - 1)).apply_op1(Mismatched).unwrap_err();
    assert_eq!(
        said(error),
        "`linear`: the layout of argument `x` reaches beyond its storage; pass the storage and the \
         layout of one tensor"
    );
    // Nor can a tensor be made whose storage is smaller than its shape, and be read.
    let small = Storage::Cpu(CpuStorage::F32(ramp(K)));
    let small = Tensor::from_storage(small, (2, K), BackpropOp::none(), false);
    assert!(of(&small).unwrap_err().to_string().contains("reaches beyond its storage"));
}

#[test]
fn kernels_for_devices_are_shared_by_threads() {
    let kernel = linear::load(&CPU).unwrap();
    assert_eq!(kernel.plan(linear::Dims { m: 3 }), linear::plan(linear::Dims { m: 3 }));
    let ((w, b), x) = (weights(), tensor((40, K)));
    std::thread::scope(|scope| {
        for m in [1, 7, 16, 39] {
            let (kernel, w, b, x) = (kernel.clone(), &w, &b, x.narrow(0, m, 1).unwrap());
            scope.spawn(move || {
                for _ in 0..50 {
                    let mut y = NewTensor::zeros((1, N), &CPU).unwrap();
                    kernel.launch(&CPU, linear::Dims { m: 1 }, &x, w, b, &mut y).unwrap();
                    let y = elements::<f32>(&y.into_tensor());
                    assert_eq!(y, of_slice(&ramp(40 * K)[m * K..][..K]));
                }
            });
        }
    });
}
