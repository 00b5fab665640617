//! Commands on a storage node's device.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use terrace_node::format::layout::NamespaceRequest;
use terrace_node::format::namespace::{Domain, Kind, WhenFull};

use super::policies::number;

#[derive(Debug, Subcommand)]
pub enum Node {
    /// Make an empty node on a device or a file
    #[command(after_help = "\
ALL DATA ON THE DEVICE IS LOST. A device that is mounted or otherwise in use is refused. So is one
that holds something known (a file system, a partition table, a node), unless --force is given.

A namespace is its name, then any of these, with commas between:
  kind=keys              it holds keys with values (the default)
  kind=blocks            it holds blocks of 4,096 bytes, read and written by number
  domain=power-safe      an acknowledged store survives a power cut (the default)
  domain=crash-safe      an acknowledged store survives the death of the process
  when-full=refuse       a store into a full namespace fails (the default)
  when-full=evict        keys that were not used for long make room
  bytes=SIZE             its part of the device; one namespace may leave this out and gets the rest
  max-keys=N             the most keys [default: one for each 4 KiB of data]
  max-value-bytes=SIZE   the largest value, up to 256MiB [default: 32MiB]
Without --namespace there is one, called `default`, over all of the device.

A size is in bytes, or has one of the suffixes KiB, MiB, GiB and TiB.

Examples:
  terrace node init /dev/nvme1n1
  terrace node init ./node.img --size 4GiB
  terrace node init /dev/nvme1n1 --namespace users,bytes=200GiB \\
      --namespace cache,domain=crash-safe,when-full=evict")]
    Init(NodeInit),
    /// Show the namespaces of a node, or the state of its server
    #[command(after_help = "\
With a path the node is recovered in memory only: nothing on the device is changed. No other process
may have it open meanwhile.

--server asks a running server for its hosts, namespaces and health. The address is that of its
option `metrics`. The exit code is 6 if it does not answer, and 3 if it is not healthy.

Examples:
  terrace node status /dev/nvme1n1
  terrace node status --server 127.0.0.1:9420
  terrace node status --server http://127.0.0.1:9420 --json | jq '.hosts[].nqn'
  terrace node status ./node.img --json | jq '.namespaces[] | [.name, .keys, .free_bytes]'")]
    Status(NodeStatus),
    /// Read every value and compare it with its checksum
    #[command(after_help = "\
Nothing is changed. The exit code is 3 if anything is wrong. A change that a crash cut short is
listed, and no error: its key has the value before.

Examples:
  terrace node verify /dev/nvme1n1
  terrace node verify ./node.img --json | jq .damaged")]
    Verify(NodeReport),
    /// Recover a node after a crash, or rebuild its index from its values
    #[command(after_help = "\
A node recovers by itself when it is opened; this does the same, and shows the result.

With --scan the index is rebuilt from the values on the device, where a checkpoint or the journal is
damaged. The newest whole value of each key is taken.

KEYS THAT WERE DELETED MAY BE THERE AGAIN with --scan, for a delete leaves no trace in the values.
Keys whose newest value is damaged have an older one, if there is any. The last small values (64 KiB
at most) may be in the journal alone, and are lost with it. Copy the device first.

Examples:
  terrace node recover /dev/nvme1n1
  terrace node recover /dev/nvme1n1 --scan
  terrace node recover ./node.img --scan --json | jq .deleted_keys_may_be_back")]
    Recover(NodeRecover),
    /// Serve a node to hosts by NVMe over TCP
    #[command(after_help = "\
Any host that speaks NVMe/TCP can connect: Linux by `nvme connect`, SPDK, `terrace kv`. Namespaces of
keys speak the NVMe Key Value command set. The server ends in order at SIGTERM or SIGINT.

THE ALLOW-LIST IS OF NAMES, AND A NAME PROVES NOTHING. With --secrets each host proves its name by
DH-HMAC-CHAP. Without it the server listens on loopback alone, unless --allow-unauthenticated says
that everybody who reaches the address may read and write. Data are not encrypted in either case.

With --store the LSM engine serves keys from a store's directory: for more keys than an index in
memory allows, and for lists in the order of the keys' bytes. Its namespaces stand in the file of
options; without any there is number 1. docs/node.md lists the options.

Standard output has the addresses and namespaces. Standard error has a line for each host that comes,
goes or is refused, and for each failure of the device. --metrics serves /metrics for Prometheus and
/status, which `terrace node status --server` prints.

A line of the file of secrets has the name of a host, its secret as `nvme gen-dhchap-key` writes it,
and perhaps the secret by which the node proves itself. The file's mode is 0600.

Examples:
  terrace node serve ./node.img
  terrace node serve /dev/nvme1n1 --listen 192.0.2.7:4420 --secrets /etc/terrace/secrets
  terrace node serve --store /srv/keys --metrics 127.0.0.1:9420
  terrace node serve --config /etc/terrace/node.toml")]
    Serve(NodeServe),
}

#[derive(Debug, Args)]
pub struct NodeInit {
    /// The block device or file
    pub path: PathBuf,
    /// Make a file of this size, filled with zeros; it is rounded down to blocks of 4,096 bytes
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub size: Option<u64>,
    /// A namespace and its options; may be given up to 16 times
    #[arg(long = "namespace", value_name = "NAME[,OPTION=VALUE]...", value_parser = namespace)]
    pub namespaces: Vec<NamespaceRequest>,
    /// Overwrite the present contents
    #[arg(long)]
    pub force: bool,
    /// Print the result as a JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct NodeReport {
    /// The block device or file
    pub path: PathBuf,
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct NodeStatus {
    /// The block device or file
    #[arg(required_unless_present = "server")]
    pub path: Option<PathBuf>,
    /// Ask the server at this address, its option `metrics`
    #[arg(long, value_name = "IP:PORT|URL", conflicts_with = "path")]
    pub server: Option<String>,
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct NodeRecover {
    #[command(flatten)]
    pub report: NodeReport,
    /// Rebuild the index from the values; deleted keys may be back
    #[arg(long)]
    pub scan: bool,
}

#[derive(Debug, Args)]
pub struct NodeServe {
    /// The block device or file [default: `device` in the file of options]
    #[arg(required_unless_present_any = ["config", "store"])]
    pub path: Option<PathBuf>,
    /// Serve a store in this directory by the LSM engine, in place of a device; it is made if absent
    #[arg(long, value_name = "DIR", conflicts_with = "path")]
    pub store: Option<PathBuf>,
    /// A TOML file of options; those given here replace its own
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// An address to listen on; may be given several times [default: 127.0.0.1:4420]
    #[arg(long, value_name = "IP:PORT")]
    pub listen: Vec<SocketAddr>,
    /// The name of the subsystem [default: one with the node's UUID]
    #[arg(long, value_name = "NQN")]
    pub subsystem: Option<String>,
    /// The name of a host that may connect; may be given several times [default: every host]
    #[arg(long = "allow-host", value_name = "NQN")]
    pub allowed_hosts: Vec<String>,
    /// A file of secrets, by which hosts prove their names
    #[arg(long, value_name = "FILE")]
    pub secrets: Option<PathBuf>,
    /// Answer with metrics and status over HTTP at this address [default: none]
    #[arg(long, value_name = "IP:PORT")]
    pub metrics: Option<SocketAddr>,
    /// Event loops of each address, each with a thread [default: 1]
    #[arg(long, value_name = "N")]
    pub loops: Option<usize>,
    /// Listen on an address that others reach although hosts prove nothing
    #[arg(long)]
    pub allow_unauthenticated: bool,
}

/// Reads a number of bytes, with or without a suffix.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let with_unit = || {
        let unit_at = text.rfind(|c: char| c.is_ascii_digit())? + 1;
        let (digits, unit) = text.split_at_checked(unit_at)?;
        let unit_bytes = terrace_tools::options::size(&format!("1{unit}"))?;
        number(digits).ok()?.checked_mul(unit_bytes)
    };
    with_unit()
        .ok_or_else(|| "a size is expected, such as 1073741824, 1e9, 512MiB or 2GiB".to_owned())
}

/// Reads a namespace as it is typed.
fn namespace(text: &str) -> Result<NamespaceRequest, String> {
    let mut parts = text.split(',');
    let mut request = NamespaceRequest::new(parts.next().unwrap_or_default());
    let mut known: Vec<&str> = Vec::new();
    for part in parts {
        let (option, value) = part
            .split_once('=')
            .ok_or_else(|| format!("{part:?} is not OPTION=VALUE"))?;
        if known.contains(&option) {
            return Err(format!("{option} is given twice"));
        }
        known.push(option);
        set(&mut request, option, value)?;
    }
    Ok(request)
}

fn set(request: &mut NamespaceRequest, option: &str, value: &str) -> Result<(), String> {
    let named = |error: String| format!("{option}: {error}");
    match option {
        "kind" => {
            request.kind = match value {
                "keys" => Kind::Keys,
                "blocks" => Kind::Blocks,
                _ => return Err(named("keys or blocks is expected".to_owned())),
            }
        }
        "domain" => {
            request.domain = match value {
                "power-safe" => Domain::PowerSafe,
                "crash-safe" => Domain::CrashSafe,
                _ => return Err(named("power-safe or crash-safe is expected".to_owned())),
            }
        }
        "when-full" => {
            request.when_full = match value {
                "refuse" => WhenFull::Refuse,
                "evict" => WhenFull::Evict,
                _ => return Err(named("refuse or evict is expected".to_owned())),
            }
        }
        "bytes" => request.bytes = Some(size(value).map_err(named)?),
        "max-keys" => request.max_keys = Some(number(value).map_err(named)?),
        "max-value-bytes" => {
            let bytes = size(value).map_err(named)?;
            request.max_value_bytes =
                u32::try_from(bytes).map_err(|_| named("256MiB is the most".to_owned()))?;
        }
        _ => {
            return Err(format!(
                "{option:?} is no option; there are kind, domain, when-full, bytes, max-keys and \
                 max-value-bytes"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_suffixes() {
        let sizes =
            ["4096", "1e6", "2KiB", "3 MiB", "1GiB", "1TiB"].map(|text| size(text).unwrap());
        assert_eq!(sizes, [4096, 1_000_000, 2048, 3 << 20, 1 << 30, 1 << 40]);
        for wrong in ["", "KiB", "1MB", "-1", "1.5GiB", "99999999TiB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_namespace_has_options() {
        let text =
            "cache,domain=crash-safe,when-full=evict,bytes=1MiB,max-keys=1e3,max-value-bytes=9";
        let request = namespace(text).unwrap();
        let expected = NamespaceRequest {
            domain: Domain::CrashSafe,
            when_full: WhenFull::Evict,
            bytes: Some(1 << 20),
            max_keys: Some(1000),
            max_value_bytes: 9,
            ..NamespaceRequest::new("cache")
        };
        assert_eq!(request, expected);
        assert_eq!(namespace("a").unwrap(), NamespaceRequest::new("a"));
        for wrong in [
            "a,b",
            "a,domain=x",
            "a,bytes=1,bytes=2",
            "a,max-value-bytes=5GiB",
        ] {
            assert!(namespace(wrong).is_err(), "{wrong}");
        }
    }
}
