//! The checks of options.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use super::Config;
use crate::error::{Error, Result};

/// The largest value of a store's namespace, in bytes.
const MAX_VALUE_BYTES: u32 = 256 << 20;
/// The longest time of an option: a day.
const MAX_SECONDS: usize = 86_400;
/// The largest number of a namespace; the one above stands for all namespaces.
const MAX_NSID: u32 = u32::MAX - 1;

fn illegal<T>(name: &'static str, what: impl Into<String>) -> Result<T> {
    Err(Error::Option {
        name,
        what: what.into(),
    })
}

fn within(name: &'static str, number: usize, range: RangeInclusive<usize>) -> Result<()> {
    match range.contains(&number) {
        true => Ok(()),
        false => {
            let (from, to) = range.into_inner();
            illegal(name, format!("{number} is not {from} to {to}"))
        }
    }
}

impl Config {
    /// Checks each option.
    ///
    /// # Errors
    /// Names the first that is illegal, and the values that it can have.
    pub fn check(&self) -> Result<()> {
        self.check_place()?;
        self.check_namespaces()?;
        self.check_listen()?;
        within("loops", self.loops, 1..=256)?;
        within("device_depth", self.device_depth, 1..=4096)?;
        within("write_threads", self.write_threads, 1..=64)?;
        within("read_threads", self.read_threads, 1..=64)?;
        within("queue_entries", self.queue_entries.into(), 2..=4096)?;
        within("max_queues", self.max_queues.into(), 1..=1024)?;
        within("max_connections", self.max_connections, 1..=65_536)?;
        within("max_controllers", self.max_controllers, 1..=65_519)?;
        for (name, seconds) in [
            ("handshake_seconds", self.handshake_seconds),
            ("send_seconds", self.send_seconds),
            ("drain_seconds", self.drain_seconds),
        ] {
            let seconds = usize::try_from(seconds).unwrap_or(usize::MAX);
            within(name, seconds, 1..=MAX_SECONDS)?;
        }
        if self.buffer_bytes < 8 << 20 {
            let bytes = self.buffer_bytes;
            return illegal("buffer_bytes", format!("{bytes} is below 8388608 (8 MiB)"));
        }
        self.check_names()
    }

    fn check_place(&self) -> Result<()> {
        match (&self.device, &self.store) {
            (None, None) => illegal(
                "device",
                "name the node's block device or file, or with `store` a store's directory",
            ),
            (Some(_), Some(_)) => illegal(
                "store",
                "there is `device` as well; a server has one of the two",
            ),
            (Some(_), None) if !self.namespaces.is_empty() => illegal(
                "namespace",
                "those of a `device` were made by `terrace node init`; `[[namespace]]` goes with \
                 `store`",
            ),
            (Some(_), None) if self.store_options.is_some() => {
                illegal("store_options", "it goes with `store`, not with `device`")
            }
            _ => Ok(()),
        }
    }

    fn check_namespaces(&self) -> Result<()> {
        let mut known = Vec::new();
        for namespace in &self.namespaces {
            let nsid = namespace.nsid;
            if !(1..=MAX_NSID).contains(&nsid) {
                let what = format!("nsid {nsid} is not 1 to {MAX_NSID}");
                return illegal("namespace", what);
            }
            if known.contains(&nsid) {
                return illegal("namespace", format!("nsid {nsid} is there twice"));
            }
            known.push(nsid);
            let bytes = namespace.max_value_bytes;
            if !(1..=MAX_VALUE_BYTES).contains(&bytes) {
                let what = format!(
                    "max_value_bytes {bytes} of nsid {nsid} is not 1 to {MAX_VALUE_BYTES} (256 MiB)"
                );
                return illegal("namespace", what);
            }
        }
        Ok(())
    }

    fn check_listen(&self) -> Result<()> {
        if self.listen.is_empty() {
            return illegal("listen", "at least one address is expected");
        }
        let is_public = |address: &&SocketAddr| !address.ip().is_loopback();
        let remote = self.metrics.iter().find(is_public);
        if let Some(remote) = remote.filter(|_| !self.allow_remote_metrics) {
            return illegal(
                "metrics",
                format!(
                    "{remote} is not loopback, and whoever reaches it reads figures and names of \
                     hosts; set allow_remote_metrics if that is meant"
                ),
            );
        }
        let proves = self.secrets.is_some() || self.allow_unauthenticated;
        match (self.listen.iter().find(is_public), proves) {
            (Some(public), false) => illegal(
                "listen",
                format!(
                    "{public} is not loopback, and every host that reaches it may read and write; \
                     name a file of secrets, or set allow_unauthenticated if that is meant"
                ),
            ),
            _ => Ok(()),
        }
    }

    fn check_names(&self) -> Result<()> {
        let subsystem = self.subsystem.iter().map(|name| ("subsystem", name));
        let hosts = self.allowed_hosts.iter().flatten();
        for (option, name) in subsystem.chain(hosts.map(|name| ("allowed_hosts", name))) {
            if name.is_empty() || name.len() > terrace_nvmf::wire::fabrics::MAX_NQN_BYTES {
                return illegal(option, format!("{name:?} is not 1 to 223 bytes long"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{DomainOption, NamespaceOptions};

    fn message(text: &str) -> String {
        Config::from_toml(text).unwrap_err().to_string()
    }

    #[test]
    fn all_but_the_device_have_defaults() {
        let config = Config::from_toml("device = \"x\"").unwrap();
        assert_eq!(config, Config::new("x"));
        let config = Config::from_toml("store = \"x\"").unwrap();
        assert_eq!(config, Config::of_store("x"));
        assert!(message("").contains("device: name the node's block device"));
    }

    #[test]
    fn errors_name_the_option_and_its_values() {
        let with = |line: &str| message(&format!("device = \"x\"\n{line}"));
        assert!(with("loops = 0").contains("loops: 0 is not 1 to 256"));
        assert!(with("queue_entries = 1").contains("2 to 4096"));
        assert!(with("lops = 2").contains("unknown field `lops`"));
        assert!(with("listen = []").contains("at least one address"));
        assert!(with("subsystem = \"\"").contains("subsystem: \"\" is not 1 to 223"));
        assert!(with("allowed_hosts = [\"\"]").contains("allowed_hosts: \"\" is not 1 to 223"));
        assert!(with("buffer_bytes = 1").contains("8 MiB"));
        assert!(with("store = \"y\"").contains("store: there is `device` as well"));
        assert!(with("[[namespace]]\nnsid = 1").contains("goes with `store`"));
        assert!(with("store_options = \"y\"").contains("not with `device`"));
    }

    #[test]
    fn a_store_has_namespaces() {
        let text = "store = \"x\"\n[[namespace]]\nnsid = 7\nmax_value_bytes = 4096\n\
                    domain = \"crash-safe\"\n[[namespace]]\nnsid = 9\n";
        let namespaces = Config::from_toml(text).unwrap().namespaces;
        let first = NamespaceOptions {
            nsid: 7,
            max_value_bytes: 4096,
            domain: DomainOption::CrashSafe,
        };
        assert_eq!(namespaces, [first, NamespaceOptions::new(9)]);
        assert_eq!(namespaces[1].max_value_bytes, 32 << 20);
        let with = |lines: &str| message(&format!("store = \"x\"\n[[namespace]]\n{lines}"));
        assert!(with("nsid = 0").contains("nsid 0 is not 1 to 4294967294"));
        assert!(with("nsid = 1\n[[namespace]]\nnsid = 1").contains("nsid 1 is there twice"));
        assert!(with("nsid = 1\nmax_value_bytes = 0").contains("(256 MiB)"));
        assert!(with("nsid = 1\ndomain = \"none\"").contains("`power-safe` or `crash-safe`"));
        assert!(with("nsid = 1\nsize = 9").contains("unknown field `size`"));
        assert!(with("domain = \"crash-safe\"").contains("missing field `nsid`"));
        assert!(message("store = \"x\"\nread_threads = 0").contains("read_threads: 0 is not 1"));
    }

    #[test]
    fn a_public_address_needs_consent() {
        let public = "device = \"x\"\nlisten = [\"0.0.0.0:4420\"]\n";
        assert!(message(public).contains("allow_unauthenticated"));
        Config::from_toml(&format!("{public}allow_unauthenticated = true")).unwrap();
        Config::from_toml(&format!("{public}secrets = \"x\"")).unwrap();
        Config::from_toml("device = \"x\"\nlisten = [\"[::1]:4420\"]").unwrap();
        let remote = "device = \"x\"\nmetrics = \"192.0.2.1:9420\"\n";
        assert!(message(remote).contains("set allow_remote_metrics"));
        Config::from_toml(&format!("{remote}allow_remote_metrics = true")).unwrap();
        Config::from_toml("device = \"x\"\nmetrics = \"127.0.0.1:9420\"").unwrap();
    }
}
