use std::cell::Cell;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use terrace::{Db, Error, Options};

use super::protocol::{MAX_REQUEST_BYTES, Request, parse_request};
use super::{
    Answer, EventRequest, describe_compaction, events, explain_compaction, levels, open, serve,
    statistics,
};

mod administration;
mod strangers;

fn options() -> Options {
    Options {
        arena_bytes: 1 << 20,
        ..Options::default()
    }
}

fn owner() -> (TempDir, PathBuf, Db) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let db = open(&path, options()).unwrap();
    (directory, path, db)
}

#[test]
fn the_owner_of_a_store_whose_path_is_not_text_answers() {
    use std::os::unix::ffi::OsStrExt;
    let directory = tempfile::tempdir().unwrap();
    let odd = |name| directory.path().join(std::ffi::OsStr::from_bytes(name));
    let (path, region) = (odd(b"store\xff"), odd(b"region\xff"));
    let region_dir = Some(region);
    let options = Options {
        region_dir: region_dir.clone(),
        ..options()
    };
    let db = open(&path, options).unwrap();
    db.put(b"key", b"value").unwrap();
    assert_eq!(statistics(&path).unwrap().region_dir, region_dir);
    super::flush(&path).unwrap();
    assert_eq!(levels(&path).unwrap().keyspaces.len(), 1);
    explain_compaction(&path).unwrap();
    super::checkpoint(&path, &odd(b"copy\xff")).unwrap();
}

#[test]
fn a_socket_without_a_descriptor_is_told_as_that() {
    let of = |errno| {
        let error = std::io::Error::from_raw_os_error(errno);
        super::server::no_inspection("inspect".into(), error)
    };
    for errno in [23, 24] {
        let text = of(errno).to_string();
        assert!(matches!(of(errno), Error::TooManyFiles { .. }), "{text}");
        assert!(text.contains("max_open_tables"), "{text}");
    }
    assert!(matches!(of(13), Error::NoInspection { .. }));
}

thread_local! {
    /// Whether this thread may start another one.
    static MAY_START: Cell<bool> = const { Cell::new(true) };
}

pub(super) fn refused_for_test() -> io::Result<()> {
    match MAY_START.get() {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(11)),
    }
}

#[test]
fn a_socket_without_a_thread_is_told_so_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    MAY_START.set(false);
    let opened = open(directory.path(), options());
    MAY_START.set(true);
    let error = opened.unwrap_err();
    assert!(matches!(error, Error::NoThread(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("RLIMIT_NPROC"), "{text}");
    assert!(text.contains("pids.max"), "{text}");
    // Neither its lock nor a thread is left: a store opens there.
    assert!(!directory.path().join("inspect").exists());
    let db = open(directory.path(), options()).unwrap();
    db.put(b"key", b"").unwrap();
    db.close().unwrap();
}

#[test]
fn a_store_has_one_socket_and_none_once_it_is_closed() {
    let (_directory, path, db) = owner();
    let again = serve(&db);
    assert!(matches!(again, Err(Error::InvalidArgument(_))), "{again:?}");
    statistics(&path).unwrap();
    db.close().unwrap();
    let closed = serve(&db);
    assert!(matches!(closed, Err(Error::Closed)), "{closed:?}");
    assert!(!path.join("inspect").exists());
}

fn connect(store: &Path) -> UnixStream {
    UnixStream::connect(store.join("inspect")).unwrap()
}

/// Returns the owner's answer to `request` before it hangs up.
fn said(store: &Path, request: &[u8]) -> String {
    let mut stream = connect(store);
    // An owner that has heard enough hangs up.
    let _ = stream.write_all(request);
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    String::from_utf8(said).unwrap()
}

#[test]
fn an_owner_tells_what_it_holds_and_does() {
    let (_directory, path, db) = owner();
    db.put(b"key", b"value").unwrap();
    db.flush().unwrap();
    assert_eq!(statistics(&path).unwrap().sequences.flushed, 1);
    assert_eq!(levels(&path).unwrap(), db.levels_with_duplicates());
    let told: Vec<_> = events(&path, EventRequest::default()).unwrap().collect();
    let Ok(Answer::Event(first)) = &told[0] else {
        panic!("{told:?}");
    };
    assert_eq!((first.number, first.kind.as_str()), (1, "flush_begun"));
    assert!(told.len() >= 2);
    let after = EventRequest {
        after: 1,
        ..EventRequest::default()
    };
    assert_eq!(events(&path, after).unwrap().count(), told.len() - 1);
}

#[test]
fn an_owner_explains_what_it_would_merge() {
    let (_directory, path, db) = owner();
    for _ in 0..3 {
        db.put(b"key", b"value").unwrap();
        db.flush().unwrap();
    }
    let explained = crate::explain::explain_compaction(&db);
    assert_eq!(explained.keyspaces[0].levels[0].sub_levels.len(), 3);
    assert_eq!(explain_compaction(&path).unwrap(), explained);
    for keyspace in [None, Some("default")] {
        let described = describe_compaction(&path, keyspace).unwrap();
        assert_eq!(described.explain().unwrap(), explained);
    }
    match describe_compaction(&path, Some("lakes")) {
        Err(Error::NoKeyspace { name }) => assert_eq!(name, "lakes"),
        other => panic!("{other:?}"),
    }
    let long = "l".repeat(1000);
    let refused = describe_compaction(&path, Some(&long));
    assert!(matches!(refused, Err(Error::InvalidArgument(_))));
}

#[test]
fn events_are_followed_until_the_store_is_closed() {
    let (_directory, path, db) = owner();
    let wanted = EventRequest {
        follow: true,
        statistics_every: Some(Duration::ZERO),
        ..EventRequest::default()
    };
    let mut told = events(&path, wanted).unwrap();
    assert!(matches!(told.next(), Some(Ok(Answer::Statistics(_)))));
    db.put(b"key", b"value").unwrap();
    db.flush().unwrap();
    let flushed = told.by_ref().any(|answer| match answer.unwrap() {
        Answer::Event(event) => event.kind == "flush_ended",
        _ => false,
    });
    assert!(flushed);
    db.close().unwrap();
    // Answers under way are read to their end.
    assert!(told.all(|answer| answer.is_ok()));
}

#[test]
fn only_the_owner_of_the_file_may_ask_and_it_goes_when_the_store_is_closed() {
    let (_directory, path, db) = owner();
    let socket = path.join("inspect");
    let mode = fs::symlink_metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    match Db::open(&path, Options::default()) {
        Err(Error::Busy { socket: named, .. }) => assert_eq!(named, Some(socket.clone())),
        other => panic!("{other:?}"),
    }
    db.close().unwrap();
    assert!(!socket.exists());
    assert!(matches!(statistics(&path), Err(Error::NoAnswer(_))));
}

#[test]
fn sockets_that_a_crash_left_are_replaced() {
    let (_directory, path, db) = owner();
    db.close().unwrap();
    for left in ["inspect", "inspect.new"] {
        drop(UnixListener::bind(path.join(left)).unwrap());
    }
    match statistics(&path) {
        Err(Error::NoAnswer(what)) => assert!(what.contains("nobody answers"), "{what}"),
        other => panic!("{other:?}"),
    }
    let db = open(&path, options()).unwrap();
    statistics(&path).unwrap();
    db.close().unwrap();
    // Nor are they in the way of an owner that opens none.
    drop(UnixListener::bind(path.join("inspect")).unwrap());
    Db::open(&path, Options::default()).unwrap();
}

#[test]
fn a_path_may_be_longer_than_a_socket_s() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d".repeat(120)).join("store");
    let db = open(&path, options()).unwrap();
    assert_eq!(statistics(&path).unwrap().sequences.visible, 0);
    db.close().unwrap();
    assert!(!path.join("inspect").exists());
}

#[test]
fn a_store_without_a_directory_has_no_socket_and_says_so() {
    let error = open("/store", Options::in_memory()).unwrap_err();
    assert!(matches!(error, Error::NoInspection { .. }), "{error:?}");
    assert!(error.to_string().contains("use it without a socket"));
}

#[test]
fn who_only_reads_opens_no_socket() {
    let (_directory, path, db) = owner();
    db.close().unwrap();
    let reader = Options {
        read_only: true,
        ..options()
    };
    let _db = open(&path, reader).unwrap();
    assert!(!path.join("inspect").exists());
}

#[test]
fn clients_that_say_nonsense_or_nothing_or_never_listen_harm_nobody() {
    let (_directory, path, db) = owner();
    for (request, answer) in [
        (&b"\n"[..], "not a request"),
        (b"\xff\xfe\n", "not a request"),
        (
            b"{\"version\":1,\"request\":\"levels\"",
            "the request has no end",
        ),
        (b"{\"version\":2,\"shape\":[]}\n", "version 2"),
        (
            b"{\"version\":1,\"request\":\"shutdown\"}\n",
            "unknown variant",
        ),
        (&vec![b'['; 3 * MAX_REQUEST_BYTES], "longer than"),
    ] {
        let mut request = request.to_vec();
        if answer == "the request has no end" {
            let mut stream = connect(&path);
            stream.write_all(&request).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut said = String::new();
            stream.read_to_string(&mut said).unwrap();
            assert!(said.contains(answer), "{said}");
            continue;
        }
        request.push(b'\n');
        let said = said(&path, &request);
        assert!(
            said.starts_with("{\"version\":1,\"error\":\"") && said.contains(answer),
            "{said}"
        );
    }
    // One asks nothing, one reads nothing of much, one follows; then the store is closed.
    let silent = connect(&path);
    for number in 0..200u32 {
        db.put(number.to_be_bytes(), b"").unwrap();
        db.flush().unwrap();
    }
    let mut deaf = connect(&path);
    deaf.write_all(
        b"{\"version\":1,\"request\":\"events\",\"follow\":true,\"statistics_every_seconds\":0}\n",
    )
    .unwrap();
    let wanted = EventRequest {
        follow: true,
        ..EventRequest::default()
    };
    let mut follower = events(&path, wanted).unwrap();
    assert!(follower.next().unwrap().is_ok());
    statistics(&path).unwrap();
    db.close().unwrap();
    drop((silent, deaf, follower));
}

#[test]
fn one_client_too_many_is_sent_away_and_comes_back_later() {
    let (_directory, path, _db) = owner();
    let others: Vec<_> = (0..8).map(|_| connect(&path)).collect();
    // Connections are accepted in order, so the eight are being served when this one is refused.
    match statistics(&path) {
        Err(Error::NoAnswer(what)) => assert!(what.contains("too many clients"), "{what}"),
        other => panic!("{other:?}"),
    }
    drop(others);
    let answered = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        statistics(&path).is_ok()
    });
    assert!(answered);
}

#[test]
fn a_request_is_read_as_it_is_written() {
    let request = |line: &str| parse_request(line.as_bytes());
    assert_eq!(
        request(r#"{"version":1,"request":"levels"}"#),
        Ok(Request::Levels)
    );
    assert_eq!(
        request(r#"{"version":1,"request":"explain_compaction"}"#),
        Ok(Request::Explanation)
    );
    assert_eq!(
        request(r#"{"version":1,"request":"describe_compaction","keyspace":"lakes"}"#),
        Ok(Request::Description(Some("lakes".to_owned())))
    );
    assert_eq!(
        request(
            r#"{"version":1,"request":"events","after":7,"follow":true,"statistics_every_seconds":0.01}"#
        ),
        Ok(Request::Events(EventRequest {
            after: 7,
            follow: true,
            statistics_every: Some(Duration::from_millis(100)),
        }))
    );
    for wrong in [
        r#"{"version":1,"request":"events","statistics_every_seconds":-1}"#,
        r#"{"version":1,"request":"events","statistics_every_seconds":1e300}"#,
        r#"{"version":1,"request":"levels","more":1}"#,
        r#"{"request":"levels"}"#,
        r#"[1,2]"#,
    ] {
        request(wrong).unwrap_err();
    }
}
