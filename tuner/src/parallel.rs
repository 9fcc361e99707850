//! Work that needs no other work to be done before, on all cores: compiling many files, scoring many candidates.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;

/// Each thread takes its items in about so many pieces: none waits long for the last one.
const PIECES: usize = 8;

/// How many threads can run at once.
pub fn n_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What a function makes of each, in order.
///
/// # Panics
///
/// If the function does.
pub fn on_all_cores<T: Sync, R: Send>(items: &[T], function: impl Fn(&T) -> R + Sync) -> Vec<R> {
    on_threads(n_cores(), items, function)
}

/// What a function makes of each, in order, however many threads there are.
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
    let piece = (items.len() / (n_threads * PIECES)).max(1);
    let pieces: Vec<&[T]> = items.chunks(piece).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some((n, piece)) = take(&pieces, &next) {
            done.push((n, piece.iter().map(&function).collect::<Vec<R>>()));
        }
        done
    };
    let mut done = std::thread::scope(|scope| {
        let others: Vec<_> = (1..n_threads.min(pieces.len())).map(|_| scope.spawn(work)).collect();
        let mut done = work();
        for it in others {
            done.extend(it.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(n, _)| *n);
    done.into_iter().flat_map(|(_, results)| results).collect()
}

/// Has other threads make something of each item, a few items ahead of whoever uses it, in order,
/// for as long as that one wants more: a compiler's work, while what it made before is measured.
/// Without other threads, nothing is made ahead.
///
/// # Errors
///
/// That of the first use that fails, which is the last.
///
/// # Panics
///
/// If making something does.
pub fn ahead<T: Sync, R: Send, E>(
    n_threads: usize,
    items: &[T],
    make: impl Fn(&T) -> R + Sync,
    mut then: impl FnMut(&T, R) -> Result<bool, E>,
) -> Result<(), E> {
    if n_threads == 0 {
        for it in items {
            if !then(it, make(it))? {
                break;
            }
        }
        return Ok(());
    }
    let n_makers = n_threads.min(items.len());
    std::thread::scope(|scope| {
        // Each makes every so-manieth item; who uses them asks one after the other.
        let mut makers = Vec::new();
        for n in 0..n_makers {
            let (maker, made) = sync_channel(1);
            makers.push(made);
            let mut items = items.iter().skip(n).step_by(n_makers);
            let make = &make;
            // Whoever is gone wants no more.
            scope.spawn(move || items.try_for_each(|it| maker.send(make(it))));
        }
        for (it, made) in items.iter().zip(makers.iter().cycle()) {
            // One that panicked does so again where it is joined, at the end of this scope.
            let Ok(made) = made.recv() else { break };
            if !then(it, made)? {
                break;
            }
        }
        Ok(())
    })
}

/// The next piece that nobody has taken, with its number.
fn take<'a, T>(pieces: &[&'a [T]], next: &AtomicUsize) -> Option<(usize, &'a [T])> {
    let n = next.fetch_add(1, Ordering::Relaxed);
    Some((n, *pieces.get(n)?))
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
    fn what_is_made_ahead_is_used_in_order_until_it_is_enough() {
        for n_threads in [0, 1, 3, 64] {
            let n_made = AtomicUsize::new(0);
            let make = |it: &u64| {
                n_made.fetch_add(1, Ordering::Relaxed);
                it * it
            };
            let items = Vec::from_iter(0..1000);
            let mut used = Vec::new();
            let done: Result<(), ()> = ahead(n_threads, &items, make, |it, square| {
                assert_eq!(square, it * it);
                used.push(*it);
                Ok(used.len() < 100)
            });
            assert!(done.is_ok() && used == items[..100]);
            // Each thread has made one that waits, and makes another one.
            assert!(n_made.into_inner() <= 100 + 2 * n_threads);
            let failed = ahead(
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
