//! The file of options.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use terrace_nvmf::server::Limits;
use terrace_nvmf::target::Settings;

use crate::error::{Error, Result};

/// The options of a server. Each has a default but the device.
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
    pub device: PathBuf,
    /// Addresses to listen on.
    #[serde(default = "default_listen")]
    pub listen: Vec<SocketAddr>,
    /// A file of secrets, by which hosts prove their names (DH-HMAC-CHAP); its owner alone may read it.
    #[serde(default)]
    pub secrets: Option<PathBuf>,
    /// Allows addresses other than loopback though hosts prove nothing.
    #[serde(default)]
    pub allow_unauthenticated: bool,
    /// Name of the subsystem; the default has the node's UUID in it.
    #[serde(default)]
    pub subsystem: Option<String>,
    /// Names of the hosts that may connect; all may without it.
    #[serde(default)]
    pub allowed_hosts: Option<Vec<String>>,
    /// Event loops, each with a thread and a queue of the device.
    #[serde(default = "one")]
    pub loops: usize,
    /// Requests that a loop has at the device at a time.
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

/// The namespaces that a server has.
pub type Namespaces = Vec<terrace_nvmf::target::Namespace>;

fn default_listen() -> Vec<SocketAddr> {
    vec![SocketAddr::from(([127, 0, 0, 1], 4420))]
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
            device: device.into(),
            listen: default_listen(),
            secrets: None,
            allow_unauthenticated: false,
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
            what: error.to_string(),
        })?;
        config.check()?;
        Ok(config)
    }

    /// Checks each option.
    ///
    /// # Errors
    /// Names the first that is illegal, and the values that it can have.
    pub fn check(&self) -> Result<()> {
        let illegal = |name, what: String| Err(Error::Option { name, what });
        if self.listen.is_empty() {
            return illegal("listen", "at least one address is expected".to_owned());
        }
        let is_public = |address: &&SocketAddr| !address.ip().is_loopback();
        let proves = self.secrets.is_some() || self.allow_unauthenticated;
        if let (Some(public), false) = (self.listen.iter().find(is_public), proves) {
            return illegal(
                "listen",
                format!(
                    "{public} is not loopback, and every host that reaches it may read and write; \
                     name a file of secrets, or set allow_unauthenticated if that is meant"
                ),
            );
        }
        if !(1..=256).contains(&self.loops) {
            return illegal("loops", format!("{} is not 1 to 256", self.loops));
        }
        if !(1..=4096).contains(&self.device_depth) {
            return illegal(
                "device_depth",
                format!("{} is not 1 to 4096", self.device_depth),
            );
        }
        if self.buffer_bytes < 8 << 20 {
            return illegal(
                "buffer_bytes",
                format!("{} is below 8388608 (8 MiB)", self.buffer_bytes),
            );
        }
        if !(2..=4096).contains(&self.queue_entries) {
            return illegal(
                "queue_entries",
                format!("{} is not 2 to 4096", self.queue_entries),
            );
        }
        if !(1..=1024).contains(&self.max_queues) {
            return illegal(
                "max_queues",
                format!("{} is not 1 to 1024", self.max_queues),
            );
        }
        let names = self
            .subsystem
            .iter()
            .chain(self.allowed_hosts.iter().flatten());
        for name in names {
            if name.is_empty() || name.len() > terrace_nvmf::wire::fabrics::MAX_NQN_BYTES {
                return illegal("subsystem", format!("{name:?} is not 1 to 223 bytes long"));
            }
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        Config::from_toml(text).unwrap_err().to_string()
    }

    #[test]
    fn all_but_the_device_have_defaults() {
        let config = Config::from_toml("device = \"x\"").unwrap();
        assert_eq!(config, Config::new("x"));
        assert!(message("").contains("device"));
    }

    #[test]
    fn errors_name_the_option_and_its_values() {
        let with = |line: &str| message(&format!("device = \"x\"\n{line}"));
        assert!(with("loops = 0").contains("loops: 0 is not 1 to 256"));
        assert!(with("queue_entries = 1").contains("2 to 4096"));
        assert!(with("lops = 2").contains("unknown field `lops`"));
        assert!(with("listen = []").contains("at least one address"));
        assert!(with("subsystem = \"\"").contains("1 to 223"));
        assert!(with("buffer_bytes = 1").contains("8 MiB"));
    }

    #[test]
    fn a_public_address_needs_consent() {
        let public = "device = \"x\"\nlisten = [\"0.0.0.0:4420\"]\n";
        assert!(message(public).contains("allow_unauthenticated"));
        Config::from_toml(&format!("{public}allow_unauthenticated = true")).unwrap();
        Config::from_toml(&format!("{public}secrets = \"x\"")).unwrap();
        Config::from_toml("device = \"x\"\nlisten = [\"[::1]:4420\"]").unwrap();
    }
}
