//! Compiled code in the user's cache: one file for each source and all that it depends on.
//!
//! A file that cannot be used is a miss, and one that cannot be written is not there the next
//! time: nothing here fails. A file has the hash of its content: a changed byte of a cubin would
//! otherwise be embedded, and run.

use std::path::PathBuf;

use sha2::{Digest, Sha256};
use tvmtune_runtime::cuda::nvrtc::{self, Unit};

use tvmtune_plan::database::{Cache, atomic};
use tvmtune_plan::read::{self, limit};

/// The first word of a file. It changes with what follows.
const FORMAT: &str = "tvmtune-compiled-2";

/// The folder.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    dir: PathBuf,
}

impl Compiled {
    pub(super) fn new(cache: &Cache) -> Self {
        Self { dir: cache.compiled() }
    }

    fn path(&self, key: &str) -> PathBuf {
        self.dir.join(&key[..2]).join(key)
    }

    pub(super) fn load(&self, key: &str) -> Option<nvrtc::Compiled> {
        decode(&read::bytes(&self.path(key), limit::CACHED).ok()?)
    }

    pub(super) fn store(&self, key: &str, compiled: &nvrtc::Compiled) {
        // A miss next time.
        let _ = atomic::write(&self.path(key), &encode(compiled));
    }
}

/// The name of what comes of a unit: SHA-256 of all that decides it, in hex.
pub(super) fn key(unit: &Unit<'_>, (major, minor): (u32, u32)) -> String {
    let mut hasher = Sha256::new();
    let mut part = |text: &str| {
        // With its length, so that no two lists of parts look the same.
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
    };
    for text in [FORMAT, &format!("{major}.{minor}"), unit.arch, unit.name, unit.source] {
        part(text);
    }
    part(&unit.options.len().to_string());
    unit.options.iter().for_each(|it| part(it));
    for (name, text) in unit.headers {
        part(name);
        part(text);
    }
    hex(hasher)
}

fn hex(hasher: Sha256) -> String {
    hasher.finalize().iter().map(|it| format!("{it:02x}")).collect()
}

/// A line with the hash of what follows it, a line with the lengths of the three parts, then the parts.
fn encode(compiled: &nvrtc::Compiled) -> Vec<u8> {
    let nvrtc::Compiled { ptx, cubin, log } = compiled;
    let lengths = format!("{} {} {}\n", ptx.len(), cubin.len(), log.len());
    let content = [lengths.as_bytes(), ptx.as_bytes(), cubin, log.as_bytes()].concat();
    [header(&content).as_bytes(), &content].concat()
}

/// Returns the first line of a file with this content.
fn header(content: &[u8]) -> String {
    let mut hasher = Sha256::new();
    hasher.update(content);
    format!("{FORMAT} {}\n", hex(hasher))
}

fn decode(bytes: &[u8]) -> Option<nvrtc::Compiled> {
    let line = |bytes: &[u8]| Some(bytes.iter().position(|it| *it == b'\n')? + 1);
    let (first, content) = bytes.split_at(line(bytes)?);
    (first == header(content).as_bytes()).then_some(())?;
    let (lengths, mut rest) = content.split_at(line(content)?);
    let mut words = std::str::from_utf8(lengths).ok()?.trim_end().split(' ');
    let mut part = || {
        let (part, after) = rest.split_at_checked(words.next()?.parse().ok()?)?;
        rest = after;
        Some(part.to_vec())
    };
    let (ptx, cubin, log) = (part()?, part()?, part()?);
    let text = |it| String::from_utf8(it).ok();
    rest.is_empty().then_some(nvrtc::Compiled { ptx: text(ptx)?, cubin, log: text(log)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> nvrtc::Compiled {
        nvrtc::Compiled { ptx: "ptx\n".to_owned(), cubin: vec![0, 255, 10], log: "log".to_owned() }
    }

    #[test]
    fn what_is_stored_is_what_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Compiled::new(&Cache::new(folder.path()));
        assert_eq!(cache.load("0123"), None);
        cache.store("0123", &sample());
        assert_eq!(cache.load("0123"), Some(sample()));
    }

    #[test]
    fn a_file_that_is_cut_off_or_changed_is_a_miss() {
        let bytes = encode(&sample());
        for end in 0..bytes.len() {
            assert_eq!(decode(&bytes[..end]), None, "{end} bytes");
            let mut changed = bytes.clone();
            changed[end] ^= 1;
            assert_eq!(decode(&changed), None, "byte {end} is another");
        }
        assert_eq!(decode(&[&bytes[..], b"more"].concat()), None);
        assert_eq!(decode(b"tvmtune-compiled-1 0 0 0\n"), None);
    }

    #[test]
    fn all_that_decides_the_code_decides_its_name() {
        let unit = Unit { name: "a", source: "b", headers: &[], arch: "sm_80", options: &["-x"] };
        let base = key(&unit, (13, 0));
        assert_eq!(base, key(&unit, (13, 0)));
        let others = [
            key(&unit, (13, 2)),
            key(&Unit { name: "ab", source: "", ..unit }, (13, 0)),
            key(&Unit { source: "c", ..unit }, (13, 0)),
            key(&Unit { arch: "sm_90", ..unit }, (13, 0)),
            key(&Unit { options: &["-y"], ..unit }, (13, 0)),
            key(&Unit { options: &[], headers: &[("-x", "")], ..unit }, (13, 0)),
            key(&Unit { headers: &[("h", "text")], ..unit }, (13, 0)),
        ];
        assert!(others.iter().all(|it| *it != base));
    }
}
