//! The books of each tier: the bytes of its files, and those that jobs have reserved.
//!
//! A tier holds finished files, files being written, copies, and files that wait for their deletion. All of
//! them count until they are gone. A table is begun only where its bytes have been reserved, so that no
//! tier goes beyond its capacity. The capacity less the reserve is for all jobs; the reserve is for those that
//! make room.

use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

use terrace_lsm::data_files::{OWN_TIER, Placed};
use terrace_lsm::levels::{TierRecord, TierUse};
use terrace_lsm::sync::Mutex;
use terrace_storage::Directory;

use super::meters::TierMeters;
use crate::{Error, Result};

/// The place of a new table: the tiers that it may go to, the best first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    pub(crate) tiers: Vec<u8>,
    /// Whether the job makes room, and may take what is kept for that.
    pub(crate) takes_reserve: bool,
    /// Whether the size of the file is known before it is written.
    pub(crate) is_exact: bool,
}

/// The books of all tiers.
#[derive(Debug)]
pub(crate) struct SpaceBook {
    accounts: Mutex<Vec<Account>>,
}

/// A tier with its books, in the order of placement.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) tier: TierRecord,
    /// Bytes of the files there, those that wait for deletion included.
    pub(crate) files_bytes: u64,
    /// Bytes that jobs have reserved for files that are not finished.
    pub(crate) reserved_bytes: u64,
    /// The most bytes by which a file has exceeded its reservation: later ones are larger by that.
    margin_bytes: u64,
    /// Bytes that the cache of the tier may take; they count against the capacity.
    cache_bytes: u64,
    directory: Option<Arc<dyn Directory>>,
    pub(super) meters: TierMeters,
}

impl Account {
    /// Returns the bytes that a job may still take, as the file system and the books say.
    ///
    /// # Errors
    /// The free space of the directory cannot be asked.
    pub(crate) fn room_bytes(&self, takes_reserve: bool) -> Result<u64> {
        let Some(directory) = &self.directory else {
            return Ok(0);
        };
        Ok(self.room_within(directory.free_space_bytes()?, takes_reserve))
    }

    /// Returns the bytes that a job may still take of this much free space.
    fn room_within(&self, free_bytes: u64, takes_reserve: bool) -> u64 {
        let used_bytes = self
            .files_bytes
            .saturating_add(self.reserved_bytes)
            .saturating_add(self.cache_bytes);
        let free_bytes = free_bytes.saturating_sub(self.reserved_bytes);
        match self.tier.capacity_bytes {
            0 => free_bytes,
            capacity_bytes => {
                let kept_bytes = match takes_reserve {
                    true => 0,
                    false => self.tier.reserve_bytes,
                };
                let usable_bytes = capacity_bytes.saturating_sub(kept_bytes);
                usable_bytes.saturating_sub(used_bytes).min(free_bytes)
            }
        }
    }

    /// Returns the bytes that tables may take without the reserve; `None` without a limit.
    pub(crate) fn capacity_of_tables(&self) -> Option<u64> {
        let kept_bytes = self.tier.reserve_bytes.saturating_add(self.cache_bytes);
        let capacity_bytes = self.tier.capacity_bytes;
        (capacity_bytes > 0).then(|| capacity_bytes.saturating_sub(kept_bytes))
    }

    /// Returns whether new files may go there.
    pub(crate) fn is_open(&self) -> bool {
        self.tier.state == TierUse::Open && self.directory.is_some()
    }
}

/// Bytes in a tier for a file that is being written. They are given back unless the file takes them.
#[derive(Debug)]
pub(crate) struct Reservation {
    book: Arc<SpaceBook>,
    tier: u8,
    bytes: u64,
    /// The part of the bytes that is the tier's margin; `None` if the size was no guess.
    margin_bytes: Option<u64>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let bytes = self.bytes;
        self.book.change(self.tier, |account| {
            account.reserved_bytes = account.reserved_bytes.saturating_sub(bytes);
        });
    }
}

impl Reservation {
    pub(crate) fn tier(&self) -> u8 {
        self.tier
    }

    /// Takes the bytes for a finished file.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if the file is larger than the reservation, and the tier has no room for the rest.
    pub(crate) fn into_file(mut self, file_bytes: u64) -> Result<()> {
        let mut accounts = self.book.accounts.lock();
        let Some(account) = accounts.iter_mut().find(|a| a.tier.number == self.tier) else {
            return Ok(());
        };
        let more_bytes = file_bytes.saturating_sub(self.bytes);
        if let Some(margin_bytes) = self.margin_bytes {
            // Of a guess with its margin, not of the guess: else it would stay at half of the error.
            account.margin_bytes = match more_bytes {
                0 => account.margin_bytes / 2,
                _ => account
                    .margin_bytes
                    .max(margin_bytes.saturating_add(more_bytes)),
            };
        }
        // The reserve takes a guess that was too low; the next one is higher. The disk has taken the file.
        let capacity_bytes = account.tier.capacity_bytes;
        if capacity_bytes > 0 && account.room_within(u64::MAX, true) < more_bytes {
            return Err(no_room(account, more_bytes));
        }
        account.reserved_bytes = account.reserved_bytes.saturating_sub(self.bytes);
        account.files_bytes = account.files_bytes.saturating_add(file_bytes);
        debug_assert!(
            account.tier.capacity_bytes == 0 || account.files_bytes <= account.tier.capacity_bytes,
            "tier {} holds {} bytes and has room for {}",
            self.tier,
            account.files_bytes,
            account.tier.capacity_bytes
        );
        self.bytes = 0;
        drop(accounts);
        Ok(())
    }
}

fn no_room(account: &Account, needed_bytes: u64) -> Error {
    let path = account.directory.as_ref().map(|directory| directory.path());
    Error::NoSpace {
        path: path.unwrap_or(&account.tier.path).to_path_buf(),
        needed_bytes,
    }
}

/// Brings tiers into their order: by the read latencies if all are known, else by the numbers.
fn sort_by_speed(accounts: &mut [Account]) {
    let latency = |account: &Account| account.tier.profile.map(|profile| profile.read_latency_us);
    let all_known = accounts.iter().all(|account| latency(account).is_some());
    accounts.sort_by_key(|account| account.tier.number);
    if all_known {
        let order = |one: &Account, other: &Account| latency(one).partial_cmp(&latency(other));
        accounts.sort_by(|one, other| order(one, other).unwrap_or(Ordering::Equal));
    }
}

/// Has the operations of all tiers timed, if there is more than one.
fn time_several(accounts: &[Account]) {
    if accounts.len() > 1 {
        accounts
            .iter()
            .for_each(|account| account.meters.times.turn_on());
    }
}

impl SpaceBook {
    /// Returns the books of tiers, in their order, without files yet. Those that are not at hand have no
    /// directory.
    pub(crate) fn new(
        tiers: Vec<(TierRecord, Option<Arc<dyn Directory>>)>,
        meters: &[(u8, TierMeters)],
    ) -> Arc<Self> {
        let accounts = tiers.into_iter().map(|(tier, directory)| Account {
            files_bytes: 0,
            reserved_bytes: 0,
            margin_bytes: 0,
            cache_bytes: 0,
            meters: meters
                .iter()
                .find(|(number, _)| *number == tier.number)
                .map(|(_, meters)| meters.clone())
                .unwrap_or_default(),
            tier,
            directory,
        });
        let mut accounts: Vec<Account> = accounts.collect();
        sort_by_speed(&mut accounts);
        time_several(&accounts);
        Arc::new(SpaceBook {
            accounts: Mutex::new(accounts),
        })
    }

    /// Returns whether there is more than one tier.
    pub(super) fn has_several(&self) -> bool {
        self.accounts.lock().len() > 1
    }

    /// Returns whether placement has a choice, or a limit to keep: without, nothing is reserved.
    pub(crate) fn is_limited(&self) -> bool {
        let accounts = self.accounts.lock();
        accounts.len() > 1
            || accounts
                .iter()
                .any(|account| account.tier.capacity_bytes > 0)
    }

    /// Returns the books as they are now.
    pub(crate) fn accounts(&self) -> Vec<Account> {
        self.accounts.lock().clone()
    }

    /// Adds a tier that holds no file yet.
    pub(super) fn add(&self, tier: TierRecord, directory: Arc<dyn Directory>, meters: TierMeters) {
        let mut accounts = self.accounts.lock();
        accounts.push(Account {
            tier,
            files_bytes: 0,
            reserved_bytes: 0,
            margin_bytes: 0,
            cache_bytes: 0,
            directory: Some(directory),
            meters,
        });
        sort_by_speed(&mut accounts);
        time_several(&accounts);
    }

    /// Closes the books of a tier.
    pub(super) fn remove(&self, tier: u8) {
        self.accounts
            .lock()
            .retain(|account| account.tier.number != tier);
    }

    pub(super) fn set_state(&self, tier: u8, state: TierUse) {
        self.change(tier, |account| account.tier.state = state);
    }

    /// Returns a tier that is in use, by its name.
    pub(super) fn record_of(&self, name: &str) -> Option<TierRecord> {
        let accounts = self.accounts.lock();
        let named = accounts.iter().find(|account| account.tier.name == name);
        named.map(|account| account.tier.clone())
    }

    /// Returns the name of a tier, or its number if it is gone.
    pub(crate) fn name_of(&self, tier: u8) -> String {
        let accounts = self.accounts.lock();
        let found = accounts.iter().find(|account| account.tier.number == tier);
        found.map_or_else(|| tier.to_string(), |account| account.tier.name.clone())
    }

    /// Returns the bytes of the files in a tier, those in progress included.
    pub(super) fn used_bytes(&self, tier: u8) -> u64 {
        let accounts = self.accounts.lock();
        let found = accounts.iter().find(|account| account.tier.number == tier);
        found.map_or(0, |account| account.files_bytes + account.reserved_bytes)
    }

    fn change(&self, tier: u8, change: impl FnOnce(&mut Account)) {
        let mut accounts = self.accounts.lock();
        if let Some(account) = accounts
            .iter_mut()
            .find(|account| account.tier.number == tier)
        {
            change(account);
        }
    }

    /// Sets the bytes that the cache of a tier may take.
    pub(super) fn book_cache(&self, tier: u8, bytes: u64) {
        self.change(tier, |account| account.cache_bytes = bytes);
    }

    /// Returns the tiers that are faster than one, from the fastest.
    pub(super) fn faster_than(&self, tier: u8) -> Vec<u8> {
        let accounts = self.accounts.lock();
        let numbers = accounts.iter().map(|account| account.tier.number);
        numbers.take_while(|number| *number != tier).collect()
    }

    /// Notes the files that an opening found.
    pub(crate) fn count_files(&self, files: impl Iterator<Item = (u8, u64)>) {
        for (tier, bytes) in files {
            self.change(tier, |account| account.files_bytes += bytes);
        }
    }

    /// Notes that a file is gone.
    pub(crate) fn forget_file(&self, placed: Placed, bytes: u64) {
        self.change(placed.tier, |account| {
            account.files_bytes = account.files_bytes.saturating_sub(bytes);
        });
    }

    /// Reserves bytes in the first of the tiers that has room for them.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if none has; the failure of a device if no other has room.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        destination: &Destination,
        bytes: u64,
    ) -> Result<Reservation> {
        let mut failure = None;
        // No reserve is touched while another tier has other room.
        let passes = [false, true].into_iter();
        for takes_reserve in passes.take(1 + usize::from(destination.takes_reserve)) {
            for &tier in &destination.tiers {
                match self.reserve_in(tier, bytes, takes_reserve, destination.is_exact) {
                    Ok(Some(reservation)) => return Ok(reservation),
                    Ok(None) => {}
                    Err(error) => failure = failure.or(Some(error)),
                }
            }
        }
        let mut accounts = self.accounts.lock();
        // A margin is not to keep a small file from a tier for ever.
        let is_full = !destination.is_exact && failure.is_none();
        let is_asked = |account: &&mut Account| destination.tiers.contains(&account.tier.number);
        for account in accounts.iter_mut().filter(|_| is_full).filter(is_asked) {
            account.margin_bytes /= 2;
        }
        let first = destination.tiers.first().unwrap_or(&OWN_TIER);
        let account = accounts.iter().find(|a| a.tier.number == *first);
        Err(match (failure, account.or(accounts.first())) {
            (Some(failure), _) => failure,
            (None, Some(account)) => no_room(account, bytes),
            (None, None) => Error::invalid("the store has no tier"),
        })
    }

    /// Reserves bytes in a tier; `None` without room there. No thread waits for the books while a file
    /// system is asked.
    fn reserve_in(
        self: &Arc<Self>,
        tier: u8,
        bytes: u64,
        takes_reserve: bool,
        is_exact: bool,
    ) -> Result<Option<Reservation>> {
        let Some(directory) = self.directory_of_open(tier) else {
            return Ok(None);
        };
        if !self.is_limited() {
            // The disk alone says when it is full.
            return Ok(Some(self.reservation(tier, 0, None)));
        }
        let free_bytes = directory.free_space_bytes()?;
        let mut accounts = self.accounts.lock();
        let found = accounts.iter_mut().find(|a| a.tier.number == tier);
        let Some(account) = found.filter(|account| account.is_open()) else {
            return Ok(None);
        };
        let margin_bytes = (!is_exact).then_some(account.margin_bytes);
        let bytes = bytes.saturating_add(margin_bytes.unwrap_or(0));
        if account.room_within(free_bytes, takes_reserve) < bytes {
            return Ok(None);
        }
        account.reserved_bytes += bytes;
        Ok(Some(self.reservation(tier, bytes, margin_bytes)))
    }

    fn directory_of_open(&self, tier: u8) -> Option<Arc<dyn Directory>> {
        let accounts = self.accounts.lock();
        let mut open = accounts.iter().filter(|account| account.is_open());
        open.find(|account| account.tier.number == tier)?
            .directory
            .clone()
    }

    fn reservation(
        self: &Arc<Self>,
        tier: u8,
        bytes: u64,
        margin_bytes: Option<u64>,
    ) -> Reservation {
        Reservation {
            book: Arc::clone(self),
            tier,
            bytes,
            margin_bytes,
        }
    }

    /// Returns the bytes that a job may still take in each open tier. A device that does not answer has none.
    ///
    /// # Errors
    /// No device answers.
    fn rooms(&self, takes_reserve: bool) -> Result<Vec<u64>> {
        let accounts = self.accounts().into_iter();
        let open = accounts.filter(Account::is_open);
        let rooms: Vec<Result<u64>> = open
            .map(|account| account.room_bytes(takes_reserve))
            .collect();
        match rooms.iter().all(Result::is_err) {
            true => rooms.into_iter().collect(),
            false => Ok(rooms.into_iter().flatten().collect()),
        }
    }

    /// Returns the bytes that a job may still take in all open tiers together.
    ///
    /// # Errors
    /// No device answers.
    pub(crate) fn room_bytes(&self, takes_reserve: bool) -> Result<u64> {
        let rooms = self.rooms(takes_reserve)?.into_iter();
        Ok(rooms.fold(0, u64::saturating_add))
    }

    /// Returns the bytes of the roomiest open tier.
    ///
    /// # Errors
    /// No device answers.
    pub(crate) fn largest_room_bytes(&self, takes_reserve: bool) -> Result<u64> {
        Ok(self.rooms(takes_reserve)?.into_iter().max().unwrap_or(0))
    }

    /// Returns whether a directory is that of a tier with a capacity.
    pub(crate) fn is_bounded(&self, directory: &Path) -> bool {
        let accounts = self.accounts.lock();
        accounts.iter().any(|account| {
            let path = account.directory.as_ref().map(|directory| directory.path());
            path == Some(directory) && account.tier.capacity_bytes > 0
        })
    }
}

#[cfg(test)]
mod tests;
