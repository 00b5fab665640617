//! The file system that holds a path, and its known properties.

use std::io;
use std::os::fd::AsFd;

use crate::FileSystem;

/// The numbers of `statfs(2)` and `linux/magic.h`, and the kernel's names for them.
const NAMES: [(u64, &str); 22] = [
    (0xEF53, "ext4"), // ext2 and ext3 share the number, and today the driver
    (0x5846_5342, "xfs"),
    (0x9123_683E, "btrfs"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58F6, "ramfs"),
    (0x9584_58F6, "hugetlbfs"),
    (0x794C_7630, "overlay"),
    (0x6969, "nfs"),
    (0x6573_5546, "fuse"),
    (0x2FC1_2FC1, "zfs"),
    (0xF2F5_2010, "f2fs"),
    (0xCA45_1A4E, "bcachefs"),
    (0xFF53_4D42, "cifs"),
    (0xFE53_4D42, "smb2"),
    (0x00C3_6400, "ceph"),
    (0x0102_1997, "9p"),
    (0x6A65_6A63, "virtiofs"),
    (0xF15F, "ecryptfs"),
    (0x7371_7368, "squashfs"),
    (0x4D44, "vfat"),
    (0x2011_BAB0, "exfat"),
    (0x4750_4653, "gpfs"),
];

/// Returns the file system that holds an open file or directory.
pub(super) fn of(descriptor: impl AsFd) -> io::Result<FileSystem> {
    let status = rustix::io::retry_on_intr(|| rustix::fs::fstatfs(descriptor.as_fd()))?;
    // The field is signed and as wide as a word, the numbers are 32-bit patterns.
    let number = status.f_type as u64 & 0xFFFF_FFFF;
    Ok(from_number(number))
}

fn from_number(number: u64) -> FileSystem {
    let known = NAMES.iter().find(|(known, _)| *known == number);
    let name = known.map_or_else(|| format!("{number:#x}"), |(_, name)| (*name).to_owned());
    FileSystem {
        overwrites_in_place: matches!(name.as_str(), "ext4" | "xfs" | "tmpfs"),
        survives_power_cut: !matches!(name.as_str(), "tmpfs" | "ramfs" | "hugetlbfs"),
        has_descriptors: true,
        name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_what_a_name_promises() {
        let ext4 = from_number(0xEF53);
        assert_eq!(ext4.name, "ext4");
        assert!(ext4.overwrites_in_place && ext4.survives_power_cut);
        let tmpfs = from_number(0x0102_1994);
        assert!(tmpfs.overwrites_in_place && !tmpfs.survives_power_cut);
        let overlay = from_number(0x794C_7630);
        assert!(!overlay.overwrites_in_place && overlay.survives_power_cut);
        let unknown = from_number(0x1234);
        assert_eq!(unknown.name, "0x1234");
        assert!(!unknown.overwrites_in_place);
    }

    #[test]
    fn the_process_file_system_is_not_taken_for_a_disk() {
        let directory = std::fs::File::open("/proc").unwrap();
        assert_eq!(of(directory).unwrap().name, "0x9fa0");
    }
}
