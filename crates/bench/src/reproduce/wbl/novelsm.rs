//! NoveLSM's policy as a composition of two stores, for comparison only.
//!
//! The policy: writes go to a logged MemTable in DRAM; while that one stalls they go to a second,
//! mutable MemTable in persistent memory. Here the first is a store with the persist method
//! `written` (one `pwrite` a commit group, as into a log). The second is a store with a mapped
//! region. A write is offered to the first with `no_stall`; if the first refuses, the second takes
//! it, and waits where it must.
//!
//! Differences from NoveLSM: each of the two has levels of its own, so that a read of a key that is
//! in neither's memory may ask the tables of both. Immutable MemTables of the first stay in DRAM
//! (with their log) and not in persistent memory. Values are 9 bytes longer.
//!
//! # The newest version wins
//! A key may be in both stores. Each write takes a number while it holds its key's *turn*, a lock
//! shared by few other keys, and gives it up only when it is acknowledged. So within a store the
//! last version of a key is the one with the greatest number. Over both stores the greater of the
//! two numbers is that of the last write that was acknowledged. A deletion is a version, too: in
//! the other store there may be an older value.

use std::cell::RefCell;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use terrace::{Db, Error as StoreError, IterOptions, WriteBatch, WriteOptions};

use super::stores::{region_options, split_model};
use crate::draw::fnv_64;
use crate::settings::{DurabilityClass, Settings};
use crate::store::{Activity, Direction, Opened, Store};
use crate::stores::terrace::{options, told};
use crate::{Error, Result};

mod merge;

use merge::{Cursor, Merge};

/// So many turns that keys in flight rarely share one.
const TURNS: usize = 1024;

/// Each version in a store: its number, its kind, and the value.
const NUMBER_BYTES: usize = 8;
const VALUE: u8 = 1;
const DELETION: u8 = 0;

struct Novelsm {
    /// The logged one, which is asked first.
    logged: Db,
    /// Takes the writes that would stall.
    overflow: Db,
    last_number: AtomicU64,
    turns: Vec<Mutex<()>>,
    /// Writes that the second store took; 0 spares reads the look into it.
    overflowed: AtomicU64,
    sync: bool,
}

/// Opens both stores, each with half of the memory for reads.
pub fn open(directory: &Path, settings: &Settings) -> Result<Opened> {
    let (mut settings, model) = split_model(settings)?;
    settings.cache_bytes /= 2;
    let [logged_at, overflow_at] = ["logged", "overflow"].map(|name| directory.join(name));
    std::fs::create_dir_all(&overflow_at)?;
    let logged_options = options(&settings, &[("persist_method", "written")])?;
    let told = told(&logged_options)?;
    let logged = Db::open(logged_at, logged_options)?;
    let overflow = Db::open(
        &overflow_at,
        region_options(&overflow_at, &settings, model)?,
    )?;
    let last = last_number(&logged)?.max(last_number(&overflow)?);
    let (log, region) = (logged.statistics(), overflow.statistics());
    let modelled = model.map_or(String::new(), |model| format!(", modelled as {model}"));
    let durability = format!(
        "{}, method {} and while that stalls {}{modelled}, on {}",
        log.durability, log.method, region.method, log.file_system
    );
    let overflowed = u64::from(region.sequences.last > 0);
    let store = Novelsm {
        logged,
        overflow,
        last_number: AtomicU64::new(last),
        turns: (0..TURNS).map(|_| Mutex::new(())).collect(),
        overflowed: AtomicU64::new(overflowed),
        sync: settings.durability == DurabilityClass::PowerCut,
    };
    Ok(Opened {
        store: Box::new(store),
        durability,
        settings: told,
    })
}

/// Returns the greatest number in a store that was there before.
fn last_number(db: &Db) -> Result<u64> {
    let mut iterator = db.iter(IterOptions::default())?;
    iterator.seek_to_first()?;
    let mut last = 0;
    while iterator.valid() {
        last = last.max(Version::read(iterator.value())?.number);
        iterator.next()?;
    }
    Ok(last)
}

/// A key's version, as it lies in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version<'a> {
    number: u64,
    /// `None` for a deletion.
    value: Option<&'a [u8]>,
}

impl<'a> Version<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self> {
        let wrong = || Error::from("a version without its number");
        let (number, rest) = bytes
            .split_first_chunk::<NUMBER_BYTES>()
            .ok_or_else(wrong)?;
        let (kind, value) = rest.split_first().ok_or_else(wrong)?;
        Ok(Version {
            number: u64::from_le_bytes(*number),
            value: (*kind == VALUE).then_some(value),
        })
    }

    fn write_into(&self, bytes: &mut Vec<u8>) {
        bytes.clear();
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.push(if self.value.is_some() {
            VALUE
        } else {
            DELETION
        });
        bytes.extend_from_slice(self.value.unwrap_or_default());
    }
}

thread_local! {
    /// A version on its way into a store: no allocation for each.
    static ENCODED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Novelsm {
    /// Takes the key's turn and a number, and hands the version to `store`.
    fn numbered(
        &self,
        key: &[u8],
        value: Option<&[u8]>,
        store: impl FnOnce(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let turn = self.turns.get(turn_of(key)).ok_or("no such turn")?;
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.last_number.fetch_add(1, Ordering::Relaxed) + 1;
        ENCODED.with_borrow_mut(|bytes| {
            Version { number, value }.write_into(bytes);
            store(bytes)
        })
    }

    /// Stores a version where there is room: in the logged store, or else in the other.
    fn store(&self, key: &[u8], bytes: &[u8]) -> Result<()> {
        let impatient = WriteOptions {
            no_stall: true,
            ..WriteOptions::with_sync(self.sync)
        };
        match self.logged.write(batch(key, bytes)?, impatient) {
            Err(StoreError::WouldStall) => self.overflow(key, bytes),
            written => Ok(written?),
        }
    }

    fn overflow(&self, key: &[u8], bytes: &[u8]) -> Result<()> {
        // Before the write: a reader that finds 0 here began before it was acknowledged.
        self.overflowed.fetch_add(1, Ordering::SeqCst);
        let options = WriteOptions::with_sync(self.sync);
        Ok(self.overflow.write(batch(key, bytes)?, options)?)
    }
}

fn batch(key: &[u8], bytes: &[u8]) -> Result<WriteBatch> {
    let mut batch = WriteBatch::new();
    batch.put(key, bytes)?;
    Ok(batch)
}

/// Returns the turn of a key.
fn turn_of(key: &[u8]) -> usize {
    let hash = key.iter().fold(0, |hash: u64, byte| {
        fnv_64(hash.rotate_left(8) ^ u64::from(*byte))
    });
    (hash % TURNS as u64) as usize
}

impl Store for Novelsm {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.numbered(key, Some(value), |bytes| self.store(key, bytes))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.numbered(key, None, |bytes| self.store(key, bytes))
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let logged = self.logged.get(key)?;
        let overflow = match self.overflowed.load(Ordering::SeqCst) {
            0 => None,
            _ => self.overflow.get(key)?,
        };
        let version = |value: &'_ Option<terrace::Value>| -> Result<(u64, bool)> {
            let Some(value) = value else {
                return Ok((0, false));
            };
            Version::read(value).map(|version| (version.number, version.value.is_some()))
        };
        let (left, right) = (version(&logged)?, version(&overflow)?);
        let newest = if left >= right { &logged } else { &overflow };
        let Some(bytes) = newest else {
            return Ok(false);
        };
        let value = Version::read(bytes)?.value;
        if let Some(value) = value {
            read(value);
        }
        Ok(value.is_some())
    }

    fn scan(
        &self,
        start: Option<&[u8]>,
        limit: u64,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let cursor = |db: &Db| Cursor::open(db, start, direction);
        let mut merge = Merge::new(cursor(&self.logged)?, cursor(&self.overflow)?, direction);
        let mut left = limit;
        while left > 0 {
            match merge.step(visit)? {
                merge::Step::Shown => left -= 1,
                merge::Step::Hidden => {}
                merge::Step::End => break,
            }
        }
        Ok(())
    }

    fn settle(&self) -> Result<Instant> {
        for db in [&self.logged, &self.overflow] {
            db.flush()?;
            db.compact()?;
        }
        Ok(Instant::now())
    }

    fn activity(&self) -> Activity {
        let sum = |of: fn(&terrace::Statistics) -> u64| {
            of(&self.logged.statistics()) + of(&self.overflow.statistics())
        };
        Activity {
            flushes: sum(|statistics| statistics.flushes),
            compactions: sum(|statistics| statistics.merges),
            ..Activity::default()
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.logged.close()?;
        Ok(self.overflow.close()?)
    }
}

#[cfg(test)]
mod tests;
