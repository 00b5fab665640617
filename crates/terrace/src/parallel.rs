//! The same work for several items at once, where an opening would keep its caller waiting.

use std::thread;

use terrace_lsm::guard::{catch, panicked};

use crate::Result;
use crate::options::{Background, Options};
use crate::thread_start::start_scoped;

/// Returns the number of items to work on at a time: 1 where the caller's thread does all work.
pub(crate) fn threads(options: &Options) -> usize {
    match options.background {
        Background::Inline => 1,
        // Shuttle knows its own threads only.
        Background::Threads if cfg!(all(test, feature = "shuttle")) => 1,
        Background::Threads => thread::available_parallelism().map_or(1, |threads| threads.get()),
    }
}

/// Does `work` for each item, `threads` at a time. Returns the results in the items' order.
///
/// # Errors
/// [`Error::Panicked`](crate::Error::Panicked), which names `step`, if the work for one panics.
pub(crate) fn map<T, R>(
    step: &str,
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Result<Vec<R>>
where
    T: Sync,
    R: Send,
{
    let work = &work;
    let work_here = |item| catch(step, || Ok(work(item)));
    let mut results = Vec::with_capacity(items.len());
    for chunk in items.chunks(threads.max(1)) {
        let [first, others @ ..] = chunk else {
            continue;
        };
        thread::scope(|scope| {
            let started: Vec<_> = others
                .iter()
                .map(|item| {
                    let work = move || work(item);
                    (item, start_scoped(scope, "terrace-open", work))
                })
                .collect();
            results.push(work_here(first));
            for (item, thread) in started {
                results.push(match thread {
                    Ok(thread) => thread.join().map_err(|payload| panicked(step, payload)),
                    // No thread to be had: it takes longer.
                    Err(_) => work_here(item),
                });
            }
        });
    }
    results.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::Error;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<u32> = (0..7).collect();
        for threads in [0, 1, 2, 3, 100] {
            let doubled = map("double", &items, threads, |item| item * 2).unwrap();
            assert_eq!(doubled, [0, 2, 4, 6, 8, 10, 12], "{threads} threads");
        }
        assert!(map("copy", &[0; 0], 2, |item| *item).unwrap().is_empty());
    }

    #[test]
    fn items_are_worked_on_at_the_same_time() {
        let both = Barrier::new(2);
        map("meet", &[1, 2], 2, |_| both.wait()).unwrap();
    }

    #[test]
    fn a_panic_in_any_thread_is_an_error_and_the_others_end() {
        for bad in 0..4u32 {
            let ended = AtomicU32::new(0);
            let done = map("divide", &[0, 1, 2, 3], 3, |&item| {
                assert_ne!(item, bad, "no quotient");
                ended.fetch_add(1, Ordering::Relaxed);
            });
            match done {
                Err(Error::Panicked { step, message }) => {
                    assert_eq!(step, "divide");
                    assert!(message.contains("no quotient"), "{message}");
                }
                other => panic!("{other:?}"),
            }
            assert!(ended.into_inner() >= 2, "those of the same round end");
        }
    }
}
