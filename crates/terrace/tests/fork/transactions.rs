//! Transactions of the parent, in a child.

use terrace::{
    Db, IterOptions, Savepoint, Transaction, TransactionIterator, TransactionOptions, Unchanged,
};

use crate::child::{in_child, in_own_process};
use crate::{METHODS, Place, check_reopened, inline, is_forked, key, options, put};

/// Calls every method, and returns those that were not refused.
fn not_refused(transaction: &mut Transaction, savepoint: Savepoint) -> Vec<&'static str> {
    let calls = [
        (
            "roll_back_to",
            is_forked(transaction.roll_back_to(savepoint)),
        ),
        ("get", is_forked(transaction.get(key(1)))),
        (
            "get_for_update",
            is_forked(transaction.get_for_update(key(1))),
        ),
        ("multi_get", is_forked(transaction.multi_get(&[key(1)]))),
        ("range", is_forked(transaction.range(..))),
        ("put", is_forked(transaction.put(key(1), b"the child's"))),
        ("delete", is_forked(transaction.delete(key(1)))),
        (
            "delete_range",
            is_forked(transaction.delete_range(key(1), key(5))),
        ),
    ];
    let failed = calls.into_iter().filter(|(_, is_refused)| !is_refused);
    failed.map(|(name, _)| name).collect()
}

fn not_refused_by(iterator: &mut TransactionIterator) -> Vec<&'static str> {
    let calls = [
        ("next", is_forked(iterator.next())),
        ("prev", is_forked(iterator.prev())),
        ("seek_to_first", is_forked(iterator.seek_to_first())),
        ("seek", is_forked(iterator.seek(key(3)))),
        ("valid", !iterator.valid()),
    ];
    let failed = calls.into_iter().filter(|(_, is_refused)| !is_refused);
    failed.map(|(name, _)| name).collect()
}

#[test]
fn a_transaction_is_its_parents() {
    in_own_process(|| {
        for options in METHODS.map(options).into_iter().chain(METHODS.map(inline)) {
            let place = Place::new();
            let db = Db::open(place.store(), options.clone()).unwrap();
            put(&db, 0..99);
            let mut transaction = Some(db.transaction().unwrap());
            let own = transaction.as_mut().unwrap();
            let savepoint = own.savepoint();
            own.put(key(99), key(99)).unwrap();
            let mut iterator = own.iter(IterOptions::default()).unwrap();
            iterator.seek_to_first().unwrap();
            in_child(|| {
                let failed = not_refused(transaction.as_mut().unwrap(), savepoint);
                eprintln!("not refused: {failed:?}");
                failed.is_empty()
            });
            in_child(|| {
                let failed = not_refused_by(&mut iterator);
                eprintln!("not refused: {failed:?}");
                failed.is_empty()
            });
            // Some drop it, and some try to commit it; the parent's is the only one.
            in_child(|| {
                drop(transaction.take());
                true
            });
            in_child(|| is_forked(transaction.take().unwrap().commit()));
            in_child(|| {
                let mut calls = 0;
                let done = db.transact(|_| {
                    calls += 1;
                    Ok(())
                });
                let begun = db.transaction_with(TransactionOptions::default());
                is_forked::<()>(done) && calls == 0 && is_forked(begun)
            });
            in_child(|| {
                let unchanged = Unchanged::since(&db.snapshot());
                is_forked(db.write_if_unchanged(Default::default(), Default::default(), unchanged))
            });
            drop(iterator);
            transaction.unwrap().commit().unwrap();
            drop(db);
            check_reopened(&place.store(), options, 100);
        }
    });
}
