//! The position of an import, kept in the store with its rows.
//!
//! Each batch has the position behind its last row in it, in a keyspace of its own, so that a crash
//! keeps rows and position together or loses both. An import that is resumed reads its input from
//! the start and passes over the rows up to the position: so pipes and compressed files work as
//! others do. A hash over these rows tells whether the input is the one that was begun. To pass
//! over a row costs reading it, a fraction of writing it.
//!
//! A position belongs to a keyspace by its number, not by its name. So it follows a keyspace that gets
//! another name. One that was dropped and made again is empty, and an import into it begins with the
//! first row. An import that is not to be resumed removes the position with its first batch, for it
//! counts other rows.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use terrace::{Db, Error, Keyspace, KeyspaceOptions, WriteBatch};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::failure::Failure;
use crate::import::{Record, RecordError};
use crate::report::things;

/// The keyspace of positions; see [`key_of`].
const KEYSPACE: &str = "terrace.imports";

/// Number of rows of the input that lie before it, bad ones among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    rows: u64,
    /// Over the keys and values of the good ones.
    hash: u64,
}

impl Position {
    /// Returns the position one row further, behind a good or a bad row.
    fn behind(self, record: Option<&Record>) -> Self {
        let hash = record.map_or(self.hash, |Record { key, value, .. }| {
            let with_key = xxh3_64_with_seed(key, self.hash);
            xxh3_64_with_seed(value, with_key ^ key.len() as u64)
        });
        Position {
            rows: self.rows + 1,
            hash,
        }
    }
}

/// Returns the key under which the position in a file is kept: one file may go to several keyspaces. It
/// begins as no name does by which earlier builds kept positions.
fn key_of(target: &Keyspace, file: &Path) -> Vec<u8> {
    let mut key = format!("\0{}:", target.id().number()).into_bytes();
    key.extend_from_slice(file.as_os_str().as_bytes());
    key
}

/// The position of one import.
pub struct Checkpoint {
    keyspace: Keyspace,
    key: Vec<u8>,
    /// Position that an earlier run had written.
    stored: Position,
    present: Position,
}

impl Checkpoint {
    /// Reads the position of the import of `file` into `target`; the beginning if there is none.
    pub fn open(db: &Db, file: &Path, target: &Keyspace) -> Result<Self, Failure> {
        let key = key_of(target, file);
        let keyspace = db.get_or_create_keyspace(KEYSPACE, KeyspaceOptions::default())?;
        let stored: Option<Position> = keyspace
            .get(&key)?
            .map(|kept| serde_json::from_slice(&kept))
            .transpose()
            .map_err(|error| Failure::io("the position of the import", error.into()))?;
        Ok(Checkpoint {
            keyspace,
            key,
            stored: stored.unwrap_or_default(),
            present: Position::default(),
        })
    }

    /// Returns true if an earlier run dealt with the row, and moves behind the row then.
    ///
    /// # Errors
    /// [`Failure::Usage`] if the rows are not those of the earlier run.
    pub fn passes(&mut self, record: &Result<Record, RecordError>) -> Result<bool, Failure> {
        if self.present.rows >= self.stored.rows {
            return Ok(false);
        }
        let next = match record {
            Ok(record) => self.present.behind(Some(record)),
            Err(RecordError::Bad { .. }) => self.present.behind(None),
            // The input ends here.
            Err(_) => return Ok(false),
        };
        if next.rows == self.stored.rows && next.hash != self.stored.hash {
            return Err(self.differs("their contents differ"));
        }
        self.present = next;
        Ok(true)
    }

    /// Returns the position behind a row that is about to be written or skipped.
    pub fn behind(&self, record: &Result<Record, RecordError>) -> Position {
        self.present.behind(record.as_ref().ok())
    }

    /// Moves to `position`: all rows up to there are in the batches that follow.
    pub fn advance(&mut self, position: Position) {
        self.present = position;
    }

    /// Checks the rows once the input has ended.
    ///
    /// # Errors
    /// [`Failure::Usage`] if it has fewer rows than the earlier run had written.
    pub fn end(&self) -> Result<(), Failure> {
        if self.present.rows < self.stored.rows {
            return Err(self.differs("it ends before them"));
        }
        Ok(())
    }

    /// Adds the position behind all rows up to now to a batch.
    pub fn put_into(&self, batch: &mut WriteBatch) -> Result<(), Failure> {
        let kept = serde_json::to_vec(&self.present)
            .map_err(|error| Failure::io("the position of the import", error.into()))?;
        Ok(batch.put_in(&self.keyspace, &self.key, &kept)?)
    }

    fn differs(&self, how: &str) -> Failure {
        Failure::Usage(format!(
            "this is not the input of which {} were read before: {how}; import it without --resume, \
             which forgets them",
            things(self.stored.rows, "row")
        ))
    }
}

/// The position that an earlier import left, and that this one does not go on from.
#[derive(Clone, Debug)]
pub struct Obsolete {
    keyspace: Keyspace,
    key: Vec<u8>,
}

impl Obsolete {
    /// Finds the position of the import of `file` into `target`, if there is one.
    pub fn find(db: &Db, file: &Path, target: &Keyspace) -> Result<Option<Self>, Failure> {
        let keyspace = match db.keyspace(KEYSPACE) {
            Err(Error::NoKeyspace { .. }) => return Ok(None),
            keyspace => keyspace?,
        };
        let key = key_of(target, file);
        Ok(keyspace.get(&key)?.map(|_| Obsolete { keyspace, key }))
    }

    pub fn remove_in(&self, batch: &mut WriteBatch) -> Result<(), Failure> {
        Ok(batch.delete_in(&self.keyspace, &self.key)?)
    }
}
