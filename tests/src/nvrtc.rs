//! NVRTC for tests: the one that the machine has, or one fetched once by pip.

use std::env;
use std::sync::OnceLock;

use tvmtune_runtime::cuda::nvrtc::Nvrtc;
use tvmtune_runtime::cuda::nvrtc::find::VARIABLE;

use crate::{pip, skip};

/// The Python package that carries NVRTC. CUDA 13.0 prints PTX that every driver of CUDA 13 takes.
const PACKAGE: &str = "nvidia-cuda-nvrtc==13.0.88";

/// The library in that package.
const LIBRARY: &str = "nvidia/cu13/lib/libnvrtc.so.13";

/// Returns NVRTC for a test that can't do without; `None` where there is none, and then the test is
/// reported as skipped.
///
/// # Panics
///
/// On CI, where no test may be skipped for lack of NVRTC.
#[track_caller]
pub fn nvrtc() -> Option<&'static Nvrtc> {
    match find() {
        Ok(nvrtc) => Some(nvrtc),
        Err(error) => {
            assert!(env::var_os("CI").is_none(), "no NVRTC on CI: {error}");
            skip::report(&format!("no NVRTC: {error}"));
            None
        }
    }
}

/// Returns NVRTC for a test that only hands it on to others that may need it.
pub fn optional() -> Option<&'static Nvrtc> {
    find().ok()
}

/// Finds NVRTC: the one that `TVMTUNE_NVRTC` names and no other, or the one that the machine has,
/// or one fetched by pip.
fn find() -> Result<&'static Nvrtc, &'static str> {
    static FETCHED: OnceLock<Result<Nvrtc, String>> = OnceLock::new();
    let found = Nvrtc::get().or_else(|missing| {
        let is_named = env::var_os(VARIABLE).is_some_and(|it| !it.is_empty());
        let fetched = || if is_named { Err(missing.to_string()) } else { fetch() };
        FETCHED.get_or_init(fetched).as_ref()
    });
    found.map_err(String::as_str)
}

fn fetch() -> Result<Nvrtc, String> {
    let library = pip::file(PACKAGE, LIBRARY)?;
    Nvrtc::open(&library).map_err(|it| it.to_string())
}
