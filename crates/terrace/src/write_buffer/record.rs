//! One record of a batch, as it stands in a frame's payload.
//!
//! `kind u8 | keyspace varint | key length varint | value length varint | key | value`: every kind
//! has this shape, reserved ones included. So a reader finds the next record even if it must refuse
//! this one. The sequence number is not stored: it is the frame's first plus the record's position.

use terrace_lsm::coding::{Decoder, put_varint, varint_length};
use terrace_lsm::key::{Kind, MAX_KEY_BYTES};

/// Bytes of the longest record before its key: the kind and three varints.
pub(crate) const MAX_HEAD_BYTES: usize = 1 + 3 * 10;

/// A record read from a payload. Offsets count from the start of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Offset of the record itself.
    pub(crate) offset: usize,
    pub(crate) kind: Kind,
    pub(crate) keyspace: u32,
    pub(crate) key_offset: usize,
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
}

impl Record {
    /// Decodes the record that `bytes` begin with.
    #[inline]
    pub(crate) fn decode(bytes: &[u8]) -> Option<Record> {
        Records::new(bytes).decode()
    }

    /// Decodes the head of the record that `bytes` begin with. They may hold no more than
    /// [`MAX_HEAD_BYTES`] of it.
    pub(crate) fn decode_head(bytes: &[u8]) -> Option<Record> {
        Records::new(bytes).decode_head()
    }
}

/// Returns the length of a record's stored form.
pub(crate) fn encoded_bytes(keyspace: u32, key_bytes: usize, value_bytes: usize) -> usize {
    1 + varint_length(u64::from(keyspace))
        + varint_length(key_bytes as u64)
        + varint_length(value_bytes as u64)
        + key_bytes
        + value_bytes
}

/// Appends a record's stored form.
pub(crate) fn encode(out: &mut Vec<u8>, kind: Kind, keyspace: u32, key: &[u8], value: &[u8]) {
    out.push(kind as u8);
    put_varint(out, u64::from(keyspace));
    put_varint(out, key.len() as u64);
    put_varint(out, value.len() as u64);
    out.extend_from_slice(key);
    out.extend_from_slice(value);
}

/// The records of a payload, in order. The item is `Err(offset)` at the first place that is not a
/// record, and nothing follows it.
pub(crate) struct Records<'a> {
    payload: &'a [u8],
    decoder: Decoder<'a>,
    failed: bool,
}

impl<'a> Records<'a> {
    pub(crate) fn new(payload: &'a [u8]) -> Self {
        Records {
            payload,
            decoder: Decoder::new(payload),
            failed: false,
        }
    }

    #[inline]
    fn decode(&mut self) -> Option<Record> {
        let record = self.decode_head()?;
        self.decoder.take(record.key_bytes)?;
        self.decoder.take(record.value_bytes)?;
        Some(record)
    }

    /// Decodes the record up to its key: key and value may lie behind the end of the payload.
    #[inline(always)]
    fn decode_head(&mut self) -> Option<Record> {
        let offset = self.payload.len() - self.decoder.rest().len();
        let kind = Kind::from_number(self.decoder.u8()?)?;
        let keyspace = self
            .decoder
            .varint_u32()
            .filter(|&keyspace| keyspace != 0)?;
        let key_bytes = usize::try_from(self.decoder.varint()?).ok()?;
        let value_bytes = usize::try_from(self.decoder.varint()?).ok()?;
        if key_bytes > MAX_KEY_BYTES {
            return None;
        }
        let key_offset = self.payload.len() - self.decoder.rest().len();
        Some(Record {
            offset,
            kind,
            keyspace,
            key_offset,
            key_bytes,
            value_bytes,
        })
    }
}

impl Iterator for Records<'_> {
    type Item = Result<Record, usize>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.decoder.is_empty() {
            return None;
        }
        let offset = self.payload.len() - self.decoder.rest().len();
        let record = self.decode();
        self.failed = record.is_none();
        Some(record.ok_or(offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_damage_ends_them() {
        let mut payload = Vec::new();
        encode(&mut payload, Kind::Put, 1, b"key", b"value");
        let first = payload.len();
        assert_eq!(first, encoded_bytes(1, 3, 5));
        encode(&mut payload, Kind::Delete, 300, b"", b"");
        let records: Vec<_> = Records::new(&payload).collect();
        assert_eq!(records.len(), 2);
        let record = records[0].unwrap();
        assert_eq!(&payload[record.key_offset..][..8], b"keyvalue");
        assert_eq!(records[1].unwrap().keyspace, 300);

        payload[first] = 0;
        let records: Vec<_> = Records::new(&payload).collect();
        assert_eq!(records[1], Err(first));
        for cut in 1..first {
            assert!(
                Records::new(&payload[..cut]).any(|record| record.is_err()),
                "cut at {cut}"
            );
        }
    }
}
