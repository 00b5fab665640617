//! Entry points for fuzzers: hostile bytes in, nothing out; a panic is the finding.

use std::path::Path;

use super::current;
use super::edit::Edit;
use super::record::Records;
use super::state::ManifestState;
use crate::coding::Decoder;

/// Reads `bytes` as the file of a manifest, under the number that its header claims.
pub fn fuzz_manifest(bytes: &[u8]) {
    let path = Path::new("MANIFEST-fuzz");
    let mut header = Decoder::new(bytes.get(16..).unwrap_or_default());
    let Ok(records) = Records::new(path, bytes, header.u64().unwrap_or(1)) else {
        return;
    };
    let mut state = None;
    for record in records {
        let Ok(edit) = record.and_then(|record| record.edit(path)) else {
            return;
        };
        let next = match &state {
            None => ManifestState::begin(&edit),
            Some(state) => ManifestState::apply(state, &edit),
        };
        let Ok(next) = next else { return };
        state = Some(next);
    }
}

/// Reads `bytes` as an edit, behind the checksum of its record. A readable edit is written, read
/// again, and applied to an empty store.
pub fn fuzz_edit(bytes: &[u8]) {
    let Ok(edit) = Edit::decode(bytes) else {
        return;
    };
    assert!(Edit::decode(&edit.encode()).is_ok_and(|again| again == edit));
    let _ = edit.to_string();
    if let Ok(state) = ManifestState::begin(&edit) {
        let _ = state.apply(&edit);
    }
}

/// Reads `bytes` as `CURRENT`.
pub fn fuzz_current(bytes: &[u8]) {
    let _ = current::parse(bytes);
}
