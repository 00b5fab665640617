use std::collections::BTreeSet;

use super::*;
use crate::{ErrorKind, File, LockKind, OpenMode, OpenOptions, Purpose};

const PURPOSE: Purpose = Purpose::Other;
const CREATE: OpenOptions = OpenOptions::buffered(OpenMode::CreateNew);
const READ: OpenOptions = OpenOptions::buffered(OpenMode::Read);

fn new_storage() -> SimulatedStorage {
    SimulatedStorage::new(1, CrashSwitch::new())
}

fn create(storage: &SimulatedStorage, path: &str) -> Arc<dyn File> {
    storage.open(Path::new(path), CREATE).unwrap()
}

/// Creates a file whose name and content are durable.
fn create_durable(storage: &SimulatedStorage, path: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = create(storage, path);
    file.append(bytes, PURPOSE).unwrap();
    file.sync(PURPOSE).unwrap();
    sync_root(storage);
    file
}

fn sync_root(storage: &SimulatedStorage) {
    storage.sync_directory(Path::new("/")).unwrap();
}

/// Returns the content of a file, if its name is there.
fn content(storage: &SimulatedStorage, path: &str) -> Option<Vec<u8>> {
    let file = match storage.open(Path::new(path), READ) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        Err(error) => panic!("{error}"),
    };
    let mut bytes = vec![0; file.length_bytes().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0, PURPOSE).unwrap();
    Some(bytes)
}

fn text(storage: &SimulatedStorage, path: &str) -> Option<String> {
    content(storage, path).map(|bytes| String::from_utf8(bytes).unwrap())
}

fn cut_power(storage: &SimulatedStorage, seed: u64) -> SimulatedStorage {
    storage.crash(CrashKind::PowerCut, seed, CrashSwitch::new())
}

/// Returns everything that `look` sees after a power cut, over many seeds.
fn outcomes<T: Ord>(
    storage: &SimulatedStorage,
    look: impl Fn(&SimulatedStorage) -> T,
) -> BTreeSet<T> {
    (0..300)
        .map(|seed| look(&cut_power(storage, seed)))
        .collect()
}

fn names(storage: &SimulatedStorage) -> Vec<String> {
    let entries = storage.list(Path::new("/")).unwrap();
    entries.into_iter().map(|entry| entry.name).collect()
}

#[test]
fn a_kill_keeps_everything_that_was_written() {
    let storage = new_storage();
    create(&storage, "/a").append(b"unsynced", PURPOSE).unwrap();
    create(&storage, "/b");
    storage.rename(Path::new("/b"), Path::new("/c")).unwrap();
    let boot_id = storage.boot_id().unwrap();

    let storage = storage.crash(CrashKind::Kill, 7, CrashSwitch::new());
    assert_eq!(names(&storage), ["a", "c"]);
    assert_eq!(text(&storage, "/a").unwrap(), "unsynced");
    assert_eq!(storage.boot_id().unwrap(), boot_id);
    // Surviving a kill makes nothing durable.
    assert!(outcomes(&storage, names).contains(&vec![]));
}

#[test]
fn a_power_cut_changes_the_boot_id_and_releases_locks() {
    let storage = new_storage();
    let path = Path::new("/LOCK");
    let _lock = storage.lock(path, LockKind::Exclusive).unwrap();
    sync_root(&storage);
    let error = storage.lock(path, LockKind::Shared).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    let after = cut_power(&storage, 2);
    assert_ne!(after.boot_id().unwrap(), storage.boot_id().unwrap());
    after.lock(path, LockKind::Exclusive).unwrap();
}

#[test]
fn the_same_seed_gives_the_same_crash() {
    let storage = new_storage();
    let file = create_durable(&storage, "/f", &[1; 20_000]);
    file.write_at(&[2; 20_000], 0, PURPOSE).unwrap();
    for seed in 0..20 {
        let (one, other) = (cut_power(&storage, seed), cut_power(&storage, seed));
        assert_eq!(content(&one, "/f"), content(&other, "/f"));
        assert_eq!(one.boot_id().unwrap(), other.boot_id().unwrap());
    }
}

#[test]
fn synced_bytes_under_a_synced_name_always_survive() {
    let storage = new_storage();
    let file = create_durable(&storage, "/f", b"durable");
    file.append(b" and lost", PURPOSE).unwrap();
    let seen = outcomes(&storage, |after| text(after, "/f").unwrap());
    assert!(seen.iter().all(|text| text.starts_with("durable")));
    assert!(seen.contains("durable") && seen.contains("durable and lost"));
}

#[test]
fn syncing_a_file_does_not_make_its_name_durable() {
    let storage = new_storage();
    let file = create(&storage, "/f");
    file.append(b"x", PURPOSE).unwrap();
    file.sync(PURPOSE).unwrap();
    let seen = outcomes(&storage, |after| text(after, "/f"));
    assert_eq!(seen, BTreeSet::from([None, Some("x".to_owned())]));
}

#[test]
fn syncing_a_directory_does_not_make_contents_durable() {
    let storage = new_storage();
    let file = create(&storage, "/f");
    file.append(b"x", PURPOSE).unwrap();
    sync_root(&storage);
    let seen = outcomes(&storage, |after| text(after, "/f"));
    // The length may get there without the page.
    let legal = ["", "\0", "x"].map(|text| Some(text.to_owned()));
    assert_eq!(seen, BTreeSet::from(legal));
}

#[test]
fn a_replacing_rename_is_whole_or_absent() {
    let storage = new_storage();
    create_durable(&storage, "/CURRENT", b"old");
    create_durable(&storage, "/temporary", b"new");
    let rename = |storage: &SimulatedStorage| {
        let (from, to) = (Path::new("/temporary"), Path::new("/CURRENT"));
        storage.rename(from, to).unwrap();
    };
    rename(&storage);
    let look = |after: &SimulatedStorage| (text(after, "/temporary"), text(after, "/CURRENT"));
    let [old, new] = ["old", "new"].map(|text| Some(text.to_owned()));
    let done = (None, new.clone());
    let undone = (new, old);
    assert_eq!(
        outcomes(&storage, look),
        BTreeSet::from([undone, done.clone()])
    );
    sync_root(&storage);
    assert_eq!(outcomes(&storage, look), BTreeSet::from([done]));
}

#[test]
fn changes_of_one_name_keep_their_order_and_others_do_not() {
    let storage = new_storage();
    create(&storage, "/a");
    create(&storage, "/b");
    storage.remove(Path::new("/a")).unwrap();
    storage.link(Path::new("/b"), Path::new("/c")).unwrap();
    let legal: [&[&str]; 8] = [
        &[],
        &["a"],
        &["b"],
        &["c"],
        &["a", "b"],
        &["a", "c"],
        &["b", "c"],
        &["a", "b", "c"],
    ];
    let legal = legal.map(|names| names.iter().map(|name| name.to_string()).collect());
    assert_eq!(outcomes(&storage, names), BTreeSet::from(legal));
}

#[test]
fn syncing_one_directory_leaves_another_alone_but_carries_what_a_rename_needs() {
    let storage = new_storage();
    for directory in ["/one", "/two"] {
        storage.create_directory(Path::new(directory)).unwrap();
    }
    create(&storage, "/two/made");
    create(&storage, "/one/other");
    let (from, to) = (Path::new("/two/made"), Path::new("/two/moved"));
    storage.rename(from, to).unwrap();
    storage.sync_directory(Path::new("/two")).unwrap();
    let seen = outcomes(&storage, |after| {
        ["/two/made", "/two/moved", "/one/other"].map(|path| content(after, path).is_some())
    });
    assert_eq!(
        seen,
        BTreeSet::from([[false, true, false], [false, true, true]])
    );
}

#[test]
fn a_removal_that_is_lost_gives_back_the_whole_content() {
    let storage = new_storage();
    drop(create_durable(&storage, "/f", b"whole"));
    storage.remove(Path::new("/f")).unwrap();
    let seen = outcomes(&storage, |after| text(after, "/f"));
    assert_eq!(seen, BTreeSet::from([None, Some("whole".to_owned())]));
    sync_root(&storage);
    let seen = outcomes(&storage, |after| text(after, "/f"));
    assert_eq!(seen, BTreeSet::from([None]));
}

#[test]
fn pages_survive_alone_and_are_torn_between_sectors() {
    let storage = new_storage();
    let file = create_durable(&storage, "/f", &[0; 8192]);
    file.write_at(&[1; 8192], 0, PURPOSE).unwrap();
    file.write_at(&[2; 4096], 0, PURPOSE).unwrap();
    let mut sector_mixes = BTreeSet::new();
    for seed in 0..300 {
        let bytes = content(&cut_power(&storage, seed), "/f").unwrap();
        assert_eq!(bytes.len(), 8192);
        for (index, sector) in bytes.chunks(512).enumerate() {
            assert!(
                sector.iter().all(|byte| *byte == sector[0]),
                "a sector is whole"
            );
            assert!(sector[0] <= if index < 8 { 2 } else { 1 });
        }
        let states = |page: &[u8]| page.iter().copied().collect::<BTreeSet<_>>();
        sector_mixes.insert((states(&bytes[..4096]), states(&bytes[4096..])));
    }
    // Each whole page of each state beside each of the other page, and torn ones.
    for first in 0..=2 {
        for second in 0..=1 {
            let whole = (BTreeSet::from([first]), BTreeSet::from([second]));
            assert!(
                sector_mixes.contains(&whole),
                "pages at {first} and {second}"
            );
        }
    }
    assert!(sector_mixes.iter().any(|(first, _)| first.len() == 3));
}

#[test]
fn pages_that_a_failed_sync_lost_are_read_and_reach_the_medium_when_they_are_written_again() {
    let storage = new_storage();
    let file = create_durable(&storage, "/f", &[0; 8192]);
    file.write_at(&[1; 8192], 0, PURPOSE).unwrap();
    storage.lose_unsynced(Path::new("/f")).unwrap();
    file.sync(PURPOSE).unwrap();
    assert_eq!(content(&storage, "/f").unwrap(), [1; 8192]);
    let seen = |storage: &SimulatedStorage| outcomes(storage, |after| content(after, "/f"));
    assert_eq!(seen(&storage), BTreeSet::from([Some(vec![0; 8192])]));
    file.write_at(&[2; 10], 0, PURPOSE).unwrap();
    file.sync(PURPOSE).unwrap();
    let whole = [vec![2; 10], vec![1; 4086], vec![0; 4096]].concat();
    assert_eq!(seen(&storage), BTreeSet::from([Some(whole)]));
}

#[test]
fn unsynced_growth_is_lost_in_steps_and_holes_read_as_zeros() {
    let storage = new_storage();
    let file = create_durable(&storage, "/f", &[9; 100]);
    file.append(&[1; 5000], PURPOSE).unwrap();
    file.append(&[2; 5000], PURPOSE).unwrap();
    let mut lengths = BTreeSet::new();
    let mut has_hole = false;
    for seed in 0..300 {
        let bytes = content(&cut_power(&storage, seed), "/f").unwrap();
        lengths.insert(bytes.len());
        assert!(bytes[..100].iter().all(|byte| *byte == 9));
        has_hole |= bytes.ends_with(&[0; 512]);
    }
    assert_eq!(lengths, BTreeSet::from([100, 5100, 10_100]));
    assert!(has_hole);
}

#[test]
fn the_length_falls_back_without_the_pages_below_it() {
    let storage = new_storage();
    let file = create_durable(&storage, "/f", b"old");
    file.append(b" and grown", PURPOSE).unwrap();
    file.write_at(b"new", 0, PURPOSE).unwrap();
    let seen = outcomes(&storage, |after| text(after, "/f").unwrap());
    assert!(
        seen.contains("new"),
        "the later write without the earlier growth"
    );
    assert!(
        seen.contains("old\0\0\0\0\0\0\0\0\0\0"),
        "the growth without its bytes"
    );
}

#[test]
fn a_write_that_dies_with_the_machine_leaves_a_prefix() {
    let mut lengths = BTreeSet::new();
    for seed in 0..200 {
        let switch = CrashSwitch::new();
        let storage = SimulatedStorage::new(seed, switch.clone());
        let file = create(&storage, "/f");
        file.append(&[1; 300], PURPOSE).unwrap();
        switch.freeze_at(switch.count());
        let error = file.append(&[2; 1000], PURPOSE).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Other);
        assert!(error.to_string().contains("frozen"));
        let after = storage.crash(CrashKind::Kill, seed, CrashSwitch::new());
        lengths.insert(content(&after, "/f").unwrap().len());
    }
    assert_eq!(lengths, BTreeSet::from([300, 512, 1024, 1300]));
}

#[test]
fn a_frozen_machine_does_nothing_more() {
    let switch = CrashSwitch::new();
    let storage = SimulatedStorage::new(1, switch.clone());
    let file = create_durable(&storage, "/f", b"before");
    switch.freeze_now();
    let path = Path::new("/f");
    let errors = [
        file.append(b"after", PURPOSE).unwrap_err(),
        file.sync(PURPOSE).unwrap_err(),
        file.allocate(100).unwrap_err(),
        file.read_at(&mut [0], 0, PURPOSE).unwrap_err(),
        file.length_bytes().unwrap_err(),
        storage.open(path, READ).unwrap_err(),
        storage.open(Path::new("/new"), CREATE).unwrap_err(),
        storage.rename(path, Path::new("/g")).unwrap_err(),
        storage.link(path, Path::new("/g")).unwrap_err(),
        storage.remove(path).unwrap_err(),
        storage.list(Path::new("/")).unwrap_err(),
        storage.lock(path, LockKind::Shared).unwrap_err(),
        storage.sync_directory(Path::new("/")).unwrap_err(),
        storage.create_directory(Path::new("/d")).unwrap_err(),
        storage.file_system(path).unwrap_err(),
        storage.boot_id().unwrap_err(),
    ];
    for error in errors {
        assert!(error.to_string().contains("frozen"), "{error}");
    }
    let after = storage.crash(CrashKind::Kill, 1, CrashSwitch::new());
    assert_eq!(names(&after), ["f"]);
    assert_eq!(text(&after, "/f").unwrap(), "before");
}

#[test]
fn every_change_is_a_step_and_reads_are_none() {
    let switch = CrashSwitch::new();
    let storage = SimulatedStorage::new(1, switch.clone());
    let (one, two) = (Path::new("/d/one"), Path::new("/d/two"));
    storage.create_directory(Path::new("/d")).unwrap();
    let file = storage.open(one, CREATE).unwrap();
    file.write_at(b"x", 0, PURPOSE).unwrap();
    file.append(b"y", PURPOSE).unwrap();
    file.allocate(10).unwrap();
    file.sync(PURPOSE).unwrap();
    storage.link(one, two).unwrap();
    storage.rename(one, Path::new("/d/three")).unwrap();
    storage.remove(two).unwrap();
    storage.sync_directory(Path::new("/d")).unwrap();
    assert_eq!(switch.count(), 10);
    storage.list(Path::new("/d")).unwrap();
    storage.create_directory(Path::new("/d")).unwrap();
    file.read_at(&mut [0; 2], 0, PURPOSE).unwrap();
    assert_eq!(switch.count(), 10);
}

#[test]
fn space_runs_out_and_comes_back_with_the_last_name_and_handle() {
    let storage = new_storage();
    storage.set_capacity_bytes(1000);
    let root = Path::new("/");
    let file = create(&storage, "/f");
    file.append(&[1; 600], PURPOSE).unwrap();
    let error = file.append(&[2; 600], PURPOSE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert_eq!(
        file.length_bytes().unwrap(),
        1000,
        "what fitted was written"
    );
    assert_eq!(storage.free_space_bytes(root).unwrap(), 0);
    file.write_at(&[3; 1000], 0, PURPOSE).unwrap();

    storage.link(Path::new("/f"), Path::new("/g")).unwrap();
    storage.remove(Path::new("/f")).unwrap();
    storage.remove(Path::new("/g")).unwrap();
    assert_eq!(storage.free_space_bytes(root).unwrap(), 0);
    drop(file);
    assert_eq!(storage.free_space_bytes(root).unwrap(), 1000);

    let reserved = create(&storage, "/reserved");
    reserved.allocate(900).unwrap();
    assert_eq!(reserved.length_bytes().unwrap(), 0);
    assert_eq!(storage.free_space_bytes(root).unwrap(), 100);
    let error = reserved.allocate(1001).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    storage.set_capacity_bytes(0);
    reserved.append(&[4; 900], PURPOSE).unwrap();
}

#[test]
fn an_open_file_outlives_its_name_but_not_the_process() {
    let storage = new_storage();
    let file = create_durable(&storage, "/f", b"x");
    storage.remove(Path::new("/f")).unwrap();
    sync_root(&storage);
    file.append(b"y", PURPOSE).unwrap();
    file.read_exact_at(&mut [0; 2], 0, PURPOSE).unwrap();
    let root = Path::new("/");
    let after = storage.crash(CrashKind::Kill, 1, CrashSwitch::new());
    let freed = after.free_space_bytes(root).unwrap() - storage.free_space_bytes(root).unwrap();
    assert_eq!(freed, 2);
}

#[test]
fn shared_locks_are_counted() {
    let storage = new_storage();
    let path = Path::new("/LOCK");
    let error = storage.lock(path, LockKind::Shared).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    drop(storage.lock(path, LockKind::Exclusive).unwrap());
    let first = storage.lock(path, LockKind::Shared).unwrap();
    let second = storage.lock(path, LockKind::Shared).unwrap();
    drop(first);
    let error = storage.lock(path, LockKind::Exclusive).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    drop(second);
    let _exclusive = storage.lock(path, LockKind::Exclusive).unwrap();
    let error = storage.lock(path, LockKind::Shared).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
}

#[test]
fn a_handle_opened_for_reading_does_not_write() {
    let storage = new_storage();
    create_durable(&storage, "/f", b"x");
    let file = storage.open(Path::new("/f"), READ).unwrap();
    file.write_at(b"y", 0, PURPOSE).unwrap_err();
    file.append(b"y", PURPOSE).unwrap_err();
    file.allocate(10).unwrap_err();
    assert_eq!(text(&storage, "/f").unwrap(), "x");
}

#[test]
fn an_open_directory_stays_the_one_that_was_opened_when_another_takes_its_place() {
    let storage = new_storage();
    let path = Path::new("/store");
    storage.create_directory(path).unwrap();
    let old = storage.directory(path, Access::Owner).unwrap();
    old.open("before", CREATE).unwrap();
    storage.rename_directory(path, Path::new("/moved")).unwrap();
    storage.create_directory(path).unwrap();
    let new = storage.directory(path, Access::Owner).unwrap();
    assert_ne!(old.identity().unwrap(), new.identity().unwrap());
    old.open("after", CREATE).unwrap();
    new.open("other", CREATE).unwrap();
    let names = |path| -> Vec<String> {
        let entries = storage.list(Path::new(path)).unwrap();
        entries.into_iter().map(|entry| entry.name).collect()
    };
    assert_eq!(names("/moved"), ["after", "before"]);
    assert_eq!(names("/store"), ["other"]);
    assert!(!old.is_removed().unwrap());
    let lock = old.lock("LOCK", LockKind::Exclusive).unwrap();
    assert_eq!(
        lock.identity().unwrap(),
        old.identity_of("LOCK").unwrap(),
        "the lock tells which file it is on"
    );
    new.lock("LOCK", LockKind::Exclusive).unwrap();
}

#[test]
fn a_removed_directory_says_so_and_its_successor_is_another() {
    let storage = new_storage();
    let path = Path::new("/store");
    storage.create_directory(path).unwrap();
    let old = storage.directory(path, Access::Owner).unwrap();
    let file = old.open("f", CREATE).unwrap();
    storage.remove_directory(path).unwrap();
    storage.create_directory(path).unwrap();
    assert!(old.is_removed().unwrap());
    file.append(b"open files go on", PURPOSE).unwrap();
    let error = old.open("new", CREATE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(storage.list(path).unwrap().is_empty());
    assert!(
        !storage
            .directory(path, Access::Owner)
            .unwrap()
            .is_removed()
            .unwrap()
    );
}

#[test]
fn a_name_is_never_replaced_by_a_rename_to_a_new_one() {
    let storage = new_storage();
    create(&storage, "/a");
    create(&storage, "/b");
    let directory = storage.directory(Path::new("/"), Access::Owner).unwrap();
    let error = directory.rename_new("a", "b").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    directory.rename_new("a", "c").unwrap();
    assert_eq!(names(&storage), ["b", "c"]);
}
