//! Bytes as text and back: how keys are typed and entries are printed.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

use serde_json::{Map, Value};

use crate::arguments::EntryFormat;
use crate::failure::{Failure, Result};

/// The bytes of an argument: as they were typed, or from hexadecimal.
pub fn bytes_of(argument: &OsStr, hex: bool) -> Result<Vec<u8>> {
    if !hex {
        return Ok(argument.as_bytes().to_vec());
    }
    from_hex(argument.as_bytes()).ok_or_else(|| {
        let shown = argument.to_string_lossy();
        Failure::Usage(format!(
            "{shown:?} is not hexadecimal: pairs of 0-9, a-f are expected"
        ))
    })
}

/// The bytes that pairs of hexadecimal digits stand for.
pub fn from_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_chunks::<2>();
    let digit = |byte: u8| {
        (byte as char)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
    };
    let byte = |&[high, low]: &[u8; 2]| Some(digit(high)? << 4 | digit(low)?);
    rest.is_empty()
        .then(|| pairs.iter().map(byte).collect())
        .flatten()
}

pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes on one line, without loss: what would break the line or is not UTF-8 is escaped.
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                '\t' => text.push_str("\\t"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                _ if character.is_ascii_control() => escape_byte(&mut text, character as u8),
                // C1 controls have two bytes in UTF-8.
                _ if character.is_control() => {
                    let mut buffer = [0; 4];
                    character
                        .encode_utf8(&mut buffer)
                        .bytes()
                        .for_each(|byte| escape_byte(&mut text, byte));
                }
                _ => text.push(character),
            }
        }
        chunk
            .invalid()
            .iter()
            .for_each(|&byte| escape_byte(&mut text, byte));
    }
    text
}

fn escape_byte(text: &mut String, byte: u8) {
    text.push_str(&format!("\\x{byte:02x}"));
}

/// A key for a heading or a message: escaped, and cut if it is long.
pub fn brief(bytes: &[u8], characters: usize) -> String {
    let text = escape(bytes);
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// `"name": "text"`, or `"name_hex": "6e6f"` for what is not UTF-8.
pub fn json_field(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_string(), text.into()),
        Err(_) => object.insert(format!("{name}_hex"), to_hex(bytes).into()),
    };
}

pub fn json_entry(key: &[u8], value: &[u8]) -> Value {
    let mut object = Map::new();
    json_field(&mut object, "key", key);
    json_field(&mut object, "value", value);
    Value::Object(object)
}

/// One entry on one line.
pub fn write_entry(
    output: &mut impl Write,
    format: EntryFormat,
    key: &[u8],
    value: &[u8],
) -> io::Result<()> {
    match format {
        EntryFormat::Utf8 => writeln!(output, "{}\t{}", escape(key), escape(value)),
        EntryFormat::Hex => writeln!(output, "{}\t{}", to_hex(key), to_hex(value)),
        EntryFormat::Json => writeln!(output, "{}", json_entry(key, value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_is_read_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hex(to_hex(&bytes).as_bytes()).unwrap(), bytes);
        assert_eq!(from_hex(b"CaFe").unwrap(), [0xca, 0xfe]);
        assert_eq!(from_hex(b"").unwrap(), b"");
        for wrong in [&b"abc"[..], b"0x", b"g0", b"+1", b"a "] {
            assert_eq!(from_hex(wrong), None);
        }
    }

    #[test]
    fn an_escaped_line_is_one_line_and_unambiguous() {
        assert_eq!(escape("grün 😀".as_bytes()), "grün 😀");
        assert_eq!(escape(b"a\tb\nc\rd\\e\0"), "a\\tb\\nc\\rd\\\\e\\x00");
        assert_eq!(escape(b"\xff\xc3"), "\\xff\\xc3");
        assert_eq!(escape("\u{85}".as_bytes()), "\\xc2\\x85");
        assert_eq!(escape(b"\\x00"), "\\\\x00");
    }

    #[test]
    fn json_tells_bytes_from_text() {
        assert_eq!(
            json_entry(b"k", b"v").to_string(),
            r#"{"key":"k","value":"v"}"#
        );
        assert_eq!(
            json_entry(b"\xff", b"").to_string(),
            r#"{"key_hex":"ff","value":""}"#
        );
    }

    #[test]
    fn a_long_key_is_cut_between_characters() {
        assert_eq!(brief("ääää".as_bytes(), 3), "äää...");
        assert_eq!(brief(b"abc", 3), "abc");
    }
}
