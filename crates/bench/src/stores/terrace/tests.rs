use super::*;

fn settings(own: &[(&str, &str)]) -> Settings {
    Settings {
        write_buffer_bytes: 1 << 20,
        own: own
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect(),
        ..Settings::default()
    }
}

/// All contestants that share no code but the trait are asked the same.
#[test]
fn every_configuration_keeps_what_it_is_given() {
    for contestant in CONTESTANTS {
        let directory = tempfile::tempdir_in(".").unwrap();
        let opened = (contestant.open)(directory.path(), &settings(&[])).unwrap();
        crate::conformance::check(opened.store.as_ref()).unwrap();
        opened.store.close().unwrap();
        let opened = (contestant.open)(directory.path(), &settings(&[])).unwrap();
        crate::conformance::check_reopened(opened.store.as_ref()).unwrap();
        opened.store.close().unwrap();
    }
}

#[test]
fn keyspaces_pass_what_tables_must_pass() {
    let directory = tempfile::tempdir_in(".").unwrap();
    let tables = ["one", "two"].map(String::from).to_vec();
    let settings = Settings {
        tables,
        ..settings(&[])
    };
    let opened = (CONTESTANTS[0].open)(directory.path(), &settings).unwrap();
    crate::conformance::check_tables(opened.store.tables().unwrap()).unwrap();
    opened.store.close().unwrap();
}

#[test]
fn options_are_set_by_their_names_and_shown() {
    let own = [
        ("read_buffer.share_percent", "25"),
        ("default_keyspace.table_bytes", "1048576"),
        ("persist_method", "written"),
    ];
    let directory = tempfile::tempdir_in(".").unwrap();
    let opened = (CONTESTANTS[0].open)(directory.path(), &settings(&own)).unwrap();
    for (name, value) in own {
        let expected = (name.to_string(), value.to_string());
        assert!(
            opened.settings.contains(&expected),
            "{name}: {:?}",
            opened.settings
        );
    }
    assert!(
        opened.durability.contains("method written"),
        "{}",
        opened.durability
    );
}

#[test]
fn a_bounded_store_is_told_its_bound_and_what_the_user_chose() {
    let bounded = Settings {
        bound_bytes: Some(512 << 20),
        cache_is_chosen: false,
        ..Settings::default()
    };
    let unset = Options::default();
    let told = options(&bounded, &[]).unwrap();
    assert_eq!(told.memory_bytes, Some(512 << 20));
    assert_eq!(told.arena_bytes, unset.arena_bytes);
    assert_eq!(told.cache_bytes, unset.cache_bytes);

    let chosen = Settings {
        write_buffer_bytes: 4 << 20,
        direct_write_buffer_bytes: 4 << 20,
        direct_cache_bytes: 100 << 20,
        cache_is_chosen: true,
        ..bounded
    };
    let told = options(&chosen, &[]).unwrap();
    assert_eq!(told.arena_bytes, 4 << 20);
    assert_eq!(told.cache_bytes, 100 << 20);
}

#[test]
fn an_option_that_there_is_not_is_refused() {
    let directory = tempfile::tempdir_in(".").unwrap();
    for own in [
        ("no_such_option", "1"),
        ("arena_bytes.x", "1"),
        ("arena_bytes", "many"),
    ] {
        let error = (CONTESTANTS[0].open)(directory.path(), &settings(&[own]))
            .err()
            .unwrap();
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn arenas_are_told_apart_from_tables_and_what_tables_took_is_counted() {
    let directory = tempfile::tempdir_in(".").unwrap();
    let opened = (CONTESTANTS[0].open)(directory.path(), &settings(&[])).unwrap();
    let store = opened.store;
    store.put(b"key", &[7; 5000]).unwrap();
    assert_eq!(store.table_bytes_written(), Some(0));
    store.settle().unwrap();
    let written = store.table_bytes_written().unwrap();
    assert!((5000..50_000).contains(&written), "{written}");
    let names = std::fs::read_dir(directory.path()).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    let beside = |file: &std::ffi::OsString| store.is_beside_tables(Path::new(file));
    let (beside, rest): (Vec<_>, Vec<_>) = names.iter().partition(|name| beside(name));
    assert!(!beside.is_empty() && !rest.is_empty(), "{names:?}");
    let holds = |names: &[&std::ffi::OsString], word: &str| {
        names
            .iter()
            .any(|name| name.to_string_lossy().contains(word))
    };
    for word in ["arena", "MANIFEST"] {
        assert!(holds(&beside, word) && !holds(&rest, word), "{names:?}");
    }
    store.close().unwrap();
}
