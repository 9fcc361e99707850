//! `cargo tvmtune doctor`: what this machine can do, and what may be in the way.

use std::path::Path;

use anyhow::Result;
use tvmtune_build::script::DECLARED;
use tvmtune_build::tune::session;
use tvmtune_ir::target::DeviceKey;
use tvmtune_plan::database::Cache;
use tvmtune_plan::device;
use tvmtune_plan::record::Peaks;
use tvmtune_tuner::compile::Nvrtc;

use crate::Exit;
use crate::output::println;

pub(crate) fn run() -> Result<Exit> {
    let version = env!("CARGO_PKG_VERSION");
    line("version", version);
    let Some(target) = device::detect() else {
        line("device", "none: generated kernels need x86-64 with AVX2, FMA and F16C");
        line("", "everything runs as portable Rust; builds use no records");
        return Ok(Exit::NoDevice);
    };
    let isas: Vec<_> = device::isas().iter().map(|it| it.name()).collect();
    line("device", &target.key().to_string());
    line("instructions", &isas.join(", "));
    line("threads", &target.threads.to_string());
    line("caches", &format!("L1 {} KiB, L2 {} KiB", target.l1_bytes >> 10, target.l2_bytes >> 10));
    peaks(&target.key());
    gpu();
    load();
    cache();
    for name in DECLARED {
        if let Ok(value) = std::env::var(name) {
            line(name, &value);
        }
    }
    build_scripts();
    Ok(Exit::Done)
}

fn line(what: &str, says: &str) {
    println!("{what:<13} {says}");
}

/// Says what this machine does at most.
fn peaks(device: &DeviceKey) {
    let Some(peaks) = Cache::discover().and_then(|it| it.peaks(device)) else {
        line("peaks", "not measured yet: `cargo tvmtune tune` or `bench` do, once");
        return;
    };
    let Peaks { product_gflops, l1_gbps, l2_gbps, l3_gbps, memory_gbps } = peaks;
    line("peaks", &format!("{product_gflops:.0} GFLOP/s in products of f32, all threads"));
    line("", &format!("L1 {l1_gbps:.0} GB/s, L2 {l2_gbps:.0} GB/s, one core"));
    line("", &format!("L3 {l3_gbps:.0} GB/s, memory {memory_gbps:.0} GB/s, all threads"));
}

/// Says which GPU there is, and what compiles for it.
fn gpu() {
    match session::gpu() {
        Ok(gpu) => line("GPU", &gpu.key().to_string()),
        Err(why) => line("GPU", &format!("none: {why}")),
    }
    match Nvrtc::get() {
        Ok(nvrtc) => {
            let (major, minor) = nvrtc.version();
            line("NVRTC", &format!("{major}.{minor}, {}", nvrtc.path().display()));
        }
        Err(_) => {
            line("NVRTC", "none: `python3 -m pip install nvidia-cuda-nvrtc`, for kernels on GPUs");
        }
    }
}

/// Says how busy the machine is: what runs beside a measurement is in its result.
fn load() {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let Some(load) = text.split(' ').next().and_then(|it| it.parse::<f64>().ok()) else { return };
    let verdict = if load < 0.5 { "quiet" } else { "busy: timings will be noisy" };
    line("load", &format!("{load:.2} ({verdict})"));
}

fn cache() {
    let Some(cache) = Cache::discover() else {
        line("cache", "none: set TVMTUNE_CACHE to a folder, or nothing is remembered");
        return;
    };
    let records = cache.records();
    let verdict = match writable(&records) {
        Ok(()) => "writable".to_owned(),
        Err(error) => format!("{error}; set TVMTUNE_CACHE to another folder"),
    };
    line("cache", &format!("{} ({verdict})", records.display()));
}

/// Writes what tuning would write: permissions alone don't tell.
fn writable(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let probe = folder.join(format!(".doctor.{}", std::process::id()));
    std::fs::write(&probe, "")?;
    std::fs::remove_file(&probe)
}

/// Says which process tunes when a build asks for it.
fn build_scripts() {
    let found = tvmtune_build::tune::installed_tool();
    match found {
        Some(path) => line("builds tune", &format!("with {}", path.display())),
        None => {
            line("builds tune", "in the build script: `cargo install cargo-tvmtune` is faster,");
            line("", "or set `opt-level = 3` under `[profile.dev.build-override]`");
        }
    }
}
