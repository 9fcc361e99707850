//! Commands on another machine, by the system's `ssh`: the user's configuration, agent and keys work.
//!
//! In: a script for `sh`. Out: its output, or the process that runs it. One connection serves all commands
//! where the client can share one; where it can't, each command has its own.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tvmtune_plan::printable::one_line;
use tvmtune_plan::read;

use super::error::RemoteError;
use super::master::Master;

/// Names another client, with its first arguments.
const VARIABLE: &str = "TVMTUNE_SSH";

/// Nobody is there to type a password, and a connection that is dead is noticed.
const OPTIONS: [&str; 5] = [
    "-T",
    "-oBatchMode=yes",
    "-oConnectTimeout=20",
    "-oServerAliveInterval=15",
    "-oServerAliveCountMax=4",
];

/// The exit code of the client if it could not run the command, or lost its connection.
pub(super) const CLIENT_FAILED: i32 = 255;

/// The exit codes of `sh` if it could not run the client.
const NOT_RUN: [Option<i32>; 2] = [Some(126), Some(127)];

/// The longest path of a socket: systems take about 100 bytes, and the client appends some.
const MAX_SOCKET_BYTES: usize = 80;
/// The time in which a connection is made, and in which processes end by themselves.
const CONNECT_LIMIT: Duration = Duration::from_secs(60);
const END_LIMIT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);

/// A shell on another machine.
pub(super) struct Shell {
    client: Vec<OsString>,
    address: String,
    /// The process that holds the connection, if it is shared.
    master: Option<Master>,
    /// The folder of the socket of that connection, and of what clients say.
    folder: TempDir,
}

impl Shell {
    /// Connects to a machine.
    pub(super) fn connect(address: &str) -> Result<Self, RemoteError> {
        // The client would take it for an option.
        let is_plain = |it: char| !it.is_whitespace() && !it.is_control();
        if address.is_empty() || address.starts_with('-') || !address.chars().all(is_plain) {
            return Err(RemoteError::Address(one_line(address)));
        }
        let named = std::env::var(VARIABLE).ok().filter(|it| !it.trim().is_empty());
        let client = named.as_deref().unwrap_or("ssh").split_whitespace();
        let folder = tempfile::Builder::new().prefix("tvmtune-ssh-").tempdir();
        let mut shell = Self {
            client: client.map(OsString::from).collect(),
            address: address.to_owned(),
            master: None,
            folder: folder.map_err(RemoteError::Local)?,
        };
        if cfg!(unix) && shell.socket().as_os_str().len() <= MAX_SOCKET_BYTES {
            shell.share_connection()?;
        }
        Ok(shell)
    }

    /// Returns the address.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    /// Starts the process that holds the connection.
    fn share_connection(&mut self) -> Result<(), RemoteError> {
        let (said, file) = self.said("master")?;
        let mut command = self.client();
        command.args(["-M", "-N", "-oControlPersist=no", "-S"]).arg(self.socket());
        command.arg(&self.address);
        let mut master = Master::start(&command, self.folder.path(), file)
            .map_err(|source| RemoteError::NoClient { program: "sh".to_owned(), source })?;
        let started = Instant::now();
        let status = loop {
            match master.try_wait() {
                Ok(None) if self.socket().exists() => break None,
                Ok(None) if started.elapsed() < CONNECT_LIMIT => thread::sleep(PAUSE),
                Ok(None) => {
                    master.end();
                    break Some("it takes too long".to_owned());
                }
                Ok(Some(status)) if NOT_RUN.contains(&status.code()) => {
                    return Err(self.no_client(io::Error::other(last_line(&said))));
                }
                Ok(Some(_)) => break Some(last_line(&said)),
                Err(error) => break Some(error.to_string()),
            }
        };
        self.master = Some(master);
        let address = self.address.clone();
        status.map_or(Ok(()), |why| Err(RemoteError::Connect { address, why }))
    }

    /// Starts a script there, whose standard input and output are pipes; returns also the file of what it
    /// says on standard error.
    pub(super) fn spawn(&self, script: &str) -> Result<(Child, PathBuf), RemoteError> {
        let (said, file) = self.said("command")?;
        let mut command = self.client();
        if self.master.is_some() {
            command.arg("-S").arg(self.socket()).arg("-oControlMaster=no");
        }
        command.arg(&self.address).arg(for_any_shell(script));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file);
        let child = command.spawn().map_err(|it| self.no_client(it))?;
        Ok((child, said))
    }

    /// Runs a script there with a file as its standard input; returns its output.
    pub(super) fn output(
        &self,
        script: &str,
        input: Option<&Path>,
        limit: Duration,
    ) -> Result<String, RemoteError> {
        let (mut child, said) = self.spawn(script)?;
        let stdin = child.stdin.take();
        let input = input.map(Path::to_owned);
        // On a thread of its own: a machine may take nothing, or print before it does.
        let send = move || -> io::Result<()> {
            let (Some(input), Some(mut stdin)) = (input, stdin) else { return Ok(()) };
            io::copy(&mut read::open(&input)?.0, &mut stdin)?;
            stdin.flush()
        };
        let sender = thread::spawn(send);
        let stdout = child.stdout.take();
        let reader = thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stdout.map(|it| it.take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes));
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let status = ended_within(&mut child, limit);
        end(&mut child);
        let output = reader.join().unwrap_or_default();
        // An error of sending shows in the status: what was sent is not all.
        let _ = sender.join();
        match status.is_some_and(|it| it.success()) {
            true => Ok(output),
            false => Err(self.failed(status, &said)),
        }
    }

    /// Returns the error of a script that failed.
    pub(super) fn failed(&self, status: Option<ExitStatus>, said: &Path) -> RemoteError {
        let address = self.address.clone();
        let why = match (last_line(said), status) {
            (_, None) => "it takes too long".to_owned(),
            (line, Some(_)) if !line.is_empty() => line,
            (_, Some(status)) => status.to_string(),
        };
        match status.and_then(|it| it.code()) {
            Some(CLIENT_FAILED) | None => RemoteError::Lost { address, why },
            Some(_) => RemoteError::Probe { address, why },
        }
    }

    fn client(&self) -> Command {
        let mut command = Command::new(&self.client[0]);
        command.args(&self.client[1..]).args(OPTIONS);
        command
    }

    fn no_client(&self, source: io::Error) -> RemoteError {
        let program = self.client[0].to_string_lossy().into_owned();
        RemoteError::NoClient { program, source }
    }

    /// Creates a file for what a client says.
    fn said(&self, name: &str) -> Result<(PathBuf, File), RemoteError> {
        let path = self.folder.path().join(name);
        let file = File::create(&path).map_err(RemoteError::Local)?;
        Ok((path, file))
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        if let Some(master) = &mut self.master {
            master.end();
        }
    }
}

/// The most that a script prints, in bytes.
const MAX_OUTPUT_BYTES: u64 = 1 << 20;

/// Wraps a script so that any login shell hands it to `sh` as it is.
fn for_any_shell(script: &str) -> String {
    debug_assert!(!script.contains(['\'', '\\', '!', '\n']), "some shells replace these");
    format!("exec sh -c '{script}'")
}

/// Returns the last line that a client said.
pub(super) fn last_line(said: &Path) -> String {
    let text = read::last_lines(said, MAX_OUTPUT_BYTES).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    one_line(text.lines().rev().find(|it| !it.trim().is_empty()).unwrap_or_default())
}

/// Returns the status of a process that ends within a limit.
pub(super) fn ended_within(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let started = Instant::now();
    loop {
        match child.try_wait() {
            Ok(None) if started.elapsed() < limit => thread::sleep(PAUSE),
            status => return status.ok().flatten(),
        }
    }
}

/// Ends a process: by itself, if it does at once.
pub(super) fn end(child: &mut Child) {
    // Fails only if it is gone already.
    let _ = child.kill();
    let _ = child.wait();
}

/// Ends a process whose pipes were closed, so that it ends by itself.
pub(super) fn let_end(child: &mut Child) -> Option<ExitStatus> {
    let status = ended_within(child, END_LIMIT);
    end(child);
    status
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_a_client_would_take_for_an_option_is_no_address() {
        for bad in ["", "-oProxyCommand=touch x", "a b", "a\nb"] {
            let error = Shell::connect(bad).map(|_| ()).unwrap_err();
            assert!(matches!(error, RemoteError::Address(_)), "{bad:?}: {error}");
        }
    }

    #[test]
    fn the_last_line_is_what_a_client_said_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("said");
        fs::write(&file, "Warning: a\nPermission denied\u{7}\r\n\n").unwrap();
        assert_eq!(last_line(&file), "Permission denied\\u{7}");
        assert_eq!(last_line(&dir.path().join("none")), "");
    }
}
