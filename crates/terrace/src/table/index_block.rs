//! A block of the index in the form in which it is searched: flat arrays instead of entries.
//!
//! It is made once, when the block is read. Then every length has been checked and every child
//! lies where it may, so a lookup is a search among words of eight bytes and ends in a handle,
//! with nothing left to decode or to refuse.

use std::ops::Range;

use super::block::Block;
use super::format::{BlockHandle, Malformed};
use super::resident_blocks::ResidentBlocks;
use crate::key::InternalKey;
use crate::key_prefixes::KeyPrefixes;

/// A partition of the index, or the top index. By default that of a table without entries.
#[derive(Debug, Default)]
pub(crate) struct IndexBlock {
    prefixes: KeyPrefixes,
    children: Box<[Child]>,
    /// Behind each other, what every entry's user key has behind the common part, and its tag.
    keys: Box<[u8]>,
    resident: ResidentBlocks,
}

#[derive(Debug)]
struct Child {
    offset: u64,
    length_bytes: u32,
    /// Where its key ends in `keys`; it begins where the one before ends.
    key_end: u32,
}

impl IndexBlock {
    /// Refuses children that `admit` does not let pass.
    pub(super) fn new(
        block: &Block,
        mut admit: impl FnMut(BlockHandle) -> bool,
    ) -> Result<Self, Malformed> {
        let mut entries = Vec::new();
        for entry in block.whole_entries() {
            let (position, key, value) = entry?;
            let handle = BlockHandle::decode(value)
                .filter(|handle| admit(*handle))
                .ok_or(Malformed::new(position, "an index entry names no block"))?;
            entries.push((key, handle));
        }
        let prefixes = KeyPrefixes::new(entries.iter().map(|(key, _)| key.user_key));
        let common = prefixes.common().len();
        let mut keys = Vec::new();
        let mut children = Vec::with_capacity(entries.len());
        for (key, handle) in entries {
            let rest = InternalKey {
                user_key: key.user_key.get(common..).unwrap_or_default(),
                tag: key.tag,
            };
            rest.encode_into(&mut keys);
            let too_long = Malformed::new(0, "an index entry is too long");
            children.push(Child {
                offset: handle.offset,
                length_bytes: u32::try_from(handle.length_bytes).map_err(|_| too_long)?,
                key_end: u32::try_from(keys.len()).map_err(|_| too_long)?,
            });
        }
        Ok(IndexBlock {
            prefixes,
            children: children.into(),
            keys: keys.into(),
            resident: ResidentBlocks::default(),
        })
    }

    /// The number of children; 0 only without entries.
    pub(super) fn len(&self) -> usize {
        self.children.len()
    }

    /// The block at a position, `None` past the last.
    pub(super) fn child(&self, at: usize) -> Option<BlockHandle> {
        self.children.get(at).map(|child| BlockHandle {
            offset: child.offset,
            length_bytes: u64::from(child.length_bytes),
        })
    }

    /// The position of the first child whose key is not before `target`; past the last if there is
    /// none.
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

    /// The user keys of all entries, in order.
    pub(super) fn user_keys(&self) -> impl Iterator<Item = Vec<u8>> {
        let common = self.prefixes.common();
        (0..self.len()).map_while(move |at| Some([common, self.key(at)?.user_key].concat()))
    }

    /// A key without the common part.
    fn key(&self, at: usize) -> Option<InternalKey<'_>> {
        let end = |child: &Child| child.key_end as usize;
        let start = match at.checked_sub(1) {
            Some(before) => end(self.children.get(before)?),
            None => 0,
        };
        let range: Range<usize> = start..end(self.children.get(at)?);
        InternalKey::decode(self.keys.get(range)?)
    }

    /// The blocks that are found from here.
    #[inline]
    pub(super) fn resident(&self) -> &ResidentBlocks {
        &self.resident
    }

    /// With the places of resident blocks, which only a partition that stays has.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + ResidentBlocks::memory_bytes(self.len())
            + self.prefixes.memory_bytes()
            + size_of_val(&*self.children)
            + self.keys.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Kind, Tag};
    use crate::table::block_builder::BlockBuilder;

    fn handle(number: u64) -> BlockHandle {
        BlockHandle {
            offset: 16 + number,
            length_bytes: 100,
        }
    }

    /// An index block over keys, each naming `handle` of its position.
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
        let misplaced = |child| child != handle(1);
        assert_eq!(
            detail(IndexBlock::new(&block(&keys, 1), misplaced)),
            Some("an index entry names no block")
        );
    }
}
