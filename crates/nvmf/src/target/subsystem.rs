//! Subsystems and their namespaces, as a target announces them.

use std::sync::Arc;

use crate::auth::Secrets;

/// The command set of a namespace, with its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Keys and values.
    Keys {
        /// The largest value in bytes.
        max_value_bytes: u32,
        /// The most keys; 0 is no limit.
        max_keys: u32,
    },
    /// Blocks of `1 << block_shift` bytes.
    Blocks {
        /// Size of a block as a power of two.
        block_shift: u8,
    },
}

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// The number by which hosts name it; neither 0 nor FFFFFFFFh.
    pub nsid: u32,
    /// Command set and limits.
    pub kind: Kind,
    /// Size in bytes.
    pub bytes: u64,
    /// Identifier of the namespace in the world, stable over restarts.
    pub uuid: [u8; 16],
}

/// A set of namespaces under one name.
#[derive(Clone, Debug)]
pub struct Subsystem {
    /// The name, such as `nqn.2026-11.org.example:store`.
    pub nqn: String,
    /// Serial number; 20 characters at most count.
    pub serial: String,
    /// Model; 40 characters at most count.
    pub model: String,
    /// Release; 8 characters at most count.
    pub firmware: String,
    /// The namespaces.
    pub namespaces: Vec<Namespace>,
    /// Names of the hosts that may connect; none allows every host.
    pub allowed_hosts: Option<Vec<String>>,
    /// Secrets of the hosts. With them, each queue must authenticate, and a host without a secret may
    /// not connect. None: no authentication.
    pub secrets: Option<Arc<Secrets>>,
}

impl Subsystem {
    /// Returns the namespace with a number.
    pub fn namespace(&self, nsid: u32) -> Option<&Namespace> {
        self.namespaces
            .iter()
            .find(|namespace| namespace.nsid == nsid)
    }

    pub(super) fn allows(&self, host: &str) -> bool {
        let allowed = self.allowed_hosts.as_ref();
        let has_secret = |secrets: &Arc<Secrets>| secrets.get(host).is_some();
        allowed.is_none_or(|hosts| hosts.iter().any(|allowed| allowed == host))
            && self.secrets.as_ref().is_none_or(has_secret)
    }

    pub(super) fn has_blocks(&self) -> bool {
        let is_of_blocks = |namespace: &Namespace| matches!(namespace.kind, Kind::Blocks { .. });
        self.namespaces.iter().any(is_of_blocks)
    }
}

impl Namespace {
    /// Returns the number of the namespace's command set.
    pub(super) fn command_set(&self) -> u8 {
        match self.kind {
            Kind::Keys { .. } => crate::wire::kv::COMMAND_SET,
            Kind::Blocks { .. } => 0,
        }
    }
}
