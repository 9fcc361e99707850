//! The CPU of this machine, as a target.
//!
//! In: the processor and the operating system. Out: a [`CpuTarget`], whose key names the device.

use std::fs;
use std::path::Path;

use tvmtune_ir::target::{CpuModel, CpuTarget, Isa, Vendor};

/// Detects the CPU of this process; `None` if no code can be generated for it.
///
/// Cache sizes come from Linux's `/sys`, and the model from its `/proc`; elsewhere sizes are those of
/// [`CpuTarget::generic`], and the model is not known.
pub fn detect() -> Option<CpuTarget> {
    let isa = isas().first().copied()?;
    let generic = CpuTarget::generic(isa);
    let caches = Path::new("/sys/devices/system/cpu/cpu0/cache");
    Some(CpuTarget {
        isa,
        model: model(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
        threads: std::thread::available_parallelism().map_or(generic.threads, |it| it.get() as u32),
        l1_bytes: cache_bytes(caches, 1).unwrap_or(generic.l1_bytes),
        l2_bytes: cache_bytes(caches, 2).unwrap_or(generic.l2_bytes),
    })
}

/// Returns the size of the cache that cores share, in bytes, as far as Linux tells it.
pub fn last_level_bytes() -> Option<u64> {
    cache_bytes(Path::new("/sys/devices/system/cpu/cpu0/cache"), 3)
}

/// Returns the instruction sets that this process can run, best first.
#[cfg(target_arch = "x86_64")]
pub fn isas() -> Vec<Isa> {
    use std::arch::is_x86_feature_detected as has;

    let avx2 = has!("avx2") && has!("fma") && has!("f16c");
    let avx512 = avx2 && has!("avx512f") && has!("avx512bw") && has!("avx512dq");
    let avx512 = avx512 && has!("avx512vl");
    let isas = [(avx512, Isa::Avx512), (avx2, Isa::Avx2)];
    isas.into_iter().filter_map(|(has, isa)| has.then_some(isa)).collect()
}

/// Returns the instruction sets that this process can run: none that code is generated for.
#[cfg(not(target_arch = "x86_64"))]
pub fn isas() -> Vec<Isa> {
    Vec::new()
}

/// Returns the model of the first processor of Linux's `/proc/cpuinfo`.
fn model(cpuinfo: &str) -> Option<CpuModel> {
    let field = |name: &str| {
        let values = cpuinfo.lines().filter_map(|it| it.split_once(':'));
        let mut values = values.filter(|(key, _)| key.trim() == name);
        values.next().map(|(_, value)| value.trim())
    };
    Some(CpuModel {
        vendor: Vendor::from_id(field("vendor_id")?),
        family: field("cpu family")?.parse().ok()?,
        model: field("model")?.parse().ok()?,
    })
}

/// Reads the size of a data cache from the folders `index0`, `index1`... of Linux.
fn cache_bytes(caches: &Path, level: u32) -> Option<u64> {
    let caches = fs::read_dir(caches).ok()?.filter_map(|it| it.ok().map(|it| it.path()));
    let is_it = |cache: &Path| {
        let read = |name| fs::read_to_string(cache.join(name)).unwrap_or_default();
        read("level").trim() == level.to_string() && read("type").trim() != "Instruction"
    };
    let cache = caches.filter(|it| is_it(it)).min()?;
    parse_size(fs::read_to_string(cache.join("size")).ok()?.trim())
}

/// Parses a size, `48K` or `2M`, to bytes.
fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|it: char| !it.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "K" => 1024,
        "M" => 1024 * 1024,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("48K"), Some(48 * 1024));
        assert_eq!(parse_size("2M"), Some(2 * 1024 * 1024));
        assert_eq!(parse_size("512"), Some(512));
        assert_eq!(parse_size("lots"), None);
        assert_eq!(parse_size(""), None);
    }

    #[test]
    fn the_model_is_that_of_the_first_processor() {
        let text = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\n\
                    model name\t: Intel(R) Xeon(R)\n\nprocessor\t: 1\nmodel\t\t: 1\n";
        let expected = CpuModel { vendor: Vendor::Intel, family: 6, model: 207 };
        assert_eq!(model(text), Some(expected));
        assert_eq!(model("processor : 0\nBogoMIPS : 50\n"), None);
        assert_eq!(model(""), None);
    }

    #[test]
    fn the_data_cache_of_a_level_is_found_among_others() {
        let dir = tempfile::tempdir().unwrap();
        let cache = |name: &str, level: &str, kind: &str, size: &str| {
            let dir = dir.path().join(name);
            fs::create_dir(&dir).unwrap();
            for (file, text) in [("level", level), ("type", kind), ("size", size)] {
                fs::write(dir.join(file), format!("{text}\n")).unwrap();
            }
        };
        cache("index0", "1", "Instruction", "32K");
        cache("index1", "1", "Data", "48K");
        cache("index2", "2", "Unified", "2M");
        assert_eq!(cache_bytes(dir.path(), 1), Some(48 * 1024));
        assert_eq!(cache_bytes(dir.path(), 2), Some(2 * 1024 * 1024));
        assert_eq!(cache_bytes(dir.path(), 3), None);
    }

    #[test]
    fn the_best_instruction_set_comes_first() {
        assert!(isas().is_sorted());
        assert_eq!(detect().map(|it| it.isa), isas().first().copied());
    }
}
