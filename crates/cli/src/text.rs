//! Bytes as text and back: how keys are typed and entries are printed.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde_json::{Map, Value};
use terrace_storage::Escaped;

use crate::arguments::EntryFormat;
use crate::failure::{Failure, Result};

/// Returns the bytes of an argument: as they were typed, or from hexadecimal.
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

/// Returns the bytes that pairs of hexadecimal digits stand for.
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

/// Returns bytes on one line, without loss: all but plain text is escaped.
pub fn escape(bytes: &[u8]) -> String {
    Escaped::bytes(bytes).to_string()
}

/// Returns the path of a file for a message.
pub fn shown(path: &Path) -> String {
    Escaped::path(path).to_string()
}

/// Returns a text of several lines without characters that steer a terminal. Names in it that were
/// escaped already stay as they are.
pub fn readable(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_plain) {
        return text.into();
    }
    let lines = text
        .split('\n')
        .map(|line| Escaped::message(line).to_string());
    lines.collect::<Vec<_>>().join("\n").into()
}

/// Returns JSON text in which characters that steer a terminal are escapes of JSON.
pub fn readable_json(json: String) -> String {
    if json.chars().all(is_plain) {
        return json;
    }
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        match is_plain(character) {
            true => text.push(character),
            false => {
                let units = character.encode_utf16(&mut [0; 2]).to_vec();
                units
                    .iter()
                    .for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
            }
        }
    }
    text
}

/// Returns a value for a terminal: its lines and tabs stay, and the rest is escaped.
pub fn lines_of(value: &[u8]) -> String {
    let mut text = String::with_capacity(value.len());
    for chunk in value.utf8_chunks() {
        for character in chunk.valid().chars() {
            match is_plain(character) || character == '\t' {
                true => text.push(character),
                false => text.push_str(&escape(character.encode_utf8(&mut [0; 4]).as_bytes())),
            }
        }
        text.push_str(&escape(chunk.invalid()));
    }
    text
}

/// Returns whether a terminal shows a character as it is, or ends the line by it.
fn is_plain(character: char) -> bool {
    match character {
        '\n' => true,
        _ if character.is_ascii() => !character.is_ascii_control(),
        _ => {
            let mut buffer = [0; 4];
            let text: &str = character.encode_utf8(&mut buffer);
            Escaped::message(text).to_string() == text
        }
    }
}

/// Returns a key for a heading or a message: escaped, and cut if it is long.
pub fn brief(bytes: &[u8], characters: usize) -> String {
    let text = escape(bytes);
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// Adds `"name": "text"`, or `"name_hex": "6e6f"` for bytes that are not UTF-8.
pub fn json_field(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_string(), text.into()),
        Err(_) => object.insert(format!("{name}_hex"), to_hex(bytes).into()),
    };
}

/// Adds the text of a path to a JSON object, and `"name_hex"` beside it where the path is not UTF-8.
pub fn json_path(object: &mut Value, name: &str, path: Option<&Path>) {
    let Some(object) = object.as_object_mut() else {
        return;
    };
    let text = path.map(Path::to_string_lossy);
    object.insert(name.to_owned(), text.into());
    let inexact = path.filter(|path| path.to_str().is_none());
    if let Some(path) = inexact {
        let hex = to_hex(path.as_os_str().as_bytes());
        object.insert(format!("{name}_hex"), hex.into());
    }
}

/// Returns the bytes of a field `name_hex`. Text has no such field.
pub fn from_hex_field(digits: &[u8]) -> Option<Vec<u8>> {
    from_hex(digits).filter(|bytes| std::str::from_utf8(bytes).is_err())
}

/// Returns an entry as a JSON object.
pub fn json_entry(key: &[u8], value: &[u8]) -> Value {
    let mut object = Map::new();
    json_field(&mut object, "key", key);
    json_field(&mut object, "value", value);
    Value::Object(object)
}

/// Returns whether arguments ask for JSON. Behind `--` there are none.
pub fn asks_for_json(arguments: &[OsString]) -> bool {
    let mut options = arguments.iter().take_while(|argument| *argument != "--");
    options.any(|option| option == "--json")
}

/// Returns a key as a JSON object.
pub fn json_key(key: &[u8]) -> Value {
    let mut object = Map::new();
    json_field(&mut object, "key", key);
    Value::Object(object)
}

/// Returns a JSON object on one line.
pub fn json_line(object: &Value) -> String {
    readable_json(object.to_string())
}

/// Writes one entry on one line.
pub fn write_entry(
    output: &mut impl Write,
    format: EntryFormat,
    key: &[u8],
    value: &[u8],
) -> io::Result<()> {
    match format {
        EntryFormat::Utf8 => writeln!(output, "{}\t{}", escape(key), escape(value)),
        EntryFormat::Hex => writeln!(output, "{}\t{}", to_hex(key), to_hex(value)),
        EntryFormat::Json => writeln!(output, "{}", json_line(&json_entry(key, value))),
    }
}

/// Writes a key alone on one line.
pub fn write_key(output: &mut impl Write, format: EntryFormat, key: &[u8]) -> io::Result<()> {
    match format {
        EntryFormat::Utf8 => writeln!(output, "{}", escape(key)),
        EntryFormat::Hex => writeln!(output, "{}", to_hex(key)),
        EntryFormat::Json => writeln!(output, "{}", json_line(&json_key(key))),
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
    fn texts_for_terminals_keep_their_lines() {
        assert_eq!(
            readable("a\\b\n\u{202e}c\x1b[m\n"),
            "a\\b\n\\u{202e}c\\x1b[m\n"
        );
        assert_eq!(
            lines_of(b"a\\b\n\tc\x1b\xff\r\n"),
            "a\\b\n\tc\\x1b\\xff\\r\n"
        );
    }

    #[test]
    fn json_is_read_back_without_characters_that_steer_a_terminal() {
        let odd = "grün\u{202e}\u{9b}\u{7f}\u{1b}\u{2028}\n\t\"";
        let json = json_line(&json_entry(odd.as_bytes(), b"\x9b"));
        assert_eq!(
            json,
            r#"{"key":"grün\u202e\u009b\u007f\u001b\u2028\n\t\"","value_hex":"9b"}"#
        );
        let read: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(read["key"], odd);
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
