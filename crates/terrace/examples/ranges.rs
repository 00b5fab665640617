//! Ranges and prefixes of keys, forwards and backwards, and rows without a copy.

use terrace::{Db, IterOptions, Options, Result};

pub fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a directory for the example");
    let db = Db::open(directory.path().join("words"), Options::default())?;
    for word in ["ant", "ape", "bee", "cat", "cow"] {
        db.put(word, word.len().to_string())?;
    }

    let mut words = Vec::new();
    for entry in db.range("ape".."cow")? {
        let (word, _) = entry?;
        words.push(String::from_utf8(word).expect("words are UTF-8"));
    }
    assert_eq!(words, ["ape", "bee", "cat"]);

    // From the end, and only as far as the caller asks.
    let last = db.prefix("a")?.next_back().expect("a word")?;
    assert_eq!(last.0, b"ape");

    // A cursor lends its rows, seeks and turns round.
    let mut cursor = db.iter(IterOptions::default())?;
    cursor.seek("b")?;
    assert_eq!(cursor.key(), b"bee");
    cursor.prev()?;
    assert_eq!(cursor.key(), b"ape");
    let mut bytes = 0;
    cursor.seek_to_first()?;
    while cursor.valid() {
        bytes += cursor.key().len() + cursor.value().len();
        cursor.next()?;
    }
    assert_eq!(bytes, 5 * 4);

    db.delete_prefix("c")?;
    println!("{} words are left", db.range(..)?.count());
    Ok(())
}
