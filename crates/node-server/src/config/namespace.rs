//! The namespaces of a store.

use serde::Deserialize;
use terrace_node::format::namespace::Domain;
use terrace_node::lsm::LsmNamespace;

/// A `[[namespace]]` of a file of options.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct NamespaceOptions {
    /// Its number, 1 to 2^32 - 2. It also names its keyspaces in the store.
    pub nsid: u32,
    /// The largest value in bytes, 1 byte to 256 MiB.
    #[serde(default = "default_value_bytes")]
    pub max_value_bytes: u32,
    /// The failures that an acknowledged change survives: `"power-safe"` or `"crash-safe"`.
    #[serde(default)]
    pub domain: DomainOption,
}

/// The failures that an acknowledged change survives.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum DomainOption {
    /// A power cut.
    #[default]
    PowerSafe,
    /// The death of the process.
    CrashSafe,
}

fn default_value_bytes() -> u32 {
    LsmNamespace::new(1).max_value_bytes
}

impl NamespaceOptions {
    /// Describes a power-safe namespace with values of up to 32 MiB.
    pub fn new(nsid: u32) -> Self {
        NamespaceOptions {
            nsid,
            max_value_bytes: default_value_bytes(),
            domain: DomainOption::default(),
        }
    }

    pub(crate) fn to_engine(&self) -> LsmNamespace {
        LsmNamespace {
            nsid: self.nsid,
            domain: match self.domain {
                DomainOption::PowerSafe => Domain::PowerSafe,
                DomainOption::CrashSafe => Domain::CrashSafe,
            },
            max_value_bytes: self.max_value_bytes,
        }
    }
}
