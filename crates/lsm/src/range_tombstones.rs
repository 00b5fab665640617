//! Deleted ranges of keys: a set of range tombstones, and the search for the newest that covers a
//! key.
//!
//! A range tombstone hides every version of every key from its start up to its end, the end
//! excluded, that has a lower sequence number. Starts and ends of all tombstones of a set, the
//! *edges*, divide the keys into *segments*; within one nothing changes. A segment tree lies over
//! the segments. It names a tombstone in the fewest nodes that together make its range, two a level
//! at most. The nodes on a segment's way to the root name all tombstones that cover it. So a set of
//! *n* takes memory for *n* log *n* names and answers in log² *n* steps, however the ranges
//! overlap. Lists of the tombstones over each segment would take *n*² for a queue that is trimmed
//! from the front again and again. There each range encloses all before it.
//!
//! A set never changes. Code that gathers tombstones one by one (`write_buffer/range_deletes.rs`)
//! keeps several.

use std::sync::OnceLock;

use crate::SequenceNumber;
use crate::debug_expect::DebugExpect;
use crate::peaks::Peaks;

/// A deleted range of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstone {
    pub start: Vec<u8>,
    /// The first key behind the range.
    pub end: Vec<u8>,
    pub sequence: SequenceNumber,
}

impl RangeTombstone {
    /// Returns the part of it from `from` up to `to`; `None` if there is none.
    pub(crate) fn clipped(mut self, from: Option<&[u8]>, to: Option<&[u8]>) -> Option<Self> {
        if let Some(from) = from.filter(|from| *from > self.start.as_slice()) {
            self.start = from.to_vec();
        }
        if let Some(to) = to.filter(|to| *to < self.end.as_slice()) {
            self.end = to.to_vec();
        }
        (self.start < self.end).then_some(self)
    }
}

/// A tombstone found, where it lies in its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Covering<'a> {
    pub sequence: SequenceNumber,
    pub start: &'a [u8],
    pub end: &'a [u8],
}

impl From<Covering<'_>> for RangeTombstone {
    fn from(found: Covering<'_>) -> Self {
        RangeTombstone {
            start: found.start.to_vec(),
            end: found.end.to_vec(),
            sequence: found.sequence,
        }
    }
}

/// Keys between two edges; `None` is no limit.
pub(crate) type Segment<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// A set of range tombstones. See the head of the file.
#[derive(Debug, Default)]
pub struct RangeTombstones {
    /// All starts and ends, ascending, each once.
    edges: Box<[Box<[u8]>]>,
    /// The newest first.
    tombstones: Box<[Placed]>,
    /// For each node of the tree where its names end in `names`; they begin where those of the node
    /// before end. Node 1 is the root, and node *i* has the children 2*i* and 2*i* + 1. Segment *s*
    /// is the node *s* + number of segments.
    name_ends: Box<[u32]>,
    /// Positions in `tombstones`; within a node ascending, so the newest first.
    names: Box<[u32]>,
    /// The oldest number that covers each segment, the highest of all if none does. Made at the
    /// first question how far the ranges reach together.
    oldest: OnceLock<(Box<[SequenceNumber]>, Peaks)>,
    memory_bytes: u64,
}

#[derive(Debug)]
struct Placed {
    start_edge: u32,
    end_edge: u32,
    sequence: SequenceNumber,
}

impl RangeTombstones {
    /// Makes a set of tombstones in any order. Those whose start is not before their end are left
    /// out.
    pub fn new(mut list: Vec<RangeTombstone>) -> Self {
        list.retain(|tombstone| tombstone.start < tombstone.end);
        list.sort_by_key(|tombstone| std::cmp::Reverse(tombstone.sequence));
        let ends = |tombstone: &RangeTombstone| [tombstone.start.clone(), tombstone.end.clone()];
        let mut edges: Vec<Vec<u8>> = list.iter().flat_map(ends).collect();
        edges.sort_unstable();
        edges.dedup();
        let edge = |key: &Vec<u8>| edges.binary_search(key).unwrap_or_else(|at| at) as u32;
        let placed = list.iter().map(|tombstone| Placed {
            start_edge: edge(&tombstone.start),
            end_edge: edge(&tombstone.end),
            sequence: tombstone.sequence,
        });
        let tombstones: Box<[Placed]> = placed.collect();
        let (name_ends, names) = name(&tombstones, edges.len().saturating_sub(1));
        let mut set = RangeTombstones {
            edges: edges.into_iter().map(Vec::into_boxed_slice).collect(),
            tombstones,
            name_ends,
            names,
            oldest: OnceLock::new(),
            memory_bytes: 0,
        };
        set.memory_bytes = set.count_memory();
        set
    }

    fn count_memory(&self) -> u64 {
        let keys: usize = self.edges.iter().map(|edge| edge.len()).sum();
        let bytes = size_of::<Self>()
            + keys
            + size_of_val(&*self.edges)
            + size_of_val(&*self.tombstones)
            + size_of_val(&*self.name_ends)
            + size_of_val(&*self.names)
            // `oldest`, whether it is made or not, with its levels.
            + self.edges.len() * (size_of::<SequenceNumber>() + 1);
        bytes as u64
    }

    pub fn is_empty(&self) -> bool {
        self.tombstones.is_empty()
    }

    pub fn len(&self) -> usize {
        self.tombstones.len()
    }

    /// Returns the newest tombstone at or below `snapshot` that covers `key`.
    pub fn newest_covering(&self, key: &[u8], snapshot: SequenceNumber) -> Option<Covering<'_>> {
        self.newest_in(self.edges_to(key).checked_sub(1)?, snapshot)
    }

    /// Returns the lowest number above `sequence` of a tombstone that covers `key`.
    pub fn oldest_above(&self, key: &[u8], sequence: SequenceNumber) -> Option<SequenceNumber> {
        let segments = self.edges.len().checked_sub(1)?;
        let segment = self.edges_to(key).checked_sub(1)?;
        if segment >= segments {
            return None;
        }
        let mut node = segment + segments;
        let mut oldest = None;
        while node > 0 {
            let names = self.names_of(node);
            let newer = names.partition_point(|&name| self.sequence(name) > sequence);
            let of_node = newer.checked_sub(1).and_then(|at| names.get(at));
            let of_node = of_node.map(|&name| self.sequence(name));
            oldest = oldest.into_iter().chain(of_node).min();
            node /= 2;
        }
        oldest
    }

    /// Returns the keys around `key` that the same tombstones cover.
    pub fn segment_of(&self, key: &[u8]) -> Segment<'_> {
        let behind = self.edges_to(key);
        let edge = |at: Option<usize>| self.edges.get(at?).map(|edge| &**edge);
        (edge(behind.checked_sub(1)), edge(Some(behind)))
    }

    /// Returns every segment between two edges, in order, with its number.
    pub fn segments(&self) -> impl Iterator<Item = (usize, &[u8], &[u8])> {
        let pairs = self.edges.iter().zip(self.edges.iter().skip(1));
        pairs
            .enumerate()
            .map(|(number, (start, end))| (number, &**start, &**end))
    }

    /// Returns the newest tombstone at or below `snapshot` that covers a segment.
    pub fn newest_in(&self, segment: usize, snapshot: SequenceNumber) -> Option<Covering<'_>> {
        let segments = self.edges.len().checked_sub(1)?;
        if segment >= segments {
            return None;
        }
        let mut node = segment + segments;
        let mut newest: Option<u32> = None;
        while node > 0 {
            let names = self.names_of(node);
            let newer = names.partition_point(|&name| self.sequence(name) > snapshot);
            if let Some(&name) = names.get(newer) {
                newest = Some(newest.map_or(name, |newest| newest.min(name)));
            }
            node /= 2;
        }
        self.covering(newest?)
    }

    /// Returns the lowest number of a tombstone; 0 without any.
    pub fn oldest_sequence(&self) -> SequenceNumber {
        self.tombstones.last().map_or(0, |oldest| oldest.sequence)
    }

    /// Returns the first key from `key` on that no tombstone at or below `snapshot` covers; `None`
    /// if that is `key`.
    pub fn covered_until(&self, key: &[u8], snapshot: SequenceNumber) -> Option<&[u8]> {
        let segment = self.edges_to(key).checked_sub(1)?;
        let (oldest, peaks) = self.oldest_of_segments();
        let value = |at: usize| oldest.get(at).copied().unwrap_or(0);
        let behind = peaks.next_above(segment, snapshot, value);
        let behind = behind.unwrap_or(oldest.len());
        (behind > segment)
            .then(|| self.edges.get(behind).map(|edge| &**edge))
            .flatten()
    }

    /// Returns the first of the keys right before `key` that tombstones at or below `snapshot`
    /// cover without a gap; `None` if there are none.
    pub fn covered_from(&self, key: &[u8], snapshot: SequenceNumber) -> Option<&[u8]> {
        let before = self.edges.partition_point(|edge| **edge < *key);
        let (oldest, peaks) = self.oldest_of_segments();
        if before > oldest.len() {
            return None;
        }
        let value = |at: usize| oldest.get(at).copied().unwrap_or(0);
        let gap = peaks.last_above(before, snapshot, value);
        let first = gap.map_or(0, |gap| gap + 1);
        (first < before)
            .then(|| self.edges.get(first).map(|edge| &**edge))
            .flatten()
    }

    fn oldest_of_segments(&self) -> &(Box<[SequenceNumber]>, Peaks) {
        self.oldest.get_or_init(|| {
            let segments = self.edges.len().saturating_sub(1);
            // From the root down: the cover of a node covers its children.
            let mut oldest = vec![SequenceNumber::MAX; 2 * segments];
            for node in 1..oldest.len() {
                let own = self.names_of(node).last();
                let own = own.map_or(SequenceNumber::MAX, |&name| self.sequence(name));
                let above = oldest.get(node / 2).copied().unwrap_or(own);
                if let Some(place) = oldest.get_mut(node) {
                    *place = own.min(above);
                }
            }
            let oldest: Box<[_]> = oldest.split_off(segments).into();
            let peaks = Peaks::new(oldest.len(), |at| oldest.get(at).copied().unwrap_or(0));
            (oldest, peaks)
        })
    }

    /// Returns the tombstones, the newest first.
    pub fn iter(&self) -> impl Iterator<Item = Covering<'_>> {
        (0..self.len() as u32).filter_map(|name| self.covering(name))
    }

    /// Bytes of memory in use; never 0.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// Returns the number of edges at or before `key`.
    fn edges_to(&self, key: &[u8]) -> usize {
        self.edges.partition_point(|edge| **edge <= *key)
    }

    fn names_of(&self, node: usize) -> &[u32] {
        let end = |node: usize| self.name_ends.get(node).map_or(0, |&end| end as usize);
        let start = node.checked_sub(1).map_or(0, end);
        self.names
            .get(start..end(node))
            .debug_expect("the ends of names ascend")
    }

    fn sequence(&self, name: u32) -> SequenceNumber {
        let tombstone = self.tombstones.get(name as usize);
        tombstone.map_or(0, |tombstone| tombstone.sequence)
    }

    fn covering(&self, name: u32) -> Option<Covering<'_>> {
        let tombstone = self.tombstones.get(name as usize)?;
        Some(Covering {
            sequence: tombstone.sequence,
            start: self.edges.get(tombstone.start_edge as usize)?,
            end: self.edges.get(tombstone.end_edge as usize)?,
        })
    }
}

/// Returns the tree over `segments` segments: where each node's names end, and the names.
fn name(tombstones: &[Placed], segments: usize) -> (Box<[u32]>, Box<[u32]>) {
    // (node, name) pairs; the names come in order, so sorting by node leaves them so.
    let mut pairs: Vec<(usize, u32)> = Vec::with_capacity(tombstones.len());
    for (tombstone, name) in tombstones.iter().zip(0u32..) {
        let mut from = tombstone.start_edge as usize + segments;
        let mut to = tombstone.end_edge as usize + segments;
        while from < to {
            if from % 2 == 1 {
                pairs.push((from, name));
                from += 1;
            }
            if to % 2 == 1 {
                to -= 1;
                pairs.push((to, name));
            }
            from /= 2;
            to /= 2;
        }
    }
    pairs.sort_unstable();
    let mut ends = vec![0u32; 2 * segments];
    for &(node, _) in &pairs {
        if let Some(count) = ends.get_mut(node) {
            *count += 1;
        }
    }
    let mut end = 0;
    for count in &mut ends {
        end += *count;
        *count = end;
    }
    let names = pairs.into_iter().map(|(_, name)| name).collect();
    (ends.into(), names)
}

#[cfg(any(test, feature = "internal"))]
pub mod testing {
    use super::*;

    /// Returns a tombstone over one-byte keys.
    pub fn tombstone(start: &str, end: &str, sequence: SequenceNumber) -> RangeTombstone {
        RangeTombstone {
            start: start.into(),
            end: end.into(),
            sequence,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    pub(crate) use crate::range_tombstones::testing::tombstone;

    pub(crate) fn any_tombstones() -> impl Strategy<Value = Vec<RangeTombstone>> {
        let one =
            (0u8..20, 1u8..8, 1u64..40).prop_map(|(start, length, sequence)| RangeTombstone {
                start: vec![start],
                end: vec![start + length],
                sequence,
            });
        prop::collection::vec(one, 0..30)
    }

    proptest! {
        #[test]
        fn ranges_reach_together_as_far_as_no_key_is_left_out(
            list in any_tombstones(),
            questions in prop::collection::vec((0u8..30, 0u64..42), 1..60),
        ) {
            let set = RangeTombstones::new(list.clone());
            for (key, snapshot) in questions {
                let is_covered = |key: u8| {
                    let mut seen = list.iter().filter(|one| one.sequence <= snapshot);
                    seen.any(|one| (one.start.as_slice()..&one.end).contains(&&[key][..]))
                };
                let until = (key..).find(|&key| !is_covered(key)).unwrap();
                let found = set.covered_until(&[key], snapshot);
                prop_assert_eq!(found.map(<[u8]>::to_vec), (until > key).then(|| vec![until]));
                let mut from = key;
                while from > 0 && is_covered(from - 1) {
                    from -= 1;
                }
                let found = set.covered_from(&[key], snapshot);
                prop_assert_eq!(found.map(<[u8]>::to_vec), (from < key).then(|| vec![from]));
            }
        }

        #[test]
        fn a_set_answers_as_a_list_does(
            mut list in any_tombstones(),
            questions in prop::collection::vec((0u8..30, 0u64..42), 1..60),
        ) {
            let set = RangeTombstones::new(list.clone());
            for (key, snapshot) in questions {
                let key = [key];
                let covers = |t: &&RangeTombstone| {
                    t.start.as_slice() <= &key[..] && &key[..] < t.end.as_slice()
                };
                let visible = list.iter().filter(covers).filter(|t| t.sequence <= snapshot);
                let expected = visible.map(|t| t.sequence).max();
                let found = set.newest_covering(&key, snapshot);
                prop_assert_eq!(found.map(|found| found.sequence), expected);
                if let Some(found) = found {
                    prop_assert!(found.start <= &key[..] && &key[..] < found.end);
                }
                let above = list.iter().filter(covers).filter(|t| t.sequence > snapshot);
                let above = above.map(|t| t.sequence).min();
                prop_assert_eq!(set.oldest_above(&key, snapshot), above);
                let (from, to) = set.segment_of(&key);
                prop_assert!(from.is_none_or(|from| from <= &key[..]));
                prop_assert!(to.is_none_or(|to| to > &key[..]));
                let edges = list.iter().flat_map(|t| [&t.start, &t.end]);
                for edge in edges {
                    let outside = from.is_none_or(|from| edge.as_slice() > from)
                        && to.is_none_or(|to| edge.as_slice() < to);
                    prop_assert!(!outside, "an edge lies within the segment");
                }
            }
            let order = |t: &RangeTombstone| (t.sequence, t.start.clone(), t.end.clone());
            list.sort_by_key(order);
            let mut back: Vec<_> = set.iter().map(RangeTombstone::from).collect();
            back.sort_by_key(order);
            prop_assert_eq!(back, list);
        }
    }

    /// A queue trimmed from the front: each range encloses all before it.
    #[test]
    fn nested_ranges_do_not_take_quadratic_memory() {
        let list = (1..=4096u32).map(|number| RangeTombstone {
            start: Vec::new(),
            end: number.to_be_bytes().to_vec(),
            sequence: u64::from(number),
        });
        let set = RangeTombstones::new(list.collect());
        assert!(set.memory_bytes() < 4096 * 150, "{}", set.memory_bytes());
        let sequence = |key: u32, snapshot| {
            let found = set.newest_covering(&key.to_be_bytes(), snapshot);
            found.map(|found| found.sequence)
        };
        assert_eq!(sequence(100, u64::MAX), Some(4096));
        assert_eq!((sequence(100, 101), sequence(100, 100)), (Some(101), None));
    }

    #[test]
    fn a_tombstone_is_clipped_to_what_it_covers() {
        let whole = tombstone("b", "m", 1);
        let clip = |from: Option<&str>, to: Option<&str>| {
            whole
                .clone()
                .clipped(from.map(str::as_bytes), to.map(str::as_bytes))
        };
        assert_eq!(clip(None, None), Some(whole.clone()));
        assert_eq!(clip(Some("a"), Some("z")), Some(whole.clone()));
        assert_eq!(clip(Some("c"), Some("d")), Some(tombstone("c", "d", 1)));
        assert_eq!(clip(Some("m"), None), None);
        assert_eq!(clip(None, Some("b")), None);
    }
}
