//! Idle arenas lend their memory to the read buffer of a store whose memory is bounded.
//!
//! A store has memory for as many arenas as may hold unflushed writes, and uses it all while writes
//! come faster than flushes take them. Where few writes come, or none, one arena fills for seconds
//! or hours and the others lie idle. Their pages are the page cache's, which gives them to other
//! users. So the read buffer may hold the memory of all but the next one once the active arena takes
//! longer than [`SLOW`] to fill. Once it takes longer than [`IDLE`], the buffer may
//! hold that one's, too. As soon as an arena fills faster, the buffer may hold nothing of them.
//!
//! No writer should wait for memory to come back. With each write from then on the buffer frees a
//! multiple of the write's bytes (`Forwarding::end`). So an arena's share is free before the
//! arena takes it, unless the arena takes it at once.

use std::time::Duration;

use terrace_lsm::sync::Instant;
use terrace_lsm::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use terrace_region::Description;

use crate::Options;
use crate::db::Store;
use crate::db::lock_order::{OrderedMutex, place};
use crate::db::owners::Writes;
use crate::memory::Loan;
use crate::read_buffer::ReadBuffer;

/// Writers that fill arenas more slowly need two: one, and the next while that is flushed.
const SLOW: Duration = Duration::from_secs(5);
/// An arena that takes so long leaves the next one's memory time to come back. With that one lent,
/// too, at an arena every 5.6 s, writes waited 24 to 50 ms at each flush (F of 100 B, in 391 MiB).
const IDLE: Duration = Duration::from_secs(10);

/// Number of arenas without unflushed writes that are not lent while arenas fill fast.
const ALL: usize = usize::MAX;

/// Returns the maximum number of bytes that the arenas of a region lend.
pub(crate) fn lendable_bytes(options: &Options, region: &Description) -> u64 {
    match options.borrows_arenas() {
        true => loan(options, region, 0).bytes(),
        false => 0,
    }
}

/// Returns the loan of all arenas but `kept` of them. One takes writes in any case.
fn loan(options: &Options, region: &Description, kept: usize) -> Loan {
    // The page cache gives up pages that are not read, and a tmpfs keeps them. Of arenas in this
    // process's own memory one more is there, for the next use; persistent memory is no DRAM.
    let there = match (region.method, &*region.medium) {
        (_, "tmpfs" | "ramfs") => 0,
        ("mapped", _) => options.max_arenas,
        ("written" | "volatile", _) => options.max_arenas - 1,
        _ => 0,
    };
    let bytes_of = |arenas: usize| (arenas as u64).saturating_mul(options.arena_bytes);
    Loan::of_idle_arenas(bytes_of(there), bytes_of(kept.max(1)))
}

/// The number of arenas that do not lend, and the time since when the active one has been filling.
pub(crate) struct ArenaLoan {
    is_wanted: bool,
    opened: Instant,
    rolled_over_at_ms: AtomicU64,
    /// Number of arenas that do not lend, besides those that hold unflushed writes.
    kept: AtomicUsize,
    settling: OrderedMutex<{ place::ARENA_LOAN }, ()>,
}

impl ArenaLoan {
    pub(crate) fn new(buffer: Option<&ReadBuffer>) -> Self {
        ArenaLoan {
            is_wanted: buffer.is_some_and(|buffer| buffer.most_borrowed_bytes() > 0),
            opened: Instant::now(),
            rolled_over_at_ms: AtomicU64::new(0),
            kept: AtomicUsize::new(ALL),
            settling: OrderedMutex::new(()),
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns how many arenas to keep, if `filled_sixteenths` of the active one are full by now.
    fn to_be_kept(&self, now_ms: u64, filled_sixteenths: u64) -> usize {
        let since_ms = self.rolled_over_at_ms.load(Ordering::Relaxed);
        let elapsed_ms = u128::from(now_ms.saturating_sub(since_ms));
        let takes =
            |time: Duration| elapsed_ms * 16 >= time.as_millis() * u128::from(filled_sixteenths);
        if takes(IDLE) {
            0
        } else if takes(SLOW) {
            1
        } else {
            ALL
        }
    }
}

impl Store {
    /// Settles the loan after an arena, full to `filled_sixteenths`, was sealed for another one.
    pub(crate) fn settle_loan(&self, filled_sixteenths: u64) {
        let loan = &self.writes.arena_loan;
        if !loan.is_wanted {
            return;
        }
        let now_ms = loan.now_ms();
        let _settling = loan.settling.lock();
        let kept = loan.to_be_kept(now_ms, filled_sixteenths);
        loan.rolled_over_at_ms.store(now_ms, Ordering::Relaxed);
        self.lend_but(kept);
    }

    /// Some arenas hold no unflushed writes any more.
    pub(crate) fn lend_what_is_left(&self) {
        if self.writes.arena_loan.is_wanted {
            let _settling = self.writes.arena_loan.settling.lock();
            self.lend_but(self.writes.arena_loan.kept.load(Ordering::Relaxed));
        }
    }

    /// Lends more if arenas lie idle. Called by reads that go to the tables: more memory may spare
    /// the next read that way.
    #[inline]
    pub(crate) fn lend_if_idle(&self) {
        let loan = &self.writes.arena_loan;
        let kept = loan.kept.load(Ordering::Relaxed);
        if !loan.is_wanted || kept == 0 {
            return;
        }
        let now_ms = loan.now_ms();
        if loan.to_be_kept(now_ms, 16) < kept
            && let Some(_settling) = loan.settling.try_lock()
        {
            // An arena may have been sealed meanwhile, and the number that it set holds.
            let kept = loan.to_be_kept(now_ms, 16);
            if kept < loan.kept.load(Ordering::Relaxed) {
                self.lend_but(kept);
            }
        }
    }

    /// Lends all idle arenas but `kept` of them.
    fn lend_but(&self, kept: usize) {
        let unflushed = self.reads.view.load().memtables.len();
        let region = self.writes.region.description();
        let loan = loan(&self.options, region, unflushed.max(1).saturating_add(kept));
        self.writes.arena_loan.kept.store(kept, Ordering::Relaxed);
        if let Some(buffer) = &self.reads.read_buffer {
            buffer.borrow_memory(loan.bytes());
        }
    }
}

impl Writes {
    /// Starts the clock when the first arena takes writes: earlier times say nothing about these.
    pub(crate) fn loan_begins(&self) {
        let loan = &self.arena_loan;
        loan.rolled_over_at_ms
            .store(loan.now_ms(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(method: &'static str, medium: &str) -> Description {
        Description {
            method,
            medium: medium.to_owned(),
            survives_kill: true,
            can_persist: true,
            emulated: false,
        }
    }

    #[test]
    fn the_slower_an_arena_fills_the_fewer_are_kept() {
        let loan = ArenaLoan::new(None);
        loan.rolled_over_at_ms.store(1_000, Ordering::Relaxed);
        let kept = |filled_sixteenths| {
            [0, 3_500, 6_000, 10_999, 11_000]
                .map(|now_ms| loan.to_be_kept(now_ms, filled_sixteenths))
        };
        assert_eq!(kept(16), [ALL, ALL, 1, 1, 0]);
        assert_eq!(kept(8), [ALL, 1, 0, 0, 0]);
        assert_eq!(kept(0), [0; 5]);
    }

    #[test]
    fn arenas_lend_what_lies_idle_and_is_dram() {
        let options = Options {
            max_arenas: 4,
            arena_bytes: 1 << 20,
            ..Options::default()
        };
        let lent =
            |method, medium, kept| loan(&options, &region(method, medium), kept).bytes() >> 20;
        let mapped = [0, 1, 2, 3, 4, 5, ALL].map(|kept| lent("mapped", "ext4", kept));
        assert_eq!(mapped, [3, 3, 2, 1, 0, 0, 0]);
        assert_eq!(lent("written", "overlay", 1), 2);
        assert_eq!(lent("volatile", "dram", 2), 1);
        assert_eq!(lent("mapped", "tmpfs", 1), 0);
        assert_eq!(lent("dax", "ext4", 1), 0);
        assert_eq!(lent("stored", "ext4", 1), 0);
    }
}
