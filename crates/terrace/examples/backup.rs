//! Backs a store up while it is in use, checks the copy, and goes back to it.

use terrace::{Db, Options, Result};

pub fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a directory for the example");
    let path = directory.path().join("store");
    let backup = directory.path().join("backup");
    let db = Db::open(&path, Options::default())?;
    db.put("balance", "100")?;

    // Tables are linked and not copied, so this takes no longer than a flush, whatever the size.
    db.checkpoint(&backup)?;
    db.put("balance", "0, by mistake")?;
    db.close()?;

    // A checkpoint is a store. Copy its directory to another device with any tool.
    let copy = Db::open(&backup, Options::default())?;
    let report = copy.verify(|_, _| ())?;
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    let balance = copy.get("balance")?.expect("a balance");
    assert_eq!(balance, "100");
    println!("the backup has {}", String::from_utf8_lossy(&balance));
    Ok(())
}
