//! New tables written, and the one step that makes them the store's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use terrace::{Error, KeyspaceId, Result, SequenceNumber};
use terrace_lsm::levels::{
    Edit, KeyspaceCreated, ManifestState, ObsoleteTables, StructureError, Table, TableAdded,
    TableMeta, TableRemoved, write_manifest,
};
use terrace_lsm::sync::atomic::Ordering;

use super::arenas::ArenasFound;
use super::merge::{REBUILT, merge_overlapping};
use super::report::RepairReport;
use super::site::Site;
use super::state::Basis;
use super::tables::{DamagedTable, Examined};
use super::unlisted::Taken;

/// New tables, which are not listed yet.
pub(super) struct Written {
    /// For each damaged table, a table of its readable entries.
    salvaged: Vec<Option<TableMeta>>,
    /// Tables of the writes in arenas; with a new manifest, all tables.
    added: Vec<TableAdded>,
    tables_written: usize,
    /// For each unlisted table that is taken in, how many entries were read.
    pub(super) entries_taken: Vec<u64>,
    /// The last number in any table, new or not, and in arenas.
    last_sequence: SequenceNumber,
}

impl Site {
    /// Writes the readable entries of damaged tables and arenas to new tables. If the order of the
    /// tables is unknown, merges all that overlap.
    pub(super) fn write(
        &self,
        basis: &Basis,
        tables: &Examined,
        arenas: &ArenasFound,
        taken: &[Taken],
    ) -> Result<Written> {
        let written = self.write_all(basis, tables, arenas, taken);
        if written.is_err() {
            // Space may have been missing. The cause is reported; the next repair removes the rest.
            let _ = self.finish_earlier(basis.listed());
        }
        written
    }

    fn write_all(
        &self,
        basis: &Basis,
        tables: &Examined,
        arenas: &ArenasFound,
        taken: &[Taken],
    ) -> Result<Written> {
        let salvage = |damaged: &DamagedTable| match damaged.is_there {
            true => damaged.salvage(self, basis),
            false => Ok(None),
        };
        let salvaged = tables.damaged.iter().map(salvage);
        let salvaged = salvaged.collect::<Result<Vec<_>>>()?;
        let taken = self.take_in(basis, taken)?;
        let mut added = self.flush(basis, arenas)?;
        let read = salvaged.iter().chain(&taken).flatten();
        let flushed = added.iter().map(|added| &added.table);
        let mut new: BTreeSet<u64> = read.clone().chain(flushed).map(|t| t.number).collect();
        let mut tables_written = new.len();
        let sound = tables.sound.iter().map(|table| table.max_sequence);
        let written = read.clone().chain(added.iter().map(|added| &added.table));
        let numbers = sound.chain(written.map(|table| table.max_sequence));
        let last_sequence = numbers.fold(arenas.last_sequence, SequenceNumber::max);
        if basis.manifest.is_err() {
            let obsolete = Arc::new(ObsoleteTables::default());
            let flushed = added.iter().map(|added| &added.table);
            let written = read.chain(flushed);
            let written = written.map(|table| Arc::new(Table::new(table.clone(), &obsolete)));
            let all = tables.sound.iter().cloned().chain(written).collect();
            let rebuilt = merge_overlapping(self, basis, all, &mut new, last_sequence)?;
            let is_new = |table: &&TableMeta| new.contains(&table.number);
            tables_written = rebuilt.iter().filter(is_new).count();
            let at = |table| TableAdded {
                place: REBUILT,
                table,
            };
            added = rebuilt.into_iter().map(at).collect();
        }
        self.data.sync()?;
        let entries = |taken: &Option<TableMeta>| taken.as_ref().map_or(0, |table| table.entries);
        Ok(Written {
            entries_taken: taken.iter().map(entries).collect(),
            salvaged,
            added,
            tables_written,
            last_sequence,
        })
    }

    /// Writes the arenas' writes to tables, each arena's above all before.
    fn flush(&self, basis: &Basis, arenas: &ArenasFound) -> Result<Vec<TableAdded>> {
        let mut added = Vec::new();
        for (above, arena) in (0..).zip(&arenas.loaded) {
            arena.verify()?;
            for keyspace in arena.keyspaces() {
                let levels = basis.state.version.keyspace(keyspace);
                if basis.is_dropped(keyspace) {
                    continue;
                }
                let mut place = REBUILT;
                if basis.manifest.is_ok() {
                    let name = basis.state.next_sub_level + above;
                    place = basis.state.next_flush_place(keyspace, name);
                    place.age += above;
                }
                let form = self.form_of(levels.map(|levels| &**levels));
                let seed = basis.state.identity.hash_seed;
                let mut sink = self.table_files(keyspace, form, place, seed);
                let snapshots = [arenas.last_sequence];
                let written = arena.write(keyspace, &snapshots, &mut sink);
                sink.sync()?;
                let written = written?.into_iter();
                added.extend(written.map(|table| TableAdded { place, table }));
            }
        }
        Ok(added)
    }

    /// Commits the repair, and then gives every file its name.
    pub(super) fn commit(
        &self,
        basis: Basis,
        tables: &Examined,
        arenas: &ArenasFound,
        written: Written,
        mut report: RepairReport,
    ) -> Result<RepairReport> {
        report.tables_written = written.tables_written;
        for (damaged, salvaged) in report.damaged.iter_mut().zip(&written.salvaged) {
            damaged.entries_kept = salvaged.as_ref().map_or(0, |table| table.entries);
        }
        self.put_aside(&basis, tables, arenas, &mut report)?;
        let keeps_arenas = basis.has_unread_arenas(self);
        let misfit = |error: StructureError| {
            Error::corruption(&self.path, 0, format!("the repaired store: {error}"))
        };
        let Basis {
            mut state,
            manifest,
            ..
        } = basis;
        let version = match manifest {
            Ok(mut manifest) => {
                for edit in self.mended(&state, tables, arenas, written) {
                    let next = state.apply(&edit).map_err(misfit)?;
                    manifest.append(&edit, &next)?;
                    state = next;
                }
                state.version
            }
            Err(_) => {
                let mut edit = self.rebuilt(&state, arenas, written, &mut report.named);
                if keeps_arenas {
                    // The repair has not looked at them: they count from where the old manifest
                    // says.
                    edit.arenas_issued = state.as_edit().arenas_issued;
                    edit.flushed_sequence = Some(state.flushed_sequence);
                    edit.persisted_until = edit.persisted_until.max(Some(state.persisted_until));
                }
                let state = ManifestState::begin(&edit).map_err(misfit)?;
                write_manifest(&*self.directory, &state)?;
                state.version
            }
        };
        self.finish_earlier(Some(&version))?;
        self.rename_aside(&mut report)?;
        Ok(report)
    }

    /// Returns the edits of a store whose manifest is whole: each takes one step, and could be the
    /// last.
    fn mended(
        &self,
        state: &ManifestState,
        tables: &Examined,
        arenas: &ArenasFound,
        written: Written,
    ) -> Vec<Edit> {
        let is_flushed = !arenas.retired.is_empty();
        // It stays true while nothing is taken from the arenas: nothing has been written since.
        let clean_close = state.clean_close.filter(|_| !is_flushed);
        let mut edits = Vec::new();
        for (damaged, salvaged) in tables.damaged.iter().zip(written.salvaged) {
            let Some((place, meta)) = damaged.place.zip(damaged.meta.as_ref()) else {
                continue;
            };
            let removed = TableRemoved {
                keyspace: meta.keyspace,
                number: meta.number,
            };
            edits.push(Edit {
                tables_removed: vec![removed],
                tables_added: salvaged
                    .map(|table| TableAdded { place, table })
                    .into_iter()
                    .collect(),
                next_table_number: Some(self.next_table_number(state)),
                clean_close,
                ..Edit::default()
            });
        }
        for meta in tables.unsupported.iter().flat_map(|table| &table.meta) {
            edits.push(Edit {
                tables_removed: vec![TableRemoved {
                    keyspace: meta.keyspace,
                    number: meta.number,
                }],
                next_table_number: Some(self.next_table_number(state)),
                clean_close,
                ..Edit::default()
            });
        }
        if is_flushed {
            edits.push(Edit {
                tables_added: written.added,
                arenas_retired: arenas.retired.clone(),
                flushed_sequence: Some(arenas.last_sequence),
                next_table_number: Some(self.next_table_number(state)),
                ..Edit::default()
            });
        }
        edits
    }

    /// Returns the only edit of a new manifest.
    fn rebuilt(
        &self,
        state: &ManifestState,
        arenas: &ArenasFound,
        written: Written,
        named: &mut Vec<String>,
    ) -> Edit {
        let mut names: BTreeMap<KeyspaceId, String> = BTreeMap::new();
        for levels in state.version.keyspaces.values() {
            names.insert(levels.id, levels.name.clone());
        }
        let added = written.added;
        for keyspace in added.iter().map(|added| added.table.keyspace) {
            if !names.contains_key(&keyspace) {
                let mut name = format!("recovered-{keyspace}");
                while names.values().any(|given| *given == name) {
                    name.push('+');
                }
                named.push(name.clone());
                names.insert(keyspace, name);
            }
        }
        let next_keyspace = names.keys().next_back().map_or(0, |last| last.number());
        let next_keyspace = next_keyspace.saturating_add(1).max(state.next_keyspace);
        let created = names.into_iter();
        let last_sequence = written.last_sequence;
        Edit {
            keyspaces_created: created
                .map(|(id, name)| KeyspaceCreated { id, name })
                .collect(),
            tables_added: added,
            // Their writes are in the tables.
            arenas_issued: Vec::new(),
            flushed_sequence: Some(last_sequence),
            persisted_until: Some(last_sequence),
            next_table_number: Some(self.next_table_number(state)),
            next_keyspace: Some(next_keyspace),
            next_generation: Some(state.next_generation.max(arenas.next_generation)),
            clean_close: None,
            ..state.as_edit()
        }
    }

    fn next_table_number(&self, state: &ManifestState) -> u64 {
        let next = self.next_table.load(Ordering::Relaxed);
        next.max(state.next_table_number)
    }
}
