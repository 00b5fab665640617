//! The file of options.

mod check;
mod namespace;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use terrace_nvmf::server::Limits;
use terrace_nvmf::target::Settings;

pub use self::namespace::{DomainOption, NamespaceOptions};
use crate::error::{Error, Result};
use terrace_node::toml_refusal;

/// The options of a server. Each has a default but `device` and `store`, of which there is one.
///
/// ```
/// let config = terrace_node_server::Config::from_toml(r#"
///     device = "/dev/nvme1n1"
///     listen = ["127.0.0.1:4420"]
/// "#)?;
/// assert_eq!(config.loops, 1);
/// # Ok::<(), terrace_node_server::Error>(())
/// ```
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The node's block device or file, made by `terrace node init`.
    #[serde(default)]
    pub device: Option<PathBuf>,
    /// The directory of a store, for the LSM engine; it is made if it is absent.
    #[serde(default)]
    pub store: Option<PathBuf>,
    /// With `store`: its namespaces. Without any there is number 1, with values of up to 32 MiB that
    /// survive power cuts.
    #[serde(default, rename = "namespace")]
    pub namespaces: Vec<NamespaceOptions>,
    /// With `store`: a file of the store's own options, as `terrace options` prints them.
    #[serde(default)]
    pub store_options: Option<PathBuf>,
    /// With `store`: threads that change keys, 1 to 64.
    #[serde(default = "default_write_threads")]
    pub write_threads: usize,
    /// With `store`: threads that read, 1 to 64.
    #[serde(default = "default_read_threads")]
    pub read_threads: usize,
    /// Addresses to listen on.
    #[serde(default = "default_listen")]
    pub listen: Vec<SocketAddr>,
    /// A file of secrets, by which hosts prove their names (DH-HMAC-CHAP); its owner alone may read it.
    #[serde(default)]
    pub secrets: Option<PathBuf>,
    /// Allows addresses other than loopback though hosts prove nothing.
    #[serde(default)]
    pub allow_unauthenticated: bool,
    /// The address of metrics and status over HTTP; there are none without it.
    #[serde(default)]
    pub metrics: Option<SocketAddr>,
    /// Allows that `metrics` is not loopback: every program that reaches it reads figures and names of hosts.
    #[serde(default)]
    pub allow_remote_metrics: bool,
    /// Name of the subsystem; the default has the node's UUID in it.
    #[serde(default)]
    pub subsystem: Option<String>,
    /// Names of the hosts that may connect; all may without it.
    #[serde(default)]
    pub allowed_hosts: Option<Vec<String>>,
    /// Event loops of each address, with a thread and a queue of the device each.
    #[serde(default = "one")]
    pub loops: usize,
    /// With `device`: requests that a loop has at the device at a time.
    #[serde(default = "default_depth")]
    pub device_depth: usize,
    /// Memory for values under way of a loop, in bytes.
    #[serde(default = "default_buffer_bytes")]
    pub buffer_bytes: usize,
    /// Memory for the data of capsules of all queues, in bytes.
    #[serde(default = "default_capsule_bytes")]
    pub capsule_bytes: usize,
    /// The most connections of a loop.
    #[serde(default = "default_connections")]
    pub max_connections: usize,
    /// The most controllers, which is of hosts with an admin queue.
    #[serde(default = "default_connections")]
    pub max_controllers: usize,
    /// The most I/O queues of a controller.
    #[serde(default = "default_queues")]
    pub max_queues: u16,
    /// The most entries of a queue, 2 to 4096.
    #[serde(default = "default_entries")]
    pub queue_entries: u16,
    /// Seconds in which a connection becomes a queue.
    #[serde(default = "ten")]
    pub handshake_seconds: u64,
    /// Seconds in which a host takes bytes that wait for it.
    #[serde(default = "default_send_seconds")]
    pub send_seconds: u64,
    /// Seconds that commands under way get when the server stops.
    #[serde(default = "ten")]
    pub drain_seconds: u64,
}

fn default_listen() -> Vec<SocketAddr> {
    vec![SocketAddr::from(([127, 0, 0, 1], 4420))]
}

fn default_write_threads() -> usize {
    2
}

fn default_read_threads() -> usize {
    4
}

fn one() -> usize {
    1
}

fn ten() -> u64 {
    10
}

fn default_depth() -> usize {
    128
}

fn default_buffer_bytes() -> usize {
    64 << 20
}

fn default_capsule_bytes() -> usize {
    256 << 20
}

fn default_connections() -> usize {
    1024
}

fn default_queues() -> u16 {
    64
}

fn default_entries() -> u16 {
    128
}

fn default_send_seconds() -> u64 {
    15
}

impl Config {
    /// Returns the options of a server for a device, all others at their defaults.
    pub fn new(device: impl Into<PathBuf>) -> Self {
        Config {
            device: Some(device.into()),
            ..Config::empty()
        }
    }

    /// Returns the options of a server for the store in a directory, all others at their defaults.
    pub fn of_store(directory: impl Into<PathBuf>) -> Self {
        Config {
            store: Some(directory.into()),
            ..Config::empty()
        }
    }

    /// Returns the defaults.
    fn empty() -> Self {
        Config {
            device: None,
            store: None,
            namespaces: Vec::new(),
            store_options: None,
            write_threads: default_write_threads(),
            read_threads: default_read_threads(),
            listen: default_listen(),
            secrets: None,
            allow_unauthenticated: false,
            metrics: None,
            allow_remote_metrics: false,
            subsystem: None,
            allowed_hosts: None,
            loops: one(),
            device_depth: default_depth(),
            buffer_bytes: default_buffer_bytes(),
            capsule_bytes: default_capsule_bytes(),
            max_connections: default_connections(),
            max_controllers: default_connections(),
            max_queues: default_queues(),
            queue_entries: default_entries(),
            handshake_seconds: ten(),
            send_seconds: default_send_seconds(),
            drain_seconds: ten(),
        }
    }

    /// Reads options.
    ///
    /// # Errors
    /// The text is no TOML, has an unknown option, or one with an illegal value.
    pub fn from_toml(text: &str) -> Result<Self> {
        Config::parse(text, Path::new("options"))
    }

    /// Reads a file of options.
    ///
    /// # Errors
    /// As [`Config::from_toml`], and if the file cannot be read.
    pub fn from_file(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| Error::File {
            path: path.to_owned(),
            what: error.to_string(),
        })?;
        Config::parse(&text, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self> {
        let config: Config = toml::from_str(text).map_err(|error| Error::File {
            path: path.to_owned(),
            what: toml_refusal(text, &error),
        })?;
        config.check()?;
        Ok(config)
    }

    pub(crate) fn settings(&self, max_transfer_shift: u8) -> Settings {
        Settings {
            queue_entries: self.queue_entries,
            max_queues: self.max_queues,
            max_transfer_shift,
            capsule_budget_bytes: self.capsule_bytes,
            handshake: Duration::from_secs(self.handshake_seconds),
            ..Settings::default()
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            max_connections: self.max_connections,
            send_timeout: Duration::from_secs(self.send_seconds),
            drain: Duration::from_secs(self.drain_seconds),
        }
    }
}
