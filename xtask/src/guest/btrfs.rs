//! Full disks of btrfs: `crates/terrace/tests/full_disk.rs` on a disk of the guest.
//!
//! Some kernels lock up on a btrfs that small, and never sync a disk again. In a guest that is a failed
//! test; on the machine itself, see `full_disk.rs`, it is the end of its work.

use std::path::Path;
use std::time::Duration;

use super::machine::Machine;
use crate::Outcome;
use crate::file_system::FileSystem;
use crate::process::beside;

/// Data and metadata are in the same chunks: otherwise more space is free than files can take.
const FILE_SYSTEMS: [FileSystem; 2] = [
    mixed("btrfs of 64 MiB, mixed", 64 << 20),
    mixed("btrfs of 200 MiB, mixed", 200 << 20),
];

const fn mixed(name: &'static str, bytes: u64) -> FileSystem {
    FileSystem {
        name,
        mkfs: "mkfs.btrfs",
        options: &["-q", "-f", "-M"],
        package: "btrfs-progs",
        bytes,
    }
}

/// The time for a file system. A guest that locked up ends by it.
const LIMIT: Duration = Duration::from_secs(900);

/// Returns the reason why the file systems cannot be made here.
pub fn ready() -> Result<(), Outcome> {
    FILE_SYSTEMS.iter().try_for_each(FileSystem::ready)
}

/// Boots a guest for each file system, all at once: an emulated processor is busy, or waits for a disk.
/// A lock-up in one is none in the others.
pub fn run(root: &Path, directory: &Path) -> Outcome {
    let fill = |file_system: &FileSystem| {
        println!("--> {}", file_system.name);
        fill(root, directory, file_system).named(file_system.name)
    };
    let [first, second] = &FILE_SYSTEMS;
    let (first, second) = beside(|| fill(first), || fill(second));
    Outcome::of_parts([first, second])
}

fn fill(root: &Path, directory: &Path, file_system: &FileSystem) -> Outcome {
    let image = directory.join(format!("btrfs-{}.image", file_system.bytes));
    let outcome = match file_system.create(&image) {
        Ok(()) => {
            let machine = Machine::new(root, directory, "btrfs.sh");
            machine.with_disk(&image, LIMIT).run()
        }
        Err(outcome) => outcome,
    };
    // Left-overs are in target/, and do no harm there.
    let _ = std::fs::remove_file(&image);
    outcome
}
