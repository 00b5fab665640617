//! Values read before the fork, and stores of a child's own.

use terrace::{Db, Error, IterOptions, Options, PersistMethod};

use crate::child::{fork, in_child, in_own_process};
use crate::{METHODS, Place, check_reopened, inline, is_forked, key, options, put};

/// Returns a value larger than those that are copied out of an arena.
fn large(number: u8) -> Vec<u8> {
    vec![number; 20_000]
}

#[test]
fn values_handed_out_stay_readable_in_a_child() {
    in_own_process(|| {
        for method in METHODS {
            let place = Place::new();
            let db = Db::open(place.store(), options(method)).unwrap();
            db.put(b"block", large(1)).unwrap();
            db.flush().unwrap();
            db.put(b"arena", large(2)).unwrap();
            let mut values = Some(["block", "arena"].map(|key| db.get(key.as_bytes()).unwrap()));
            let mut iterator = db.iter(IterOptions::default()).unwrap();
            iterator.seek(b"block").unwrap();
            // The arena goes back to the pool once no reader holds it.
            db.flush().unwrap();
            in_child(|| {
                let values = values.take().unwrap();
                let [block, arena] = values.each_ref().map(|value| value.as_deref());
                let are_there = block == Some(&large(1))
                    && arena == Some(&large(2))
                    && iterator.value() == large(1);
                drop(values);
                drop(iterator);
                are_there
            });
        }
    });
}

fn works(path: &std::path::Path, options: Options) {
    let db = Db::open(path, options.clone()).unwrap();
    put(&db, 0..500);
    db.flush().unwrap();
    put(&db, 0..1_000);
    assert_eq!(db.get(key(7)).unwrap().as_deref(), Some(&key(7)[..]));
    let snapshot = db.snapshot();
    db.delete(key(7)).unwrap();
    assert!(db.get_at(&snapshot, key(7)).unwrap().is_some());
    put(&db, 7..8);
    drop(snapshot);
    db.close().unwrap();
    check_reopened(path, options, 1_000);
}

#[test]
fn a_child_opens_stores_of_its_own_and_so_does_its_child() {
    in_own_process(|| {
        for method in METHODS {
            let place = Place::new();
            let mut parents = Some(Db::open(place.store(), inline(method)).unwrap());
            put(parents.as_ref().unwrap(), 0..10);
            in_child(|| {
                works(&place.other("child's"), inline(method));
                let own = Db::open(place.other("child's"), inline(method)).unwrap();
                in_child(|| {
                    works(&place.other("grandchild's"), inline(method));
                    is_forked(own.get(b"key")) && is_forked(parents.as_ref().unwrap().get(b"key"))
                });
                let is_refused = is_forked(parents.as_ref().unwrap().get(b"key"));
                drop(parents.take());
                is_refused && own.get(key(1)).unwrap().is_some()
            });
            drop(parents);
            check_reopened(&place.store(), inline(method), 10);
        }
    });
}

#[test]
fn a_child_of_threads_has_stores_without_threads() {
    in_own_process(|| {
        let place = Place::new();
        let path = place.other("child's");
        let threaded = || Db::open(&path, Options::default());
        let db = Db::open(place.store(), Options::default()).unwrap();
        in_child(|| {
            let refused = matches!(threaded(), Err(Error::InvalidArgument(_)));
            works(&path, inline(PersistMethod::Mapped));
            in_child(|| matches!(threaded(), Err(Error::InvalidArgument(_))));
            let still_refused = matches!(threaded(), Err(Error::InvalidArgument(_)));
            refused && still_refused && is_forked(db.get(b"key"))
        });
        // Its threads have ended, so a child inherits none.
        db.close().unwrap();
        in_child(|| {
            drop(threaded().unwrap());
            in_child(|| threaded().is_ok());
            true
        });
        threaded().unwrap();
    });
}

/// A generator that a fork copies gives each copy the same numbers.
#[test]
fn stores_that_children_make_are_not_the_same_store() {
    in_own_process(|| {
        let place = Place::new();
        // The generator is in use before the children come.
        drop(Db::open(place.store(), Options::default()).unwrap());
        let make = |name: &str| {
            fork(|| {
                drop(Db::open(place.other(name), Options::default()).unwrap());
                true
            })
            .succeeds();
            let path = place.other(name);
            let current = std::fs::read_to_string(path.join("CURRENT")).unwrap();
            let manifest = current.split_whitespace().next().unwrap().to_owned();
            std::fs::read(path.join(manifest)).unwrap()
        };
        assert_ne!(make("one"), make("two"));
    });
}
