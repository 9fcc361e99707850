//! Bindings of C headers for kernels that take a struct, made by `bindgen` where a package has none.
//!
//! In: a [`Header`]. Out: Rust, in `tvmtune/bindings/` of the package, to be committed and shipped: whoever
//! builds the package next needs neither this feature nor libclang. Next: the macro reads it.
//!
//! `bindgen` loads libclang, which may end the process: it runs in a process of its own, the program of the
//! build script or `cargo tvmtune` once more.
//!
//! # Invariants
//!
//! - Bindings follow from the header and what is used of it: no header of the system is looked at, and the
//!   platform is the one of devices, on which `long` has 64 bits.
//! - Only the struct, and constants that the attribute mentions, are in them.

mod libclang;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use bindgen::callbacks::{EnumVariantCustomBehavior, EnumVariantValue, ParseCallbacks};
use serde::{Deserialize, Serialize};
use tvmtune_plan::database::atomic;
use tvmtune_plan::printable::one_line;
use tvmtune_plan::source::Header;

/// Set in a process that is to run `bindgen`.
const ROLE: &str = "TVMTUNE_ROLE_BINDINGS";

/// Headers that libclang has no copy of by itself.
const FREESTANDING: [(&str, &str); 4] = [
    ("stddef.h", include_str!("../../include/stddef.h")),
    ("stdint.h", include_str!("../../include/stdint.h")),
    ("stdbool.h", include_str!("../../include/stdbool.h")),
    ("limits.h", include_str!("../../include/limits.h")),
];

/// Arguments of clang: the platform of devices, and a meaning for the words of CUDA.
const ARGUMENTS: [&str; 11] = [
    "-x",
    "c++",
    "-std=c++17",
    "--target=x86_64-unknown-linux-gnu",
    "-nostdinc",
    "-D__host__=",
    "-D__device__=",
    "-D__global__=",
    "-D__forceinline__=inline",
    "-D__align__(n)=__attribute__((aligned(n)))",
    "-D__restrict__=__restrict",
];

/// A header, for another process.
#[derive(Serialize, Deserialize)]
struct Request {
    place: String,
    text: String,
    name: String,
    words: Vec<String>,
}

/// Makes bindings for the package in `manifest_dir` and writes them there.
///
/// # Errors
///
/// The reason why there are none, with the next command.
pub(crate) fn make(
    manifest_dir: &Path,
    header: Header,
    why: &'static str,
) -> Result<String, String> {
    let place = header.place();
    let library = libclang::find().ok_or_else(|| {
        format!(
            "`{place}` {why}, and there is no libclang to make them: run `python3 -m pip install libclang`, \
             or name the folder of one by `LIBCLANG_PATH`"
        )
    })?;
    let request = Request {
        place: place.clone(),
        text: header.text.clone(),
        name: header.name.clone(),
        words: header.words.clone(),
    };
    let request = toml::to_string(&request).map_err(|it| it.to_string())?;
    let bindings = asked(&library, &request)
        .map_err(|why| format!("`{place}` has no bindings: {}", one_line(&why)))?;
    let text = format!("{}\n{bindings}", header.first_line());
    let path = manifest_dir.join(header.file());
    let written = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    let written = written.map_err(|it| it.to_string());
    written
        .and_then(|()| atomic::write(&path, text.as_bytes()).map_err(|it| it.to_string()))
        .map_err(|why| format!("cannot write `{}`: {}", header.file(), one_line(&why)))?;
    Ok(text)
}

/// Has another process make bindings.
fn asked(library: &libclang::Library, request: &str) -> Result<String, String> {
    let program = std::env::current_exe().map_err(|it| it.to_string())?;
    let mut command = Command::new(program);
    command.env(ROLE, "yes").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(path) = library.path() {
        command.env("LIBCLANG_PATH", path);
    }
    let mut child = command.spawn().map_err(|it| it.to_string())?;
    let sent = child.stdin.take().map(|mut it| it.write_all(request.as_bytes()));
    let output = child.wait_with_output().map_err(|it| it.to_string())?;
    let [out, error] =
        [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    match (output.status.success(), sent) {
        (true, Some(Ok(()))) => Ok(out),
        _ => Err(error),
    }
}

/// Makes bindings for another process, if this one was started for that; tells if it was.
pub fn serve_if_asked() -> bool {
    let is_asked = std::env::var_os(ROLE).is_some();
    if is_asked {
        let mut text = String::new();
        let made = std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|it| it.to_string())
            .and_then(|_| toml::from_str(&text).map_err(|it| it.to_string()))
            .and_then(|it| bindings(&it));
        match made {
            Ok(text) => print!("{text}"),
            Err(error) => {
                eprintln!("{error}");
                std::process::exit(1);
            }
        }
    }
    is_asked
}

/// The bindings of a header.
fn bindings(request: &Request) -> Result<String, String> {
    let Request { place, text, name, words } = request;
    let folder = tempfile::tempdir().map_err(|it| it.to_string())?;
    for (name, text) in FREESTANDING {
        std::fs::write(folder.path().join(name), text).map_err(|it| it.to_string())?;
    }
    let constants = format!("({})", words.join("|"));
    let include =
        folder.path().to_str().ok_or("the folder for temporary files has no usable name")?;
    let builder = bindgen::Builder::default()
        .header_contents(place, text)
        .clang_args(ARGUMENTS)
        .clang_args(["-isystem", include])
        .allowlist_type(name)
        .allowlist_var(constants)
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .use_core()
        .ctypes_prefix("::core::ffi")
        .disable_header_comment()
        .generate_comments(false)
        .formatter(bindgen::Formatter::Prettyplease);
    let enums = Enums { words: words.clone(), found: Arc::default() };
    let found = enums.found.clone();
    let first = generated(builder.clone().parse_callbacks(Box::new(enums)))?;
    // An enum without a name is listed by its constants, one with a name by that alone.
    let found = found.lock().unwrap_or_else(PoisonError::into_inner);
    match found.is_empty() {
        true => Ok(first),
        false => generated(found.iter().fold(builder, |it, name| it.allowlist_type(name))),
    }
}

fn generated(builder: bindgen::Builder) -> Result<String, String> {
    match builder.generate() {
        Ok(it) => Ok(it.to_string()),
        Err(bindgen::BindgenError::ClangDiagnostic(lines)) => Err(lines),
        Err(other) => Err(other.to_string()),
    }
}

/// The names of enums of which a constant is one of some words.
#[derive(Debug)]
struct Enums {
    words: Vec<String>,
    found: Arc<Mutex<BTreeSet<String>>>,
}

impl ParseCallbacks for Enums {
    fn enum_variant_behavior(
        &self,
        name: Option<&str>,
        variant: &str,
        _: EnumVariantValue,
    ) -> Option<EnumVariantCustomBehavior> {
        // One without a name is spelled by its place.
        let is_name = |it: &&str| !it.contains(['(', ' ']);
        let is_used = self.words.iter().any(|it| it == variant);
        if let Some(name) = name.filter(is_name).filter(|_| is_used) {
            let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
            found.insert(name.to_owned());
        }
        None
    }
}
