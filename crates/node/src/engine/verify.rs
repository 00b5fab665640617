//! Reading every value and comparing it with its checksum.

use super::Node;
use super::blocking::Blocking;
use super::overlay::Overlay;
use super::values::verify_value;
use crate::device::Device;
use crate::index::{Found, WalkCursor};
use crate::{Key, Result};

const MAX_ENTRIES: usize = 1024;

/// A value that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Its namespace.
    pub nsid: u32,
    /// Its key.
    pub key: Key,
    /// Place of its first block on the device, in bytes.
    pub offset: u64,
    /// The fault.
    pub what: String,
}

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Values read.
    pub values: u64,
    /// Their bytes.
    pub value_bytes: u64,
    /// Values that are damaged.
    pub damaged: Vec<Damage>,
    /// Namespaces and keys with a change that is not taken, see [`Node::skipped`].
    pub skipped: Vec<(u32, Key)>,
}

/// Reads all values of all namespaces. Changes nothing on the device. `progress` is called with the
/// number of values read so far.
///
/// # Errors
/// The superblock, a checkpoint or the journal is damaged, or the device cannot be read at all.
pub fn verify(device: &mut dyn Device, progress: &mut dyn FnMut(u64)) -> Result<VerifyReport> {
    let mut device = Overlay::new(device);
    let node = Node::open(&mut device)?;
    let mut report = VerifyReport::default();
    for namespace in node.key_namespaces() {
        let nsid = namespace.description.nsid;
        let skipped = namespace.skipped.iter();
        report.skipped.extend(skipped.map(|key| (nsid, *key)));
        let mut cursor = WalkCursor::default();
        let mut done = false;
        while !done {
            let mut batch: Vec<(Key, Found)> = Vec::new();
            done = namespace
                .index
                .walk(&mut cursor, MAX_ENTRIES, |key, found| {
                    batch.push((*key, found.clone()));
                });
            for (key, found) in batch {
                let mut blocking = Blocking(&mut device);
                let read = verify_value(&mut blocking, &namespace.description, &key, &found);
                let what = read.unwrap_or_else(|error| Some(error.to_string()));
                report.values += 1;
                report.value_bytes += u64::from(found.value_bytes);
                if let Some(what) = what {
                    report.damaged.push(Damage {
                        nsid,
                        key,
                        offset: found.place.device_offset(),
                        what,
                    });
                }
            }
            progress(report.values);
        }
    }
    Ok(report)
}
