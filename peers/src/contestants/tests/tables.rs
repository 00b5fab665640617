//! Stores that have tables and transactions.

use std::path::Path;

use terrace_bench::conformance;
use terrace_bench::measure::space;
use terrace_bench::settings::{DurabilityClass, Settings};
use terrace_bench::store::Contestant;
use terrace_bench::tables::{Row, Tables, Transaction};

use super::{each, opened, small};

fn with_tables() -> Settings {
    Settings {
        tables: vec!["first".into(), "second".into()],
        ..small()
    }
}

/// The test is run for every contestant that has tables.
fn each_with_tables(test: impl Fn(&Contestant, &Path)) {
    each(|contestant, directory| {
        if ["rocksdb", "fjall"].contains(&contestant.name) {
            test(contestant, directory);
        }
    });
}

fn rows(rows: u32) -> Vec<Row> {
    let row = |number: u32| {
        let key = number.to_be_bytes().to_vec();
        (number as usize % 2, key, vec![7; 1_000])
    };
    (0..rows).map(row).collect()
}

fn count(tables: &dyn Tables) -> u64 {
    let mut found = 0;
    let view = tables.view().unwrap();
    for table in 0..2 {
        let range = &[0][..]..&[255][..];
        let mut visit = |_: &[u8], value: &[u8]| found += u64::from(value == [7; 1_000]);
        view.scan(table, range, u64::MAX, &mut visit).unwrap();
    }
    found
}

#[test]
fn tables_conform_and_only_where_they_are_asked_for() {
    each(|contestant, directory| {
        let plain = opened(contestant, &directory.with_extension("plain"), &small()).store;
        assert!(plain.tables().is_none(), "{}", contestant.name);
        plain.close().unwrap();
    });
    each_with_tables(|contestant, directory| {
        let store = opened(contestant, directory, &with_tables()).store;
        conformance::check_tables(store.tables().unwrap())
            .unwrap_or_else(|error| panic!("{}: {error}", contestant.name));
        assert!(store.tables().unwrap().get(2, b"k", &mut |_| {}).is_err());
        store.close().unwrap();
    });
}

#[test]
fn every_table_is_settled_and_found_again() {
    const ROWS: u32 = 4_000;
    each_with_tables(|contestant, directory| {
        let store = opened(contestant, directory, &with_tables()).store;
        for rows in rows(ROWS).chunks(100) {
            store.tables().unwrap().load(rows).unwrap();
        }
        let settled_at = store.settle().unwrap();
        store.settle().unwrap();
        assert!(settled_at.elapsed().as_secs() < 60);
        let activity = store.activity();
        assert!(!activity.flushing && !activity.compacting, "{activity:?}");
        assert_ne!(activity.stalled, Some(true));
        let beside = |file: &Path| store.is_beside_tables(file);
        let space = space::allocated(directory, &beside).unwrap();
        let bytes = u64::from(ROWS) * 1_000;
        assert!(space.table_bytes >= bytes, "{}: {space:?}", contestant.name);
        store.close().unwrap();

        let store = opened(contestant, directory, &with_tables()).store;
        assert_eq!(count(store.tables().unwrap()), u64::from(ROWS));
        store.close().unwrap();
    });
}

#[test]
fn synced_transactions_are_found_again() {
    let settings = Settings {
        durability: DurabilityClass::PowerCut,
        ..with_tables()
    };
    each_with_tables(|contestant, directory| {
        let store = opened(contestant, directory, &settings).store;
        let tables = store.tables().unwrap();
        tables.load(&rows(10)).unwrap();
        for (table, key, value) in rows(20) {
            tables
                .transact(&mut |transaction| transaction.put(table, &key, &value))
                .unwrap();
        }
        store.close().unwrap();
        let store = opened(contestant, directory, &settings).store;
        assert_eq!(count(store.tables().unwrap()), 20);
        store.close().unwrap();
    });
}

/// Its function fails where it sees two moments, which no transaction shows in the end.
#[test]
fn an_overtaken_transaction_runs_again() {
    each_with_tables(|contestant, directory| {
        let store = opened(contestant, directory, &with_tables()).store;
        let tables = store.tables().unwrap();
        let set = |value: &[u8]| {
            tables.transact(&mut |transaction| {
                transaction.put(0, b"key", value)?;
                transaction.put(1, b"key", value)
            })
        };
        set(b"old").unwrap();
        for has_writes in [true, false] {
            let (mut runs, mut seen) = (0, [Vec::new(), Vec::new()]);
            let mut both = |transaction: &mut dyn Transaction| {
                runs += 1;
                transaction.get(0, b"key", &mut |value| seen[0] = value.to_vec())?;
                if runs == 1 {
                    set(b"new")?;
                }
                transaction.get(1, b"key", &mut |value| seen[1] = value.to_vec())?;
                if has_writes {
                    transaction.put(0, b"other", &seen[0])?;
                }
                match seen[0] == seen[1] {
                    true => Ok(()),
                    false => Err(format!("{seen:?}").into()),
                }
            };
            tables.transact(&mut both).unwrap();
            assert_eq!(seen[0], seen[1], "{}", contestant.name);
            assert!(!has_writes || runs == 2, "{}: {runs}", contestant.name);
            set(b"old").unwrap();
        }
        store.close().unwrap();
    });
}

#[test]
fn tables_share_the_memory_of_write_buffers() {
    each_with_tables(|contestant, directory| {
        let settings = with_tables();
        let told = opened(contestant, directory, &settings).settings;
        let (name, value) = match contestant.name {
            "rocksdb" => ("db_write_buffer_size", (3 * 256) << 10),
            _ => ("max_memtable_size", ((3 * 256) << 10) / 4),
        };
        let said = told.iter().find(|(told, _)| told == name);
        let said = said.map(|(_, value)| value.split(':').next().unwrap());
        assert_eq!(said, Some(&*value.to_string()), "{told:?}");
    });
}
