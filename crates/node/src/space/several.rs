//! Extents for a value when no run of free blocks is long enough: the longest runs there are.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::partition::{Partition, Run};

/// A run: number of its partition, first block in it, and length.
pub(super) type Piece = (usize, usize, usize);

/// The longest things so far, `most` of them.
struct Longest<T> {
    most: usize,
    heap: BinaryHeap<Reverse<(usize, T)>>,
}

impl<T: Ord> Longest<T> {
    fn new(most: usize) -> Self {
        Longest {
            most,
            heap: BinaryHeap::with_capacity(most + 1),
        }
    }

    /// Returns the length above which a thing still matters.
    fn bar(&self) -> usize {
        match self.heap.peek() {
            Some(Reverse((least, _))) if self.heap.len() == self.most => *least,
            _ => 0,
        }
    }

    fn offer(&mut self, len: usize, thing: T) {
        if len > self.bar() {
            self.heap.push(Reverse((len, thing)));
            if self.heap.len() > self.most {
                self.heap.pop();
            }
        }
    }
}

/// Returns runs that together have `blocks`, the longest first, at most `most` of them; none if the
/// longest do not do.
pub(super) fn choose(
    partitions: &mut [&mut Partition],
    blocks: usize,
    most: usize,
) -> Option<Vec<Piece>> {
    // A first pass over the summaries shows which runs are too short to matter: so the second looks
    // into few zones, and into no more of them than are still needed where many runs are equal.
    let mut bar = Longest::new(most);
    for partition in partitions.iter_mut() {
        partition.runs(0, usize::MAX, |_, run| {
            bar.offer(run.len(), ());
            None::<()>
        });
    }
    let bar = bar.bar();
    let mut longest = Longest::new(most);
    for (number, partition) in partitions.iter_mut().enumerate() {
        partition.runs(0, usize::MAX, |this, run| {
            match run {
                Run::Whole(from, to) if to - from >= bar => {
                    longest.offer(to - from, (number, from))
                }
                Run::Inner(zone, len) if len >= bar && len > longest.bar() => {
                    for (from, to) in this.inner_runs(zone) {
                        longest.offer(to - from, (number, from));
                    }
                }
                _ => {}
            }
            None::<()>
        });
    }
    let sorted = longest.heap.into_sorted_vec();
    cut(sorted.into_iter().map(|Reverse(run)| run).collect(), blocks)
}

/// Cuts the list of runs, longest first, to `blocks`. The shortest run that can end it does.
fn cut(runs: Vec<(usize, (usize, usize))>, blocks: usize) -> Option<Vec<Piece>> {
    let (mut pieces, mut left) = (Vec::new(), blocks);
    for (at, &(len, (partition, from))) in runs.iter().enumerate() {
        if len >= left {
            let last = runs[at..].iter().rev().find(|run| run.0 >= left);
            let (_, (partition, from)) = *last?;
            pieces.push((partition, from, left));
            // Read in the order of the device.
            pieces.sort_unstable();
            return Some(pieces);
        }
        pieces.push((partition, from, len));
        left -= len;
    }
    None
}
