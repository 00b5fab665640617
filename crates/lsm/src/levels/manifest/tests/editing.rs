//! Edits that are appended, and the state after a reopening.

use super::*;
use crate::levels::testing::new_state;
use crate::levels::{TierRecord, TierUse, write_manifest};

#[test]
fn what_was_appended_is_read_back() {
    let storage = shared(&new_storage());
    let (manifest, states) = written(&storage, OPTIONS);
    let state = states.last().unwrap();
    let loaded = load_at(&*storage, directory()).unwrap();
    assert_eq!(summary(&loaded.state), summary(state));
    assert_eq!(loaded.tail, None);
    assert_eq!(
        loaded.state.clean_close,
        Some(CleanClose { last_sequence: 90 })
    );
    assert_eq!(
        loaded.state.live_arenas.keys().collect::<Vec<_>>(),
        [&2, &4]
    );
    drop(manifest);
    let (mut manifest, state) = open_at(Arc::clone(&storage), directory(), OPTIONS).unwrap();
    let state = append(&mut manifest, &state, &issue(40)).unwrap();
    let loaded = load_at(&*storage, directory()).unwrap().state;
    assert_eq!(summary(&loaded), summary(&state));
    assert_eq!((loaded.clean_close, loaded.next_generation), (None, 41));
}

#[test]
fn a_state_written_as_one_edit_is_the_same_state() {
    let storage = shared(&new_storage());
    for state in written(&storage, OPTIONS).1 {
        let again = ManifestState::begin(&summary(&state)).unwrap();
        assert_eq!(summary(&again), summary(&state));
        let narrowed = |state: &ManifestState| state.version.tables().any(|(_, t)| t.narrowed);
        assert_eq!(narrowed(&again), narrowed(&state));
    }
}

#[test]
fn numbers_never_go_back_and_are_never_given_twice() {
    let storage = shared(&new_storage());
    let state = written(&storage, OPTIONS).1.pop().unwrap();
    let refused = |edit: Edit, reason: &str| {
        let error = state.apply(&edit).unwrap_err();
        assert!(error.0.contains(reason), "{error}");
    };
    refused(issue(4), "generation 4 was given before");
    refused(issue(29), "generation 29 was given before");
    let slot_in_use = ArenaIssued {
        generation: 50,
        slot: 1,
        capacity_bytes: 1,
        replaced_generation: Some(0),
    };
    refused(
        Edit {
            arenas_issued: vec![slot_in_use],
            ..Edit::default()
        },
        "slot 1 is in use",
    );
    refused(
        Edit {
            arenas_retired: vec![1],
            ..Edit::default()
        },
        "not live",
    );
    refused(
        Edit {
            flushed_sequence: Some(69),
            ..Edit::default()
        },
        "go back from 70 to 69",
    );
    refused(
        Edit {
            persisted_until: Some(79),
            ..Edit::default()
        },
        "go back",
    );
    refused(
        Edit {
            next_table_number: Some(19),
            ..Edit::default()
        },
        "go back",
    );
    refused(
        Edit {
            next_generation: Some(29),
            ..Edit::default()
        },
        "go back",
    );
    refused(
        ManifestState::first_edit(identity()),
        "only the first record",
    );
    let again = KeyspaceCreated {
        id: KeyspaceId(2),
        name: "again".into(),
    };
    refused(
        Edit {
            keyspaces_created: vec![again],
            ..Edit::default()
        },
        "keyspace 2 was given before",
    );
    assert!(ManifestState::begin(&Edit::default()).is_err());
}

#[test]
fn a_long_manifest_is_rewritten_and_the_old_one_goes() {
    let storage = shared(&new_storage());
    let options = ManifestOptions {
        rewrite_above_bytes: 400,
    };
    let (manifest, states) = written(&storage, options);
    assert!(manifest.number > 1, "never rewritten");
    assert_eq!(
        names(&*storage),
        ["CURRENT".to_owned(), manifest_file_name(manifest.number)]
    );
    let loaded = load_at(&*storage, directory()).unwrap();
    assert_eq!(summary(&loaded.state), summary(states.last().unwrap()));
    drop(manifest);
    // However small the limit, a manifest of one record is not rewritten at once.
    let (mut manifest, mut state) = open_at(storage, directory(), options).unwrap();
    let mut rewrites = 0;
    for generation in 100..140 {
        let number = manifest.number;
        state = append(&mut manifest, &state, &issue(generation)).unwrap();
        rewrites += manifest.number - number;
    }
    assert!((1..10).contains(&rewrites), "{rewrites}");
}

#[test]
fn a_dump_shows_every_edit_every_mark_and_a_dropped_tail() {
    let (mut bytes, _) = written_bytes();
    let edits = edit_places(&bytes).len();
    bytes.extend([0; 13]);
    let storage = store_of(&bytes);
    let path = directory().join("MANIFEST-000001");
    let items: Vec<DumpItem> = ManifestDump::open(&*storage, &path)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(items.len(), 2 * edits + 1);
    let text: String = items.iter().map(ToString::to_string).collect();
    for line in [
        "store 00000000000000000123456789abcdef hash seed 000000000000002a domain CrashSafe",
        "create keyspace 2 \"zweiter\"",
        "drop keyspace 2",
        "issue arena generation 4 slot 0 of 1048576 bytes",
        "retire arena generation 1",
        "narrow table 6 of keyspace 1 to [c, z)",
        "move table 3 of keyspace 1 to level 3 sub-level 3 of age 61",
        "flushed sequence 70",
        "closed cleanly at sequence 90",
        "mark at",
        "never completed (13 bytes",
    ] {
        assert!(text.contains(line), "no {line:?} in\n{text}");
    }
    assert!(ManifestDump::open(&*storage, &directory().join("CURRENT")).is_err());
}

#[test]
fn the_format_of_tiers_is_the_one_that_was_committed() {
    let storage = shared(&new_storage());
    storage.create_directory(directory()).unwrap();
    let directory = opened(&*storage, directory()).unwrap();
    let tier = |number, state| TierRecord {
        number,
        id: u128::from(number) << 64 | 7,
        name: format!("tier-{number}"),
        path: format!("/tiers/{number}").into(),
        capacity_bytes: 1 << 40,
        reserve_bytes: 1 << 30,
        profile: Some(terrace_storage::DeviceProfile::WD10EZEX).filter(|_| number == 2),
        state,
    };
    let mut table = added(flush_place(1), 1, "a", "m");
    table.table.tier = 2;
    let edit = Edit {
        tables_added: vec![table],
        tiers: vec![
            tier(2, TierUse::Open),
            tier(3, TierUse::Draining),
            tier(4, TierUse::Removed),
            tier(255, TierUse::Lost),
        ],
        ..Edit::default()
    };
    let state = new_state().apply(&edit).unwrap();
    write_manifest(&*directory, &state).unwrap();
    let written = bytes_of(&*storage, "MANIFEST-000001");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/manifest-v3-tiers.bin");
    if std::env::var_os("TERRACE_BLESS").is_some() {
        std::fs::write(&golden, &written).unwrap();
    }
    let golden = std::fs::read(golden).unwrap();
    assert!(golden == written, "the bytes of format 3 have changed");
    let loaded = load_at(&*store_of(&golden), self::directory()).unwrap();
    assert_eq!(loaded.state.tiers, edit.tiers);
    let tables = loaded.state.version.tables();
    assert_eq!(tables.map(|(_, table)| table.tier).collect::<Vec<_>>(), [2]);
}

#[test]
fn the_format_is_the_one_that_was_committed() {
    let storage = shared(&new_storage());
    let (_, states) = written(&storage, OPTIONS);
    let written = bytes_of(&*storage, "MANIFEST-000001");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/manifest-v3.bin");
    if std::env::var_os("TERRACE_BLESS").is_some() {
        std::fs::write(&golden, &written).unwrap();
    }
    let golden = std::fs::read(golden).unwrap();
    assert!(golden == written, "the bytes of format 3 have changed");
    let loaded = load_at(&*store_of(&golden), directory()).unwrap();
    assert_eq!(summary(&loaded.state), summary(states.last().unwrap()));
}
