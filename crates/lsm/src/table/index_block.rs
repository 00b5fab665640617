//! A block of the index in the form in which it is searched: flat arrays instead of entries.
//!
//! It is made once, when the block is read. Then every length has been checked and every child lies
//! where it may. So a lookup is a search among words of eight bytes and ends in a handle, with
//! nothing left to decode or to refuse.

use std::cmp::Ordering;

use super::block::Block;
use super::format::{Ascending, BlockHandle, Malformed};
use super::resident_blocks::ResidentBlocks;
use crate::debug_expect::DebugExpect;
use crate::key::{InternalKey, Tag};
use crate::key_prefixes::KeyPrefixes;

/// A partition of the index, or the top index. By default that of a table without entries.
#[derive(Debug, Default)]
pub(crate) struct IndexBlock {
    prefixes: KeyPrefixes,
    children: Box<[Child]>,
    /// Behind each other, the part of every entry's user key behind the common part, and its tag
    /// unless that is [`SEPARATING`], which nearly all have.
    keys: Box<[u8]>,
    resident: ResidentBlocks,
}

#[derive(Debug)]
struct Child {
    offset: u64,
    length_bytes: u32,
    /// Where its key ends in `keys`, and whether its tag is there. It begins where the one before ends.
    key_end: u32,
}

/// The tag of a key that is no entry's, but lies between two.
pub(super) const SEPARATING: Tag = Tag(u64::MAX);
/// Bit of a child whose key has its tag with it.
const HAS_TAG: u32 = 1 << 31;

impl Child {
    fn key_end(&self) -> usize {
        (self.key_end & !HAS_TAG) as usize
    }

    fn has_tag(&self) -> bool {
        self.key_end & HAS_TAG != 0
    }
}

impl IndexBlock {
    /// Refuses keys that do not ascend, children that do not lie behind each other, and those that
    /// `admit` does not let pass. So no walk over children comes to a block twice.
    pub(super) fn new(
        block: &Block,
        mut admit: impl FnMut(BlockHandle) -> bool,
    ) -> Result<Self, Malformed> {
        let mut entries: Vec<(InternalKey<'_>, BlockHandle)> = Vec::new();
        let mut places = Ascending::default();
        for entry in block.whole_entries() {
            let (position, key, value) = entry?;
            let handle = BlockHandle::decode(value)
                .filter(|handle| admit(*handle))
                .ok_or(Malformed::new(position, "an index entry names no block"))?;
            if entries.last().is_some_and(|(last, _)| *last >= key) {
                return Err(Malformed::new(
                    position,
                    "the keys of the index do not ascend",
                ));
            }
            if !places.takes(handle) {
                let detail = "an index entry names a block before that of the last entry";
                return Err(Malformed::new(position, detail));
            }
            entries.push((key, handle));
        }
        let prefixes = KeyPrefixes::new(entries.iter().map(|(key, _)| key.user_key));
        let common = prefixes.common().len();
        let mut keys = Vec::new();
        let mut children = Vec::with_capacity(entries.len());
        for (key, handle) in entries {
            let rest = InternalKey {
                user_key: key
                    .user_key
                    .get(common..)
                    .debug_expect("keys that ascend share what the ends share"),
                tag: key.tag,
            };
            let flag = if key.tag == SEPARATING {
                keys.extend_from_slice(rest.user_key);
                0
            } else {
                rest.encode_into(&mut keys);
                HAS_TAG
            };
            let too_long = Malformed::new(0, "an index entry is too long");
            let key_end = u32::try_from(keys.len())
                .ok()
                .filter(|end| end & HAS_TAG == 0);
            children.push(Child {
                offset: handle.offset,
                length_bytes: u32::try_from(handle.length_bytes).map_err(|_| too_long)?,
                key_end: key_end.ok_or(too_long)? | flag,
            });
        }
        Ok(IndexBlock {
            prefixes,
            children: children.into(),
            keys: keys.into(),
            resident: ResidentBlocks::default(),
        })
    }

    /// Returns the number of children; 0 only without entries.
    pub(super) fn len(&self) -> usize {
        self.children.len()
    }

    /// Returns the block at a position, `None` past the last.
    pub(super) fn child(&self, at: usize) -> Option<BlockHandle> {
        self.children.get(at).map(|child| BlockHandle {
            offset: child.offset,
            length_bytes: u64::from(child.length_bytes),
        })
    }

    /// Returns the position of the first child whose key is not before `target`; past the last if
    /// there is none.
    #[inline]
    pub(super) fn position(&self, target: InternalKey<'_>) -> usize {
        let common = self.prefixes.common().len();
        // Where keys are compared at all, the common part is the target's too.
        let rest = InternalKey {
            user_key: target.user_key.get(common..).unwrap_or_default(),
            tag: target.tag,
        };
        let is_before = |at| self.key(at).is_some_and(|key| key < rest);
        self.prefixes.partition_point(target.user_key, is_before)
    }

    /// Compares `key` with the key at a position; `None` past the last.
    pub(super) fn compare(&self, key: InternalKey<'_>, at: usize) -> Option<Ordering> {
        let (common, separator) = (self.prefixes.common(), self.key(at)?);
        let Some((head, rest)) = key.user_key.split_at_checked(common.len()) else {
            return Some(key.user_key.cmp(common));
        };
        let rest = InternalKey {
            user_key: rest,
            tag: key.tag,
        };
        Some(head.cmp(common).then_with(|| rest.cmp(&separator)))
    }

    /// Returns whether the keys are those that a parent's entry at `at` stands for. They lie behind
    /// the key before that, and up to the entry's own, which is the last.
    pub(super) fn is_child_of(&self, parent: &IndexBlock, at: usize) -> bool {
        let compare = |child: usize, at: usize| {
            let user_key = [self.prefixes.common(), self.key(child)?.user_key].concat();
            let tag = self.key(child)?.tag;
            let user_key = &*user_key;
            parent.compare(InternalKey { user_key, tag }, at)
        };
        let last = self.len().saturating_sub(1);
        let begins_behind = at
            .checked_sub(1)
            .is_none_or(|before| compare(0, before) == Some(Ordering::Greater));
        begins_behind && compare(last, at) == Some(Ordering::Equal)
    }

    /// Returns the user keys of all entries, in order.
    pub(super) fn user_keys(&self) -> impl Iterator<Item = Vec<u8>> {
        let common = self.prefixes.common();
        (0..self.len()).map_while(move |at| Some([common, self.key(at)?.user_key].concat()))
    }

    /// Returns a key without the common part.
    fn key(&self, at: usize) -> Option<InternalKey<'_>> {
        let start = match at.checked_sub(1) {
            Some(before) => self.children.get(before)?.key_end(),
            None => 0,
        };
        let child = self.children.get(at)?;
        let key = self.keys.get(start..child.key_end())?;
        match child.has_tag() {
            true => InternalKey::decode(key),
            false => Some(InternalKey {
                user_key: key,
                tag: SEPARATING,
            }),
        }
    }

    /// Returns the blocks that are found from here.
    #[inline]
    pub(super) fn resident(&self) -> &ResidentBlocks {
        &self.resident
    }

    /// Returns the memory in use, without the places of resident blocks.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.prefixes.memory_bytes()
            + size_of_val(&*self.children)
            + self.keys.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Kind;
    use crate::table::block_builder::BlockBuilder;

    fn handle(number: u64) -> BlockHandle {
        BlockHandle {
            offset: 16 + 100 * number,
            length_bytes: 100,
        }
    }

    /// Makes an index block over keys, each naming `handle` of its position.
    fn block(keys: &[InternalKey<'_>], restart_interval: usize) -> Block {
        let mut builder = BlockBuilder::new(restart_interval);
        for (key, number) in keys.iter().zip(0..) {
            let mut value = Vec::new();
            handle(number).encode_into(&mut value);
            builder.add(*key, &value);
        }
        Block::new(builder.finish(<[u8]>::to_vec)).unwrap()
    }

    #[test]
    fn a_target_leads_to_the_first_key_not_before_it() {
        let keys = [
            InternalKey::new(b"k1", 9, Kind::Put),
            InternalKey::new(b"k1", 4, Kind::Put),
            InternalKey {
                user_key: b"k1\0",
                tag: Tag(u64::MAX),
            },
            InternalKey::new(b"k123456789", 4, Kind::Put),
            InternalKey::new(b"k12345678x", 4, Kind::Put),
        ];
        let index = IndexBlock::new(&block(&keys, 1), |_| true).unwrap();
        assert_eq!(index.len(), 5);
        let mut targets = keys.to_vec();
        for user_key in [&b""[..], b"k", b"k1", b"k1\0\0", b"k12345678", b"k2", b"z"] {
            targets.extend([0, 4, 5, 9, 10].map(|snapshot| InternalKey::seek(user_key, snapshot)));
        }
        for target in targets {
            let expected = keys.partition_point(|key| *key < target);
            assert_eq!(index.position(target), expected, "{target:?}");
        }
        let user_keys: Vec<_> = keys.iter().map(|key| key.user_key.to_vec()).collect();
        assert!(index.user_keys().eq(user_keys));
        assert_eq!(index.child(3), Some(handle(3)));
        assert_eq!(index.child(5), None);
    }

    #[test]
    fn only_tags_that_tell_versions_apart_take_room() {
        let separating = |user_key| InternalKey {
            user_key,
            tag: SEPARATING,
        };
        let versions = [
            InternalKey::new(b"k5", 9, Kind::Put),
            InternalKey::new(b"k5", 4, Kind::Put),
        ];
        let keys = [
            separating(b"k1"),
            separating(b"k3"),
            versions[0],
            versions[1],
            separating(b"k7"),
        ];
        let index = IndexBlock::new(&block(&keys, 1), |_| true).unwrap();
        assert_eq!(index.keys.len(), 5 + 2 * 8);
        for (at, key) in keys.into_iter().enumerate() {
            assert_eq!(index.position(key), at, "{key:?}");
            assert_eq!(index.key(at).unwrap().tag, key.tag);
        }
    }

    #[test]
    fn what_cannot_be_an_index_is_refused() {
        let keys = [
            InternalKey::new(b"k1", 9, Kind::Put),
            InternalKey::new(b"k2", 9, Kind::Put),
        ];
        let detail = |built: Result<IndexBlock, Malformed>| built.err().map(|fault| fault.detail);
        let sharing = block(&keys, 16);
        assert_eq!(
            detail(IndexBlock::new(&sharing, |_| true)),
            Some("an entry of the index shares a prefix")
        );
        let backwards = block(&[keys[1], keys[0]], 1);
        assert_eq!(
            detail(IndexBlock::new(&backwards, |_| true)),
            Some("the keys of the index do not ascend")
        );
        let mut builder = BlockBuilder::new(1);
        for key in keys {
            let mut value = Vec::new();
            handle(0).encode_into(&mut value);
            builder.add(key, &value);
        }
        let twice = Block::new(builder.finish(<[u8]>::to_vec)).unwrap();
        assert_eq!(
            detail(IndexBlock::new(&twice, |_| true)),
            Some("an index entry names a block before that of the last entry")
        );
        let misplaced = |child| child != handle(1);
        assert_eq!(
            detail(IndexBlock::new(&block(&keys, 1), misplaced)),
            Some("an index entry names no block")
        );
    }
}
