//! Accounts in two keyspaces, and transfers between them: their sum stays, whatever happens.
//!
//! `TERRACE_KILLS` sets how often the process is killed (5 by default).

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use terrace::{
    Background, Db, Durability, Keyspace, KeyspaceOptions, Options, Transaction,
    TransactionOptions, WriteOptions,
};
use terrace_storage::{CrashKind, CrashSwitch, SimulatedStorage};

use super::support::scale;
use super::support::script::{is_frozen, tiny};

const ACCOUNTS: u32 = 40;
const COINS: u64 = 100;
const DIRECTORY: &str = "TERRACE_BANK_CHILD_DIRECTORY";

fn open(path: &Path) -> (Db, [Keyspace; 2]) {
    open_with(path, tiny(Options::default())).unwrap()
}

/// Opens the accounts, and fills them the first time.
fn open_with(path: &Path, options: Options) -> terrace::Result<(Db, [Keyspace; 2])> {
    let db = Db::open(path, options)?;
    let savings = db.get_or_create_keyspace("savings", KeyspaceOptions::default())?;
    let keyspaces = [Keyspace::clone(&db), savings];
    let opened = db.transact(|transaction| {
        if transaction.contains_key("opened")? {
            return Ok(());
        }
        for keyspace in &keyspaces {
            for account in 0..ACCOUNTS {
                transaction.put_in(keyspace, account.to_be_bytes(), COINS.to_be_bytes())?;
            }
        }
        transaction.put("opened", COINS.to_be_bytes())
    });
    opened?;
    Ok((db, keyspaces))
}

fn coins(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}

/// Moves a part of one account to another one.
fn transfer(
    transaction: &mut Transaction,
    keyspaces: &[Keyspace; 2],
    random: &mut SmallRng,
) -> terrace::Result<()> {
    let mut account = || {
        let keyspace = &keyspaces[random.random_range(0..2)];
        (keyspace, random.random_range(0..ACCOUNTS).to_be_bytes())
    };
    let ((from, payer), (to, payee)) = (account(), account());
    let paid = {
        let rich = transaction
            .get_in(from, payer)?
            .map_or(0, |bytes| coins(&bytes));
        let paid = rich.min(7);
        match rich - paid {
            // An account without coins is no key.
            0 => transaction.delete_in(from, payer)?,
            left => transaction.put_in(from, payer, left.to_be_bytes())?,
        }
        paid
    };
    let before = transaction
        .get_in(to, payee)?
        .map_or(0, |bytes| coins(&bytes));
    match before + paid {
        0 => Ok(()),
        coins => transaction.put_in(to, payee, coins.to_be_bytes()),
    }
}

/// Returns the sum of all accounts, as one transaction sees it.
fn sum(transaction: &Transaction, keyspaces: &[Keyspace; 2]) -> u64 {
    let accounts = keyspaces.iter().flat_map(|keyspace| {
        transaction
            .range_in(keyspace, ..ACCOUNTS.to_be_bytes())
            .unwrap()
    });
    accounts.map(|entry| coins(&entry.unwrap().1)).sum()
}

const ALL_COINS: u64 = 2 * COINS * ACCOUNTS as u64;

#[test]
fn the_sum_stays_while_threads_pay_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let (db, keyspaces) = open(&path);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let payers: Vec<_> = (0..3)
            .map(|seed| {
                let (db, keyspaces) = (&db, &keyspaces);
                scope.spawn(move || {
                    let mut random = SmallRng::seed_from_u64(seed);
                    for _ in 0..800 {
                        db.transact(|transaction| transfer(transaction, keyspaces, &mut random))
                            .unwrap();
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let transaction = db.transaction().unwrap();
                assert_eq!(sum(&transaction, &keyspaces), ALL_COINS);
                transaction.commit().unwrap();
                db.flush().unwrap();
            }
        });
        payers.into_iter().for_each(|payer| payer.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
    });
    db.close().unwrap();
    drop((keyspaces, db));
    let (db, keyspaces) = open(&path);
    assert_eq!(sum(&db.transaction().unwrap(), &keyspaces), ALL_COINS);
}

#[test]
#[ignore = "the child of the test below"]
fn paying_child() {
    let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else {
        return;
    };
    let (db, keyspaces) = open(&directory);
    println!("\nopened");
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let (db, keyspaces) = (&db, &keyspaces);
            scope.spawn(move || {
                let mut random = SmallRng::seed_from_u64(seed);
                loop {
                    let options = TransactionOptions {
                        write: WriteOptions::with_sync(random.random_ratio(1, 8)),
                        ..TransactionOptions::default()
                    };
                    let paid: terrace::Result<()> = db.transact_with(options, |transaction| {
                        transfer(transaction, keyspaces, &mut random)
                    });
                    paid.unwrap();
                }
            });
        }
    });
}

/// A child that outlives no test, also if the test fails.
struct KilledAtEnd(Child);

impl Drop for KilledAtEnd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_sum_stays_over_kills() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mut random = SmallRng::seed_from_u64(1);
    for kill in 0..scale("TERRACE_KILLS", 5) {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "bank::paying_child", "--ignored", "--nocapture"])
            .env(DIRECTORY, &path)
            .stdout(Stdio::piped())
            .spawn();
        let mut child = KilledAtEnd(child.unwrap());
        let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
        assert!(
            lines.any(|line| line.unwrap() == "opened"),
            "the child ended"
        );
        std::thread::sleep(Duration::from_millis(random.random_range(1..300)));
        drop(child);
        let (db, keyspaces) = open(&path);
        assert_eq!(
            sum(&db.transaction().unwrap(), &keyspaces),
            ALL_COINS,
            "kill {kill}"
        );
        db.close().unwrap();
    }
}

/// A store on a simulated disk, which dies at a random step.
fn on_disk(disk: &SimulatedStorage) -> Options {
    tiny(Options {
        storage: Arc::new(disk.clone()),
        durability: Some(Durability::PowerSafe),
        background: Background::Inline,
        ..Options::default()
    })
}

/// Returns the coins of each account with any.
fn balances(db: &Db, keyspaces: &[Keyspace; 2]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let transaction = db.transaction().unwrap();
    let accounts = keyspaces.iter().flat_map(|keyspace| {
        transaction
            .range_in(keyspace, ..ACCOUNTS.to_be_bytes())
            .unwrap()
    });
    accounts.map(Result::unwrap).collect()
}

/// Acknowledged transfers are there, the one under way is there as a whole or not at all, and no coin is
/// lost.
#[test]
fn transfers_are_whole_after_power_cuts() {
    let path = Path::new("/store");
    let mut written = 0;
    for image in 0..scale("TERRACE_IMAGES", 60) {
        let mut random = SmallRng::seed_from_u64(image);
        let switch = CrashSwitch::new();
        let disk = SimulatedStorage::new(image, switch.clone());
        let (db, keyspaces) = open_with(path, on_disk(&disk)).unwrap();
        switch.freeze_at(switch.count() + random.random_range(1..400));
        let mut last = balances(&db, &keyspaces);
        let mut under_way = last.clone();
        loop {
            let transferred = db.transact(|transaction| {
                transfer(transaction, &keyspaces, &mut random)?;
                let accounts = keyspaces.iter().flat_map(|keyspace| {
                    transaction
                        .range_in(keyspace, ..ACCOUNTS.to_be_bytes())
                        .unwrap()
                });
                under_way = accounts.collect::<terrace::Result<_>>()?;
                Ok(())
            });
            if let Err(error) = transferred {
                assert!(is_frozen(&error), "{error}");
                break;
            }
            last.clone_from(&under_way);
            written += 1;
        }
        drop((keyspaces, db));
        let kind = match image % 4 {
            0 => CrashKind::Kill,
            _ => CrashKind::PowerCut,
        };
        let disk = disk.crash(kind, image, CrashSwitch::new());
        let (db, keyspaces) = open_with(path, on_disk(&disk)).unwrap();
        let found = balances(&db, &keyspaces);
        assert!(
            found == last || found == under_way,
            "image {image}, {kind:?}"
        );
        assert_eq!(sum(&db.transaction().unwrap(), &keyspaces), ALL_COINS);
        db.close().unwrap();
    }
    assert!(written > 500, "{written}");
}
