//! Processor time of a process: a case that waits for a busy machine does not hang.

use std::fs;
use std::time::Duration;

/// Returns the processor time that a process took so far, if it wants to run on; `None` if it waits for
/// something else, or cannot be asked.
pub(crate) fn of_running(process: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, which may have spaces and parentheses, ends at the last parenthesis.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let (state, user, system) = (*fields.first()?, ticks(11)?, ticks(12)?);
    let time = (user + system) as f64 / rustix::param::clock_ticks_per_second() as f64;
    (state == "R").then(|| Duration::from_secs_f64(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_computes_runs_and_one_that_sleeps_does_not() {
        let state = |script: &str| {
            let mut child = std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
            // A busy machine may take a while to start it.
            std::thread::sleep(Duration::from_millis(500));
            let time = of_running(child.id());
            child.kill().unwrap();
            child.wait().unwrap();
            time
        };
        assert!(state("while :; do :; done").is_some());
        assert_eq!(state("exec sleep 60"), None);
        assert_eq!(of_running(u32::MAX), None);
    }
}
