//! The status of a server as JSON.

use std::time::Instant;

use serde_json::{Value, json};
use terrace_node::engine::NamespaceInfo;
use terrace_node::format::namespace::{Domain, Kind};
use terrace_nvmf::target::Host;

use super::Status;

impl Status {
    /// Returns the status as an object.
    pub(crate) fn report(&self) -> Value {
        let hosts = self.registry.hosts(Instant::now());
        // The discovery service is nobody's store.
        let hosts = hosts.iter().filter(|host| host.subsystem.is_some());
        let (namespaces, failure) = match self.node.namespaces() {
            Ok(namespaces) => (namespaces, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let namespaces = namespaces.iter().map(|info| self.namespace(info));
        let refusal = self.node.refusal();
        json!({
            "subsystem": self.subsystem,
            "version": env!("CARGO_PKG_VERSION"),
            "engine": self.node.engine(),
            "place": self.place,
            "process": std::process::id(),
            "addresses": self.addresses,
            "started": humantime::format_rfc3339_seconds(self.started.1).to_string(),
            "uptime_s": self.started.0.elapsed().as_secs(),
            "stopping": self.stop.is_used(),
            "healthy": refusal.is_none() && failure.is_none(),
            "refuses_changes": refusal,
            "failure": failure,
            "connections": self.open_connections(),
            "hosts": hosts.map(host).collect::<Vec<_>>(),
            "namespaces": namespaces.collect::<Vec<_>>(),
        })
    }

    fn open_connections(&self) -> u64 {
        let counts = self.registry.counts();
        let ended: u64 = counts.ended.iter().sum();
        counts.accepted.saturating_sub(ended)
    }

    fn namespace(&self, info: &NamespaceInfo) -> Value {
        let counted = self.node.statistics(info.nsid);
        json!({
            "nsid": info.nsid,
            "name": info.name,
            "kind": match info.kind { Kind::Keys => "keys", Kind::Blocks => "blocks" },
            "domain": match info.domain {
                Domain::PowerSafe => "power-safe",
                Domain::CrashSafe => "crash-safe",
            },
            "size_bytes": info.size_bytes,
            "used_bytes": info.used_bytes,
            "max_value_bytes": info.max_value_bytes,
            "keys": counted.map(|counted| counted.keys),
            "max_keys": info.max_keys,
            "damaged_reads": counted.map(|counted| counted.damaged_reads),
        })
    }
}

fn host(host: &Host) -> Value {
    let id = u128::from_be_bytes(host.host_id);
    json!({
        "nqn": host.nqn,
        "host_id": format!("{id:032x}"),
        "address": host.peer,
        "controller": host.controller,
        "authenticated": host.is_authenticated,
        "connected_s": host.connected.as_secs(),
        "queues": host.queues,
        "in_flight": host.in_flight,
        "answers": host.answers,
        "received_bytes": host.received_bytes,
        "sent_bytes": host.sent_bytes,
    })
}
