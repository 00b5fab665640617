//! Each store behind the one trait, with the settings told its way.

mod fjall;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod terrace;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

pub use fjall::Fjall;
#[cfg(feature = "rocksdb")]
pub use rocksdb::RocksDb;
pub use terrace::Terrace;

/// The stores that were built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreName {
    Terrace,
    #[cfg(feature = "rocksdb")]
    #[value(name = "rocksdb")]
    RocksDb,
    Fjall,
}

impl StoreName {
    pub fn name(self) -> &'static str {
        match self {
            StoreName::Terrace => "terrace",
            #[cfg(feature = "rocksdb")]
            StoreName::RocksDb => "rocksdb",
            StoreName::Fjall => "fjall",
        }
    }
}
