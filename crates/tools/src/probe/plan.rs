//! The division of a file into parts, each of which gives one sample of bandwidth.

use super::options::{MIN_FREE_BYTES, ProbeOptions};

/// Bytes of a sequential request.
pub(super) const PIECE_BYTES: u64 = 1 << 20;
/// Maximum number of parts of the file.
const MAX_PARTS: u64 = 16;

/// The work of a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) file_bytes: u64,
    pub(super) max_requests: u64,
    pub(super) seed: u64,
}

impl Plan {
    /// Returns the plan; `None` if the space is too little.
    pub(super) fn of(options: &ProbeOptions, free_bytes: u64) -> Option<Plan> {
        let largest_bytes = options.max_file_bytes.min(free_bytes / 2);
        let pieces = (largest_bytes / PIECE_BYTES).max(1);
        (free_bytes >= MIN_FREE_BYTES).then_some(Plan {
            file_bytes: pieces * PIECE_BYTES,
            max_requests: options.max_requests,
            seed: options.seed,
        })
    }
}

/// Returns the ends of the parts of a file, in bytes. Parts consist of whole pieces, and differ by one
/// piece at most.
pub(super) fn part_ends(file_bytes: u64) -> impl Iterator<Item = u64> {
    let pieces = file_bytes / PIECE_BYTES;
    let parts = pieces.min(MAX_PARTS);
    (1..=parts).map(move |part| pieces * part / parts * PIECE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_bytes(max_file_bytes: u64, free_bytes: u64) -> Option<u64> {
        let options = ProbeOptions {
            max_file_bytes,
            ..ProbeOptions::default()
        };
        Plan::of(&options, free_bytes).map(|plan| plan.file_bytes)
    }

    #[test]
    fn a_file_has_whole_pieces_and_leaves_half_of_the_space() {
        assert_eq!(file_bytes(1 << 30, 1 << 40), Some(1 << 30));
        assert_eq!(file_bytes(1 << 30, 1 << 30), Some(1 << 29));
        assert_eq!(file_bytes(1 << 30, (200 << 20) + 7), Some(100 << 20));
        assert_eq!(file_bytes((3 << 20) - 1, 1 << 30), Some(2 << 20));
        assert_eq!(file_bytes(0, 1 << 30), Some(1 << 20));
        assert_eq!(file_bytes(1 << 20, MIN_FREE_BYTES), Some(1 << 20));
        assert_eq!(file_bytes(1 << 20, MIN_FREE_BYTES - 1), None);
    }

    #[test]
    fn parts_cover_the_file_in_like_sizes() {
        let ends = |pieces: u64| part_ends(pieces * PIECE_BYTES).map(|end| end / PIECE_BYTES);
        assert_eq!(ends(1).collect::<Vec<_>>(), [1]);
        assert_eq!(ends(3).collect::<Vec<_>>(), [1, 2, 3]);
        for pieces in [16, 17, 100, 1024] {
            let ends: Vec<u64> = ends(pieces).collect();
            assert_eq!((ends.len(), ends[15]), (16, pieces));
            let sizes = ends.windows(2).map(|pair| pair[1] - pair[0]);
            let sizes: Vec<u64> = sizes.chain([ends[0]]).collect();
            let spread = sizes.iter().max().unwrap() - sizes.iter().min().unwrap();
            assert!(spread <= 1, "{sizes:?}");
        }
        assert_eq!(ends(0).count(), 0);
    }
}
