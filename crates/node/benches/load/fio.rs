//! fio on the same file, where it is installed.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use terrace_node::device::Kind;

use super::raw::Load;
use super::report::Sample;

/// Fields of a line of fio's terse format, version 3, counted from 0: the first of reads, the first of
/// writes, and the places of the others behind these.
const READS: usize = 5;
const WRITES: usize = 46;
const KIB_PER_SECOND: usize = 1;
const RATE: usize = 2;
const PERCENTILES: std::ops::Range<usize> = 12..32;

/// Runs fio with an `io_uring`; none if it is not installed or cannot.
pub fn run(path: &Path, load: &Load) -> Option<Sample> {
    let way = match (load.kind, load.is_random) {
        (Kind::Write, false) => "write",
        (Kind::Write, true) => "randwrite",
        (_, false) => "read",
        (_, true) => "randread",
    };
    let output = Command::new("fio")
        .args(["--name=peer", "--ioengine=io_uring", "--direct=1"])
        .args(["--output-format=terse", "--terse-version=3"])
        .args(["--fallocate=none", "--norandommap", "--randrepeat=0"])
        .args(["--percentile_list=50:99:99.9", "--thread"])
        .arg(format!("--filename={}", path.display()))
        .arg(format!("--rw={way}"))
        .arg(format!("--bs={}", load.bytes))
        .arg(format!("--iodepth={}", load.depth))
        .arg(format!("--offset={}", load.offset))
        .arg(format!("--size={}", load.span()))
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.starts_with("3;"));
    let Some(line) = line.filter(|_| output.status.success()) else {
        println!(
            "fio fails: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        return None;
    };
    let fields: Vec<&str> = line.split(';').collect();
    let first = if load.kind == Kind::Write {
        WRITES
    } else {
        READS
    };
    let number = |at: usize| fields[first + at].parse().unwrap_or(0.0);
    Some(Sample {
        rate: number(RATE),
        bytes_per_second: number(KIB_PER_SECOND) * 1024.0,
        latencies: percentiles(&fields[first..][PERCENTILES]),
    })
}

/// Reads fields such as `99.000000%=1234`, in microseconds.
fn percentiles(fields: &[&str]) -> [Duration; 3] {
    ["50.0", "99.0", "99.9"].map(|share| {
        let mut known = fields.iter().filter_map(|field| field.split_once("%="));
        let found = known.find(|(of, _)| of.starts_with(share));
        let microseconds = found.and_then(|(_, time)| time.parse().ok());
        Duration::from_micros(microseconds.unwrap_or(0))
    })
}
