//! The file of a trace: opened at the first launch, shared by threads, forked processes and others.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The variable that names the file.
const VARIABLE: &str = "TVMTUNE_TRACE";

/// The begin of the time axis, in seconds of Unix time: 2025-01-01. Processes agree on it, and times
/// since then, in microseconds, keep hundredths of one in a double.
const EPOCH_UNIX_S: u64 = 1_735_689_600;

/// A file that is written to.
#[derive(Debug)]
pub(super) struct Sink {
    file: File,
    /// One moment by both clocks.
    opened: Instant,
    opened_us: f64,
}

/// Set once it is known that nothing is traced, or nothing more.
static OFF: AtomicBool = AtomicBool::new(false);

/// Returns whether it is known that nothing is traced.
#[inline(always)]
pub(super) fn is_off() -> bool {
    OFF.load(Ordering::Relaxed)
}

/// The file; `None` if nothing is traced.
#[inline]
pub(super) fn get() -> Option<&'static Sink> {
    if is_off() { None } else { open_once() }
}

#[cold]
fn open_once() -> Option<&'static Sink> {
    static SINK: OnceLock<Option<Sink>> = OnceLock::new();
    let sink = SINK.get_or_init(|| {
        let path = std::env::var_os(VARIABLE).filter(|it| !it.is_empty())?;
        match Sink::open(Path::new(&path)) {
            Ok(sink) => Some(sink),
            Err(error) => {
                let path = Path::new(&path).display();
                warn(format_args!("{path}: {error}; launches are not traced"));
                None
            }
        }
    });
    if sink.is_none() {
        OFF.store(true, Ordering::Relaxed);
    }
    sink.as_ref()
}

impl Sink {
    /// Opens a file. It begins anew, unless a process that is still running writes to it: then events
    /// are added to those of that process.
    ///
    /// Everything is appended, so that a line lands behind all others, whoever writes them.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        let is_regular = file.metadata()?.is_file();
        if !is_regular {
            file.write_all(b"[\n")?;
        } else if cfg!(unix) {
            // The lock is that of all descriptors that `fork` makes of this one: it ends with the last.
            if !matches!(file.try_lock(), Err(std::fs::TryLockError::WouldBlock)) {
                file.set_len(0)?;
                file.write_all(b"[\n")?;
            }
            // A file system without locks is one that nobody shares.
            let _ = file.lock_shared();
        } else {
            // Elsewhere a lock would keep its owner from writing, too.
            File::create(path)?.write_all(b"[\n")?;
        }
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let opened_us = since_epoch.as_secs_f64() - EPOCH_UNIX_S as f64;
        Ok(Self { file, opened: Instant::now(), opened_us: opened_us * 1e6 })
    }

    /// Returns a moment on the time axis.
    pub(super) fn microseconds(&self, moment: Instant) -> f64 {
        let nanoseconds = match moment.checked_duration_since(self.opened) {
            Some(after) => after.as_nanos() as f64,
            None => -((self.opened - moment).as_nanos() as f64),
        };
        self.opened_us + nanoseconds / 1e3
    }

    /// Writes a line. A disk that is full ends the trace, and nothing else.
    pub(super) fn write(&self, line: &str) {
        if let Err(error) = write_whole(&mut &self.file, line.as_bytes())
            && !OFF.swap(true, Ordering::Relaxed)
        {
            warn(format_args!("{error}; no more launches are traced"));
        }
    }
}

/// Warns of a trace that fails. An application may have closed its standard error.
fn warn(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "warning: {VARIABLE}: {text}");
}

/// Writes a line by one call of the system, since lines of others may follow each call.
pub(super) fn write_whole(file: &mut impl Write, line: &[u8]) -> io::Result<()> {
    loop {
        match file.write(line) {
            Ok(n_bytes) if n_bytes == line.len() => return Ok(()),
            Ok(_) => return Err(ErrorKind::WriteZero.into()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
