//! Keys of 1 to 16 bytes.

use std::fmt;

/// The longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 16;

/// A key: 1 to 16 bytes of any value. Longer names are the caller's to hash.
///
/// Keys are ordered as their bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// Zeros behind the key's own bytes.
    bytes: [u8; MAX_KEY_BYTES],
    len: u8,
}

impl Key {
    /// Makes a key; none if `bytes` is empty or longer than 16 bytes.
    ///
    /// ```
    /// use terrace_node::Key;
    /// assert_eq!(Key::new(b"hello").unwrap().as_bytes(), b"hello");
    /// assert!(Key::new(b"").is_none());
    /// ```
    pub fn new(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() || bytes.len() > MAX_KEY_BYTES {
            return None;
        }
        let mut key = [0; MAX_KEY_BYTES];
        key[..bytes.len()].copy_from_slice(bytes);
        Some(Key {
            bytes: key,
            len: bytes.len() as u8,
        })
    }

    /// Makes a key from its padded form; none if the length is illegal or the padding is not zero.
    pub fn from_padded(bytes: [u8; MAX_KEY_BYTES], len: u8) -> Option<Self> {
        let own = bytes.get(..usize::from(len))?;
        let key = Key::new(own)?;
        (key.bytes == bytes).then_some(key)
    }

    /// Returns the key's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Returns the bytes with zeros behind them.
    pub fn padded(&self) -> &[u8; MAX_KEY_BYTES] {
        &self.bytes
    }

    /// Returns the number of the key's own bytes.
    #[expect(clippy::len_without_is_empty, reason = "a key is never empty")]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // Padding is below every byte, and the shorter of two keys that differ in zeros only is less.
        (self.bytes, self.len).cmp(&(other.bytes, other.len))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_bytes().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_one_to_sixteen_bytes() {
        assert!(Key::new(b"").is_none());
        assert!(Key::new(&[1; 17]).is_none());
        assert_eq!(Key::new(&[1; 16]).unwrap().as_bytes(), [1; 16]);
        assert!(Key::from_padded([1; 16], 15).is_none());
        assert!(Key::from_padded([0; 16], 0).is_none());
    }

    #[test]
    fn a_zero_byte_tells_keys_apart() {
        let (short, long) = (Key::new(b"a").unwrap(), Key::new(b"a\0").unwrap());
        assert_ne!(short, long);
        assert!(short < long && long < Key::new(b"b").unwrap());
    }
}
