//! The parent keeps its writes, its lock and its socket.

use std::cell::RefCell;
use std::io::{Read, pipe};
use std::path::Path;

use terrace::{Db, Error, IterOptions, Options};
use terrace_tools::inspect;

use crate::child::{exit, fork, in_child, in_own_process};
use crate::{METHODS, Place, check_reopened, inline, is_busy, is_forked, key, options, put};

#[test]
fn a_childs_writes_are_refused_and_its_parent_loses_none() {
    in_own_process(|| {
        for method in METHODS {
            let place = Place::new();
            in_child(|| {
                let db = Db::open(place.store(), options(method)).unwrap();
                put(&db, 0..150);
                let child = fork(|| {
                    let refused = |number| is_forked(db.put(key(number), b"the child's"));
                    (150..1_200).all(refused)
                });
                put(&db, 150..1_200);
                child.succeeds();
                // It dies and does not close: the arenas alone hold the writes.
                exit(true)
            });
            check_reopened(&place.store(), options(method), 1_200);
        }
    });
}

thread_local! {
    /// A store that is dropped at the end of its thread.
    static KEPT: RefCell<Option<Db>> = const { RefCell::new(None) };
}

fn stays_its_parents(options: Options, is_inspected: bool) {
    let place = Place::new();
    let path = place.store();
    let open = |options| match is_inspected {
        true => inspect::open(&path, options).unwrap(),
        false => Db::open(&path, options).unwrap(),
    };
    let db = open(options.clone());
    put(&db, 0..10);
    let mut handles = Some((
        db.clone(),
        db.snapshot(),
        db.iter(IterOptions::default()).unwrap(),
        db.iter(IterOptions::default()).unwrap().entries(),
        db.create_keyspace("other", Default::default()).unwrap(),
    ));
    in_child(|| is_forked(db.close()) && is_busy(&path, options.clone()));
    in_child(|| {
        drop(handles.take());
        is_busy(&path, options.clone())
    });
    // The last handle, and the exit of a program that knows of nothing.
    drop(handles.take());
    KEPT.set(Some(db));
    in_child(|| {
        KEPT.take();
        is_busy(&path, options.clone())
    });
    in_child(|| std::process::exit(0));
    assert!(is_busy(&path, options.clone()));
    assert_eq!(path.join("inspect").exists(), is_inspected);
    let db = KEPT.take().unwrap();
    put(&db, 10..20);
    drop(db);
    drop(open(options.clone()));
    check_reopened(&path, options, 20);
}

#[test]
fn a_child_that_closes_drops_or_exits_leaves_lock_and_socket() {
    in_own_process(|| {
        for method in METHODS {
            stays_its_parents(options(method), true);
            stays_its_parents(inline(method), false);
        }
    });
}

#[test]
fn a_child_that_drops_what_only_read_leaves_the_lock() {
    in_own_process(|| {
        let place = Place::new();
        let path = place.store();
        drop(Db::open(&path, Options::default()).unwrap());
        let reader = Options {
            read_only: true,
            ..Options::default()
        };
        let mut db = Some(Db::open(&path, reader).unwrap());
        in_child(|| {
            drop(db.take());
            is_busy(&path, Options::default())
        });
        assert!(is_busy(&path, Options::default()));
        drop(db);
        Db::open(&path, Options::default()).unwrap();
    });
}

#[test]
fn a_child_keeps_the_lock_of_a_parent_that_died_until_it_ends() {
    in_own_process(|| {
        let place = Place::new();
        let path = place.store();
        let (mut end, hold) = pipe().unwrap();
        let (mut told, tell) = pipe().unwrap();
        let mut hold = Some(hold);
        fork(|| {
            let db = Db::open(&path, Options::default()).unwrap();
            put(&db, 0..10);
            let _youngest = fork(|| {
                drop(hold.take());
                let _until_the_test_lets_go = end.read(&mut [0]);
                true
            });
            // Dead, not closed.
            exit(true)
        })
        .succeeds();
        assert!(is_busy(&path, Options::default()));
        drop((hold, tell));
        // Its end of the pipe closes as it ends.
        let _ = told.read(&mut [0]);
        let opened = (0..1_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            !is_busy(&path, Options::default())
        });
        assert!(opened);
        check_reopened(&path, Options::default(), 10);
    });
}

/// Opens a store that answers requests.
fn inspected(path: &Path) -> Db {
    inspect::open(path, options(METHODS[0])).unwrap()
}

/// The child has every end of every socket and pipe of its parent.
#[test]
fn a_close_waits_for_no_child() {
    in_own_process(|| {
        let place = Place::new();
        let db = inspected(&place.store());
        put(&db, 0..10);
        let (mut end, hold) = pipe().unwrap();
        let mut hold = Some(hold);
        let child = fork(|| {
            drop(hold.take());
            let _until_the_test_lets_go = end.read(&mut [0]);
            true
        });
        db.close().unwrap();
        let asked = inspect::statistics(&place.store());
        assert!(matches!(asked, Err(Error::NoAnswer(_))), "{asked:?}");
        drop(hold);
        child.succeeds();
        drop(inspected(&place.store()));
        check_reopened(&place.store(), options(METHODS[0]), 10);
    });
}

/// A socket that a dead owner's child holds accepts connections, and no thread serves them.
#[test]
fn a_client_of_a_dead_owner_is_told_so_though_a_child_of_it_lives() {
    in_own_process(|| {
        let place = Place::new();
        let path = place.store();
        let (mut end, hold) = pipe().unwrap();
        let mut hold = Some(hold);
        fork(|| {
            let db = inspected(&path);
            put(&db, 0..10);
            let _youngest = fork(|| {
                drop(hold.take());
                let _until_the_test_lets_go = end.read(&mut [0]);
                true
            });
            exit(true)
        })
        .succeeds();
        let error = inspect::statistics(&path).unwrap_err().to_string();
        assert!(error.contains("has ended"), "{error}");
        drop(hold);
    });
}
