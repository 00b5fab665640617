//! What contestants are told, and what they refuse.

use std::path::Path;

use terrace_bench::settings::Settings;
use terrace_bench::store::{Contestant, Opened};

use super::{each, get, key, opened, small};

fn refusal(contestant: &Contestant, directory: &Path, settings: &Settings) -> String {
    match (contestant.open)(directory, settings) {
        Ok(_) => panic!("{} was opened", contestant.name),
        Err(error) => error.to_string(),
    }
}

#[test]
fn an_own_option_that_is_not_known_is_refused() {
    each(|contestant, directory| {
        let mut settings = small();
        settings.own.insert("no_such".into(), "1".into());
        let error = refusal(contestant, directory, &settings);
        assert!(error.contains("no option \"no_such\""), "{error}");
        assert!(
            !directory.exists(),
            "{} made its files first",
            contestant.name
        );
    });
}

#[test]
fn an_own_option_must_have_a_value_of_its_kind_and_is_told() {
    each(|contestant, directory| {
        let (option, value, told) = match contestant.name {
            "fjall" => (
                "max_journaling_bytes",
                "100000000",
                ("max_journaling_size", "100000000"),
            ),
            "leveldb" => ("max_file_bytes", "4194304", ("max_file_size", "4194304")),
            "lmdb" => ("writemap", "false", ("MDB_WRITEMAP", "false")),
            "redb" => ("durability", "none", ("durability", "None")),
            "rocksdb" => ("lru_cache", "true", ("block_cache", "LRUCache, 8388608")),
            other => panic!("{other} has no option here"),
        };
        let mut settings = small();
        settings.own.insert(option.to_string(), "what?".into());
        let error = refusal(contestant, directory, &settings);
        assert!(error.contains(option) && error.contains("what?"), "{error}");

        settings.own.insert(option.to_string(), value.to_string());
        let Opened {
            store,
            settings: had,
            ..
        } = opened(contestant, directory, &settings);
        assert!(had.contains(&(told.0.into(), told.1.into())), "{had:?}");
        store.put(b"key", b"value").unwrap();
        store.close().unwrap();
        let store = opened(contestant, directory, &settings).store;
        assert_eq!(get(&*store, b"key").as_deref(), Some(&b"value"[..]));
        store.close().unwrap();
    });
}

#[test]
fn compression_and_direct_io_are_had_or_said_to_be_missing() {
    each(|contestant, directory| {
        let mut settings = small();
        settings.compressed = true;
        if contestant.name == "rocksdb" {
            let error = refusal(contestant, directory, &settings);
            assert!(error.contains("LZ4"), "{error}");
        } else {
            let opened = opened(contestant, directory, &settings);
            let told = |word: &str| opened.settings.iter().any(|(name, _)| name.contains(word));
            assert!(told("compression"));
            assert!(told("direct_io"));
            for number in 0..1_000 {
                let compressible = [number as u8; 900];
                opened.store.put(&key(number), &compressible).unwrap();
            }
            opened.store.settle().unwrap();
            for number in 0..1_000 {
                assert!(get(&*opened.store, &key(number)).is_some());
            }
            opened.store.close().unwrap();
        }
    });
}

#[cfg(feature = "rocksdb")]
#[test]
fn rocksdb_goes_past_the_page_cache_where_it_is_told_to() {
    const RECORDS: u64 = 1_000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let settings = Settings {
        direct_io: true,
        ..small()
    };
    let Opened {
        store,
        settings: told,
        ..
    } = match (super::super::rocksdb::CONTESTANT.open)(&path, &settings) {
        Ok(opened) => opened,
        Err(error) if error.to_string().contains("Direct I/O is not supported") => {
            return println!("SKIPPED: {error}");
        }
        Err(error) => panic!("{error}"),
    };
    for name in ["use_direct_reads", "use_direct_io_for_flush_and_compaction"] {
        assert!(told.contains(&(name.into(), "true".into())), "{told:?}");
    }
    for number in 0..RECORDS {
        store.put(&key(number), &[7; 900]).unwrap();
    }
    store.settle().unwrap();
    for number in 0..RECORDS {
        assert!(get(&*store, &key(number)).is_some());
    }
    store.close().unwrap();
}

/// Of the log its wiki advises nothing: what is told beyond its advice would be ours.
#[cfg(feature = "rocksdb")]
#[test]
fn rocksdbs_log_is_written_back_as_by_default() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let told = opened(&super::super::rocksdb::CONTESTANT, &path, &small()).settings;
    for setting in [("bytes_per_sync", "1048576"), ("wal_bytes_per_sync", "0")] {
        let (name, value) = setting;
        assert!(told.contains(&(name.into(), value.into())), "{told:?}");
    }
}

#[cfg(feature = "rocksdb")]
#[test]
fn rocksdb_merges_as_it_is_told() {
    for (style, told) in [(None, "level"), (Some("universal"), "universal")] {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = small();
        let style = style.map(|style: &str| ("compaction_style".to_string(), style.to_string()));
        settings.own.extend(style);
        let path = directory.path().join("store");
        let had = opened(&super::super::rocksdb::CONTESTANT, &path, &settings).settings;
        assert!(
            had.contains(&("compaction_style".into(), told.into())),
            "{had:?}"
        );
    }
    let mut settings = small();
    settings
        .own
        .insert("compaction_style".into(), "fifo".into());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let error = refusal(&super::super::rocksdb::CONTESTANT, &path, &settings);
    assert!(error.contains("level or universal"), "{error}");
}

/// Buffers and tables of a size: the shape of its tree is then the same at every size of the buffer.
#[test]
fn fjall_has_tables_as_large_as_it_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = small();
    settings
        .own
        .insert("table_target_bytes".into(), "262144".into());
    let path = directory.path().join("store");
    let had = opened(&super::super::fjall::CONTESTANT, &path, &settings).settings;
    assert!(
        had.contains(&("table_target_size".into(), "262144".into())),
        "{had:?}"
    );
}
