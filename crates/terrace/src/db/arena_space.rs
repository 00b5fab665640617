//! The room on the disk for another arena.
//!
//! The contents of arenas go to tables. So an arena is begun only where the disk takes its file and
//! the tables of all arenas: acknowledged writes find room before a put is refused. Other programs
//! may take that room; the reserve (`reserve.rs`) is for them.

use terrace_lsm::levels::ArenaHome;
use terrace_storage::Directory;

use crate::db::Store;
use crate::write_buffer::arena_size::{
    affordable_bytes, in_tables, needed_bytes, smallest_arena_bytes,
};
use crate::{Error, Result};

impl Store {
    /// Returns the size of the next arena, at most `wanted_bytes`.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if the disk has no room for the smallest.
    pub(crate) fn affordable(&self, wanted_bytes: u64) -> Result<u64> {
        let smallest_bytes = smallest_arena_bytes(wanted_bytes);
        self.find_space(wanted_bytes)?
            .ok_or_else(|| self.no_space_for(smallest_bytes))
    }

    /// Fails unless the disk has room for an arena of this size.
    pub(crate) fn check_affordable(&self, capacity_bytes: u64) -> Result<()> {
        match self.find_space(capacity_bytes)? == Some(capacity_bytes) {
            true => Ok(()),
            false => Err(self.no_space_for(capacity_bytes)),
        }
    }

    /// Returns the size of the first arena of an opening. A full disk gets the smallest, so that
    /// deletes find room.
    pub(crate) fn affordable_first(&self, wanted_bytes: u64) -> Result<u64> {
        let smallest_bytes = smallest_arena_bytes(wanted_bytes);
        Ok(self.find_space(wanted_bytes)?.unwrap_or(smallest_bytes))
    }

    /// Returns the bytes of tables that all arenas may become.
    pub(crate) fn unflushed_table_bytes(&self) -> u64 {
        in_tables(self.unflushed_bytes())
    }

    fn find_space(&self, wanted_bytes: u64) -> Result<Option<u64>> {
        let takes_file = self.arenas_share_the_disk();
        let find = |wanted_bytes, takes_file| -> Result<Option<u64>> {
            let free_bytes = self.files.directory.free_space_bytes()?;
            let unflushed_bytes = self.unflushed_bytes();
            let bytes = affordable_bytes(wanted_bytes, takes_file, unflushed_bytes, free_bytes);
            Ok(bytes)
        };
        // A free slot is used as it is, and may be larger.
        let slot_bytes = self.writes.region.free_slot_bytes(wanted_bytes);
        let first_bytes = slot_bytes.unwrap_or(wanted_bytes);
        let found = find(first_bytes, takes_file && slot_bytes.is_none())?;
        if found == Some(first_bytes) {
            return Ok(Some(wanted_bytes));
        }
        // Free slots are too large: one would take more writes than tables have room for. Or their
        // blocks are needed.
        self.remove_free_slots()?;
        find(wanted_bytes, takes_file)
    }

    /// Removes all free slots.
    pub(crate) fn remove_free_slots(&self) -> Result<()> {
        self.keep_slots_from(u64::MAX)?;
        self.keep_slots_from(0)
    }

    fn no_space_for(&self, capacity_bytes: u64) -> Error {
        let takes_file = self.arenas_share_the_disk();
        let needed_bytes = needed_bytes(capacity_bytes, takes_file);
        Error::NoSpace {
            path: self.files.directory.path().to_path_buf(),
            needed_bytes: needed_bytes.saturating_add(self.unflushed_table_bytes()),
        }
    }

    /// Returns whether arenas are files on the file system of the tables. (Subvolumes of one btrfs have
    /// different numbers: these are not known to share it.)
    fn arenas_share_the_disk(&self) -> bool {
        let device = |directory: &dyn Directory| directory.identity().ok().map(|of| of.device);
        matches!(self.manifest_log.arena_home, ArenaHome::Store)
            || device(&*self.manifest_log.arena_directory) == device(&*self.files.directory)
    }

    /// Returns the bytes of arenas that hold writes, and of spares: taking one asks for no room.
    fn unflushed_bytes(&self) -> u64 {
        let spare_bytes = self.writes.arenas.lock().all_spare_bytes();
        let view = self.reads.view.load();
        let unflushed = view.memtables.iter();
        let bytes = unflushed.map(|table| table.arena().capacity_bytes());
        spare_bytes + bytes.sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use terrace_storage::{CrashSwitch, SimulatedStorage};

    use crate::{Db, Options};

    #[test]
    fn files_of_arenas_count_wherever_they_lie_on_the_disk_of_the_tables() {
        for region_dir in [None, Some(Path::new("/arenas").into())] {
            let storage = SimulatedStorage::new(1, CrashSwitch::new());
            let options = Options {
                storage: Arc::new(storage),
                region_dir,
                ..Options::default()
            };
            let db = Db::open("/store", options).unwrap();
            assert!(db.store().arenas_share_the_disk());
        }
    }
}
