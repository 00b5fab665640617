//! The figures of a server for Prometheus.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use terrace_node::engine::{NamespaceInfo, Statistics};
use terrace_node::format::namespace::Kind;
use terrace_nvmf::target::{BUCKETS, Class, Counts, End, Host, Operation, Times};

use super::Status;
use crate::counted::DeviceCounts;
use crate::exposition::Exposition;

impl Status {
    /// Returns all metrics, in the text format of Prometheus.
    pub(crate) fn metrics(&self) -> String {
        let mut text = Exposition::default();
        let counts = self.registry.counts();
        self.write_server(&mut text);
        write_connections(&mut text, &counts, &self.registry.hosts(Instant::now()));
        write_commands(&mut text, &counts);
        self.write_namespaces(&mut text);
        if let Some(device) = &self.device {
            write_device(&mut text, device);
        }
        // The engine's own have other names.
        text.into_text() + &self.node.metrics()
    }

    fn write_server(&self, text: &mut Exposition) {
        text.gauge("info", "What is served; always 1.");
        let labels = [
            ("subsystem", self.subsystem.as_str()),
            ("engine", self.node.engine()),
            ("version", env!("CARGO_PKG_VERSION")),
        ];
        text.sample("info", &labels, 1);
        let uptime = self.started.0.elapsed().as_secs_f64();
        text.gauge("uptime_seconds", "Time since the start.");
        text.sample("uptime_seconds", &[], uptime);
        text.gauge(
            "refuses_writes",
            "1 if changes are refused since a failed write or sync.",
        );
        let refuses = self.node.refusal().is_some();
        text.sample("refuses_writes", &[], u8::from(refuses));
    }

    fn write_namespaces(&self, text: &mut Exposition) {
        let all = self.node.namespaces().unwrap_or_default();
        let labelled: Vec<(String, NamespaceInfo)> = all
            .into_iter()
            .map(|namespace| (namespace.nsid.to_string(), namespace))
            .collect();
        type Of = fn(&NamespaceInfo) -> u64;
        let sizes: [(&str, &str, Of); 2] = [
            ("namespace_size_bytes", "Size of a namespace.", |info| {
                info.size_bytes
            }),
            ("namespace_used_bytes", "Bytes of it in use.", |info| {
                info.used_bytes
            }),
        ];
        for (name, help, of) in sizes {
            text.gauge(name, help);
            for (nsid, info) in &labelled {
                text.sample(name, &[("nsid", nsid), ("name", &info.name)], of(info));
            }
        }
        let counted = labelled.iter().filter_map(|(nsid, info)| {
            let statistics = self.node.statistics(info.nsid)?;
            (info.kind == Kind::Keys).then_some((nsid.as_str(), info.name.as_str(), statistics))
        });
        write_engine(text, &counted.collect::<Vec<_>>());
    }
}

fn write_connections(text: &mut Exposition, counts: &Counts, hosts: &[Host]) {
    let ended: u64 = counts.ended.iter().sum();
    let queues: usize = hosts.iter().map(|host| host.queues).sum();
    let in_flight: usize = hosts.iter().map(|host| host.in_flight).sum();
    for (name, help, value) in [
        (
            "connections",
            "Connections that are open.",
            counts.accepted.saturating_sub(ended),
        ),
        (
            "controllers",
            "Hosts with an admin queue.",
            hosts.len() as u64,
        ),
        ("queues", "I/O queues of all hosts.", queues as u64),
        (
            "commands_in_flight",
            "Commands that have not ended.",
            in_flight as u64,
        ),
    ] {
        text.gauge(name, help);
        text.sample(name, &[], value);
    }
    for (name, help, value) in [
        (
            "connections_accepted_total",
            "Connections that were accepted.",
            counts.accepted,
        ),
        (
            "connections_refused_total",
            "Connections closed at once, since there were too many.",
            counts.refused,
        ),
        (
            "received_bytes_total",
            "Bytes that hosts sent.",
            counts.received_bytes,
        ),
        (
            "sent_bytes_total",
            "Bytes that hosts took.",
            counts.sent_bytes,
        ),
    ] {
        text.counter(name, help);
        text.sample(name, &[], value);
    }
    let name = "connections_ended_total";
    text.counter(name, "Connections that ended, by reason.");
    for (end, count) in End::ALL.iter().zip(counts.ended) {
        text.sample(name, &[("reason", end.name())], count);
    }
}

fn write_commands(text: &mut Exposition, counts: &Counts) {
    let name = "commands_total";
    text.counter(name, "Commands that were answered, by kind and outcome.");
    for (operation, classes) in Operation::ALL.iter().zip(counts.answers) {
        for (class, count) in Class::ALL.iter().zip(classes) {
            let labels = [("operation", operation.name()), ("outcome", class.name())];
            text.sample(name, &labels, count);
        }
    }
    text.counter("transfers_total", "Transfers that hosts were asked for.");
    text.sample("transfers_total", &[], counts.transfers);
    let name = "transfer_wait_seconds_total";
    text.counter(name, "Time that transfers took the hosts.");
    text.sample(name, &[], seconds(counts.transfer_us));
    text.histogram(
        "command_seconds",
        "Time from a command to its answer, by kind.",
    );
    for (operation, times) in Operation::ALL.iter().zip(&counts.times) {
        write_times(text, operation.name(), times);
    }
}

fn write_times(text: &mut Exposition, operation: &str, times: &Times) {
    let mut count = 0;
    for (bucket, in_bucket) in times.buckets.iter().enumerate() {
        count += in_bucket;
        // The last bucket has no bound.
        let bound = match bucket + 1 {
            BUCKETS => "+Inf".to_owned(),
            _ => seconds(1 << bucket).to_string(),
        };
        let labels = [("operation", operation), ("le", &bound)];
        text.sample("command_seconds_bucket", &labels, count);
    }
    let label = [("operation", operation)];
    text.sample("command_seconds_sum", &label, seconds(times.sum_us));
    text.sample("command_seconds_count", &label, count);
}

fn write_engine(text: &mut Exposition, namespaces: &[(&str, &str, Statistics)]) {
    type Of = fn(&Statistics) -> u64;
    let gauges: [(&str, &str, Of); 5] = [
        ("keys", "Keys.", |counted| counted.keys),
        ("value_bytes", "Bytes of values.", |counted| {
            counted.value_bytes
        }),
        ("segments", "Segments of small values.", |counted| {
            counted.segments
        }),
        (
            "live_segment_bytes",
            "Live bytes in segments of small values.",
            |counted| counted.live_segment_bytes,
        ),
        ("index_bytes", "Memory of the index.", |counted| {
            counted.index_bytes
        }),
    ];
    let counters: [(&str, &str, Of); 5] = [
        (
            "journal_groups_total",
            "Groups of changes that became durable.",
            |counted| counted.groups,
        ),
        (
            "checkpoints_total",
            "Checkpoints that became durable.",
            |counted| counted.checkpoints,
        ),
        ("moves_total", "Values moved to make room.", |counted| {
            counted.moves
        }),
        ("evictions_total", "Keys dropped to make room.", |counted| {
            counted.evictions
        }),
        (
            "damaged_reads_total",
            "Values whose checksum did not match.",
            |counted| counted.damaged_reads,
        ),
    ];
    let families = gauges.iter().map(|family| (family, false));
    for (&(name, help, of), is_counter) in families.chain(counters.iter().map(|one| (one, true))) {
        if namespaces.is_empty() {
            return;
        }
        match is_counter {
            true => text.counter(name, help),
            false => text.gauge(name, help),
        }
        for (nsid, of_name, counted) in namespaces {
            text.sample(name, &[("nsid", nsid), ("name", of_name)], of(counted));
        }
    }
}

fn write_device(text: &mut Exposition, device: &DeviceCounts) {
    let families: [(&str, &str, &AtomicU64); 6] = [
        ("device_reads_total", "Reads of the device.", &device.reads),
        (
            "device_read_bytes_total",
            "Bytes read of it.",
            &device.read_bytes,
        ),
        (
            "device_writes_total",
            "Writes to the device.",
            &device.writes,
        ),
        (
            "device_written_bytes_total",
            "Bytes written to it.",
            &device.written_bytes,
        ),
        (
            "device_syncs_total",
            "Flushes of the device.",
            &device.syncs,
        ),
        (
            "device_failures_total",
            "Requests that the device failed.",
            &device.failures,
        ),
    ];
    for (name, help, counter) in families {
        text.counter(name, help);
        text.sample(name, &[], counter.load(Relaxed));
    }
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}
