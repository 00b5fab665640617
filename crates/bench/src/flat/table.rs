//! The table of files, as it lies on the device.
//!
//! Two slots take turns, so that a torn write leaves the one before. All numbers are little-endian:
//! magic (8 bytes), generation (8), checksum of the rest with the generation as its seed (8), bytes of the
//! rest (4), then the rest: next number of a file (8), files (4) and of each its number (8), length (8),
//! chunks (4) and their numbers (4 each), names (4) and of each its file (8), bytes (2) and the bytes.

use std::collections::{BTreeMap, BTreeSet};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::blocks::BLOCK_BYTES;
use super::disk::CHUNK_BYTES;

const MAGIC: [u8; 8] = *b"TERFLAT1";
const HEADER_BYTES: usize = 28;

/// A file, as a table has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    pub length: u64,
    pub chunks: Vec<u32>,
}

/// The files and their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    pub generation: u64,
    pub next_file: u64,
    pub files: BTreeMap<u64, FileEntry>,
    pub names: BTreeMap<String, u64>,
}

impl Table {
    /// Returns whole blocks.
    pub fn encode(&self) -> Vec<u8> {
        let mut rest = Vec::new();
        rest.extend(self.next_file.to_le_bytes());
        rest.extend((self.files.len() as u32).to_le_bytes());
        for (number, file) in &self.files {
            rest.extend(number.to_le_bytes());
            rest.extend(file.length.to_le_bytes());
            rest.extend((file.chunks.len() as u32).to_le_bytes());
            rest.extend(file.chunks.iter().flat_map(|chunk| chunk.to_le_bytes()));
        }
        rest.extend((self.names.len() as u32).to_le_bytes());
        for (name, number) in &self.names {
            rest.extend(number.to_le_bytes());
            rest.extend((name.len() as u16).to_le_bytes());
            rest.extend(name.as_bytes());
        }
        let mut bytes = Vec::with_capacity(HEADER_BYTES + rest.len() + BLOCK_BYTES);
        bytes.extend(MAGIC);
        bytes.extend(self.generation.to_le_bytes());
        bytes.extend(xxh3_64_with_seed(&rest, self.generation).to_le_bytes());
        bytes.extend((rest.len() as u32).to_le_bytes());
        bytes.extend(rest);
        bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
        bytes
    }

    /// Returns the table of a slot, on a device with `chunks` chunks; none if the slot has no whole table.
    pub fn decode(bytes: &[u8], chunks: u32) -> Option<Table> {
        let mut header = Reader(bytes);
        if header.take(MAGIC.len())? != MAGIC {
            return None;
        }
        let (generation, checksum) = (header.u64()?, header.u64()?);
        let length = header.u32()? as usize;
        let rest = header.take(length)?;
        if xxh3_64_with_seed(rest, generation) != checksum {
            return None;
        }
        Self::decode_rest(Reader(rest), generation, chunks)
    }

    fn decode_rest(mut rest: Reader<'_>, generation: u64, most: u32) -> Option<Table> {
        let next_file = rest.u64()?;
        let (mut files, mut used) = (BTreeMap::new(), BTreeSet::new());
        for _ in 0..rest.u32()? {
            let (number, length) = (rest.u64()?, rest.u64()?);
            let count = rest.u32()?;
            let mut chunks = Vec::new();
            for _ in 0..count {
                let chunk = rest.u32().filter(|chunk| *chunk < most)?;
                used.insert(chunk).then(|| chunks.push(chunk))?;
            }
            if length > u64::from(count) * CHUNK_BYTES {
                return None;
            }
            files.insert(number, FileEntry { length, chunks });
        }
        let mut names = BTreeMap::new();
        for _ in 0..rest.u32()? {
            let number = rest.u64().filter(|number| files.contains_key(number))?;
            let length = rest.u16()?;
            let name = std::str::from_utf8(rest.take(length.into())?).ok()?;
            names.insert(name.to_owned(), number);
        }
        Some(Table {
            generation,
            next_file,
            files,
            names,
        })
    }
}

/// The unread rest of the bytes.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let file = |length, chunks: &[u32]| FileEntry {
            length,
            chunks: chunks.to_vec(),
        };
        Table {
            generation: 7,
            next_file: 12,
            files: BTreeMap::from([(3, file(5000, &[2, 9])), (11, file(0, &[]))]),
            names: BTreeMap::from([("a".into(), 3), ("b é".into(), 11), ("c".into(), 3)]),
        }
    }

    #[test]
    fn a_table_is_read_back_and_no_damaged_one() {
        let bytes = table().encode();
        assert!(bytes.len().is_multiple_of(BLOCK_BYTES));
        assert_eq!(Table::decode(&bytes, 10), Some(table()));
        // A chunk that the device does not have.
        assert_eq!(Table::decode(&bytes, 9), None);
        let length = HEADER_BYTES + u32::from_le_bytes(bytes[24..28].try_into().unwrap()) as usize;
        for place in 0..length {
            let mut damaged = bytes.clone();
            damaged[place] ^= 4;
            assert_eq!(Table::decode(&damaged, 10), None, "{place}");
            assert_eq!(Table::decode(&bytes[..place], 10), None);
        }
        assert_eq!(Table::decode(&[0; 64], 10), None);
    }

    #[test]
    fn two_files_share_no_chunk_and_a_file_has_chunks_for_its_length() {
        let mut shared = table();
        shared.files.get_mut(&11).unwrap().chunks = vec![9];
        assert_eq!(Table::decode(&shared.encode(), 10), None);
        let mut long = table();
        long.files.get_mut(&11).unwrap().length = 1;
        assert_eq!(Table::decode(&long.encode(), 10), None);
    }
}
