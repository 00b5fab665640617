//! How far an import has come, kept in the store with its rows.
//!
//! Each batch has the position behind its last row in it, in a keyspace of its own, so that a crash
//! keeps rows and position together or loses both. An import that is resumed reads its input from
//! the start and passes over the rows up to the position: so it works for pipes and compressed files
//! as for others, and a hash over these rows tells whether the input is the one that was begun. To
//! pass over a row costs reading it, a fraction of writing it.

use serde::{Deserialize, Serialize};
use terrace::{Db, Error, Keyspace, KeyspaceOptions, WriteBatch};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::failure::Failure;
use crate::import::{Record, RecordError};
use crate::report::things;

/// The keyspace of positions: the file's name is the key.
const KEYSPACE: &str = "terrace.imports";

/// Behind so many rows of the input, bad ones among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    rows: u64,
    /// Over the keys and values of the good ones.
    hash: u64,
}

impl Position {
    /// One row further, a good or a bad one.
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

/// The position of one import.
pub struct Checkpoint {
    keyspace: Keyspace,
    name: Vec<u8>,
    /// What an earlier run had written.
    stored: Position,
    present: Position,
}

impl Checkpoint {
    /// The position of the import of `name`, the beginning if there was none.
    pub fn open(db: &Db, name: &[u8]) -> Result<Self, Failure> {
        let keyspace = match db.keyspace(KEYSPACE) {
            Err(Error::NoKeyspace { .. }) => {
                db.create_keyspace(KEYSPACE, KeyspaceOptions::default())?
            }
            keyspace => keyspace?,
        };
        let stored = match keyspace.get(name)? {
            Some(stored) => serde_json::from_slice(&stored)
                .map_err(|error| Failure::io("the position of the import", error.into()))?,
            None => Position::default(),
        };
        Ok(Checkpoint {
            keyspace,
            name: name.to_vec(),
            stored,
            present: Position::default(),
        })
    }

    /// Whether a row was dealt with by an earlier run. One that was is taken note of.
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

    /// The position behind a row that is about to be written or skipped.
    pub fn behind(&self, record: &Result<Record, RecordError>) -> Position {
        self.present.behind(record.as_ref().ok())
    }

    /// All rows up to `position` are in the batches that follow.
    pub fn advance(&mut self, position: Position) {
        self.present = position;
    }

    /// The input has ended.
    ///
    /// # Errors
    /// [`Failure::Usage`] if it has fewer rows than the earlier run had written.
    pub fn end(&self) -> Result<(), Failure> {
        if self.present.rows < self.stored.rows {
            return Err(self.differs("it ends before them"));
        }
        Ok(())
    }

    /// The position behind all rows up to now.
    pub fn put_into(&self, batch: &mut WriteBatch) -> Result<(), Failure> {
        let position = serde_json::to_vec(&self.present)
            .map_err(|error| Failure::io("the position of the import", error.into()))?;
        Ok(batch.put_in(&self.keyspace, &self.name, &position)?)
    }

    fn differs(&self, how: &str) -> Failure {
        Failure::Usage(format!(
            "this is not the input of which {} were read before: {how}; import it without --resume",
            things(self.stored.rows, "row")
        ))
    }
}
