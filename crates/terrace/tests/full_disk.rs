//! A real file system that fills up.
//!
//! Needs a small file system of its own (about 100 MiB): `cargo xtask` makes one on a loop device
//! and names its mount point in `TERRACE_LOOP_MOUNT`; without it the test says so and ends.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use terrace::{Compression, Db, Error, IterOptions, Options, WriteBatch, WriteOptions};

/// Files that are removed, one after the other, to make room: first for a merge of everything that
/// is there by then, then for a recovery.
const BALLAST_BYTES: [usize; 2] = [40 << 20, 10 << 20];
/// Space that returned is noticed by the next repetition of the failed step: seconds, not minutes.
const PATIENCE: Duration = Duration::from_secs(60);

fn options() -> Options {
    Options {
        arena_bytes: 1 << 20,
        arena_index_bytes: 1 << 20,
        table_bytes: 1 << 20,
        level1_bytes: 4 << 20,
        level_ratio: 4,
        compression: vec![Compression::None],
        manifest_bytes: 64 << 10,
        ..Options::default()
    }
}

/// The seed of each key's value, as acknowledged.
type Acknowledged = BTreeMap<u64, u64>;

fn value(seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; 1 + seed as usize % 20_000];
    SmallRng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

fn write(db: &Db, acknowledged: &mut Acknowledged, random: &mut SmallRng) -> terrace::Result<()> {
    let mut batch = WriteBatch::new();
    let writes: Vec<(u64, u64)> = (0..random.random_range(1..4))
        .map(|_| (random.random(), random.random()))
        .collect();
    for (key, seed) in &writes {
        batch.put(&key.to_be_bytes(), &value(*seed))?;
    }
    db.write(batch, WriteOptions::with_sync(random.random_ratio(1, 20)))?;
    acknowledged.extend(writes);
    Ok(())
}

fn check(db: &Db, acknowledged: &Acknowledged) {
    let mut found = db.iter(IterOptions::default()).unwrap().entries();
    for (key, seed) in acknowledged {
        let (found_key, found_value) = found.next().expect("a key is missing").unwrap();
        assert_eq!(found_key, key.to_be_bytes());
        assert!(
            found_value == value(*seed),
            "the value of key {key:x} is wrong"
        );
        let got = db
            .get(&key.to_be_bytes())
            .unwrap()
            .expect("a key is missing");
        assert!(
            got[..] == found_value,
            "get and iterator differ at key {key:x}"
        );
    }
    assert!(
        found.next().is_none(),
        "there is a key that was never acknowledged"
    );
}

/// Fills the disk until a write is refused for want of space.
fn fill(db: &Db, acknowledged: &mut Acknowledged, random: &mut SmallRng) {
    let began = Instant::now();
    loop {
        match write(db, acknowledged, random) {
            Ok(()) => assert!(began.elapsed() < PATIENCE, "the disk does not fill"),
            Err(error) => {
                assert!(error.is_no_space(), "{error:?}");
                return;
            }
        }
    }
}

/// Writes until the store takes them again.
fn go_on(db: &Db, acknowledged: &mut Acknowledged, random: &mut SmallRng) {
    let began = Instant::now();
    while let Err(error) = write(db, acknowledged, random) {
        assert!(error.is_no_space(), "{error:?}");
        assert!(
            began.elapsed() < PATIENCE,
            "space is back, and still: {error}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn make_ballast(path: &Path, length_bytes: usize) {
    let mut ballast = fs::File::create(path).unwrap();
    ballast.write_all(&vec![1; length_bytes]).unwrap();
    ballast.sync_all().unwrap();
}

#[test]
fn a_store_on_a_full_file_system_loses_nothing_and_goes_on() {
    let Some(mount) = std::env::var_os("TERRACE_LOOP_MOUNT") else {
        println!("skipped: TERRACE_LOOP_MOUNT names no file system");
        return;
    };
    let mount = Path::new(&mount);
    let path = mount.join("store");
    let ballast = ["ballast-1", "ballast-2"].map(|name| mount.join(name));
    let mut random = SmallRng::seed_from_u64(1);
    let mut acknowledged = Acknowledged::new();

    for (path, length_bytes) in ballast.iter().zip(BALLAST_BYTES) {
        make_ballast(path, length_bytes);
    }
    let db = Db::open(&path, options()).unwrap();
    fill(&db, &mut acknowledged, &mut random);
    assert!(
        acknowledged.len() > 100,
        "{} writes filled the disk",
        acknowledged.len()
    );
    let statistics = db.statistics();
    assert!(statistics.poisoned.is_none(), "{statistics:?}");
    assert!(statistics.retries > 0, "{statistics:?}");
    assert!(
        statistics
            .last_error
            .as_ref()
            .is_some_and(Error::is_no_space),
        "{statistics:?}"
    );
    check(&db, &acknowledged);

    fs::remove_file(&ballast[0]).unwrap();
    go_on(&db, &mut acknowledged, &mut random);
    for _ in 0..200 {
        write(&db, &mut acknowledged, &mut random).unwrap();
    }
    db.flush().unwrap();
    check(&db, &acknowledged);

    // A clean close needs no space that is not there already, nor does a reader.
    fill(&db, &mut acknowledged, &mut random);
    db.close().unwrap();
    drop(db);
    let reader = Db::open(
        &path,
        Options {
            read_only: true,
            ..options()
        },
    )
    .unwrap();
    check(&reader, &acknowledged);
    drop(reader);
    match Db::open(&path, options()) {
        Ok(db) => check(&db, &acknowledged),
        Err(error) => assert!(matches!(error, Error::NoSpace { .. }), "{error:?}"),
    }

    fs::remove_file(&ballast[1]).unwrap();
    let db = Db::open(&path, options()).unwrap();
    check(&db, &acknowledged);
    // There may be too little room for the merge that writers wait for.
    if let Err(error) = write(&db, &mut acknowledged, &mut random) {
        assert!(error.is_no_space(), "{error:?}");
    }
    check(&db, &acknowledged);
    db.close().unwrap();
    drop(db);
    check(&Db::open(&path, options()).unwrap(), &acknowledged);
}
