//! A cursor for tests.

use crate::Result;
use crate::cursor::Cursor;
use crate::key::{InternalKey, Tag};

/// A version: user key, tag, value.
pub type Version = (Vec<u8>, Tag, Vec<u8>);

/// A cursor over versions in memory.
pub struct VersionsCursor {
    versions: Vec<Version>,
    at: usize,
}

impl VersionsCursor {
    pub fn new(mut versions: Vec<Version>) -> Self {
        versions.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        VersionsCursor {
            at: usize::MAX,
            versions,
        }
    }
}

impl Cursor for VersionsCursor {
    fn valid(&self) -> bool {
        self.at < self.versions.len()
    }
    fn seek_to_first(&mut self) -> Result<()> {
        self.at = 0;
        Ok(())
    }
    fn seek_to_last(&mut self) -> Result<()> {
        self.at = self.versions.len().wrapping_sub(1);
        Ok(())
    }
    fn seek(&mut self, target: InternalKey<'_>) -> Result<()> {
        let below = |version: &Version| {
            InternalKey {
                user_key: &version.0,
                tag: version.1,
            } < target
        };
        self.at = self.versions.partition_point(below);
        Ok(())
    }
    fn next(&mut self) -> Result<()> {
        self.at += 1;
        Ok(())
    }
    fn prev(&mut self) -> Result<()> {
        self.at = self.at.wrapping_sub(1);
        Ok(())
    }
    fn key(&self) -> InternalKey<'_> {
        let (user_key, tag, _) = &self.versions[self.at];
        InternalKey {
            user_key,
            tag: *tag,
        }
    }
    fn value(&self) -> &[u8] {
        &self.versions[self.at].2
    }
}
