//! A manifest record by record, for people.

use std::fmt;
use std::path::Path;

use terrace_storage::{Escaped, Purpose, Storage};

use super::edit::Edit;
use super::manifest::{LONGEST_BYTES, manifest_number, read_file};
use super::mark::MARK_BYTES;
use super::record::Records;
use super::tail::ManifestTail;
use crate::things::things;
use crate::{Error, Result};

/// The content at one offset of a manifest.
#[derive(Clone, Debug)]
pub enum DumpItem {
    Record {
        offset: u64,
        length_bytes: u64,
        edit: Box<Edit>,
    },
    /// The edit before it had been made durable.
    Mark {
        offset: u64,
        length_bytes: u64,
    },
    DroppedTail(ManifestTail),
}

impl fmt::Display for DumpItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DumpItem::Record {
                offset,
                length_bytes,
                edit,
            } => write!(
                f,
                "record at {offset}, {}\n{edit}",
                things(*length_bytes, "byte")
            ),
            DumpItem::Mark {
                offset,
                length_bytes,
            } => writeln!(f, "mark at {offset}, {}", things(*length_bytes, "byte")),
            DumpItem::DroppedTail(tail) => writeln!(f, "{tail}"),
        }
    }
}

/// The records of one manifest file, whether or not it is the one in use. Each record is decoded,
/// but not applied: a dump shows the file as it is.
pub struct ManifestDump {
    number: u64,
    items: std::vec::IntoIter<Result<DumpItem>>,
}

impl ManifestDump {
    /// Opens a manifest file.
    ///
    /// # Errors
    /// The file cannot be read or its header is not a manifest's.
    pub fn open(storage: &dyn Storage, path: &Path) -> Result<Self> {
        let name = path.file_name().and_then(|name| name.to_str());
        let number = name.and_then(manifest_number).ok_or_else(|| {
            Error::invalid(format!(
                "{} is not named MANIFEST-<number>; a manifest's records are tied to its number",
                Escaped::path(path)
            ))
        })?;
        let (directory, name) = storage.parent(path)?;
        let bytes = read_file(&*directory, name, LONGEST_BYTES, Purpose::Other)?;
        let mut records = Records::new(path, &bytes, number)?;
        let mut items = Vec::new();
        for record in &mut records {
            match record.and_then(|record| Ok((record, Box::new(record.edit(path)?)))) {
                Ok((record, edit)) => {
                    items.push(Ok(DumpItem::Record {
                        offset: record.offset,
                        length_bytes: record.end - record.offset,
                        edit,
                    }));
                    let mark = DumpItem::Mark {
                        offset: record.end,
                        length_bytes: MARK_BYTES,
                    };
                    items.extend(record.is_marked.then_some(Ok(mark)));
                }
                Err(error) => items.push(Err(error)),
            }
        }
        if items.last().is_none_or(Result::is_ok) {
            items.extend(records.tail().map(DumpItem::DroppedTail).map(Ok));
        }
        Ok(ManifestDump {
            number,
            items: items.into_iter(),
        })
    }

    /// Returns the number of the manifest.
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl Iterator for ManifestDump {
    type Item = Result<DumpItem>;

    fn next(&mut self) -> Option<Self::Item> {
        self.items.next()
    }
}
