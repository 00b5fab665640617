//! The same file system without a node: fio where it is installed, and one `fdatasync` a write.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// The place of writes among the fields of fio's terse format, version 3; reads come first.
const READS: usize = 5;
const WRITES: usize = 46;
/// The place of operations a second behind these.
const RATE: usize = 2;

/// Returns the operations a second of fio at random places of a file; none if it is not installed.
pub fn fio(path: &Path, is_write: bool, bytes: usize, depth: usize, seconds: f64) -> Option<f64> {
    let way = if is_write { "randwrite" } else { "randread" };
    let output = Command::new("fio")
        .args(["--name=peer", "--ioengine=io_uring", "--direct=1"])
        .args(["--output-format=terse", "--terse-version=3"])
        .args(["--fallocate=none", "--norandommap", "--randrepeat=0"])
        .args(["--time_based", "--thread", "--rw", way])
        .arg(format!("--filename={}", path.display()))
        .arg(format!("--bs={bytes}"))
        .arg(format!("--iodepth={depth}"))
        .arg(format!("--runtime={}ms", (seconds * 1000.0) as u64))
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.starts_with("3;"))?;
    let first = if is_write { WRITES } else { READS };
    line.split(';').nth(first + RATE)?.parse().ok()
}

/// Returns the writes of 100 bytes a second, with an `fdatasync` each.
pub fn synced_writes(path: &Path, seconds: f64) -> f64 {
    let file = File::options().write(true).open(path).expect("the file");
    let (began, mut count) = (Instant::now(), 0_u64);
    while began.elapsed().as_secs_f64() < seconds {
        let at = count % 10_000 * 100;
        file.write_all_at(&[7; 100], at).expect("room");
        file.sync_data().expect("a disk that works");
        count += 1;
    }
    count as f64 / began.elapsed().as_secs_f64()
}
