//! A cursor that counts the versions that it has passed.

use std::path::PathBuf;

use crate::Result;
use crate::cursor::Cursor;
use crate::key::InternalKey;

/// The versions of a merge's inputs. Inputs list more than a slice reads, and a table may count
/// only in part. So versions are counted where they are read.
pub struct Counted<C> {
    versions: C,
    passed: u64,
}

impl<C: Cursor> Counted<C> {
    pub fn new(versions: C) -> Self {
        Counted {
            versions,
            passed: 0,
        }
    }

    /// Returns the number of versions that were moved on from.
    pub fn passed(&self) -> u64 {
        self.passed
    }
}

impl<C: Cursor> Cursor for Counted<C> {
    fn valid(&self) -> bool {
        self.versions.valid()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.versions.seek_to_first()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.versions.seek_to_last()
    }

    fn seek(&mut self, target: InternalKey<'_>) -> Result<()> {
        self.versions.seek(target)
    }

    fn next(&mut self) -> Result<()> {
        self.passed += 1;
        self.versions.next()
    }

    fn prev(&mut self) -> Result<()> {
        self.versions.prev()
    }

    fn key(&self) -> InternalKey<'_> {
        self.versions.key()
    }

    fn value(&self) -> &[u8] {
        self.versions.value()
    }

    fn file(&self) -> Option<PathBuf> {
        self.versions.file()
    }
}
