//! Reads files that others may have written: records, logs, models, configuration.
//!
//! In: a path and a limit. Out: the content. Every reader of a file that is not a source of the crate
//! itself goes through here, so that a file costs time and memory by its limit, whatever it is: opening a
//! pipe waits for a writer, a device never ends, and a file may have any size at no cost.
//!
//! # Invariant
//!
//! - What is returned is the whole content of a regular file, or of a link to one, and no longer than
//!   its limit.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// Sizes in bytes, by what is read.
pub mod limit {
    /// A record: fifty times the largest that ships.
    pub const RECORD: u64 = 1 << 20;
    /// A value function that a crate ships: ten times the largest that training makes.
    pub const VALUE_MODEL: u64 = 8 << 20;
    /// Configuration, and what processes tell each other about runs.
    pub const SMALL: u64 = 1 << 20;
    /// What a build leaves for the compiler, or for the next build.
    pub const OUTPUT: u64 = 256 << 20;
    /// Trained models, kept code, compiled code.
    pub const CACHED: u64 = 256 << 20;
    /// The end of a log that is read: of a longer one, what was written last.
    pub const LOG: u64 = 64 << 20;
}

/// Opens a regular file; returns it with its length.
///
/// # Errors
///
/// Those of the system, and one if it is no regular file.
pub fn open(path: &Path) -> io::Result<(File, u64)> {
    // Opening is what waits, so the kind of file is asked for first, and again in case it changed.
    regular(&fs::metadata(path)?)?;
    let file = File::open(path)?;
    let n_bytes = regular(&file.metadata()?)?;
    Ok((file, n_bytes))
}

fn regular(metadata: &fs::Metadata) -> io::Result<u64> {
    match metadata.is_file() {
        true => Ok(metadata.len()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
    }
}

/// Reads a file of at most `limit` bytes.
///
/// # Errors
///
/// As those of [`open`], and one if it is longer.
pub fn bytes(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let too_long = || {
        let why = format!("it has more than {limit} bytes");
        io::Error::new(io::ErrorKind::FileTooLarge, why)
    };
    let (file, n_bytes) = open(path)?;
    if n_bytes > limit {
        return Err(too_long());
    }
    // It may grow meanwhile, and some files say that they are empty.
    let mut bytes = Vec::with_capacity(n_bytes as usize);
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(too_long()) } else { Ok(bytes) }
}

/// Reads a text of at most `limit` bytes.
///
/// # Errors
///
/// As those of [`bytes`], and one if it is no UTF-8.
pub fn text(path: &Path, limit: u64) -> io::Result<String> {
    let no_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is no UTF-8 text");
    String::from_utf8(bytes(path, limit)?).map_err(no_text)
}

/// Reads whole lines at the end of a file, as many as `limit` bytes have.
///
/// # Errors
///
/// As those of [`bytes`].
pub fn last_lines(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let (mut file, n_bytes) = open(path)?;
    let skipped = n_bytes.saturating_sub(limit);
    file.seek(SeekFrom::Start(skipped))?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    if skipped > 0 {
        let end = bytes.iter().position(|it| *it == b'\n').map_or(bytes.len(), |it| it + 1);
        bytes.drain(..end);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "12345").unwrap();
        assert_eq!(bytes(&path, 5).unwrap(), b"12345");
        assert_eq!(text(&path, 9).unwrap(), "12345");
        let error = bytes(&path, 4).unwrap_err();
        assert_eq!(error.to_string(), "it has more than 4 bytes");
        fs::write(&path, [0xff]).unwrap();
        assert_eq!(text(&path, 4).unwrap_err().to_string(), "it is no UTF-8 text");
        assert_eq!(
            bytes(&folder.path().join("none"), 1).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn a_file_of_any_size_costs_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sparse");
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert!(bytes(&path, limit::CACHED).is_err());
        assert_eq!(last_lines(&path, 1 << 10).unwrap(), b"", "one line that never ends");
    }

    #[test]
    fn only_whole_lines_of_a_long_log_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, "first\nsecond\nthird\n").unwrap();
        assert_eq!(last_lines(&path, 100).unwrap(), b"first\nsecond\nthird\n");
        assert_eq!(last_lines(&path, 15).unwrap(), b"second\nthird\n");
        assert_eq!(last_lines(&path, 7).unwrap(), b"third\n");
        assert_eq!(last_lines(&path, 3).unwrap(), b"");
    }

    #[cfg(unix)]
    #[test]
    fn nothing_but_regular_files_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |it: &str| folder.path().join(it);
        let made = std::process::Command::new("mkfifo").arg(at("pipe")).status();
        assert!(made.is_ok_and(|it| it.success()), "`mkfifo` is of POSIX");
        let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, at(name)).unwrap();
        link(Path::new("/dev/zero"), "zeros");
        link(&at("pipe"), "link");
        link(&at("loop"), "loop");
        fs::create_dir(at("folder")).unwrap();
        std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for name in ["pipe", "zeros", "link", "loop", "folder", "socket"] {
            assert!(bytes(&at(name), 1 << 20).is_err(), "{name}");
            assert!(last_lines(&at(name), 1 << 20).is_err(), "{name}");
        }
        fs::write(at("file"), "text").unwrap();
        link(&at("file"), "good");
        assert_eq!(text(&at("good"), 4).unwrap(), "text");
    }
}
