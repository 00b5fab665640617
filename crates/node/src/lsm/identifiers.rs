//! Identifiers of namespaces, which a store keeps none of.

use xxhash_rust::xxh3::xxh3_128;

/// Returns a namespace's UUID, of version 8: the XXH3 (128 bits) of the store's number, the
/// namespace's number and `uuid`, all integers little-endian.
pub(super) fn uuid_of(store: u128, nsid: u32) -> [u8; 16] {
    let mut bytes = hash_of(store, nsid, b"uuid");
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}

/// Returns a namespace's globally unique identifier: the same hash with `nguid`.
pub(super) fn nguid_of(store: u128, nsid: u32) -> [u8; 16] {
    hash_of(store, nsid, b"nguid")
}

fn hash_of(store: u128, nsid: u32, what: &[u8]) -> [u8; 16] {
    let mut bytes = store.to_le_bytes().to_vec();
    bytes.extend_from_slice(&nsid.to_le_bytes());
    bytes.extend_from_slice(what);
    xxh3_128(&bytes).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_stay_as_they_are() {
        // Hosts know namespaces by these bytes.
        let hex = |bytes: [u8; 16]| format!("{:032x}", u128::from_be_bytes(bytes));
        assert_eq!(hex(uuid_of(7, 1)), "670ed94549208a34ba82a9d64b0c3a7a");
        assert_eq!(hex(nguid_of(7, 1)), "5b2dffaf5a0d50d5f03614f70dbebe86");
        assert_ne!(nguid_of(7, 1), nguid_of(7, 2));
        assert_ne!(nguid_of(7, 1), nguid_of(8, 1));
    }
}
