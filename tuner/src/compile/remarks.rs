//! Remarks of NVRTC's assembler in its log that a cubin does not have.

use super::Usage;

/// Something about speed, such as `(C7511) Potential Performance Loss: ..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// `7511`
    pub code: u32,
    /// The text after it.
    pub text: String,
}

/// The codes of remarks about matrix instructions that wait for each other.
const SERIALIZED: std::ops::RangeInclusive<u32> = 7510..=7519;

impl Remark {
    /// Returns whether asynchronous matrix instructions were serialized, or made to wait by instructions
    /// that the assembler had to add.
    pub fn serializes(&self) -> bool {
        SERIALIZED.contains(&self.code)
    }
}

/// All remarks of a log.
pub(super) fn remarks(log: &str) -> Vec<Remark> {
    let remark = |line: &str| {
        let (_, rest) = line.split_once("(C")?;
        let (code, text) = rest.split_once(')')?;
        Some(Remark { code: code.parse().ok()?, text: text.trim().to_owned() })
    };
    log.lines().filter_map(remark).collect()
}

/// Notes how many bytes each kernel spills, with the functions it calls.
pub(super) fn add_spills(log: &str, kernels: &mut [Usage]) {
    let mut current = None;
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let name = rest.split('\'').next();
            current = kernels.iter().position(|it| Some(it.kernel.as_str()) == name);
        } else if let (Some(kernel), Some(spills)) = (current, spills(line)) {
            kernels[kernel].spill_store_bytes += spills.0;
            kernels[kernel].spill_load_bytes += spills.1;
        }
    }
}

/// Of `8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads`: 12 and 16.
fn spills(line: &str) -> Option<(u32, u32)> {
    let (before, loads) = line.strip_suffix(" bytes spill loads")?.rsplit_once(", ")?;
    let (_, stores) = before.strip_suffix(" bytes spill stores")?.rsplit_once(", ")?;
    Some((stores.parse().ok()?, loads.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'a' for 'sm_80'
ptxas info    : Function properties for a
ptxas         .     576 bytes stack frame, 1236 bytes spill stores, 1240 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 576 bytes cumulative stack size
ptxas info    : Compiling entry function 'b' for 'sm_80'
ptxas info    : Function properties for b
    8 bytes stack frame, 4 bytes spill stores, 0 bytes spill loads
ptxas info    : Function properties for called
    8 bytes stack frame, 1 bytes spill stores, 2 bytes spill loads
";

    #[test]
    fn spills_belong_to_the_kernel_that_is_compiled() {
        let kernel = |it: &str| Usage { kernel: it.to_owned(), ..Usage::default() };
        let mut kernels = [kernel("b"), kernel("a")];
        add_spills(LOG, &mut kernels);
        let found = kernels.map(|it| (it.spill_store_bytes, it.spill_load_bytes));
        assert_eq!(found, [(5, 2), (1236, 1240)]);
    }

    #[test]
    fn remarks_have_a_code() {
        let [remark] = &remarks(LOG)[..] else { panic!("one remark") };
        assert!(remark.serializes());
        assert!(remark.text.starts_with("Potential Performance Loss"), "{}", remark.text);
    }
}
