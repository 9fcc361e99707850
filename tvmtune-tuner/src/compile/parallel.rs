//! Work that needs no other work to be done before, on all cores: compiling many files.

use std::sync::Mutex;

/// What a function makes of each, in order.
///
/// # Panics
///
/// If the function does.
pub fn on_all_cores<T: Sync, R: Send>(items: &[T], function: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (todo, done) = (Mutex::new(items.iter().enumerate()), Mutex::new(Vec::new()));
    let work = || {
        let next = || todo.lock().expect("no one panics while holding it").next();
        while let Some((n, item)) = next() {
            let result = function(item);
            done.lock().expect("no one panics while holding it").push((n, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..n_threads {
            scope.spawn(work);
        }
    });
    let mut done = done.into_inner().expect("no one panics while holding it");
    done.sort_unstable_by_key(|(n, _)| *n);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order() {
        let squares: Vec<u64> = on_all_cores(&Vec::from_iter(0..1000_u64), |it| it * it);
        assert!(squares.iter().zip(0..).all(|(it, n)| *it == n * n) && squares.len() == 1000);
    }
}
