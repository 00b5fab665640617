//! Whole values, read and compared with their checksums.

use super::blocking::Blocking;
use crate::block::{BLOCK_BYTES, Extent, Extents};
use crate::format::cell::cell_blocks;
use crate::format::namespace::Description;
use crate::format::trailer::Trailer;
use crate::format::value::{piece_checksums, trailer_bytes, value_checksum};
use crate::index::{Found, Place};
use crate::{Key, Result};

/// Blocks that are read at once: 1 MiB.
const BATCH_BLOCKS: u64 = 256;

/// Reads a whole value and compares it with its checksums. Returns the fault, if there is one.
pub(super) fn verify_value(
    device: &mut Blocking<'_>,
    description: &Description,
    key: &Key,
    found: &Found,
) -> Result<Option<String>> {
    let secret = description.secret;
    let bytes = match &found.place {
        Place::Cell(location) => {
            let (extent, offset) = cell_blocks(*location, found.value_bytes);
            let bytes = device.read(&[extent])?;
            bytes[offset..offset + found.value_bytes as usize].to_vec()
        }
        Place::Extents(extents) => match read_extents(device, description, key, found, extents)? {
            Ok(bytes) => bytes,
            Err(what) => return Ok(Some(what)),
        },
    };
    let check = value_checksum(secret, &piece_checksums(secret, &bytes));
    let differs = check as u32 != found.check;
    Ok(differs.then(|| "the value does not match its checksum".to_owned()))
}

fn read_extents(
    device: &mut Blocking<'_>,
    description: &Description,
    key: &Key,
    found: &Found,
    extents: &Extents,
) -> Result<std::result::Result<Vec<u8>, String>> {
    let mut bytes = Vec::with_capacity(extents.blocks() as usize * BLOCK_BYTES);
    for extent in extents.iter() {
        let mut at = 0;
        while at < extent.blocks {
            let blocks = BATCH_BLOCKS.min(extent.blocks - at);
            let start = extent.start + at;
            bytes.extend_from_slice(&device.read(&[Extent { start, blocks }])?);
            at += blocks;
        }
    }
    let last = extents.last().end() - 1;
    let tail = trailer_bytes(found.value_bytes, extents.len()).next_multiple_of(BLOCK_BYTES);
    let tail = &bytes[bytes.len() - tail.min(bytes.len())..];
    let trailer = Trailer::decode(tail, description.secret, last, &description.bounds());
    let is_own = trailer
        .is_ok_and(|trailer| trailer.key == *key && trailer.value_bytes == found.value_bytes);
    if !is_own {
        return Ok(Err("its trailer is damaged or another key's".to_owned()));
    }
    bytes.truncate(found.value_bytes as usize);
    Ok(Ok(bytes))
}
