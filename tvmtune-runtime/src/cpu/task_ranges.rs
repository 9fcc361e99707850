//! Distribution of the tasks of a launch over threads.
//!
//! Each thread takes neighboring tasks, in order: they share operands, and what one prefetches at
//! its end the next one reads. A thread that is done takes from the ranges of others, so that one that
//! comes late, or not at all because the machine is busy, delays little.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Ranges at most; beyond, threads share them.
const MAX_RANGES: usize = 64;

/// Chunks per thread: what a preempted thread holds is a small part of its range.
const CHUNKS_PER_THREAD: u64 = 8;

/// The tasks of a launch that no thread has taken.
pub(super) struct TaskRanges {
    /// The next task of each range.
    next: [AtomicU64; MAX_RANGES],
    n_ranges: u64,
    n_tasks: u64,
    /// Tasks that a thread takes at once.
    chunk: u64,
    n_arrived: AtomicUsize,
}

impl TaskRanges {
    /// Divides tasks among so many threads, at least 1.
    pub(super) fn new(n_tasks: u64, n_threads: usize) -> Self {
        let n_ranges = n_threads.clamp(1, MAX_RANGES) as u64;
        let chunk = (n_tasks / (n_threads as u64 * CHUNKS_PER_THREAD)).max(1);
        let n_arrived = AtomicUsize::new(0);
        let next = [const { AtomicU64::new(0) }; MAX_RANGES];
        let mut ranges = Self { next, n_ranges, n_tasks, chunk, n_arrived };
        for n in 0..n_ranges {
            ranges.next[n as usize] = AtomicU64::new(ranges.begin(n));
        }
        ranges
    }

    /// Calls `work(first, end)` for chunks until no task is left; every thread calls it once.
    pub(super) fn run(&self, work: &(dyn Fn(u64, u64) + Sync)) {
        let own = self.n_arrived.fetch_add(1, Ordering::Relaxed) as u64;
        for n in 0..self.n_ranges {
            let range = (own + n) % self.n_ranges;
            let (next, end) = (&self.next[range as usize], self.begin(range + 1));
            while next.load(Ordering::Relaxed) < end {
                let first = next.fetch_add(self.chunk, Ordering::Relaxed);
                if first < end {
                    work(first, (first + self.chunk).min(end));
                }
            }
        }
    }

    /// Returns the first task of a range; that of the range behind the last is the number of tasks.
    fn begin(&self, range: u64) -> u64 {
        let longer = range.min(self.n_tasks % self.n_ranges);
        self.n_tasks / self.n_ranges * range + longer
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Returns the chunks that a thread takes if it is alone.
    fn chunks(ranges: &TaskRanges) -> Vec<(u64, u64)> {
        let chunks = Mutex::new(Vec::new());
        ranges.run(&|first, end| chunks.lock().unwrap().push((first, end)));
        chunks.into_inner().unwrap()
    }

    #[test]
    fn a_thread_takes_its_range_in_order_and_then_those_of_others() {
        let ranges = TaskRanges::new(10, 3);
        let starts = |chunks: Vec<(u64, u64)>| chunks.iter().map(|it| it.0).collect::<Vec<_>>();
        // The second thread to arrive begins with the second range: of 4, 3 and 3 tasks.
        ranges.n_arrived.store(1, Ordering::Relaxed);
        assert_eq!(starts(chunks(&ranges)), [4, 5, 6, 7, 8, 9, 0, 1, 2, 3]);
        assert_eq!(chunks(&ranges), []);
    }

    #[test]
    fn chunks_end_with_their_range() {
        let ranges = TaskRanges::new(100, 2);
        let expected = (0..9).map(|n| (6 * n, (6 * n + 6).min(50)));
        assert_eq!(chunks(&ranges)[..9], expected.collect::<Vec<_>>());
    }

    #[test]
    fn each_task_is_taken_once() {
        for n_threads in [1, 2, 3, 64, 65, 200] {
            for n_tasks in [0, 1, 2, 63, 64, 65, 1000, 12345] {
                let ranges = TaskRanges::new(n_tasks, n_threads);
                let mut tasks: Vec<u64> =
                    chunks(&ranges).into_iter().flat_map(|(first, end)| first..end).collect();
                tasks.sort_unstable();
                assert_eq!(tasks, (0..n_tasks).collect::<Vec<_>>());
            }
        }
    }
}
