//! A table and an index of it, in two keyspaces that one batch changes.

use terrace::{Db, Keyspace, KeyspaceOptions, Options, Result, WriteBatch, WriteOptions};

struct Users {
    db: Db,
    by_number: Keyspace,
    number_by_mail: Keyspace,
}

impl Users {
    fn open(db: Db) -> Result<Self> {
        let keyspace = |name| db.get_or_create_keyspace(name, KeyspaceOptions::default());
        Ok(Users {
            by_number: keyspace("users")?,
            number_by_mail: keyspace("users by mail")?,
            db,
        })
    }

    fn add(&self, number: u32, mail: &str) -> Result<()> {
        let number = number.to_be_bytes();
        let mut batch = WriteBatch::new();
        batch.put_in(&self.by_number, number, mail)?;
        batch.put_in(&self.number_by_mail, mail, number)?;
        self.db.write(batch, WriteOptions::default())
    }

    fn number_of(&self, mail: &str) -> Result<Option<u32>> {
        let number = self.number_by_mail.get(mail)?;
        Ok(number.map(|number| {
            let number: [u8; 4] = number[..].try_into().expect("a number has four bytes");
            u32::from_be_bytes(number)
        }))
    }
}

pub fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a directory for the example");
    let users = Users::open(Db::open(
        directory.path().join("users"),
        Options::default(),
    )?)?;
    users.add(7, "ada@example.org")?;
    users.add(8, "bob@example.org")?;
    assert_eq!(users.number_of("ada@example.org")?, Some(7));
    assert_eq!(users.number_of("eve@example.org")?, None);
    assert_eq!(users.by_number.range(..)?.count(), 2);

    // All of an index is gone at once, and is made anew from the table.
    users.db.drop_keyspace("users by mail")?;
    let users = Users::open(users.db.clone())?;
    for entry in users.by_number.range(..)? {
        let (number, mail) = entry?;
        users.number_by_mail.put(mail, number)?;
    }
    assert_eq!(users.number_of("bob@example.org")?, Some(8));
    println!(
        "the index has {} users",
        users.number_by_mail.range(..)?.count()
    );
    Ok(())
}
