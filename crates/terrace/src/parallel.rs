//! The same work for several items at once, where an opening would keep its caller waiting.

use std::panic::resume_unwind;
use std::thread;

use crate::options::{Background, Options};

/// How many items may be worked on at a time. One where all work is done in the caller's thread.
pub(crate) fn threads(options: &Options) -> usize {
    match options.background {
        Background::Inline => 1,
        // Shuttle knows its own threads only.
        Background::Threads if cfg!(all(test, feature = "shuttle")) => 1,
        Background::Threads => thread::available_parallelism().map_or(1, |threads| threads.get()),
    }
}

/// `work` for each item, `threads` at a time; the results in the items' order.
pub(crate) fn map<T, R>(items: &[T], threads: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R>
where
    T: Sync,
    R: Send,
{
    let work = &work;
    let mut results = Vec::with_capacity(items.len());
    for chunk in items.chunks(threads.max(1)) {
        let [first, others @ ..] = chunk else {
            continue;
        };
        thread::scope(|scope| {
            let started: Vec<_> = others
                .iter()
                .map(|item| {
                    let thread = thread::Builder::new().name("terrace-open".to_owned());
                    (item, thread.spawn_scoped(scope, move || work(item)))
                })
                .collect();
            results.push(work(first));
            for (item, thread) in started {
                results.push(match thread {
                    Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                    // No thread to be had: it takes longer.
                    Err(_) => work(item),
                });
            }
        });
    }
    results
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<u32> = (0..7).collect();
        for threads in [0, 1, 2, 3, 100] {
            let doubled = map(&items, threads, |item| item * 2);
            assert_eq!(doubled, [0, 2, 4, 6, 8, 10, 12], "{threads} threads");
        }
        assert!(map(&[0; 0], 2, |item| *item).is_empty());
    }

    #[test]
    fn items_are_worked_on_at_the_same_time() {
        let both = Barrier::new(2);
        map(&[1, 2], 2, |_| both.wait());
    }
}
