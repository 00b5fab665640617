//! Digests of headers and data: CRC32C, little-endian (TCP Transport Specification, section 3.3.1.1).

/// Bytes of a digest.
pub const DIGEST_BYTES: usize = 4;

/// Returns the digest of `bytes`.
pub fn digest(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    crc32c::crc32c(bytes).to_le_bytes()
}

/// A digest of data that come in parts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Digest(u32);

impl Digest {
    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0 = crc32c::crc32c_append(self.0, bytes);
    }

    /// Returns the digest of all bytes that were added.
    pub fn value(self) -> [u8; DIGEST_BYTES] {
        self.0.to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_crc32c() {
        // RFC 3720, section B.4.
        assert_eq!(digest(&[0; 32]), 0x8a91_36aa_u32.to_le_bytes());
        let mut parts = Digest::default();
        parts.update(b"1234");
        parts.update(b"56789");
        assert_eq!(parts.value(), 0xe306_9283_u32.to_le_bytes());
    }
}
