//! Making, renaming and dropping keyspaces.
//!
//! One edit of the manifest makes a keyspace, before the first write to it. One edit drops it, too;
//! the leader of the commit queue makes that one, so that no write lies in between. First the
//! leader makes every write so far as durable as the edit. For a power cut must not leave the
//! drop without the writes before it. Then the edit takes the keyspace and its tables out. Its
//! records in arenas stay where they are until the arena is flushed, which leaves them out. A
//! keyspace's number is never used again, so nothing that still carries it can come back.
//!
//! A new name is one edit of the leader's, too, and every write before it is made as durable first.
//! For a program loads a keyspace and then gives it the name that others look for. Tables, frames,
//! handles and batches carry the number, so nothing else changes.
//!
//! Merges and flushes that meet a dropped keyspace in the middle of their work find its levels gone
//! when they install: their outputs for it are thrown away.

use std::sync::Arc;

use terrace_lsm::keyspace_options::KeyspaceOptions;
use terrace_lsm::levels::{
    Edit, KeyspaceCreated, KeyspaceFormed, KeyspaceLevels, KeyspaceRenamed, Version,
};

use crate::db::Store;
use crate::db::owners::Reads;
use crate::options::Background;
use crate::{Error, KeyspaceId, Result};

/// The longest name of a keyspace.
pub const MAX_KEYSPACE_NAME_BYTES: usize = 255;

impl Store {
    /// Returns the keyspace with a name.
    pub(crate) fn keyspace_named(&self, name: &str) -> Result<KeyspaceId> {
        self.lifecycle.check_open()?;
        let found = self
            .reads
            .view
            .load()
            .version
            .keyspace_named(name)
            .map(|it| it.id);
        found.ok_or_else(|| no_keyspace(name))
    }

    pub(crate) fn create_keyspace(
        &self,
        name: &str,
        options: KeyspaceOptions,
    ) -> Result<KeyspaceId> {
        self.check_writable()?;
        options.check()?;
        let mut ledger = self.manifest_log.ledger.lock();
        check_new_name(&ledger.state.version, name)?;
        let id = KeyspaceId::from_number(ledger.state.next_keyspace);
        let edit = Edit {
            keyspaces_created: vec![KeyspaceCreated {
                id,
                name: name.to_owned(),
            }],
            keyspaces_formed: vec![KeyspaceFormed { id, options }],
            ..Edit::default()
        };
        self.record_and_show(&mut ledger, edit)?;
        Ok(id)
    }

    /// Changes the options of a keyspace.
    pub(crate) fn set_keyspace_options(
        &self,
        id: KeyspaceId,
        options: KeyspaceOptions,
    ) -> Result<()> {
        self.check_writable()?;
        options.check()?;
        if id == KeyspaceId::DEFAULT {
            return Err(Error::invalid(
                "the default keyspace has the options that the store is opened with",
            ));
        }
        let mut ledger = self.manifest_log.ledger.lock();
        live(&ledger.state.version, id)?;
        let edit = Edit {
            keyspaces_formed: vec![KeyspaceFormed { id, options }],
            ..Edit::default()
        };
        self.record_and_show(&mut ledger, edit)?;
        drop(ledger);
        // A level may be over its new target.
        self.lifecycle.background.compaction_wanted(self);
        Ok(())
    }

    pub(crate) fn rename_keyspace(&self, from: &str, to: &str) -> Result<()> {
        self.as_leader(|writer| {
            let id = self.keyspace_named(from)?;
            if id == KeyspaceId::DEFAULT {
                return Err(Error::invalid("the default keyspace cannot be renamed"));
            }
            self.persist_before_edit(writer)?;
            // Keyspaces are made without the leader: a name is free only under the lock.
            let mut ledger = self.manifest_log.ledger.lock();
            check_new_name(&ledger.state.version, to)?;
            let edit = Edit {
                keyspaces_renamed: vec![KeyspaceRenamed {
                    id,
                    name: to.to_owned(),
                }],
                ..Edit::default()
            };
            self.record_and_show(&mut ledger, edit)
        })
    }

    pub(crate) fn drop_keyspace(&self, name: &str) -> Result<()> {
        let dropped = self.as_leader(|writer| {
            let id = self.keyspace_named(name)?;
            if id == KeyspaceId::DEFAULT {
                return Err(Error::invalid("the default keyspace cannot be dropped"));
            }
            self.persist_before_edit(writer)?;
            let mut ledger = self.manifest_log.ledger.lock();
            let edit = Edit {
                keyspaces_dropped: vec![id],
                ..Edit::default()
            };
            self.record_and_show(&mut ledger, edit)?;
            self.reads.raise_floor(id, writer.last_sequence + 1);
            self.reads.empty_stretches.forget(id);
            Ok(id)
        })?;
        self.compactor.jobs.forget(dropped, |built| {
            let _ = self.settle_files(built.files, Err::<(), _>(Error::Closed));
        });
        // A job may have waited for their space. Without threads the next write takes it up.
        if self.options.background == Background::Threads {
            self.lifecycle.background.compaction_wanted(self);
        }
        self.lifecycle.background.deletion_wanted(self);
        Ok(())
    }

    /// Returns the form of a keyspace's tables and levels.
    pub(crate) fn form_of<'a>(&'a self, levels: &'a KeyspaceLevels) -> &'a KeyspaceOptions {
        levels.options.as_deref().unwrap_or(&self.default_form)
    }
}

impl Reads {
    /// Returns whether a keyspace has been dropped.
    pub(crate) fn is_dropped(&self, id: KeyspaceId) -> bool {
        self.view.load().version.keyspace(id).is_none()
    }

    /// Returns every keyspace, in the order of their numbers.
    pub(crate) fn keyspaces(&self) -> Vec<(KeyspaceId, String)> {
        let version = &self.view.load().version;
        let keyspaces = version.keyspaces.values();
        keyspaces
            .map(|levels| (levels.id, levels.name.clone()))
            .collect()
    }

    /// Returns the name that a keyspace has now; `None` if it has been dropped.
    pub(crate) fn present_name(&self, id: KeyspaceId) -> Option<String> {
        let view = self.view.load();
        view.version.keyspace(id).map(|levels| levels.name.clone())
    }
}

/// Refuses a name that no keyspace can have, or that one has.
fn check_new_name(version: &Version, name: &str) -> Result<()> {
    if name.is_empty() || name.len() > MAX_KEYSPACE_NAME_BYTES {
        return Err(Error::invalid(format!(
            "the keyspace's name has {} bytes; it must have from 1 to {MAX_KEYSPACE_NAME_BYTES}",
            name.len()
        )));
    }
    if version.keyspace_named(name).is_some() {
        return Err(Error::invalid(format!(
            "there is a keyspace {name:?} already; open it with keyspace()"
        )));
    }
    Ok(())
}

pub(crate) fn no_keyspace(name: &str) -> Error {
    Error::NoKeyspace {
        name: name.to_owned(),
    }
}

/// Returns the levels of a keyspace that a handle or a batch names by number.
///
/// # Errors
/// [`Error::NoKeyspace`] if it has been dropped: its records in MemTables went with it.
pub(crate) fn live(version: &Version, id: KeyspaceId) -> Result<&Arc<KeyspaceLevels>> {
    version.keyspace(id).ok_or_else(|| Error::NoKeyspace {
        name: format!("number {id}"),
    })
}
