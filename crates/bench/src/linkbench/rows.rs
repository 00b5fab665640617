//! Rows of the four tables as keys and values. Numbers in keys are big-endian, so that keys are in their order.

use std::f64::consts::TAU;
use std::ops::Range;

use super::request::LinkKey;
use crate::draw::{mix_64, unit_of};

/// Bytes of a node with its links and counts in all tables, on average: to tell how much a graph takes.
pub const MEAN_NODE_BYTES: u32 = 588;

const NODE_TYPE: u32 = 2048;

/// The visibility of a link that lists show.
const VISIBLE: u8 = 1;
const HIDDEN: u8 = 0;

/// A row of the table of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// From 1 on.
    pub version: u64,
    /// The time of the version.
    pub time: u32,
}

/// A row of the table of links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Whether lists show it.
    pub is_visible: bool,
    /// The time of the version.
    pub time: u64,
    /// From 1 on.
    pub version: u32,
}

/// A row of the table of counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Visible links.
    pub links: u32,
    /// The time of the last change.
    pub time: u64,
    /// From 1 on.
    pub version: u64,
}

/// Returns the key of a node.
pub fn node_key(id: u64) -> [u8; 8] {
    id.to_be_bytes()
}

/// Returns the key of a link: type, first id, second id.
pub fn link_key(link: &LinkKey) -> [u8; 24] {
    joined([link.link_type, link.id1, link.id2])
}

/// Returns the link of a key.
pub fn link_of(key: &[u8]) -> Option<LinkKey> {
    let [link_type, id1, id2] = parts(key)?;
    Some(LinkKey {
        link_type,
        id1,
        id2,
    })
}

/// Returns the key of a count: id, type.
pub fn count_key(id1: u64, link_type: u64) -> [u8; 16] {
    joined([id1, link_type])
}

/// Returns id and type of the key of a count.
pub fn count_of(key: &[u8]) -> Option<(u64, u64)> {
    let [id1, link_type] = parts(key)?;
    Some((id1, link_type))
}

/// Returns the key of a link in the index: first id, type, visibility, time, second id. The newest link is
/// the first one.
pub fn index_key(link: &LinkKey, row: &Link) -> [u8; 33] {
    let mut key = [0; 33];
    let (head, tail) = key.split_at_mut(17);
    let (ids, visibility) = head.split_at_mut(16);
    ids.copy_from_slice(&joined::<2, 16>([link.id1, link.link_type]));
    visibility.fill(visibility_of(row.is_visible));
    tail.copy_from_slice(&joined::<2, 16>([!row.time, link.id2]));
    key
}

/// Returns link, visibility and time of a key of the index.
pub fn indexed(key: &[u8]) -> Option<(LinkKey, bool, u64)> {
    let (ids, rest) = key.split_at_checked(16)?;
    let (visibility, tail) = rest.split_first()?;
    let [id1, link_type] = parts(ids)?;
    let [time, id2] = parts(tail)?;
    let link = LinkKey {
        link_type,
        id1,
        id2,
    };
    Some((link, *visibility == VISIBLE, !time))
}

/// Returns the range of the index with the visible links of a node and a type: all of them, or those behind
/// one of a time and a second id.
pub fn listed(id1: u64, link_type: u64, behind: Option<(u64, u64)>) -> Range<Vec<u8>> {
    let key = |time, id2| {
        let link = LinkKey {
            link_type,
            id1,
            id2,
        };
        let row = Link {
            is_visible: true,
            time,
            version: 0,
        };
        index_key(&link, &row).to_vec()
    };
    let start = match behind {
        None => key(u64::MAX, 0),
        Some((time, id2)) => {
            let mut next = key(time, id2);
            next.push(0);
            next
        }
    };
    // Behind every key of the visible ones.
    let mut end = key(0, 0).get(..16).unwrap_or_default().to_vec();
    end.push(VISIBLE + 1);
    start..end
}

impl Node {
    /// Writes the value, with its data, in place of the contents of `value`.
    pub fn write(&self, id: u64, value: &mut Vec<u8>) {
        value.clear();
        value.extend_from_slice(&NODE_TYPE.to_be_bytes());
        value.extend_from_slice(&self.version.to_be_bytes());
        value.extend_from_slice(&self.time.to_be_bytes());
        push_data(mix_64(id) ^ self.version, 128.0, 1 << 20, 0.6, value);
    }

    /// Reads a value's fields, without its data.
    pub fn read(value: &[u8]) -> Option<Node> {
        let (node_type, rest) = value.split_first_chunk::<4>()?;
        let (version, rest) = rest.split_first_chunk::<8>()?;
        let (time, _) = rest.split_first_chunk::<4>()?;
        (u32::from_be_bytes(*node_type) == NODE_TYPE).then_some(Node {
            version: u64::from_be_bytes(*version),
            time: u32::from_be_bytes(*time),
        })
    }
}

impl Link {
    /// Writes the value, with its data, in place of the contents of `value`.
    pub fn write(&self, link: &LinkKey, value: &mut Vec<u8>) {
        value.clear();
        value.push(visibility_of(self.is_visible));
        value.extend_from_slice(&self.time.to_be_bytes());
        value.extend_from_slice(&self.version.to_be_bytes());
        let seed = mix_64(mix_64(link.id1 ^ link.link_type) ^ link.id2) ^ u64::from(self.version);
        push_data(seed, 8.0, 255, 0.3, value);
    }

    /// Reads a value's fields, without its data.
    pub fn read(value: &[u8]) -> Option<Link> {
        let (visibility, rest) = value.split_first()?;
        let (time, rest) = rest.split_first_chunk::<8>()?;
        let (version, _) = rest.split_first_chunk::<4>()?;
        Some(Link {
            is_visible: *visibility == VISIBLE,
            time: u64::from_be_bytes(*time),
            version: u32::from_be_bytes(*version),
        })
    }
}

impl Count {
    /// Writes the value in place of the contents of `value`.
    pub fn write(&self, value: &mut Vec<u8>) {
        value.clear();
        value.extend_from_slice(&self.links.to_be_bytes());
        value.extend_from_slice(&self.time.to_be_bytes());
        value.extend_from_slice(&self.version.to_be_bytes());
    }

    /// Reads a value.
    pub fn read(value: &[u8]) -> Option<Count> {
        let (links, rest) = value.split_first_chunk::<4>()?;
        let [time, version] = parts(rest)?;
        Some(Count {
            links: u32::from_be_bytes(*links),
            time,
            version,
        })
    }
}

/// Returns whether a value is that of a node, in the version that it says. `expected` is overwritten.
pub fn is_node(id: u64, value: &[u8], expected: &mut Vec<u8>) -> bool {
    Node::read(value).is_some_and(|node| {
        node.write(id, expected);
        *expected == value
    })
}

/// Returns the row of a link in its value, if that is the link's in the version that it says. `expected` is
/// overwritten.
pub fn link_in(link: &LinkKey, value: &[u8], expected: &mut Vec<u8>) -> Option<Link> {
    Link::read(value).filter(|row| {
        row.write(link, expected);
        *expected == value
    })
}

fn visibility_of(is_visible: bool) -> u8 {
    match is_visible {
        true => VISIBLE,
        false => HIDDEN,
    }
}

/// Appends data whose length is log-normal with a median and a sigma of 1. A share of them can be
/// compressed.
fn push_data(
    seed: u64,
    median_bytes: f64,
    max_bytes: usize,
    compressible: f64,
    value: &mut Vec<u8>,
) {
    let mut hash = mix_64(seed);
    let mut next = || {
        hash = mix_64(hash);
        hash
    };
    // Box and Muller's normal draw; the first one is never 0.
    let (first, second) = (1.0 - unit_of(next()), unit_of(next()));
    let normal = (-2.0 * first.ln()).sqrt() * (TAU * second).cos();
    let bytes = ((median_bytes * normal.exp()) as usize).clamp(1, max_bytes);
    let end = value.len() + bytes;
    let random_end = end - (bytes as f64 * compressible) as usize;
    while value.len() < random_end {
        let left = random_end - value.len();
        let octets = next().to_le_bytes();
        value.extend(octets.iter().take(left));
    }
    value.resize(end, b'.');
}

/// Joins numbers, big-endian. `BYTES` is eight times `N`.
fn joined<const N: usize, const BYTES: usize>(numbers: [u64; N]) -> [u8; BYTES] {
    const { assert!(BYTES == 8 * N) };
    let mut joined = [0; BYTES];
    for (place, number) in joined.chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_be_bytes());
    }
    joined
}

/// Takes joined numbers apart; `None` if there are more or fewer.
fn parts<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let (numbers, rest) = bytes.as_chunks::<8>();
    let numbers: &[[u8; 8]; N] = numbers.try_into().ok()?;
    rest.is_empty().then(|| numbers.map(u64::from_be_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: LinkKey = LinkKey {
        link_type: 123_456_790,
        id1: 7,
        id2: 300,
    };

    #[test]
    fn rows_are_read_as_they_were_written() {
        let mut value = Vec::new();
        let node = Node {
            version: 3,
            time: 99,
        };
        node.write(7, &mut value);
        assert_eq!(Node::read(&value), Some(node));
        assert_eq!(Node::read(&value[..10]), None);
        let row = Link {
            is_visible: true,
            time: 1 << 40,
            version: 2,
        };
        row.write(&LINK, &mut value);
        assert_eq!(Link::read(&value), Some(row));
        assert_eq!(Link::read(&value[..12]), None);
        let count = Count {
            links: 5,
            time: 4,
            version: 9,
        };
        count.write(&mut value);
        assert_eq!(Count::read(&value), Some(count));
        assert_eq!(Count::read(&value[1..]), None);
        assert_eq!(link_of(&link_key(&LINK)), Some(LINK));
        assert_eq!(count_of(&count_key(7, 8)), Some((7, 8)));
        assert_eq!(
            indexed(&index_key(&LINK, &row)),
            Some((LINK, true, 1 << 40))
        );
    }

    #[test]
    fn a_list_has_the_visible_links_and_the_newest_first() {
        let key = |id1, id2, is_visible, time| {
            let link = LinkKey { id1, id2, ..LINK };
            let row = Link {
                is_visible,
                time,
                version: 1,
            };
            index_key(&link, &row).to_vec()
        };
        let mut keys = [
            key(7, 1, true, 5),
            key(7, 2, true, 9),
            key(7, 3, true, 9),
            key(7, 4, false, 9),
            key(7, u64::MAX, true, 0),
            key(8, 5, true, 9),
            key(6, 6, true, 9),
        ];
        keys.sort_unstable();
        let ids = |behind| {
            let range = listed(7, LINK.link_type, behind);
            let keys = keys.iter().filter(move |key| range.contains(*key));
            keys.map(|key| indexed(key).unwrap().0.id2)
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(None), [2, 3, 1, u64::MAX]);
        assert_eq!(ids(Some((9, 2))), [3, 1, u64::MAX]);
        assert_eq!(ids(Some((9, 3))), [1, u64::MAX]);
    }

    #[test]
    fn data_have_the_published_median_and_compress_as_published() {
        for (median, max, compressible) in [(128.0, 1 << 20, 0.6), (8.0, 255, 0.3)] {
            let mut lengths: Vec<usize> = (0..10_001)
                .map(|seed| {
                    let mut data = Vec::new();
                    push_data(seed, median, max, compressible, &mut data);
                    data.len()
                })
                .collect();
            lengths.sort_unstable();
            let middle = lengths[5_000] as f64;
            assert!(
                (0.9 * median - 1.0..1.1 * median).contains(&middle),
                "{middle}"
            );
            // One sigma above the median.
            let above = lengths[8_413] as f64 / median;
            assert!((2.3..2.9).contains(&above), "{above}");
            assert!(lengths[10_000] <= max);
        }
        let mut data = Vec::new();
        push_data(5, 100_000.0, 1 << 20, 0.6, &mut data);
        let dots = data.iter().rev().take_while(|byte| **byte == b'.').count();
        assert!((dots as f64 / data.len() as f64 - 0.6).abs() < 0.001);
    }
}
