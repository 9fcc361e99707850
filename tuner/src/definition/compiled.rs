//! A function of Rust as a program, which reads arguments and writes results.
//!
//! The program is the file of the function, as a module, and a `main` that is generated for the types of
//! its arguments. Arguments come through a pipe, as little-endian bytes: each array after the number of its
//! elements, each result as that number alone, each scalar, each dimension. Results go to a file that an
//! argument names, so that the function may print.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
#[cfg(test)]
use std::path::Path;
use std::path::PathBuf;
use std::process::{self, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tvmtune_ir::dag::kernel_template::element_type;
use tvmtune_ir::dag::{DType, Dag, Number, RustFunction, TensorId};
use tvmtune_ir::interp::Array;
use tvmtune_plan::read::{self, limit};

/// The time of one run, at most.
const LIMIT: Duration = Duration::from_secs(60);
/// The time between two looks at a program that runs.
const PAUSE: Duration = Duration::from_millis(2);
/// Lines of an error that are passed on.
const MAX_LINES: usize = 10;

/// Files in the folder of a program.
const MODULE: &str = "reference.rs";
const PROGRAM: &str = "program";

/// A compiled function.
#[derive(Debug)]
pub(super) struct Compiled {
    folder: Folder,
    /// Its name in errors.
    name: String,
    /// Its file in errors.
    file: String,
    /// The number of runs: several may run at once.
    n_runs: AtomicU32,
}

/// A folder that is removed with its owner.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> std::io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = env::temp_dir().join(format!("tvmtune-reference-{}-{n}", process::id()));
            // A process that was killed may have left one.
            match fs::create_dir(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                other => return other.map(|()| Self(path)),
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What stays behind is in a folder for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Compiled {
    /// Compiles a function.
    pub(super) fn new(dag: &Dag, reference: &RustFunction) -> Result<Self, String> {
        let RustFunction { name, file, source } = reference;
        let failed = |it: std::io::Error| format!("`{file}` cannot be compiled: {it}");
        let folder = Folder::new().map_err(failed)?;
        fs::write(folder.0.join(MODULE), source).map_err(failed)?;
        fs::write(folder.0.join("main.rs"), main(dag, name)).map_err(failed)?;
        let compiler = env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc"));
        let mut command = Command::new(&compiler);
        command.args(["--edition=2024", "--cap-lints=allow", "--error-format=short"]);
        command.args(["-Copt-level=2", "-Coverflow-checks=on", "-Cdebug-assertions=on"]);
        command.args(["-o", PROGRAM, "main.rs"]).current_dir(&folder.0).stdin(Stdio::null());
        let output = command.output().map_err(|it| {
            let compiler = compiler.display();
            format!(
                "`{compiler}`, which compiles `{file}`, does not start: {it}; name it by `RUSTC`"
            )
        })?;
        let (name, file, n_runs) = (name.clone(), file.clone(), AtomicU32::new(0));
        let compiled = Self { folder, name, file, n_runs };
        if output.status.success() {
            return Ok(compiled);
        }
        let lines = compiled.lines(&String::from_utf8_lossy(&output.stderr));
        let declaration = reference.declaration(dag);
        let file = &compiled.file;
        Err(format!("`{file}` does not compile; expected `{declaration}`: {lines}"))
    }

    #[cfg(test)]
    pub(super) fn folder(&self) -> &Path {
        &self.folder.0
    }

    /// Runs the function.
    pub(super) fn run(
        &self,
        dag: &Dag,
        dims: &[i64],
        params: &[Array],
        scalars: &[Number],
    ) -> Result<Vec<Array>, String> {
        let failed = |it: std::io::Error| format!("`{}` cannot be run: {it}", self.file);
        let n = self.n_runs.fetch_add(1, Ordering::Relaxed);
        let [said, found] = ["said", "found"].map(|it| self.folder.0.join(format!("{it}-{n}")));
        let errors = File::create(&said).map_err(failed)?;
        let mut command = Command::new(self.folder.0.join(PROGRAM));
        command.arg(&found).current_dir(&self.folder.0);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.stderr(errors).spawn().map_err(failed)?;
        let stdin = child.stdin.take();
        // A program that ends before it has read everything says why itself.
        let _ = stdin.map(|mut it| it.write_all(&arguments(dag, dims, params, scalars)));
        let (name, file) = (&self.name, &self.file);
        let status = wait(&mut child).map_err(failed)?;
        let Some(status) = status else {
            let seconds = LIMIT.as_secs();
            return Err(format!("`{name}` of `{file}` did not return within {seconds} s"));
        };
        if !status.success() {
            let said = read::text(&said, limit::SMALL).unwrap_or_default();
            return Err(format!("`{name}` of `{file}` failed, {status}: {}", self.lines(&said)));
        }
        let n_bytes = dag.outputs.iter().map(|it| n_bytes(dag, dims, *it)).sum();
        let bytes = read::bytes(&found, n_bytes).unwrap_or_default();
        // The folder goes, whatever becomes of these files.
        [said, found].iter().for_each(|it| drop(fs::remove_file(it)));
        results(dag, dims, &bytes)
            .ok_or_else(|| format!("`{name}` of `{file}` ended the process before it returned"))
    }

    /// The first lines of an error, with the name of the user's file.
    fn lines(&self, text: &str) -> String {
        let lines: Vec<&str> = text.lines().filter(|it| !it.is_empty()).take(MAX_LINES).collect();
        lines.join("; ").replace(MODULE, &self.file)
    }
}

/// Waits for a program; `None` if it takes too long, and then it is gone.
fn wait(child: &mut process::Child) -> std::io::Result<Option<ExitStatus>> {
    let clock = Instant::now();
    while clock.elapsed() < LIMIT {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(PAUSE);
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

/// The arguments of a run, as the program reads them.
fn arguments(dag: &Dag, dims: &[i64], params: &[Array], scalars: &[Number]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for it in params {
        bytes.extend((it.len() as u64).to_le_bytes());
        bytes.extend(converted(it, element_type(it.dtype)).bytes());
    }
    for it in &dag.outputs {
        let n_elements: u64 = shape(dag, dims, *it).iter().product();
        bytes.extend(n_elements.to_le_bytes());
    }
    for (value, scalar) in scalars.iter().zip(&dag.scalars) {
        bytes.extend(Array::from_fn(scalar.dtype, &[1], |_| *value).bytes());
    }
    bytes.extend(dims.iter().flat_map(|it| it.to_le_bytes()));
    bytes
}

/// The results of a run; `None` if there are too many or too few bytes.
fn results(dag: &Dag, dims: &[i64], mut bytes: &[u8]) -> Option<Vec<Array>> {
    let mut arrays = Vec::new();
    for it in &dag.outputs {
        let (shape, dtype) = (shape(dag, dims, *it), dag.tensor(*it).dtype);
        let stored = element_type(dtype);
        let n_bytes = n_bytes(dag, dims, *it);
        let (of_array, rest) = bytes.split_at_checked(usize::try_from(n_bytes).ok()?)?;
        arrays.push(converted(&Array::from_bytes(stored, &shape, of_array), dtype));
        bytes = rest;
    }
    bytes.is_empty().then_some(arrays)
}

/// The size of a result, as the program writes it.
fn n_bytes(dag: &Dag, dims: &[i64], tensor: TensorId) -> u64 {
    let stored = element_type(dag.tensor(tensor).dtype);
    shape(dag, dims, tensor).iter().product::<u64>() * stored.bytes()
}

fn shape(dag: &Dag, dims: &[i64], tensor: TensorId) -> Vec<u64> {
    dag.tensor(tensor).shape.iter().map(|it| it.eval_dims(dims) as u64).collect()
}

fn converted(array: &Array, dtype: DType) -> Array {
    if array.dtype == dtype {
        return array.clone();
    }
    Array::from_fn(dtype, &array.shape, |n| array.get(n))
}

/// The text of the program around the function.
fn main(dag: &Dag, name: &str) -> String {
    let mut body = String::new();
    let mut passed = Vec::new();
    for (n, it) in dag.params().enumerate() {
        let read = read(dag.tensor(it).dtype);
        body += &format!("    let p{n} = input.array(|it| {read});\n");
        passed.push(format!("&p{n}"));
    }
    for (n, it) in dag.outputs.iter().enumerate() {
        let zero = match element_type(dag.tensor(*it).dtype) {
            DType::Bool => "false".to_owned(),
            other => format!("0 as {}", other.name()),
        };
        body += &format!("    let mut r{n} = vec![{zero}; input.number() as usize];\n");
        passed.push(format!("&mut r{n}"));
    }
    for (n, it) in dag.scalars.iter().enumerate() {
        let read = read(it.dtype);
        body += &format!("    let s{n} = input.array_of(1, |it| {read})[0];\n");
        passed.push(format!("s{n}"));
    }
    for n in 0..dag.dims.len() {
        body += &format!("    let d{n} = input.number() as usize;\n");
        passed.push(format!("d{n}"));
    }
    body += &format!("    reference::{name}({});\n", passed.join(", "));
    body += "    let mut output = File::create(std::env::args_os().nth(1).unwrap()).unwrap();\n";
    for (n, it) in dag.outputs.iter().enumerate() {
        let bytes = match element_type(dag.tensor(*it).dtype) {
            DType::Bool => "[u8::from(it)]",
            _ => "it.to_le_bytes()",
        };
        body += &format!(
            "    let bytes: Vec<u8> = r{n}.into_iter().flat_map(|it| {bytes}).collect();\n    \
                 output.write_all(&bytes).unwrap();\n"
        );
    }
    format!("{PRELUDE}\nfn main() {{\n{START}{body}}}\n")
}

/// The expression that makes an element of its bytes, `it`.
fn read(dtype: DType) -> String {
    match element_type(dtype) {
        DType::Bool => "<[u8; 1]>::from(it)[0] != 0".to_owned(),
        other => format!("{}::from_le_bytes(it)", other.name()),
    }
}

/// Errors name no process, so that all runs that fail alike say the same.
const START: &str = "    std::panic::set_hook(Box::new(|it| eprintln!(\"{it}\")));
    let mut input = Input(std::io::stdin().lock());
";

const PRELUDE: &str = "use std::fs::File;
use std::io::{Read, Write};

mod reference;

struct Input(std::io::StdinLock<'static>);

impl Input {
    fn number(&mut self) -> u64 {
        self.array_of(1, u64::from_le_bytes)[0]
    }

    fn array<const N: usize, T>(&mut self, element: impl Fn([u8; N]) -> T) -> Vec<T> {
        let n = self.number();
        self.array_of(n as usize, element)
    }

    fn array_of<const N: usize, T>(&mut self, n: usize, element: impl Fn([u8; N]) -> T) -> Vec<T> {
        let mut bytes = vec![0; n * N];
        self.0.read_exact(&mut bytes).unwrap();
        bytes.chunks_exact(N).map(|it| element(it.try_into().unwrap())).collect()
    }
}
";
