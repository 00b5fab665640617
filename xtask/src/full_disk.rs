//! The full-disk test on real file systems: small ones in image files, mounted through a loop
//! device, which needs root and a kernel that lets it.
//!
//! Btrfs is never mounted here. Some kernels (6.18 is one) lock up between an fsync and the cleaner of a
//! btrfs that small, and then each later `sync` of the machine waits for ever. `guest/btrfs.rs` has it
//! in a guest.

use std::fs;
use std::path::Path;

use crate::Outcome;
use crate::file_system::{FileSystem, system_tool};
use crate::process::{cargo, show, succeeds};

/// XFS refuses to be smaller.
const FILE_SYSTEMS: [FileSystem; 3] = [
    FileSystem {
        name: "ext4 of 64 MiB",
        mkfs: "mkfs.ext4",
        options: &["-q", "-F"],
        package: "e2fsprogs",
        bytes: 64 << 20,
    },
    FileSystem {
        name: "ext4 of 200 MiB",
        mkfs: "mkfs.ext4",
        options: &["-q", "-F"],
        package: "e2fsprogs",
        bytes: 200 << 20,
    },
    FileSystem {
        name: "xfs of 320 MiB",
        mkfs: "mkfs.xfs",
        options: &["-q", "-f"],
        package: "xfsprogs",
        bytes: 320 << 20,
    },
];

pub fn run(root: &Path) -> Outcome {
    Outcome::of_parts(FILE_SYSTEMS.iter().map(|file_system| {
        println!("--> {}", file_system.name);
        fill(root, file_system).named(file_system.name)
    }))
}

fn fill(root: &Path, file_system: &FileSystem) -> Outcome {
    let image = root.join("target/full-disk.image");
    let mount_point = root.join("target/full-disk");
    if let Err(error) = fs::create_dir_all(&mount_point) {
        return Outcome::Failed(format!("{}: {error}", mount_point.display()));
    }
    let mounted = file_system
        .create(&image)
        .and_then(|()| mount(&image, &mount_point));
    let outcome = match mounted {
        Ok(()) => {
            let outcome = show(
                cargo(root)
                    .args(["test", "--workspace", "--locked", "--test", "full_disk"])
                    .args(["--", "--test-threads", "1"])
                    .env("TERRACE_LOOP_MOUNT", &mount_point),
            );
            unmount(&mount_point);
            outcome
        }
        Err(outcome) => outcome,
    };
    // Left-overs are in target/, and do no harm there.
    let _ = fs::remove_file(&image);
    let _ = fs::remove_dir(&mount_point);
    outcome
}

fn mount(image: &Path, mount_point: &Path) -> Result<(), Outcome> {
    let mut mount = system_tool("mount");
    match succeeds(mount.args(["-o", "loop"]).args([image, mount_point])) {
        true => Ok(()),
        false => Err(Outcome::Skipped(
            "mounting a loop device is not allowed here (root and its driver are needed)".into(),
        )),
    }
}

fn unmount(mount_point: &Path) {
    if !succeeds(system_tool("umount").arg(mount_point)) {
        println!(
            "{} is still mounted: umount it by hand",
            mount_point.display()
        );
    }
}
