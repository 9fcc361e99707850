//! Other processes, as far as Linux tells about them: on other systems, nothing is known.

use std::fs;
use std::io::ErrorKind;

/// Returns whether a process has ended: no process has its number, or it is a zombie, which some containers
/// keep for long, since nothing there waits for processes whose parent was killed.
pub fn is_gone(process: u32) -> bool {
    match fs::read_to_string(format!("/proc/{process}/stat")) {
        Ok(stat) => matches!(state(&stat), Some('Z' | 'X')),
        // Without `/proc`, nothing tells.
        Err(error) => {
            error.kind() == ErrorKind::NotFound && fs::exists("/proc/self/stat").unwrap_or(false)
        }
    }
}

/// Returns the state in a line of `/proc/<process>/stat`, which follows the name in parentheses.
pub(crate) fn state(stat: &str) -> Option<char> {
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::{self, Command};

    use super::*;

    #[test]
    fn processes_that_ended_are_gone_also_if_nobody_waited_for_them() {
        assert!(!is_gone(process::id()));
        assert!(is_gone(u32::MAX));
        let mut child = Command::new("true").spawn().unwrap();
        while !is_gone(child.id()) {
            std::thread::yield_now();
        }
        assert!(fs::exists(format!("/proc/{}", child.id())).unwrap(), "it is a zombie");
        child.wait().unwrap();
        assert!(is_gone(child.id()));
    }

    #[test]
    fn the_state_follows_the_name() {
        assert_eq!(state("12 (a) b) T 1 2"), Some('T'));
        assert_eq!(state("nonsense"), None);
    }
}
