//! Signatures of data that must not be overwritten unasked.

use terrace::Escaped;

use super::{Medium, transfer};
use crate::block::{BLOCK_BYTES, Buffer};
use crate::error::{Error, Result};

/// Magic of a node's superblock, in the first and the last block of its device.
pub const NODE_MAGIC: [u8; 8] = *b"TerrNode";
/// Place of the magic in a superblock. It is frozen for all formats to come.
pub const NODE_MAGIC_OFFSET: usize = 8;
/// The name that [`signature`] has for a node.
pub const NODE_NAME: &str = "a Terrace node";

/// Most signatures are near the start, those of ZFS take the second half of it.
const HEAD_BYTES: u64 = 256 << 10;
/// Copies of partition tables and some arrays are near the end.
const TAIL_BYTES: u64 = 192 << 10;

const MD: &[u8] = &[0xfc, 0x4e, 0x2b, 0xa9];
const GPT: &[u8] = b"EFI PART";

/// Bytes at an offset from the start that tell the kind of a device's contents.
struct Mark(&'static str, usize, &'static [u8]);

const MARKS: &[Mark] = &[
    Mark("an XFS file system", 0, b"XFSB"),
    Mark("a btrfs file system", 0x10040, b"_BHRfS_M"),
    Mark("an F2FS file system", 1024, &[0x10, 0x20, 0xf5, 0xf2]),
    Mark("a JFS file system", 32768, b"JFS1"),
    Mark("a squashfs image", 0, b"hsqs"),
    Mark("an ISO 9660 image", 32769, b"CD001"),
    Mark("a LUKS volume", 0, b"LUKS\xba\xbe"),
    Mark("a LUKS volume", 0x4000, b"SKUL\xba\xbe"),
    Mark("an LVM physical volume", 0, b"LABELONE"),
    Mark("an LVM physical volume", 512, b"LABELONE"),
    Mark("an LVM physical volume", 1024, b"LABELONE"),
    Mark("an LVM physical volume", 1536, b"LABELONE"),
    Mark("a part of a Linux array", 0, MD),
    Mark("a part of a Linux array", 4096, MD),
    Mark("swap space", (4 << 10) - 10, b"SWAPSPACE2"),
    Mark("swap space", (8 << 10) - 10, b"SWAPSPACE2"),
    Mark("swap space", (16 << 10) - 10, b"SWAPSPACE2"),
    Mark("swap space", (32 << 10) - 10, b"SWAPSPACE2"),
    Mark("swap space", (64 << 10) - 10, b"SWAPSPACE2"),
    Mark("a Ceph BlueStore device", 0, b"bluestore block device"),
    Mark("an NTFS file system", 3, b"NTFS    "),
    Mark("an exFAT file system", 3, b"EXFAT   "),
    Mark("a BitLocker volume", 3, b"-FVE-FS-"),
    Mark("a FAT file system", 54, b"FAT12   "),
    Mark("a FAT file system", 54, b"FAT16   "),
    Mark("a FAT file system", 82, b"FAT32   "),
    Mark("a GPT partition table", 512, GPT),
    Mark("a GPT partition table", 4096, GPT),
];

/// Returns the name of the contents of a medium, as in "an XFS file system"; none if nothing is recognised.
///
/// # Errors
/// The medium cannot be read.
pub fn signature(medium: &Medium) -> Result<Option<String>> {
    let end = medium.end()?;
    let head = read(medium, 0, HEAD_BYTES)?;
    // Direct I/O wants whole blocks.
    let tail_start = end.saturating_sub(TAIL_BYTES) / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
    let tail = Tail {
        bytes: &read(medium, tail_start, TAIL_BYTES + BLOCK_BYTES as u64)?,
        start: tail_start,
        end,
    };
    let name = (is_node(&head) || tail.is_node(medium.bytes)).then_some(NODE_NAME);
    let name = name
        .or_else(|| marked(&head))
        .or_else(|| ext(&head))
        .or_else(|| zfs(&head))
        .or_else(|| tail.name())
        // Boot sectors of file systems look like this as well.
        .or_else(|| mbr(&head));
    Ok(name.map(str::to_owned))
}

/// Reads `bytes` bytes, or less at the end.
fn read(medium: &Medium, offset: u64, bytes: u64) -> Result<Vec<u8>> {
    let mut buffer = Buffer::zeroed(bytes as usize / BLOCK_BYTES);
    let read = transfer::read_up_to(&medium.file, &mut buffer, offset).map_err(|source| {
        Error::io(
            format!(
                "read {bytes} bytes at {offset} of {}",
                Escaped::path(&medium.path)
            ),
            source,
        )
    })?;
    Ok(buffer[..read].to_vec())
}

fn has(bytes: &[u8], offset: usize, mark: &[u8]) -> bool {
    bytes
        .get(offset..)
        .is_some_and(|bytes| bytes.starts_with(mark))
}

fn is_node(block: &[u8]) -> bool {
    has(block, NODE_MAGIC_OFFSET, &NODE_MAGIC)
}

fn marked(head: &[u8]) -> Option<&'static str> {
    let mut marks = MARKS.iter();
    let found = marks.find(|Mark(_, offset, bytes)| has(head, *offset, bytes));
    found.map(|Mark(name, ..)| *name)
}

/// Two bytes alone are found by chance too often: the block size is looked at, too.
fn ext(head: &[u8]) -> Option<&'static str> {
    const START: usize = 1024;
    let number = |offset: usize| {
        let bytes = head.get(START + offset..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    };
    if !has(head, START + 56, &[0x53, 0xef]) || number(24)? > 6 {
        return None;
    }
    const HAS_JOURNAL: u32 = 4;
    // Extents, 64 bits, flexible groups.
    const EXT4: u32 = 0x40 | 0x80 | 0x200;
    Some(match (number(92)? & HAS_JOURNAL, number(96)? & EXT4) {
        (_, 1..) => "an ext4 file system",
        (1.., 0) => "an ext3 file system",
        (0, 0) => "an ext2 file system",
    })
}

/// The array of uberblocks in a label, each at a multiple of 1 KiB, in either order of bytes.
fn zfs(head: &[u8]) -> Option<&'static str> {
    let magic = 0x00ba_b10c_u64;
    let mut uberblocks = (128..256).map(|number| number << 10);
    uberblocks
        .any(|at| has(head, at, &magic.to_le_bytes()) || has(head, at, &magic.to_be_bytes()))
        .then_some("a part of a ZFS pool")
}

/// A boot signature with a partition that has a type and a size.
fn mbr(head: &[u8]) -> Option<&'static str> {
    let entries = head.get(446..510)?.chunks_exact(16);
    let is_partition = |entry: &[u8]| {
        let is_flag_legal = entry[0] == 0 || entry[0] == 0x80;
        is_flag_legal && entry[4] != 0 && entry[12..16] != [0; 4]
    };
    let mut partitions = entries.filter(|entry| is_partition(entry));
    (has(head, 510, &[0x55, 0xaa]) && partitions.next().is_some())
        .then_some("an MBR partition table")
}

/// The end of a medium.
struct Tail<'a> {
    bytes: &'a [u8],
    /// Offset of the bytes.
    start: u64,
    end: u64,
}

impl Tail<'_> {
    fn has(&self, offset: u64, mark: &[u8]) -> bool {
        let at = offset.checked_sub(self.start);
        at.is_some_and(|at| has(self.bytes, at as usize, mark))
    }

    /// The second copy of the superblock is in the last whole block.
    fn is_node(&self, bytes: u64) -> bool {
        let at = bytes.checked_sub(BLOCK_BYTES as u64 + self.start);
        at.and_then(|at| self.bytes.get(at as usize..))
            .is_some_and(is_node)
    }

    fn name(&self) -> Option<&'static str> {
        let from_end = |bytes| self.end.checked_sub(bytes);
        let is_gpt = |bytes| from_end(bytes).is_some_and(|offset| self.has(offset, GPT));
        if is_gpt(512) || is_gpt(4096) {
            return Some("a GPT partition table");
        }
        // Version 1.0: 8 KiB or more before the end, at a multiple of 4 KiB; version 0.90: 64 KiB.
        let newer = from_end(8 << 10).map(|offset| offset & !0xfff);
        let older = (self.end & !0xffff).checked_sub(64 << 10);
        let mut places = [newer, older].into_iter().flatten();
        places
            .any(|offset| self.has(offset, MD))
            .then_some("a part of a Linux array")
    }
}

#[cfg(test)]
mod tests {
    use super::super::Access;
    use super::*;

    const SIZE: usize = 1 << 20;

    /// An image of zeros but for these bytes.
    fn name_of(size: usize, marks: &[(usize, &[u8])]) -> Option<String> {
        let mut image = vec![0; size];
        for (offset, bytes) in marks {
            image[*offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), image).unwrap();
        signature(&Medium::open(file.path(), Access::ReadAlone).unwrap()).unwrap()
    }

    #[test]
    fn every_mark_is_recognised() {
        for Mark(name, offset, bytes) in MARKS {
            assert_eq!(name_of(SIZE, &[(*offset, bytes)]).as_deref(), Some(*name));
            assert_eq!(name_of(SIZE, &[(*offset, &bytes[1..])]), None, "{name}");
        }
    }

    #[test]
    fn nothing_is_recognised_in_zeros_and_noise() {
        for size in [4096, 8192, 65536, SIZE + 512] {
            assert_eq!(name_of(size, &[]), None);
            assert_eq!(name_of(size, &[(0, &vec![0x5a; size])]), None);
        }
    }

    #[test]
    fn a_node_is_recognised_at_both_ends() {
        let node = Some(NODE_NAME.to_owned());
        for offset in [8, SIZE - 4096 + 8] {
            assert_eq!(name_of(SIZE, &[(offset, &NODE_MAGIC)]), node);
            assert_eq!(name_of(SIZE + 1024, &[(offset, &NODE_MAGIC)]), node);
        }
        assert_eq!(name_of(SIZE, &[(16, &NODE_MAGIC)]), None);
        assert_eq!(name_of(4096, &[(8, &NODE_MAGIC)]), node);
    }

    #[test]
    fn ext_file_systems_are_told_apart() {
        let magic: (usize, &[u8]) = (1080, &[0x53, 0xef]);
        let name = |marks: &[(usize, &[u8])]| name_of(SIZE, &[&[magic], marks].concat());
        assert_eq!(name(&[]).unwrap(), "an ext2 file system");
        assert_eq!(name(&[(1116, &[4])]).unwrap(), "an ext3 file system");
        let ext4 = name(&[(1116, &[4]), (1120, &[0x42])]);
        assert_eq!(ext4.unwrap(), "an ext4 file system");
        assert_eq!(name(&[(1048, &[9])]), None, "blocks of 512 KiB");
    }

    #[test]
    fn partition_tables_and_arrays_are_found_at_the_end() {
        for (size, sector) in [(SIZE, 512), (SIZE + 512, 512), (SIZE, 4096)] {
            let name = name_of(size, &[(size - sector, GPT)]);
            assert_eq!(name.unwrap(), "a GPT partition table");
        }
        for (size, offset) in [
            (SIZE, SIZE - 8192),
            (SIZE + 512, SIZE - 8192),
            (SIZE + 4096, SIZE - 65536),
        ] {
            let name = name_of(size, &[(offset, MD)]);
            assert_eq!(name.unwrap(), "a part of a Linux array", "{size} {offset}");
        }
    }

    #[test]
    fn an_mbr_needs_a_partition() {
        let boot: (usize, &[u8]) = (510, &[0x55, 0xaa]);
        let entry = [0x80, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 0, 1, 0];
        assert_eq!(name_of(SIZE, &[boot]), None);
        assert_eq!(name_of(SIZE, &[(446, &entry)]), None);
        let name = name_of(SIZE, &[boot, (462, &entry)]);
        assert_eq!(name.unwrap(), "an MBR partition table");
        let fat = name_of(SIZE, &[boot, (462, &entry), (82, b"FAT32   ")]);
        assert_eq!(fat.unwrap(), "a FAT file system");
    }

    #[test]
    fn zfs_is_recognised_in_either_byte_order() {
        let magic = 0x00ba_b10c_u64;
        for (offset, bytes) in [(128, magic.to_le_bytes()), (255, magic.to_be_bytes())] {
            let name = name_of(SIZE, &[(offset << 10, &bytes)]);
            assert_eq!(name.unwrap(), "a part of a ZFS pool");
        }
    }
}
