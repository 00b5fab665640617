//! Arguments of commands about tiers: the directories of a store, and the devices below them.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::nodes::size;

#[derive(Debug, Subcommand)]
pub enum Tier {
    /// Measure the speed of the device below a directory
    #[command(after_help = "\
A file of random bytes is written to the directory past the page cache, read in order and at
random, and removed. Nothing else in the directory is touched. SIGKILL leaves the file
terrace-probe-PID.tmp; remove it. Let nothing else use the device meanwhile, or the figures are
those of a busy device.

The figures are medians of up to 16 parts of the file, or up to 8 rounds of requests. The least
and the greatest stand beside them. They go into the options of a store as TOML.

sequential write     writes of 1 MiB, with a sync behind each part of the file
sequential read      reads of 1 MiB, one at a time
random read          reads of 4 KiB, one at a time, and 32 at a time by as many threads
sync                 a sync after a write of 4 KiB

A large file shows more of a device: a disk has its long ways, and flash leaves its quick cache.
On tmpfs, or where the file system has no direct I/O, the figures are those of memory, and no
profile is printed.

Examples:
  terrace tier probe /mnt/fast
  terrace tier probe /mnt/disk --size 64GiB --seconds 600
  terrace tier probe /mnt/fast --price-per-gb 0.10 --endurance-writes 600
  terrace tier probe /mnt/fast --json | jq .profile")]
    Probe(TierProbe),
}

#[derive(Debug, Args)]
pub struct TierProbe {
    /// A directory on the device
    pub path: PathBuf,
    /// Maximum size of the file, from 1MiB on; it takes at most half of the free space
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = file_size)]
    pub size: u64,
    /// Maximum time
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    pub seconds: f64,
    /// Price of 10^9 bytes, in the currency of the other tiers [default: unknown]
    #[arg(long, value_name = "PRICE", value_parser = cost)]
    pub price_per_gb: Option<f64>,
    /// Times that the device may be written in its life, as its maker says [default: unknown]
    #[arg(long, value_name = "N", value_parser = cost)]
    pub endurance_writes: Option<f64>,
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

fn file_size(text: &str) -> Result<u64, String> {
    let bytes = size(text).ok().filter(|bytes| *bytes >= 1 << 20);
    bytes.ok_or_else(|| "a size from 1MiB on is expected, such as 256MiB or 4GiB".to_owned())
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 0.1 to 86400 is expected".to_owned()),
    }
}

fn cost(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(cost) if (0.0..=1e12).contains(&cost) => Ok(cost),
        _ => Err("a number from 0 to 1e12 is expected".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_beyond_their_range_are_refused() {
        assert_eq!(file_size("1MiB"), Ok(1 << 20));
        assert_eq!(file_size("2e9"), Ok(2_000_000_000));
        for wrong in ["0", "1048575", "512KiB", "x"] {
            assert!(file_size(wrong).is_err(), "{wrong}");
        }
        assert_eq!((seconds("0.1"), seconds("86400")), (Ok(0.1), Ok(86_400.0)));
        for wrong in ["0", "0.09", "-1", "NaN", "inf", "86401", "1s"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
        assert_eq!((cost("0"), cost("0.045")), (Ok(0.0), Ok(0.045)));
        for wrong in ["-0.1", "NaN", "inf", "1e13", "$1"] {
            assert!(cost(wrong).is_err(), "{wrong}");
        }
    }
}
