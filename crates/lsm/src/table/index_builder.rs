//! Builds the lower level of the index while data blocks are written.

use super::block_builder::BlockBuilder;
use super::format::BlockHandle;
use super::index_block::SEPARATING;
use crate::key::{InternalKey, Tag};
use crate::key_prefixes::common_length;

/// Separators are few and short: a partition is searched by bisection alone.
pub(super) const INDEX_RESTART_INTERVAL: usize = 1;

/// The partitions of the index, kept until the data blocks are written.
pub(super) struct IndexBuilder {
    partition_bytes: usize,
    partition: BlockBuilder,
    finished: Vec<(Vec<u8>, Vec<u8>)>,
    finished_bytes: usize,
    separator: Vec<u8>,
    value: Vec<u8>,
}

impl IndexBuilder {
    pub(super) fn new(partition_bytes: usize) -> Self {
        IndexBuilder {
            partition_bytes,
            partition: BlockBuilder::new(INDEX_RESTART_INTERVAL),
            finished: Vec::new(),
            finished_bytes: 0,
            separator: Vec::new(),
            value: Vec::new(),
        }
    }

    /// Adds the block whose last key is `last` and whose successor begins with `next`.
    pub(super) fn add(
        &mut self,
        last: InternalKey<'_>,
        next: Option<InternalKey<'_>>,
        handle: BlockHandle,
    ) {
        let tag = separate(last, next, &mut self.separator);
        self.value.clear();
        handle.encode_into(&mut self.value);
        let key = InternalKey {
            user_key: &self.separator,
            tag,
        };
        self.partition.add(key, &self.value);
        if self.partition.length_bytes() >= self.partition_bytes {
            self.end_partition();
        }
    }

    fn end_partition(&mut self) {
        if self.partition.is_empty() {
            return;
        }
        let contents = self.partition.finish(<[u8]>::to_vec);
        let mut last_key = Vec::new();
        self.partition.last_key().encode_into(&mut last_key);
        self.finished_bytes += contents.len() + last_key.len();
        self.finished.push((last_key, contents));
    }

    pub(super) fn length_bytes(&self) -> usize {
        self.finished_bytes + self.partition.length_bytes()
    }

    pub(super) fn take_partitions(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.end_partition();
        std::mem::take(&mut self.finished)
    }
}

/// Returns a short key that is not before `last` and is before `next`: its user key goes to
/// `user_key`.
///
/// It is `last` itself, or a user key strictly between the two. So a version of `next`'s user key
/// is never looked for in the block before it, and a lookup ends in the one block the index names.
fn separate(last: InternalKey<'_>, next: Option<InternalKey<'_>>, user_key: &mut Vec<u8>) -> Tag {
    user_key.clear();
    user_key.extend_from_slice(last.user_key);
    let Some(next) = next else { return last.tag };
    let common = common_length(last.user_key, next.user_key);
    let (Some(&ours), Some(&theirs)) = (last.user_key.get(common), next.user_key.get(common))
    else {
        return last.tag;
    };
    if common + 1 >= last.user_key.len() {
        return last.tag;
    }
    let between = if ours.saturating_add(1) < theirs {
        ours + 1
    } else if common + 1 < next.user_key.len() {
        // Keys of neighbouring blocks often differ by one where they part. A prefix of `next` is
        // before it.
        theirs
    } else {
        return last.tag;
    };
    user_key.truncate(common);
    user_key.push(between);
    SEPARATING
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Kind;

    fn separator(last: &[u8], next: &[u8]) -> (Vec<u8>, bool) {
        let last = InternalKey::new(last, 5, Kind::Put);
        let next = InternalKey::new(next, 4, Kind::Put);
        let mut user_key = Vec::new();
        let tag = separate(last, Some(next), &mut user_key);
        let separator = InternalKey {
            user_key: &user_key,
            tag,
        };
        assert!(last <= separator && separator < next);
        let is_last = separator == last;
        assert!(is_last || user_key.as_slice() < next.user_key);
        (user_key, is_last)
    }

    #[test]
    fn separators_are_short_and_between() {
        assert_eq!(separator(b"abcdef", b"abzz"), (b"abd".to_vec(), false));
        assert_eq!(separator(b"apple", b"pear"), (b"b".to_vec(), false));
        // The bytes where they differ leave no room; a prefix of the next key does.
        assert_eq!(separator(b"abcdef", b"abd0"), (b"abd".to_vec(), false));
        assert_eq!(
            separator(b"user199512", b"user200007"),
            (b"user2".to_vec(), false)
        );
        assert_eq!(separator(b"a\xff\xff", b"b\0"), (b"b".to_vec(), false));
        // Nothing shorter lies strictly between these.
        for (last, next) in [
            (&b"abc"[..], &b"abc"[..]),
            (b"ab", b"abc"),
            (b"", b"a"),
            (b"abcd", b"abd"),
            (b"a", b"z"),
            (b"a\xff\xff", b"b"),
        ] {
            assert_eq!(separator(last, next), (last.to_vec(), true));
        }
    }
}
