//! The process that holds a lock, for those who wait for it.
//!
//! On Linux the kernel names it: `/proc/locks` has a line for each lock, with its process and file.
//! Elsewhere, and for processes of other containers and hosts, nobody is named.

use std::fmt;
#[cfg(target_os = "linux")]
use std::fs;
use std::fs::File;

#[cfg(target_os = "linux")]
use crate::process::state;

/// The process that holds a lock, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    process: Option<u32>,
    program: Option<String>,
    is_stopped: bool,
}

impl Holder {
    /// Finds the process that has locked a file.
    pub(super) fn of(file: &File) -> Self {
        process_of(file).map_or_else(Self::default, Self::of_process)
    }

    /// Returns its number.
    pub fn process(&self) -> Option<u32> {
        self.process
    }

    /// Returns what to do about a lock that it does not give back.
    pub fn advice(&self) -> String {
        match self.process {
            Some(process) if self.is_stopped => {
                format!("`kill -CONT {process}` lets it go on, `kill -KILL {process}` ends it")
            }
            _ => "try again when it is done".to_owned(),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(process) = self.process else { return f.write_str("another process") };
        match &self.program {
            Some(program) => write!(f, "`{program}` (process {process}")?,
            None => write!(f, "another process ({process}")?,
        }
        f.write_str(if self.is_stopped { ", which is stopped)" } else { ")" })
    }
}

#[cfg(target_os = "linux")]
impl Holder {
    fn of_process(process: u32) -> Self {
        let read = |it: &str| fs::read_to_string(format!("/proc/{process}/{it}")).ok();
        // Any program may choose its name.
        let name = |it: String| it.trim_end().replace(|it: char| it.is_control(), "?");
        Self {
            process: Some(process),
            program: read("comm").map(name).filter(|it| !it.is_empty()),
            is_stopped: read("stat").is_some_and(|it| state(&it) == Some('T')),
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Holder {
    fn of_process(process: u32) -> Self {
        Self { process: Some(process), ..Self::default() }
    }
}

#[cfg(target_os = "linux")]
fn process_of(file: &File) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;

    let metadata = file.metadata().ok()?;
    find(&fs::read_to_string("/proc/locks").ok()?, metadata.dev(), metadata.ino())
}

#[cfg(not(target_os = "linux"))]
fn process_of(_: &File) -> Option<u32> {
    None
}

/// Finds the process that holds a lock of a whole file in `/proc/locks`. Some file systems show another
/// device there than programs see: the number of the file alone decides then, if that is enough.
#[cfg(target_os = "linux")]
fn find(locks: &str, device: u64, inode: u64) -> Option<u32> {
    let major = ((device >> 8) & 0xfff) | ((device >> 32) & 0xffff_f000);
    let minor = (device & 0xff) | ((device >> 12) & 0xffff_ff00);
    let exact = format!("{major:02x}:{minor:02x}:{inode}");
    let suffix = format!(":{inode}");
    let of_file = |is_it: &dyn Fn(&str) -> bool| -> Vec<u32> {
        let holders = locks.lines().filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            // Lines with an arrow are of those that wait.
            let ["FLOCK", _, "WRITE", process, at, ..] = words.get(1..)? else { return None };
            is_it(at).then(|| process.parse().ok())?
        });
        holders.collect()
    };
    let exactly = of_file(&|it| it == exact);
    match of_file(&|it| it.ends_with(&suffix)).as_slice() {
        [only] if exactly.is_empty() => Some(*only),
        _ => exactly.first().copied(),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    const LOCKS: &str = "\
1: POSIX  ADVISORY  WRITE 10 fe:01:77 0 EOF
2: FLOCK  ADVISORY  WRITE 11 fe:01:77 0 EOF
2: -> FLOCK  ADVISORY  WRITE 12 fe:01:77 0 EOF
3: FLOCK  ADVISORY  WRITE 13 00:2f:88 0 EOF
4: FLOCK  ADVISORY  WRITE 14 00:30:77 0 EOF
";

    #[test]
    fn the_kernel_names_the_holder_and_not_those_that_wait() {
        let device = |major: u64, minor: u64| (major << 8) | minor;
        assert_eq!(find(LOCKS, device(0xfe, 1), 77), Some(11));
        assert_eq!(find(LOCKS, device(0, 0x2f), 88), Some(13));
        assert_eq!(find(LOCKS, device(1, 1), 88), Some(13), "the only lock of that number");
        assert_eq!(find(LOCKS, device(1, 1), 77), None, "it could be either");
        assert_eq!(find("mangled\n1: FLOCK", device(0, 0x2f), 88), None);
    }

    #[test]
    fn a_holder_is_named_with_what_to_do_about_it() {
        let own = Holder::of_process(std::process::id());
        let process = std::process::id();
        assert!(own.to_string().ends_with(&format!("` (process {process})")), "{own}");
        let stopped = Holder { is_stopped: true, ..own };
        assert!(stopped.to_string().contains("which is stopped"));
        assert!(stopped.advice().contains(&format!("kill -CONT {process}")));
        assert_eq!(Holder::default().to_string(), "another process");
    }
}
