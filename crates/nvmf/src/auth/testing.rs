//! Names, secrets and generators of tests.

use std::convert::Infallible;

use rand::{TryCryptoRng, TryRng};

use super::{Names, Secret};

pub const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:36ebf5a9-1df9-47b3-a6d0-e9ba32e428a2";
pub const SUBSYSTEM: &str = "nqn.2014-08.org.nvmexpress:test:terrace";

pub fn names() -> Names {
    Names {
        host: HOST.into(),
        subsystem: SUBSYSTEM.into(),
    }
}

pub fn host_secret(transform: u8) -> Secret {
    let key = "ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n";
    Secret::parse(&format!("DHHC-1:{transform:02}:{key}:")).unwrap()
}

pub fn controller_secret(transform: u8) -> Secret {
    let key = "9wCYVQqDvADjGIZo6q/v2SfmXZqqkNa9TcvYu97Ly3Q/gajh";
    Secret::parse(&format!("DHHC-1:{transform:02}:{key}:")).unwrap()
}

pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .map(|digit| digit.to_digit(16).unwrap() as u8)
        .collect();
    digits.chunks(2).map(|two| two[0] << 4 | two[1]).collect()
}

/// A generator that gives prepared bytes.
pub struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Script(bytes)
    }
}

impl TryRng for Script<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, target: &mut [u8]) -> Result<(), Infallible> {
        let (bytes, rest) = self.0.split_at(target.len());
        target.copy_from_slice(bytes);
        self.0 = rest;
        Ok(())
    }
}

impl TryCryptoRng for Script<'_> {}
