//! A new device: superblocks at both ends, and an empty checkpoint for each namespace.

use super::blocking::Blocking;
use super::content::first_of;
use crate::Result;
use crate::block::{Buffer, Extent};
use crate::device::Device;
use crate::format::checkpoint::CheckpointHeader;
use crate::format::namespace::Kind;
use crate::format::superblock::Superblock;

/// Blocks behind the first superblock, and before the last one, that are made zero: 1 MiB. Labels of
/// file systems, partition tables and volumes lie there.
const WIPED_BLOCKS: u64 = 256;

/// Writes an empty node. The former contents are gone.
///
/// # Errors
/// The device cannot be written.
pub fn create(device: &mut dyn Device, superblock: &Superblock) -> Result<()> {
    let mut device = Blocking(device);
    // The old superblocks first: a crash from here on leaves a device that is no node.
    let last = superblock.device_blocks - 1;
    let ends = [last, 0];
    for start in ends {
        device.write(&[Extent { start, blocks: 1 }], Buffer::zeroed(1))?;
    }
    device.flush()?;
    // Then the labels by which other programs know a file system or a volume.
    let blocks = WIPED_BLOCKS.min(last - 1);
    for start in [1, last - blocks] {
        device.write(&[Extent { start, blocks }], Buffer::zeroed(blocks as usize))?;
    }
    for namespace in &superblock.namespaces {
        if namespace.kind != Kind::Keys {
            continue;
        }
        let header = CheckpointHeader {
            generation: 1,
            sequence: 0,
            journal_number: 1,
            journal_previous: namespace.secret,
            entries: 0,
            blocks: 0,
        };
        let [even, odd] = namespace.checkpoints;
        let mut block = Buffer::zeroed(1);
        header.encode(&mut block, namespace.secret, odd);
        device.write(&[first_of(odd)], block)?;
        device.write(&[first_of(even)], Buffer::zeroed(1))?;
    }
    device.flush()?;
    for start in ends {
        device.write(&[Extent { start, blocks: 1 }], superblock.encode(start))?;
        device.flush()?;
    }
    Ok(())
}
