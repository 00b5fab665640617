//! Checks the records of frames that lie in an arena, without the arena in memory.
//!
//! An opening writes nothing before it knows two facts. Every frame that it takes can be indexed,
//! and the manifest knows the keyspace of every write. So this check runs while the opening looks
//! for the frames.

use terrace_lsm::key::MAX_KEY_BYTES;
use terrace_lsm::things::things;
use terrace_region::{FrameInfo, Window};

use crate::write_buffer::record::{MAX_HEAD_BYTES, Record};

/// The first faults of an arena's frames.
#[derive(Clone, Debug, Default)]
pub(crate) struct FrameFaults {
    /// Records that no MemTable takes.
    pub(crate) bad_records: Option<BadRecords>,
    /// A write to a keyspace at or above the next one to be created.
    pub(crate) unissued_keyspace: Option<UnissuedKeyspace>,
}

/// A frame whose payload contradicts its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadRecords {
    /// Offset in the arena.
    pub(crate) offset: usize,
    pub(crate) detail: String,
}

/// A write to a keyspace that no edit issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnissuedKeyspace {
    /// Offset of the frame.
    pub(crate) offset: usize,
    pub(crate) keyspace: u32,
}

impl FrameFaults {
    /// Checks one frame. Returns whether it has no fault.
    ///
    /// # Errors
    /// The error of the medium.
    pub(crate) fn check(
        &mut self,
        frame: &FrameInfo,
        window: &mut Window<'_>,
        next_keyspace: u32,
    ) -> terrace_region::Result<bool> {
        let end = frame.payload_offset() + frame.payload_bytes;
        let mut at = frame.payload_offset();
        let mut records = 0_u64;
        let mut is_sound = true;
        while at < end {
            let head = window.bytes(at, MAX_HEAD_BYTES.min(end - at))?;
            let record = head.and_then(Record::decode_head);
            let Some((record, next)) =
                record.and_then(|record| Some((record, behind(&record, at, end)?)))
            else {
                self.note(at, "not a record".to_owned());
                return Ok(false);
            };
            if record.keyspace >= next_keyspace {
                is_sound = false;
                self.unissued_keyspace.get_or_insert(UnissuedKeyspace {
                    offset: frame.offset,
                    keyspace: record.keyspace,
                });
            }
            if record.kind.is_of_range() && !is_range(&record, at, window)? {
                self.note(at, "a range delete without a range".to_owned());
                return Ok(false);
            }
            records += 1;
            at = next;
        }
        if records != u64::from(frame.record_count) {
            let detail = format!(
                "the frame says that it holds {} and holds another number of them",
                things(frame.record_count, "record")
            );
            self.note(frame.offset, detail);
            return Ok(false);
        }
        Ok(is_sound)
    }

    fn note(&mut self, offset: usize, detail: String) {
        self.bad_records
            .get_or_insert(BadRecords { offset, detail });
    }
}

/// Returns the offset of the next record; `None` if this one does not end within its frame.
fn behind(record: &Record, at: usize, end: usize) -> Option<usize> {
    let key = at.checked_add(record.key_offset)?;
    let value = key.checked_add(record.key_bytes)?;
    let next = value.checked_add(record.value_bytes)?;
    (next <= end).then_some(next)
}

fn is_range(record: &Record, at: usize, window: &mut Window<'_>) -> terrace_region::Result<bool> {
    if record.value_bytes > MAX_KEY_BYTES {
        return Ok(false);
    }
    let bytes = window.bytes(
        at + record.key_offset,
        record.key_bytes + record.value_bytes,
    )?;
    let range = bytes.and_then(|bytes| bytes.split_at_checked(record.key_bytes));
    Ok(range.is_some_and(|(start, end)| start < end))
}

#[cfg(test)]
mod tests {
    use terrace_lsm::key::Kind;
    use terrace_region::{Expected, MemoryKind};
    use terrace_region::{Frame, Region, SimulatedMemory};
    use terrace_storage::CrashSwitch;

    use super::*;
    use crate::KeyspaceId;
    use crate::write_buffer::batch::WriteBatch;

    /// Returns the faults of an arena with one frame whose header counts `record_count` records.
    fn faults(payload: &[u8], record_count: u32) -> FrameFaults {
        let memory = SimulatedMemory::new(MemoryKind::Dax, 0, CrashSwitch::new());
        let region = Region::open(Box::new(memory.clone()), [7; 16], 1 << 20).unwrap();
        let arena = region
            .activate(region.reserve(1 << 20).unwrap(), 1)
            .unwrap();
        let frame = Frame {
            first_sequence: 1,
            record_count,
            persisted_until: 0,
            payload: &[payload],
        };
        arena.append(&frame).unwrap();
        let mut faults = FrameFaults::default();
        let mut is_sound = true;
        region
            .recover_as(1, 1, Expected::default(), &mut |frame, window| {
                is_sound = faults.check(frame, window, 3)?;
                Ok(true)
            })
            .unwrap();
        let has_none = faults.bad_records.is_none() && faults.unissued_keyspace.is_none();
        assert_eq!(is_sound, has_none);
        faults
    }

    fn bad(payload: &[u8], record_count: u32) -> (usize, String) {
        let bad = faults(payload, record_count).bad_records.unwrap();
        (bad.offset - 4096, bad.detail)
    }

    #[test]
    fn whole_records_pass_and_every_cut_is_noticed() {
        let mut batch = WriteBatch::new();
        batch.put(b"key", [7; 300]).unwrap();
        let first = batch.payload().len();
        batch.delete_range(b"a", b"b").unwrap();
        let whole = batch.payload().to_vec();
        assert_eq!(faults(&whole, 2).bad_records, None);
        for cut in 1..whole.len() {
            let place = if cut < first { 48 } else { 48 + first };
            match cut == first {
                true => assert_eq!(bad(&whole[..cut], 2).0, 0, "one record is missing"),
                false => assert_eq!(bad(&whole[..cut], 2), (place, "not a record".to_owned())),
            }
        }
    }

    #[test]
    fn a_frame_that_counts_its_records_wrong_is_damage() {
        let mut batch = WriteBatch::new();
        batch.put(b"key", b"value").unwrap();
        let (offset, detail) = bad(batch.payload(), 7);
        assert_eq!(offset, 0);
        assert!(detail.contains("holds 7 records"), "{detail}");
    }

    #[test]
    fn a_range_that_ends_before_it_begins_is_damage() {
        let mut payload = Vec::new();
        let kind = Kind::RangeDelete;
        crate::write_buffer::record::encode(&mut payload, kind, 1, b"b", b"a");
        assert_eq!(bad(&payload, 1).1, "a range delete without a range");
    }

    #[test]
    fn keyspaces_that_no_edit_issued_are_named_with_their_frame() {
        let mut batch = WriteBatch::new();
        for keyspace in [1, 2, 3, 4] {
            batch
                .push(Kind::Put, KeyspaceId::from_number(keyspace), b"key", b"")
                .unwrap();
        }
        let found = faults(batch.payload(), 4);
        let unissued = UnissuedKeyspace {
            offset: 4096,
            keyspace: 3,
        };
        assert_eq!(found.unissued_keyspace, Some(unissued));
        assert_eq!(found.bad_records, None);
    }
}
