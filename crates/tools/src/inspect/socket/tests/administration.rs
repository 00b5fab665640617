use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::ops::Bound;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use terrace::{
    Db, DeviceProfile, Error, Event, EventKind, EventListener, KeyspaceOptions, Options,
    TierOptions,
};

use super::{connect, options, owner, said};
use crate::inspect::socket::administration::{Administration, Turns};
use crate::inspect::socket::protocol::{Request, parse_request, request_line};
use crate::inspect::socket::{
    add_tier, checkpoint, compact, drain_tier, drop_keyspace, flush, levels, open, placed_tables,
    remove_tier, rename_keyspace, statistics,
};

const EVERYTHING: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);

/// Puts overlapping tables of two flushes in level 0.
fn put_two_tables(keyspace: &terrace::Keyspace, db: &Db) {
    for value in [b"old", b"new"] {
        for key in [b"a", b"\xff"] {
            keyspace.put(key, value).unwrap();
        }
        db.flush().unwrap();
    }
}

fn versions(db: &Db, keyspace: &str) -> u64 {
    let report = db.levels();
    let found = report.keyspaces.iter().find(|found| found.name == keyspace);
    let levels = found.unwrap().levels.iter().flatten();
    let tables = levels.flat_map(|level| &level.tables);
    tables.map(|table| table.entries).sum()
}

#[test]
fn an_owner_flushes() {
    let (_directory, path, db) = owner();
    db.put(b"key", b"value").unwrap();
    assert_eq!(db.statistics().sequences.flushed, 0);
    flush(&path).unwrap();
    assert_eq!(db.statistics().sequences.flushed, 1);
    db.close().unwrap();
    assert!(matches!(flush(&path), Err(Error::NoAnswer(_))));
}

#[test]
fn an_owner_compacts_what_it_is_told_to() {
    let (_directory, path, db) = owner();
    let lakes = db
        .create_keyspace("lakes", KeyspaceOptions::default())
        .unwrap();
    put_two_tables(&db, &db);
    put_two_tables(&lakes, &db);
    compact(&path, None, None).unwrap();
    // No level is over its target, and no key lies there.
    let nothing = (Bound::Excluded(&b"\xff"[..]), Bound::Unbounded);
    compact(&path, None, Some(nothing)).unwrap();
    assert_eq!((versions(&db, "default"), versions(&db, "lakes")), (4, 4));
    let last = (Bound::Included(&b"\xff"[..]), Bound::Unbounded);
    compact(&path, None, Some(last)).unwrap();
    assert_eq!((versions(&db, "default"), versions(&db, "lakes")), (2, 4));
    compact(&path, Some("lakes"), Some(EVERYTHING)).unwrap();
    assert_eq!(versions(&db, "lakes"), 2);

    // The owner reports the same levels as the store, when nothing is deleted between the two.
    let mut told = levels(&path).unwrap();
    for _ in 0..1000 {
        if told == db.levels_with_duplicates() {
            break;
        }
        thread::sleep(Duration::from_millis(1));
        told = levels(&path).unwrap();
    }
    assert_eq!(told, db.levels_with_duplicates());
    let told: Vec<_> = told
        .compactions
        .iter()
        .map(|past| (past.keyspace.as_str(), past.entries, past.dropped))
        .collect();
    assert_eq!(told, [("default", 4, 2), ("lakes", 4, 2)]);

    for range in [None, Some(EVERYTHING)] {
        match compact(&path, Some("seas"), range) {
            Err(Error::NoKeyspace { name }) => assert_eq!(name, "seas"),
            other => panic!("{other:?}"),
        }
    }
    let error = compact(&path, Some(&"s".repeat(256)), None).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
}

#[test]
fn an_owner_renames_and_drops_keyspaces() {
    let (_directory, path, db) = owner();
    let lakes = db
        .create_keyspace("lakes", KeyspaceOptions::default())
        .unwrap();
    lakes.put(b"ladoga", b"17700").unwrap();
    rename_keyspace(&path, "lakes", "waters\n").unwrap();
    assert_eq!(lakes.name(), "waters\n");
    assert!(lakes.contains_key(b"ladoga").unwrap());
    match rename_keyspace(&path, "lakes", "seas") {
        Err(Error::NoKeyspace { name }) => assert_eq!(name, "lakes"),
        other => panic!("{other:?}"),
    }
    let long = "s".repeat(256);
    for (from, to) in [
        ("waters\n", "default"),
        ("waters\n", ""),
        ("waters\n", &long),
        (&long, "seas"),
        ("default", "seas"),
    ] {
        let refused = rename_keyspace(&path, from, to);
        assert!(
            matches!(refused, Err(Error::InvalidArgument(_))),
            "{from} {to}: {refused:?}"
        );
    }
    let refused = drop_keyspace(&path, "default");
    assert!(matches!(refused, Err(Error::InvalidArgument(_))));
    drop_keyspace(&path, "waters\n").unwrap();
    assert!(matches!(
        drop_keyspace(&path, "waters\n"),
        Err(Error::NoKeyspace { .. })
    ));
    assert!(matches!(
        lakes.get(b"ladoga"),
        Err(Error::NoKeyspace { .. })
    ));
    assert_eq!(db.keyspaces().len(), 1);
}

#[test]
fn an_owner_adds_drains_and_removes_tiers() {
    let (directory, path, db) = owner();
    // Its path is not text.
    let place = directory
        .path()
        .join(std::ffi::OsStr::from_bytes(b"disk\xff"));
    let disk = TierOptions {
        capacity_bytes: Some(64 << 20),
        reserve_bytes: 1 << 20,
        ..TierOptions::new("disk", &place)
    };
    add_tier(&path, &disk).unwrap();
    let told = statistics(&path).unwrap().tiers;
    // The free space of the store's own device changes meanwhile.
    assert_eq!(told[1], db.tiers()[1]);
    assert_eq!((&*told[1].name, &told[1].path), ("disk", &place));
    assert_eq!(told[1].capacity_bytes, Some(64 << 20));
    assert_eq!(told[1].reserve_bytes, 1 << 20);

    let to_disk = KeyspaceOptions {
        level_tiers: vec!["disk".to_owned()],
        ..KeyspaceOptions::default()
    };
    let lakes = db.create_keyspace("lakes", to_disk).unwrap();
    lakes.put(b"ladoga", b"17700").unwrap();
    db.flush().unwrap();
    let placed = placed_tables(&path, Some("lakes")).unwrap();
    assert_eq!(placed[0].keyspace, "lakes");
    assert_eq!(placed[0].tables, db.placed_tables(&lakes).unwrap());
    assert_eq!(placed[0].tables[0].tier, "disk");
    let names = placed_tables(&path, None).unwrap().into_iter();
    let names: Vec<_> = names.map(|placed| placed.keyspace).collect();
    assert_eq!(names, ["default", "lakes"]);
    let refused = placed_tables(&path, Some("seas"));
    assert!(matches!(refused, Err(Error::NoKeyspace { name }) if name == "seas"));

    for accept_loss in [false, true] {
        let refused = remove_tier(&path, "disk", accept_loss);
        assert!(
            matches!(refused, Err(Error::InvalidArgument(_))),
            "{refused:?}"
        );
    }
    drain_tier(&path, "disk").unwrap();
    while db.wait_for_migration().unwrap() {}
    assert_eq!(statistics(&path).unwrap().tiers[1].state, "draining");
    // The file waits for its deletion.
    let removed = (0..1000).find_map(|_| {
        thread::sleep(Duration::from_millis(5));
        remove_tier(&path, "disk", false).ok()
    });
    assert_eq!(removed, Some(0));
    assert_eq!(db.tiers().len(), 1);
}

#[test]
fn an_owner_refuses_tiers_that_cannot_be() {
    let (directory, path, db) = owner();
    let place = directory.path().join("disk");
    add_tier(&path, &TierOptions::new("disk", &place)).unwrap();
    let other = directory.path().join("other");
    let long = "s".repeat(65);
    for tier in [
        TierOptions::new("disk", &other),
        TierOptions::new("", &other),
        TierOptions::new("a b", &other),
        TierOptions::new(long.as_str(), &other),
        TierOptions::new("more", &place),
        TierOptions::of_store("more"),
        TierOptions {
            capacity_bytes: Some(10),
            reserve_bytes: 10,
            ..TierOptions::new("more", &other)
        },
    ] {
        let refused = add_tier(&path, &tier);
        assert!(
            matches!(refused, Err(Error::InvalidArgument(_))),
            "{tier:?}: {refused:?}"
        );
    }
    assert!(!other.exists());
    fs::create_dir(&other).unwrap();
    fs::write(other.join("file"), "").unwrap();
    match add_tier(&path, &TierOptions::new("more", &other)) {
        Err(Error::WrongTier { directory, .. }) => assert_eq!(directory, other),
        refused => panic!("{refused:?}"),
    }
    for name in ["none", "store", "", &long] {
        for refused in [
            drain_tier(&path, name),
            remove_tier(&path, name, false).map(drop),
            remove_tier(&path, name, true).map(drop),
        ] {
            assert!(
                matches!(refused, Err(Error::InvalidArgument(_))),
                "{name}: {refused:?}"
            );
        }
    }
    assert_eq!(db.tiers().len(), 2);
}

#[test]
fn the_longest_keys_fit_a_request() {
    let (_directory, path, _db) = owner();
    // Each byte takes six on the line.
    let key = vec![1; terrace_lsm::key::MAX_KEY_BYTES];
    let range = (Bound::Included(&key[..]), Bound::Excluded(&key[..]));
    compact(&path, None, Some(range)).unwrap();
    let key = vec![1; 2 * key.len()];
    let range = (Bound::Included(&key[..]), Bound::Excluded(&key[..]));
    let error = compact(&path, None, Some(range)).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
}

#[test]
fn an_owner_makes_a_checkpoint_and_refuses_a_directory_with_something_in_it() {
    let (directory, path, db) = owner();
    db.put(b"key", b"value").unwrap();
    let copy = directory.path().join("copy");
    assert_eq!(checkpoint(&path, &copy).unwrap(), 1);
    match checkpoint(&path, &copy) {
        Err(Error::InvalidArgument(what)) => assert!(what.contains("is not empty"), "{what}"),
        other => panic!("{other:?}"),
    }
    let copy = Db::open(&copy, Options::default()).unwrap();
    assert_eq!(copy.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    // A failure in the owner is reported in its words.
    fs::write(directory.path().join("file"), "").unwrap();
    let nowhere = directory.path().join("file/copy");
    match checkpoint(&path, &nowhere) {
        Err(Error::Owner(what)) => assert!(what.contains("file/copy"), "{what}"),
        other => panic!("{other:?}"),
    }
    // A relative path becomes an absolute one before the owner sees it.
    // The present directory is the package's, or the workspace's; neither is empty.
    match checkpoint(&path, Path::new(".")) {
        Err(Error::InvalidArgument(what)) => {
            let present = std::env::current_dir().unwrap();
            assert!(what.contains(present.to_str().unwrap()), "{what}");
        }
        other => panic!("{other:?}"),
    }
    let error = checkpoint(&path, Path::new("")).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
}

/// Waits at the beginning of the first merge until the test lets it go on.
struct AtMerge {
    begun: Sender<()>,
    go_on: Mutex<Receiver<()>>,
}

impl fmt::Debug for AtMerge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AtMerge")
    }
}

impl EventListener for AtMerge {
    fn event(&self, event: &Event) {
        if let EventKind::MergeBegun { .. } = event.kind {
            let _ = self.begun.send(());
            // Later merges find the other end gone.
            let _ = self.go_on.lock().unwrap().recv();
        }
    }
}

#[test]
fn a_long_request_keeps_nobody_waiting_and_ends_with_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let (begun, has_begun) = channel();
    let (go_on, may_go_on) = channel();
    let listener = Arc::new(AtMerge {
        begun,
        go_on: Mutex::new(may_go_on),
    });
    let options = Options {
        event_listener: Some(listener),
        ..options()
    };
    let db = open(&path, options).unwrap();
    put_two_tables(&db, &db);
    let asked = path.clone();
    let client = thread::spawn(move || compact(&asked, None, Some(EVERYTHING)));
    has_begun.recv().unwrap();
    assert_eq!(statistics(&path).unwrap().merges, 0);

    let closed = db.clone();
    let closing = thread::spawn(move || closed.close());
    // Background work has ended by then, so the merge cannot come to its end before.
    while db.keyspace("default").is_ok() {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(!client.is_finished() && !closing.is_finished());
    drop(go_on);
    match client.join().unwrap() {
        Err(Error::NoAnswer(what)) => assert!(what.contains("the store is closed"), "{what}"),
        other => panic!("{other:?}"),
    }
    closing.join().unwrap().unwrap();
    // Nothing of the owner's is left in the way.
    Db::open(&path, Options::default()).unwrap();
}

#[test]
fn a_client_that_hangs_up_stops_nothing() {
    let (_directory, path, db) = owner();
    db.put(b"key", b"value").unwrap();
    let mut stream = connect(&path);
    stream
        .write_all(b"{\"version\":1,\"request\":\"flush\"}\n")
        .unwrap();
    drop(stream);
    let flushed = (0..1000).any(|_| {
        thread::sleep(Duration::from_millis(5));
        db.statistics().sequences.flushed == 1
    });
    assert!(flushed);
}

#[test]
fn turns_are_bounded_and_come_back() {
    let turns = Turns::default();
    let taken: Vec<_> = std::iter::from_fn(|| turns.take()).collect();
    assert_eq!(taken.len(), 4);
    drop(taken);
    assert!(turns.take().is_some());
}

#[test]
fn administrative_requests_are_read_as_they_are_written() {
    let lakes = Some("lakes".to_owned());
    let range = (Bound::Included(b"a".to_vec()), Bound::Unbounded);
    let odd = (
        Bound::Excluded(vec![0xff]),
        Bound::Excluded(b"\"\n".to_vec()),
    );
    let compact = |range| Administration::Compact {
        keyspace: lakes.clone(),
        range,
    };
    let odd_path = OsStringExt::from_vec(b"/\xff".to_vec());
    for wanted in [
        Administration::Flush,
        compact(None),
        compact(Some((Bound::Unbounded, Bound::Unbounded))),
        compact(Some(range)),
        compact(Some(odd)),
        Administration::Checkpoint {
            directory: "/copy".into(),
        },
        Administration::Checkpoint {
            directory: std::ffi::OsString::into(odd_path),
        },
        Administration::RenameKeyspace {
            from: "lakes".to_owned(),
            to: "\"\n".to_owned(),
        },
        Administration::DropKeyspace {
            name: String::new(),
        },
        Administration::AddTier(TierOptions::new("disk", "/mnt/disk")),
        Administration::AddTier(TierOptions {
            capacity_bytes: Some(u64::MAX),
            reserve_bytes: 1,
            profile: Some(DeviceProfile::NVME_960_PRO),
            ..TierOptions::new("\"\n", std::ffi::OsString::from_vec(b"/\xfe".to_vec()))
        }),
        Administration::DrainTier {
            name: "disk".to_owned(),
        },
        Administration::RemoveTier {
            name: "disk".to_owned(),
            accept_loss: true,
        },
        Administration::RemoveTier {
            name: String::new(),
            accept_loss: false,
        },
    ] {
        let wanted = Request::Administration(wanted);
        let line = request_line(&wanted);
        let line = line.strip_suffix('\n').unwrap();
        assert!(!line.contains('\n'), "{line}");
        assert_eq!(parse_request(line.as_bytes()), Ok(wanted));
    }
}

#[test]
fn an_administrative_request_that_makes_no_sense_is_refused() {
    let (directory, path, _db) = owner();
    let long_name = format!(r#""compact","keyspace":"{}""#, "s".repeat(256));
    let long_tier = format!(r#""drain_tier","tier":"{}""#, "s".repeat(65));
    let long_placed = format!(r#""placed_tables","keyspace":"{}""#, "s".repeat(256));
    let long_path = format!(r#""checkpoint","directory":"/{}""#, "d".repeat(4095));
    for (request, answer) in [
        (r#""checkpoint""#, "has one path"),
        (r#""checkpoint","directory":"copy""#, "absolute"),
        (
            r#""checkpoint","directory":"/copy","directory_hex":"2f""#,
            "has one path",
        ),
        (r#""checkpoint","directory_hex":"2""#, "hexadecimal"),
        (
            r#""compact","range":{"from":{"key_hex":"zz"}}"#,
            "hexadecimal",
        ),
        (r#""compact","range":{"from":{}}"#, "a key is missing"),
        (
            r#""compact","range":{"to":{"key":"a","key_hex":"61"}}"#,
            "one key",
        ),
        (r#""compact","range":{"unto":{"key":"a"}}"#, "unknown field"),
        (&long_name, "at most 255"),
        (
            r#""drop_keyspace""#,
            "`keyspace`, the name of a keyspace, is missing",
        ),
        (
            r#""rename_keyspace","keyspace":"a""#,
            "`to`, the name of a keyspace, is missing",
        ),
        (
            r#""drain_tier","keyspace":"disk""#,
            "`tier`, the name of a tier, is missing",
        ),
        (r#""remove_tier""#, "`tier`, the name of a tier, is missing"),
        (r#""add_tier","directory":"/disk""#, "`tier`, the name"),
        (r#""add_tier","tier":"disk""#, "has one path"),
        (r#""add_tier","tier":"disk","directory":"disk""#, "absolute"),
        (
            r#""add_tier","tier":"disk","directory":"/disk","capacity_bytes":-1"#,
            "not a request",
        ),
        (
            r#""add_tier","tier":"disk","directory":"/disk","reserve_bytes":18446744073709551616"#,
            "not a request",
        ),
        (
            r#""remove_tier","tier":"disk","accept_loss":1"#,
            "not a request",
        ),
        (r#""remove_tier","tier":["disk"]"#, "not a request"),
        (&long_tier, "at most 64"),
        (&long_placed, "at most 255"),
        (&long_path, "at most 4095"),
    ] {
        let request = format!("{{\"version\":1,\"request\":{request}}}\n");
        let said = said(&path, request.as_bytes());
        assert!(
            said.starts_with("{\"version\":1,\"error\":\"") && said.contains(answer),
            "{request}: {said}"
        );
    }
    // A complaint does not quote a whole request.
    let nonsense = format!(
        "{{\"version\":1,\"request\":\"{}\"}}\n",
        "x".repeat(100_000)
    );
    assert!(said(&path, nonsense.as_bytes()).len() < 1000);
    let left: Vec<_> = fs::read_dir(directory.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn an_owner_of_an_older_release_is_understood() {
    let (directory, path, db) = owner();
    db.close().unwrap();
    let older = std::os::unix::net::UnixListener::bind(path.join("inspect")).unwrap();
    let answer = thread::spawn(move || {
        let error = "{\"version\":1,\"error\":\"not a request: unknown variant `flush`\"}\n";
        // The second ends without a word.
        for answer in [error, ""] {
            let (mut client, _) = older.accept().unwrap();
            BufReader::new(&client)
                .read_line(&mut String::new())
                .unwrap();
            client.write_all(answer.as_bytes()).unwrap();
        }
    });
    match flush(&path) {
        Err(Error::Owner(what)) => assert!(what.contains("unknown variant"), "{what}"),
        other => panic!("{other:?}"),
    }
    match flush(&path) {
        Err(Error::NoAnswer(what)) => assert!(what.contains("hung up"), "{what}"),
        other => panic!("{other:?}"),
    }
    answer.join().unwrap();
    drop(directory);
}
