//! Identities of devices.
//!
//! In: a device, or the text of a record. Out: a [`DeviceKey`], which names files. Next: records,
//! logs and models of a device are kept under it.
//!
//! # Invariant
//!
//! - A key is that of a device, spelled as the device spells it, whatever file it was read from: it
//!   has letters, digits, `-`, `_` and `:`, and no two keys differ in case alone.

use std::fmt;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::{CpuTarget, GpuTarget, Target};

/// The identity of a device: timings are valid on devices of the same key only.
///
/// Those of CPUs are described at [`CpuTarget::key`], those of GPUs at [`GpuTarget::key`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct DeviceKey(String);

/// The text is no [`DeviceKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the key of a device that this version of tvmtune knows")]
pub struct UnknownDevice;

impl DeviceKey {
    /// The key of a device that spells it so.
    pub(super) fn spelled(text: String) -> Self {
        Self(text)
    }

    /// Returns the key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the key as a part of the name of a file: Windows allows no colon.
    pub fn file_stem(&self) -> String {
        self.0.replace(':', "_")
    }
}

impl FromStr for DeviceKey {
    type Err = UnknownDevice;

    fn from_str(text: &str) -> Result<Self, UnknownDevice> {
        let cpu = CpuTarget::parse(text).map(Target::Cpu);
        let device = cpu.or_else(|| GpuTarget::parse(text).map(Target::Gpu));
        let key = device.ok_or(UnknownDevice)?.key();
        // Numbers have several spellings: `+4`, `04`.
        if key.0 == text { Ok(key) } else { Err(UnknownDevice) }
    }
}

impl fmt::Display for DeviceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for DeviceKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_as_devices_spell_them_are_keys() {
        for good in [
            "cpu-avx512-l1:48-l2:1024-t3",
            "cpu-avx2-amd:25:1-l1:32-l2:512-t2",
            "cuda-sm_90a-mp132-l2:51200-bw4800-clk1830",
        ] {
            assert_eq!(good.parse::<DeviceKey>().unwrap().as_str(), good);
        }
        for bad in [
            "",
            "cpu-avx512",
            "cpu-avx512/../../../../victim/settings",
            "cpu-avx512-l1:48-l2:1024-t3/../x",
            "../cpu-avx512-l1:48-l2:1024-t3",
            "/cpu-avx512-l1:48-l2:1024-t3",
            "cpu-avx512-l1:48-l2:1024-t3\n",
            "cpu-avx512-l1:48-l2:1024-t+3",
            "cpu-avx512-l1:048-l2:1024-t3",
            "cpu-avx512-l1:48-l2:1024-t0",
            "cpu-avx512-l1:48-l2:1024-t3.",
            "CPU-avx512-l1:48-l2:1024-t3",
            "cpu-avx512-l1:99999999999999999999-l2:1024-t3",
            "cuda-sm_90a-mp132-l2:51200-bw4800-clk1830-",
            "cuda-sm_090a-mp132-l2:51200-bw4800-clk1830",
            "cuda-sm_90a-mp132-l2:51200-bw4800-clk1830/x",
            "aux",
            "con",
        ] {
            assert_eq!(bad.parse::<DeviceKey>(), Err(UnknownDevice), "{bad:?}");
        }
    }

    #[test]
    fn names_of_files_have_no_colons() {
        let key: DeviceKey = "cpu-avx2-amd:25:1-l1:32-l2:512-t2".parse().unwrap();
        assert_eq!(key.file_stem(), "cpu-avx2-amd_25_1-l1_32-l2_512-t2");
    }
}
