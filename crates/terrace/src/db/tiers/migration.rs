//! Tables go to other tiers while the store is open: one at a time, by a worker of its own.
//!
//! The order: bytes are reserved at the destination. The file is copied, and every block of the copy is
//! checked. The copy is synced with its name. One edit gives the table its new tier. The old file goes when
//! no reader has it. Until the edit the copy is an orphan, which an opening removes; after it the old file is
//! one.
//!
//! The worker copies and checks in parts (`parts.rs`), and pauses after each for as long as it took.
//!
//! A compaction that takes the table meanwhile ends the migration: its outputs are placed anyway. A table that
//! has moved stays for an hour, unless its tier is drained. Its reads may move it once more: the first move may
//! have come before they were known well.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use terrace_lsm::compaction::placement::{Migration, MigrationReason, TableFacts, next_migration};
use terrace_lsm::data_files::{Placed, Stage};
use terrace_lsm::levels::{Edit, KeyspaceLevels, Table, TableMigrated, Version};
use terrace_lsm::sync::Mutex;
use terrace_lsm::table::{BlockCache, TableReader};
use terrace_storage::{
    self as storage, Directory, File, LayeredDirectory, OpenMode, OpenOptions, Operation, Purpose,
};

use super::parts::{Parts, ReadInParts};
use super::space::Destination;
use crate::db::Store;
use crate::event::EventKind;
use crate::options::Background;
use crate::{Error, KeyspaceId, Result};

/// Bytes of the copy that are sent to the device at a time, so that the sync finds little left.
const SENT_BYTES: u64 = 1 << 20;
/// Longest pause after a part.
const MAX_PAUSE: Duration = Duration::from_millis(200);
/// Time after which a pause looks whether the migration is to end.
const PAUSE_STEP: Duration = Duration::from_millis(20);
/// Time in which a migration is not undone.
const STAYS_SECONDS: u64 = 60 * 60;
/// Moves of a table in that time.
const MAX_MOVES: usize = 2;
/// Damaged copies of a sound table after which it stays until the tiers change, or the next opening.
const MAX_BAD_COPIES: u32 = 3;
/// Migrations that are remembered for that.
const MAX_REMEMBERED: usize = 4096;

/// The migrations of late, oldest first.
#[derive(Default)]
pub(crate) struct Migrations {
    late: Mutex<VecDeque<Past>>,
    /// Tables whose migration failed. They come after all others.
    failed: Mutex<BTreeSet<u64>>,
    /// Tables that cannot be copied whole. They stay.
    damaged: Mutex<BTreeSet<u64>>,
    /// Copies of sound tables that came out damaged.
    bad_copies: Mutex<BTreeMap<u64, u32>>,
    /// Whether a table has moved since all were in their places.
    has_moved: AtomicBool,
}

#[derive(Clone, Copy)]
struct Past {
    table: u64,
    seconds: u64,
}

impl Migrations {
    fn remember(&self, past: Past) {
        let mut late = self.late.lock();
        late.push_back(past);
        late.retain(|other| past.seconds.abs_diff(other.seconds) < STAYS_SECONDS);
        while late.len() > MAX_REMEMBERED {
            late.pop_front();
        }
    }

    /// Returns the tables that moved within the last hour, each with the number of its moves.
    pub(super) fn moves_of_late(&self, now_seconds: u64) -> BTreeMap<u64, usize> {
        let late = self.late.lock();
        // A clock may be set back.
        let is_late = |past: &&Past| now_seconds.abs_diff(past.seconds) < STAYS_SECONDS;
        let mut moves = BTreeMap::new();
        for past in late.iter().filter(is_late) {
            *moves.entry(past.table).or_default() += 1;
        }
        moves
    }

    /// Gives another chance to tables that could not be copied whole: their copies may go to another device now.
    pub(super) fn tiers_changed(&self) {
        self.damaged.lock().clear();
        self.bad_copies.lock().clear();
    }

    /// Counts a copy of a sound table that came out damaged. Returns false after some of them.
    fn may_copy_again(&self, table: u64) -> bool {
        let mut bad_copies = self.bad_copies.lock();
        let count = bad_copies.entry(table).or_default();
        *count += 1;
        *count < MAX_BAD_COPIES
    }

    fn note_failure(&self, table: u64, error: &Error) {
        match error {
            Error::Corruption { .. } | Error::Unsupported { .. } => &self.damaged,
            _ => &self.failed,
        }
        .lock()
        .insert(table);
    }
}

/// A table that is to move.
struct Planned {
    keyspace: KeyspaceId,
    migration: Migration,
    table: Arc<Table>,
}

impl Planned {
    /// Returns whether others wait for the room that the table leaves.
    fn is_urgent(&self) -> bool {
        use MigrationReason::{Draining, LevelsAbove};
        matches!(self.migration.why, Draining | LevelsAbove)
    }
}

impl Store {
    /// Takes the migration worker's step: the next table goes to its tier.
    pub(crate) fn migration_step(&self) -> Result<bool> {
        self.check_poison()?;
        if self.is_migration_idle() {
            return Ok(false);
        }
        self.look_at_heat();
        let Some(planned) = self.plan_migration() else {
            self.let_old_files_go();
            return Ok(false);
        };
        let migrated = self.migrate(&planned);
        let migrated = migrated.map_err(|error| self.cause_of(&planned, error));
        let (migrations, number) = (&self.files.migrations, planned.table.number);
        match &migrated {
            Err(error) => migrations.note_failure(number, error),
            Ok(()) => {
                migrations.failed.lock().remove(&number);
                migrations.bad_copies.lock().remove(&number);
            }
        }
        // The old file goes with its last reader, which this is as a rule.
        drop(planned);
        self.lifecycle.background.deletion_wanted(self);
        match migrated {
            Ok(()) => Ok(true),
            Err(error) if error.is_no_space() => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn is_migration_idle(&self) -> bool {
        let is_closing = self.lifecycle.closing.load(Ordering::Acquire);
        self.options.read_only || is_closing || !self.files.space.is_limited()
    }

    /// Has the files deleted that migrations have left, once all tables are in their places.
    fn let_old_files_go(&self) {
        if self
            .files
            .migrations
            .has_moved
            .swap(false, Ordering::Relaxed)
        {
            // The knowledge of duplicates holds the tables that it is of.
            drop(self.known_duplicates());
        }
        if self.files.tables_to_delete() > 0 {
            self.lifecycle.background.deletion_wanted(self);
        }
    }

    /// Chooses the next table that is to move. Those whose migration failed come last.
    fn plan_migration(&self) -> Option<Planned> {
        let failed = self.files.migrations.failed.lock().clone();
        let spared = self.plan_beside(|table| failed.contains(&table));
        spared.or_else(|| self.plan_beside(|_| false))
    }

    fn plan_beside(&self, is_put_off: impl Fn(u64) -> bool) -> Option<Planned> {
        let version = Arc::clone(&self.reads.view.load().version);
        let outlook = self.outlook();
        let migrations = &self.files.migrations;
        let damaged = migrations.damaged.lock().clone();
        let moves = migrations.moves_of_late(self.lifecycle.clock.unix_seconds());
        let is_drained = |tier: u8| {
            let mut tiers = outlook.tiers.iter();
            tiers.any(|known| known.number == tier && !known.is_open)
        };
        let planned = version.keyspaces.values().filter_map(|levels| {
            let taken = self.compactor.jobs.taken_of(levels.id);
            let may_go = |table: &Table| {
                let number = table.number;
                let moved = moves.get(&number).copied().unwrap_or(0);
                let rests = moved >= MAX_MOVES && !is_drained(table.tier);
                let stays = rests || damaged.contains(&number) || is_put_off(number);
                !stays && !taken.contains(&number) && self.files.data.is_present(table.tier)
            };
            let tables = levels.tables().filter(|(_, table)| may_go(table));
            let tables = tables.map(|(place, table)| TableFacts {
                has_moved: moves.contains_key(&table.number),
                ..outlook.facts(place, table)
            });
            let surroundings = outlook.of_tables(self.form_of(levels));
            let migration = next_migration(&surroundings, tables)?;
            self.planned(levels, migration)
        });
        planned.min_by_key(|planned| planned.migration.rank())
    }

    fn planned(&self, levels: &KeyspaceLevels, migration: Migration) -> Option<Planned> {
        let (_, table) = levels.find(migration.table.number)?;
        Some(Planned {
            keyspace: levels.id,
            migration,
            table: Arc::clone(table),
        })
    }

    fn migrate(&self, planned: &Planned) -> Result<()> {
        let began_ns = self.lifecycle.clock.now_ns();
        let Migration { table, to, why } = planned.migration;
        let destination = Destination {
            tiers: vec![to],
            takes_reserve: why == MigrationReason::Draining,
            is_exact: true,
        };
        let reserved = self.files.space.reserve(&destination, table.size_bytes)?;
        let placed = Placed::table(table.number, to);
        // A file that is there, with a reader of old or on its way out, is not this migration's to remove.
        let copy = self.create_copy(planned, placed)?;
        let copied = self.copy_checked(planned, placed, &*copy);
        drop(copy);
        // It is there, and counts until it is gone.
        let entered = reserved.into_file(table.size_bytes);
        let installed = match (copied, entered) {
            (Ok(true), Ok(())) => self.install_migration(planned),
            (Ok(_), Ok(())) => Ok(None),
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        match &installed {
            Ok(Some(level)) => self.told_of(planned, *level, began_ns),
            // After a poisoned edit it is not known which of the two the manifest lists. Of a directory that
            // was lost, another owner may list the file.
            _ if !self.owns_tables() => {}
            _ => self.files.remove_copy(placed, table.size_bytes),
        }
        installed.map(drop)
    }

    /// Returns the damage of a table after a copy of it was found damaged. If the table is sound, the copy's device
    /// is the cause, and the copy may come out well the next time.
    fn cause_of(&self, planned: &Planned, error: Error) -> Error {
        let (Error::Corruption { file, .. } | Error::Unsupported { file, .. }) = &error else {
            return error;
        };
        let source = self.files.data.at(planned.table.placed());
        let part_bytes = self.files.parts_of(planned).checked_bytes;
        match source
            .and_then(|(directory, name)| self.check_file(planned, directory, &name, part_bytes))
        {
            Err(of_table) => of_table,
            Ok(true) if !self.files.migrations.may_copy_again(planned.table.number) => error,
            Ok(is_sound) => {
                let which = match is_sound {
                    true => "the copy of a sound table",
                    false => "the copy of a table that is wanted elsewhere",
                };
                let cause = io::Error::other(format!("{which} came out damaged: {error}"));
                storage::Error::new(Operation::Read, file, cause).into()
            }
        }
    }

    fn create_copy(&self, planned: &Planned, placed: Placed) -> Result<Arc<dyn File>> {
        self.check_directory_is_there()?;
        let options = OpenOptions {
            direct: self.options.direct_io,
            ..OpenOptions::buffered(OpenMode::CreateNew)
        };
        debug_assert!(
            planned.table.placed() != placed,
            "a table moves to another tier"
        );
        self.files.data.open(placed, options)
    }

    /// Copies the file, durably, and checks the copy. Returns false if the table is not to move any more.
    fn copy_checked(&self, planned: &Planned, copy: Placed, target: &dyn File) -> Result<bool> {
        let data = &self.files.data;
        let read = OpenOptions {
            direct: self.options.direct_io,
            ..OpenOptions::buffered(OpenMode::Read)
        };
        let source = data.open(planned.table.placed(), read)?;
        let length_bytes = source.length_bytes()?;
        let parts = self.files.parts_of(planned);
        let (mut offset, mut sent) = (0, 0);
        while offset < length_bytes {
            if self.is_cancelled(planned) {
                return Ok(false);
            }
            let began_ns = self.lifecycle.clock.now_ns();
            let part = parts.read_bytes.min(length_bytes - offset);
            let bytes = source.read_vec_at(part as usize, offset, Purpose::Migration)?;
            for piece in bytes.chunks(parts.written_bytes as usize) {
                target.write_at(piece, offset, Purpose::Migration)?;
                offset += piece.len() as u64;
            }
            if offset - sent >= SENT_BYTES {
                // A hint: the sync comes anyway.
                let _ = target.start_write_back(sent, offset - sent);
                sent = offset;
            }
            self.pause_since(began_ns, planned);
        }
        target.sync(Purpose::Migration)?;
        let (directory, name) = data.at(copy)?;
        directory.sync()?;
        self.check_file(planned, directory, &name, parts.checked_bytes)
    }

    /// Checks every block of the table, or of its copy. Returns false if the table is not to move any more.
    fn check_file(
        &self,
        planned: &Planned,
        directory: Arc<dyn Directory>,
        name: &str,
        part_bytes: u64,
    ) -> Result<bool> {
        let directory = LayeredDirectory::new(directory, ReadInParts { part_bytes });
        let blocks = Arc::new(BlockCache::new(0, false));
        let number = planned.table.number;
        let reader = TableReader::open(&directory, name, number, blocks)?;
        let clock = &self.lifecycle.clock;
        let (mut began_ns, mut checked_bytes) = (clock.now_ns(), 0);
        let checked = reader.verify_in_steps(&mut |block_bytes| {
            checked_bytes += block_bytes;
            if checked_bytes < part_bytes {
                return Ok(());
            }
            self.pause_since(began_ns, planned);
            (began_ns, checked_bytes) = (clock.now_ns(), 0);
            match self.is_cancelled(planned) {
                true => Err(Error::Closed),
                false => Ok(()),
            }
        });
        match checked {
            Err(Error::Closed) => return Ok(false),
            checked => checked?,
        };
        match planned.table.is_described_by(reader.properties()) {
            true => Ok(true),
            false => Err(terrace_lsm::table::another_table(reader.path())),
        }
    }

    /// Pauses for as long as a part took, so that the devices and a processor are free half of the time. A
    /// migration that makes room does not wait, and an operator's limit on background writes takes the place
    /// of pauses.
    fn pause_since(&self, began_ns: u64, planned: &Planned) {
        let has_thread =
            self.options.background == Background::Threads && !cfg!(feature = "shuttle");
        let is_limited = self.options.background_bytes_per_second.is_some();
        if !has_thread || is_limited || planned.is_urgent() {
            return;
        }
        let clock = &self.lifecycle.clock;
        let took = Duration::from_nanos(clock.now_ns().saturating_sub(began_ns));
        let mut left = took.min(MAX_PAUSE);
        while !left.is_zero() && !self.is_cancelled(planned) {
            let step = left.min(PAUSE_STEP);
            clock.sleep(step);
            left -= step;
        }
    }

    /// Returns whether a compaction has taken the table, or the store closes.
    fn is_cancelled(&self, planned: &Planned) -> bool {
        let number = planned.table.number;
        self.lifecycle.closing.load(Ordering::Acquire)
            || self.compactor.jobs.takes(planned.keyspace, number)
    }

    /// Lists the table in its new tier, and returns its level; `None` if it is gone, or a compaction has it.
    fn install_migration(&self, planned: &Planned) -> Result<Option<u8>> {
        let number = planned.table.number;
        let mut ledger = self.manifest_log.ledger.lock();
        let level = level_in_tier(&ledger.state.version, planned);
        if level.is_none() || self.is_cancelled(planned) {
            return Ok(None);
        }
        let migrated = TableMigrated {
            keyspace: planned.keyspace,
            number,
            tier: planned.migration.to,
        };
        let edit = Edit {
            tables_migrated: vec![migrated],
            ..Edit::default()
        };
        self.record_and_show(&mut ledger, edit)?;
        Ok(level)
    }

    fn told_of(&self, planned: &Planned, level: u8, began_ns: u64) {
        let Migration { table, to, why } = planned.migration;
        let has_moved = &self.files.migrations.has_moved;
        has_moved.store(true, Ordering::Relaxed);
        self.files.migrations.remember(Past {
            table: table.number,
            seconds: self.lifecycle.clock.unix_seconds(),
        });
        let took_ns = self.lifecycle.clock.now_ns().saturating_sub(began_ns);
        let level_times = &self.files.level_times;
        level_times.record_migration(level, Duration::from_nanos(took_ns));
        let counters = &self.metrics.counters;
        counters.migrations.fetch_add(1, Ordering::Relaxed);
        self.metrics.events.record(EventKind::TableMigrated {
            keyspace: planned.keyspace,
            table: table.number,
            from: self.files.space.name_of(table.tier),
            to: self.files.space.name_of(to),
            bytes: table.size_bytes,
            reason: why.name().to_owned(),
        });
    }
}

/// Returns the level in which a version lists a table, in the tier that it is to leave.
fn level_in_tier(version: &Version, planned: &Planned) -> Option<u8> {
    let levels = version.keyspace(planned.keyspace)?;
    let (place, table) = levels.find(planned.table.number)?;
    (table.tier == planned.table.tier).then_some(place.level)
}

impl crate::db::owners::Files {
    /// Returns the parts for the devices that a table leaves and comes to.
    fn parts_of(&self, planned: &Planned) -> Parts {
        let accounts = self.space.accounts();
        let tier = |number: u8| {
            let mut tiers = accounts.iter().map(|account| &account.tier);
            tiers.find(|tier| tier.number == number)
        };
        Parts::of(tier(planned.table.tier), tier(planned.migration.to))
    }

    /// Removes a copy that no edit lists. One that cannot be removed is an orphan.
    fn remove_copy(&self, copy: Placed, bytes: u64) {
        self.tables.remove(copy);
        if self.data.remove(copy, Stage::Listed).is_ok() {
            self.space.forget_file(copy, bytes);
        }
    }
}
