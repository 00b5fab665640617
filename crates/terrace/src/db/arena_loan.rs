//! Idle arenas lend their memory to the read buffer, if the options say so.
//!
//! A store has memory for as many arenas as may hold unflushed writes, and uses it all while writes
//! come faster than flushes take them. Where few come, or none, one arena fills for seconds or hours
//! and the others lie idle; the page cache, whose pages these are, gives them to whoever needs them.
//! So once the active arena takes longer than [`SLOW`] to fill, the read buffer may hold what the
//! others leave. As soon as one fills faster, it may not.
//!
//! Nobody waits for memory to come back. The buffer lets go of a multiple of the bytes that are written
//! from then on (`read_buffer::hash`), and so of what an arena takes before that takes it.

use std::time::Duration;

use terrace_region::Region;

use crate::Options;
use crate::db::Store;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Instant, Mutex};

/// An arena that takes longer than this to fill is one that the others need not stand by for.
const SLOW: Duration = Duration::from_secs(5);

/// The most that arenas lend: all but the active one.
pub(crate) fn most_lent_bytes(options: &Options) -> u64 {
    if options.read_buffer.borrows_arenas {
        lent_bytes(options, 1)
    } else {
        0
    }
}

/// What arenas leave if so many hold unflushed writes. The one that is being flushed is nearly done.
fn lent_bytes(options: &Options, unflushed: usize) -> u64 {
    let needed = unflushed.saturating_sub(1).max(1);
    options.max_arenas.saturating_sub(needed) as u64 * options.arena_bytes
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
    /// Arenas in persistent memory have nothing that a buffer in DRAM could use.
    pub(crate) fn new(options: &Options, region: &Region) -> Self {
        let is_in_dram = region.description().method != "dax";
        ArenaLoan {
            is_wanted: is_in_dram && most_lent_bytes(options) > 0,
            opened: Instant::now(),
            rolled_over_at_ms: AtomicU64::new(0),
            is_lending: AtomicBool::new(false),
            settling: Mutex::new(()),
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether the active arena has been filling for long.
    fn is_slow(&self, now_ms: u64) -> bool {
        let since_ms = self.rolled_over_at_ms.load(Ordering::Relaxed);
        u128::from(now_ms.saturating_sub(since_ms)) >= SLOW.as_millis()
    }
}

impl Store {
    /// Another arena has become the active one.
    pub(crate) fn settle_loan(&self) {
        let loan = &self.arena_loan;
        if !loan.is_wanted {
            return;
        }
        let now_ms = loan.now_ms();
        let _settling = loan.settling.lock();
        let is_slow = loan.is_slow(now_ms);
        loan.rolled_over_at_ms.store(now_ms, Ordering::Relaxed);
        self.lend(is_slow);
    }

    /// A read went to the tables, and may go there once less with more memory.
    #[inline]
    pub(crate) fn lend_if_idle(&self) {
        let loan = &self.arena_loan;
        if !loan.is_wanted || loan.is_lending.load(Ordering::Relaxed) {
            return;
        }
        let now_ms = loan.now_ms();
        if loan.is_slow(now_ms)
            && let Some(_settling) = loan.settling.try_lock()
            && loan.is_slow(now_ms)
        {
            self.lend(true);
        }
    }

    fn lend(&self, is_slow: bool) {
        let bytes = match is_slow {
            true => lent_bytes(&self.options, self.view.load().memtables.len()),
            false => 0,
        };
        self.arena_loan.is_lending.store(is_slow, Ordering::Relaxed);
        if let Some(buffer) = &self.read_buffer {
            buffer.borrow_memory(bytes);
        }
    }
}
