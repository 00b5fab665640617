//! Keys and ranges of keys, in several keyspaces: all that a writer has looked at.
//!
//! A footprint grows in any order and holds a key as often as it was added. [`Footprint::settle`] sorts
//! it, once before it is asked. Growth settles it each time it has doubled. So a writer that looks at one
//! key again and again takes little memory.

use std::ops::Bound;

use terrace_lsm::key::Kind;

use crate::KeyspaceId;

/// Entries below which a footprint is not settled as it grows.
const MIN_SETTLED: usize = 64;

/// The keys from `start` on, up to `end`, excluded; `None` is no limit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    pub(crate) start: Vec<u8>,
    pub(crate) end: Option<Vec<u8>>,
}

impl Span {
    pub(crate) fn of(lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Self {
        Span {
            start: match lower {
                Bound::Included(key) => key.to_vec(),
                Bound::Excluded(key) => next_key(key),
                Bound::Unbounded => Vec::new(),
            },
            end: match upper {
                Bound::Included(key) => Some(next_key(key)),
                Bound::Excluded(key) => Some(key.to_vec()),
                Bound::Unbounded => None,
            },
        }
    }

    fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    pub(crate) fn ends_after(&self, key: &[u8]) -> bool {
        self.end.as_deref().is_none_or(|end| key < end)
    }

    /// Returns the bytes of its keys.
    pub(crate) fn bytes(&self) -> u64 {
        (size_of::<Self>() + self.start.len() + self.end.as_ref().map_or(0, Vec::len)) as u64
    }
}

/// Returns the first key behind a key.
fn next_key(key: &[u8]) -> Vec<u8> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}

/// A change that somebody else has made, or is about to make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Changed<'a> {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) kind: Kind,
    pub(crate) key: &'a [u8],
    /// The range's end, of a deleted range.
    pub(crate) value: &'a [u8],
}

/// See the head of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Footprint {
    keys: Vec<(KeyspaceId, Box<[u8]>)>,
    spans: Vec<(KeyspaceId, Span)>,
    /// Number of entries at which it is settled next.
    settles_at: usize,
    /// Bytes of all entries.
    bytes: u64,
}

impl Footprint {
    /// Makes a footprint of one key.
    pub(crate) fn of_key(keyspace: KeyspaceId, key: &[u8]) -> Self {
        let mut footprint = Footprint::default();
        footprint.add_key(keyspace, key);
        footprint
    }

    pub(crate) fn add_key(&mut self, keyspace: KeyspaceId, key: &[u8]) {
        self.keys.push((keyspace, key.into()));
        self.bytes += key_bytes(key);
        self.settle_if_doubled();
    }

    pub(crate) fn add_span(&mut self, keyspace: KeyspaceId, span: Span) {
        if !span.is_empty() {
            self.bytes += span.bytes();
            self.spans.push((keyspace, span));
            self.settle_if_doubled();
        }
    }

    /// Adds everything of another footprint.
    pub(crate) fn add_all(&mut self, other: &Footprint) {
        self.keys.extend_from_slice(&other.keys);
        self.spans.extend_from_slice(&other.spans);
        self.bytes += other.bytes;
        self.settle();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.spans.is_empty()
    }

    /// Returns the bytes of memory in use, roughly.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn settle_if_doubled(&mut self) {
        let entries = self.keys.len() + self.spans.len();
        if entries >= self.settles_at.max(MIN_SETTLED) {
            self.settle();
        }
    }

    /// Sorts it, and makes one of entries that are equal or meet.
    pub(crate) fn settle(&mut self) {
        self.keys.sort_unstable();
        self.keys.dedup();
        self.spans.sort_unstable();
        self.spans.dedup_by(|next, kept| {
            let meets =
                kept.0 == next.0 && kept.1.end.as_ref().is_none_or(|end| next.1.start <= *end);
            if meets && !ends_no_later(&next.1, &kept.1) {
                kept.1.end = next.1.end.take();
            }
            meets
        });
        self.bytes = self.keys.iter().map(|(_, key)| key_bytes(key)).sum::<u64>()
            + self.spans.iter().map(|(_, span)| span.bytes()).sum::<u64>();
        self.settles_at = 2 * (self.keys.len() + self.spans.len());
    }

    /// Returns the keys of all keyspaces.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (KeyspaceId, &[u8])> {
        self.keys.iter().map(|(keyspace, key)| (*keyspace, &**key))
    }

    /// Returns the spans of all keyspaces.
    pub(crate) fn spans(&self) -> impl Iterator<Item = (KeyspaceId, &Span)> {
        self.spans.iter().map(|(keyspace, span)| (*keyspace, span))
    }

    /// Returns each keyspace, once or twice, with one of its keys. It has to be settled.
    pub(crate) fn keyspaces(&self) -> impl Iterator<Item = (KeyspaceId, &[u8])> {
        let of_keys = first_of_each(&self.keys).map(|(keyspace, key)| (*keyspace, &**key));
        let of_spans = first_of_each(&self.spans);
        of_keys.chain(of_spans.map(|(keyspace, span)| (*keyspace, &*span.start)))
    }

    pub(crate) fn key_count(&self) -> u64 {
        self.keys.len() as u64
    }

    /// Returns whether there are no ranges.
    pub(crate) fn is_of_keys(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns a key that it has and a change touches. It has to be settled.
    #[inline]
    pub(crate) fn touched_by<'a>(&'a self, changed: &Changed<'a>) -> Option<&'a [u8]> {
        match changed.kind.is_of_range() {
            true => self.first_in(changed.keyspace, changed.key, changed.value),
            false => self
                .contains(changed.keyspace, changed.key)
                .then_some(changed.key),
        }
    }

    /// Returns whether it has a key. It has to be settled.
    #[inline]
    pub(crate) fn contains(&self, keyspace: KeyspaceId, key: &[u8]) -> bool {
        debug_assert!(
            self.keys.is_sorted(),
            "a footprint is asked before it is settled"
        );
        let is_key = |(of, own): &(KeyspaceId, Box<[u8]>)| (*of, &**own).cmp(&(keyspace, key));
        let in_span = || {
            let begun = |(of, span): &(KeyspaceId, Span)| (*of, &*span.start) <= (keyspace, key);
            let at = self.spans.partition_point(begun);
            let span = at.checked_sub(1).and_then(|at| self.spans.get(at));
            span.is_some_and(|(of, span)| *of == keyspace && span.ends_after(key))
        };
        self.keys.binary_search_by(is_key).is_ok() || in_span()
    }

    /// Returns a key of it from `from` on, before `to`. It has to be settled.
    pub(crate) fn first_in<'a>(
        &'a self,
        keyspace: KeyspaceId,
        from: &'a [u8],
        to: &[u8],
    ) -> Option<&'a [u8]> {
        let is_before = |(of, key): &(KeyspaceId, Box<[u8]>)| (*of, &**key) < (keyspace, from);
        let at = self.keys.partition_point(is_before);
        if let Some((of, key)) = self.keys.get(at)
            && *of == keyspace
            && **key < *to
        {
            return Some(key);
        }
        let begins_before = |(of, span): &(KeyspaceId, Span)| (*of, &*span.start) < (keyspace, to);
        let at = self.spans.partition_point(begins_before).checked_sub(1)?;
        let (of, span) = self.spans.get(at)?;
        (*of == keyspace && span.ends_after(from)).then(|| from.max(&span.start))
    }
}

/// Returns the first entry of each keyspace. The entries are sorted by it.
fn first_of_each<T>(entries: &[(KeyspaceId, T)]) -> impl Iterator<Item = &(KeyspaceId, T)> {
    let mut rest = entries;
    std::iter::from_fn(move || {
        let first = rest.first()?;
        let behind = rest.partition_point(|(keyspace, _)| *keyspace <= first.0);
        rest = rest.get(behind..).unwrap_or_default();
        Some(first)
    })
}

/// Returns whether a span ends where another one does, or before.
fn ends_no_later(span: &Span, other: &Span) -> bool {
    match (&span.end, &other.end) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(end), Some(other)) => end <= other,
    }
}

/// Returns the memory of a key's entry.
fn key_bytes(key: &[u8]) -> u64 {
    (size_of::<(KeyspaceId, Box<[u8]>)>() + key.len()) as u64
}

#[cfg(test)]
mod tests;
