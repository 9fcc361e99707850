//! `#[autotune]`, the functions that it makes, and their errors.

use std::sync::Arc;

use half::{bf16, f16};
use tvmtune_runtime::{
    Constant, Cpu, Error, Held, Input, Isa, Output, Tier, Unfit, Weight, autotune, set_threads,
};

#[autotune(dims(M = 1..=40, N = 24, K = 10), buckets(M = [1, 16, 40]))]
pub fn linear(x: Tensor<f32, M, K>, w: Weight<f32, N, K>, b: Weight<f32, N>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]) + b[[j]])
}

#[autotune(dims(R = 1..=9, D = 2..=70))]
fn rms_norm(x: Tensor<f32, R, D>, g: Tensor<f32, D>, eps: f32) -> Tensor<f32, R, D> {
    let squares = compute(|r| sum(0..D, |d| x[[r, d]] * x[[r, d]]));
    compute(|r, d| x[[r, d]] * rsqrt(squares[[r]] / (D as f32) + eps) * g[[d]])
}

/// Neither `B` nor `S` follows from the length of `x` alone.
#[autotune(dims(B = 1..=4, S = 1..=4))]
fn row_sums(x: Tensor<f32, B, S>) -> Tensor<f32, B> {
    compute(|b| sum(0..S, |s| x[[b, s]]))
}

#[autotune(dims(N = 6))]
fn extremes(x: Tensor<i32, N>) -> (Tensor<i32>, Tensor<bool, N>) {
    let largest = compute(|| max(0..N, |n| x[[n]]));
    (largest, compute(|n| x[[n]] == largest[[]]))
}

#[autotune(dims(N = 1..=100))]
fn narrow(x: Tensor<f32, N>) -> (Tensor<f16, N>, Tensor<bf16, N>) {
    (compute(|n| x[[n]] as f16), compute(|n| x[[n]] as bf16))
}

#[autotune(dims(N = 1..=100))]
fn in_f64(x: Tensor<f64, N>, by: f64) -> Tensor<f64, N> {
    compute(|n| exp(x[[n]]) * by)
}

/// Has no machine code.
#[autotune(dims(N = 1..=100))]
fn power_of_f64(x: Tensor<f64, N>) -> Tensor<f64, N> {
    compute(|n| pow(x[[n]], 0.3))
}

const N: usize = 24;
const K: usize = 10;

fn ramp(n: usize) -> Vec<f32> {
    (0..n).map(|it| (it % 7) as f32 - 3.0).collect()
}

fn expected(x: &[f32], w: &[f32], b: &[f32]) -> Vec<f32> {
    let element = |at: usize| {
        let (i, j) = (at / N, at % N);
        (0..K).map(|k| x[i * K + k] * w[j * K + k]).sum::<f32>() + b[j]
    };
    (0..x.len() / K * N).map(element).collect()
}

#[test]
fn dimensions_follow_from_lengths() {
    let (w, b) = (Weight::new(ramp(N * K)), Weight::new(ramp(N)));
    for m in 1..=40 {
        let (x, mut y) = (ramp(m * K), vec![f32::NAN; m * N]);
        linear(&Cpu::new(), &x, &w, &b, &mut y).unwrap();
        assert_eq!(y, expected(&x, &w, &b), "m = {m}");
    }
}

/// Memory of somebody's own that says of itself that it is longer than it is.
struct Boaster(Vec<f32>);

impl Input<f32> for Boaster {
    fn n_elements(&self) -> usize {
        2 * self.0.len()
    }

    fn elements<'a>(&'a self, _: &'a Cpu) -> Result<&'a [f32], Unfit> {
        Ok(&self.0)
    }
}

impl Constant<f32> for Boaster {
    fn n_elements(&self) -> usize {
        Input::n_elements(self)
    }

    fn held<'a>(&'a self, _: &'a Cpu) -> Result<Held<'a, f32, Cpu>, Unfit> {
        Ok(Held::Elements(&self.0[..]))
    }
}

impl Output<f32> for Boaster {
    fn n_elements(&self) -> usize {
        Input::n_elements(self)
    }

    fn elements_mut<'a>(&'a mut self, _: &'a Cpu) -> Result<&'a mut [f32], Unfit> {
        Ok(&mut self.0)
    }
}

#[test]
fn the_elements_of_a_tensor_count_not_the_shape_that_its_type_claims() {
    let (x, w, b) = (ramp(2 * K), ramp(N * K), ramp(N));
    let half = |it: &[f32]| Boaster(it[..it.len() / 2].to_vec());
    let mut y = vec![0.0; 2 * N];
    let arg = |result: Result<(), Error>| match result {
        Err(Error::Length { arg, .. }) => arg,
        other => panic!("{other:?}"),
    };
    assert_eq!(arg(linear(&Cpu::new(), &half(&x), &w, &b, &mut y)), "x");
    assert_eq!(arg(linear(&Cpu::new(), &x, &half(&w), &b, &mut y)), "w");
    assert_eq!(arg(linear(&Cpu::new(), &x, &w, &b, &mut half(&y))), "out");
}

#[test]
fn anything_that_is_a_slice_is_an_argument() {
    let cpu = Cpu::new();
    let (x, w, b): ([f32; K], _, Arc<[f32]>) =
        (std::array::from_fn(|it| it as f32), ramp(N * K), ramp(N).into());
    let want = expected(&x, &w, &b);
    let mut out = [0.0; N];
    linear(&cpu, &x, &w, &b, &mut out).unwrap();
    assert_eq!(out.as_slice(), want);
    let mut out = vec![0.0; N].into_boxed_slice();
    linear(&cpu, x.as_slice(), w.as_slice(), &Weight::from_iter(b.iter().copied()), &mut out)
        .unwrap();
    assert_eq!(&*out, want);
    let out: &mut [f32] = &mut [0.0; N];
    linear(&cpu, &&x, &w, &b, out).unwrap();
    assert_eq!(out, want);
}

#[test]
fn slices_need_no_alignment() {
    let (x, w, b) = (ramp(3 * K + 1), ramp(N * K + 1), ramp(N + 1));
    let mut y = vec![f32::NAN; 3 * N + 2];
    linear(&Cpu::new(), &x[1..], &w[1..], &b[1..], &mut y[1..=3 * N]).unwrap();
    assert_eq!(y[1..=3 * N], expected(&x[1..], &w[1..], &b[1..]));
    assert!(y[0].is_nan() && y[3 * N + 1].is_nan(), "written beyond the slice");
}

/// Runs `linear` with slices of these lengths; returns the error's text.
#[track_caller]
fn refused(x: usize, w: usize, b: usize, y: usize) -> String {
    let (x, w, b, mut y) = (ramp(x), ramp(w), ramp(b), ramp(y));
    let before = y.clone();
    let error = linear(&Cpu::new(), &x, &w, &b, &mut y).unwrap_err();
    assert_eq!(y, before, "written in spite of an error");
    error.to_string()
}

#[test]
fn wrong_lengths_are_errors_that_name_the_argument() {
    for (text, needle) in [
        (refused(19, N * K, N, 2 * N), "no `M` gives argument `x` of shape [M, K] its 19 elements"),
        (refused(20, N * K - 1, N, 2 * N), "argument `w` has 239 elements, expected 240"),
        (refused(20, N * K, N + 1, 2 * N), "argument `b` has 25 elements, expected 24"),
        (refused(20, N * K, N, 2 * N - 1), "argument `out` has 47 elements, expected 48"),
        (refused(20, N * K, N, 3 * N), "argument `out` has 72 elements, expected 48"),
        (refused(20, 0, N, 2 * N), "argument `w` has 0 elements"),
        (refused(0, N * K, N, 0), "dimension `M` is 0, outside of its range 1..=40"),
        (refused(410, N * K, N, 41 * N), "dimension `M` is 41, outside of its range 1..=40"),
    ] {
        assert!(text.starts_with("`linear`: ") && text.contains(needle), "{text}");
    }
}

#[test]
fn dimensions_that_do_not_follow_are_passed() {
    let cpu = Cpu::new();
    let (x, mut out) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [0.0; 2]);
    // `B` follows from the result, and then `S` from `x`.
    row_sums(&cpu, &x, &mut out).unwrap();
    assert_eq!(out, [6.0, 15.0]);
    let kernel = row_sums::load(&cpu).unwrap();
    let mut out = [0.0; 3];
    kernel.launch(&cpu, row_sums::Dims { b: 3, s: 2 }, &x, &mut out).unwrap();
    assert_eq!(out, [3.0, 7.0, 11.0]);
    let error = kernel.launch(&cpu, row_sums::Dims { b: 3, s: 5 }, &x, &mut out).unwrap_err();
    assert_eq!(
        error,
        Error::OutOfRange { kernel: "row_sums", dim: "S", got: 5, lo: 1, hi: 4 },
        "{error}"
    );
    let huge = row_sums::Dims { b: usize::MAX, s: usize::MAX };
    assert!(matches!(kernel.launch(&cpu, huge, &x, &mut out), Err(Error::OutOfRange { .. })));
    assert!(matches!(kernel.plan(huge), Err(Error::OutOfRange { .. })));
}

#[test]
fn scalars_tuples_and_every_width_of_element() {
    let cpu = Cpu::new();
    let (x, g) = ([3.0, 4.0, 6.0, 8.0], [1.0, 2.0]);
    let mut out = [0.0; 4];
    rms_norm(&cpu, &x, &g, 0.5, &mut out).unwrap();
    let root = |squares: f32| (squares / 2.0 + 0.5).sqrt();
    let want = [3.0 / root(25.0), 8.0 / root(25.0), 6.0 / root(100.0), 16.0 / root(100.0)];
    assert!(out.iter().zip(want).all(|(got, want)| (got - want).abs() < 1e-6), "{out:?}");

    let (mut largest, mut is_largest) = ([0], [false; 6]);
    extremes(&cpu, &[3, -1, 7, 7, 0, i32::MIN], &mut largest, &mut is_largest).unwrap();
    assert_eq!(largest, [7]);
    assert_eq!(is_largest, [false, false, true, true, false, false]);

    let x = [1.0, 1.0 / 3.0, 1e-6, 70000.0, f32::NEG_INFINITY];
    let (mut half, mut brain) = ([f16::ZERO; 5], [bf16::ZERO; 5]);
    narrow(&cpu, &x, &mut half, &mut brain).unwrap();
    assert_eq!(half, x.map(f16::from_f32));
    assert_eq!(brain, x.map(bf16::from_f32));

    let mut out = [0.0; 2];
    in_f64(&cpu, &[0.0, 1.0], 2.0, &mut out).unwrap();
    assert!((out[1] - 2.0 * std::f64::consts::E).abs() < 1e-15, "{out:?}");
    power_of_f64(&cpu, &[0.0, 2.0], &mut out).unwrap();
    assert!((out[1] - 2.0_f64.powf(0.3)).abs() < 1e-15, "{out:?}");
    assert_eq!(power_of_f64::plan(power_of_f64::Dims { n: 2 }).unwrap().isa, Isa::Portable);
}

#[test]
fn many_threads_share_a_kernel_and_its_weights() {
    let cpu = Cpu::new();
    let (w, b) = (Weight::new(ramp(N * K)), Weight::new(ramp(N)));
    let kernel = linear::load(&cpu).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (w, b) = (&w, &b);
            scope.spawn(move || {
                for round in 0..50 {
                    let m = (thread * 7 + round) % 40 + 1;
                    let (x, mut y) = (ramp(m * K), vec![f32::NAN; m * N]);
                    kernel.launch(&cpu, linear::Dims { m }, &x, w, b, &mut y).unwrap();
                    assert_eq!(y, expected(&x, w, b));
                }
            });
        }
    });
}

#[test]
fn the_number_of_threads_changes_no_result() {
    let (x, w, b) = (ramp(40 * K), ramp(N * K), ramp(N));
    let want = expected(&x, &w, &b);
    for threads in [1, 2, 5, 0] {
        set_threads(threads);
        for cpu in [Cpu::new(), Cpu::new().alone()] {
            let mut y = vec![f32::NAN; 40 * N];
            linear(&cpu, &x, &w, &b, &mut y).unwrap();
            assert_eq!(y, want);
        }
    }
}

#[test]
fn every_instruction_set_computes_the_same() {
    let (x, w, b) = (ramp(17 * K), ramp(N * K), ramp(N));
    for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
        let cpu = Cpu::new().at_most(isa);
        let mut y = vec![f32::NAN; 17 * N];
        linear(&cpu, &x, &w, &b, &mut y).unwrap();
        assert_eq!(y, expected(&x, &w, &b), "{isa}");
        // A kernel that was loaded for more runs on less.
        let kernel = linear::load(&Cpu::new()).unwrap();
        y.fill(f32::NAN);
        kernel.launch(&cpu, linear::Dims { m: 17 }, &x, &w, &b, &mut y).unwrap();
        assert_eq!(y, expected(&x, &w, &b), "{isa}");
    }
    let mut y = vec![f32::NAN; 17 * N];
    linear::reference(linear::Dims { m: 17 }, &x, &w, &b, &mut y).unwrap();
    assert_eq!(y, expected(&x, &w, &b));
}

#[test]
fn weights_are_packed_ahead_and_once() {
    let cpu = Cpu::new();
    let (w, b) = (Weight::new(ramp(N * K)), Weight::new(ramp(N)));
    let kernel = linear::load(&cpu).unwrap();
    kernel.prepare(&w, &b).unwrap();
    let n_packed = w.n_packed();
    for m in [1, 2, 16, 17, 40] {
        let (x, mut y) = (ramp(m * K), vec![f32::NAN; m * N]);
        kernel.launch(&cpu, linear::Dims { m }, &x, &w, &b, &mut y).unwrap();
    }
    assert_eq!(w.n_packed(), n_packed, "packed in spite of `prepare`");
    let error = kernel.prepare(&b, &b).unwrap_err().to_string();
    assert!(error.contains("argument `w` has 24 elements"), "{error}");
}

#[test]
fn raw_addresses_are_checked() {
    let cpu = Cpu::new();
    let kernel = linear::load(&cpu).unwrap();
    let dims = linear::Dims { m: 2 };
    let (x, w, b, mut y) = (ramp(2 * K), ramp(N * K), ramp(N), vec![0.0; 2 * N]);
    let [x_at, w_at, b_at] = [&x, &w, &b].map(|it| it.as_ptr());
    let launch = |x, w, b, y| {
        #[expect(unsafe_code, reason = "this is what is tested")]
        // SAFETY: valid addresses are those of slices of the right lengths; the others are refused.
        unsafe {
            kernel.launch_raw(&cpu, dims, x, w, b, y)
        }
    };
    let y_at = y.as_mut_ptr();
    assert_eq!(
        launch(std::ptr::null(), w_at, b_at, y_at),
        Err(Error::Misaligned { kernel: "linear", arg: "x", align: 4 })
    );
    assert_eq!(
        launch(x_at, w_at.wrapping_byte_add(1), b_at, y_at),
        Err(Error::Misaligned { kernel: "linear", arg: "w", align: 4 })
    );
    for overlapping in [x_at, x_at.wrapping_add(2 * K - 1), x_at.wrapping_sub(2 * N - 1)] {
        assert_eq!(
            launch(x_at, w_at, b_at, overlapping.cast_mut()),
            Err(Error::Overlap { kernel: "linear", a: "out", b: "x" })
        );
    }
    launch(x_at, w_at, b_at, y_at).unwrap();
    assert_eq!(y, expected(&x, &w, &b));
}

#[test]
fn a_kernel_says_what_it_is_and_what_runs() {
    let spec = linear::SPEC;
    assert_eq!((spec.name, spec.workload.len()), ("linear", 64));
    assert_eq!(spec.dims, [("M", 1, 40)]);
    let shapes: Vec<&str> = spec.params.iter().chain(spec.outputs).map(|it| it.shape).collect();
    assert_eq!(shapes, ["[M, K]", "[N, K]", "[N]", "[M, N]"]);
    assert!(spec.params[1].weight && !spec.params[0].weight);
    let bucket = |m| linear::plan(linear::Dims { m }).unwrap().bucket;
    assert_eq!(
        [1, 2, 16, 17, 40].map(|m| bucket(m)[0]),
        [(1, 1), (2, 16), (2, 16), (17, 40), (17, 40)]
    );
    let portable = linear::load(&Cpu::new().at_most(Isa::Portable)).unwrap();
    let plan = portable.plan(linear::Dims { m: 3 }).unwrap();
    assert_eq!((plan.isa, plan.tier, plan.artifact), (Isa::Portable, Tier::Default, ""));
}

/// Under the name of the run-time crate that this module knows it by.
mod renamed {
    use tvmtune_runtime as engine;

    #[engine::autotune(dims(N = 3), crate = crate::macros::renamed::engine)]
    pub(super) fn double(x: Tensor<f32, N>) -> Tensor<f32, N> {
        compute(|n| x[[n]] * 2.0)
    }
}

#[test]
fn kernels_may_stand_in_modules_and_functions_and_rename_the_crate() {
    #[autotune(dims(N = 3))]
    fn halve(x: Tensor<f32, N>) -> Tensor<f32, N> {
        compute(|n| x[[n]] * 0.5)
    }
    let mut out = [0.0; 3];
    renamed::double(&Cpu::new(), &[1.0, 2.0, 3.0], &mut out).unwrap();
    assert_eq!(out, [2.0, 4.0, 6.0]);
    let x = out;
    halve(&Cpu::new(), &x, &mut out).unwrap();
    assert_eq!(out, [1.0, 2.0, 3.0]);
}

/// Names that the generated code uses itself, and words of the language.
#[autotune(dims(N = 1..=8))]
fn awkward_names(
    out: Tensor<f32, N>,
    cpu: Tensor<f32, N>,
    dims: Tensor<f32, N>,
    rt: Tensor<f32, N>,
    args: f32,
    variant: f32,
    code: Tensor<f32, N>,
    r#type: Tensor<f32, N>,
) -> Tensor<f32, N> {
    compute(|n| {
        out[[n]] + cpu[[n]] + dims[[n]] + rt[[n]] + args + variant + code[[n]] + r#type[[n]]
    })
}

#[test]
fn arguments_may_be_called_anything() {
    let (one, mut out) = ([1.0; 2], [0.0; 2]);
    awkward_names(&Cpu::new(), &one, &one, &one, &one, 1.0, 1.0, &one, &one, &mut out).unwrap();
    assert_eq!(out, [8.0; 2]);
}

#[test]
fn errors_of_a_program_are_reported_at_once_and_calls_get_none() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("ui/*.rs");
}
