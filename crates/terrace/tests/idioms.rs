//! Statements in the idiom of other stores; docs/decisions/public-api.md sets them beside theirs.

use terrace::{Db, Options, Result};

#[test]
fn what_users_of_other_stores_type_compiles() {
    typed().unwrap();
}

fn typed() -> Result<()> {
    let db = Db::open("/store", Options::in_memory())?;
    assert!(db.is_empty()?);
    db.put("lisbon", "Portugal")?;
    db.put(String::from("oslo"), vec![7; 3])?;
    db.put(b"rome", b"Italy")?;
    let is_same = |value| value == b"Portugal".to_vec();
    assert!(db.get("lisbon")?.is_some_and(is_same));
    let mut keys = Vec::new();
    for entry in db.range(..)? {
        keys.push(entry?.0);
    }
    for entry in db.iter(Default::default())? {
        assert!(keys.contains(&entry?.0));
    }
    assert_eq!(db.range("m".."p")?.count(), 1);
    let last = db.range("a"..)?.next_back();
    assert_eq!(last.transpose()?.unwrap().0, b"rome");
    let reversed: Vec<_> = db.range(..)?.rev().collect::<Result<_>>()?;
    assert_eq!(reversed[2].0, keys[0]);
    assert_eq!(db.prefix("o")?.count(), 1);
    assert_eq!(db.range(..)?.count(), 3);
    db.delete_within(..)?;
    assert!(db.is_empty()?);
    Ok(())
}
