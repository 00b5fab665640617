//! The buffer's memory: its request to the division of the budget, its claim, its limit.
//!
//! The claim is the part of the budget that is set aside, and that the block cache lends. The limit is the
//! most that the buffer may hold.

use terrace_lsm::debug_expect::DebugExpect;
use terrace_lsm::sync::atomic::Ordering;

use super::ReadBuffer;
use super::structure::Structure;
use crate::memory::{self, READ_BUFFER, Request, Share};

/// Part of its size, in 64ths, beyond which a buffer holds entries in earnest. A structure takes eight
/// without any.
const IN_EARNEST_64THS: u64 = 9;
/// Part of its size, in 64ths, that a buffer keeps after it yielded its memory to scans.
const YIELDED_64THS: u64 = 12;

impl ReadBuffer {
    /// Sets the structure's limit. Threads do it one at a time, so that the last one sets the last
    /// number, and after the structure was made, too.
    pub(super) fn settle_limit(&self) {
        let _settling = self.settling.lock();
        if let Some(structure) = self.structure.get() {
            structure.limit(self.limit_bytes());
        }
    }

    /// Returns the maximum bytes that it may hold at present.
    pub(super) fn limit_bytes(&self) -> u64 {
        self.share(self.request(0, true)).limit_bytes
    }

    /// Returns its share of the memory that other consumers leave.
    #[inline]
    fn share(&self, request: Request) -> Share {
        let left_bytes = self.left_bytes.load(Ordering::Relaxed);
        let requests = [request];
        let mut shares = memory::divide(left_bytes, &requests);
        shares.next().debug_expect("a request has a share")
    }

    /// Returns its request while it holds a number of bytes: sleep, a yielded boundary and the first
    /// entries each choose another demand.
    #[inline]
    fn request(&self, held_bytes: u64, is_awake: bool) -> Request {
        let in_earnest_bytes = self.capacity_bytes / 64 * IN_EARNEST_64THS;
        let is_yielded = self.boundary.is_yielded();
        let ceiling_bytes = match is_yielded {
            true => self.yielded_bytes(),
            false => self.capacity_bytes,
        };
        let demand_bytes = if !is_awake {
            // A structure that was emptied keeps a part: its floor.
            0
        } else if is_yielded || held_bytes > in_earnest_bytes {
            ceiling_bytes
        } else {
            in_earnest_bytes
        };
        let floor_bytes = match is_awake && is_yielded {
            // It gives back as entries leave, and those beyond its size are the first.
            true => held_bytes.min(self.capacity_bytes),
            false => held_bytes,
        };
        Request {
            consumer: READ_BUFFER,
            floor_bytes,
            demand_bytes,
            max_bytes: self.capacity_bytes,
            ceiling_bytes,
        }
    }

    /// Returns its request before it has woken for the first time.
    pub(crate) fn request_asleep(&self) -> Request {
        self.request(0, false)
    }

    /// Returns the bytes that it keeps for the few gets of a store that is scanned.
    fn yielded_bytes(&self) -> u64 {
        let least_bytes = self.structure.get().map_or(0, |some| some.least_bytes());
        let yielded_bytes = self.capacity_bytes / 64 * YIELDED_64THS;
        yielded_bytes.max(least_bytes)
    }

    /// Returns whether it holds more than it claims, and is to claim more.
    pub(super) fn has_to_claim(&self, structure: &dyn Structure) -> bool {
        let held = structure.memory_bytes();
        let claimed = self.claimed_bytes.load(Ordering::Relaxed);
        held > claimed && self.claim(held) > claimed
    }

    /// Returns the bytes of the budget that a buffer which is awake claims.
    pub(super) fn claim(&self, held_bytes: u64) -> u64 {
        self.share(self.request(held_bytes, true)).bytes
    }

    /// Has `divide` give it a share of the budget for its present request. Threads do it one at a
    /// time, so that the last one sees, and passes on, the changes of all.
    pub(crate) fn settle_claim<T>(&self, divide: impl FnOnce(Request) -> (Share, T)) -> T {
        let _settling = self.settling.lock();
        let is_awake = self.awake.load(Ordering::SeqCst);
        let (share, answer) = divide(self.request(self.held_bytes(), is_awake));
        self.claimed_bytes.store(share.bytes, Ordering::Relaxed);
        let left_before_bytes = self.left_bytes.swap(share.max_bytes, Ordering::Relaxed);
        if left_before_bytes != share.max_bytes
            && let Some(structure) = self.structure.get()
        {
            structure.limit(self.limit_bytes());
        }
        answer
    }
}
