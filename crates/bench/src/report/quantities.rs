//! Quantities of one phase of one run: each with its unit and its better direction.

use serde::Serialize;

use crate::operation::OperationKind;
use crate::outcome::PhaseOutcome;

/// Which end of a quantity wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// The greatest.
    Higher,
    /// The least.
    Lower,
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Operations a second.
    PerSecond,
    /// 10^6 bytes a second.
    MegabytesPerSecond,
    /// Microseconds.
    Microseconds,
    /// Seconds of processor time.
    Seconds,
    /// Bytes.
    Bytes,
    /// How many for one.
    Ratio,
}

/// A quantity of a phase. `identifier` is stable, for tests and the page.
#[derive(Clone, Debug)]
pub struct Quantity {
    /// Stable name.
    pub identifier: String,
    /// Name in words, without the unit.
    pub label: String,
    /// How its values are written.
    pub unit: Unit,
    /// Which end wins.
    pub better: Better,
    /// Reads it off a phase; `None` where it cannot be had.
    pub read: Reader,
}

/// How a quantity is read.
#[derive(Clone, Copy, Debug)]
pub enum Reader {
    /// Of the phase as a whole.
    Phase(fn(&PhaseOutcome) -> Option<f64>),
    /// Of one kind of operation.
    Latency(OperationKind, fn(&crate::outcome::Latency) -> f64),
}

impl Reader {
    /// Returns the value; `None` where it cannot be had or is no number.
    pub fn of(self, phase: &PhaseOutcome) -> Option<f64> {
        let value = match self {
            Reader::Phase(read) => read(phase),
            Reader::Latency(kind, read) => phase
                .latencies
                .get(&kind)
                .filter(|latency| latency.count > 0)
                .map(read),
        };
        value.filter(|value| value.is_finite())
    }
}

/// Returns all quantities of a phase in which these kinds of operations were run, in the order of
/// reports.
pub fn quantities(kinds: &[OperationKind]) -> Vec<Quantity> {
    let mut all = throughput();
    all.extend(kinds.iter().flat_map(|kind| latency(*kind)));
    all.push(quantity(
        "longest_gap",
        "longest gap",
        Unit::Microseconds,
        Better::Lower,
        |phase| (phase.operations > 0).then_some(phase.longest_gap_ms * 1e3),
    ));
    all.extend(cost());
    all
}

fn quantity(
    identifier: &str,
    label: &str,
    unit: Unit,
    better: Better,
    read: fn(&PhaseOutcome) -> Option<f64>,
) -> Quantity {
    Quantity {
        identifier: identifier.into(),
        label: label.into(),
        unit,
        better,
        read: Reader::Phase(read),
    }
}

fn throughput() -> Vec<Quantity> {
    let higher =
        |identifier, label, unit, read| quantity(identifier, label, unit, Better::Higher, read);
    vec![
        higher(
            "acknowledged",
            "op/s, acknowledged",
            Unit::PerSecond,
            |phase| ratio(phase.operations as f64, phase.acknowledged_s),
        ),
        higher("settled", "op/s, settled", Unit::PerSecond, |phase| {
            ratio(phase.operations as f64, phase.settled_s?)
        }),
        higher(
            "megabytes",
            "user data",
            Unit::MegabytesPerSecond,
            |phase| {
                let bytes = phase.user_written_bytes + phase.user_read_bytes;
                ratio(bytes as f64 / 1e6, phase.acknowledged_s)
            },
        ),
    ]
}

fn latency(kind: OperationKind) -> Vec<Quantity> {
    type Read = fn(&crate::outcome::Latency) -> f64;
    let percentiles: [(&str, Read); 4] = [
        ("p50", |latency| latency.p50_us),
        ("p99", |latency| latency.p99_us),
        ("p99.9", |latency| latency.p999_us),
        ("max", |latency| latency.max_us),
    ];
    percentiles
        .into_iter()
        .map(|(name, read)| Quantity {
            identifier: format!("{}.{name}", kind.name()),
            label: format!("{} {name}", kind.name()),
            unit: Unit::Microseconds,
            better: Better::Lower,
            read: Reader::Latency(kind, read),
        })
        .collect()
}

fn cost() -> Vec<Quantity> {
    let lower =
        |identifier, label, unit, read| quantity(identifier, label, unit, Better::Lower, read);
    vec![
        lower(
            "processor",
            "CPU / million operations",
            Unit::Seconds,
            |phase| {
                let seconds = phase.usage.user_s + phase.usage.system_s;
                let operations = phase.operations + phase.operations_beside;
                ratio(seconds * 1e6, operations as f64)
            },
        ),
        lower(
            "write_amplification",
            "write amplification, process",
            Unit::Ratio,
            |phase| ratio(written(phase), phase.user_written_bytes as f64),
        ),
        lower(
            "device_write_amplification",
            "write amplification, device",
            Unit::Ratio,
            |phase| {
                let written = phase.usage.device_write_bytes? as f64;
                ratio(written, phase.user_written_bytes as f64)
            },
        ),
        lower(
            "device_reads",
            "device reads / found lookup",
            Unit::Ratio,
            |phase| ratio(phase.usage.device_reads? as f64, phase.found as f64),
        ),
        lower(
            "read_amplification",
            "read amplification, process",
            Unit::Ratio,
            |phase| ratio(phase.usage.read_bytes as f64, phase.user_read_bytes as f64),
        ),
        lower(
            "space_amplification",
            "space amplification",
            Unit::Ratio,
            |phase| ratio(phase.space_bytes as f64, phase.live_bytes as f64),
        ),
        lower("resident", "peak memory, resident", Unit::Bytes, |phase| {
            known(phase.usage.peak_resident_bytes)
        }),
        lower("cgroup", "peak memory, cgroup", Unit::Bytes, |phase| {
            known(phase.usage.peak_cgroup_bytes?)
        }),
        lower(
            "stolen",
            "stolen by the host",
            Unit::Microseconds,
            |phase| {
                let stolen_s = phase.usage.stolen_s?;
                (phase.operations > 0).then_some(stolen_s * 1e6)
            },
        ),
    ]
}

/// Returns the bytes that reached the device's queue: pages that were dropped before they were
/// written do not count. More can be cancelled in a phase than was dirtied in it, where the rest
/// dates from before.
fn written(phase: &PhaseOutcome) -> f64 {
    let usage = &phase.usage;
    usage
        .write_bytes
        .saturating_sub(usage.cancelled_write_bytes) as f64
}

/// Returns a quotient; `None` where nothing is there to divide by: an unknown or empty count is no
/// figure.
fn ratio(dividend: f64, divisor: f64) -> Option<f64> {
    (divisor > 0.0).then(|| dividend / divisor)
}

/// Returns the bytes of memory, if known. A process takes some memory: 0 means not measured.
fn known(bytes: u64) -> Option<f64> {
    (bytes > 0).then_some(bytes as f64)
}
