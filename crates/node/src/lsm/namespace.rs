//! One namespace in the store, and the work of its commands there. All calls block.

use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace::{
    Db, IterOptions, Keyspace, KeyspaceOptions, Snapshot, Value, WriteBatch, WriteOptions,
};

use super::LsmNamespace;
use super::head::{Head, piece_key, version_of};
use crate::Key;
use crate::engine::{Condition, Failure};
use crate::format::namespace::Domain;

/// A change of a key, as a thread gets it.
pub(super) enum Change<'a> {
    /// A value, if the condition holds.
    Store(Condition, NewValue<'a>),
    /// No value any more.
    Delete,
}

/// The value of a store.
pub(super) enum NewValue<'a> {
    /// Its bytes.
    Whole(&'a [u8]),
    /// Its size, and the version that its pieces are written under.
    InPieces(u32, u64),
}

/// A value that is being read.
pub(super) struct Opened {
    pub(super) value_bytes: u32,
    pub(super) source: Source,
}

/// Where the bytes of a value are.
pub(super) enum Source {
    /// Behind the head of this record.
    Record(Value),
    /// In pieces under the version, as the snapshot has them.
    Pieces(Snapshot, u64),
}

pub(super) struct Namespace {
    pub(super) settings: LsmNamespace,
    db: Db,
    /// The record of each key.
    heads: Keyspace,
    /// Pieces of large values, by version and place.
    pieces: Keyspace,
    /// Versions whose value is not complete: a crash leaves pieces that no key names.
    unfinished: Keyspace,
    next_version: AtomicU64,
}

impl Namespace {
    /// Opens the namespace's keyspaces, and removes the pieces of stores that a crash cut short.
    pub(super) fn open(db: &Db, settings: LsmNamespace) -> terrace::Result<Self> {
        let keyspace = |what: &str| {
            let name = format!("node-{}-{what}", settings.nsid);
            db.get_or_create_keyspace(&name, KeyspaceOptions::default())
        };
        let namespace = Namespace {
            heads: keyspace("keys")?,
            pieces: keyspace("pieces")?,
            unfinished: keyspace("unfinished")?,
            db: db.clone(),
            next_version: AtomicU64::new(1),
            settings,
        };
        let mut last = 0;
        for keyspace in [&namespace.pieces, &namespace.unfinished] {
            let key = keyspace.last()?.map(|(key, _)| key);
            last = last.max(key.as_deref().and_then(version_of).unwrap_or(0));
        }
        namespace.next_version.store(last + 1, Ordering::Relaxed);
        let mut marks = namespace.unfinished.iter(IterOptions::default())?;
        marks.seek_to_first()?;
        while marks.valid() {
            if let Some(version) = version_of(marks.key()) {
                namespace.drop_version(version)?;
            }
            marks.next()?;
        }
        Ok(namespace)
    }

    /// Returns the bytes that the namespace takes in the store's tables, estimated.
    pub(super) fn used_bytes(&self) -> terrace::Result<u64> {
        let heads = self.heads.approximate_bytes(..)?;
        Ok(heads + self.pieces.approximate_bytes(..)?)
    }

    pub(super) fn next_version(&self) -> u64 {
        self.next_version.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns true if an acknowledged change survives a power cut.
    pub(super) fn syncs(&self) -> bool {
        self.settings.domain == Domain::PowerSafe
    }

    /// Writes a piece. It is durable with the record that names its version.
    pub(super) fn write_piece(
        &self,
        version: u64,
        offset: u32,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        let written = || {
            let mut batch = WriteBatch::new();
            if offset == 0 {
                batch.put_in(&self.unfinished, version.to_be_bytes(), b"")?;
            }
            batch.put_in(&self.pieces, piece_key(version, offset), bytes)?;
            self.db.write(batch, WriteOptions::with_sync(false))
        };
        written().map_err(|error| change_failed(&error))
    }

    /// Removes the pieces of a store that was cut short.
    pub(super) fn drop_version(&self, version: u64) -> terrace::Result<()> {
        let mut batch = WriteBatch::new();
        self.forget(&mut batch, version)?;
        batch.delete_in(&self.unfinished, version.to_be_bytes())?;
        self.db.write(batch, WriteOptions::with_sync(false))
    }

    fn forget(&self, batch: &mut WriteBatch, version: u64) -> terrace::Result<()> {
        let (from, to) = (version.to_be_bytes(), (version + 1).to_be_bytes());
        batch.delete_range_in(&self.pieces, from, to)
    }

    /// Returns the record of a key, without its value.
    pub(super) fn head(&self, key: &Key) -> Result<Option<Head>, Failure> {
        let record = self.heads.get(key.as_bytes()).map_err(read_failed)?;
        record.map(|record| decode(&record)).transpose()
    }

    /// Judges a change of a key with the record `now`, and adds it to the batch. Returns the record
    /// that the key has then.
    pub(super) fn apply(
        &self,
        batch: &mut WriteBatch,
        key: &Key,
        now: Option<Head>,
        change: &Change<'_>,
    ) -> Result<Option<Head>, Failure> {
        let judged = match (change, now) {
            (Change::Store(Condition::IfAbsent, _), Some(_)) => Err(Failure::KeyExists),
            (Change::Store(Condition::IfExists, _) | Change::Delete, None) => {
                Err(Failure::NotFound)
            }
            _ => Ok(()),
        };
        judged?;
        let mut added = || -> terrace::Result<Option<Head>> {
            if let Some(version) = now.and_then(|head| head.version) {
                self.forget(batch, version)?;
            }
            let (record, value_bytes, version) = match change {
                Change::Delete => {
                    batch.delete_in(&self.heads, key.as_bytes())?;
                    return Ok(None);
                }
                Change::Store(_, NewValue::Whole(value)) => {
                    (Head::with_value(value), value.len() as u32, None)
                }
                Change::Store(_, NewValue::InPieces(bytes, version)) => {
                    batch.delete_in(&self.unfinished, version.to_be_bytes())?;
                    (Head::in_pieces(*bytes, *version), *bytes, Some(*version))
                }
            };
            batch.put_in(&self.heads, key.as_bytes(), &record)?;
            Ok(Some(Head {
                value_bytes,
                version,
            }))
        };
        added().map_err(|error| change_failed(&error))
    }

    /// Finds a value, as it is at this moment.
    pub(super) fn open_value(&self, key: &Key) -> Result<Opened, Failure> {
        let snapshot = self.db.snapshot();
        let record = self.heads.get_at(&snapshot, key.as_bytes());
        let record = record.map_err(read_failed)?.ok_or(Failure::NotFound)?;
        let head = decode(&record)?;
        let source = match head.version {
            None => Source::Record(record),
            Some(version) => Source::Pieces(snapshot, version),
        };
        Ok(Opened {
            value_bytes: head.value_bytes,
            source,
        })
    }

    /// Copies a piece to the start of `buffer`: `bytes` bytes of it.
    pub(super) fn read_piece(
        &self,
        snapshot: &Snapshot,
        version: u64,
        offset: u32,
        buffer: &mut [u8],
    ) -> Result<(), Failure> {
        let piece = self.pieces.get_at(snapshot, piece_key(version, offset));
        let piece = piece.map_err(read_failed)?;
        let bytes = piece.as_deref().and_then(|piece| piece.get(..buffer.len()));
        let bytes = bytes.ok_or_else(|| {
            Failure::Unrecovered(format!(
                "bytes from {offset} on are missing; store it again"
            ))
        })?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    /// Lists keys in the order of their bytes, from the place of `from` on.
    pub(super) fn list(&self, from: Option<&Key>, max_keys: usize) -> Result<Vec<Key>, Failure> {
        let lower = from.map_or(Bound::Unbounded, |key| {
            Bound::Included(key.as_bytes().to_vec())
        });
        let listed = || -> terrace::Result<Vec<Key>> {
            let mut iterator = self.heads.iter(IterOptions {
                lower,
                ..IterOptions::default()
            })?;
            let mut keys = Vec::new();
            iterator.seek_to_first()?;
            while iterator.valid() && keys.len() < max_keys {
                keys.extend(Key::new(iterator.key()));
                iterator.next()?;
            }
            Ok(keys)
        };
        listed().map_err(read_failed)
    }

    /// Makes everything that was acknowledged durable.
    pub(super) fn flush(&self) -> Result<(), Failure> {
        self.db.persist().map_err(|error| change_failed(&error))
    }
}

fn decode(record: &[u8]) -> Result<Head, Failure> {
    Head::decode(record)
        .ok_or_else(|| Failure::Unrecovered("its record is none of this engine's".to_owned()))
}

fn read_failed(error: terrace::Error) -> Failure {
    Failure::Unrecovered(error.to_string())
}

/// Returns the failure that an error of a write is to the command.
pub(super) fn change_failed(error: &terrace::Error) -> Failure {
    match error {
        terrace::Error::NoSpace { .. } => Failure::CapacityExceeded,
        terrace::Error::Poisoned { .. } | terrace::Error::OwnershipLost { .. } => {
            Failure::Poisoned(error.to_string())
        }
        other => Failure::WriteFailed(other.to_string()),
    }
}
