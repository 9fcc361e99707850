//! Resource usage of kernels, read from a cubin: an ELF file, without any tool of CUDA.
//!
//! The sections are those of NVRTC 12.9 to 13.5. `.nv.info` and `.nv.info.<kernel>` are lists of
//! attributes: a format, a number, and a value or the length of one that follows.

use super::Usage;

/// A deviation of a cubin from the known form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CubinError {
    /// It is not an ELF file for a GPU.
    #[error("not an ELF file with code for a GPU")]
    NotCuda,
    /// Something lies outside of the file.
    #[error("the ELF file is cut off or mangled")]
    Mangled,
    /// A kernel without a number of registers.
    #[error("the ELF file does not say how many registers its kernels use")]
    NoRegisters,
}

/// The machine that ELF files for GPUs are for.
const MACHINE: u16 = 190;
const SYMBOL_TABLE: u32 = 2;

/// Attributes of all kernels: a symbol, and a number.
const FRAME_SIZE: u8 = 0x11;
const REGISTER_COUNT: u8 = 0x2f;
/// Attributes of one kernel.
const MAX_THREADS: u8 = 0x05;
const BARRIERS: u8 = 0x4c;

/// The format of an attribute whose value follows; of others, the value is where this has its
/// length.
const VALUE_FOLLOWS: u8 = 4;

/// Shared memory of each block that the system reserves (from sm_90).
const RESERVED_SHARED_BYTES: u64 = 1024;

/// Reads the resource usage of each kernel of a cubin, except for spills, which only the log has.
///
/// # Errors
///
/// [`CubinError`]
pub fn usage(bytes: &[u8]) -> Result<Vec<Usage>, CubinError> {
    let elf = Elf::open(bytes)?;
    let mut kernels = Vec::new();
    for section in &elf.sections {
        if let Some(kernel) = section.name.strip_prefix(".text.") {
            let code_bytes = section.n_bytes;
            kernels.push(Usage { kernel: kernel.to_owned(), code_bytes, ..Usage::default() });
        }
    }
    let reserves = elf.sections.iter().any(|it| it.name.starts_with(".nv.shared.reserved"));
    for section in &elf.sections {
        if section.name == ".nv.info" {
            elf.of_all(section, &mut kernels)?;
        }
        for kernel in &mut kernels {
            if section.name.strip_prefix(".nv.info.") == Some(&kernel.kernel) {
                elf.of_one(section, kernel)?;
            } else if section.name.strip_prefix(".nv.shared.") == Some(&kernel.kernel) {
                let reserved = if reserves { RESERVED_SHARED_BYTES } else { 0 };
                kernel.static_shared_bytes = section.n_bytes.saturating_sub(reserved);
            }
        }
    }
    kernels.sort_by(|a, b| a.kernel.cmp(&b.kernel));
    let known = kernels.iter().all(|it| it.registers > 0);
    if known { Ok(kernels) } else { Err(CubinError::NoRegisters) }
}

/// An ELF file of 64 bits, least byte first.
struct Elf<'a> {
    bytes: &'a [u8],
    sections: Vec<Section<'a>>,
}

#[derive(Clone, Copy)]
struct Section<'a> {
    name: &'a str,
    kind: u32,
    offset: u64,
    n_bytes: u64,
    /// Of a symbol table, the number of the section that has the names.
    link: u32,
}

struct Attribute<'a> {
    number: u8,
    /// In the header.
    short: u16,
    /// The bytes after it.
    value: &'a [u8],
}

impl<'a> Elf<'a> {
    fn open(bytes: &'a [u8]) -> Result<Self, CubinError> {
        if !bytes.starts_with(b"\x7fELF\x02\x01") || u16_at(bytes, 0x12)? != MACHINE {
            return Err(CubinError::NotCuda);
        }
        let (table, n_sections) = (u64_at(bytes, 0x28)?, u16_at(bytes, 0x3c)?);
        let header = |n: u16| {
            let at = usize::try_from(table).ok().and_then(|it| it.checked_add(usize::from(n) * 64));
            at.ok_or(CubinError::Mangled)
        };
        let names = u64_at(bytes, header(u16_at(bytes, 0x3e)?)? + 24)?;
        let section = |n: u16| {
            let at = header(n)?;
            Ok(Section {
                name: text_at(bytes, names, u32_at(bytes, at)?)?,
                kind: u32_at(bytes, at + 4)?,
                offset: u64_at(bytes, at + 24)?,
                n_bytes: u64_at(bytes, at + 32)?,
                link: u32_at(bytes, at + 40)?,
            })
        };
        let sections: Result<_, CubinError> = (0..n_sections).map(section).collect();
        Ok(Self { bytes, sections: sections? })
    }

    fn contents(&self, section: &Section<'_>) -> Result<&'a [u8], CubinError> {
        let range = |(at, n): (u64, u64)| {
            let at = usize::try_from(at).ok()?;
            self.bytes.get(at..at.checked_add(usize::try_from(n).ok()?)?)
        };
        range((section.offset, section.n_bytes)).ok_or(CubinError::Mangled)
    }

    /// The name of a symbol.
    fn symbol(&self, n: u32) -> Result<&'a str, CubinError> {
        let table = self.sections.iter().find(|it| it.kind == SYMBOL_TABLE);
        let table = table.ok_or(CubinError::Mangled)?;
        let names = self.sections.get(table.link as usize).ok_or(CubinError::Mangled)?;
        let symbols = self.contents(table)?;
        text_at(self.bytes, names.offset, u32_at(symbols, n as usize * 24)?)
    }

    /// Notes what the list about all kernels says.
    fn of_all(&self, section: &Section<'_>, kernels: &mut [Usage]) -> Result<(), CubinError> {
        for Attribute { number, value, .. } in attributes(self.contents(section)?)? {
            if number == REGISTER_COUNT || number == FRAME_SIZE {
                let (name, amount) = (self.symbol(u32_at(value, 0)?)?, u32_at(value, 4)?);
                let Some(kernel) = kernels.iter_mut().find(|it| it.kernel == name) else {
                    continue;
                };
                match number {
                    REGISTER_COUNT => kernel.registers = amount,
                    _ => kernel.frame_bytes = amount,
                }
            }
        }
        Ok(())
    }

    /// Notes what the list about one kernel says.
    fn of_one(&self, section: &Section<'_>, kernel: &mut Usage) -> Result<(), CubinError> {
        for Attribute { number, short, value } in attributes(self.contents(section)?)? {
            match number {
                MAX_THREADS => {
                    let extents = [u32_at(value, 0)?, u32_at(value, 4)?, u32_at(value, 8)?];
                    kernel.max_threads = extents.iter().fold(1, |all, it| all.saturating_mul(*it));
                }
                BARRIERS => kernel.barriers = short.into(),
                _ => {}
            }
        }
        Ok(())
    }
}

fn attributes(mut list: &[u8]) -> Result<Vec<Attribute<'_>>, CubinError> {
    let mut attributes = Vec::new();
    while let [format, number, low, high, rest @ ..] = list {
        let short = u16::from_le_bytes([*low, *high]);
        let n_bytes = if *format == VALUE_FOLLOWS { usize::from(short) } else { 0 };
        let (value, rest) = rest.split_at_checked(n_bytes).ok_or(CubinError::Mangled)?;
        attributes.push(Attribute { number: *number, short, value });
        list = rest;
    }
    Ok(attributes)
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], CubinError> {
    let found = bytes.get(at..).and_then(|it| it.first_chunk());
    found.copied().ok_or(CubinError::Mangled)
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, CubinError> {
    array_at(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, CubinError> {
    array_at(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Result<u64, CubinError> {
    array_at(bytes, at).map(u64::from_le_bytes)
}

/// The text that ends in a zero.
fn text_at(bytes: &[u8], table: u64, at: u32) -> Result<&str, CubinError> {
    let start = usize::try_from(table.saturating_add(at.into())).ok();
    let rest = start.and_then(|it| bytes.get(it..)).ok_or(CubinError::Mangled)?;
    let end = rest.iter().position(|it| *it == 0).ok_or(CubinError::Mangled)?;
    std::str::from_utf8(&rest[..end]).map_err(|_| CubinError::Mangled)
}
