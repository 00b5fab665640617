//! The size of the next arena.
//!
//! A file never changes its size, because a power cut would choose among the sizes of one that did. The
//! *next* arena is larger instead. So a store of one key keeps one small file, and a load reaches the
//! full size after a few arenas. An opening begins with the size that suits the writes which it
//! recovered.

/// Bytes of a store's first arena, if `Options::arena_bytes` is not smaller.
pub(crate) const FIRST_ARENA_BYTES: u64 = 256 << 10;
/// Bytes of the smallest arena that a full disk gets: it takes some hundred deletes.
const LEAST_ARENA_BYTES: u64 = 16 << 10;
/// Arenas are of whole pages.
const PAGE_BYTES: u64 = 4096;
/// Size of an arena as a multiple of the one before.
const GROWTH: u64 = 4;
/// Tables may take one part in this many more than their arena, for filters, sketches and indexes.
const TABLE_EXTRA: u64 = 8;
/// Room of the active arena, in sixteenths, below which the next one is prepared: a quarter is full.
pub(crate) const SPARE_BELOW_SIXTEENTHS: u64 = 12;

/// Returns the size of the arena after one of `last_bytes` with `free_sixteenths`. An arena sealed
/// before a quarter of it is full gives no reason to take a larger one.
pub(crate) fn next_arena_bytes(last_bytes: u64, free_sixteenths: u64, arena_bytes: u64) -> u64 {
    let is_filled = free_sixteenths < SPARE_BELOW_SIXTEENTHS;
    within(
        last_bytes.saturating_mul(if is_filled { GROWTH } else { 1 }),
        arena_bytes,
    )
}

/// Returns the size of the first arena of an opening that found `recovered_bytes` of unflushed
/// writes.
pub(crate) fn first_arena_bytes(recovered_bytes: u64, arena_bytes: u64) -> u64 {
    let grown_bytes = recovered_bytes.saturating_mul(GROWTH).min(arena_bytes);
    // The size is one of those of other arenas, so that slots serve again.
    let mut bytes = FIRST_ARENA_BYTES;
    while bytes < grown_bytes {
        bytes = bytes.saturating_mul(GROWTH);
    }
    within(bytes, arena_bytes)
}

/// Returns the size of the next arena where space may be short: the largest of at most `wanted_bytes`
/// that the disk can hold. The disk must take its file, if it needs one, and tables with the contents
/// of this arena and of those before. `None` if the smallest is too large. So acknowledged writes find
/// room in tables before a put is refused.
pub(crate) fn affordable_bytes(
    wanted_bytes: u64,
    takes_file: bool,
    unflushed_bytes: u64,
    free_bytes: u64,
) -> Option<u64> {
    let left_bytes = free_bytes.checked_sub(in_tables(unflushed_bytes))?;
    let smaller =
        |&bytes: &u64| (bytes > FIRST_ARENA_BYTES).then(|| (bytes / GROWTH).max(FIRST_ARENA_BYTES));
    std::iter::successors(Some(wanted_bytes), smaller)
        .find(|&bytes| needed_bytes(bytes, takes_file) <= left_bytes)
}

/// Returns the space of an arena: its tables, and its file if it needs one.
pub(crate) fn needed_bytes(arena_bytes: u64, takes_file: bool) -> u64 {
    let file_bytes = if takes_file { arena_bytes } else { 0 };
    in_tables(arena_bytes).saturating_add(file_bytes)
}

/// Returns the bytes of tables that `arena_bytes` may become.
pub(crate) fn in_tables(arena_bytes: u64) -> u64 {
    arena_bytes.saturating_add(arena_bytes / TABLE_EXTRA)
}

/// Returns the size of the smallest arena.
pub(crate) fn smallest_arena_bytes(arena_bytes: u64) -> u64 {
    FIRST_ARENA_BYTES.min(arena_bytes)
}

/// Returns the sizes to try, one after the other, for an arena on a full disk that must take
/// `payload_capacity_bytes`: file systems may have less room than they say.
pub(crate) fn ever_smaller(
    first_bytes: u64,
    payload_capacity_bytes: u64,
) -> impl Iterator<Item = u64> {
    let least_bytes = LEAST_ARENA_BYTES
        .min(first_bytes)
        .max(payload_capacity_bytes);
    let smaller = move |&bytes: &u64| {
        let smaller_bytes = (bytes / GROWTH).next_multiple_of(PAGE_BYTES);
        (bytes > least_bytes).then_some(smaller_bytes.max(least_bytes))
    };
    std::iter::successors(Some(first_bytes.max(least_bytes)), smaller)
}

/// Returns the number of sizes below the full one.
pub(crate) fn smaller_sizes(arena_bytes: u64) -> usize {
    let sizes = std::iter::successors(Some(FIRST_ARENA_BYTES), |bytes| bytes.checked_mul(GROWTH));
    sizes.take_while(|&bytes| bytes < arena_bytes).count()
}

fn within(bytes: u64, arena_bytes: u64) -> u64 {
    bytes.max(FIRST_ARENA_BYTES).min(arena_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    #[test]
    fn each_arena_is_four_times_the_last_up_to_the_full_size() {
        let sizes = |arena_bytes| {
            let first = first_arena_bytes(0, arena_bytes);
            std::iter::successors(Some(first), |&last| {
                Some(next_arena_bytes(last, 0, arena_bytes))
            })
            .take(6)
            .collect::<Vec<_>>()
        };
        let full = 64 * MIB;
        assert_eq!(sizes(full), [256 * KIB, MIB, 4 * MIB, 16 * MIB, full, full]);
        assert_eq!(sizes(3 * MIB)[..4], [256 * KIB, MIB, 3 * MIB, 3 * MIB]);
        assert_eq!(
            sizes(8 * KIB)[..2],
            [8 * KIB, 8 * KIB],
            "the options say so"
        );
    }

    #[test]
    fn a_full_disk_is_asked_for_less_and_less_and_never_for_less_than_the_payload() {
        let sizes = |first, payload| ever_smaller(first, payload).collect::<Vec<_>>();
        assert_eq!(sizes(MIB, 0), [MIB, 256 * KIB, 64 * KIB, 16 * KIB]);
        assert_eq!(sizes(100 * KIB, 0), [100 * KIB, 28 * KIB, 16 * KIB]);
        assert_eq!(sizes(256 * KIB, 72 * KIB), [256 * KIB, 72 * KIB]);
        assert_eq!(sizes(256 * KIB, MIB), [MIB]);
        assert_eq!(sizes(8 * KIB, 0), [8 * KIB], "the options say so");
    }

    #[test]
    fn an_arena_that_is_sealed_early_is_no_reason_to_grow() {
        for free in SPARE_BELOW_SIXTEENTHS..=16 {
            assert_eq!(next_arena_bytes(MIB, free, 64 * MIB), MIB);
        }
        for free in 0..SPARE_BELOW_SIXTEENTHS {
            assert_eq!(next_arena_bytes(MIB, free, 64 * MIB), 4 * MIB);
        }
    }

    #[test]
    fn an_arena_for_one_large_batch_is_followed_by_one_of_the_full_size() {
        assert_eq!(next_arena_bytes(200 * MIB, 16, 64 * MIB), 64 * MIB);
        assert_eq!(next_arena_bytes(200 * MIB, 0, 64 * MIB), 64 * MIB);
    }

    #[test]
    fn an_opening_takes_four_times_what_it_recovered() {
        let first = |recovered_bytes| first_arena_bytes(recovered_bytes, 64 * MIB);
        assert_eq!(first(0), 256 * KIB);
        assert_eq!(first(64 * KIB), 256 * KIB);
        assert_eq!(first(64 * KIB + 1), MIB);
        assert_eq!(first(4 * MIB), 16 * MIB);
        assert_eq!(first(16 * MIB + 1), 64 * MIB);
        assert_eq!(first(u64::MAX), 64 * MIB);
        assert_eq!(first_arena_bytes(MIB, 3 * MIB), 3 * MIB);
        assert_eq!(first_arena_bytes(MIB, 8 * KIB), 8 * KIB);
    }

    #[test]
    fn where_space_is_short_the_next_arena_is_smaller() {
        let affordable = |unflushed, free| affordable_bytes(16 * MIB, true, unflushed, free);
        assert_eq!(affordable(0, 34 * MIB), Some(16 * MIB));
        assert_eq!(affordable(0, 34 * MIB - 1), Some(4 * MIB));
        // 4.5 for the tables of those before, 2.125 for its own and its file.
        assert_eq!(affordable(4 * MIB, 6784 * KIB), Some(MIB));
        assert_eq!(affordable(4 * MIB, 4608 * KIB + 544 * KIB), Some(256 * KIB));
        assert_eq!(affordable(4 * MIB, 4608 * KIB + 543 * KIB), None);
        assert_eq!(affordable(4 * MIB, MIB), None);
        // A free slot serves again.
        assert_eq!(affordable_bytes(MIB, false, 0, 1152 * KIB), Some(MIB));
        assert_eq!(affordable_bytes(8 * KIB, true, 0, 17 * KIB), Some(8 * KIB));
    }

    #[test]
    fn sizes_below_the_full_one_are_counted() {
        assert_eq!(smaller_sizes(64 * MIB), 4);
        assert_eq!(smaller_sizes(MIB), 1);
        assert_eq!([256 * KIB, 8 * KIB].map(smaller_sizes), [0, 0]);
    }
}
