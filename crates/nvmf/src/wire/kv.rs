//! The Key Value command set (NVMe Key Value Command Set Specification 1.1).

use zerocopy::IntoBytes;

use super::command::SubmissionEntry;

/// Command set identifier of namespaces of keys.
pub const COMMAND_SET: u8 = 1;

/// Store.
pub const STORE: u8 = 0x01;
/// Retrieve.
pub const RETRIEVE: u8 = 0x02;
/// List.
pub const LIST: u8 = 0x06;
/// Delete.
pub const DELETE: u8 = 0x10;
/// Exist.
pub const EXIST: u8 = 0x14;

/// The longest key in bytes.
pub const MAX_KEY_BYTES: usize = 16;

/// Option of Store: only if the key exists (SIKE).
pub const STORE_IF_EXISTS: u8 = 1;
/// Option of Store: only if no such key exists (SINKE).
pub const STORE_IF_ABSENT: u8 = 1 << 1;
/// Option of Store: the value is not to be compressed.
pub const STORE_UNCOMPRESSED: u8 = 1 << 2;
/// Option of Retrieve: the value is not to be decompressed.
pub const RETRIEVE_RAW: u8 = 1;

/// The key field of a command: its bytes and its length as they stand there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyField {
    /// The bytes; those behind the length have no meaning.
    pub bytes: [u8; MAX_KEY_BYTES],
    /// The length, which may be any number.
    pub len: u8,
}

impl KeyField {
    /// Reads the key of a command.
    pub fn from_entry(entry: &SubmissionEntry) -> Self {
        let mut bytes = [0; MAX_KEY_BYTES];
        let words = [entry.cdw2, entry.cdw3, entry.cdw14, entry.cdw15];
        bytes.copy_from_slice(words.as_bytes());
        let len = entry.cdw11.get() as u8;
        KeyField { bytes, len }
    }

    /// Returns the key's own bytes; none if its length is not 1 to 16.
    pub fn key(&self) -> Option<&[u8]> {
        (self.len > 0)
            .then(|| self.bytes.get(..usize::from(self.len)))
            .flatten()
    }
}

/// Writes key and options to a command.
///
/// # Panics
/// If the key has more than 16 bytes.
pub fn set_key(entry: &mut SubmissionEntry, key: &[u8], options: u8) {
    let mut words = [zerocopy::little_endian::U32::ZERO; 4];
    words.as_mut_bytes()[..key.len()].copy_from_slice(key);
    [entry.cdw2, entry.cdw3, entry.cdw14, entry.cdw15] = words;
    entry.cdw11 = (key.len() as u32 | u32::from(options) << 8).into();
}

/// Returns the options of a command.
pub fn options(entry: &SubmissionEntry) -> u8 {
    (entry.cdw11.get() >> 8) as u8
}

/// Builds the data of a List: a count, then each key with its length, padded to 4 bytes.
#[derive(Debug)]
pub struct KeyList {
    bytes: Vec<u8>,
    keys: u32,
    max_bytes: usize,
}

impl KeyList {
    /// Makes an empty list that takes `max_bytes` bytes at most.
    pub fn new(max_bytes: usize) -> Self {
        KeyList {
            bytes: vec![0; 4],
            keys: 0,
            max_bytes,
        }
    }

    /// Adds a key. Returns false if no room is left for the whole of it.
    pub fn push(&mut self, key: &[u8]) -> bool {
        let end = self.bytes.len() + entry_bytes(key.len());
        if end > self.max_bytes {
            return false;
        }
        self.bytes
            .extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(key);
        self.bytes.resize(end, 0);
        self.keys += 1;
        true
    }

    /// Returns the list's bytes; none if not even the count fits.
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.bytes[..4].copy_from_slice(&self.keys.to_le_bytes());
        self.bytes.truncate(self.max_bytes);
        self.bytes
    }
}

/// Returns the bytes that a key of `key_bytes` takes in a list.
fn entry_bytes(key_bytes: usize) -> usize {
    (2 + key_bytes).next_multiple_of(4)
}

/// Returns the most keys that a list of `max_bytes` can hold.
pub fn most_keys(max_bytes: usize) -> usize {
    max_bytes.saturating_sub(4) / entry_bytes(1)
}

/// Reads the data of a List; none if they are not as [`KeyList`] writes them.
///
/// ```
/// use terrace_nvmf::wire::kv::{KeyList, read_keys};
/// let mut list = KeyList::new(4096);
/// list.push(b"a");
/// list.push(b"b3");
/// assert_eq!(read_keys(&list.into_bytes()).unwrap(), [b"a".to_vec(), b"b3".to_vec()]);
/// ```
pub fn read_keys(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (count, mut rest) = bytes.split_first_chunk::<4>()?;
    let count = u32::from_le_bytes(*count);
    let mut keys = Vec::new();
    for _ in 0..count {
        let (length, _) = rest.split_first_chunk::<2>()?;
        let length = usize::from(u16::from_le_bytes(*length));
        if !(1..=MAX_KEY_BYTES).contains(&length) {
            return None;
        }
        keys.push(rest.get(2..2 + length)?.to_vec());
        rest = rest.get(entry_bytes(length)..)?;
    }
    Some(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_lies_as_nvme_cli_sends_it() {
        // "hello": --cdw2=0x6c6c6568 --cdw3=0x6f --cdw11=5.
        let mut entry = SubmissionEntry::new(STORE, 1);
        set_key(&mut entry, b"hello", 0);
        assert_eq!(entry.cdw2.get(), 0x6c6c_6568);
        assert_eq!(entry.cdw3.get(), 0x6f);
        assert_eq!(entry.cdw11.get(), 5);
        set_key(&mut entry, b"0123456789abcdef", STORE_IF_ABSENT);
        assert_eq!(entry.cdw15.as_bytes(), b"cdef");
        let field = KeyField::from_entry(&entry);
        assert_eq!(field.key().unwrap(), b"0123456789abcdef");
        assert_eq!(options(&entry), STORE_IF_ABSENT);
    }

    #[test]
    fn a_length_out_of_range_is_no_key() {
        for len in [0, 17, 255] {
            let field = KeyField {
                bytes: [1; 16],
                len,
            };
            assert_eq!(field.key(), None);
        }
    }

    #[test]
    fn a_list_has_whole_keys_padded_to_four() {
        let mut list = KeyList::new(4 + 4 + 8 + 19);
        assert!(list.push(b"a") && list.push(b"abcdef"));
        assert!(!list.push(&[7; 16]), "20 bytes are wanted");
        let bytes = list.into_bytes();
        assert_eq!(bytes[..8], [2, 0, 0, 0, 1, 0, b'a', 0]);
        assert_eq!(bytes.len(), 16);
        assert_eq!(KeyList::new(3).into_bytes().len(), 3);
    }

    #[test]
    fn a_damaged_list_is_none() {
        assert_eq!(read_keys(&[1, 0, 0]), None);
        assert_eq!(read_keys(&[1, 0, 0, 0, 17, 0, 1, 1]), None);
        assert_eq!(read_keys(&[1, 0, 0, 0, 3, 0, 1, 1]), None);
        assert_eq!(read_keys(&[255, 255, 255, 255]), None);
        assert_eq!(read_keys(&[0, 0, 0, 0, 9]), Some(Vec::new()));
    }
}
