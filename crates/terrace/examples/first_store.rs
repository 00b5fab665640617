//! A first store: open it, write, read, remove, and find it all again.

use terrace::{Db, Options, Result};

pub fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a directory for the example");
    let path = directory.path().join("cities");

    let db = Db::open(&path, Options::default())?;
    db.put("lisbon", "Portugal")?;
    db.put("oslo", "Norway")?;
    db.put("atlantis", "unknown")?;
    db.delete("atlantis")?;
    db.close()?;

    // An acknowledged write outlives the process, closed or not.
    let db = Db::open(&path, Options::default())?;
    let country = db.get("oslo")?.expect("a key that was put");
    assert_eq!(country, "Norway");
    assert!(db.get("atlantis")?.is_none());
    println!("oslo is in {}", String::from_utf8_lossy(&country));
    Ok(())
}
