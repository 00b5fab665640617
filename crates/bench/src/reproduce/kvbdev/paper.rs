//! The paper's numbers.

/// The lines over a report.
pub const TITLE: &str = "KVBDEV: a key-value store on the storage node (2022)";

/// Client threads, each with one operation at a time.
pub const CLIENTS: u32 = 15;
/// Pairs that each of them writes.
pub const PAIRS_EACH: u64 = 1_000_000;
/// Bytes of a value: 32 KB.
pub const VALUE_BYTES: u32 = 32 << 10;
/// Write buffer of its RocksDB.
pub const BUFFER_BYTES: u64 = 32 << 20;

/// One of its two systems under fillsequential.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// Mean latency, us.
    pub mean_us: f64,
    /// 99th percentile, us.
    pub p99_us: f64,
    /// Its MB/s: 15 clients, 32 KiB each, at the mean latency.
    pub mib_per_second: f64,
}

/// RocksDB on the host, on blocks of the storage node.
pub const ROCKSDB: Published = Published {
    mean_us: 1835.0,
    p99_us: 21_224.0,
    mib_per_second: 255.0,
};
/// Its store on the storage node.
pub const KVBDEV: Published = Published {
    mean_us: 735.0,
    p99_us: 1853.0,
    mib_per_second: 638.0,
};

/// Gain in throughput as its text states it, %.
pub const STATED_GAIN: f64 = 183.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_paper() {
        // Throughput follows from the latency: clients wait for each operation.
        for published in [ROCKSDB, KVBDEV] {
            let per_second = f64::from(CLIENTS) / published.mean_us * 1e6;
            let mib = per_second * f64::from(VALUE_BYTES) / f64::from(1 << 20);
            assert!((mib - published.mib_per_second).abs() < 1.0, "{mib}");
        }
        let gain = (KVBDEV.mib_per_second / ROCKSDB.mib_per_second - 1.0) * 100.0;
        assert!(
            (gain - 150.2).abs() < 0.1 && gain < STATED_GAIN - 30.0,
            "{gain}"
        );
        assert!((1.0 - KVBDEV.mean_us / ROCKSDB.mean_us - 0.60).abs() < 0.005);
        assert!((1.0 - KVBDEV.p99_us / ROCKSDB.p99_us - 0.91).abs() < 0.005);
    }
}
