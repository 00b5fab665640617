//! Threads that move coins between accounts, each transfer as one transaction.

use std::thread;

use terrace::{Db, Error, Keyspace, KeyspaceOptions, Options, TransactionOptions};

const ACCOUNTS: u32 = 10;

/// The reason why a transfer was not made.
#[derive(Debug)]
enum Refused {
    TooPoor,
    Store(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Refused::Store(error)
    }
}

fn coins(bytes: Option<&[u8]>) -> u64 {
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_be_bytes)
}

/// Moves coins, and notes the transfer. Nothing of it happens where the payer has too few.
fn transfer(
    db: &Db,
    log: &Keyspace,
    [payer, payee]: [u32; 2],
    amount: u64,
) -> std::result::Result<u64, Refused> {
    db.transact_with(TransactionOptions::default(), |transaction| {
        let left = coins(transaction.get(payer.to_be_bytes())?.as_deref())
            .checked_sub(amount)
            .ok_or(Refused::TooPoor)?;
        transaction.put(payer.to_be_bytes(), left.to_be_bytes())?;
        // It sees its own write, also where somebody pays to himself.
        let more = coins(transaction.get(payee.to_be_bytes())?.as_deref()) + amount;
        transaction.put(payee.to_be_bytes(), more.to_be_bytes())?;
        // The last number in the log and the next one: no other transfer can take it.
        let last = transaction.range_in(log, ..)?.next_back().transpose()?;
        let number = 1 + last.map_or(0, |(number, _)| coins(Some(&number)));
        transaction.put_in(
            log,
            number.to_be_bytes(),
            format!("{payer} to {payee}: {amount}"),
        )?;
        Ok(number)
    })
}

pub fn main() -> terrace::Result<()> {
    let directory = tempfile::tempdir().expect("a directory for the example");
    let db = Db::open(directory.path().join("bank"), Options::default())?;
    let log = db.get_or_create_keyspace("log", KeyspaceOptions::default())?;
    db.transact(|transaction| {
        (0..ACCOUNTS)
            .try_for_each(|account| transaction.put(account.to_be_bytes(), 100u64.to_be_bytes()))
    })?;
    thread::scope(|scope| {
        for thread in 0..4 {
            let (db, log) = (&db, &log);
            scope.spawn(move || {
                for turn in 0..50 {
                    let accounts = [(thread + turn) % ACCOUNTS, (3 * turn) % ACCOUNTS];
                    match transfer(db, log, accounts, 30) {
                        Ok(_) | Err(Refused::TooPoor) => {}
                        Err(Refused::Store(error)) => panic!("{error}"),
                    }
                }
            });
        }
    });
    // One moment, without writes: it is never refused.
    let audit = db.transaction()?;
    let mut sum = 0;
    for account in audit.range(..)? {
        sum += coins(Some(&account?.1));
    }
    assert_eq!(sum, u64::from(ACCOUNTS) * 100);
    println!(
        "{} transfers, and still {sum} coins",
        audit.range_in(&log, ..)?.count()
    );
    Ok(())
}
