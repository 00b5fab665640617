//! PlexDB's load: each record written several times, all writes in random order.
//!
//! With u updates on average, the records of a group of 2u+1 neighbours get 0, 1, ..., 2u updates.
//! Their order differs from group to group: updates are uniform in 0..=2u, and their total is
//! exact. So a write's number leads to its record by arithmetic, and the random order of the writes
//! is a permutation of their numbers. Nothing is kept of the millions of writes.
//!
//! Each group belongs to one client, groups in turns. So the order in which a record is written is
//! known, and with it its last version ([`Phase::newest`]). Versions number a record's writes, in
//! no order. All writes count as updates: to find which one comes first would take a search.

use serde::{Deserialize, Serialize};

use super::{Dataset, Phase, PhaseKind};
use crate::draw::{Permutation, mix_64, scale};
use crate::keys::KeyForm;
use crate::operation::{Operation, Stream};
use crate::values::Sizes;

/// How often records are updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub struct Updates {
    /// After its first write, on average.
    pub mean: u32,
}

impl Updates {
    /// Updates of the run of 20 GB.
    pub const USUAL: Updates = Updates { mean: 9 };
    /// Updates of the run of 100 GB.
    pub const LARGE: Updates = Updates { mean: 20 };

    /// Returns the bytes of keys and values that it writes at full scale.
    pub fn full_bytes(self) -> f64 {
        if self.mean >= Updates::LARGE.mean {
            100e9
        } else {
            20e9
        }
    }

    /// Describes the load in words.
    pub fn describe(self) -> String {
        let most = 1 + 2 * self.mean;
        format!("each record written 1 to {most} times, all writes in random order")
    }

    /// Returns the version that is written last. `seed` is the phase's own.
    pub(super) fn newest(self, records: u64, clients: u32, seed: u64, record: u64) -> u32 {
        let group = record / self.group_records();
        let plan = Plan::new(self, records, clients, group % u64::from(clients), seed);
        let first = plan.first_write(record);
        let versions = 0..=self.updates_of(seed, record);
        versions
            .max_by_key(|version| plan.order.place_of(first + u64::from(*version)))
            .unwrap_or(0)
    }

    /// Returns the number of records next to this one for which the number of writes is known
    /// beforehand.
    pub fn whole_groups(self, records: u64) -> u64 {
        (records / self.group_records()).max(1) * self.group_records()
    }

    fn group_records(self) -> u64 {
        2 * u64::from(self.mean) + 1
    }

    fn group_writes(self) -> u64 {
        self.group_records() * u64::from(1 + self.mean)
    }

    /// Returns how often a record is updated. Group sizes are odd: to multiply by a power of two is
    /// a permutation of a group's places.
    fn updates_of(self, seed: u64, record: u64) -> u32 {
        let records = self.group_records();
        let (group, place) = (record / records, record % records);
        let hash = mix_64(seed ^ mix_64(group));
        let (turned, spread) = (scale(hash, records), hash & 7);
        (((place << spread) + turned) % records) as u32
    }

    /// Writes of those records of a group that lie before this one.
    fn writes_before(self, seed: u64, record: u64) -> u64 {
        let from = record - record % self.group_records();
        (from..record)
            .map(|earlier| 1 + u64::from(self.updates_of(seed, earlier)))
            .sum()
    }
}

/// The writes of one client.
#[derive(Clone, Debug)]
struct Plan {
    updates: Updates,
    clients: u64,
    client: u64,
    seed: u64,
    /// Permutation from the place in time to the number of a write.
    order: Permutation,
    writes: u64,
}

impl Plan {
    fn new(updates: Updates, records: u64, clients: u32, client: u64, seed: u64) -> Plan {
        let clients = u64::from(clients);
        let groups = records / updates.group_records();
        let own = groups / clients + u64::from(client < groups % clients);
        // The rest, too few records for a group, come last.
        let rest = if client == groups % clients {
            updates.writes_before(seed, records)
        } else {
            0
        };
        let writes = own * updates.group_writes() + rest;
        Plan {
            updates,
            clients,
            client,
            seed,
            order: Permutation::new(writes, mix_64(seed).wrapping_add(client)),
            writes,
        }
    }

    /// Returns the number of a record's first version among this client's writes.
    fn first_write(&self, record: u64) -> u64 {
        let group = record / self.updates.group_records();
        group / self.clients * self.updates.group_writes()
            + self.updates.writes_before(self.seed, record)
    }

    /// Returns the record and the version of a write.
    fn write(&self, number: u64) -> (u64, u32) {
        let own_group = number / self.updates.group_writes();
        let group = own_group * self.clients + self.client;
        let mut record = group * self.updates.group_records();
        let mut version = number % self.updates.group_writes();
        loop {
            let updates = u64::from(self.updates.updates_of(self.seed, record));
            if version <= updates {
                return (record, version as u32);
            }
            version -= updates + 1;
            record += 1;
        }
    }
}

/// Returns its records: keys of 10 B and values of 200 B, as many as make `scale` of the full
/// volume.
pub fn dataset(updates: Updates, scale: f64) -> Dataset {
    const VALUE_BYTES: u32 = 200;
    let key_form = KeyForm::TenDigits;
    let record_bytes = key_form.bytes() as f64 + f64::from(VALUE_BYTES);
    let writes = scale * updates.full_bytes() / record_bytes;
    Dataset {
        records: ((writes / f64::from(1 + updates.mean)) as u64).max(1),
        key_form,
        sizes: Sizes::Fixed { bytes: VALUE_BYTES },
        compression_ratio: 1.0,
    }
}

/// Makes the phase of all writes, into an empty store that is then left to settle.
pub fn phase(updates: Updates, dataset: &Dataset, clients: u32) -> Phase {
    // Of a last group that is not whole the mean is taken; streams have the exact number.
    let operations = dataset.records * u64::from(1 + updates.mean);
    Phase {
        starts_empty: true,
        ..Phase::new("updates", PhaseKind::Updates(updates), operations, clients)
    }
}

/// Makes one stream for each client.
pub(super) fn streams(
    updates: Updates,
    phase: &Phase,
    dataset: &Dataset,
    seed: u64,
) -> Vec<Box<dyn Stream>> {
    (0..u64::from(phase.clients))
        .map(|client| {
            let plan = Plan::new(updates, dataset.records, phase.clients, client, seed);
            Box::new(Client { plan, place: 0 }) as _
        })
        .collect()
}

struct Client {
    plan: Plan,
    place: u64,
}

impl Stream for Client {
    fn next(&mut self) -> Option<Operation> {
        if self.place == self.plan.writes {
            return None;
        }
        let (record, version) = self.plan.write(self.plan.order.at(self.place));
        self.place += 1;
        Some(Operation::Update { record, version })
    }
}
