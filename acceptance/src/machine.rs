//! The state of the GPU during measurements: clocks, throttling, other processes.
//!
//! All of it comes from `nvidia-smi`, and is left out where there is none. Nothing is ever set.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Properties that are queried once.
const FACTS: &str = "name,uuid,driver_version,vbios_version,pstate,clocks.max.sm,clocks.max.mem,\
                     power.limit,temperature.gpu,memory.used,utilization.gpu,mig.mode.current";
/// Properties that are sampled during a run.
const STATE: &str = "timestamp,clocks.sm,clocks.mem,power.draw,temperature.gpu,\
                     clocks_event_reasons.active,utilization.gpu,memory.used";
/// The sampling period.
const EVERY_MS: &str = "250";

/// Returns the properties of the first GPU, as `name: value`; empty without `nvidia-smi`.
pub fn facts() -> Vec<(String, String)> {
    let Some(line) = query(&["--query-gpu", FACTS]) else { return Vec::new() };
    let names = FACTS.split(',').map(|it| it.trim().to_owned());
    names.zip(line.split(", ").map(|it| it.trim().to_owned())).collect()
}

/// Returns the other processes that use a GPU, a line each.
pub fn other_processes() -> Vec<String> {
    let said = Command::new("nvidia-smi")
        .args(["--query-compute-apps=pid,name,used_memory", "--format=csv,noheader"])
        .output();
    let said = said.map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
    said.unwrap_or_default().lines().map(str::to_owned).filter(|it| !it.is_empty()).collect()
}

/// Returns the first line of a query to `nvidia-smi`.
fn query(&[option, fields]: &[&str; 2]) -> Option<String> {
    let said = Command::new("nvidia-smi")
        .args([&format!("{option}={fields}"), "--format=csv,noheader", "--id=0"])
        .output()
        .ok()?;
    let text = String::from_utf8(said.stdout).ok()?;
    said.status.success().then(|| text.lines().next().unwrap_or_default().to_owned())
}

/// A process that writes the state of the GPU to a file, until it is dropped.
pub struct GpuMonitor(Option<Child>);

impl GpuMonitor {
    /// Starts writing, if there is anything to write.
    pub fn start(path: &Path) -> Self {
        let start = || {
            let mut file = File::options().create(true).append(true).open(path).ok()?;
            let mut child = Command::new("nvidia-smi")
                .arg(format!("--query-gpu={STATE}"))
                .args(["--format=csv", "--id=0", "-lms", EVERY_MS])
                .stdin(Stdio::null())
                // Through a pipe, so that it ends with this process, however that ends.
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .ok()?;
            let mut said = child.stdout.take()?;
            std::thread::spawn(move || std::io::copy(&mut said, &mut file));
            Some(child)
        };
        Self(start())
    }
}

impl Drop for GpuMonitor {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            drop(child.kill());
            drop(child.wait());
        }
    }
}
