//! The full-disk test on a real file system: a small ext4 in an image file, mounted through a
//! loop device, which needs root and a kernel that lets it.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Outcome;
use crate::process::{cargo, show, succeeds};

const IMAGE_BYTES: u64 = 96 << 20;

pub fn run(root: &Path) -> Outcome {
    let image = root.join("target/full-disk.ext4");
    let mount_point = root.join("target/full-disk");
    let created = fs::create_dir_all(&mount_point)
        .and_then(|()| fs::File::create(&image))
        .and_then(|file| file.set_len(IMAGE_BYTES));
    if let Err(error) = created {
        return Outcome::Failed(format!("{}: {error}", image.display()));
    }
    let outcome = match mount(&image, &mount_point) {
        Ok(()) => {
            let outcome = show(
                cargo(root)
                    .args(["test", "-p", "terrace", "--locked", "--test", "full_disk"])
                    .env("TERRACE_LOOP_MOUNT", &mount_point),
            );
            unmount(&mount_point);
            outcome
        }
        Err(why) => Outcome::Skipped(why),
    };
    // Left-overs are in target/, which is nobody's.
    let _ = fs::remove_file(&image);
    let _ = fs::remove_dir(&mount_point);
    outcome
}

fn mount(image: &Path, mount_point: &Path) -> Result<(), String> {
    if !succeeds(tool("mkfs.ext4").args(["-q", "-F"]).arg(image)) {
        return Err("mkfs.ext4 is not installed or failed".into());
    }
    if !succeeds(
        tool("mount")
            .args(["-o", "loop"])
            .args([image, mount_point]),
    ) {
        return Err("mounting a loop device is not allowed here (root is needed)".into());
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
