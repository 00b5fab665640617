//! Keys as bytes whose order is that of the type. The form is stored: docs/formats.md.

/// A key that can be written so that bytewise order is the order of its type.
///
/// | type | bytes |
/// |---|---|
/// | `u8` to `u128`, `char` (as `u32`) | big-endian |
/// | `i8` to `i128` | big-endian, with the sign bit flipped |
/// | `bool` | 0 or 1 |
/// | `[u8; N]` | as they are |
/// | `str`, `String`, `[u8]`, `Vec<u8>`, last in the key | as they are |
/// | the same, before another part | each 0 byte is followed by 255; 0 and 1 end the part |
/// | `Option` | 0, or 1 and the part |
/// | tuples of two to four | their parts, one after the other |
///
/// A program's own type becomes a key by the form of its parts:
///
/// ```
/// use terrace::{DecodeKey, EncodeKey};
///
/// #[derive(Debug, PartialEq)]
/// struct Seat {
///     row: u16,
///     letter: char,
/// }
///
/// impl EncodeKey for Seat {
///     fn encode(&self, key: &mut Vec<u8>) {
///         (self.row, self.letter).encode(key);
///     }
/// }
///
/// impl DecodeKey for Seat {
///     fn decode(key: &mut &[u8]) -> Option<Self> {
///         let (row, letter) = DecodeKey::decode(key)?;
///         Some(Seat { row, letter })
///     }
/// }
///
/// # let db = terrace::Db::open("/store", terrace::Options::in_memory())?;
/// let guests = db.typed::<Seat, String>();
/// guests.put(&Seat { row: 12, letter: 'C' }, &"Ada".to_string())?;
/// let (seat, _) = guests.iter()?.next().unwrap()?;
/// assert_eq!(seat, Seat { row: 12, letter: 'C' });
/// # Ok::<(), terrace::Error>(())
/// ```
///
/// A type that is borrowed as another, as `String` is as `str`, must have the other's form in both functions. So a
/// wrapper of one text passes `encode_last` and `decode_last` on, too.
pub trait EncodeKey {
    /// Appends the key in a form that shows its own end, so that more may follow.
    fn encode(&self, key: &mut Vec<u8>);

    /// Appends the key as the last part. A text has no end then, and is readable as it is.
    fn encode_last(&self, key: &mut Vec<u8>) {
        self.encode(key);
    }
}

/// A key that can be read back.
pub trait DecodeKey: EncodeKey + Sized {
    /// Takes the key off the front of the bytes. `None` if they are none of this type.
    fn decode(key: &mut &[u8]) -> Option<Self>;

    /// Reads the last part, which takes all bytes. `None` if they are none of this type.
    fn decode_last(mut key: &[u8]) -> Option<Self> {
        let decoded = Self::decode(&mut key)?;
        key.is_empty().then_some(decoded)
    }
}

/// Takes a number of bytes off the front.
fn take<const N: usize>(key: &mut &[u8]) -> Option<[u8; N]> {
    let (front, rest) = key.split_first_chunk::<N>()?;
    *key = rest;
    Some(*front)
}

macro_rules! unsigned {
    ($($number:ty)*) => {$(
        impl EncodeKey for $number {
            fn encode(&self, key: &mut Vec<u8>) {
                key.extend_from_slice(&self.to_be_bytes());
            }
        }

        impl DecodeKey for $number {
            fn decode(key: &mut &[u8]) -> Option<Self> {
                take(key).map(<$number>::from_be_bytes)
            }
        }
    )*};
}

macro_rules! signed {
    ($($number:ty)*) => {$(
        // The lowest number becomes 0.
        impl EncodeKey for $number {
            fn encode(&self, key: &mut Vec<u8>) {
                key.extend_from_slice(&(self ^ <$number>::MIN).to_be_bytes());
            }
        }

        impl DecodeKey for $number {
            fn decode(key: &mut &[u8]) -> Option<Self> {
                take(key).map(|bytes| <$number>::from_be_bytes(bytes) ^ <$number>::MIN)
            }
        }
    )*};
}

unsigned!(u8 u16 u32 u64 u128);
signed!(i8 i16 i32 i64 i128);

impl EncodeKey for bool {
    fn encode(&self, key: &mut Vec<u8>) {
        key.push(u8::from(*self));
    }
}

impl DecodeKey for bool {
    fn decode(key: &mut &[u8]) -> Option<Self> {
        match u8::decode(key)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl EncodeKey for char {
    fn encode(&self, key: &mut Vec<u8>) {
        u32::from(*self).encode(key);
    }
}

impl DecodeKey for char {
    fn decode(key: &mut &[u8]) -> Option<Self> {
        char::from_u32(u32::decode(key)?)
    }
}

impl<const N: usize> EncodeKey for [u8; N] {
    fn encode(&self, key: &mut Vec<u8>) {
        key.extend_from_slice(self);
    }
}

impl<const N: usize> DecodeKey for [u8; N] {
    fn decode(key: &mut &[u8]) -> Option<Self> {
        take(key)
    }
}

/// Behind a zero byte of the contents.
const ZERO: u8 = 0xff;
/// Behind the zero byte that ends the contents: lower, so that a shorter key comes first.
const END: u8 = 0x01;

impl EncodeKey for [u8] {
    fn encode(&self, key: &mut Vec<u8>) {
        for &byte in self {
            key.push(byte);
            if byte == 0 {
                key.push(ZERO);
            }
        }
        key.extend_from_slice(&[0, END]);
    }

    fn encode_last(&self, key: &mut Vec<u8>) {
        key.extend_from_slice(self);
    }
}

impl EncodeKey for Vec<u8> {
    fn encode(&self, key: &mut Vec<u8>) {
        self.as_slice().encode(key);
    }

    fn encode_last(&self, key: &mut Vec<u8>) {
        self.as_slice().encode_last(key);
    }
}

impl DecodeKey for Vec<u8> {
    fn decode(key: &mut &[u8]) -> Option<Self> {
        let mut contents = Vec::new();
        loop {
            match take(key)? {
                [0] => match take(key)? {
                    [ZERO] => contents.push(0),
                    [END] => return Some(contents),
                    _ => return None,
                },
                [byte] => contents.push(byte),
            }
        }
    }

    fn decode_last(key: &[u8]) -> Option<Self> {
        Some(key.to_vec())
    }
}

impl EncodeKey for str {
    fn encode(&self, key: &mut Vec<u8>) {
        self.as_bytes().encode(key);
    }

    fn encode_last(&self, key: &mut Vec<u8>) {
        self.as_bytes().encode_last(key);
    }
}

impl EncodeKey for String {
    fn encode(&self, key: &mut Vec<u8>) {
        self.as_str().encode(key);
    }

    fn encode_last(&self, key: &mut Vec<u8>) {
        self.as_str().encode_last(key);
    }
}

impl DecodeKey for String {
    fn decode(key: &mut &[u8]) -> Option<Self> {
        String::from_utf8(Vec::decode(key)?).ok()
    }

    fn decode_last(key: &[u8]) -> Option<Self> {
        String::from_utf8(key.to_vec()).ok()
    }
}

impl<K: EncodeKey> EncodeKey for Option<K> {
    fn encode(&self, key: &mut Vec<u8>) {
        self.is_some().encode(key);
        if let Some(part) = self {
            part.encode(key);
        }
    }

    fn encode_last(&self, key: &mut Vec<u8>) {
        self.is_some().encode(key);
        if let Some(part) = self {
            part.encode_last(key);
        }
    }
}

impl<K: DecodeKey> DecodeKey for Option<K> {
    fn decode(key: &mut &[u8]) -> Option<Self> {
        match bool::decode(key)? {
            true => K::decode(key).map(Some),
            false => Some(None),
        }
    }

    fn decode_last(mut key: &[u8]) -> Option<Self> {
        match bool::decode(&mut key)? {
            true => K::decode_last(key).map(Some),
            false => key.is_empty().then_some(None),
        }
    }
}

macro_rules! tuples {
    ($(($($part:ident)*; $last:ident))*) => {$(
        #[expect(non_snake_case, reason = "each part has the name of its type")]
        impl<$($part: EncodeKey,)* $last: EncodeKey> EncodeKey for ($($part,)* $last,) {
            fn encode(&self, key: &mut Vec<u8>) {
                let ($($part,)* $last,) = self;
                $($part.encode(key);)*
                $last.encode(key);
            }

            fn encode_last(&self, key: &mut Vec<u8>) {
                let ($($part,)* $last,) = self;
                $($part.encode(key);)*
                $last.encode_last(key);
            }
        }

        impl<$($part: DecodeKey,)* $last: DecodeKey> DecodeKey for ($($part,)* $last,) {
            fn decode(key: &mut &[u8]) -> Option<Self> {
                Some(($($part::decode(key)?,)* $last::decode(key)?,))
            }

            fn decode_last(mut key: &[u8]) -> Option<Self> {
                let key = &mut key;
                Some(($($part::decode(key)?,)* $last::decode_last(key)?,))
            }
        }
    )*};
}

tuples!((A; B) (A B; C) (A B C; D));

#[cfg(test)]
mod tests;
