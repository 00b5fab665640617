//! The tables: which of them are whole, and the readable entries of the others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use terrace::offline::{TableFiles, files};
use terrace::{Error, Result};
use terrace_lsm::compaction::merge::TableSink;
use terrace_lsm::compaction::slices::Slice;
use terrace_lsm::data_files::{FileId, Placed, Stage};
use terrace_lsm::key::{InternalKey, Tag};
use terrace_lsm::levels::{KeyRange, ObsoleteTables, Place, Table, TableMeta, TierUse, Version};
use terrace_lsm::range_tombstones::RangeTombstone;
use terrace_lsm::table::{TableProperties, TableReader, another_table, read_properties};
use terrace_storage::ErrorKind;

use super::merge::REBUILT;
use super::site::Site;
use super::state::Basis;

/// A table that cannot be kept as it is.
pub(super) struct DamagedTable {
    pub(super) number: u64,
    /// Where it lies. A migration may have left another file of its number.
    pub(super) placed: Placed,
    /// The file that its entries are read from: that one, or a sound one that a migration has left.
    pub(super) read_from: Placed,
    pub(super) error: Error,
    /// How it was listed, and where; `None` if the manifest does not say, or not any more.
    pub(super) meta: Option<TableMeta>,
    pub(super) place: Option<Place>,
    /// Whether there is a file.
    pub(super) is_there: bool,
}

/// A table that another release wrote. It keeps its name.
pub(super) struct UnsupportedTable {
    pub(super) number: u64,
    pub(super) error: Error,
    /// How the manifest lists it, if it does.
    pub(super) meta: Option<TableMeta>,
}

/// Tables of the store as they were found.
#[derive(Default)]
pub(super) struct Examined {
    pub(super) sound: Vec<Arc<Table>>,
    pub(super) damaged: Vec<DamagedTable>,
    pub(super) unsupported: Vec<UnsupportedTable>,
}

impl Examined {
    /// Examines the tables that a manifest lists.
    pub(super) fn listed(
        site: &Site,
        version: &Version,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Self> {
        let count = version.tables().count();
        let mut examined = Examined::default();
        for (at, (place, table)) in version.tables().enumerate() {
            progress(at, count);
            let checked = site.open(table, false).and_then(|reader| reader.verify());
            match checked {
                Ok(_) => examined.sound.push(Arc::clone(table)),
                Err(error @ Error::Unsupported { .. }) => {
                    examined.unsupported.push(UnsupportedTable {
                        number: table.number,
                        error,
                        meta: Some((***table).clone()),
                    });
                }
                Err(error) => examined.damaged.push(DamagedTable {
                    number: table.number,
                    placed: table.placed(),
                    read_from: sound_elsewhere(site, table)?.unwrap_or(table.placed()),
                    is_there: !is_missing(&error),
                    error: damage(error)?,
                    meta: Some((***table).clone()),
                    place: Some(place),
                }),
            }
        }
        progress(count, count);
        examined.find_unlisted(site, version)?;
        Ok(examined)
    }

    /// Finds the tables of other releases that the manifest does not list.
    fn find_unlisted(&mut self, site: &Site, version: &Version) -> Result<()> {
        let listed: BTreeSet<u64> = version.tables().map(|(_, table)| table.number).collect();
        let numbers = site.table_numbers()?.into_iter();
        for number in numbers.filter(|number| !listed.contains(number)) {
            let (directory, name) = site.data.at(site.placed(number, Stage::Listed))?;
            let properties = read_properties(&*directory, &name);
            if let Err(error @ Error::Unsupported { .. }) = properties {
                self.unsupported.push(UnsupportedTable {
                    number,
                    error,
                    meta: None,
                });
            }
        }
        Ok(())
    }

    /// Examines all tables in the directories, listed or not. Of two files of one number, which a migration may
    /// have left, a sound one counts.
    pub(super) fn all(
        site: &Site,
        basis: &mut Basis,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Self> {
        let places = site.table_places()?;
        let obsolete = Arc::new(ObsoleteTables::default());
        let (mut found, mut examined) = (BTreeMap::new(), Examined::default());
        let mut seeds = Vec::new();
        let mut damaged = BTreeMap::new();
        for (at, &placed) in places.iter().enumerate() {
            progress(at, places.len());
            let number = placed.file.number;
            let meta = basis.meta_of(number);
            let is_listed = meta.is_some_and(|meta| meta.placed() == placed);
            // The verification refuses all that a strict opening does.
            let checked = site.open_damaged(placed, Stage::Listed).and_then(|reader| {
                seeds.push(reader.properties().hash_seed);
                reader.verify()?;
                Ok(reader.properties().clone())
            });
            match checked {
                Ok(properties) if is_listed || !found.contains_key(&number) => {
                    found.insert(number, (placed, properties));
                }
                Ok(_) => {}
                Err(error @ Error::Unsupported { .. }) => {
                    examined.unsupported.push(UnsupportedTable {
                        number,
                        error,
                        meta: basis.meta_of(number).cloned(),
                    });
                }
                Err(error) => {
                    let error = damage(error)?;
                    if is_listed || !damaged.contains_key(&number) {
                        damaged.insert(number, (placed, error));
                    }
                }
            }
        }
        progress(places.len(), places.len());
        if !basis.is_known
            && let Some(seed) = most_common(&seeds)
        {
            basis.state.identity.hash_seed = seed;
        }
        for (placed, properties) in found.into_values() {
            match meta_of_file(site, basis, placed, &properties) {
                // If it is none, it holds nothing.
                Ok(meta) => {
                    damaged.remove(&placed.file.number);
                    let table = meta.map(|meta| Arc::new(Table::new(meta, &obsolete)));
                    examined.sound.extend(table);
                }
                // A whole file of another store hides none of this one.
                Err(error) => {
                    damaged.entry(placed.file.number).or_insert((placed, error));
                }
            }
        }
        for (placed, error) in damaged.into_values() {
            examined.damaged(basis, placed, error);
        }
        examined.give_up_lost_tiers(site, basis)?;
        Ok(examined)
    }

    /// Notes the tables of tiers that the caller goes on without, and leaves these tiers. The new manifest lists none
    /// of their tables, so a tier that comes back is not the store's: an opening would remove them.
    fn give_up_lost_tiers(&mut self, site: &Site, basis: &mut Basis) -> Result<()> {
        let version = Arc::clone(&basis.state.version);
        let sound = self.sound.iter().map(|table| table.number);
        let damaged = self.damaged.iter().map(|table| table.number);
        let told: BTreeSet<u64> = sound.chain(damaged).collect();
        for (_, table) in version.tables() {
            let Err(error) = site.data.directory(table.tier) else {
                continue;
            };
            // A migration may have left another file of it.
            if told.contains(&table.number) {
                continue;
            }
            let Error::TierLost { .. } = &error else {
                return Err(error);
            };
            self.damaged.push(DamagedTable {
                number: table.number,
                placed: table.placed(),
                read_from: table.placed(),
                error,
                meta: Some((***table).clone()),
                place: None,
                is_there: false,
            });
        }
        for tier in &mut basis.state.tiers {
            if tier.state == TierUse::Removed || site.data.is_present(tier.number) {
                continue;
            }
            // The end that the manifest has lost may have listed tables there.
            if !site.options.accept_tier_loss {
                return site.data.directory(tier.number).map(drop);
            }
            tier.state = TierUse::Removed;
        }
        Ok(())
    }

    /// Notes a damaged file. The manifest says at most how it was listed once.
    fn damaged(&mut self, basis: &Basis, placed: Placed, error: Error) {
        let number = placed.file.number;
        self.damaged.push(DamagedTable {
            number,
            placed,
            read_from: placed,
            error,
            meta: basis.meta_of(number).cloned(),
            place: None,
            is_there: true,
        });
    }

    /// Returns why the manifest may have lost its end, though all that is left of it is whole. A
    /// table that it lists is gone then, or it ends in an edit that is not whole and such a table
    /// is damaged. Besides, tables are there that it does not list; a merge may have made them of
    /// the others.
    pub(super) fn doubt(&self, site: &Site, basis: &Basis) -> Result<Option<Error>> {
        let manifest = basis.manifest.as_ref();
        let is_torn = manifest.is_ok_and(|manifest| manifest.tail().is_some());
        let mut damaged = self.damaged.iter();
        let Some(damaged) = damaged.find(|damaged| is_torn || !damaged.is_there) else {
            return Ok(None);
        };
        let version = &basis.state.version;
        let listed: BTreeSet<u64> = version.tables().map(|(_, table)| table.number).collect();
        // One that an earlier repair has replaced is only there until the next opening. One of
        // another release is there for long.
        let is_unsupported = |number: &u64| {
            let mut unsupported = self.unsupported.iter();
            unsupported.any(|table| table.number == *number)
        };
        let is_left = |number: &u64| {
            !listed.contains(number)
                && !is_unsupported(number)
                && !site.is_aside(FileId::table(*number))
        };
        let unlisted = site.table_numbers()?.into_iter().find(is_left);
        Ok(unlisted.map(|number| {
            let detail = format!(
                "it does not list {number}.table, and {}.table, which it lists, is damaged or \
                 missing: it may have lost its end",
                damaged.number
            );
            let (manifest, end) = &basis.state.read_from;
            Error::corruption(manifest, *end, detail)
        }))
    }
}

/// Returns the place of a whole file of a table beside the one that is listed, as a crash behind a migration's
/// edit leaves it.
fn sound_elsewhere(site: &Site, table: &Table) -> Result<Option<Placed>> {
    let places = site.table_places()?.into_iter();
    let mut others =
        places.filter(|other| other.file.number == table.number && *other != table.placed());
    Ok(others.find(|other| {
        let reader = site.open_damaged(*other, Stage::Listed);
        reader.is_ok_and(|reader| {
            reader.verify().is_ok() && table.is_described_by(reader.properties())
        })
    }))
}

fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Io(error) if error.kind() == ErrorKind::NotFound)
}

/// Returns the error, if it tells of damage. A file that cannot be read, or is of another release,
/// is not damaged.
fn damage(error: Error) -> Result<Error> {
    if matches!(error, Error::Corruption { .. }) || is_missing(&error) {
        return Ok(error);
    }
    Err(error)
}

fn most_common(seeds: &[u64]) -> Option<u64> {
    let mut counts = BTreeMap::new();
    for seed in seeds {
        *counts.entry(*seed).or_insert(0) += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(seed, _)| seed)
}

/// Returns how a file is to be listed: as it was, if that is known, or as it says itself. `None` if
/// it holds nothing.
fn meta_of_file(
    site: &Site,
    basis: &Basis,
    placed: Placed,
    properties: &TableProperties,
) -> Result<Option<TableMeta>> {
    let number = placed.file.number;
    if properties.hash_seed != basis.state.identity.hash_seed {
        let detail = "it is another store's table: its keys are hashed with another seed";
        return Err(Error::corruption(&site.data.path(placed), 0, detail));
    }
    let listed = basis.meta_of(number);
    if listed.is_none() && !files::leaves_room(number) {
        let detail = "its number leaves no room for those to come";
        return Err(Error::corruption(&site.data.path(placed), 0, detail));
    }
    // Numbers are not used twice, so even an old list describes a number's table.
    if listed.is_some_and(|meta| meta.identity != properties.identity) {
        return Err(another_table(&site.data.path(placed)));
    }
    let listed = listed.filter(|meta| meta.is_described_by(properties));
    let meta = listed
        .cloned()
        .or_else(|| TableMeta::of_file(number, properties));
    // It may have moved since it was listed.
    let tier = placed.tier;
    Ok(meta.map(|meta| TableMeta { tier, ..meta }))
}

impl DamagedTable {
    /// Writes the readable entries to a table of its own. `None` if there are none.
    pub(super) fn salvage(&self, site: &Site, basis: &Basis) -> Result<Option<TableMeta>> {
        let reader = match site.open_damaged(self.read_from, Stage::Listed) {
            Ok(reader) => reader,
            Err(error) => return damage(error).map(|_| None),
        };
        let properties = reader.properties();
        if properties.hash_seed != basis.state.identity.hash_seed {
            return Ok(None);
        }
        let described = |meta: &&TableMeta| meta.is_described_by(properties);
        let listed = self.meta.as_ref().filter(described);
        let mut meta = self.meta.iter();
        let is_another = meta.any(|meta| meta.identity != properties.identity);
        if is_another || (listed.is_none() && self.place.is_some()) {
            // Another file in the place of the one that was listed.
            return Ok(None);
        }
        let bounds = match listed {
            Some(meta) => Some(meta.bounds.clone()),
            None => KeyRange::of_file(properties),
        };
        let Some(bounds) = bounds else {
            return Ok(None);
        };
        let levels = basis.state.version.keyspace(properties.keyspace);
        let mut sink = site.table_files(
            properties.keyspace,
            site.form_of(levels.map(|levels| &**levels)),
            self.place.unwrap_or(REBUILT),
            basis.state.identity.hash_seed,
        );
        sink = sink.with_oldest_tombstone(properties.oldest_tombstone_seconds);
        let assigned = listed.and_then(TableMeta::assigned_sequence);
        copy_readable(&reader, &bounds, assigned, &mut sink)?;
        let table = sink.finish()?;
        sink.sync()?;
        Ok(table)
    }
}

/// Copies the readable entries within bounds.
pub(super) fn copy_readable(
    reader: &TableReader,
    bounds: &KeyRange,
    assigned: Option<u64>,
    sink: &mut TableFiles<'_>,
) -> Result<()> {
    reader.salvage(|key, value| {
        if !bounds.contains(key.user_key) {
            return Ok(());
        }
        let tag = match (assigned, key.tag.kind()) {
            (Some(sequence), Some(kind)) => Tag::new(sequence, kind),
            _ => key.tag,
        };
        let user_key = key.user_key;
        let key = InternalKey { user_key, tag };
        let ranges = reader.range_tombstones();
        let range = ranges.and_then(|set| set.oldest_above(user_key, key.sequence()));
        sink.add(key, value, range)
    })?;
    let ranges = reader.range_tombstones().into_iter();
    let ranges = ranges.flat_map(|set| set.iter()).map(RangeTombstone::from);
    let mut ranges: Vec<_> = ranges
        .filter_map(|found| Slice::ALL.clip(found, bounds))
        .collect();
    ranges.sort_by(|a, b| a.start.cmp(&b.start).then(b.sequence.cmp(&a.sequence)));
    for range in ranges {
        sink.add_range_tombstone(&range.start, &range.end, range.sequence)?;
    }
    Ok(())
}
