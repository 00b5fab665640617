//! The stores that were compiled in, one file each. README.md has the reasons for what each is told.

mod fjall;
#[cfg(feature = "leveldb")]
mod leveldb;
#[cfg(feature = "lmdb")]
mod lmdb;
mod options;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod settling;
#[cfg(test)]
mod tests;

use terrace_bench::store::Contestant;

/// The stores that were compiled in, in the order of reports.
pub fn contestants() -> Vec<Contestant> {
    vec![
        #[cfg(feature = "rocksdb")]
        rocksdb::CONTESTANT,
        #[cfg(feature = "leveldb")]
        leveldb::CONTESTANT,
        fjall::CONTESTANT,
        #[cfg(feature = "lmdb")]
        lmdb::CONTESTANT,
        #[cfg(feature = "redb")]
        redb::CONTESTANT,
    ]
}

/// What is printed for a setting that a store has no means for.
const NOT_AVAILABLE_DIRECT_IO: &str = "not available: page cache";

/// Settings in the order in which they are told, to be printed.
#[derive(Default)]
struct Told(Vec<(String, String)>);

impl Told {
    fn say(&mut self, name: &str, value: impl ToString) {
        self.0.push((name.to_string(), value.to_string()));
    }

    /// Direct I/O of a store that has none: said also when it was not asked for.
    fn no_direct_io(&mut self) {
        self.say("direct_io", NOT_AVAILABLE_DIRECT_IO);
    }
}
