//! The demo's data: Unicode's character database, built into the program.

use serde::Deserialize;

use crate::import::{Delimited, Dialect, Record, RecordError, Selection};

const FILE: &[u8] = include_bytes!("../../../../data/UnicodeData.txt");

const COLUMNS: [&str; 15] = [
    "code",
    "name",
    "category",
    "combining_class",
    "bidi_class",
    "decomposition",
    "decimal",
    "digit",
    "numeric",
    "mirrored",
    "old_name",
    "comment",
    "uppercase",
    "lowercase",
    "titlecase",
];

/// Returns the rows as an import sees them: the code point in hexadecimal is the key, the row as a
/// JSON object the value.
pub fn rows() -> Result<Delimited<&'static [u8]>, RecordError> {
    let dialect = Dialect {
        delimiter: b';',
        quoting: false,
        header: false,
        columns: COLUMNS.map(String::from).to_vec(),
    };
    Delimited::open(
        FILE,
        dialect,
        &Selection {
            key: "code".into(),
            value: None,
        },
    )
}

pub fn all() -> Result<Vec<Record>, RecordError> {
    rows()?.collect()
}

/// The fields of a value that the demo reads.
#[derive(Deserialize)]
pub struct Character {
    pub name: String,
    pub category: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read_and_no_key_comes_twice() {
        let rows = all().unwrap();
        assert_eq!(rows.len(), 34_924);
        let keys: std::collections::HashSet<_> = rows.iter().map(|row| &row.key).collect();
        assert_eq!(keys.len(), rows.len());
        let face = rows.iter().find(|row| row.key == b"1F600").unwrap();
        let character: Character = serde_json::from_slice(&face.value).unwrap();
        assert_eq!(
            (character.name.as_str(), character.category.as_str()),
            ("GRINNING FACE", "So")
        );
    }
}
