//! The room for unflushed writes, in bytes.
//!
//! A store has room for `max_arenas` arenas of the full size. A smaller one takes no more of it
//! than its own size, as if the arenas to come were there at full size. So the small arenas of a
//! young store hold no writer back.

use crate::write_buffer::arena_size::smaller_sizes;
use crate::write_buffer::slowdown::slowdown_below_sixteenths;

/// The room of a store, by its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// The full size of an arena.
    pub(crate) arena_bytes: u64,
    pub(crate) max_arenas: usize,
}

/// Arenas that hold unflushed writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unflushed {
    pub(crate) arenas: usize,
    /// The sum of their sizes, each as [`Room::counted_bytes`] counts it.
    pub(crate) bytes: u64,
}

impl Room {
    /// Returns the room that an arena takes once it is full. An arena for a single large batch
    /// counts as one of the full size: it may be larger than all the room.
    pub(crate) fn counted_bytes(self, capacity_bytes: u64) -> u64 {
        capacity_bytes.min(self.arena_bytes)
    }

    fn bytes(self) -> u64 {
        self.arena_bytes.saturating_mul(self.max_arenas as u64)
    }

    /// Returns the room that is left, in sixteenths of a full arena, rounded down.
    pub(crate) fn free_sixteenths(self, taken_bytes: u64) -> u64 {
        self.bytes().saturating_sub(taken_bytes) * 16 / self.arena_bytes.max(1)
    }

    /// Returns whether another arena may take writes. A bound on the number of arenas beside the
    /// one on their bytes keeps a get from searching hundreds of small ones.
    pub(crate) fn takes_another(self, unflushed: Unflushed, capacity_bytes: u64) -> bool {
        let most_arenas = self.max_arenas + smaller_sizes(self.arena_bytes);
        let bytes = unflushed
            .bytes
            .saturating_add(self.counted_bytes(capacity_bytes));
        unflushed.arenas < most_arenas && bytes <= self.bytes()
    }

    /// Returns whether the room slows writers down from the first frame in the active arena on, the
    /// sealed arenas being full.
    pub(crate) fn slows_writers_down(self, sealed: Unflushed) -> bool {
        sealed.arenas > 0
            && self.free_sixteenths(sealed.bytes) <= slowdown_below_sixteenths(self.max_arenas)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    const ROOM: Room = Room {
        arena_bytes: 64 * MIB,
        max_arenas: 3,
    };

    fn unflushed(sizes: &[u64]) -> Unflushed {
        Unflushed {
            arenas: sizes.len(),
            bytes: sizes.iter().map(|&bytes| ROOM.counted_bytes(bytes)).sum(),
        }
    }

    #[test]
    fn the_first_arena_is_filled_at_full_speed() {
        for max_arenas in 2..5 {
            let room = Room { max_arenas, ..ROOM };
            let sealed = |arenas| unflushed(&vec![64 * MIB; arenas]);
            let first = (0..5).find(|&arenas| room.slows_writers_down(sealed(arenas)));
            assert_eq!(first, Some((max_arenas - 2).max(1)), "of {max_arenas}");
        }
    }

    #[test]
    fn full_arenas_are_as_many_as_the_options_say() {
        let full = [64 * MIB; 3];
        assert!(ROOM.takes_another(unflushed(&full[..2]), 64 * MIB));
        assert!(!ROOM.takes_another(unflushed(&full), 64 * MIB));
        assert!(!ROOM.takes_another(unflushed(&[64 * MIB, 200 * MIB, 64 * MIB]), 256 * KIB));
        assert!(ROOM.takes_another(unflushed(&[200 * MIB, 64 * MIB]), 300 * MIB));
    }

    #[test]
    fn the_small_arenas_of_a_young_store_hold_nobody_back() {
        let small = [256 * KIB, MIB, 4 * MIB, 16 * MIB];
        assert!(!ROOM.slows_writers_down(unflushed(&small)));
        assert!(ROOM.free_sixteenths(unflushed(&small).bytes) >= 42);
        assert!(ROOM.takes_another(unflushed(&small), 64 * MIB));
        let with_full = [&small[..], &[64 * MIB]].concat();
        assert!(ROOM.takes_another(unflushed(&with_full), 64 * MIB));
        let with_two = [&with_full[..], &[64 * MIB]].concat();
        assert!(
            !ROOM.takes_another(unflushed(&with_two), 64 * MIB),
            "192 MiB are all"
        );
    }

    #[test]
    fn small_arenas_are_bounded_in_number() {
        let small = |arenas| unflushed(&vec![256 * KIB; arenas]);
        let most = (0..20).find(|&arenas| !ROOM.takes_another(small(arenas), 256 * KIB));
        assert_eq!(most, Some(7), "three, and one of each smaller size");
        let one_size = Room {
            arena_bytes: 64 * KIB,
            max_arenas: 2,
        };
        let two = Unflushed {
            arenas: 2,
            bytes: 128 * KIB,
        };
        assert!(!one_size.takes_another(two, 64 * KIB));
    }
}
