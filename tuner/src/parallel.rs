//! Parallel maps with results in order: compiling many files, scoring many candidates.
//!
//! Where the system gives fewer threads than are asked for, since memory or processes are limited, those
//! that there are do the work.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// Chunks per thread: with small ones, threads end at about the same time.
const CHUNKS_PER_THREAD: usize = 8;

/// Returns the number of threads that can run at once.
pub fn n_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Maps items on all cores; returns the results in order.
///
/// # Panics
///
/// If the function does.
pub fn on_all_cores<T: Sync, R: Send>(items: &[T], function: impl Fn(&T) -> R + Sync) -> Vec<R> {
    on_threads(n_cores(), items, function)
}

/// Maps items on a number of threads; returns the results in order.
///
/// # Panics
///
/// If the function does.
pub fn on_threads<T: Sync, R: Send>(
    n_threads: usize,
    items: &[T],
    function: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    if n_threads <= 1 || items.len() <= 1 {
        return items.iter().map(function).collect();
    }
    let chunk = (items.len() / (n_threads * CHUNKS_PER_THREAD)).max(1);
    let chunks: Vec<&[T]> = items.chunks(chunk).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let Some(chunk) = chunks.get(n) else { return done };
            done.push((n, chunk.iter().map(&function).collect::<Vec<R>>()));
        }
    };
    let mut done = std::thread::scope(|scope| {
        let others: Vec<_> =
            (1..n_threads.min(chunks.len())).map_while(|_| start(scope, work)).collect();
        let mut done = work();
        for it in others {
            done.extend(it.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(n, _)| *n);
    done.into_iter().flat_map(|(_, results)| results).collect()
}

/// Maps items on other threads a few items ahead of their consumer, which runs on this thread, in
/// order, until it returns false: candidates are built while earlier ones are measured.
///
/// # Errors
///
/// The error of the consumer, which then stops.
///
/// # Panics
///
/// If the function does.
pub fn map_ahead<'a, T: Sync, R: Send, E>(
    n_threads: usize,
    items: &'a [T],
    function: impl Fn(&T) -> R + Sync,
    mut consume: impl FnMut(&'a T, R) -> Result<bool, E>,
) -> Result<(), E> {
    let n_workers = n_threads.clamp(1, items.len().max(1));
    std::thread::scope(|scope| {
        // Each worker maps every `n_workers`-th item; the consumer receives from one after the other.
        let mut receivers = Vec::new();
        for n in 0..n_workers {
            let (sender, receiver) = sync_channel(1);
            let mut items = items.iter().skip(n).step_by(n_workers);
            let function = &function;
            // Sending fails once the consumer has stopped.
            let work = move || items.try_for_each(|it| sender.send(function(it)));
            receivers.push(start(scope, work).map(|_| receiver));
        }
        for (it, receiver) in items.iter().zip(receivers.iter().cycle()) {
            let result = match receiver {
                Some(receiver) => receiver.recv(),
                None => Ok(function(it)),
            };
            // The panic of a worker is resumed at the end of this scope.
            let Ok(result) = result else { break };
            if !consume(it, result)? {
                break;
            }
        }
        Ok(())
    })
}

/// Starts a thread; `None` if the system refuses.
fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Option<ScopedJoinHandle<'scope, T>> {
    Builder::new().spawn_scoped(scope, work).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order() {
        for (n_threads, n_items) in [(1, 10), (2, 1), (2, 0), (3, 1000), (64, 5)] {
            let items = Vec::from_iter(0..n_items);
            let squares: Vec<u64> = on_threads(n_threads, &items, |it| it * it);
            assert!(squares.iter().zip(0..).all(|(it, n)| *it == n * n), "{n_threads} {n_items}");
            assert_eq!(squares.len() as u64, n_items);
        }
    }

    #[test]
    fn items_mapped_ahead_are_consumed_in_order_until_the_consumer_stops() {
        for n_threads in [1, 3, 64] {
            let n_mapped = AtomicUsize::new(0);
            let map = |it: &u64| {
                n_mapped.fetch_add(1, Ordering::Relaxed);
                it * it
            };
            let items = Vec::from_iter(0..1000);
            let mut used = Vec::new();
            let done: Result<(), ()> = map_ahead(n_threads, &items, map, |it, square| {
                assert_eq!(square, it * it);
                used.push(*it);
                Ok(used.len() < 100)
            });
            assert!(done.is_ok() && used == items[..100]);
            // Each thread has mapped one item that waits, and maps another one.
            assert!(n_mapped.into_inner() <= 100 + 2 * n_threads);
            let failed = map_ahead(
                n_threads,
                &items,
                |it| *it,
                |it, _| if *it < 3 { Ok(true) } else { Err(*it) },
            );
            assert_eq!(failed, Err(3));
        }
    }

    #[test]
    fn all_threads_work() {
        let both = std::sync::Barrier::new(2);
        // Each of the two items waits for the other.
        let done = on_threads(2, &[1, 2], |it| {
            both.wait();
            *it
        });
        assert_eq!(done, [1, 2]);
    }
}
