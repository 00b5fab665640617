//! Arguments of commands about tiers: the directories of a store, and the devices below them.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use terrace_tools::advise::Device;

use super::looks::Report;
use super::nodes::size;
use super::stores::Wait;
use super::upkeep::Maintenance;

#[derive(Debug, Subcommand)]
pub enum Tier {
    /// List the tiers with their limits, files and tables
    #[command(after_help = "\
Tiers stand from the fastest to the slowest. Where each has a profile (`terrace tier probe`), the read
latencies give the order. Else the store's own directory is the first, and the others follow in the order in
which the store got them.

state      open; draining, if tables go elsewhere; lost, if the directory is missing
capacity   maximum bytes of the tables there; `-` for as many as the file system takes
reserve    bytes of the capacity that only flushes and compactions that free space may take
used       bytes of the files there, and those reserved for files in progress
room       bytes that other jobs may still take

A missing tier does not stop the listing. If another process has the store open and lets itself be asked,
the figures are those of that process.

Examples:
  terrace tier list -d ./cities
  terrace tier list -d ./cities --json | jq '.tiers[] | [.name, .room_bytes]'")]
    List(Report),
    /// Add a directory as a tier
    #[command(after_help = "\
The directory is made if it is missing, and must be empty if it is there. It belongs to this store from then
on. The store remembers it: later commands need no option.

New tables of deep levels go there if the faster tiers have no capacity for them, or if `level_tiers` in
--options names the tier. Tables that are there already follow in the background of a process that has the
store open.

--profile says how fast the device is. It takes a report of `terrace tier probe`, as text or as JSON, a file
with the figures alone, or the name of a known device: wd10ezex, 850-pro, qlc, 960-pro, nvme-gen4. A file with
such a name needs a `./`. Where each tier has a profile, the read latencies give the order of the tiers.

If another process has the store open and lets itself be asked, that process adds the tier, and goes on.

Examples:
  terrace tier add -d ./cities disk /mnt/disk/cities
  terrace tier add -d ./cities disk /mnt/disk/cities --capacity 100GiB --reserve 1GiB
  terrace tier add -d ./cities disk /mnt/disk/cities --profile wd10ezex
  terrace tier probe /mnt/disk > disk.txt && terrace tier add -d ./cities disk /mnt/disk/cities --profile disk.txt
  terrace tier list -d ./cities")]
    Add(TierAdd),
    /// Move the tables of a tier to other tiers
    #[command(after_help = "\
New tables do not come to the tier any more. The command waits until its tables are gone, and shows how far
they are. With --no-wait it ends as soon as the store has recorded the drain. Tables then move while a process
has the store open, also after a restart.

The exit code is 5 if no other tier has room for the rest. The tier stays draining then, and its tables move
when there is room.

If another process has the store open and lets itself be asked, that process moves the tables.

Examples:
  terrace tier drain -d ./cities disk
  terrace tier drain -d ./cities disk --no-wait
  terrace tier remove -d ./cities disk")]
    Drain(TierDrain),
    /// Take a tier from a store
    #[command(after_help = "\
The tier must be empty; `terrace tier drain` empties it. The directory may be removed afterwards. Take the
tier out of options, too: an opening makes the tiers that they name.

A tier whose directory is missing cannot be drained. With --accept-loss the store gives it up with the tables
in it, for good. OLDER VERSIONS OF THEIR KEYS, AND KEYS THAT THEY DELETED, MAY SHOW THEN. Look for the
device first: with the tier back, nothing is lost.

If another process has the store open and lets itself be asked, that process removes the tier.

Examples:
  terrace tier remove -d ./cities disk
  terrace tier remove -d ./cities disk --accept-loss")]
    Remove(TierRemove),
    /// Explain the tier of each table
    #[command(after_help = "\
Each line has the level of a table, its number, its size, its tier and the reason. JSON has the tiers that a
new table of its level would ask for room, too, the first one first, as `wanted`.

A store that another process has open is asked there, and explains itself by the options that it has there.
One that nobody has open takes `level_tiers` of its default keyspace from --options.

Examples:
  terrace tier explain -d ./cities
  terrace tier explain -d ./cities --keyspace rivers
  terrace tier explain -d ./cities --json | jq '.keyspaces[].tables[] | [.level, .tier, .reason]'")]
    Explain(TierExplain),
    /// Predict speed, price and wear of a store for each placement of its levels on tiers
    #[command(after_help = "\
Each line is a placement of the levels on tiers: requests a second of threads that always have one under way,
the latency of a request, the price of the stored bytes and of a million requests, and the years until the
first device is worn out at that speed. A million requests pay for the stored bytes by the part of five years that
they take, or for the bytes that they wear out if that is more. A star marks the best placement, `now` the present one.

THE FIGURES ARE PREDICTIONS of a model: by the profiles of the devices, and by the traffic of each level since
the store was opened. The model takes the mix of requests as it is, and a store under full load. Expect errors
of a half, and less between placements that differ in one level. A level that was not written since the opening
has no traffic of compactions: let the store run for a while before. Reads that the kernel's page cache answers
count as reads of the device: with `direct_io` in the options there are none.

By --goal throughput, of placements within 1 % of the fastest the cheapest is the best.

A process that serves the store answers with its counts. Without one, --traffic takes the output of `terrace
stats --json` from such a process. A device is described by one of the presets wd10ezex, 850-pro, qlc, 960-pro
and nvme-gen4, a profile also by a file with the figures of `terrace tier probe`.

Examples:
  terrace tier advise -d ./cities
  terrace tier advise -d ./cities --profile store=nvme-gen4 --device disk=wd10ezex:1TiB
  terrace tier advise -d ./cities --device flash=qlc:512GiB:0.05 --threads 64 --goal price
  terrace tier advise --traffic monday.json --profile store=./probed.toml
  terrace tier advise -d ./cities --json | jq '.placements[] | [.levels, .requests_per_second]'")]
    Advise(TierAdvise),
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
pub struct TierAdd {
    #[command(flatten)]
    pub maintenance: Maintenance,
    /// The name of the new tier: 1 to 64 letters, digits, '-', '_' and '.'
    pub name: String,
    /// Its directory, on a device of its own
    pub directory: PathBuf,
    /// Maximum size of the tables there [default: as much as the file system takes]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub capacity: Option<u64>,
    /// Part of the capacity that is kept for flushes, and for compactions that free space
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = size)]
    #[arg(requires = "capacity")]
    pub reserve: u64,
    /// Speed of its device: the name of a known one, or a file with a report of `terrace tier probe`
    #[arg(long, value_name = "FILE|PRESET")]
    pub profile: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct TierDrain {
    #[command(flatten)]
    pub maintenance: Maintenance,
    /// The name of the tier
    pub name: String,
    /// Do not wait until the tables are gone
    #[arg(long)]
    pub no_wait: bool,
}

#[derive(Debug, Args)]
pub struct TierRemove {
    #[command(flatten)]
    pub maintenance: Maintenance,
    /// The name of the tier
    pub name: String,
    /// Give up a missing tier with the tables in it; keys that they deleted may be back
    #[arg(long)]
    pub accept_loss: bool,
}

#[derive(Debug, Args)]
pub struct TierExplain {
    #[command(flatten)]
    pub maintenance: Maintenance,
    /// Only this keyspace
    #[arg(long, value_name = "NAME")]
    pub keyspace: Option<String>,
}

#[derive(Debug, Args)]
pub struct TierAdvise {
    /// The store's directory; not needed with --traffic
    #[arg(short = 'd', long = "store", env = "TERRACE_STORE", value_name = "DIR")]
    #[arg(required_unless_present = "traffic")]
    pub path: Option<PathBuf>,
    /// The directory of its arenas, if that is not the store's own
    #[arg(long, env = "TERRACE_REGION_DIR", value_name = "DIR")]
    pub region_dir: Option<PathBuf>,
    #[command(flatten)]
    pub wait: Wait,
    /// Statistics that `terrace stats --json` printed, in place of the store's
    #[arg(long, value_name = "FILE")]
    pub traffic: Option<PathBuf>,
    /// Profile of a tier, in place of its own: a preset or a file; may be repeated
    #[arg(long = "profile", value_name = "TIER=PRESET|FILE")]
    pub profiles: Vec<String>,
    /// A device that the store does not have; may be repeated
    #[arg(long = "device", value_name = "NAME=PRESET:CAPACITY[:PRICE_PER_GB]")]
    pub devices: Vec<Device>,
    /// Number of threads that send requests
    #[arg(long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub threads: u32,
    /// Number of processors [default: those of this machine]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub processors: Option<u32>,
    /// Time of a request on a processor [default: as measured, with waits for one]
    #[arg(long, value_name = "MICROSECONDS", value_parser = cost)]
    pub cpu_us: Option<f64>,
    /// The property of the best placement
    #[arg(long, value_enum, default_value_t)]
    pub goal: AdvisedGoal,
    /// Let a level lie on a faster tier than the level above
    #[arg(long)]
    pub any_order: bool,
    /// Number of lines, the best and the present placement aside
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
    /// Print a JSON object, with all placements
    #[arg(long)]
    pub json: bool,
}

/// The property by which a placement is the best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum AdvisedGoal {
    /// The most requests a second
    #[default]
    Throughput,
    /// The lowest price of a million requests
    Price,
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
