//! The load that other programs put on the machine, from the processor times in Linux's `/proc`.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// The machine is quiet while other programs use at most this share of its processors.
const QUIET: f64 = 0.05;
/// The time over which the load is determined while waiting.
const SPAN: Duration = Duration::from_secs(2);

/// Processor time since the start of the machine, in clock ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessorTime {
    /// Of all processors, idle or not.
    all: u64,
    idle: u64,
    /// Of this process, and of those of its children that ended.
    own: u64,
}

impl ProcessorTime {
    /// Reads the times; `None` on a system without `/proc`.
    pub(super) fn now() -> Option<Self> {
        let machine = fs::read_to_string("/proc/stat").ok()?;
        Self::parse(&machine, &fs::read_to_string("/proc/self/stat").ok()?)
    }

    fn parse(machine: &str, process: &str) -> Option<Self> {
        let line = machine.lines().next()?.strip_prefix("cpu ")?;
        // user nice system idle iowait irq softirq steal; the guests after them are part of user and nice.
        let ticks: Vec<u64> =
            line.split_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
        let idle = ticks.get(3)? + ticks.get(4)?;
        // The name of the program, in parentheses, may hold spaces.
        let fields = process.rsplit_once(')')?.1.split_whitespace();
        // utime stime cutime cstime
        let own: Vec<u64> =
            fields.skip(11).take(4).map(str::parse).collect::<Result<_, _>>().ok()?;
        (own.len() == 4).then(|| Self { all: ticks.iter().sum(), idle, own: own.iter().sum() })
    }

    /// Returns the share of all processor time since `start` that other programs used.
    pub(super) fn others_since(&self, start: &Self) -> f64 {
        let all = self.all.saturating_sub(start.all);
        let busy = all.saturating_sub(self.idle.saturating_sub(start.idle));
        let others = busy.saturating_sub(self.own.saturating_sub(start.own));
        others as f64 / all.max(1) as f64
    }
}

/// Waits until other programs leave the machine alone, or the limit is over.
pub(super) fn wait(limit: Duration) {
    let start = Instant::now();
    while start.elapsed() < limit {
        let Some(before) = ProcessorTime::now() else { return };
        thread::sleep(SPAN);
        if ProcessorTime::now().is_none_or(|it| it.others_since(&before) <= QUIET) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_of_others_is_what_is_neither_idle_nor_own() {
        let read = |user: u64, idle: u64, own: u64| {
            let machine = format!("cpu  {user} 0 10 {idle} 5 0 0 5 99 0\ncpu0 1 2 3\n");
            let process = format!("17 (a (b) c) R 1 1 1 0 -1 0 0 0 0 0 {own} 1 2 3 20 0\n");
            ProcessorTime::parse(&machine, &process).expect("both are whole")
        };
        let start = read(100, 200, 50);
        assert_eq!(start, ProcessorTime { all: 320, idle: 205, own: 56 });
        // Of 100 ticks 40 were idle, and 45 our own.
        assert!((read(160, 240, 95).others_since(&start) - 0.15).abs() < 1e-12);
        // Ticks of children are accounted for when they end: they may come late.
        assert_eq!(read(110, 290, 90).others_since(&start), 0.0);
        assert_eq!(start.others_since(&start), 0.0);
        for (machine, process) in
            [("", ""), ("cpu  1 2 3", "1 (a) R"), ("cpu  1 x 3 4 5", "1 (a) R 1")]
        {
            assert_eq!(ProcessorTime::parse(machine, process), None);
        }
    }
}
