//! Counters and a lock that many threads share, without a lock around the store.

use std::thread;

use terrace::{Db, Options, Result};

/// Adds one to a counter.
fn count(db: &Db, name: &str) -> Result<()> {
    let more = |count: Option<&[u8]>| {
        let count = count.and_then(|bytes| bytes.try_into().ok());
        let count = count.map_or(0, u64::from_be_bytes);
        Some((count + 1).to_be_bytes().to_vec())
    };
    db.fetch_and_update(name, more)?;
    Ok(())
}

pub fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a directory for the example");
    let db = Db::open(directory.path().join("counters"), Options::default())?;
    let winners = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|number| {
                let db = db.clone();
                scope.spawn(move || -> Result<bool> {
                    for _ in 0..1000 {
                        count(&db, "visits")?;
                    }
                    // Only the first one finds the key absent.
                    let name = format!("thread {number}");
                    db.compare_and_set("leader", None, Some(name.as_bytes()))
                })
            })
            .collect();
        let ended = threads
            .into_iter()
            .map(|thread| thread.join().expect("no thread panics"));
        ended.collect::<Result<Vec<bool>>>()
    })?;
    assert_eq!(winners.iter().filter(|won| **won).count(), 1);
    let visits = db.get("visits")?.expect("a counter");
    assert_eq!(visits, 4000u64.to_be_bytes());
    let leader = db.get("leader")?.expect("a leader");
    println!("4000 visits; {} leads", String::from_utf8_lossy(&leader));
    Ok(())
}
