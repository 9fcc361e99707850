//! The version of glibc that this program needs: it is copied to other machines, which may have an older one.
//!
//! Source: "Symbol Versioning" of the Linux Standard Base: section `.gnu.version_r` lists, for each library,
//! the versions that a program needs.

use tvmtune_fleet::ssh::Version;

/// Returns the newest version of glibc whose symbols an executable uses; `None` if it uses none, or is no
/// executable of 64 bits.
#[cfg(target_os = "linux")]
pub(crate) fn needed_glibc(executable: &[u8]) -> Option<Version> {
    use object::elf::FileHeader64;
    use object::read::elf::FileHeader;

    let header = FileHeader64::<object::Endianness>::parse(executable).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, executable).ok()?;
    let (mut libraries, strings) = sections.gnu_verneed(endian, executable).ok()??;
    let strings = sections.strings(endian, executable, strings).ok()?;
    let mut newest = None;
    while let Some((_, mut needed)) = libraries.next().ok()? {
        while let Some(version) = needed.next().ok()? {
            let name = version.name(endian, strings).ok()?;
            let name = std::str::from_utf8(name).ok().and_then(|it| it.strip_prefix("GLIBC_"));
            newest = newest.max(name.and_then(|it| it.parse::<Version>().ok()));
        }
    }
    newest
}

/// Returns `None`: programs of other systems use another library.
#[cfg(not(target_os = "linux"))]
pub(crate) fn needed_glibc(_: &[u8]) -> Option<Version> {
    None
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_linked_with_glibc_says_which() {
        let own = std::env::current_exe().unwrap();
        let bytes = tvmtune_plan::read::bytes(&own, u64::MAX >> 1).unwrap();
        let needed = needed_glibc(&bytes);
        // The oldest that Rust supports, and none that is not there yet.
        assert!(needed >= Some(Version(2, 17)) && needed < Some(Version(2, 99)), "{needed:?}");
        assert_eq!(needed_glibc(b"#!/bin/sh"), None);
        assert_eq!(needed_glibc(&bytes[..2000]), None);
    }
}
