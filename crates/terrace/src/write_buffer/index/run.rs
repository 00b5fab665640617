//! Entries of one keyspace in order: by key, then from the newest.
//!
//! A place in a run holds eight bytes of the key beside the entry's number, so that most
//! comparisons stay in the run. They are taken behind the common start of all keys of the run.

use std::cmp::Ordering as Order;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use terrace_lsm::debug_expect::DebugExpect;
use terrace_lsm::key::Tag;
use terrace_lsm::peaks::Peaks;

use crate::write_buffer::index::RecordBytes;

/// An entry in a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    prefix: u64,
    pub(crate) record_offset: u32,
    pub(crate) number: u32,
}

impl Place {
    pub(super) fn new(record_offset: u32, number: u32) -> Self {
        Place {
            prefix: 0,
            record_offset,
            number,
        }
    }
}

/// A sorted part of an index. It never changes.
pub(crate) struct Run {
    /// The common start of all keys.
    common: Box<[u8]>,
    places: Vec<Place>,
    /// The greatest numbers of its parts. Searches by number pass over the other entries.
    peaks: OnceLock<Peaks>,
    /// The counter of all runs' bytes.
    memory_bytes: Arc<AtomicU64>,
}

impl Run {
    fn new(common: Box<[u8]>, places: Vec<Place>, memory_bytes: &Arc<AtomicU64>) -> Self {
        let run = Run {
            common,
            places,
            peaks: OnceLock::new(),
            memory_bytes: Arc::clone(memory_bytes),
        };
        memory_bytes.fetch_add(run.bytes(), Ordering::Relaxed);
        run
    }

    fn bytes(&self) -> u64 {
        let peaks = self.peaks.get().map_or(0, Peaks::memory_bytes);
        (self.places.capacity() * size_of::<Place>() + self.common.len()) as u64 + peaks
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn get(&self, position: usize) -> Option<&Place> {
        self.places.get(position)
    }

    /// Returns at most `count` places from `position` on.
    pub(crate) fn places_from(&self, position: usize, count: usize) -> &[Place] {
        let rest = self.places.get(position..).unwrap_or_default();
        rest.get(..count).unwrap_or(rest)
    }

    /// Returns the first position from `from` on of an entry whose number is at least `least`.
    pub(crate) fn next_from(&self, from: usize, least: u64) -> Option<usize> {
        match least.checked_sub(1) {
            None => (from < self.len()).then_some(from),
            Some(limit) => self.peaks().next_above(from, limit, |at| self.number(at)),
        }
    }

    /// Returns the last position before `before` of an entry whose number is at least `least`.
    pub(crate) fn last_before(&self, before: usize, least: u64) -> Option<usize> {
        match least.checked_sub(1) {
            None => before.min(self.len()).checked_sub(1),
            Some(limit) => self.peaks().last_above(before, limit, |at| self.number(at)),
        }
    }

    fn number(&self, at: usize) -> u64 {
        self.get(at).map_or(0, |place| u64::from(place.number))
    }

    fn peaks(&self) -> &Peaks {
        self.peaks.get_or_init(|| {
            let peaks = Peaks::new(self.len(), |at| self.number(at));
            self.memory_bytes
                .fetch_add(peaks.memory_bytes(), Ordering::Relaxed);
            peaks
        })
    }

    /// Sorts places that have no prefix yet.
    pub(super) fn sort(
        mut places: Vec<Place>,
        memory_bytes: &Arc<AtomicU64>,
        records: &impl RecordBytes,
    ) -> Self {
        places.shrink_to_fit();
        let common = common_part(&places, records);
        for place in &mut places {
            place.prefix = prefix_behind(common.len(), records.key(place.record_offset));
        }
        places.sort_unstable_by(|a, b| compare(a, b, records));
        Run::new(common, places, memory_bytes)
    }

    /// Merges both runs into one. They have no entry in common.
    pub(super) fn merge(large: &Run, small: &Run, records: &impl RecordBytes) -> Self {
        let shared = common_bytes(&large.common, &small.common);
        let large_places = large.prefixed_behind(shared, records);
        let small_places = small.prefixed_behind(shared, records);
        let mut places = Vec::with_capacity(large_places.len() + small_places.len());
        let mut rest: &[Place] = &large_places;
        for place in small_places.iter() {
            let (before, after) =
                split_before(rest, |other| compare(other, place, records) == Order::Less);
            places.extend_from_slice(before);
            places.push(*place);
            rest = after;
        }
        places.extend_from_slice(rest);
        let common = large
            .common
            .get(..shared)
            .debug_expect("the shared bytes begin the common ones")
            .into();
        Run::new(common, places, &large.memory_bytes)
    }

    /// Returns the places with prefixes taken behind the first `shared` bytes.
    fn prefixed_behind(
        &self,
        shared: usize,
        records: &impl RecordBytes,
    ) -> std::borrow::Cow<'_, [Place]> {
        if shared == self.common.len() {
            return (&self.places).into();
        }
        let mut places = self.places.clone();
        for place in &mut places {
            place.prefix = prefix_behind(shared, records.key(place.record_offset));
        }
        places.into()
    }

    /// Returns the first position at or after a key's version with `tag`; `tag_of` gives that of a
    /// place.
    pub(crate) fn lower_bound(
        &self,
        key: &[u8],
        tag: Tag,
        records: &impl RecordBytes,
        tag_of: impl Fn(&Place) -> Tag,
    ) -> usize {
        let head = key.get(..self.common.len()).unwrap_or(key);
        match head.cmp(&self.common) {
            Order::Less => return 0,
            Order::Greater => return self.places.len(),
            Order::Equal => {}
        }
        let prefix = prefix_behind(self.common.len(), key);
        self.places.partition_point(|place| {
            let order = place.prefix.cmp(&prefix).then_with(|| {
                let other = records.key(place.record_offset);
                other.cmp(key).then_with(|| tag.cmp(&tag_of(place)))
            });
            order == Order::Less
        })
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let bytes = self.bytes();
        self.memory_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Compares by key, then from the newest: a larger number is a newer entry.
#[inline]
fn compare(a: &Place, b: &Place, records: &impl RecordBytes) -> Order {
    a.prefix.cmp(&b.prefix).then_with(|| {
        let key = records.key(a.record_offset);
        key.cmp(records.key(b.record_offset))
            .then_with(|| b.number.cmp(&a.number))
    })
}

/// Splits where `is_before` turns false, in time that grows with the logarithm of the first half.
fn split_before(places: &[Place], is_before: impl Fn(&Place) -> bool) -> (&[Place], &[Place]) {
    let mut step = 1;
    while places.get(step - 1).is_some_and(&is_before) {
        step *= 2;
    }
    let known = step / 2;
    let unknown = places
        .get(known..places.len().min(step))
        .debug_expect("the steps stay in the list");
    places.split_at(known + unknown.partition_point(is_before))
}

/// Returns the common start of the keys of all places.
fn common_part(places: &[Place], records: &impl RecordBytes) -> Box<[u8]> {
    let mut places = places.iter();
    let mut common = places
        .next()
        .map(|place| records.key(place.record_offset))
        .unwrap_or_default();
    for place in places {
        if common.is_empty() {
            break;
        }
        let shared = common_bytes(common, records.key(place.record_offset));
        common = common
            .get(..shared)
            .debug_expect("the shared bytes begin the common ones");
    }
    common.into()
}

#[inline]
fn common_bytes(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Returns eight bytes of a key from `start` on, zero-filled, so that integer order agrees with
/// byte order. Keys that agree here may still differ (`a` and `a\0`): then the whole keys are
/// compared.
#[inline]
fn prefix_behind(start: usize, key: &[u8]) -> u64 {
    let rest = key.get(start..).unwrap_or_default();
    match rest.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            for (to, &from) in bytes.iter_mut().zip(rest) {
                *to = from;
            }
            u64::from_be_bytes(bytes)
        }
    }
}
