//! CPUs as data: what code generation and search know of one, and its identity.

use std::fmt;
use std::str::FromStr;

use super::{DeviceKey, Isa};

/// The model of a CPU for code generation and search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTarget {
    /// The instruction set code is generated for.
    pub isa: Isa,
    /// The design of the processor, if it is known: two of the same caches may differ by twice the
    /// width.
    pub model: Option<CpuModel>,
    /// Threads that may run at once.
    pub threads: u32,
    /// First-level data cache of one core, in bytes.
    pub l1_bytes: u64,
    /// Second-level cache of one core, in bytes.
    pub l2_bytes: u64,
}

/// The design of a processor, as its `cpuid` instruction tells it. Unlike a model's name, which
/// hypervisors make up, they pass it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuModel {
    /// The manufacturer.
    pub vendor: Vendor,
    /// The family, extended.
    pub family: u32,
    /// The model in the family, extended.
    pub model: u32,
}

/// A manufacturer of processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vendor {
    /// `AuthenticAMD`.
    Amd,
    /// `GenuineIntel`.
    Intel,
    /// Any other.
    Other,
}

impl CpuTarget {
    /// The key under which records of this device are kept:
    /// `cpu-<isa>-<vendor>:<family>:<model>-l1:<KiB>-l2:<KiB>-t<threads>`, or without the model if
    /// that is not known, as in records of earlier releases.
    pub fn key(&self) -> DeviceKey {
        let (l1, l2) = (self.l1_bytes / 1024, self.l2_bytes / 1024);
        let model = self.model.map_or(String::new(), |it| format!("-{it}"));
        DeviceKey::spelled(format!(
            "cpu-{}{model}-l1:{l1}-l2:{l2}-t{}",
            self.isa.name(),
            self.threads
        ))
    }

    /// The device of a key; `None` if that is no CPU.
    pub fn from_key(key: &DeviceKey) -> Option<Self> {
        Self::parse(key.as_str())
    }

    /// The device of a key, as text.
    pub(super) fn parse(key: &str) -> Option<Self> {
        let rest = key.strip_prefix("cpu-")?;
        let isa = [Isa::Avx512, Isa::Avx2].into_iter();
        let (isa, rest) = isa.filter_map(|it| Some((it, rest.strip_prefix(it.name())?))).next()?;
        let (model, rest) = rest.split_once("-l1:")?;
        let model = match model.strip_prefix('-') {
            Some(model) => Some(model.parse().ok()?),
            None if model.is_empty() => None,
            None => return None,
        };
        let (l1, rest) = rest.split_once("-l2:")?;
        let (l2, threads) = rest.split_once("-t")?;
        let bytes = |kib: &str| kib.parse::<u64>().ok()?.checked_mul(1024);
        let threads = threads.parse().ok().filter(|it| *it > 0)?;
        Some(Self { isa, model, threads, l1_bytes: bytes(l1)?, l2_bytes: bytes(l2)? })
    }

    /// A typical machine, for schedules without measurements.
    pub fn generic(isa: Isa) -> Self {
        Self { isa, model: None, threads: 4, l1_bytes: 32 * 1024, l2_bytes: 1024 * 1024 }
    }

    /// The same as earlier releases knew it.
    #[must_use]
    pub fn without_model(self) -> Self {
        Self { model: None, ..self }
    }
}

impl Vendor {
    /// The vendor of a vendor string.
    pub fn from_id(id: &str) -> Self {
        match id {
            "AuthenticAMD" => Vendor::Amd,
            "GenuineIntel" => Vendor::Intel,
            _ => Vendor::Other,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Vendor::Amd => "amd",
            Vendor::Intel => "intel",
            Vendor::Other => "other",
        }
    }
}

impl fmt::Display for CpuModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.vendor.name(), self.family, self.model)
    }
}

/// The text is no [`CpuModel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownModel;

impl FromStr for CpuModel {
    type Err = UnknownModel;

    fn from_str(text: &str) -> Result<Self, UnknownModel> {
        let mut parts = text.split(':');
        let vendors = [Vendor::Amd, Vendor::Intel, Vendor::Other];
        let number = |text: Option<&str>| text?.parse().ok();
        let vendor = parts.next().ok_or(UnknownModel)?;
        let vendor = vendors.into_iter().find(|it| it.name() == vendor).ok_or(UnknownModel)?;
        let family = number(parts.next()).ok_or(UnknownModel)?;
        let model = number(parts.next()).ok_or(UnknownModel)?;
        if parts.next().is_some() { Err(UnknownModel) } else { Ok(Self { vendor, family, model }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_tells_its_device() {
        let target =
            CpuTarget { threads: 3, l1_bytes: 48 * 1024, ..CpuTarget::generic(Isa::Avx512) };
        assert_eq!(target.key().as_str(), "cpu-avx512-l1:48-l2:1024-t3");
        assert_eq!(CpuTarget::from_key(&target.key()), Some(target));
        let model = CpuModel { vendor: Vendor::Intel, family: 6, model: 207 };
        let known = CpuTarget { model: Some(model), ..target };
        assert_eq!(known.key().as_str(), "cpu-avx512-intel:6:207-l1:48-l2:1024-t3");
        assert_eq!(CpuTarget::from_key(&known.key()), Some(known));
        assert_eq!(known.without_model().key(), target.key());
        for bad in [
            "",
            "cpu-avx512",
            "gpu-sm_90",
            "cpu-avx2-l1:x-l2:1-t1",
            "cpu-avx2-l1:1-l2:1-t",
            "cpu-avx2x-l1:1-l2:1-t1",
            "cpu-avx2-amd:25-l1:1-l2:1-t1",
            "cpu-avx2-amd:25:1:1-l1:1-l2:1-t1",
            "cpu-avx2-arm:1:1-l1:1-l2:1-t1",
        ] {
            assert_eq!(CpuTarget::parse(bad), None, "{bad}");
        }
    }
}
