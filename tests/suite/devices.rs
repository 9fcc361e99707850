//! Kernels on CUDA devices: all that can be seen without one, and on one if there is.

use half::bf16;
use tvmtune_runtime::cuda::cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use tvmtune_runtime::cuda::cudarc::driver::{CudaSlice, CudaView, CudaViewMut};
use tvmtune_runtime::cuda::{Arch, Device, Stream};
use tvmtune_runtime::raw::cuda::{Format, Function, Image, Param, TableEntry as Entry, Variant};
use tvmtune_runtime::raw::{Backend, Bucket, Call, Layout, Program, Traced, fit};
use tvmtune_runtime::{Error, Isa, Numerics, PlanInfo, Queue, Spec, Tier, Weight, autotune};
use tvmtune_tests::nvrtc::nvrtc;
use tvmtune_tuner::compile::{Compiler, Source};

#[autotune(dims(M = 1..=40, N = 24, K = 10))]
fn linear(x: Tensor<f32, M, K>, w: Weight<f32, N, K>, s: f32) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]) * s)
}

#[autotune(dims(M = 1..=40, N = 24))]
fn widen(x: Tensor<bf16, M, N>) -> (Tensor<f32, M, N>, Tensor<f32, M>) {
    let wide = compute(|i, j| x[[i, j]] as f32);
    (wide, compute(|i| sum(0..N, |j| wide[[i, j]])))
}

/// Set where there is a device for sure: that of the fake driver, which loads PTX only.
pub(crate) const FAKE_DRIVER: &str = "TVMTUNE_TESTS_FAKE_DRIVER";

fn has_fake_driver() -> bool {
    std::env::var_os(FAKE_DRIVER).is_some()
}

/// The first device, if there is one. Whoever gets `None` has checked that this is a value.
fn device() -> Option<Device> {
    match Device::open(0) {
        Ok(device) => Some(device),
        Err(Error::NoDriver { .. } | Error::Device { .. }) if !has_fake_driver() => None,
        Err(other) => panic!("{other}"),
    }
}

/// Launches as an application does: an error comes back as from any other launch.
fn on_a_device(m: usize) -> Result<(), Error> {
    let stream = Device::open(0)?.stream()?;
    let none = |call| move |_| Error::Cuda { kernel: "test", call, reason: "no memory" };
    let x = stream.alloc_zeros::<f32>(m * 10).map_err(none("alloc"))?;
    let mut y = stream.alloc_zeros::<f32>(m * 24).map_err(none("alloc"))?;
    linear(&stream, &x, &Weight::new(vec![0.0; 240]), 1.0, &mut y)
}

#[test]
fn a_missing_driver_or_missing_code_is_an_error_value() {
    let error = on_a_device(2).unwrap_err();
    match error {
        Error::NoDriver { tried } => {
            assert!(tried.contains("libcuda.so.1: ") || cfg!(windows), "{tried}");
            assert_eq!(Device::count().unwrap_err(), error);
            assert!(error.to_string().starts_with("no CUDA driver: tried "), "{error}");
        }
        // Nothing was planned for this crate, so it has no code for any device.
        Error::NoCode { kernel, .. } => assert_eq!(kernel, "linear"),
        Error::Device { ordinal, .. } => assert_eq!(ordinal, 0),
        other => panic!("{other}"),
    }
}

/// Every way to call a kernel on a stream. It runs on no machine: what counts is that it compiles.
#[expect(dead_code, reason = "the compiler checks it")]
fn calls(
    (stream, x, w, y): (&Stream, &CudaSlice<f32>, &Weight<f32>, &mut CudaSlice<f32>),
    (half, sums): (CudaView<'_, bf16>, &mut CudaViewMut<'_, f32>),
) -> Result<PlanInfo, Error> {
    linear(stream, x, w, 2.0, y)?;
    linear(stream, &x.slice(..20), &x.slice(20..), 2.0, &mut y.slice_mut(..48))?;
    widen(stream, &half, y, sums)?;
    let kernel: linear::Kernel<Stream> = linear::load(stream)?;
    kernel.prepare(w)?;
    kernel.launch(stream, linear::Dims { m: 2 }, x, w, 2.0, y)?;
    // SAFETY is the caller's here: `launch_raw` is for addresses.
    let raw = |it: u64| {
        let stream = stream.cu_stream().cast();
        #[expect(unsafe_code, reason = "an unsafe function, called as users call it")]
        // SAFETY: never run.
        unsafe {
            kernel.launch_raw(stream, linear::Dims { m: 2 }, it, it, 2.0, it)
        }
    };
    raw(0)?;
    generic(stream, w)?;
    kernel.clone().plan(linear::Dims { m: 2 })
}

/// Code that does not care where it runs.
fn generic<Q: Queue>(queue: &Q, w: &Weight<f32>) -> Result<(), Error> {
    linear::load(queue)?.prepare(w)
}

#[test]
fn one_function_serves_the_cpu_and_devices() {
    let cpu = tvmtune_runtime::Cpu::new();
    let (w, x, mut y) = (Weight::new(vec![1.0; 240]), vec![0.5; 20], vec![0.0; 48]);
    generic(&cpu, &w).unwrap();
    linear(&cpu, &x, &w, 2.0, &mut y).unwrap();
    assert!(y.iter().all(|it| *it == 10.0), "{y:?}");
    fn copies(_: impl Copy + Send + Sync) {}
    fn shared<T: Clone + Send + Sync>() {}
    copies(linear::load(&cpu).unwrap());
    shared::<linear::Kernel<Stream>>();
}

#[test]
fn errors_of_devices_say_what_to_do() {
    let (kernel, arg) = ("linear", "w");
    let arch = Arch { major: 7, minor: 5, exact: true };
    let text = |error: Error| error.to_string();
    let advice = |reason| {
        let error = Error::Cuda { kernel, call: "cuMemAlloc", reason };
        text(error).rsplit("; ").next().unwrap().to_owned()
    };
    assert_eq!(
        text(Error::NoCode { kernel, arch }),
        "`linear`: no code for sm_75; add the device to `tvmtune.toml` and build with the feature \
         `cuda` of `tvmtune-build`, or launch on `tvmtune_runtime::Cpu`"
    );
    assert_eq!(
        text(Error::PtxTooNew { kernel, ptx: (9, 2), driver: (8, 8) }),
        "`linear`: its code is PTX 9.2, and the driver takes 8.8 at most; update the driver, or \
         build with an older NVRTC"
    );
    assert_eq!(
        text(Error::SharedMemory { kernel, want: 200_000, have: 101_376 }),
        "`linear`: wants 200000 bytes of shared memory in a block, and the device has 101376; its \
         code was tuned for a larger device: tune it for this one"
    );
    assert_eq!(
        text(Error::Unpacked { kernel, arg }),
        "`linear`: weight `w` is packed in another layout than row-major; pass a \
         `tvmtune_runtime::Weight`, which is packed and brought to the device once"
    );
    assert!(text(Error::OtherContext { kernel, arg }).contains("argument `w` is not in the CUDA"));
    assert!(text(Error::OtherStream { kernel }).ends_with("each stream that it is launched on"));
    assert!(advice("CUDA_ERROR_OUT_OF_MEMORY").starts_with("free memory"));
    assert!(advice("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED").contains("before the capture"));
    assert!(advice("CUDA_ERROR_ILLEGAL_ADDRESS").contains("CUDA_LAUNCH_BLOCKING"));
    assert_eq!(Isa::Cuda(arch).to_string(), "sm_75");
}

/// Two functions: `t[i] = x[i] * s` on a temporary, then `y[i] = t[n - 1 - i] + w[i]`, where `w` is
/// stored with its columns first.
const KERNELS: &str = r#"
extern "C" __global__ void scale(const float* x, float* t, float s, long long n) {
  const int i = blockIdx.y * 32 + threadIdx.y * 16 + threadIdx.x;
  if (i < n) t[i] = x[i] * s;
}
extern "C" __global__ void reverse_add(const float* t, const float* w, float* y, int n) {
  extern __shared__ float tile[];
  const int i = blockIdx.x * 32 + threadIdx.x;
  tile[threadIdx.x + 12288] = i < n ? t[n - 1 - i] : 0;
  if (i < n) y[i] = tile[threadIdx.x + 12288] + w[i];
}"#;

static SWAPPED: Layout = Layout { splits: &[], order: &[1, 0] };
static BUCKETS: [Bucket; 1] = [Bucket { ranges: &[(1, 64)], work, variants: &[] }];
static SPEC: Spec = Spec {
    name: "test",
    workload: "0f",
    numerics: Numerics::Free,
    dims: &[("M", 1, 64)],
    params: &[],
    outputs: &[],
};
static TRACED: Traced = Traced { spec: &SPEC, buckets: &BUCKETS };
static TABLE: [Entry; 6] = [
    Entry::Pointer { arg: 0, layout: None, align: 4 },
    Entry::Pointer { arg: 1, layout: Some(&SWAPPED), align: 16 },
    Entry::Pointer { arg: 2, layout: None, align: 4 },
    Entry::Workspace,
    Entry::Scalar(0),
    Entry::Param,
];
static FUNCTIONS: [Function; 2] = [
    Function {
        name: "scale",
        block: [16, 2, 1],
        shared_bytes: 0,
        params: &[Param::Entry(0), Param::Entry(3), Param::Entry(4), Param::Entry(5)],
    },
    Function {
        name: "reverse_add",
        block: [32, 1, 1],
        // More than a kernel has without being asked.
        shared_bytes: 4 * (12288 + 32),
        params: &[Param::Entry(3), Param::Entry(1), Param::Entry(2), Param::Entry(5)],
    },
];

/// A product and a sum for each of `2 * m` elements; three arrays.
fn work(dims: &[i64]) -> [f64; 2] {
    let n = (dims[0] * 2) as f64;
    [2.0 * n, 3.0 * 4.0 * n]
}

fn numbers(dims: &[i64], numbers: &mut [u64]) {
    let n = (dims[0] * 2) as u64;
    (numbers[3], numbers[5]) = (4 * n, n);
    let n_blocks = n.div_ceil(32);
    numbers[6..12].copy_from_slice(&[1, n_blocks, 1, n_blocks, 1, 1]);
}

/// The code of the kernels above for an architecture, as a cubin or as PTX; `None` without NVRTC.
fn image(arch: Arch, as_ptx: bool) -> Option<Image> {
    let as_ptx = as_ptx || has_fake_driver();
    let target = if as_ptx { arch.to_string().replace("sm", "compute") } else { arch.to_string() };
    let source = Source { name: "kernels.cu", text: KERNELS, arch: &target, options: &[] };
    let code = Compiler::new(nvrtc()?, None).compile(&source).unwrap();
    let version = code.ptx_version().unwrap();
    let (format, bytes) = match as_ptx {
        true => (Format::Ptx(version), code.ptx.into_bytes()),
        false => (Format::Cubin, code.cubin),
    };
    Some(Image { arch, format, bytes: Box::leak(bytes.into_boxed_slice()) })
}

/// A program of that image.
fn program(image: Image) -> &'static Program<1> {
    let variant = Variant {
        images: Box::leak(Box::new([image])),
        functions: &FUNCTIONS,
        table: &TABLE,
        maps: &[],
        numbers,
        tier: Tier::Exact,
        median_ns: None,
        effort: tvmtune_runtime::Effort::NONE,
        artifact: "test",
    };
    let cuda: &'static [Variant] = Box::leak(Box::new([variant]));
    Box::leak(Box::new(Program { buckets: &BUCKETS, cuda: Box::leak(Box::new([cuda])) }))
}

#[test]
fn functions_are_passed_as_many_parameters_as_they_have() {
    let Some(image) = image(Arch { major: 8, minor: 0, exact: false }, true) else { return };
    let ptx = str::from_utf8(image.bytes).unwrap();
    for Function { name, params, .. } in &FUNCTIONS {
        let (_, rest) = ptx.split_once(&format!(".entry {name}(")).unwrap();
        let (list, _) = rest.split_once(')').unwrap();
        assert_eq!(list.matches(".param").count(), params.len(), "{name}");
    }
    let mut all = vec![0; program(image).cuda[0][0].n_numbers()];
    numbers(&[17], &mut all);
    assert_eq!(all, [0, 0, 0, 136, 0, 34, 1, 2, 1, 2, 1, 1]);
}

/// Launches the program as generated code does.
fn launch(
    stream: &Stream,
    program: &'static Program<1>,
    (x, w, y): (&CudaSlice<f32>, &Weight<f32>, &mut CudaSlice<f32>),
    m: usize,
) -> Result<(), Error> {
    use tvmtune_runtime::{Constant, Input, Output};
    let kernel = Backend::load(stream, "test", program)?;
    let shape = [2, m];
    let x = fit("test", "x", Input::<f32, Stream>::elements(x, stream))?;
    let w = fit("test", "w", Constant::<f32, Stream>::held(w, stream))?;
    let w = <Stream as Backend>::constant(w, &shape);
    let mut y = fit("test", "y", Output::<f32, Stream>::elements_mut(y, stream))?;
    let chosen = Backend::choose::<1>(stream, "test", &kernel, &[m as i64])?.unwrap();
    let call = Call {
        kernel: "test",
        names: &["x", "w", "y"],
        dims: &[m as i64],
        args: &[
            <Stream as Backend>::input::<f32>(&x),
            <Stream as Backend>::weight::<f32>(&w),
            <Stream as Backend>::output::<f32>(&mut y),
        ],
        scalars: &[f32::to_bits(0.5).into()],
        traced: Some(&TRACED),
    };
    #[expect(unsafe_code, reason = "the call that generated code makes")]
    // SAFETY: the functions read and write `2 * m` elements of each argument.
    unsafe {
        Backend::run(stream, chosen, &call)
    }
}

#[test]
fn code_runs_on_the_device_of_this_machine() {
    let Some(device) = device() else { return };
    let stream = device.stream().unwrap();
    // The emulator runs no cubins.
    for as_ptx in [false, true].into_iter().filter(|as_ptx| *as_ptx || !has_fake_driver()) {
        let Some(image) = image(device.arch(), as_ptx) else { return };
        let program = program(image);
        if let (Format::Ptx(ptx), driver) = (image.format, device.ptx().unwrap())
            && ptx > driver
        {
            let refused = Backend::load(&stream, "test", program).err();
            assert_eq!(refused, Some(Error::PtxTooNew { kernel: "test", ptx, driver }));
            continue;
        }
        for m in [1, 17, 64] {
            let n = 2 * m;
            let x: Vec<f32> = (0..n).map(|it| it as f32).collect();
            let w: Weight<f32> = (0..n).map(|it| 1000.0 * it as f32).collect();
            let on_device = stream.clone_htod(&x).unwrap();
            let mut y = stream.alloc_zeros::<f32>(n).unwrap();
            launch(&stream, program, (&on_device, &w, &mut y), m).unwrap();
            let expected = |it: usize| x[n - 1 - it] * 0.5 + w[it % 2 * m + it / 2];
            let expected: Vec<f32> = (0..n).map(expected).collect();
            assert_eq!(stream.clone_dtoh(&y).unwrap(), expected, "{m}, {:?}", image.format);
        }
    }
}

#[test]
fn code_that_cannot_run_on_the_device_is_refused() {
    let Some(device) = device() else { return };
    let Some(image) = image(device.arch(), has_fake_driver()) else { return };
    let program = program(image);
    let (one, other) = (device.stream().unwrap(), device.stream().unwrap());
    let kernel = Backend::load(&one, "test", program).unwrap();
    let chosen = Backend::choose::<1>(&other, "test", &kernel, &[1]);
    assert_eq!(chosen.err(), Some(Error::OtherStream { kernel: "test" }));
    let (w, mut y) = (Weight::new(vec![0.0; 4]), one.alloc_zeros::<f32>(4).unwrap());
    let x = one.alloc_zeros::<f32>(4).unwrap();
    launch(&one, program, (&x, &w, &mut y), 2).unwrap();
    let none: &'static [Variant] = &[];
    let empty =
        Box::leak(Box::new(Program { buckets: &BUCKETS, cuda: Box::leak(Box::new([none])) }));
    let refused = Backend::load(&one, "test", empty).err();
    assert_eq!(refused, Some(Error::NoCode { kernel: "test", arch: device.arch() }));
}

#[test]
fn a_launch_can_be_captured_once_weights_are_there() {
    let Some(device) = device() else { return };
    let Some(image) = image(device.arch(), has_fake_driver()) else { return };
    #[expect(unsafe_code, reason = "as users do who capture what uses slices")]
    // SAFETY: all that is done here is done on one stream.
    unsafe {
        device.context().disable_event_tracking();
    }
    let (stream, program) = (device.stream().unwrap(), program(image));
    let (m, n) = (17, 34);
    let w: Weight<f32> = (0..n).map(|it| it as f32).collect();
    let mut x = stream.clone_htod(&vec![2.0_f32; n]).unwrap();
    let mut y = stream.alloc_zeros::<f32>(n).unwrap();
    let _kernel = Backend::load(&stream, "test", program).unwrap();

    let mut capture = |x: &CudaSlice<f32>| {
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        stream.begin_capture(mode).unwrap();
        let launched = launch(&stream, program, (x, &w, &mut y), m);
        let graph = stream.end_capture(CUgraphInstantiate_flags(0));
        launched.map(|()| graph.unwrap().expect("a launch was captured"))
    };
    let reason = "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED";
    let refused = Error::Cuda { kernel: "test", call: "cuMemAlloc", reason };
    assert_eq!(capture(&x).err(), Some(refused), "the weight is not on the device yet");

    let mut warm = stream.alloc_zeros::<f32>(n).unwrap();
    launch(&stream, program, (&x, &w, &mut warm), m).unwrap();
    let graph = capture(&x).unwrap();
    for value in [2.0, 6.0] {
        stream.memcpy_htod(&vec![value; n], &mut x).unwrap();
        graph.launch().unwrap();
        stream.synchronize().unwrap();
    }
    drop(graph);
    let expected: Vec<f32> = (0..n).map(|it| 3.0 + w[it % 2 * m + it / 2]).collect();
    assert_eq!(stream.clone_dtoh(&y).unwrap(), expected);
}
