//! How far an import has come, kept in the store with its rows.
//!
//! Each batch has the position behind its last row in it, in a keyspace of its own, so that a crash
//! keeps rows and position together or loses both. An import that is resumed reads its input from
//! the start and passes over the rows up to the position: so it works for pipes and compressed files
//! as for others, and a hash over these rows tells whether the input is the one that was begun. To
//! pass over a row costs reading it, a fraction of writing it.
//!
//! A position belongs to a keyspace by its number, not by its name alone: one that was dropped and
//! made again is empty, and an import into it begins with the first row. An import that is not to be
//! resumed removes the position with its first batch, for its rows are no longer what it counts.

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

/// A position as it is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// The number of the keyspace that the rows went to.
    keyspace: u32,
    #[serde(flatten)]
    position: Position,
}

/// The position of one import.
pub struct Checkpoint {
    keyspace: Keyspace,
    name: Vec<u8>,
    /// The number of the keyspace that the rows go to.
    target: u32,
    /// What an earlier run had written.
    stored: Position,
    present: Position,
}

impl Checkpoint {
    /// The position of the import of `name` into `target`, the beginning if there was none.
    pub fn open(db: &Db, name: &[u8], target: &Keyspace) -> Result<Self, Failure> {
        let target = target.id().number();
        let keyspace = match db.keyspace(KEYSPACE) {
            Err(Error::NoKeyspace { .. }) => {
                db.create_keyspace(KEYSPACE, KeyspaceOptions::default())?
            }
            keyspace => keyspace?,
        };
        let kept: Option<Kept> = keyspace
            .get(name)?
            .map(|kept| serde_json::from_slice(&kept))
            .transpose()
            .map_err(|error| Failure::io("the position of the import", error.into()))?;
        let stored = kept.filter(|kept| kept.keyspace == target);
        Ok(Checkpoint {
            keyspace,
            name: name.to_vec(),
            target,
            stored: stored.map_or_else(Position::default, |kept| kept.position),
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
        let kept = Kept {
            keyspace: self.target,
            position: self.present,
        };
        let kept = serde_json::to_vec(&kept)
            .map_err(|error| Failure::io("the position of the import", error.into()))?;
        Ok(batch.put_in(&self.keyspace, &self.name, &kept)?)
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
    name: Vec<u8>,
}

impl Obsolete {
    /// The position of the import of `name`, if there is one.
    pub fn find(db: &Db, name: &[u8]) -> Result<Option<Self>, Failure> {
        let keyspace = match db.keyspace(KEYSPACE) {
            Err(Error::NoKeyspace { .. }) => return Ok(None),
            keyspace => keyspace?,
        };
        let name = name.to_vec();
        Ok(keyspace.get(&name)?.map(|_| Obsolete { keyspace, name }))
    }

    pub fn remove_in(&self, batch: &mut WriteBatch) -> Result<(), Failure> {
        Ok(batch.delete_in(&self.keyspace, &self.name)?)
    }
}
