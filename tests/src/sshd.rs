//! An ssh server on this machine, for tests of other machines: another user where the tests run as root, with
//! an empty home and programs of its own.
//!
//! Where the machine has no server, the package of Debian is fetched and unpacked into the target folder;
//! nothing is installed.

use std::fs::{self, File, Permissions};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::sandbox::files;

/// The time in which anything that a test waits for happens, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// A server, which ends when this is dropped.
pub struct Sshd {
    folder: TempDir,
    server: Child,
    port: u16,
    user: String,
}

/// The server and the libraries that came with it.
struct Installed {
    program: PathBuf,
    libraries: Option<PathBuf>,
}

/// A user that one can log in as.
struct User {
    name: String,
    uid: u32,
    gid: u32,
}

impl Sshd {
    /// Starts a server.
    ///
    /// # Errors
    ///
    /// The reason why this machine can't run one.
    pub fn start() -> Result<Self, String> {
        let (installed, user) = (installed()?, user()?);
        let folder = tempfile::tempdir().map_err(|it| it.to_string())?;
        let path = folder.path();
        for name in ["client", "home", "tmp", "bin", "server"] {
            fs::create_dir(path.join(name)).expect("it is empty");
        }
        key(&path.join("client/key"))?;
        key(&path.join("server/host_key"))?;
        fs::copy(path.join("client/key.pub"), path.join("server/authorized")).expect("it is there");
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|it| it.local_addr());
        let port = port.map_err(|it| it.to_string())?.port();
        write_files(path, port);
        let program = copied(&installed, &path.join("server"));
        // The server runs as the user whom it lets in: only root could do otherwise, with a user of its own.
        let mut command = Command::new(program);
        if own_uid() == 0 {
            fs::set_permissions(path, Permissions::from_mode(0o711)).expect("it is ours");
            for name in ["home", "tmp", "server"].map(|it| path.join(it)) {
                chown(&name, Some(user.uid), Some(user.gid)).expect("root may");
                for file in files(&name) {
                    chown(&file, Some(user.uid), Some(user.gid)).expect("root may");
                }
            }
            command.uid(user.uid).gid(user.gid);
        }
        let said = File::create(path.join("said")).expect("writable");
        command.args(["-D", "-e", "-f"]).arg(path.join("server/config"));
        command.env("LD_LIBRARY_PATH", path.join("server"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        let server = command.spawn().map_err(|it| format!("sshd does not run: {it}"))?;
        let mut sshd = Self { folder, server, port, user: user.name };
        sshd.wait_until_it_listens().map(|()| sshd)
    }

    fn wait_until_it_listens(&mut self) -> Result<(), String> {
        let started = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            let has_ended = self.server.try_wait().is_ok_and(|it| it.is_some());
            if has_ended || started.elapsed() > PATIENCE {
                let said = fs::read_to_string(self.folder.path().join("said")).unwrap_or_default();
                return Err(format!("sshd does not start: {said}"));
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// The address of the machine.
    pub fn address(&self) -> String {
        format!("{}@127.0.0.1", self.user)
    }

    /// The command of a client that gets in, with options.
    pub fn client(&self) -> String {
        format!(
            "ssh -F none -oStrictHostKeyChecking=no -oUserKnownHostsFile=/dev/null -i{} -p{}",
            self.folder.path().join("client/key").display(),
            self.port
        )
    }

    /// Puts a script there in the place of a program.
    pub fn fake(&self, program: &str, script: &str) {
        let path = self.folder.path().join("bin").join(program);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("writable");
        fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("it is ours");
    }

    /// Puts a driver of CUDA there, of which every command knows.
    pub fn add_driver(&self, library: &Path) {
        let bin = self.folder.path().join("bin");
        let place = bin.join("libcuda.so.1");
        fs::copy(library, &place).expect("it is there");
        fs::set_permissions(place, Permissions::from_mode(0o755)).expect("it is ours");
        let path = bin.display();
        self.fake("sh", &format!("LD_LIBRARY_PATH='{path}' exec /bin/sh \"$@\""));
    }

    /// The files and folders that are left there.
    pub fn left(&self) -> Vec<PathBuf> {
        let folders = ["home", "tmp"].map(|it| self.folder.path().join(it));
        let entries =
            folders.iter().flat_map(|it| fs::read_dir(it).into_iter().flatten().flatten());
        entries.map(|it| it.path()).collect()
    }

    /// Waits until nothing is left there; returns what is.
    pub fn left_at_last(&self) -> Vec<PathBuf> {
        wait_for(|| self.left().is_empty().then_some(()));
        self.left()
    }

    /// Cuts all connections: kills the processes of the server that hold them, and no command.
    pub fn cut(&self) {
        let mut of_server = vec![self.server.id().to_string()];
        let all = processes();
        let is_server = |it: &&Process| it.command.starts_with("sshd");
        // A process may stand before its parent.
        for _ in 0..all.len() {
            let n_known = of_server.len();
            for process in all.iter().filter(is_server) {
                if of_server.contains(&process.parent) && !of_server.contains(&process.id) {
                    of_server.push(process.id.clone());
                }
            }
            if of_server.len() == n_known {
                break;
            }
        }
        of_server[1..].iter().for_each(|it| kill(it, "KILL"));
    }

    /// Waits until a worker there executes a task, which it has processes of its own for; returns its id.
    pub fn busy_worker(&self) -> String {
        let folder = self.folder.path().join("tmp").display().to_string();
        wait_for(|| {
            let all = processes();
            let ours = |it: &&Process| it.command.starts_with(&folder);
            let worker = all.iter().filter(ours).find(|it| it.command.contains(" serve"))?;
            let is_busy = all.iter().filter(ours).any(|it| it.parent == worker.id);
            is_busy.then(|| worker.id.clone())
        })
        .expect("a worker executes a task")
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        // Fails only if it is gone already.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Waits until something is there; `None` if that takes too long.
pub fn wait_for<T>(mut find: impl FnMut() -> Option<T>) -> Option<T> {
    let started = Instant::now();
    loop {
        match find() {
            None if started.elapsed() < PATIENCE => thread::sleep(PAUSE),
            found => return found,
        }
    }
}

/// Sends a signal to a process, or to a group by its negative number.
pub fn kill(id: &str, signal: &str) {
    let status = Command::new("kill").args(["-s", signal, "--", id]).status();
    assert!(status.is_ok(), "`kill` is of POSIX");
}

struct Process {
    id: String,
    parent: String,
    command: String,
}

/// The processes of this machine.
fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let process = |folder: PathBuf| {
        let id = folder.file_name()?.to_str()?.to_owned();
        let status = fs::read_to_string(folder.join("status")).ok()?;
        let parent = status.lines().find_map(|it| it.strip_prefix("PPid:"))?.trim().to_owned();
        let command = fs::read_to_string(folder.join("cmdline")).ok()?.replace('\0', " ");
        Some(Process { id, parent, command })
    };
    entries.filter_map(|it| process(it.path())).collect()
}

/// Writes the configuration, and the script that every command there runs in.
fn write_files(path: &Path, port: u16) {
    let at = |it: &str| path.join(it).display().to_string();
    let script = format!(
        "#!/bin/sh\nexport HOME={} TMPDIR={} PATH={}:$PATH\nexec sh -c \"$SSH_ORIGINAL_COMMAND\"\n",
        at("home"),
        at("tmp"),
        at("bin")
    );
    fs::write(path.join("server/run"), script).expect("writable");
    fs::set_permissions(path.join("server/run"), Permissions::from_mode(0o755)).expect("ours");
    let config = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\n\
         UsePAM no\nStrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
         ForceCommand {}\n",
        at("server/host_key"),
        at("server/authorized"),
        at("server/run")
    );
    fs::write(path.join("server/config"), config).expect("writable");
}

/// Copies a server that was unpacked to where any user can run it; returns the program.
fn copied(installed: &Installed, to: &Path) -> PathBuf {
    let Some(libraries) = &installed.libraries else { return installed.program.clone() };
    let program = to.join("sshd");
    for file in files(libraries).iter().chain([&installed.program]) {
        let name = file.file_name().expect("it is a file");
        fs::copy(file, to.join(name)).expect("there is room");
    }
    program
}

/// Makes a pair of keys.
fn key(path: &Path) -> Result<(), String> {
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("no `ssh-keygen` of OpenSSH: {other:?}")),
    }
}

/// The user of the tests; another one that has a shell where that is root.
fn user() -> Result<User, String> {
    let uid = own_uid();
    let users = fs::read_to_string("/etc/passwd").map_err(|it| it.to_string())?;
    let user = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, uid, gid, _, _, shell] = fields[..] else { return None };
        let user = User { name: name.to_owned(), uid: uid.parse().ok()?, gid: gid.parse().ok()? };
        Some((user, shell.ends_with("sh")))
    };
    let mut users = users.lines().filter_map(user);
    let fits = |it: &(User, bool)| if uid == 0 { it.0.uid != 0 && it.1 } else { it.0.uid == uid };
    let found = users.find(fits).map(|it| it.0);
    found.ok_or_else(|| "the tests run as root, and no other user has a shell".to_owned())
}

fn own_uid() -> u32 {
    let output = Command::new("id").arg("-u").output().expect("`id` is of POSIX");
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
}

/// Finds the server of this machine, or fetches one.
fn installed() -> Result<Installed, String> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _lock = ONE_AT_A_TIME.lock();
    let usual = ["/usr/sbin/sshd", "/usr/local/sbin/sshd"].map(PathBuf::from);
    if let Some(program) = usual.into_iter().find(|it| it.is_file()) {
        return Ok(Installed { program, libraries: None });
    }
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/openssh-server");
    if !target.exists() {
        fetch(&target)?;
    }
    let program = target.join("usr/sbin/sshd");
    Ok(Installed { program, libraries: Some(target.join("usr/lib")) })
}

/// Fetches the packages of Debian and unpacks them.
fn fetch(target: &Path) -> Result<(), String> {
    let parent = target.parent().expect("it has one");
    fs::create_dir_all(parent).map_err(|it| it.to_string())?;
    let folder = tempfile::tempdir_in(parent).map_err(|it| it.to_string())?;
    let run = |command: &mut Command| {
        let output = command.current_dir(folder.path()).output();
        match output {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
            Err(error) => Err(error.to_string()),
        }
    };
    let packages = ["openssh-server", "libwrap0"];
    let fetched = run(Command::new("apt-get").arg("download").args(packages));
    fetched.map_err(|why| format!("no sshd, and no package of it: {why}"))?;
    let unpacked = folder.path().join("unpacked");
    for package in files(folder.path()).iter().filter(|it| it.extension().is_some()) {
        run(Command::new("dpkg").arg("-x").arg(package).arg(&unpacked))?;
    }
    fs::rename(&unpacked, target).map_err(|it| it.to_string())
}
