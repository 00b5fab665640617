//! Shared parts of the benches: their arguments, and numbers that are scattered over keys.
#![allow(dead_code, reason = "each bench uses a part of it")]

use std::path::{Path, PathBuf};

use terrace::{Db, IterOptions};

/// Rows that a short scan reads.
pub const SCAN_ROWS: usize = 50;

/// Permutes 64-bit numbers (the finaliser of MurmurHash3): every row once, in random order.
pub fn scatter(mut number: u64) -> u64 {
    number ^= number >> 33;
    number = number.wrapping_mul(0xff51_afd7_ed55_8ccd);
    number ^= number >> 33;
    number = number.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ number >> 33
}

/// Reads [`SCAN_ROWS`] rows from a key on. Returns their bytes.
pub fn scan(db: &Db, key: &[u8]) -> usize {
    let mut iterator = db.iter(IterOptions::default()).unwrap();
    iterator.seek(key).unwrap();
    let mut bytes = 0;
    for _ in 0..SCAN_ROWS {
        if !iterator.valid() {
            break;
        }
        bytes += iterator.key().len() + iterator.value().len();
        iterator.next().unwrap();
    }
    bytes
}

/// The arguments behind `--` on the command line, by position. Cargo adds `--bench`.
pub struct Arguments(Vec<String>);

impl Arguments {
    pub fn new() -> Self {
        let given = std::env::args().skip(1);
        let own = given.filter(|argument| !argument.starts_with("--") && argument != "tiny");
        Arguments(own.collect())
    }

    pub fn number(&self, at: usize, default: u64) -> u64 {
        let text = self.0.get(at);
        text.map_or(default, |text| text.parse().expect("a number is needed"))
    }

    pub fn directory(&self, at: usize, default: &Path) -> PathBuf {
        self.0
            .get(at)
            .map_or(default.to_path_buf(), |text| text.into())
    }
}
