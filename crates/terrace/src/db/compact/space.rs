//! The space that merges take beside unflushed arenas.

use terrace_lsm::compaction::slices::table_bytes_within;
use terrace_lsm::levels::KeyspaceLevels;

use crate::db::Store;
use crate::db::owners::Files;
use crate::{Error, Result};

impl Store {
    /// Returns the size of tables that a keyspace gets at present.
    pub(crate) fn table_bytes_of(&self, levels: &KeyspaceLevels) -> Result<u64> {
        let free_bytes = self.files.largest_room_bytes(false)?;
        Ok(table_bytes_within(
            self.form_of(levels).table_bytes,
            free_bytes,
        ))
    }

    /// Fails if space is short. Inputs and outputs exist side by side for a while; better not begin
    /// than fail in the middle.
    pub(super) fn check_space(&self, needed_bytes: u64, makes_room: bool) -> Result<()> {
        let needed_bytes = self.beside_unflushed(needed_bytes);
        match self.is_free(needed_bytes, makes_room)? {
            true => Ok(()),
            false => Err(self.files.no_space(needed_bytes)),
        }
    }

    pub(super) fn has_space(&self, needed_bytes: u64, makes_room: bool) -> Result<bool> {
        self.is_free(self.beside_unflushed(needed_bytes), makes_room)
    }

    /// Adds the room in tables that unflushed arenas need, for flushes come first.
    fn beside_unflushed(&self, needed_bytes: u64) -> u64 {
        needed_bytes.saturating_add(self.unflushed_table_bytes())
    }

    pub(crate) fn is_free(&self, needed_bytes: u64, makes_room: bool) -> Result<bool> {
        let is_free = || -> Result<bool> { Ok(self.files.room_bytes(makes_room)? >= needed_bytes) };
        if is_free()? {
            return Ok(true);
        }
        self.delete_now();
        if is_free()? {
            return Ok(true);
        }
        // Before a sync, btrfs gives nothing back.
        self.files.data.sync()?;
        is_free()
    }
}

impl Files {
    /// Returns the bytes that new tables may take in all tiers together. A job that makes room may take the
    /// reserves of tiers.
    pub(crate) fn room_bytes(&self, makes_room: bool) -> Result<u64> {
        match self.space.is_limited() {
            true => self.space.room_bytes(makes_room),
            false => Ok(self.directory.free_space_bytes()?),
        }
    }

    /// Returns the bytes that a new table may have in the roomiest tier.
    pub(crate) fn largest_room_bytes(&self, makes_room: bool) -> Result<u64> {
        match self.space.is_limited() {
            true => self.space.largest_room_bytes(makes_room),
            false => Ok(self.directory.free_space_bytes()?),
        }
    }

    fn no_space(&self, needed_bytes: u64) -> Error {
        Error::NoSpace {
            path: self.path.clone(),
            needed_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Db, Options};

    #[test]
    fn a_merge_leaves_the_room_that_unflushed_arenas_need_in_tables() {
        let db = Db::open("/store", Options::in_memory()).unwrap();
        db.put(b"a", b"").unwrap();
        let unflushed_bytes = db.store().unflushed_table_bytes();
        assert!(unflushed_bytes > 0);
        let needed_bytes = db.store().beside_unflushed(1000);
        assert!(needed_bytes >= 1000 + unflushed_bytes, "{needed_bytes}");
    }
}
