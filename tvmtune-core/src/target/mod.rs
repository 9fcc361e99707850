//! What a schedule may count on: the limits of a kind of device, and the identity of one.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kernel::Isa;

/// A CPU as generated code and the search see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The instruction set code is generated for.
    pub isa: Isa,
    /// Threads that may run at once.
    pub threads: u32,
    /// First-level data cache of one core, in bytes.
    pub l1_bytes: u64,
    /// Second-level cache of one core, in bytes.
    pub l2_bytes: u64,
}

/// The identity of a device: records of one device time another only by chance.
///
/// The text is `cpu-<isa>-l1:<KiB>-l2:<KiB>-t<threads>`. Model names are left out: hypervisors
/// make them up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeviceKey(pub String);

impl Target {
    /// The key under which records of this device are kept.
    pub fn key(&self) -> DeviceKey {
        let (l1, l2) = (self.l1_bytes / 1024, self.l2_bytes / 1024);
        DeviceKey(format!("cpu-{}-l1:{l1}-l2:{l2}-t{}", self.isa.name(), self.threads))
    }

    /// A machine nobody has seen: what schedules are made for where nothing was measured.
    pub fn generic(isa: Isa) -> Self {
        Self { isa, threads: 4, l1_bytes: 32 * 1024, l2_bytes: 1024 * 1024 }
    }
}

impl fmt::Display for DeviceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
