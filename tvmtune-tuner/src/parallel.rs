//! Work that needs no other work to be done before, on all cores: compiling many files, scoring many candidates.

use std::sync::atomic::{AtomicUsize, Ordering};

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
