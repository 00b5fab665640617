//! Entry points for fuzzers: hostile bytes in, nothing out; a panic is the finding.

use terrace_region::{ArenaKey, Header, HeaderState, list_frames};

use crate::write_buffer::record::Records;

/// Reads `bytes` as the payload of a frame.
pub fn fuzz_record(bytes: &[u8]) {
    for record in Records::new(bytes).map_while(Result::ok) {
        let end = record.key_offset + record.key_bytes + record.value_bytes;
        assert!(end <= bytes.len() && record.keyspace != 0);
    }
}

/// Reads `bytes` as the file of an arena: the header, then the frames of its generation, or of the
/// first one if there is no header.
pub fn fuzz_arena(bytes: &[u8]) {
    let key = match Header::decode(bytes) {
        HeaderState::Intact(header) => header.key(),
        _ => ArenaKey::new([0; 16], 1),
    };
    let found = list_frames(bytes, key);
    for frame in found.frames.iter().chain(&found.behind) {
        let end = frame.payload_offset() + frame.payload_bytes;
        let payload = bytes.get(frame.payload_offset()..end);
        assert!(payload.is_some(), "a frame outside the arena");
        fuzz_record(payload.unwrap_or_default());
    }
}
