//! Tokens of cargo's jobserver, held so that cargo does not compile during a measurement.
//!
//! A token is a byte in a pipe. A process that takes one out may run a job, and puts it back
//! afterwards. Cargo leaves the pipe's two ends open in build scripts and names them in
//! `CARGO_MAKEFLAGS`.
//!
//! # Invariants
//!
//! - Waiting is bounded: another build script may hold its own token and wait for ours.
//! - Every token taken is put back, also if the holder panics, or ends because nobody waits for it.
//!
//! # Source
//!
//! GNU make, "POSIX jobserver". The pipe is opened anew through `/proc`, which unlike the
//! `jobserver` crate takes no `unsafe` and lets us read without blocking the pipe's other users.

use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Tokens that are put back when this is dropped, or by [`put_back`].
#[derive(Debug, Default)]
pub(crate) struct HeldTokens(Option<Arc<Mutex<Tokens>>>);

/// Tokens, and the end of the pipe where they belong.
#[derive(Debug)]
struct Tokens {
    tokens: Vec<u8>,
    back: File,
}

/// All tokens that this process holds.
static HELD: Mutex<Vec<Weak<Mutex<Tokens>>>> = Mutex::new(Vec::new());

/// Puts back all tokens of a process that is about to end.
pub(crate) fn put_back() {
    for held in lock(&HELD).drain(..).filter_map(|it| it.upgrade()) {
        lock(&held).put_back();
    }
}

impl HeldTokens {
    /// Takes up to `n_wanted` tokens, and waits up to `patience` for those that are in use. Where
    /// there is no jobserver, takes none.
    pub(crate) fn acquire(n_wanted: usize, patience: Duration) -> Self {
        let flags = std::env::var("CARGO_MAKEFLAGS").unwrap_or_default();
        match Pipe::parse(&flags).and_then(Pipe::open) {
            Some((take, back)) => Self::take(take, back, n_wanted, patience),
            None => Self::default(),
        }
    }

    fn take(mut take: File, back: File, n_wanted: usize, patience: Duration) -> Self {
        let held = Arc::new(Mutex::new(Tokens { tokens: Vec::new(), back }));
        lock(&HELD).push(Arc::downgrade(&held));
        let (deadline, mut n_held) = (Instant::now() + patience, 0);
        while n_held < n_wanted {
            let mut token = [0];
            match take.read(&mut token) {
                Ok(1) => {
                    lock(&held).tokens.push(token[0]);
                    n_held += 1;
                }
                // Empty for now, or for good; in neither case is there anything to block on.
                _ if Instant::now() >= deadline => break,
                _ => std::thread::sleep(Duration::from_millis(10)),
            }
        }
        Self(Some(held))
    }
}

impl Tokens {
    fn put_back(&mut self) {
        // If the pipe is gone, so are the processes that wait for tokens.
        let _ = self.back.write_all(&std::mem::take(&mut self.tokens));
    }
}

impl Drop for HeldTokens {
    fn drop(&mut self) {
        self.0.iter().for_each(|it| lock(it).put_back());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The two ends of a jobserver's pipe.
#[derive(Debug, PartialEq, Eq)]
struct Pipe {
    take: PathBuf,
    back: PathBuf,
}

impl Pipe {
    /// Parses `--jobserver-auth=3,4`, or `fifo:PATH`, among other flags.
    fn parse(flags: &str) -> Option<Self> {
        let prefixes = ["--jobserver-auth=", "--jobserver-fds="];
        let auth =
            |flag: &str| prefixes.iter().find_map(|it| flag.strip_prefix(it).map(String::from));
        let auth = flags.split(' ').filter_map(auth).next_back()?;
        if let Some(path) = auth.strip_prefix("fifo:") {
            return Some(Self { take: path.into(), back: path.into() });
        }
        let (take, back) = auth.split_once(',')?;
        let end = |it: &str| Some(format!("/proc/self/fd/{}", it.parse::<u32>().ok()?).into());
        Some(Self { take: end(take)?, back: end(back)? })
    }

    #[cfg(target_os = "linux")]
    fn open(self) -> Option<(File, File)> {
        use std::os::unix::fs::OpenOptionsExt;

        /// `O_NONBLOCK`, the same on every Linux but those of MIPS and SPARC.
        const NON_BLOCKING: i32 = 0o4000;
        let take = File::options().read(true).custom_flags(NON_BLOCKING).open(self.take).ok()?;
        let back = File::options().write(true).open(self.back).ok()?;
        Some((take, back))
    }

    #[cfg(not(target_os = "linux"))]
    fn open(self) -> Option<(File, File)> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pipe_is_found_among_the_flags() {
        let pipe = |take: &str, back: &str| Some(Pipe { take: take.into(), back: back.into() });
        let own = |fd: u32| format!("/proc/self/fd/{fd}");
        assert_eq!(Pipe::parse("-j --jobserver-auth=3,4"), pipe(&own(3), &own(4)));
        assert_eq!(Pipe::parse("--jobserver-fds=5,6 -j"), pipe(&own(5), &own(6)));
        assert_eq!(Pipe::parse("--jobserver-auth=fifo:/tmp/a"), pipe("/tmp/a", "/tmp/a"));
        for flags in ["", "-j", "--jobserver-auth=", "--jobserver-auth=-2,-2"] {
            assert_eq!(Pipe::parse(flags), None, "{flags}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn tokens_are_taken_as_far_as_there_are_any_and_put_back() {
        use std::os::fd::AsRawFd;

        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        writer.write_all(b"ab").expect("it is open");
        let flags = format!("--jobserver-auth={},{}", reader.as_raw_fd(), writer.as_raw_fd());
        let open = || Pipe::parse(&flags).and_then(Pipe::open).expect("it is open");
        let acquire = |n| {
            let (take, back) = open();
            HeldTokens::take(take, back, n, Duration::from_millis(1))
        };
        let tokens = |it: &HeldTokens| lock(it.0.as_ref().expect("a jobserver")).tokens.clone();
        let first = acquire(1);
        assert_eq!(tokens(&first), b"a");
        let second = acquire(7);
        assert_eq!(tokens(&second), b"b");
        drop(first);
        drop(second);
        let third = acquire(7);
        assert_eq!(tokens(&third), b"ab");
        put_back();
        assert_eq!(tokens(&acquire(7)), b"ab", "a process that ends puts them back");
    }
}
