//! Loads sorted rows in bulk: straight into tables, and visible all at once.

use terrace::{Db, Options, Result};

pub fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a directory for the example");
    let db = Db::open(directory.path().join("squares"), Options::default())?;
    let mut load = db.ingest()?;
    for number in 0..100_000u64 {
        load.put(number.to_be_bytes(), (number * number).to_be_bytes())?;
    }
    assert!(db.is_empty()?, "nothing is visible before the end");
    load.finish()?;
    let square = db.get(300u64.to_be_bytes())?.expect("a row");
    assert_eq!(square, 90_000u64.to_be_bytes());

    // Rows in any other order are put; batches save most of the cost of a write.
    let mut batch = terrace::WriteBatch::new();
    for number in [7u64, 3, 5] {
        batch.put(number.to_be_bytes(), "odd")?;
    }
    db.write(batch, Default::default())?;
    println!("{} rows", db.range(..)?.count());
    Ok(())
}
