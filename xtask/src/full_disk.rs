//! The full-disk test on real file systems: small ones in image files, mounted through a loop
//! device, which needs root and a kernel that lets it.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Outcome;
use crate::process::{cargo, show, succeeds};

/// A file system, and the program that makes it.
struct FileSystem {
    name: &'static str,
    mkfs: &'static [&'static str],
    bytes: u64,
}

/// XFS refuses to be smaller, and a btrfs of 64 MiB has too little room for its own metadata.
const FILE_SYSTEMS: [FileSystem; 4] = [
    FileSystem {
        name: "ext4 of 64 MiB",
        mkfs: &["mkfs.ext4", "-q", "-F"],
        bytes: 64 << 20,
    },
    FileSystem {
        name: "ext4 of 200 MiB",
        mkfs: &["mkfs.ext4", "-q", "-F"],
        bytes: 200 << 20,
    },
    FileSystem {
        name: "xfs of 320 MiB",
        mkfs: &["mkfs.xfs", "-q", "-f"],
        bytes: 320 << 20,
    },
    FileSystem {
        name: "btrfs of 200 MiB, mixed",
        // Data and metadata in the same chunks: otherwise its free space is more than files can take.
        mkfs: &["mkfs.btrfs", "-q", "-f", "-M"],
        bytes: 200 << 20,
    },
];

pub fn run(root: &Path) -> Outcome {
    let (mut failed, mut skipped) = (Vec::new(), Vec::new());
    for file_system in &FILE_SYSTEMS {
        println!("--> {}", file_system.name);
        match fill(root, file_system) {
            Outcome::Failed(what) => failed.push(format!("{}: {what}", file_system.name)),
            Outcome::Skipped(why) => skipped.push(format!("{}: {why}", file_system.name)),
            Outcome::Passed | Outcome::PassedInPart(_) => {}
        }
    }
    match (failed.is_empty(), skipped.len()) {
        (false, _) => Outcome::Failed(failed.join("; ")),
        (true, 0) => Outcome::Passed,
        (true, count) if count == FILE_SYSTEMS.len() => Outcome::Skipped(skipped.join("; ")),
        (true, _) => Outcome::PassedInPart(skipped.join("; ")),
    }
}

fn fill(root: &Path, file_system: &FileSystem) -> Outcome {
    let image = root.join("target/full-disk.image");
    let mount_point = root.join("target/full-disk");
    let created = fs::create_dir_all(&mount_point)
        .and_then(|()| fs::File::create(&image))
        .and_then(|file| file.set_len(file_system.bytes));
    if let Err(error) = created {
        return Outcome::Failed(format!("{}: {error}", image.display()));
    }
    let outcome = match mount(file_system, &image, &mount_point) {
        Ok(()) => {
            let outcome = show(
                cargo(root)
                    .args(["test", "-p", "terrace", "--locked", "--test", "full_disk"])
                    .args(["--", "--test-threads", "1"])
                    .env("TERRACE_LOOP_MOUNT", &mount_point),
            );
            unmount(&mount_point);
            outcome
        }
        Err(outcome) => outcome,
    };
    // Left-overs are in target/, which is nobody's.
    let _ = fs::remove_file(&image);
    let _ = fs::remove_dir(&mount_point);
    outcome
}

fn mount(file_system: &FileSystem, image: &Path, mount_point: &Path) -> Result<(), Outcome> {
    let [mkfs, options @ ..] = file_system.mkfs else {
        return Err(Outcome::Failed("no program makes it".into()));
    };
    if tool(mkfs).arg("-V").output().is_err() {
        return Err(Outcome::Skipped(format!("{mkfs} is not installed")));
    }
    if !succeeds(tool(mkfs).args(options).arg(image)) {
        return Err(Outcome::Failed(format!("{mkfs} failed")));
    }
    if !succeeds(
        tool("mount")
            .args(["-o", "loop"])
            .args([image, mount_point]),
    ) {
        return Err(Outcome::Skipped(
            "mounting a loop device is not allowed here (root and its driver are needed)".into(),
        ));
    }
    Ok(())
}

fn unmount(mount_point: &Path) {
    if !succeeds(tool("umount").arg(mount_point)) {
        println!(
            "{} is still mounted: umount it by hand",
            mount_point.display()
        );
    }
}

/// System tools lie in /usr/sbin, which is not on everybody's PATH.
fn tool(name: &str) -> Command {
    let mut command = Command::new(name);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command
}
