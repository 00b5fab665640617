//! A DRAM buffer under each rule for writes, simulated: effects that only concurrency shows, made
//! countable.
//!
//! One stream of operations stands for all clients. A write takes effect *some operations later*:
//! meanwhile the other clients have theirs. Under the thesis' rule a key's copy is removed when its
//! write begins and comes back when it ends. A read in between misses; nor may that read bring the
//! old value back, or it would be stale. Memory is counted in entries, and the least recently used
//! goes.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde::{Deserialize, Serialize};

/// The effect of a write on the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// The thesis': remove the copy before the write, store the new value after it.
    InvalidateFirst,
    /// Store the new value after the write; until then reads find the old one.
    ForwardAll,
    /// The same, of keys that are in the buffer only.
    Resident,
}

impl Rule {
    /// All, in the order of reports.
    pub const ALL: [Rule; 3] = [Rule::Resident, Rule::ForwardAll, Rule::InvalidateFirst];

    /// Returns its name in words.
    pub fn name(self) -> &'static str {
        match self {
            Rule::InvalidateFirst => "invalidate, then forward (thesis)",
            Rule::ForwardAll => "forward all",
            Rule::Resident => "resident",
        }
    }
}

/// A request to the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A read; if it misses, its record comes in.
    Read(u64),
    /// A write.
    Write(u64),
}

/// Hits of all reads, from 0 to 1; `None` without reads. Writes end `window` operations after they
/// began.
pub fn hit_ratio(
    accesses: impl Iterator<Item = Access>,
    rule: Rule,
    capacity_entries: usize,
    window: usize,
) -> Option<f64> {
    let mut buffer = Buffer::new(capacity_entries);
    let mut in_flight: VecDeque<(u64, usize)> = VecDeque::new();
    let (mut reads, mut hits) = (0_u64, 0_u64);
    for (now, access) in accesses.enumerate() {
        while let Some((key, _)) = in_flight.pop_front_if(|(_, due)| *due <= now) {
            end_write(&mut buffer, rule, key);
        }
        match access {
            Access::Read(key) => {
                reads += 1;
                let is_hit = buffer.touch(key);
                hits += u64::from(is_hit);
                let is_written = || in_flight.iter().any(|(written, _)| *written == key);
                if !is_hit && !is_written() {
                    buffer.insert(key);
                }
            }
            Access::Write(key) => {
                if rule == Rule::InvalidateFirst {
                    buffer.remove(key);
                }
                in_flight.push_back((key, now + 1 + window));
            }
        }
    }
    (reads > 0).then(|| hits as f64 / reads as f64)
}

fn end_write(buffer: &mut Buffer, rule: Rule, key: u64) {
    match rule {
        Rule::InvalidateFirst | Rule::ForwardAll => buffer.insert(key),
        // In place: it was written, not read, and grows no younger.
        Rule::Resident => {}
    }
}

/// Keys by the time of their last use.
struct Buffer {
    capacity_entries: usize,
    clock: u64,
    used_at: HashMap<u64, u64>,
    by_use: BTreeMap<u64, u64>,
}

impl Buffer {
    fn new(capacity_entries: usize) -> Self {
        Buffer {
            capacity_entries: capacity_entries.max(1),
            clock: 0,
            used_at: HashMap::new(),
            by_use: BTreeMap::new(),
        }
    }

    /// Makes a key that is there the youngest; returns whether it is there.
    fn touch(&mut self, key: u64) -> bool {
        let is_there = self.used_at.contains_key(&key);
        if is_there {
            self.insert(key);
        }
        is_there
    }

    fn insert(&mut self, key: u64) {
        self.remove(key);
        if self.used_at.len() >= self.capacity_entries
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.used_at.remove(&oldest);
        }
        self.clock += 1;
        self.used_at.insert(key, self.clock);
        self.by_use.insert(self.clock, key);
    }

    fn remove(&mut self, key: u64) {
        if let Some(at) = self.used_at.remove(&key) {
            self.by_use.remove(&at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Access::{Read, Write};
    use super::*;

    fn of(accesses: &[Access], rule: Rule, capacity: usize, window: usize) -> f64 {
        hit_ratio(accesses.iter().copied(), rule, capacity, window).unwrap()
    }

    #[test]
    fn a_read_between_invalidation_and_forward_misses() {
        // In: 1. Its write begins, one read comes before it ends, one after.
        let stream = [Read(1), Write(1), Read(1), Read(1)];
        assert_eq!(of(&stream, Rule::InvalidateFirst, 4, 1), 1.0 / 3.0);
        assert_eq!(of(&stream, Rule::ForwardAll, 4, 1), 2.0 / 3.0);
        assert_eq!(of(&stream, Rule::Resident, 4, 1), 2.0 / 3.0);
        // With nothing in between, the rules see the same.
        assert_eq!(of(&stream, Rule::InvalidateFirst, 4, 0), 2.0 / 3.0);
    }

    #[test]
    fn only_what_is_forwarded_comes_in_by_writing() {
        let stream = [Write(1), Read(1), Write(2), Read(2), Read(2)];
        assert_eq!(of(&stream, Rule::ForwardAll, 4, 0), 1.0);
        assert_eq!(of(&stream, Rule::InvalidateFirst, 4, 0), 1.0);
        // Each key is brought in by its first read.
        assert_eq!(of(&stream, Rule::Resident, 4, 0), 1.0 / 3.0);
    }

    #[test]
    fn writes_that_nobody_reads_drive_out_what_is_read() {
        let stream = [Read(1), Write(2), Write(3), Read(1)];
        assert_eq!(of(&stream, Rule::ForwardAll, 2, 0), 0.0);
        assert_eq!(of(&stream, Rule::Resident, 2, 0), 0.5);
    }

    #[test]
    fn the_least_recently_used_goes() {
        let stream = [Read(1), Read(2), Read(1), Read(3), Read(1), Read(2)];
        assert_eq!(of(&stream, Rule::Resident, 2, 0), 2.0 / 6.0);
    }

    #[test]
    fn a_stale_value_is_not_brought_back() {
        // The second read misses, too: the first one may not have filled.
        let stream = [Read(1), Write(1), Read(1), Read(1), Read(2), Read(1)];
        assert_eq!(of(&stream, Rule::InvalidateFirst, 4, 2), 1.0 / 5.0);
    }

    #[test]
    fn without_reads_there_is_no_ratio() {
        assert_eq!(
            hit_ratio([Write(1)].into_iter(), Rule::Resident, 1, 0),
            None
        );
    }
}
