//! Moves money between accounts: a batch is seen as a whole, and a snapshot sees one moment.

use terrace::{Db, IterOptions, Options, Result, Snapshot, WriteBatch, WriteOptions};

/// Returns the sum of all accounts at a snapshot.
fn sum(db: &Db, snapshot: &Snapshot) -> Result<u64> {
    let options = IterOptions {
        snapshot: Some(snapshot.clone()),
        ..IterOptions::prefix("account:")
    };
    let mut sum = 0;
    for entry in db.iter(options)? {
        let (_, balance) = entry?;
        sum += u64::from_be_bytes(balance.try_into().expect("a balance has eight bytes"));
    }
    Ok(sum)
}

pub fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a directory for the example");
    let db = Db::open(directory.path().join("bank"), Options::default())?;
    db.put("account:ada", 70u64.to_be_bytes())?;
    db.put("account:bob", 30u64.to_be_bytes())?;
    let before = db.snapshot();

    let mut transfer = WriteBatch::new();
    transfer.put("account:ada", 50u64.to_be_bytes())?;
    transfer.put("account:bob", 50u64.to_be_bytes())?;
    // The call returns when the transfer survives a power cut.
    db.write(transfer, WriteOptions::with_sync(true))?;

    let balance = db.get_at(&before, "account:ada")?.expect("an account");
    assert_eq!(balance, 70u64.to_be_bytes());
    assert_eq!(sum(&db, &before)?, 100);
    assert_eq!(sum(&db, &db.snapshot())?, 100);
    println!("no reader sees money that is nowhere, or in two places");
    Ok(())
}
