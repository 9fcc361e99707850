//! The worker on another machine: copied, started, and removed, with all that it wrote.
//!
//! In: a [`Shell`] and the executable. Out: a process that answers messages. Next: `remote.rs` sends tasks.
//!
//! The shell there that starts the worker removes its folder when the worker ends, and the worker ends with
//! its standard input: so also when the connection is cut, or this process killed.

use std::io::{BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use tvmtune_plan::printable::one_line;

use super::error::RemoteError;
use super::message::{self, FromWorker, Hello, ToWorker};
use super::probe::WorkerFile;
use super::shell::{CLIENT_FAILED, Shell, last_line, let_end};

/// The name of the copy.
const FILE: &str = "cargo-tvmtune";

/// Makes a folder and copies standard input into it. Where the connection is cut meanwhile, the copy is not
/// whole, and nobody reads the folder's name: the folder is removed.
const COPY: &str = "trap \"\" PIPE; umask 077; dir=$(mktemp -d) || exit 1; cat > \"$dir/cargo-tvmtune\" \
                    && chmod 700 \"$dir/cargo-tvmtune\" && echo tvmtune-folder \"$dir\" || { rm -rf \
                    \"$dir\"; exit 1; }";
const FOLDER: &str = "tvmtune-folder ";

/// The time in which the executable is copied, and in which the worker says what it is.
const COPY_LIMIT: Duration = Duration::from_secs(600);
const HELLO_LIMIT: Duration = Duration::from_secs(120);
const REMOVE_LIMIT: Duration = Duration::from_secs(10);

/// A worker that runs.
pub(super) struct Worker {
    child: Child,
    stdin: Option<ChildStdin>,
    messages: Receiver<Result<FromWorker, String>>,
    /// The file of what it says to people.
    said: PathBuf,
    pub(super) hello: Hello,
}

/// The end of a worker.
pub(super) enum Ended {
    /// The connection ended, for that reason.
    Connection(String),
    /// The process ended, for that reason.
    Process(String),
}

impl Worker {
    /// Copies the executable and starts it.
    pub(super) fn start(shell: &Shell, file: &WorkerFile) -> Result<Self, RemoteError> {
        let address = || shell.address().to_owned();
        let copied = shell.output(COPY, Some(&file.path), COPY_LIMIT);
        let copied = copied.map_err(|error| match error {
            RemoteError::Probe { address, why } => RemoteError::Copy { address, why },
            other => other,
        })?;
        let folder = folder(&copied).ok_or_else(|| {
            let why = "it makes no folder of a plain name".to_owned();
            RemoteError::Copy { address: address(), why }
        })?;
        let worker = Self::start_in(shell, file, folder).inspect_err(|_| {
            // If it never ran, nothing else does it. Without a connection nothing can be done.
            let _ = shell.output(&format!("rm -rf \"{folder}\""), None, REMOVE_LIMIT);
        })?;
        if worker.hello.gpu.is_some() {
            copy_libraries(shell, &file.nvrtc, folder)?;
        }
        Ok(worker)
    }

    /// Starts the executable in the folder that it was copied to.
    fn start_in(shell: &Shell, file: &WorkerFile, folder: &str) -> Result<Self, RemoteError> {
        let address = || shell.address().to_owned();
        let arguments = file.arguments.join(" ");
        let nvrtc = if file.nvrtc.is_empty() { "" } else { "TVMTUNE_NVRTC=\"$dir\" " };
        let (mut child, said) = shell.spawn(&format!(
            "dir=\"{folder}\"; trap \"\" PIPE; trap \"exit 1\" HUP INT TERM; trap \"rm -rf $dir\" EXIT; \
             TMPDIR=\"$dir\" {nvrtc}\"$dir/{FILE}\" {arguments}"
        ))?;
        let messages = listen(&mut child);
        let first = messages.recv_timeout(HELLO_LIMIT);
        let stdin = child.stdin.take();
        let mut failed = |why: Option<String>| {
            let _ = let_end(&mut child);
            let line = last_line(&said);
            let why = why.unwrap_or(if line.is_empty() { "it said nothing".into() } else { line });
            RemoteError::Start { address: address(), why }
        };
        match first {
            Ok(Ok(FromWorker::Hello(hello))) => match hello.check() {
                Ok(()) => Ok(Self { child, stdin, messages, said, hello }),
                Err(error) => Err(failed(Some(error.to_string()))),
            },
            Ok(Ok(_)) => Err(failed(Some("it does not say what it is".to_owned()))),
            Ok(Err(why)) => Err(failed(Some(why))),
            Err(_) => {
                drop(stdin);
                Err(failed(None))
            }
        }
    }

    /// Sends a message; one that does not arrive shows by no answer.
    pub(super) fn send(&mut self, message: &ToWorker) {
        if let Some(stdin) = &mut self.stdin
            && message::write(stdin, message).and_then(|()| stdin.flush()).is_err()
        {
            self.stdin = None;
        }
    }

    /// Receives a message within a limit; `None` if there is none in time.
    pub(super) fn receive(
        &mut self,
        limit: Duration,
    ) -> Option<Result<Result<FromWorker, String>, Ended>> {
        match self.messages.recv_timeout(limit) {
            Ok(message) => Some(Ok(message)),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(self.ended())),
        }
    }

    /// Tells how it ended.
    fn ended(&mut self) -> Ended {
        self.stdin = None;
        let status = let_end(&mut self.child);
        let line = last_line(&self.said);
        match status.and_then(|it| it.code()) {
            Some(CLIENT_FAILED) | None => {
                Ended::Connection(if line.is_empty() { "it was cut".to_owned() } else { line })
            }
            Some(code) => Ended::Process(format!("exit code {code}: {line}")),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = let_end(&mut self.child);
    }
}

/// Copies libraries into the folder of a worker that runs, which removes them with the folder. It loads them
/// with its first task.
fn copy_libraries(shell: &Shell, files: &[PathBuf], folder: &str) -> Result<(), RemoteError> {
    for file in files {
        let name =
            file.file_name().and_then(|it| it.to_str()).filter(|it| it.chars().all(is_plain));
        let Some(name) = name else { continue };
        let copied = shell.output(&format!("cat > {folder}/{name}"), Some(file), COPY_LIMIT);
        copied.map_err(|error| match error {
            RemoteError::Probe { address, why } => RemoteError::Copy { address, why },
            other => other,
        })?;
    }
    Ok(())
}

/// Reads messages on a thread of its own, so that waiting for one has a limit.
fn listen(child: &mut Child) -> Receiver<Result<FromWorker, String>> {
    let (sender, messages) = sync_channel(16);
    let Some(stdout) = child.stdout.take() else { return messages };
    let read = move || {
        let mut input = BufReader::new(stdout);
        if !message::find_begin(&mut input).unwrap_or(false) {
            return;
        }
        loop {
            let message = match message::read(&mut input) {
                Ok(Some(message)) => Ok(message),
                Ok(None) => return,
                Err(error) => Err(one_line(&error.to_string())),
            };
            let failed = message.is_err();
            if sender.send(message).is_err() || failed {
                return;
            }
        }
    };
    thread::spawn(read);
    messages
}

/// Returns the folder that a machine made, if it has a plain name: others mean something to its shell.
fn folder(output: &str) -> Option<&str> {
    let folder = output.lines().find_map(|it| it.strip_prefix(FOLDER))?.trim_end();
    (folder.starts_with('/') && folder.len() > 1 && folder.chars().all(is_plain)).then_some(folder)
}

fn is_plain(it: char) -> bool {
    it.is_ascii_alphanumeric() || "/._-".contains(it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_plain_names_are_used() {
        assert_eq!(folder("hi\ntvmtune-folder /tmp/tmp.a_B-9\n"), Some("/tmp/tmp.a_B-9"));
        for bad in ["", "tvmtune-folder ", "tvmtune-folder /", "tvmtune-folder /a b", "/tmp/x"] {
            assert_eq!(folder(bad), None, "{bad:?}");
        }
        for bad in ["/tmp/$(rm)", "/tmp/\"", "/tmp/'", "tmp", "/tmp/;x"] {
            assert_eq!(folder(&format!("{FOLDER}{bad}")), None, "{bad:?}");
        }
    }
}
