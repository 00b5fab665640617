//! The consumers of a store's memory budget (`Options::cache_bytes`), and their latest requests.

use terrace_lsm::debug_expect::DebugExpect;
use terrace_lsm::sync::Mutex;
use terrace_lsm::sync::atomic::{AtomicU64, Ordering};
use terrace_lsm::table::BlockCache;

use crate::memory::{self, BLOCKS, HELD, Request, Share};
use crate::options::Options;
use crate::read_buffer::ReadBuffer;

/// The budget of one store. Its lock is taken under that of the read buffer's claim.
pub(crate) struct MemoryBudget {
    bytes: u64,
    /// Whether open tables and transactions are a consumer.
    counts_held: bool,
    /// Bytes of these at the latest division.
    divided_for_held_bytes: AtomicU64,
    /// One for each consumer, in the order in which demands are met.
    requests: Mutex<Vec<Request>>,
}

impl MemoryBudget {
    /// Lists the consumers of a store that opens. A new one is one entry here, before the blocks: they
    /// take the rest.
    pub(crate) fn of(options: &Options, buffer: Option<&ReadBuffer>) -> Self {
        let counts_held = options.max_tables_bytes().is_some();
        let consumers = [
            counts_held.then(|| of_held(0)),
            buffer.map(ReadBuffer::request_asleep),
            Some(of_blocks(options.cache_bytes, 0)),
        ];
        MemoryBudget {
            bytes: options.cache_bytes,
            counts_held,
            divided_for_held_bytes: AtomicU64::new(0),
            requests: Mutex::new(consumers.into_iter().flatten().collect()),
        }
    }

    /// Makes the block cache, whose pinned blocks are its floor. Other consumers may take their share
    /// `for_good` from the first write on.
    pub(crate) fn block_cache(&self, is_direct: bool, for_good: bool) -> BlockCache {
        let mut requests = self.requests.lock();
        let max_lent_bytes = memory::max_of_others(self.bytes, &requests, BLOCKS);
        let mut cache = BlockCache::new(self.bytes, is_direct).lending(max_lent_bytes, for_good);
        if self.counts_held {
            cache = cache.counting_held();
        }
        replace(
            &mut requests,
            of_blocks(self.bytes, cache.max_pinned_bytes()),
        );
        cache
    }

    /// Returns whether open tables and transactions take much more or less than at the latest division.
    #[inline]
    pub(crate) fn has_held_changed(&self, held_bytes: u64) -> bool {
        /// Part of the budget that is much. It costs less than the reserve beside the budget.
        const MUCH_PART: u64 = 128;
        let divided_for_bytes = self.divided_for_held_bytes.load(Ordering::Relaxed);
        held_bytes.abs_diff(divided_for_bytes) > self.bytes / MUCH_PART
    }

    /// Divides the budget again, since a consumer's request or the bytes that others hold have changed.
    /// Calls `lend` with the bytes that the blocks lend to others; they leave those that are held by
    /// themselves. It does so under the lock, so the latest division takes effect last.
    pub(crate) fn settle<T>(
        &self,
        request: Request,
        held_bytes: u64,
        lend: impl FnOnce(u64) -> T,
    ) -> (Share, T) {
        let mut requests = self.requests.lock();
        self.divided_for_held_bytes
            .store(held_bytes, Ordering::Relaxed);
        replace(&mut requests, of_held(held_bytes));
        replace(&mut requests, request);
        let (mut own, mut lent_bytes) = (None, 0_u64);
        for (each, share) in requests.iter().zip(memory::divide(self.bytes, &requests)) {
            if each.consumer == request.consumer {
                own = Some(share);
            }
            if each.consumer != BLOCKS && each.consumer != HELD {
                lent_bytes = lent_bytes.saturating_add(share.bytes);
            }
        }
        let own = own.debug_expect("a consumer that asks is in the list");
        (own, lend(lent_bytes))
    }
}

/// Returns the request of open tables and transactions, which give nothing back while they are open.
fn of_held(bytes: u64) -> Request {
    Request {
        consumer: HELD,
        floor_bytes: bytes,
        demand_bytes: bytes,
        max_bytes: bytes,
        ceiling_bytes: bytes,
    }
}

/// Returns the request of the blocks, which take all that they get.
fn of_blocks(budget_bytes: u64, pinned_bytes: u64) -> Request {
    Request {
        consumer: BLOCKS,
        floor_bytes: pinned_bytes,
        demand_bytes: budget_bytes,
        max_bytes: budget_bytes,
        ceiling_bytes: budget_bytes,
    }
}

fn replace(requests: &mut [Request], request: Request) {
    for old in requests {
        if old.consumer == request.consumer {
            *old = request;
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::memory::READ_BUFFER;
    use crate::read_buffer::Settings;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_blocks_lend_the_shares_of_all_others() {
        let options = Options {
            cache_bytes: 16 * MIB,
            ..Options::default()
        };
        let buffer = ReadBuffer::new(Settings::default(), 12 * MIB, 7);
        let memory = MemoryBudget::of(&options, Some(&buffer));
        let cache = memory.block_cache(false, false);
        assert_eq!(cache.max_pinned_bytes(), 3 * MIB);
        let settle = |floor_bytes, demand_bytes| {
            let request = Request {
                floor_bytes,
                demand_bytes,
                ..buffer.request_asleep()
            };
            assert_eq!(request.consumer, READ_BUFFER);
            let (share, lent_bytes) = memory.settle(request, 0, |bytes| bytes);
            assert_eq!(share.bytes, lent_bytes);
            assert_eq!((share.max_bytes, share.limit_bytes), (12 * MIB, 12 * MIB));
            lent_bytes
        };
        let demands = [(0, 0), (MIB, 0), (MIB, 2 * MIB), (3 * MIB, 12 * MIB)];
        let lent = demands.map(|(floor, demand)| settle(floor, demand));
        assert_eq!(lent, [0, MIB, 2 * MIB, 12 * MIB]);
        assert_eq!(settle(0, 0), 0, "and it has all of it back");
    }

    /// The blocks leave the memory of open tables by themselves; the buffer has to be told.
    #[test]
    fn a_bounded_store_takes_open_tables_from_the_buffer() {
        let options = Options {
            memory_bytes: Some(64 * MIB),
            cache_bytes: 16 * MIB,
            ..Options::default()
        };
        let buffer = ReadBuffer::new(Settings::default(), 14 * MIB, 7);
        let memory = MemoryBudget::of(&options, Some(&buffer));
        let cache = memory.block_cache(true, true);
        assert_eq!(cache.max_pinned_bytes(), 3 * MIB / 2);
        let request = Request {
            demand_bytes: 14 * MIB,
            ..buffer.request_asleep()
        };
        let left = |held_bytes| {
            let (share, lent_bytes) = memory.settle(request, held_bytes, |bytes| bytes);
            assert_eq!(share.bytes, lent_bytes);
            assert!(!memory.has_held_changed(held_bytes + MIB / 8));
            assert!(memory.has_held_changed(held_bytes + MIB / 8 + 1));
            share.limit_bytes
        };
        assert_eq!(left(0), 14 * MIB);
        assert_eq!(left(4 * MIB), 21 * MIB / 2);
        assert_eq!(left(0), 14 * MIB, "and it has all of it back");
    }

    #[test]
    fn a_store_without_a_read_buffer_lends_nothing() {
        let options = Options {
            cache_bytes: 16 * MIB,
            ..Options::default()
        };
        let cache = MemoryBudget::of(&options, None).block_cache(false, true);
        assert_eq!(cache.max_pinned_bytes(), 4 * MIB);
    }
}
