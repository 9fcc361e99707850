//! The process that launches candidates, so that they may hang, crash, and write where they like.
//!
//! In: orders on standard input. Out: replies on standard output. After an error of the driver it
//! ends, since nothing that comes after one in the same process can be trusted.

use std::fs;
use std::io::{BufRead, Write};
use std::path::PathBuf;

use anyhow::Result;
use tvmtune_core::codegen::GeneratedCuda;
use tvmtune_core::codegen::embed::cuda::ptx_version;
use tvmtune_core::interp::{Array, pack};
use tvmtune_core::schedule::Layout;
use tvmtune_runtime::Error;
use tvmtune_runtime::cuda::cudarc::driver::sys::CUdevice_attribute_enum as Attribute;
use tvmtune_runtime::cuda::nvrtc::Nvrtc;
use tvmtune_runtime::cuda::{Arch, Buffer, Device, Stream, Trial};
use tvmtune_runtime::raw::cuda::Format;
use tvmtune_tuner::compile::{Compiler, Source};

use crate::item::{Goal, Item, Manifest};
use crate::load;
use crate::problem::Problem;
use crate::protocol::{self, Order, Outcome, Reply};
use crate::timing::{Bench, Launches};

/// What results hold before anything is written.
const POISON: u8 = 0xff;

/// Follows orders until there are no more.
///
/// # Errors
///
/// If there is no device, or whoever started this is gone.
pub fn run(folder: PathBuf) -> Result<()> {
    let device = Device::open(0)?;
    let stream = device.stream()?;
    let arch = Manifest::read(&folder).ok().map(|it| it.arch);
    let mut worker = Worker { device, stream, folder, arch, bench: None, given: None };
    for line in std::io::stdin().lock().lines() {
        let (reply, is_over) = match serde_json::from_str(&line?)? {
            Order::Device => (Reply::Device(worker.device()?), false),
            Order::Try(item, limit_ns) => {
                let outcome = worker.attempt(&item, limit_ns);
                let is_over = matches!(outcome, Outcome::Failed(_));
                (Reply::Tried(outcome), is_over)
            }
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(&reply)?)?;
        out.flush()?;
        if is_over {
            break;
        }
    }
    Ok(())
}

struct Worker {
    device: Device,
    stream: Stream,
    folder: PathBuf,
    /// What machine code in the bundle is for; `None` if nobody says.
    arch: Option<String>,
    /// Made at the first candidate that is timed.
    bench: Option<Bench>,
    given: Option<Given>,
}

impl Worker {
    fn device(&self) -> Result<protocol::Device> {
        let attribute = |it| {
            let value = self.device.context().attribute(it).unwrap_or(0);
            usize::try_from(value).unwrap_or(0)
        };
        let (free_bytes, memory_bytes) = self.device.context().mem_get_info().unwrap_or((0, 0));
        Ok(protocol::Device {
            name: self.device.name().to_owned(),
            arch: self.device.arch().to_string(),
            multiprocessors: self.device.n_sms(),
            shared_bytes: self.device.shared_bytes(),
            l2_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
            memory_bytes,
            free_bytes,
            clock_khz: attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
            memory_clock_khz: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE),
            ptx: self.device.ptx()?,
        })
    }

    fn attempt(&mut self, item: &Item, limit_ns: Option<f64>) -> Outcome {
        let result = item.problem().map_err(Outcome::Failed).and_then(|(case, problem)| {
            let generated = item.generate(&problem.dag).map_err(Outcome::Failed)?;
            let image = self.image(item, &generated)?;
            let trial = load::load(&generated, image, &self.stream);
            let trial = trial.map_err(outcome)?;
            let launches = item.launches(case, &problem);
            for dims in &launches {
                let mut given = self.given.take().filter(|it| it.is_of(item, dims));
                let given = given.get_or_insert_with(|| Given::new(item, &problem, dims));
                let arguments = given.arguments(&self.device, &problem, &generated);
                let arguments = arguments.map_err(outcome)?;
                let results = self.results(&problem, &arguments, &trial, dims)?;
                let difference = problem.difference(dims, &given.params, &results);
                self.given = Some(std::mem::take(given));
                if let Some(difference) = difference {
                    return Err(Outcome::Wrong(difference));
                }
                if item.goal == Goal::Time {
                    let launches = (&trial, dims.as_slice(), limit_ns);
                    return self.time(&problem, launches, arguments).map_err(outcome);
                }
            }
            Ok(Outcome::Right(launches.len()))
        });
        result.unwrap_or_else(|outcome| outcome)
    }

    /// The code for this device: that of the bundle, or made by the NVRTC of this machine.
    fn image(
        &self,
        item: &Item,
        generated: &GeneratedCuda,
    ) -> Result<(Format, Arch, Vec<u8>), Outcome> {
        let arch = self.device.arch();
        let bytes = fs::read(self.folder.join(&item.image)).unwrap_or_default();
        if item.image.ends_with(".ptx") {
            let text = String::from_utf8_lossy(&bytes);
            let (version, target) = ptx_version(&text)
                .zip(ptx_target(&text))
                .ok_or_else(|| Outcome::Skipped(format!("`{}` is no PTX", item.image)))?;
            return Ok((Format::Ptx(version), target, bytes));
        }
        let is_for = self.arch.as_ref().is_none_or(|it| *it == arch.to_string());
        if is_for && !bytes.is_empty() {
            return Ok((Format::Cubin, arch, bytes));
        }
        let nvrtc = Nvrtc::get().map_err(|it| {
            Outcome::Skipped(format!("no code for {arch} in the bundle, and no compiler: {it}"))
        })?;
        let text = &generated.unit.source;
        let name = arch.to_string();
        let source = Source { name: "kernel.cu", text, arch: &name, options: &[] };
        let code = Compiler::new(nvrtc, None).compile(&source);
        let code = code.map_err(|it| Outcome::Skipped(it.to_string()))?;
        Ok((Format::Cubin, arch, code.cubin))
    }

    /// What one launch leaves in its results.
    fn results(
        &self,
        problem: &Problem,
        arguments: &[Buffer],
        trial: &Trial,
        dims: &[i64],
    ) -> Result<Vec<Array>, Outcome> {
        let all: Vec<&Buffer> = arguments.iter().collect();
        trial.try_out(dims, &all, &scalars(problem)).map_err(outcome)?;
        let types = problem.results(dims);
        let first = arguments.len() - types.len();
        let read = |(buffer, (dtype, shape)): (&Buffer, (_, Vec<u64>))| {
            Ok(Array::from_bytes(dtype, &shape, &buffer.read()?))
        };
        arguments[first..].iter().zip(types).map(read).collect::<Result<_, _>>().map_err(outcome)
    }

    fn time(
        &mut self,
        problem: &Problem,
        (trial, dims, limit_ns): (&Trial, &[i64], Option<f64>),
        arguments: Vec<Buffer>,
    ) -> Result<Outcome, Error> {
        let bench = match self.bench.take() {
            Some(bench) => bench,
            None => Bench::new(&self.device, &self.stream)?,
        };
        let scalars = scalars(problem);
        let launches = Launches { trial, dims, scalars: &scalars };
        let outcome = bench.time(&launches, arguments, limit_ns);
        self.bench = Some(bench);
        outcome
    }
}

/// The parameters of a problem, in host memory and on the device, kept for the next candidate.
#[derive(Default)]
struct Given {
    case: String,
    text: String,
    dims: Vec<i64>,
    params: Vec<Array>,
    /// By position, in the layouts that candidates asked for.
    uploaded: Vec<(usize, Option<Layout>, Buffer)>,
}

impl Given {
    fn new(item: &Item, problem: &Problem, dims: &[i64]) -> Self {
        let (case, text) = (item.case.clone(), item.dims.clone());
        Self { case, text, dims: dims.to_vec(), params: problem.params(dims), uploaded: Vec::new() }
    }

    fn is_of(&self, item: &Item, dims: &[i64]) -> bool {
        self.case == item.case && self.text == item.dims && self.dims == dims
    }

    /// Memory for parameters and results, in order, that is a candidate's own.
    fn arguments(
        &mut self,
        device: &Device,
        problem: &Problem,
        generated: &GeneratedCuda,
    ) -> Result<Vec<Buffer>, Error> {
        let grid = &generated.grid;
        let mut arguments = Vec::new();
        for (n, id) in grid.params.iter().enumerate() {
            let layout = &grid.buffer(*id).layout;
            let known = self.uploaded.iter().position(|it| (it.0, &it.1) == (n, layout));
            let position = match known {
                Some(position) => position,
                None => {
                    let array = &self.params[n];
                    let bytes = match layout {
                        Some(layout) => pack(array, layout).bytes(),
                        None => array.bytes(),
                    };
                    let buffer = Buffer::of(device, &bytes)?;
                    self.uploaded.push((n, layout.clone(), buffer));
                    self.uploaded.len() - 1
                }
            };
            arguments.push(self.uploaded[position].2.copy(device)?);
        }
        for (dtype, shape) in problem.results(&self.dims) {
            let n_bytes = (shape.iter().product::<u64>() * dtype.bytes()) as usize;
            arguments.push(Buffer::new(device, n_bytes, POISON)?);
        }
        Ok(arguments)
    }
}

/// What PTX is for: `.target sm_90`.
fn ptx_target(text: &str) -> Option<Arch> {
    let line = text.lines().find_map(|it| it.strip_prefix(".target sm_"))?;
    let digits = line.trim_end_matches(|it: char| !it.is_ascii_digit());
    let sm: u8 = digits.parse().ok()?;
    Some(Arch { major: sm / 10, minor: sm % 10, exact: line.contains('a') })
}

fn scalars(problem: &Problem) -> Vec<u64> {
    let types = problem.dag.scalars.iter().map(|it| it.dtype);
    problem.scalars().into_iter().zip(types).map(|(it, dtype)| load::bits(it, dtype)).collect()
}

/// What an error says of the candidate.
fn outcome(error: Error) -> Outcome {
    match error {
        Error::NoCode { .. } | Error::PtxTooNew { .. } | Error::SharedMemory { .. } => {
            Outcome::Skipped(error.to_string())
        }
        Error::Cuda {
            reason: "CUDA_ERROR_OUT_OF_MEMORY" | "CUDA_ERROR_NO_BINARY_FOR_GPU", ..
        } => Outcome::Skipped(error.to_string()),
        other => Outcome::Failed(other.to_string()),
    }
}
