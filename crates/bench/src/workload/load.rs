//! Loading: each record once.

use serde::{Deserialize, Serialize};

use super::share;
use crate::draw::Permutation;
use crate::operation::{Operation, Stream};

/// The order of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadOrder {
    /// By record numbers, clients taking turns, as YCSB loads. Where keys are hashed that is a random
    /// order of keys.
    Turns,
    /// By record numbers, each client its own part of them.
    Parts,
    /// A random order of the records, the same for any number of clients.
    Random,
}

impl LoadOrder {
    /// Describes the order in words.
    pub fn describe(self) -> &'static str {
        match self {
            LoadOrder::Turns => {
                "each record once, in the order of record numbers, clients in turns"
            }
            LoadOrder::Parts => "each record once, each client its own part in order",
            LoadOrder::Random => "each record once, in random order",
        }
    }
}

struct Load {
    order: LoadOrder,
    /// Of the random order.
    permutation: Permutation,
    /// In the order of the load: the next record's place.
    place: u64,
    step: u64,
    left: u64,
}

/// Makes one stream for each client.
pub(super) fn streams(
    order: LoadOrder,
    records: u64,
    clients: u32,
    seed: u64,
) -> Vec<Box<dyn Stream>> {
    let permutation = Permutation::new(records, seed);
    let mut part = 0;
    (0..u64::from(clients))
        .map(|client| {
            let left = share(records, clients, client);
            let (place, step) = match order {
                LoadOrder::Parts => (part, 1),
                LoadOrder::Turns | LoadOrder::Random => (client, u64::from(clients)),
            };
            part += left;
            let permutation = permutation.clone();
            let load = Load {
                order,
                permutation,
                place,
                step,
                left,
            };
            Box::new(load) as Box<dyn Stream>
        })
        .collect()
}

impl Stream for Load {
    fn next(&mut self) -> Option<Operation> {
        self.left = self.left.checked_sub(1)?;
        let place = self.place;
        self.place += self.step;
        let record = match self.order {
            LoadOrder::Random => self.permutation.at(place),
            LoadOrder::Turns | LoadOrder::Parts => place,
        };
        Some(Operation::Insert { record })
    }
}
