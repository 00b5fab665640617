//! The paper's numbers. It shows most of them in figures only: those that its text names are here.

/// Title of a report.
pub const TITLE: &str = "PlexDB: deduplication compaction in a tiered LSM-tree (2020)";

/// Memory for metadata beside the 20 GB that are written.
pub const METADATA_BYTES: f64 = 1e9;
/// Bits a key of a Bloom filter.
pub const FILTER_BITS: u32 = 16;

/// Bytes of files for each byte of distinct keys and values, as far as the text has them.
pub const SPACE: [(&str, f64); 4] = [
    ("LevelDB", 1.2),
    ("LSM-trie", 11.0),
    ("PlexDB 1.2", 1.2),
    ("PlexDB 1.8", 2.0),
];

/// Bytes written for each byte that came in.
pub const WRITES: [(&str, f64); 1] = [("LevelDB", 10.0)];

/// Space in the run of 100 GB with 20 updates a key.
pub const LARGE_SPACE: [(&str, f64); 3] =
    [("LevelDB", 2.0), ("LSM-trie", 18.0), ("PlexDB 1.6", 2.0)];

/// Returns the published number of a store of the paper's.
pub fn of(numbers: &[(&str, f64)], store: &str) -> Option<f64> {
    let found = numbers.iter().find(|(name, _)| *name == store);
    found.map(|(_, number)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_text() {
        assert_eq!(of(&SPACE, "LevelDB"), Some(1.2));
        assert_eq!(of(&SPACE, "PlexDB 1.8"), Some(2.0));
        assert_eq!(of(&SPACE, "LSM-trie"), Some(11.0));
        assert_eq!(of(&WRITES, "LevelDB"), Some(10.0));
        assert_eq!(of(&WRITES, "LSM-trie"), None);
    }
}
