//! The thesis' numbers.

/// Title of a report.
pub const TITLE: &str =
    "WBL: write-behind logging for key-value stores in persistent memory (thesis, 2022)";

/// Records of 1 KB at full scale: 40 GB.
pub const RECORDS: u64 = 40_000_000;
/// Operations of a workload at full scale.
pub const OPERATIONS: u64 = 4_000_000;
/// Bytes of a MemTable.
pub const MEMTABLE_BYTES: u64 = 16 << 20;
/// MemTables, the one that is written to included.
pub const MEMTABLES: u32 = 3;

/// Figures 4.2 and 4.3: gain in throughput over RocksDB, %, by our name of the workload. The thesis'
/// F is read-modify-writes only.
pub const GAINS: [(&str, f64); 7] = [
    ("A", 2.82),
    ("B", -2.45),
    ("C", 2.28),
    ("D", 0.86),
    ("F100", 3.34),
    ("G", 13.83),
    ("H", 9.97),
];

/// Figure 4.5: gain over NoveLSM, %.
pub const GAIN_OVER_NOVELSM: f64 = 30.0;
/// Figure 4.5: operations a second of the variant on LevelDB, about.
pub const RATE_AGAINST_NOVELSM: f64 = 20_000.0;

/// Bandwidth of persistent memory.
pub struct Bandwidth {
    /// Bytes of an access.
    pub access_bytes: usize,
    /// GB/s.
    pub read: f64,
    /// GB/s.
    pub write: f64,
    /// GB/s with 67 reads to 33 writes.
    pub mixed: f64,
}

/// Figure 2.1.
pub const BANDWIDTHS: [Bandwidth; 2] = [
    Bandwidth {
        access_bytes: 256,
        read: 8.3,
        write: 3.0,
        mixed: 5.4,
    },
    Bandwidth {
        access_bytes: 64,
        read: 2.13,
        write: 0.73,
        mixed: 1.35,
    },
];

/// Share of reads in the mix.
pub const MIXED_READS_PERCENT: u64 = 67;

/// Returns the published gain of a workload.
pub fn gain(workload: &str) -> Option<f64> {
    let found = GAINS.iter().find(|(name, _)| *name == workload);
    found.map(|(_, percent)| *percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_thesis() {
        let sum: f64 = GAINS.iter().map(|(_, percent)| percent).sum();
        assert!((sum - 30.65).abs() < 1e-9, "{sum}");
        assert_eq!(gain("B"), Some(-2.45));
        assert_eq!(gain("F100"), Some(3.34));
        // YCSB's own F is another workload.
        assert_eq!(gain("F"), None);
        let [large, small] = &BANDWIDTHS;
        assert_eq!(
            (large.access_bytes, large.read, large.write),
            (256, 8.3, 3.0)
        );
        assert_eq!((large.mixed, small.mixed), (5.4, 1.35));
        assert_eq!(
            (small.access_bytes, small.read, small.write),
            (64, 2.13, 0.73)
        );
        assert_eq!(RECORDS * 1000, 40_000_000_000);
    }
}
