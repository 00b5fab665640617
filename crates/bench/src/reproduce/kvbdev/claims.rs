//! The paper's claims, and the verdict on each.

use super::contests::{FILL, UNSYNCED};
use super::measured::{Change, Measured, Repeat, find};
use super::paper;
use super::systems::{BLOCKS, DIRECT, KEYS, ROCKSDB, System};
use crate::reproduce::report::{self, Claim, Verdict};

/// A published quantity.
struct Quantity {
    claim: &'static str,
    published: fn(paper::Published) -> f64,
    ours: fn(&Repeat) -> f64,
}

const QUANTITIES: [Quantity; 3] = [
    Quantity {
        claim: "The store on the storage node has a lower mean latency",
        published: |one| one.mean_us,
        ours: |one| one.mean_us,
    },
    Quantity {
        claim: "Its 99th percentile is lower",
        published: |one| one.p99_us,
        ours: |one| one.p99_us,
    },
    Quantity {
        claim: "Its throughput is higher",
        published: |one| one.mib_per_second,
        ours: |one| one.per_second,
    },
];

/// Returns all claims, against each system that is there.
pub fn claims(all: &[Measured], tells: bool) -> Vec<Claim> {
    let conditions = [
        ("each write durable", FILL.to_string()),
        ("not synced", format!("{FILL}{UNSYNCED}")),
    ];
    let mut claims = Vec::new();
    for (condition, phase) in &conditions {
        for baseline in [BLOCKS, ROCKSDB, DIRECT] {
            for quantity in &QUANTITIES {
                claims.extend(claim(all, quantity, baseline, condition, phase));
            }
        }
    }
    if !tells {
        for claim in &mut claims {
            claim.verdict = Verdict::CannotBeTold;
            claim.because = format!("So few pairs tell nothing. {}", claim.because);
        }
    }
    claims
}

fn claim(
    all: &[Measured],
    quantity: &Quantity,
    baseline: System,
    condition: &str,
    phase: &str,
) -> Option<Claim> {
    let (ours, theirs) = (
        find(all, KEYS.name, phase)?,
        find(all, baseline.name, phase)?,
    );
    let change = Change::of(ours, theirs, quantity.ours)?;
    let published = quantity.published;
    let published = (published(paper::KVBDEV) / published(paper::ROCKSDB) - 1.0) * 100.0;
    let because = match baseline.has_network {
        true => {
            "Both go over the wire; Terrace stands for RocksDB on remote blocks. A file system of the \
             kernel's would answer unsynced writes from the host's memory, these files do not."
        }
        false => "The baseline has no network: it is an upper bound of the paper's, which had.",
    };
    Some(Claim {
        claim: format!(
            "{} than that of {}, {condition}",
            quantity.claim, baseline.name
        ),
        paper: format!("{published:+.0} %"),
        ours: change.text(),
        verdict: verdict(&change, published),
        because: report::because(change.repeats, change.exceeds_spread(), because),
    })
}

/// Judges a change: only the sign can be the same on another machine.
fn verdict(change: &Change, published: f64) -> Verdict {
    match change.exceeds_spread() {
        false => Verdict::CannotBeTold,
        true if (change.percent.median > 0.0) == (published > 0.0) => Verdict::Holds,
        true => Verdict::DoesNotHold,
    }
}
