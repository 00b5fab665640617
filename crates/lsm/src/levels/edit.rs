//! One atomic change of the store's state: the content of a manifest record.

use std::fmt;
use std::path::PathBuf;

use terrace_storage::Escaped;

use super::moments::Moment;
use super::table_meta::{KeyRange, TableMeta};
use super::tiers::{TableMigrated, TierRecord};
use super::version::Place;
use crate::key::{KeyspaceId, SequenceNumber};
use crate::keyspace_options::KeyspaceOptions;
use crate::region_loss::RegionLoss;
use crate::things::things;

/// The failures that acknowledged writes survive, as the manifest stores it. 0 is never valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Domain {
    PowerSafe = 1,
    CrashSafe = 2,
    Volatile = 3,
    /// `PowerSafe` in name on a medium that is not, for benchmarks.
    EmulatedPowerSafe = 4,
}

impl Domain {
    pub(crate) const fn from_number(number: u8) -> Option<Domain> {
        Some(match number {
            1 => Domain::PowerSafe,
            2 => Domain::CrashSafe,
            3 => Domain::Volatile,
            4 => Domain::EmulatedPowerSafe,
            _ => return None,
        })
    }
}

/// The values that a store gets when it is created. All but the domain it keeps for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Random; distinguishes this store's files from another's.
    pub store_id: u128,
    /// Random; the seed of every key hash.
    pub hash_seed: u64,
    pub domain: Domain,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceCreated {
    pub id: KeyspaceId,
    pub name: String,
}

/// The name of a keyspace other than the default one, from here on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceRenamed {
    pub id: KeyspaceId,
    pub name: String,
}

/// The options of a keyspace other than the default one, from here on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceFormed {
    pub id: KeyspaceId,
    pub options: KeyspaceOptions,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableAdded {
    pub place: Place,
    pub table: TableMeta,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableRemoved {
    pub keyspace: KeyspaceId,
    pub number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableMoved {
    pub keyspace: KeyspaceId,
    pub number: u64,
    pub to: Place,
}

/// The table keeps its place and counts for fewer keys: a slice of it has been merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableNarrowed {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) number: u64,
    pub(crate) bounds: KeyRange,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaIssued {
    pub generation: u64,
    pub slot: u64,
    pub capacity_bytes: u64,
    /// Generation in the slot's header until it takes this one; 0 if it is blank, `None` if that
    /// is not known.
    pub replaced_generation: Option<u64>,
}

/// Where the frames of a live arena end, in the edit of a clean close alone: the arena takes no frame
/// any more. Any later edit takes this back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaEnd {
    pub generation: u64,
    pub end_bytes: u64,
}

/// The store was closed in order; any later edit takes this back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanClose {
    /// The last number given to a write.
    pub last_sequence: SequenceNumber,
}

/// Where the arenas live.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ArenaHome {
    /// In the store's directory, or nowhere in the file system.
    #[default]
    Store,
    /// In a region directory. The number decides whether a directory is the one; the path is where
    /// it was last, for messages.
    Region { id: u128, path: PathBuf },
}

impl ArenaHome {
    /// Returns whether arenas are in the same place, wherever it is mounted.
    pub fn is_same(&self, other: &ArenaHome) -> bool {
        match (self, other) {
            (ArenaHome::Store, ArenaHome::Store) => true,
            (ArenaHome::Region { id, .. }, ArenaHome::Region { id: other, .. }) => id == other,
            _ => false,
        }
    }
}

/// A change of the store's state, taken whole or not at all.
///
/// Applied in the order of the fields: removals make room for additions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Edit {
    /// Only in the first record of a manifest.
    pub identity: Option<Identity>,
    pub keyspaces_created: Vec<KeyspaceCreated>,
    pub keyspaces_formed: Vec<KeyspaceFormed>,
    pub keyspaces_dropped: Vec<KeyspaceId>,
    pub keyspaces_renamed: Vec<KeyspaceRenamed>,
    pub tables_removed: Vec<TableRemoved>,
    pub tables_narrowed: Vec<TableNarrowed>,
    pub tables_moved: Vec<TableMoved>,
    pub tables_migrated: Vec<TableMigrated>,
    pub tables_added: Vec<TableAdded>,
    pub arenas_retired: Vec<u64>,
    pub arenas_issued: Vec<ArenaIssued>,
    /// The highest sequence number up to which every write is in tables.
    pub flushed_sequence: Option<SequenceNumber>,
    /// Every write up to here survives a power cut.
    pub persisted_until: Option<SequenceNumber>,
    pub next_table_number: Option<u64>,
    pub next_generation: Option<u64>,
    pub next_sub_level: Option<u64>,
    pub next_keyspace: Option<u32>,
    pub clean_close: Option<CleanClose>,
    /// Of live arenas, beside a clean close.
    pub arena_ends: Vec<ArenaEnd>,
    /// The failures that acknowledged writes survive from here on, where that changes.
    pub domain: Option<Domain>,
    /// Where the arenas live from here on, where that changes.
    pub arena_home: Option<ArenaHome>,
    pub region_losses: Vec<RegionLoss>,
    /// Random bits of an opening to write, in its first edit. Generations step by them.
    pub opening_bits: Option<u64>,
    /// Tiers beside the store's own directory, where they change.
    pub tiers: Vec<TierRecord>,
    /// Times at which sequence numbers had been given.
    pub moments: Vec<Moment>,
}

/// One line for each field that is set.
impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(identity) = &self.identity {
            writeln!(
                f,
                "store {:032x} hash seed {:016x} domain {:?}",
                identity.store_id, identity.hash_seed, identity.domain
            )?;
        }
        for created in &self.keyspaces_created {
            writeln!(f, "create keyspace {} {:?}", created.id, created.name)?;
        }
        for formed in &self.keyspaces_formed {
            writeln!(f, "keyspace {} has {:?}", formed.id, formed.options)?;
        }
        for id in &self.keyspaces_dropped {
            writeln!(f, "drop keyspace {id}")?;
        }
        for renamed in &self.keyspaces_renamed {
            writeln!(f, "rename keyspace {} to {:?}", renamed.id, renamed.name)?;
        }
        self.fmt_tables(f)?;
        for generation in &self.arenas_retired {
            writeln!(f, "retire arena generation {generation}")?;
        }
        for arena in &self.arenas_issued {
            writeln!(
                f,
                "issue arena generation {} slot {} of {}",
                arena.generation,
                arena.slot,
                things(arena.capacity_bytes, "byte")
            )?;
        }
        for end in &self.arena_ends {
            writeln!(
                f,
                "arena generation {} ends at {}",
                end.generation, end.end_bytes
            )?;
        }
        if let Some(domain) = self.domain {
            writeln!(f, "domain {domain:?}")?;
        }
        match &self.arena_home {
            Some(ArenaHome::Region { id, path }) => {
                writeln!(f, "arenas in region {id:032x} at {}", Escaped::path(path))?;
            }
            Some(ArenaHome::Store) => writeln!(f, "arenas in the store's directory")?,
            None => {}
        }
        for loss in &self.region_losses {
            writeln!(f, "region lost: {loss}")?;
        }
        self.fmt_tiers(f)?;
        if let Some(bits) = self.opening_bits {
            writeln!(f, "opening {bits:016x}")?;
        }
        for (name, value) in [
            ("flushed sequence", self.flushed_sequence),
            ("persisted until", self.persisted_until),
            ("next table", self.next_table_number),
            ("next generation", self.next_generation),
            ("next sub-level", self.next_sub_level),
            ("next keyspace", self.next_keyspace.map(u64::from)),
            (
                "closed cleanly at sequence",
                self.clean_close.map(|c| c.last_sequence),
            ),
        ] {
            if let Some(value) = value {
                writeln!(f, "{name} {value}")?;
            }
        }
        Ok(())
    }
}

impl Edit {
    fn fmt_tiers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for tier in &self.tiers {
            writeln!(f, "{tier}")?;
        }
        for moment in &self.moments {
            writeln!(
                f,
                "sequence {} at second {}",
                moment.sequence, moment.seconds
            )?;
        }
        Ok(())
    }

    fn fmt_tables(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for removed in &self.tables_removed {
            writeln!(
                f,
                "remove table {} of keyspace {}",
                removed.number, removed.keyspace
            )?;
        }
        for narrowed in &self.tables_narrowed {
            writeln!(
                f,
                "narrow table {} of keyspace {} to {:?}",
                narrowed.number, narrowed.keyspace, narrowed.bounds
            )?;
        }
        for moved in &self.tables_moved {
            writeln!(
                f,
                "move table {} of keyspace {} to {}",
                moved.number, moved.keyspace, moved.to
            )?;
        }
        for migrated in &self.tables_migrated {
            writeln!(
                f,
                "migrate table {} of keyspace {} to tier {}",
                migrated.number, migrated.keyspace, migrated.tier
            )?;
        }
        for TableAdded { place, table } in &self.tables_added {
            writeln!(
                f,
                "add table {} of keyspace {} to {place}: {:?}{} {}, {}, {}{}{}{}, \
                 sequences {}..={}, tier {}",
                table.number,
                table.keyspace,
                table.bounds,
                if table.narrowed { " (narrowed)" } else { "" },
                things(table.size_bytes, "byte"),
                things(table.entries, "entry"),
                things(table.tombstones, "tombstone"),
                match table.range_tombstones {
                    0 => String::new(),
                    count => format!(", {}", things(count, "range tombstone")),
                },
                match table.oldest_tombstone_seconds {
                    None => String::new(),
                    Some(seconds) => format!(", the oldest of second {seconds}"),
                },
                match table.superseded {
                    None => String::new(),
                    Some(noted) => format!(
                        ", {} superseded of {} by {} at most",
                        noted.versions,
                        things(noted.bytes, "byte"),
                        noted.largest_by
                    ),
                },
                table.min_sequence,
                table.max_sequence,
                table.tier
            )?;
        }
        Ok(())
    }
}
