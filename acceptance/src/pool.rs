//! The worker process: started when there is something to do, watched, and replaced.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::item::Item;
use crate::protocol::{Device, Order, Outcome, Reply};

/// Whoever does not answer for so long hangs: drivers may take long to start, and interpreters to
/// say what is right.
const PATIENCE: Duration = Duration::from_secs(90);

/// At most one worker at a time.
pub struct Pool {
    /// The program to start, and what it is told before the folder.
    program: (PathBuf, Vec<String>),
    folder: PathBuf,
    patience: Duration,
    worker: Option<Worker>,
}

struct Worker {
    child: Child,
    orders: ChildStdin,
    replies: Receiver<String>,
}

/// Why there is no reply.
enum Silence {
    Ended(String),
    TimedOut,
}

impl Pool {
    /// Workers that are this program again, for a bundle in a folder.
    ///
    /// # Errors
    ///
    /// If the system does not say which program this is.
    pub fn new(folder: &Path) -> Result<Self> {
        let program = std::env::current_exe().context("which program this is")?;
        Ok(Self::of((program, vec!["worker".to_owned()]), folder, PATIENCE))
    }

    /// Workers that are a program with arguments, and the folder after them.
    pub fn of(program: (PathBuf, Vec<String>), folder: &Path, patience: Duration) -> Self {
        Self { program, folder: folder.to_owned(), patience, worker: None }
    }

    /// What the device is; an error says why there is none.
    ///
    /// # Errors
    ///
    /// If no worker can be started.
    pub fn device(&mut self) -> Result<Result<Device, String>> {
        Ok(match self.ask(&Order::Device)? {
            Ok(Reply::Device(device)) => Ok(device),
            Ok(Reply::Tried(_)) => Err("the worker talks nonsense".to_owned()),
            Err(Silence::Ended(why)) => Err(why),
            Err(Silence::TimedOut) => Err("the driver does not answer".to_owned()),
        })
    }

    /// What becomes of a candidate.
    ///
    /// # Errors
    ///
    /// If no worker can be started.
    pub fn attempt(&mut self, item: &Item, limit_ns: Option<f64>) -> Result<Outcome> {
        let reply = self.ask(&Order::Try(Box::new(item.clone()), limit_ns))?;
        let outcome = match reply {
            Ok(Reply::Tried(outcome)) => outcome,
            Ok(Reply::Device(_)) => Outcome::Lost("the worker talks nonsense".to_owned()),
            Err(Silence::Ended(why)) => Outcome::Lost(why),
            Err(Silence::TimedOut) => {
                let seconds = self.patience.as_secs();
                Outcome::Lost(format!("no answer within {seconds} s"))
            }
        };
        if matches!(outcome, Outcome::Failed(_) | Outcome::Lost(_)) {
            self.worker = None;
        }
        Ok(outcome)
    }

    fn ask(&mut self, order: &Order) -> Result<Result<Reply, Silence>> {
        let worker = match self.worker.take() {
            Some(worker) => worker,
            None => Worker::start(&self.program, &self.folder)?,
        };
        let worker = self.worker.insert(worker);
        let line = serde_json::to_string(order)?;
        let reply = match writeln!(worker.orders, "{line}") {
            Ok(()) => worker.replies.recv_timeout(self.patience),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        };
        let nonsense = |it| Silence::Ended(format!("the worker talks nonsense: {it}"));
        Ok(match reply {
            Ok(line) => serde_json::from_str(&line).map_err(nonsense),
            Err(silence) => {
                // Dropping a worker kills it.
                let ended = self.worker.take().map(Worker::end).unwrap_or_default();
                Err(match silence {
                    RecvTimeoutError::Timeout => Silence::TimedOut,
                    RecvTimeoutError::Disconnected => Silence::Ended(ended),
                })
            }
        })
    }
}

impl Worker {
    fn start((program, arguments): &(PathBuf, Vec<String>), folder: &Path) -> Result<Self> {
        let mut child = Command::new(program)
            .args(arguments)
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting `{}`", program.display()))?;
        let orders = child.stdin.take().context("its input is a pipe")?;
        let out = child.stdout.take().context("its output is a pipe")?;
        let (send, replies) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(out).lines().map_while(Result::ok);
            lines.into_iter().try_for_each(|it| send.send(it)).ok();
        });
        Ok(Self { child, orders, replies })
    }

    /// Kills it, unless it has ended; gives what it had to say for itself.
    fn end(mut self) -> String {
        drop(self.child.kill());
        let status = self.child.wait().map_or(String::new(), |it| it.to_string());
        let mut said = String::new();
        if let Some(mut errors) = self.child.stderr.take() {
            drop(std::io::Read::read_to_string(&mut errors, &mut said));
        }
        match said.lines().rfind(|it| !it.trim().is_empty()) {
            Some(last) => last.trim_start_matches("error: ").to_owned(),
            None => format!("the worker ended: {status}"),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    /// A pool whose workers are a script of the shell.
    fn pool(script: &str) -> Pool {
        let program = ("/bin/sh".into(), vec!["-c".to_owned(), script.to_owned()]);
        Pool::of(program, Path::new("."), Duration::from_secs(2))
    }

    fn item() -> Item {
        serde_json::from_str(
            r#"{"goal":"check","case":"a","dims":"","source":"default","trace":[],"artifact":"0",
                "image":"","predicted":null,"flops":0.0,"bytes":0.0}"#,
        )
        .unwrap()
    }

    #[test]
    fn a_worker_that_dies_costs_one_candidate() {
        let mut pool = pool(r#"read x; echo "driver: on fire" >&2; exit 3"#);
        for _ in 0..2 {
            let outcome = pool.attempt(&item(), None).unwrap();
            assert_eq!(outcome, Outcome::Lost("driver: on fire".to_owned()));
        }
        assert_eq!(pool.device().unwrap(), Err("driver: on fire".to_owned()));
    }

    #[test]
    fn a_worker_that_hangs_is_replaced() {
        let mut pool = pool("while read x; do :; done");
        let outcome = pool.attempt(&item(), None).unwrap();
        assert_eq!(outcome, Outcome::Lost("no answer within 2 s".to_owned()));
        assert!(pool.worker.is_none());
    }

    #[test]
    fn a_worker_that_answers_is_kept_until_its_device_fails() {
        let script = r#"read x; echo '{"tried":{"right":3}}'; read x; echo '{"tried":{"failed":"x"}}'
            read x; echo '{"tried":{"right":4}}'"#;
        let mut pool = pool(script);
        assert_eq!(pool.attempt(&item(), None).unwrap(), Outcome::Right(3));
        assert!(pool.worker.is_some());
        assert_eq!(pool.attempt(&item(), None).unwrap(), Outcome::Failed("x".to_owned()));
        assert_eq!(pool.attempt(&item(), None).unwrap(), Outcome::Right(3), "it is another one");
    }
}
