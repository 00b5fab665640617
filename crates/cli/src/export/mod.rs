//! Entries of a store, written to a file or a pipe, a row each.

mod resume;
#[cfg(test)]
mod round_trip;
mod rows;

pub use resume::{LastRow, resume_point};
pub use rows::Rows;

/// The columns of a row.
pub const KEY: &str = "key";
pub const VALUE: &str = "value";

/// The columns where they are in hexadecimal: a file tells which of the two it is.
pub const KEY_HEX: &str = "key_hex";
pub const VALUE_HEX: &str = "value_hex";

/// Returns the names of a row's columns.
pub fn columns(hex: bool) -> [&'static str; 2] {
    match hex {
        true => [KEY_HEX, VALUE_HEX],
        false => [KEY, VALUE],
    }
}
