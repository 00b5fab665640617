//! The images that a dying machine leaves.

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::state::{InFlight, State, put, sectors};

/// Sectors with their places, in an order in which they may have been written.
type Sectors<'a> = Vec<(usize, &'a [u8])>;

/// Keeps of the writes that were not durable any sectors, in any order.
///
/// All outcomes can come from the scattered ones alone, but the extreme ones hardly ever would, and
/// most mistakes need these to show.
pub(super) fn power_cut(state: &State, seed: u64) -> Vec<u8> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut image = state.durable.clone();
    let completed = state.unflushed.iter();
    let completed = completed.map(|written| (written.offset, written.bytes.as_slice()));
    let in_flight = state.in_flight.iter().flat_map(InFlight::writes);
    let writes = completed.chain(in_flight);
    let mut all: Sectors<'_> = writes
        .flat_map(|(offset, bytes)| sectors(offset, bytes))
        .collect();
    match random.random_range(0..6) {
        0 => all.clear(),
        1 => {}
        // A medium that keeps the order loses an end.
        2 => all.truncate(random.random_range(0..=all.len())),
        _ => {
            all.shuffle(&mut random);
            keep_some(&mut all, &mut random);
        }
    }
    for (offset, sector) in all {
        put(&mut image, offset, sector);
    }
    image
}

/// Keeps all completed writes, and any sectors of those in flight.
pub(super) fn kill(state: &mut State) -> Vec<u8> {
    let mut image = state.image.clone();
    let in_flight = state.in_flight.iter().flat_map(InFlight::writes);
    let mut all: Sectors<'_> = in_flight
        .flat_map(|(offset, bytes)| sectors(offset, bytes))
        .collect();
    all.shuffle(&mut state.random);
    keep_some(&mut all, &mut state.random);
    for (offset, sector) in all {
        put(&mut image, offset, sector);
    }
    image
}

/// Keeps a random share of the sectors, often a very large or a very small one.
fn keep_some(sectors: &mut Sectors<'_>, random: &mut StdRng) {
    let share = match random.random_range(0..4) {
        0 => 0.02,
        1 => 0.98,
        _ => random.random::<f64>(),
    };
    sectors.retain(|_| random.random_bool(share));
}
