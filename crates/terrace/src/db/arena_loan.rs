//! Idle arenas lend their memory to the read buffer, if the options say so.
//!
//! A store has memory for as many arenas as may hold unflushed writes, and uses it all while writes
//! come faster than flushes take them. Where few come, or none, one arena fills for seconds or hours
//! and the others lie idle; the page cache, whose pages these are, gives them to whoever needs them.
//! So once the active arena takes longer than [`SLOW`] to fill, the read buffer may hold what the
//! others leave. As soon as one fills faster, it may not.
//!
//! Nobody waits for memory to come back. With each write from then on the buffer lets go of a multiple
//! of its bytes (`ReadBuffer::forward`), so that an arena's share is there before the arena takes it.

use std::time::Duration;

use terrace_region::{Arena, Description};

use crate::Options;
use crate::db::Store;
use crate::read_buffer::ReadBuffer;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Instant, Mutex};

/// Whoever fills arenas more slowly needs one at a time. With 5 s for 10 what was lent at one arena every
/// 5.6 s was wanted back at each flush, and writes waited 24 to 50 ms (F of 100 B, in 391 MiB).
const SLOW: Duration = Duration::from_secs(10);

/// The most that the arenas of a region have to lend.
pub(crate) fn lendable_bytes(options: &Options, region: &Description) -> u64 {
    match options.read_buffer.borrows_arenas {
        true => lent_bytes(options, region, 1),
        false => 0,
    }
}

/// What arenas leave, so many of them holding unflushed writes.
fn lent_bytes(options: &Options, region: &Description, unflushed: usize) -> u64 {
    // The page cache gives up what is not read, and a tmpfs keeps it; of arenas in this process's own
    // memory one more is there, for whoever comes next; persistent memory is no DRAM.
    let there = match (region.method, &*region.medium) {
        (_, "tmpfs" | "ramfs") => 0,
        ("mapped", _) => options.max_arenas,
        ("written" | "volatile", _) => options.max_arenas - 1,
        _ => 0,
    };
    there.saturating_sub(unflushed.max(1)) as u64 * options.arena_bytes
}

/// Whether arenas lend, and since when the active one has been filling.
pub(crate) struct ArenaLoan {
    is_wanted: bool,
    opened: Instant,
    rolled_over_at_ms: AtomicU64,
    is_lending: AtomicBool,
    settling: Mutex<()>,
}

impl ArenaLoan {
    pub(crate) fn new(buffer: Option<&ReadBuffer>) -> Self {
        ArenaLoan {
            is_wanted: buffer.is_some_and(|buffer| buffer.most_borrowed_bytes() > 0),
            opened: Instant::now(),
            rolled_over_at_ms: AtomicU64::new(0),
            is_lending: AtomicBool::new(false),
            settling: Mutex::new(()),
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether the active arena has been filling for long, if so much of it is full.
    fn is_slow(&self, now_ms: u64, filled: Filled) -> bool {
        let since_ms = self.rolled_over_at_ms.load(Ordering::Relaxed);
        let elapsed_ms = u128::from(now_ms.saturating_sub(since_ms));
        elapsed_ms * u128::from(filled.of_bytes) >= SLOW.as_millis() * u128::from(filled.bytes)
    }
}

/// How much of an arena holds frames.
#[derive(Clone, Copy)]
pub(crate) struct Filled {
    bytes: u64,
    of_bytes: u64,
}

impl Filled {
    const WHOLLY: Filled = Filled {
        bytes: 1,
        of_bytes: 1,
    };

    pub(crate) fn of(arena: &Arena) -> Self {
        Filled {
            bytes: arena.end_bytes() as u64,
            of_bytes: arena.capacity_bytes(),
        }
    }
}

impl Store {
    /// The first arena takes writes: what came before says nothing about these.
    pub(crate) fn loan_begins(&self) {
        let loan = &self.arena_loan;
        loan.rolled_over_at_ms
            .store(loan.now_ms(), Ordering::Relaxed);
    }

    /// An arena, filled so far, was sealed; another one is the active one.
    pub(crate) fn settle_loan(&self, filled: Filled) {
        let loan = &self.arena_loan;
        if !loan.is_wanted {
            return;
        }
        let now_ms = loan.now_ms();
        let _settling = loan.settling.lock();
        let is_slow = loan.is_slow(now_ms, filled);
        loan.rolled_over_at_ms.store(now_ms, Ordering::Relaxed);
        self.lend(is_slow);
    }

    /// Some arenas hold no unflushed writes any more.
    pub(crate) fn lend_what_is_left(&self) {
        if self.arena_loan.is_wanted {
            let _settling = self.arena_loan.settling.lock();
            self.lend(self.arena_loan.is_lending.load(Ordering::Relaxed));
        }
    }

    /// A read went to the tables, and may go there once less with more memory.
    #[inline]
    pub(crate) fn lend_if_idle(&self) {
        let loan = &self.arena_loan;
        if !loan.is_wanted || loan.is_lending.load(Ordering::Relaxed) {
            return;
        }
        let now_ms = loan.now_ms();
        if loan.is_slow(now_ms, Filled::WHOLLY)
            && let Some(_settling) = loan.settling.try_lock()
            // An arena may have been sealed meanwhile.
            && loan.is_slow(now_ms, Filled::WHOLLY)
        {
            self.lend(true);
        }
    }

    fn lend(&self, is_slow: bool) {
        let unflushed = self.view.load().memtables.len();
        let bytes = match is_slow {
            true => lent_bytes(&self.options, self.region.description(), unflushed),
            false => 0,
        };
        self.arena_loan.is_lending.store(is_slow, Ordering::Relaxed);
        if let Some(buffer) = &self.read_buffer {
            buffer.borrow_memory(bytes);
        }
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
    fn arenas_lend_what_lies_idle_and_is_dram() {
        let options = Options {
            max_arenas: 4,
            arena_bytes: 1 << 20,
            ..Options::default()
        };
        let lent = |method, medium, unflushed| {
            lent_bytes(&options, &region(method, medium), unflushed) >> 20
        };
        let mapped = [0, 1, 2, 3, 4, 5].map(|unflushed| lent("mapped", "ext4", unflushed));
        assert_eq!(mapped, [3, 3, 2, 1, 0, 0]);
        assert_eq!(lent("written", "overlay", 1), 2);
        assert_eq!(lent("volatile", "dram", 2), 1);
        assert_eq!(lent("mapped", "tmpfs", 1), 0);
        assert_eq!(lent("dax", "ext4", 1), 0);
        assert_eq!(lent("stored", "ext4", 1), 0);
    }
}
