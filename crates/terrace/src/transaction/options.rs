//! Options of a transaction.

use crate::WriteOptions;

/// The reads that a transaction depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Isolation {
    /// Everything that it has read: keys, found or absent, and ranges. Committed transactions are as if they
    /// had run one after the other.
    #[default]
    Serializable,
    /// The keys and ranges that it writes, and the keys of
    /// [`Transaction::get_for_update`](crate::Transaction::get_for_update). Other keys and ranges that it has
    /// read may have changed: two transactions that each read a key of the other one's writes both commit (*write
    /// skew*).
    Snapshot,
}

/// Options of a transaction.
///
/// ```
/// use terrace::{Isolation, TransactionOptions, WriteOptions};
///
/// let options = TransactionOptions {
///     isolation: Isolation::Snapshot,
///     write: WriteOptions::with_sync(true),
///     ..TransactionOptions::default()
/// };
/// assert_eq!(options.max_attempts, 100);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionOptions {
    /// The reads that the transaction depends on. Default: all of them.
    pub isolation: Isolation,
    /// How [`Transaction::commit`](crate::Transaction::commit) writes. Default: as any write.
    pub write: WriteOptions,
    /// Maximum bytes of memory for its writes, and for the keys and ranges that it has read. Default:
    /// 64 MiB. [`Options::max_batch_bytes`](crate::Options::max_batch_bytes) bounds its writes, too. With
    /// [`Options::memory_bytes`](crate::Options::memory_bytes) all transactions together may take a quarter of
    /// the memory for reads.
    pub max_transaction_bytes: u64,
    /// Maximum number of times that [`Db::transact`](crate::Db::transact) calls its function. Default: 100;
    /// it calls it once in any case.
    pub max_attempts: u32,
}

impl Default for TransactionOptions {
    fn default() -> Self {
        TransactionOptions {
            isolation: Isolation::Serializable,
            write: WriteOptions::default(),
            max_transaction_bytes: 64 << 20,
            max_attempts: 100,
        }
    }
}
