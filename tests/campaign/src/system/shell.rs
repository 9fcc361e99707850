//! Commands in circumstances that a shell makes: mounts of their own, or less of something.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::place::Place;

/// Wraps a command: the lines of `script` run before it, and `after` when it has ended. They see
/// variables of the environment.
pub fn around(
    place: &Place,
    command: &Command,
    script: &str,
    after: &str,
    variables: &[(&str, &Path)],
) -> Command {
    wrap(place, command, &["sh", "-c"], script, after, variables)
}

/// As [`around`], with mounts that nobody else sees, and that end with the command.
pub fn among_mounts(
    place: &Place,
    command: &Command,
    script: &str,
    after: &str,
    variables: &[(&str, &Path)],
) -> Command {
    wrap(place, command, &["unshare", "--mount", "sh", "-c"], script, after, variables)
}

fn wrap(
    place: &Place,
    command: &Command,
    shell: &[&str],
    script: &str,
    after: &str,
    variables: &[(&str, &Path)],
) -> Command {
    let mut wrapped = place.command(shell[0]);
    wrapped.args(&shell[1..]);
    wrapped.arg(format!("{script}\n\"$@\"\nstatus=$?\n{after}\nexit $status"));
    wrapped.arg("sh").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    wrapped.envs(variables.iter().copied());
    if let Some(folder) = command.get_current_dir() {
        wrapped.current_dir(folder);
    }
    wrapped.stdin(Stdio::piped());
    wrapped
}

/// Returns whether processes may have mounts of their own: root may.
pub fn has_mounts() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let script = "mount -t tmpfs tmpfs /tmp";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|it| it.success())
    })
}
