//! The subsystem that a node is to its hosts.

use std::sync::Arc;

use terrace_node::block::BLOCK_BYTES;
use terrace_node::engine::NamespaceInfo;
use terrace_node::format::namespace::Kind;
use terrace_nvmf::target::{Kind as WireKind, Namespace, Subsystem};

use crate::config::Config;
use crate::error::Result;
use crate::opened::Opened;
use crate::secrets::read_secrets;

/// Returns the node's subsystem. Sizes of namespaces are as they are now.
///
/// # Errors
/// The file of secrets is refused, or the node cannot describe itself.
pub(crate) fn subsystem(node: &dyn Opened, config: &Config) -> Result<Subsystem> {
    let nqn = config.subsystem.clone();
    let secrets = config.secrets.as_deref().map(read_secrets).transpose()?;
    let uuid = node.uuid()?;
    Ok(Subsystem {
        nqn: nqn.unwrap_or_else(|| default_nqn(&uuid)),
        serial: hex(&uuid[..10]),
        model: "Terrace storage node".to_owned(),
        firmware: env!("CARGO_PKG_VERSION").to_owned(),
        namespaces: node.namespaces()?.iter().map(namespace).collect(),
        allowed_hosts: config.allowed_hosts.clone(),
        secrets: secrets.map(Arc::new),
    })
}

/// Returns the largest transfer as a power of two: it holds the largest value of all namespaces, and
/// a mebibyte of blocks.
pub(crate) fn max_transfer_shift(subsystem: &Subsystem) -> u8 {
    let namespaces = subsystem.namespaces.iter();
    let largest = namespaces.map(|namespace| match namespace.kind {
        WireKind::Keys {
            max_value_bytes, ..
        } => max_value_bytes,
        WireKind::Blocks { .. } => 0,
    });
    let largest = largest.max().unwrap_or(0).max(1 << 20);
    largest.next_power_of_two().trailing_zeros() as u8
}

fn namespace(info: &NamespaceInfo) -> Namespace {
    Namespace {
        nsid: info.nsid,
        kind: match info.kind {
            Kind::Keys => WireKind::Keys {
                max_value_bytes: info.max_value_bytes,
                max_keys: info
                    .max_keys
                    .map_or(0, |keys| u32::try_from(keys).unwrap_or(0)),
            },
            Kind::Blocks => WireKind::Blocks {
                block_shift: BLOCK_BYTES.trailing_zeros() as u8,
            },
        },
        bytes: info.size_bytes,
        uuid: info.uuid,
    }
}

/// Returns a name that no other node has.
fn default_nqn(uuid: &[u8; 16]) -> String {
    let all = hex(uuid);
    let (a, rest) = all.split_at(8);
    let (b, rest) = rest.split_at(4);
    let (c, rest) = rest.split_at(4);
    let (d, e) = rest.split_at(4);
    format!("nqn.2014-08.org.nvmexpress:uuid:{a}-{b}-{c}-{d}-{e}")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
