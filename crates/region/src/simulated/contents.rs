//! The bytes of one simulated slot, and everything that a power cut may make of them.
//!
//! Memory falls into units that reach the medium one by one: 64-byte lines (DAX) or 4 KiB pages
//! (page cache). A unit that was stored to since it was last made durable keeps its durable bytes
//! and the stores since, in order; the survivors of a power cut are drawn from them.

use std::collections::BTreeMap;

use rand::RngExt;
use rand::rngs::StdRng;

use super::MemoryKind;

/// One store, cut at the borders of units.
#[derive(Clone, Debug)]
struct Store {
    /// Counts the stores of the slot, so that a power cut can keep a moment in time.
    time: u64,
    /// Where it lies in its unit.
    start: usize,
    bytes: Vec<u8>,
    /// An aligned word is whole or absent; a copy tears at any byte.
    is_word: bool,
}

/// A unit whose present bytes are not known to be durable.
#[derive(Clone, Debug)]
struct Unit {
    durable: Vec<u8>,
    stores: Vec<Store>,
    /// Number of the stores that were made before the last write-back.
    written_back: usize,
}

/// The bytes of one slot.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    kind: MemoryKind,
    current: Vec<u8>,
    /// Units by their offset; those not listed are durable as they are.
    unsettled: BTreeMap<usize, Unit>,
    time: u64,
}

/// How a power cut treats one slot. `Scattered` alone reaches every legal state, but hardly ever
/// the extreme ones.
enum Loss {
    Everything,
    Nothing,
    /// All that was stored from a certain moment on, as if lines were written back in order.
    After(u64),
    Scattered,
}

impl Contents {
    pub(super) fn new(kind: MemoryKind, current: Vec<u8>) -> Self {
        Contents {
            kind,
            current,
            unsettled: BTreeMap::new(),
            time: 0,
        }
    }

    pub(super) fn current(&self) -> &[u8] {
        &self.current
    }

    /// Stores bytes; those beyond the end are dropped.
    pub(super) fn store(&mut self, offset: usize, bytes: &[u8], is_word: bool) {
        let unit_bytes = self.kind.unit_bytes();
        let mut at = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            let start = at % unit_bytes;
            let (part, more) = rest.split_at(rest.len().min(unit_bytes - start));
            let unit_offset = at - start;
            if let Some(present) = self.current.get_mut(unit_offset..unit_offset + unit_bytes) {
                let unit = self.unsettled.entry(unit_offset).or_insert_with(|| Unit {
                    durable: present.to_vec(),
                    stores: Vec::new(),
                    written_back: 0,
                });
                let store = Store {
                    time: self.time,
                    start,
                    bytes: part.to_vec(),
                    is_word,
                };
                store.apply(present, part.len());
                unit.stores.push(store);
            }
            at += part.len();
            rest = more;
        }
        self.time += 1;
    }

    /// Begins to write back the units of a range. A page cache has only its sync.
    pub(super) fn write_back(&mut self, offset: usize, length_bytes: usize) {
        let unit_bytes = self.kind.unit_bytes();
        let first = offset - offset % unit_bytes;
        let end = offset.saturating_add(length_bytes).max(first);
        for unit in self.unsettled.range_mut(first..end).map(|(_, unit)| unit) {
            unit.written_back = unit.stores.len();
        }
    }

    /// Makes durable the stores that were written back before (DAX), or all (the sync of a page
    /// cache).
    pub(super) fn fence(&mut self) {
        if self.kind == MemoryKind::PageCache {
            self.unsettled.clear();
            return;
        }
        for unit in self.unsettled.values_mut() {
            for store in unit.stores.drain(..unit.written_back) {
                store.apply(&mut unit.durable, store.bytes.len());
            }
            unit.written_back = 0;
        }
        self.unsettled.retain(|_, unit| !unit.stores.is_empty());
    }

    /// Returns a legal state of the bytes after a power cut.
    pub(super) fn after_power_cut(&self, random: &mut StdRng) -> Vec<u8> {
        let loss = match random.random_range(0..6_u8) {
            0 => Loss::Everything,
            1 => Loss::Nothing,
            2 => Loss::After(random.random_range(0..=self.time)),
            _ => Loss::Scattered,
        };
        let mut bytes = self.current.clone();
        for (offset, unit) in &self.unsettled {
            let survivor = match (&loss, self.kind) {
                (Loss::Everything, _) => unit.durable.clone(),
                (Loss::Nothing, _) => continue,
                (Loss::After(moment), _) => unit.until(*moment),
                (Loss::Scattered, MemoryKind::Dax) => unit.any_part(random),
                (Loss::Scattered, MemoryKind::PageCache) => unit.any_state(random),
            };
            if let Some(target) = bytes.get_mut(*offset..*offset + survivor.len()) {
                target.copy_from_slice(&survivor);
            }
        }
        bytes
    }
}

impl Unit {
    /// Returns the unit as it was before a moment.
    fn until(&self, moment: u64) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        for store in self.stores.iter().take_while(|store| store.time < moment) {
            store.apply(&mut bytes, store.bytes.len());
        }
        bytes
    }

    /// Returns a state that the unit had, the middle of a copy included.
    fn any_state(&self, random: &mut StdRng) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        let whole = random.random_range(0..=self.stores.len());
        for store in self.stores.iter().take(whole) {
            store.apply(&mut bytes, store.bytes.len());
        }
        if let Some(torn) = self.stores.get(whole).filter(|store| !store.is_word) {
            torn.apply(&mut bytes, random.random_range(0..=torn.bytes.len()));
        }
        bytes
    }

    /// Returns the unit with any part of each store, words whole.
    fn any_part(&self, random: &mut StdRng) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        for store in &self.stores {
            match random.random_range(0..4_u8) {
                0 => {}
                1 => store.apply(&mut bytes, store.bytes.len()),
                _ if store.is_word => {}
                2 => store.apply(&mut bytes, random.random_range(0..=store.bytes.len())),
                _ => store.apply_some(&mut bytes, random),
            }
        }
        bytes
    }
}

impl Store {
    /// Stores the first `length` bytes.
    fn apply(&self, unit: &mut [u8], length: usize) {
        let target = unit.iter_mut().skip(self.start);
        for (to, from) in target.zip(self.bytes.iter().take(length)) {
            *to = *from;
        }
    }

    /// Stores each byte or not.
    fn apply_some(&self, unit: &mut [u8], random: &mut StdRng) {
        let target = unit.iter_mut().skip(self.start);
        for (to, from) in target.zip(&self.bytes) {
            if random.random_bool(0.5) {
                *to = *from;
            }
        }
    }
}
