//! A record's number made a key, and back where that is possible.

use serde::{Deserialize, Serialize};

use crate::draw::fnv_64;

/// A bit that no record has. `record | ABSENT` is a key that is never written and lies right behind
/// the record's: a read of it finds nothing only after a look among present keys. db_bench makes
/// such keys alike, by one more byte.
pub const ABSENT: u64 = 1 << 63;

/// How keys are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyForm {
    /// YCSB's `insertorder=hashed`: "user" and the decimal of the record's hash, 20 to 23 bytes.
    /// Keys are in no order of records.
    Ycsb,
    /// "user" and the record's number in 19 digits, 23 bytes. Keys are in the order of records.
    YcsbOrdered,
    /// db_bench's: the number, big-endian, in up to 8 bytes, and then as many '0' as are missing.
    /// Keys are in the order of records, of which there may be as many as fit.
    DbBench {
        /// Bytes of a key.
        bytes: u32,
    },
    /// The number in 10 digits. Keys are in the order of records.
    TenDigits,
}

const YCSB_PREFIX: &[u8] = b"user";
const YCSB_DIGITS: usize = 19;
const TEN: usize = 10;
const MOST_DIGITS: usize = 20;

impl KeyForm {
    /// db_bench's default.
    pub const DB_BENCH: KeyForm = KeyForm::DbBench { bytes: 16 };
    /// Mixgraph's.
    pub const MIXGRAPH: KeyForm = KeyForm::DbBench { bytes: 48 };
    /// KVBDEV's: a big-endian `u32`.
    pub const FOUR_BYTES: KeyForm = KeyForm::DbBench { bytes: 4 };

    /// Writes the key of a record, in place of the contents of `key`. Allocates only while `key` is
    /// small.
    pub fn write(self, record: u64, key: &mut Vec<u8>) {
        let number = record & !ABSENT;
        key.clear();
        match self {
            KeyForm::Ycsb => {
                key.extend_from_slice(YCSB_PREFIX);
                push_decimal(fnv_64(number), 1, key);
            }
            KeyForm::YcsbOrdered => {
                key.extend_from_slice(YCSB_PREFIX);
                push_decimal(number, YCSB_DIGITS, key);
            }
            KeyForm::TenDigits => push_decimal(number, TEN, key),
            KeyForm::DbBench { bytes } => {
                let bytes = bytes as usize;
                let octets = number.to_be_bytes();
                key.extend(octets.iter().skip(octets.len().saturating_sub(bytes)));
                key.resize(bytes, b'0');
            }
        }
        if record != number {
            key.push(b'0');
        }
    }

    /// Returns the record whose key this is; `None` if it is no key of this form, and always for
    /// hashed keys: there a value tells its record, whose key can be made and compared.
    pub fn record_of(self, key: &[u8]) -> Option<u64> {
        match self {
            KeyForm::Ycsb => None,
            KeyForm::YcsbOrdered => decimal_of(key.strip_prefix(YCSB_PREFIX)?, YCSB_DIGITS),
            KeyForm::TenDigits => decimal_of(key, TEN),
            KeyForm::DbBench { bytes } => db_bench_record(key, bytes as usize),
        }
    }

    /// Returns whether keys are in the order of their records' numbers: if not, the number does not
    /// tell where a scan comes next.
    pub fn in_record_order(self) -> bool {
        self != KeyForm::Ycsb
    }

    /// Returns the bytes of a key; of hashed ones, the length that nearly all have.
    pub fn bytes(self) -> u64 {
        match self {
            KeyForm::Ycsb | KeyForm::YcsbOrdered => (YCSB_PREFIX.len() + YCSB_DIGITS) as u64,
            KeyForm::TenDigits => TEN as u64,
            KeyForm::DbBench { bytes } => u64::from(bytes),
        }
    }

    /// Returns how many records have keys of their own, in their order.
    pub fn most_records(self) -> u64 {
        match self {
            KeyForm::Ycsb | KeyForm::YcsbOrdered => ABSENT,
            KeyForm::TenDigits => 10_000_000_000,
            KeyForm::DbBench {
                bytes: bytes @ 0..8,
            } => 1 << (8 * bytes),
            KeyForm::DbBench { .. } => ABSENT,
        }
    }

    /// Describes the form in words.
    pub fn describe(self) -> String {
        match self {
            KeyForm::Ycsb => "hashed keys of 23 B".to_owned(),
            KeyForm::YcsbOrdered => "ordered keys of 23 B".to_owned(),
            KeyForm::TenDigits => "keys of 10 B".to_owned(),
            KeyForm::DbBench { bytes } => format!("keys of {bytes} B"),
        }
    }
}

fn db_bench_record(key: &[u8], bytes: usize) -> Option<u64> {
    let absent = match key.len().checked_sub(bytes) {
        Some(0) => 0,
        Some(1) => ABSENT,
        _ => return None,
    };
    let (number, zeros) = key.split_at_checked(bytes.min(8))?;
    let number = number
        .iter()
        .fold(0, |number, octet| number << 8 | u64::from(*octet));
    let padded = zeros.iter().all(|zero| *zero == b'0');
    (padded && number & ABSENT == 0).then_some(number | absent)
}

/// Writes a number with at least `width` digits.
fn push_decimal(number: u64, width: usize, key: &mut Vec<u8>) {
    let mut digits = [b'0'; MOST_DIGITS];
    let mut rest = number;
    let mut used = 0;
    for digit in digits.iter_mut().rev() {
        if rest == 0 && used >= width {
            break;
        }
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
        used += 1;
    }
    key.extend(digits.iter().skip(MOST_DIGITS - used));
}

/// Reads a number of exactly `width` digits, or of one more if that is the sign of an absent one.
fn decimal_of(digits: &[u8], width: usize) -> Option<u64> {
    let (number, rest) = digits.split_at_checked(width)?;
    let absent = match rest {
        [] => 0,
        [b'0'] => ABSENT,
        _ => return None,
    };
    let number = number.iter().try_fold(0u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })?;
    (number & ABSENT == 0).then_some(number | absent)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDERED: [KeyForm; 5] = [
        KeyForm::YcsbOrdered,
        KeyForm::TenDigits,
        KeyForm::DB_BENCH,
        KeyForm::MIXGRAPH,
        KeyForm::FOUR_BYTES,
    ];

    fn key(form: KeyForm, record: u64) -> Vec<u8> {
        let mut key = b"what was there before, which goes away".to_vec();
        form.write(record, &mut key);
        key
    }

    #[test]
    fn ycsb_keys_are_ycsbs() {
        assert_eq!(key(KeyForm::Ycsb, 0), b"user6284781860667377211");
        assert_eq!(key(KeyForm::Ycsb, 1), b"user8517097267634966620");
        assert_eq!(KeyForm::Ycsb.record_of(b"user6284781860667377211"), None);
    }

    #[test]
    fn keys_have_their_bytes() {
        assert_eq!(key(KeyForm::YcsbOrdered, 42), b"user0000000000000000042");
        assert_eq!(key(KeyForm::TenDigits, 1_234), b"0000001234");
        assert_eq!(key(KeyForm::DB_BENCH, 258), b"\0\0\0\0\0\0\x01\x0200000000");
        assert_eq!(key(KeyForm::FOUR_BYTES, 258), [0, 0, 1, 2]);
        assert_eq!(key(KeyForm::FOUR_BYTES, 258 | ABSENT), [0, 0, 1, 2, b'0']);
        assert_eq!(key(KeyForm::MIXGRAPH, 7).len(), 48);
        for form in ORDERED {
            assert_eq!(key(form, 5).len() as u64, form.bytes());
        }
    }

    #[test]
    fn ordered_keys_are_ordered_and_tell_their_record() {
        let records = [0, 1, 2, 9, 10, 255, 256, 65_535, 65_536, 999_999_999];
        for form in ORDERED {
            assert!(form.in_record_order());
            for pair in records.windows(2) {
                assert!(key(form, pair[0]) < key(form, pair[1]), "{form:?} {pair:?}");
            }
            for record in records {
                let absent = record | ABSENT;
                assert_eq!(form.record_of(&key(form, record)), Some(record));
                assert_eq!(form.record_of(&key(form, absent)), Some(absent));
                assert!(key(form, record) < key(form, absent));
                assert!(key(form, absent) < key(form, record + 1));
            }
        }
    }

    #[test]
    fn other_bytes_are_no_keys() {
        for form in ORDERED {
            assert_eq!(form.record_of(b""), None);
            assert_eq!(form.record_of(b"user00"), None);
            let mut longer = key(form, 3);
            longer.extend_from_slice(b"00");
            assert_eq!(form.record_of(&longer), None);
        }
        assert_eq!(KeyForm::TenDigits.record_of(b"00000x0001"), None);
        assert_eq!(
            KeyForm::DB_BENCH.record_of(b"\0\0\0\0\0\0\x01\x020000000x"),
            None
        );
    }

    #[test]
    fn a_reused_buffer_is_not_allocated_anew() {
        let mut buffer = Vec::with_capacity(64);
        let at = buffer.as_ptr();
        for record in 0..1000 {
            KeyForm::Ycsb.write(record, &mut buffer);
        }
        assert_eq!(buffer.as_ptr(), at);
    }
}
