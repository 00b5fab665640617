//! Names, paths and foreign texts on a terminal.
//!
//! A file's name or an error's text may hold bytes that move the cursor, forge a line or turn the
//! direction of the text. Such bytes leave this process as visible escapes.

use std::ffi::OsStr;
use std::fmt::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Displays bytes on one line, with escapes for all that a terminal would not show as it is.
///
/// A byte of a control character or of no UTF-8 becomes `\x1b`, an invisible character of Unicode
/// `\u{202e}`. Tab, newline and carriage return become `\t`, `\n` and `\r`.
///
/// ```
/// use terrace_storage::Escaped;
///
/// assert_eq!(Escaped::name("a\x1b[31m\n").to_string(), r"a\x1b[31m\n");
/// assert_eq!(Escaped::bytes(b"\xff\\").to_string(), r"\xff\\");
/// assert_eq!(Escaped::message("cannot open a\\xff\n").to_string(), r"cannot open a\xff\n");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Escaped<'a> {
    bytes: &'a [u8],
    escapes_backslash: bool,
}

impl<'a> Escaped<'a> {
    /// Takes a name. A backslash becomes two, so that no two names look the same.
    pub fn name(name: &'a str) -> Self {
        Escaped::bytes(name.as_bytes())
    }

    /// Takes a path, as [`Escaped::name`] takes a name. It need not be UTF-8.
    pub fn path(path: &'a Path) -> Self {
        Escaped::os(path.as_os_str())
    }

    /// Takes an argument or a name of the system, as [`Escaped::name`] does.
    pub fn os(text: &'a OsStr) -> Self {
        Escaped::bytes(text.as_bytes())
    }

    /// Takes any bytes, as [`Escaped::name`] takes a name.
    pub fn bytes(bytes: &'a [u8]) -> Self {
        Escaped {
            bytes,
            escapes_backslash: true,
        }
    }

    /// Takes a sentence whose names may be escaped already: backslashes stay as they are.
    pub fn message(message: &'a str) -> Self {
        Escaped {
            bytes: message.as_bytes(),
            escapes_backslash: false,
        }
    }
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.bytes.utf8_chunks() {
            for character in chunk.valid().chars() {
                match character {
                    '\\' if self.escapes_backslash => f.write_str("\\\\")?,
                    '\t' => f.write_str("\\t")?,
                    '\n' => f.write_str("\\n")?,
                    '\r' => f.write_str("\\r")?,
                    // C1 controls have two bytes in UTF-8.
                    _ if character.is_control() => {
                        write_bytes(f, character.encode_utf8(&mut [0; 4]).as_bytes())?;
                    }
                    _ if is_invisible(character) => write!(f, "\\u{{{:x}}}", character as u32)?,
                    _ => f.write_char(character)?,
                }
            }
            write_bytes(f, chunk.invalid())?;
        }
        Ok(())
    }
}

fn write_bytes(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))
}

/// Returns whether a character turns the direction of the text, breaks a line or shows nothing.
fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_a_terminal_shows_stays_as_it_is() {
        for text in ["", "a b", "grün 😀", "\u{a0}", "~"] {
            assert_eq!(Escaped::name(text).to_string(), text);
            assert_eq!(Escaped::message(text).to_string(), text);
        }
    }

    #[test]
    fn a_terminal_gets_no_control_character() {
        for byte in (0..0x20).chain([0x7f]) {
            let text = Escaped::bytes(&[byte]).to_string();
            assert!(text.starts_with('\\') && text.is_ascii(), "{byte}: {text}");
        }
        assert_eq!(
            Escaped::name("\t\n\r\x1b\x07").to_string(),
            r"\t\n\r\x1b\x07"
        );
        assert_eq!(
            Escaped::name("\u{85}\u{9b}").to_string(),
            r"\xc2\x85\xc2\x9b"
        );
    }

    #[test]
    fn a_terminal_gets_no_character_that_turns_or_hides_text() {
        let ranges = [
            0x61c..=0x61c,
            0x200b..=0x200f,
            0x2028..=0x202e,
            0x2060..=0x2069,
            0xfeff..=0xfeff,
            0xfff9..=0xfffb,
        ];
        for code in ranges.into_iter().flatten() {
            let text = char::from_u32(code).unwrap().to_string();
            assert_eq!(Escaped::name(&text).to_string(), format!("\\u{{{code:x}}}"));
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_not_lost() {
        let path = Path::new(OsStr::from_bytes(b"/a\xff\xc3/b"));
        assert_eq!(Escaped::path(path).to_string(), r"/a\xff\xc3/b");
        assert_eq!(Escaped::os(path.as_os_str()), Escaped::path(path));
    }

    #[test]
    fn a_name_is_unambiguous_and_a_message_is_escaped_once() {
        assert_eq!(Escaped::bytes(b"\\x00").to_string(), r"\\x00");
        let once = Escaped::name("a\\\n").to_string();
        assert_eq!(Escaped::message(&once).to_string(), once);
    }
}
