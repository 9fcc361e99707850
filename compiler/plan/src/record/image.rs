//! Compiled code of a schedule: files beside a record, known by their hashes.
//!
//! A record says which files belong to it and what is in them; it never says where they are, and
//! nobody runs what has another hash.

use serde::{Deserialize, Serialize};

use tvmtune_ir::digest::Digest;
use tvmtune_ir::target::gpu::Arch;

/// One compiled file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// The kind of the file.
    pub format: Format,
    /// The architecture it is for: with PTX, every one from that on.
    #[serde(serialize_with = "super::display", deserialize_with = "super::arch")]
    pub arch: Arch,
    /// Its length.
    pub bytes: u64,
    /// Its SHA-256.
    pub sha256: Digest,
}

/// The kind of file of an [`Image`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// An ELF file with machine code.
    Cubin,
    /// Text that a driver compiles.
    Ptx,
}

impl Image {
    /// Bytes that no image has: a hundred times those of our largest.
    pub const TOO_LARGE: u64 = 64 << 20;
}

impl Format {
    /// The end of a file's name.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Cubin => "cubin",
            Format::Ptx => "ptx",
        }
    }
}
