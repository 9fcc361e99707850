//! The process that holds a shared connection. It ends with this one, however this one ends, and takes the
//! folder of its socket with it.

use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use super::shell::let_end;

/// Starts the client, and a guard that waits for the end of its standard input: that is the end of this process,
/// also if it is killed. Signals of the terminal reach all processes of a command at once, so the guard takes
/// no notice of them.
const SCRIPT: &str = r#"
folder=$1; shift
exec 3<&0
"$@" </dev/null 3<&- &
master=$!
(trap '' HUP INT TERM; read -r _ <&3; kill "$master"; rm -rf -- "$folder") 2>/dev/null &
exec 3<&- </dev/null
wait "$master"
"#;

/// The process.
pub(super) struct Master(Child);

impl Master {
    /// Starts a client that holds a connection until it is ended; the folder of its socket is removed then.
    pub(super) fn start(
        client: &Command,
        folder: &Path,
        stderr: impl Into<Stdio>,
    ) -> io::Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "sh"]).arg(folder).arg(client.get_program());
        command.args(client.get_args());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(stderr);
        command.spawn().map(Self)
    }

    /// Returns its status if it has ended by itself.
    pub(super) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.0.try_wait()
    }

    /// Ends it.
    pub(super) fn end(&mut self) {
        drop(self.0.stdin.take());
        let_end(&mut self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// Waits until something holds; tells if it does.
    fn is_soon(mut what: impl FnMut() -> bool) -> bool {
        (0..1000).any(|_| {
            what() || {
                thread::sleep(Duration::from_millis(10));
                false
            }
        })
    }

    #[test]
    fn its_end_takes_the_client_and_the_folder_with_it() {
        for is_killed in [false, true] {
            let root = tempfile::tempdir().unwrap();
            let (folder, pid) = (root.path().join("socket"), root.path().join("pid"));
            fs::create_dir(&folder).unwrap();
            let mut client = Command::new("sh");
            client.args(["-c", "echo $$ > \"$0\"; exec sleep 600"]).arg(&pid);
            let stderr = File::create(root.path().join("said")).unwrap();
            let mut master = Master::start(&client, &folder, stderr).unwrap();
            let number = || fs::read_to_string(&pid).unwrap_or_default().trim().to_owned();
            assert!(is_soon(|| !number().is_empty()));
            let process = Path::new("/proc").join(number());
            assert!(folder.exists() && (process.exists() || cfg!(not(target_os = "linux"))));
            match is_killed {
                // As by a signal that ends this process.
                true => drop((master.0.kill(), master.0.wait())),
                false => master.end(),
            }
            assert!(is_soon(|| !folder.exists() && !process.exists()), "killed: {is_killed}");
        }
    }

    #[test]
    fn a_client_that_fails_is_seen_with_its_status_while_the_folder_stays() {
        let root = tempfile::tempdir().unwrap();
        let mut client = Command::new("sh");
        client.args(["-c", "echo no route >&2; exit 7"]);
        let said = root.path().join("said");
        let mut master = Master::start(&client, root.path(), File::create(&said).unwrap()).unwrap();
        let status = |it: &mut Master| it.try_wait().unwrap().and_then(|it| it.code());
        assert!(is_soon(|| status(&mut master) == Some(7)));
        assert_eq!(fs::read_to_string(&said).unwrap(), "no route\n");
        master.end();
    }
}
