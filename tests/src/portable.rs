//! Portable code of many schedules: printed as functions of one crate, which cargo builds and a
//! process of its own runs.
//!
//! The process reads the arguments of all launches from a file, and writes for each launch 1 and
//! the results, or 0 if it panicked.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use tvmtune_cpu::rust;
use tvmtune_ir::dag::{DType, Number, TensorId};
use tvmtune_ir::interp::Array;
use tvmtune_schedule::nest::{self, Nest};
use tvmtune_schedule::{Schedule, pack};

/// A launch with its expected results.
pub struct Launch {
    /// A description for readers.
    pub label: String,
    /// The scheduled program.
    pub nest: Nest,
    /// An extent for each dynamic dimension.
    pub dims: Vec<i64>,
    /// Run-time scalars.
    pub scalars: Vec<Number>,
    /// The parameters, in the layouts of the schedule.
    pub params: Vec<Array>,
    /// The results, by the interpreter.
    pub expected: Vec<Array>,
}

/// The panic message where a file of the crate cannot be written.
const WRITABLE: &str = "the folder can be written";

/// The text around the functions.
const PRELUDE: &str = r#"
#![allow(warnings)]
use tvmtune_runtime as rt;
use std::io::Write;

struct Reader(std::vec::IntoIter<u8>);

impl Reader {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.0.next().unwrap())
    }
    fn len(&mut self) -> usize {
        u64::from_le_bytes(self.take()) as usize
    }
    fn all<T: Element>(&mut self) -> Vec<T> {
        (0..self.len()).map(|_| T::read(self)).collect()
    }
    fn one<T: Element>(&mut self) -> T {
        T::read(self)
    }
    fn zeros<T: Element + Default + Clone>(&mut self) -> Vec<T> {
        vec![T::default(); self.len()]
    }
}

trait Element { fn read(from: &mut Reader) -> Self; fn write(&self, to: &mut Vec<u8>); }
macro_rules! elements { ($($t:ty)*) => { $(impl Element for $t {
    fn read(from: &mut Reader) -> Self { <$t>::from_le_bytes(from.take()) }
    fn write(&self, to: &mut Vec<u8>) { to.extend(self.to_le_bytes()) }
})* } }
elements!(f32 rt::half::f16 rt::half::bf16 f64 i8 u8 i32 u32 i64);
impl Element for bool {
    fn read(from: &mut Reader) -> Self { from.take::<1>() == [1] }
    fn write(&self, to: &mut Vec<u8>) { to.push(*self as u8) }
}
"#;

impl Launch {
    /// Returns the launch of a schedule.
    pub fn new(
        schedule: &Schedule,
        (dims, params, scalars): (&[i64], &[Array], &[Number]),
        expected: Vec<Array>,
    ) -> Self {
        let nest = nest::lower(schedule);
        let stored = |(id, array): (&_, &Array)| match &nest.buffer(*id).layout {
            Some(layout) => pack::pack(array, layout),
            None => array.clone(),
        };
        let params = nest.params.iter().zip(params).map(stored).collect();
        let trace: String = schedule.trace.iter().map(|it| format!("{it}\n")).collect();
        let label = format!("`{}` of {dims:?} by\n{trace}", nest.name);
        Self { label, nest, dims: dims.to_vec(), scalars: scalars.to_vec(), params, expected }
    }
}

/// Runs all launches, each of its text, as a crate of this name in this folder, which is kept;
/// `None` for those that panicked.
pub fn run(
    folder: &Path,
    name: &str,
    launches: &[Launch],
    texts: &[String],
) -> Vec<Option<Vec<Array>>> {
    let folder = folder.join(name);
    let binary = build(&folder, name, &main(launches, texts));
    let arguments = folder.join("arguments");
    fs::write(&arguments, launches.iter().flat_map(argument_bytes).collect::<Vec<u8>>())
        .expect(WRITABLE);
    let output = Command::new(&binary).arg(&arguments).output().expect("the binary was built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut bytes = output.stdout.as_slice();
    launches.iter().map(|it| results(it, &mut bytes)).collect()
}

fn build(folder: &Path, name: &str, main: &str) -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate is in a folder of the workspace");
    let runtime = workspace.join("tvmtune-runtime");
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n\
         [dependencies]\ntvmtune-runtime = {{ path = {runtime:?}, default-features = false, features = [\"half\"] }}\n\
         [profile.dev]\ndebug = false\n"
    );
    fs::create_dir_all(folder.join("src")).expect(WRITABLE);
    fs::write(folder.join("Cargo.toml"), manifest).expect(WRITABLE);
    // The versions that the workspace has are the ones that are here without a network.
    fs::copy(workspace.join("Cargo.lock"), folder.join("Cargo.lock")).expect(WRITABLE);
    fs::write(folder.join("src/main.rs"), main).expect(WRITABLE);
    let target = folder.with_file_name("target");
    let output = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()))
        .args(["build", "--quiet", "--offline", "--target-dir"])
        .arg(&target)
        .current_dir(folder)
        .output()
        .expect("cargo runs, as it runs tests");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join("debug").join(format!("{name}{}", env::consts::EXE_SUFFIX))
}

fn main(launches: &[Launch], texts: &[String]) -> String {
    let mut text = PRELUDE.to_owned();
    let mut calls = String::new();
    for (n, (launch, function_text)) in launches.iter().zip(texts).enumerate() {
        text.push_str(&format!("mod case_{n} {{\nuse super::rt;\n{function_text}}}\n"));
        text.push_str(&function(n, launch));
        calls.push_str(&format!("    run_{n}(&mut reader, &mut results);\n"));
    }
    text.push_str(&format!(
        "fn main() {{\n    \
             std::panic::set_hook(Box::new(|_| {{}}));\n    \
             let arguments = std::fs::read(std::env::args().nth(1).unwrap()).unwrap();\n    \
             let mut reader = Reader(arguments.into_iter());\n    \
             let mut results = Vec::new();\n\
             {calls}    \
             std::io::stdout().write_all(&results).unwrap();\n\
         }}\n"
    ));
    text
}

/// The function that reads the arguments of one launch, and launches.
fn function(n: usize, launch: &Launch) -> String {
    let nest = &launch.nest;
    let mut lets = String::new();
    let mut arguments: Vec<String> = launch.dims.iter().map(|it| format!("{it}_i64")).collect();
    for (n, scalar) in nest.scalars.iter().enumerate() {
        let element = rust::element_type(scalar.dtype);
        lets.push_str(&format!("    let s{n}: {element} = reader.one();\n"));
        arguments.push(format!("s{n}"));
    }
    let element = |it: &TensorId| rust::element_type(nest.buffer(*it).dtype);
    for (n, param) in nest.params.iter().enumerate() {
        let mutable = if nest.outputs.contains(param) { "mut " } else { "" };
        let element = element(param);
        lets.push_str(&format!("    let {mutable}p{n}: Vec<{element}> = reader.all();\n"));
        arguments.push(format!("&{mutable}p{n}"));
    }
    let mut writes = String::new();
    for (n, output) in nest.outputs.iter().enumerate() {
        let name = match nest.params.iter().position(|it| it == output) {
            Some(param) => format!("p{param}"),
            None => {
                let element = element(output);
                lets.push_str(&format!("    let mut r{n}: Vec<{element}> = reader.zeros();\n"));
                arguments.push(format!("&mut r{n}"));
                format!("r{n}")
            }
        };
        writes.push_str(&format!("        {name}.iter().for_each(|it| it.write(results));\n"));
    }
    let arguments = arguments.join(", ");
    format!(
        "fn run_{n}(reader: &mut Reader, results: &mut Vec<u8>) {{\n\
         {lets}    \
             let run = std::panic::AssertUnwindSafe(|| case_{n}::portable({arguments}));\n    \
             let fine = std::panic::catch_unwind(run).is_ok();\n    \
             results.push(fine as u8);\n    \
             if fine {{\n{writes}    }}\n\
         }}\n"
    )
}

fn argument_bytes(launch: &Launch) -> Vec<u8> {
    let Launch { nest, scalars, params, expected, .. } = launch;
    let mut bytes = Vec::new();
    for (scalar, value) in nest.scalars.iter().zip(scalars) {
        bytes.extend(scalar_bytes(scalar.dtype, *value));
    }
    for param in params {
        bytes.extend((param.len() as u64).to_le_bytes());
        bytes.extend(param.bytes());
    }
    let own = expected.iter().zip(&nest.outputs).filter(|(_, it)| !nest.params.contains(it));
    for (result, _) in own {
        bytes.extend((result.len() as u64).to_le_bytes());
    }
    bytes
}

fn scalar_bytes(dtype: DType, value: Number) -> Vec<u8> {
    Array::from_fn(dtype, &[1], |_| value).bytes()
}

/// Takes the results of one launch from what the process wrote.
fn results(launch: &Launch, bytes: &mut &[u8]) -> Option<Vec<Array>> {
    let fine = bytes.split_off_first() == Some(&1);
    let result = |it: &Array| {
        let n_bytes = it.len() * it.dtype.bytes() as usize;
        let taken = bytes.split_off(..n_bytes).expect("the process wrote every result");
        Array::from_bytes(it.dtype, &it.shape, taken)
    };
    fine.then(|| launch.expected.iter().map(result).collect())
}
