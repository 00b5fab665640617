use terrace_storage::{
    CrashKind, CrashSwitch, FailingStorage, Fault, FaultFilter, FaultPlan, Operation,
    SimulatedStorage,
};

use super::*;
use crate::key::KeyspaceId;
use crate::levels::edit::{ArenaIssued, CleanClose, KeyspaceCreated, TableNarrowed};
use crate::levels::testing::{added, flush_place, identity, moved, removed, replace};
use crate::levels::{DumpItem, KeyRange, ManifestDump, Place, record};

const OPTIONS: ManifestOptions = ManifestOptions {
    rewrite_above_bytes: 1 << 20,
};

fn directory() -> &'static Path {
    Path::new("/store")
}

fn new_storage() -> SimulatedStorage {
    SimulatedStorage::new(1, CrashSwitch::new())
}

fn shared(storage: &SimulatedStorage) -> Arc<dyn Storage> {
    Arc::new(storage.clone())
}

/// Edits that together use every field.
fn edits() -> Vec<Edit> {
    let second = KeyspaceId(2);
    let mut other = added(flush_place(0), 4, "", "\u{fe}");
    other.table.keyspace = second;
    let issue = |generation, slot| ArenaIssued {
        generation,
        slot,
        capacity_bytes: 1 << 20,
    };
    vec![
        Edit {
            arenas_issued: vec![issue(1, 0), issue(2, 1)],
            keyspaces_created: vec![KeyspaceCreated {
                id: second,
                name: "zweiter".into(),
            }],
            ..Edit::default()
        },
        Edit {
            tables_added: vec![added(flush_place(0), 3, "a", "m"), other],
            arenas_retired: vec![1],
            arenas_issued: vec![issue(4, 0)],
            flushed_sequence: Some(70),
            persisted_until: Some(80),
            ..Edit::default()
        },
        replace(&[], vec![added(flush_place(1), 6, "a", "z")]),
        Edit {
            tables_narrowed: vec![TableNarrowed {
                keyspace: KeyspaceId::DEFAULT,
                number: 6,
                bounds: KeyRange {
                    largest_excluded: true,
                    ..KeyRange::inclusive("c", "z")
                },
            }],
            tables_moved: vec![moved(3, Place::base(3))],
            ..Edit::default()
        },
        Edit {
            keyspaces_dropped: vec![second],
            tables_removed: vec![removed(3)],
            ..Edit::default()
        },
        Edit {
            next_table_number: Some(20),
            next_generation: Some(30),
            next_sub_level: Some(400),
            next_keyspace: Some(5),
            clean_close: Some(CleanClose { last_sequence: 90 }),
            ..Edit::default()
        },
    ]
}

/// The state as one edit: what two states are compared by.
fn summary(state: &ManifestState) -> Edit {
    state.as_edit()
}

/// A store with all of [`edits`], and its state after each of them.
fn written(storage: &Arc<dyn Storage>, options: ManifestOptions) -> (Manifest, Vec<ManifestState>) {
    let (mut manifest, mut state) =
        Manifest::create(Arc::clone(storage), directory(), identity(), options).unwrap();
    let mut states = vec![state.clone()];
    for edit in edits() {
        state = append(&mut manifest, &state, &edit).unwrap();
        states.push(state.clone());
    }
    (manifest, states)
}

fn append(
    manifest: &mut Manifest,
    state: &ManifestState,
    edit: &Edit,
) -> std::result::Result<ManifestState, ManifestError> {
    let next = state.apply(edit).unwrap();
    manifest.append(edit, &next)?;
    Ok(next)
}

fn issue(generation: u64) -> Edit {
    Edit {
        arenas_issued: vec![ArenaIssued {
            generation,
            slot: generation,
            capacity_bytes: 4096,
        }],
        ..Edit::default()
    }
}

fn bytes_of(storage: &dyn Storage, name: &str) -> Vec<u8> {
    read_file(
        storage,
        &directory().join(name),
        LONGEST_BYTES,
        Purpose::Other,
    )
    .unwrap()
}

/// A directory that holds a manifest of these bytes and a `CURRENT` that names it.
fn store_of(bytes: &[u8]) -> Arc<dyn Storage> {
    let storage = shared(&new_storage());
    storage.create_directory(directory()).unwrap();
    put(&*storage, "MANIFEST-000001", bytes);
    assert!(current::switch(&*storage, directory(), 1).is_ok());
    storage
}

fn put(storage: &dyn Storage, name: &str, bytes: &[u8]) {
    let file = storage
        .open(
            &directory().join(name),
            OpenOptions::buffered(OpenMode::CreateNew),
        )
        .unwrap();
    file.write_at(bytes, 0, Purpose::Other).unwrap();
}

fn names(storage: &dyn Storage) -> Vec<String> {
    let entries = storage.list(directory()).unwrap();
    entries.into_iter().map(|entry| entry.name).collect()
}

#[test]
fn what_was_appended_is_read_back() {
    let storage = shared(&new_storage());
    let (manifest, states) = written(&storage, OPTIONS);
    let state = states.last().unwrap();
    let loaded = load(&*storage, directory()).unwrap();
    assert_eq!(summary(&loaded.state), summary(state));
    assert_eq!(loaded.torn_tail, None);
    assert_eq!(
        loaded.state.clean_close,
        Some(CleanClose { last_sequence: 90 })
    );
    assert_eq!(
        loaded.state.live_arenas.keys().collect::<Vec<_>>(),
        [&2, &4]
    );
    drop(manifest);
    let (mut manifest, state) = Manifest::open(Arc::clone(&storage), directory(), OPTIONS).unwrap();
    let state = append(&mut manifest, &state, &issue(40)).unwrap();
    let loaded = load(&*storage, directory()).unwrap().state;
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
    let loaded = load(&*storage, directory()).unwrap();
    assert_eq!(summary(&loaded.state), summary(states.last().unwrap()));
    // However small the limit, a manifest of one record is not rewritten at once.
    let (mut manifest, mut state) = Manifest::open(storage, directory(), options).unwrap();
    let mut rewrites = 0;
    for generation in 100..140 {
        let number = manifest.number;
        state = append(&mut manifest, &state, &issue(generation)).unwrap();
        rewrites += manifest.number - number;
    }
    assert!((1..10).contains(&rewrites), "{rewrites}");
}

#[test]
fn every_truncation_is_a_prefix_or_an_error() {
    let storage = shared(&new_storage());
    let (_, states) = written(&storage, OPTIONS);
    let whole = bytes_of(&*storage, "MANIFEST-000001");
    let mut starts = record_starts(&whole);
    starts.push(whole.len());
    for length in 0..whole.len() {
        let loaded = load(&*store_of(&whole[..length]), directory());
        let records = starts.iter().filter(|&&start| start <= length).count();
        match loaded {
            Ok(loaded) => {
                assert_eq!(
                    summary(&loaded.state),
                    summary(&states[records - 2]),
                    "{length}"
                );
                let torn = loaded
                    .torn_tail
                    .map(|tail| (tail.offset, tail.length_bytes));
                let start = starts[records - 1];
                let tail = (start as u64, (length - start) as u64);
                assert_eq!(torn, (tail.1 > 0).then_some(tail), "{length}");
            }
            Err(Error::Corruption { file, .. }) => {
                assert!(length < starts[1], "{length}");
                assert!(file.ends_with("MANIFEST-000001"));
            }
            Err(error) => panic!("{length}: {error}"),
        }
    }
}

#[test]
fn every_bit_flip_is_an_error_or_a_torn_last_record() {
    let storage = shared(&new_storage());
    let (_, states) = written(&storage, OPTIONS);
    let whole = bytes_of(&*storage, "MANIFEST-000001");
    let last = *record_starts(&whole).last().unwrap();
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        match load(&*store_of(&bytes), directory()) {
            Ok(loaded) => {
                assert!(bit / 8 >= last, "bit {bit} was not noticed");
                assert_eq!(summary(&loaded.state), summary(&states[states.len() - 2]));
                let tail = loaded.torn_tail.expect("a dropped record is reported");
                assert_eq!(tail.offset, last as u64);
            }
            Err(Error::Corruption { offset, .. }) => {
                assert!(bit / 8 < last, "bit {bit}");
                assert!(offset <= (bit / 8) as u64, "bit {bit} found at {offset}");
            }
            Err(error) => panic!("bit {bit}: {error}"),
        }
    }
}

fn record_starts(bytes: &[u8]) -> Vec<usize> {
    let path = Path::new("MANIFEST-000001");
    let records = Records::new(path, bytes, 1).unwrap();
    records
        .map(|record| record.unwrap().offset as usize)
        .collect()
}

#[test]
fn a_record_of_another_place_or_manifest_is_not_taken() {
    let edit = issue(1);
    let first = ManifestState::first_edit(identity());
    let begin = |number| {
        let mut bytes = encode_header(number);
        let offset = bytes.len() as u64;
        bytes.extend(encode_record(number, offset, &first).unwrap());
        bytes
    };
    let whole = begin(1);
    let end = whole.len() as u64;
    for (number, offset, taken) in [(1, end, true), (2, end, false), (1, end + 8, false)] {
        let mut bytes = whole.clone();
        bytes.extend(encode_record(number, offset, &edit).unwrap());
        let loaded = load(&*store_of(&bytes), directory()).unwrap();
        assert_eq!(loaded.torn_tail.is_none(), taken, "{number} {offset}");
        assert_eq!(loaded.state.live_arenas.len(), usize::from(taken));
    }
    let renamed = load(&*store_of(&begin(2)), directory()).unwrap_err();
    assert!(
        renamed.to_string().contains("this is manifest 2, renamed"),
        "{renamed}"
    );
}

#[test]
fn damage_with_a_valid_record_behind_it_is_corruption() {
    let storage = shared(&new_storage());
    written(&storage, OPTIONS);
    let whole = bytes_of(&*storage, "MANIFEST-000001");
    let starts = record_starts(&whole);
    let mut bytes = whole.clone();
    bytes[starts[2]..starts[4]].fill(0);
    match load(&*store_of(&bytes), directory()) {
        Err(Error::Corruption { offset, detail, .. }) => {
            assert_eq!(offset, starts[2] as u64);
            assert!(
                detail.contains(&format!("follows at {}", starts[4])),
                "{detail}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn bytes_made_to_look_like_records_do_not_cost_their_square() {
    const HALF: u32 = 2 << 20;
    let number = 1;
    let mut bytes = encode_header(number);
    let mut lookalike = HALF.to_le_bytes().to_vec();
    lookalike.extend_from_slice(&1u32.to_le_bytes());
    bytes.extend(lookalike.repeat(2 * HALF as usize / lookalike.len()));
    let mut records = Records::new(Path::new("MANIFEST-000001"), &bytes, number).unwrap();
    let error = records.next().unwrap().err().unwrap();
    assert!(error.to_string().contains("looks like records"), "{error}");
}

#[test]
fn nothing_is_appended_behind_a_torn_tail() {
    let storage = shared(&new_storage());
    let (_, states) = written(&storage, OPTIONS);
    let mut bytes = bytes_of(&*storage, "MANIFEST-000001");
    bytes.truncate(bytes.len() - 3);
    let storage = store_of(&bytes);
    let (mut manifest, state) = Manifest::open(Arc::clone(&storage), directory(), OPTIONS).unwrap();
    assert!(manifest.torn_tail().is_some());
    assert_eq!(
        bytes_of(&*storage, "MANIFEST-000001"),
        bytes,
        "an open writes nothing"
    );
    assert_eq!(summary(&state), summary(&states[states.len() - 2]));
    let state = append(&mut manifest, &state, &issue(77)).unwrap();
    assert_eq!(names(&*storage), ["CURRENT", "MANIFEST-000002"]);
    let loaded = load(&*storage, directory()).unwrap();
    assert_eq!(
        (summary(&loaded.state), loaded.torn_tail),
        (summary(&state), None)
    );
}

#[test]
fn foreign_and_future_files_are_told_apart() {
    let whole = {
        let storage = shared(&new_storage());
        written(&storage, OPTIONS);
        bytes_of(&*storage, "MANIFEST-000001")
    };
    let load_bytes = |bytes: &[u8]| load(&*store_of(bytes), directory()).unwrap_err();
    assert!(load_bytes(b"").to_string().contains("the file is empty"));
    assert!(
        load_bytes(b"#!/bin/sh\n")
            .to_string()
            .contains("does not begin as a manifest")
    );
    assert!(
        load_bytes(&whole[..20])
            .to_string()
            .contains("header is cut short")
    );
    let mut future = encode_header(1);
    future[8] = 2;
    let sum = xxhash_rust::xxh3::xxh3_64(&future[..24]);
    future[24..].copy_from_slice(&sum.to_le_bytes());
    match load_bytes(&future) {
        Error::Unsupported { file, detail } => {
            assert!(
                file.ends_with("MANIFEST-000001") && detail.contains("format 2"),
                "{detail}"
            );
        }
        error => panic!("{error}"),
    }
}

#[test]
fn a_field_of_a_later_version_is_unsupported_unless_it_may_be_skipped() {
    let first = encode_record(
        1,
        HEADER_BYTES as u64,
        &ManifestState::first_edit(identity()),
    );
    for (head, supported) in [([0xe8, 7], false), ([0xe9, 7], true)] {
        let mut bytes = encode_header(1);
        bytes.extend(first.as_ref().unwrap());
        let payload = [head[0], head[1], 2, 1, 2];
        bytes.extend(record::encode_payload(1, bytes.len() as u64, &payload));
        match load(&*store_of(&bytes), directory()) {
            Ok(loaded) => assert!(supported && loaded.torn_tail.is_none()),
            Err(Error::Unsupported { detail, .. }) => {
                assert!(
                    !supported && detail.contains("field 500 of an edit"),
                    "{detail}"
                );
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn an_edit_that_does_not_fit_is_corruption_at_its_record() {
    let first = ManifestState::first_edit(identity());
    let mut bytes = encode_header(1);
    bytes.extend(encode_record(1, HEADER_BYTES as u64, &first).unwrap());
    let offset = bytes.len() as u64;
    bytes.extend(encode_record(1, offset, &replace(&[9], vec![])).unwrap());
    match load(&*store_of(&bytes), directory()) {
        Err(Error::Corruption {
            offset: found,
            detail,
            ..
        }) => {
            assert_eq!(found, offset);
            assert!(detail.contains("table 9 is not in keyspace 1"), "{detail}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_directory_without_current_is_no_store_or_a_damaged_one() {
    let storage = shared(&new_storage());
    let answer = |storage: &dyn Storage| load(storage, directory()).unwrap_err();
    let no_store = |storage: &dyn Storage, reason: &str| match answer(storage) {
        Error::NoStore { detail, .. } => assert!(detail.contains(reason), "{detail}"),
        error => panic!("{error}"),
    };
    no_store(&*storage, "does not exist");
    storage.create_directory(directory()).unwrap();
    no_store(&*storage, "is empty");
    put(&*storage, "LOCK", b"");
    no_store(&*storage, "is empty");
    put(&*storage, "holiday.jpg", b"");
    no_store(&*storage, "holds other files");
    put(&*storage, "MANIFEST-000001", &encode_header(1)[..9]);
    no_store(&*storage, "creation was interrupted");
    put(&*storage, "000004.table", b"");
    assert!(matches!(answer(&*storage), Error::Corruption { .. }));

    let storage = shared(&new_storage());
    written(&storage, OPTIONS);
    storage.remove(&directory().join("CURRENT")).unwrap();
    match answer(&*storage) {
        Error::Corruption { file, detail, .. } => {
            assert!(
                file.ends_with("CURRENT") && detail.contains("MANIFEST-000001"),
                "{detail}"
            );
        }
        error => panic!("{error}"),
    }
    let created = Manifest::create(storage, directory(), identity(), OPTIONS);
    assert!(matches!(created, Err(Error::Corruption { .. })));
}

#[test]
fn a_store_is_not_created_over_another() {
    let storage = shared(&new_storage());
    written(&storage, OPTIONS);
    let created = Manifest::create(storage, directory(), identity(), OPTIONS);
    assert!(matches!(created, Err(Error::InvalidArgument(_))));
}

#[test]
fn a_current_that_names_a_missing_manifest_is_an_error() {
    let storage = shared(&new_storage());
    storage.create_directory(directory()).unwrap();
    assert!(current::switch(&*storage, directory(), 7).is_ok());
    let error = load(&*storage, directory()).unwrap_err();
    assert!(
        matches!(&error, Error::Corruption { file, detail, .. }
            if file.ends_with("CURRENT") && detail.contains("MANIFEST-000007")),
        "{error}"
    );
}

/// A store over a storage that can be made to fail, open and one edit old.
struct Faulty {
    inner: SimulatedStorage,
    plan: FaultPlan,
    manifest: Manifest,
    state: ManifestState,
}

fn faulty(filter: FaultFilter, options: ManifestOptions) -> Faulty {
    let inner = new_storage();
    let plan = FaultPlan::new(filter);
    let storage = Arc::new(FailingStorage::new(shared(&inner), plan.clone()));
    let (mut manifest, state) =
        Manifest::create(storage, directory(), identity(), options).unwrap();
    let state = append(&mut manifest, &state, &issue(1)).unwrap();
    Faulty {
        inner,
        plan,
        manifest,
        state,
    }
}

fn writes() -> FaultFilter {
    FaultFilter::everything().operations(&[Operation::Write])
}

fn syncs() -> FaultFilter {
    FaultFilter::everything().operations(&[Operation::Sync, Operation::SyncDirectory])
}

#[test]
fn a_write_that_fails_sends_the_edit_into_a_fresh_manifest() {
    for fault in [Fault::Io, Fault::NoSpace, Fault::ShortWrite] {
        let mut store = faulty(writes(), OPTIONS);
        store.plan.fail_at(store.plan.count(), fault);
        let state = append(&mut store.manifest, &store.state, &issue(2)).unwrap();
        assert_eq!(store.manifest.number, 2);
        let loaded = load(&store.inner, directory()).unwrap();
        assert_eq!(summary(&loaded.state), summary(&state));
        // And the fresh manifest takes edits as any other.
        let state = append(&mut store.manifest, &state, &issue(3)).unwrap();
        let loaded = load(&store.inner, directory()).unwrap();
        assert_eq!(summary(&loaded.state), summary(&state));
    }
}

#[test]
fn an_edit_that_finds_no_room_at_all_is_not_in_the_store_and_may_be_tried_again() {
    for fault in [Fault::Io, Fault::NoSpace, Fault::ShortWrite] {
        let mut store = faulty(writes(), OPTIONS);
        store.plan.fail_from(store.plan.count(), fault);
        for _ in 0..2 {
            let failed = append(&mut store.manifest, &store.state, &issue(2)).unwrap_err();
            assert!(matches!(failed, ManifestError::NotWritten(_)), "{failed:?}");
            for kind in [CrashKind::Kill, CrashKind::PowerCut] {
                let crashed = store.inner.crash(kind, 3, CrashSwitch::new());
                let loaded = load(&crashed, directory()).unwrap();
                assert_eq!(summary(&loaded.state), summary(&store.state));
            }
        }
        store.plan.heal();
        let state = append(&mut store.manifest, &store.state, &issue(2)).unwrap();
        let loaded = load(&store.inner, directory()).unwrap();
        assert_eq!(
            (summary(&loaded.state), loaded.torn_tail),
            (summary(&state), None)
        );
        assert_eq!(
            names(&store.inner)
                .iter()
                .filter(|n| n.starts_with("MANIFEST"))
                .count(),
            1
        );
    }
}

#[test]
fn a_sync_that_fails_poisons_the_manifest_for_good() {
    let counted = faulty(syncs(), OPTIONS);
    let before = counted.plan.count();
    drop(counted);
    for fault in [Fault::SyncLost, Fault::SyncKept] {
        let mut store = faulty(syncs(), OPTIONS);
        store.plan.fail_at(before, fault);
        let failed = append(&mut store.manifest, &store.state, &issue(2)).unwrap_err();
        assert!(matches!(failed, ManifestError::Poison(_)), "{failed:?}");
        let again = append(&mut store.manifest, &store.state, &issue(2)).unwrap_err();
        assert!(matches!(again, ManifestError::Poison(_)), "{again:?}");
        // A reopened store holds the edit or not, and nothing else.
        let (_, state) = Manifest::open(shared(&store.inner), directory(), OPTIONS).unwrap();
        assert!(state.live_arenas.len() - store.state.live_arenas.len() <= 1);
    }
}

/// Fails each operation of an append that rewrites, once and from then on; after each the store
/// holds what the answer says.
#[test]
fn whatever_fails_in_a_rewrite_the_answer_is_true() {
    let options = ManifestOptions {
        rewrite_above_bytes: 1,
    };
    let mutating = [
        Operation::Open,
        Operation::Write,
        Operation::Sync,
        Operation::Rename,
        Operation::SyncDirectory,
        Operation::Remove,
    ];
    let filter = || FaultFilter::everything().operations(&mutating);
    let start = || {
        let mut store = faulty(filter(), options);
        for generation in 2..5 {
            store.state = append(&mut store.manifest, &store.state, &issue(generation)).unwrap();
        }
        store
    };
    let mut counted = start();
    let number = counted.manifest.number;
    let from = counted.plan.count();
    let mut edits = 0;
    while counted.manifest.number == number {
        edits += 1;
        counted.state = append(&mut counted.manifest, &counted.state, &issue(4 + edits)).unwrap();
    }
    let until = counted.plan.count();
    assert!(until - from >= 8, "only {} operations", until - from);
    let mut outcomes = [0; 3];
    for at in from..until {
        for (fault, lasting) in [
            (Fault::Io, false),
            (Fault::Io, true),
            (Fault::NoSpace, true),
            (Fault::ShortWrite, true),
            (Fault::SyncLost, false),
        ] {
            let mut store = start();
            if lasting {
                store.plan.fail_from(at, fault);
            } else {
                store.plan.fail_at(at, fault);
            }
            for edit in 1..=edits {
                let next = store.state.apply(&issue(4 + edit)).unwrap();
                let appended = append(&mut store.manifest, &store.state, &issue(4 + edit));
                let found = |kind| {
                    let crashed = store.inner.crash(kind, at, CrashSwitch::new());
                    summary(&load(&crashed, directory()).unwrap().state)
                };
                let found = [found(CrashKind::Kill), found(CrashKind::PowerCut)];
                let (old, new) = (summary(&store.state), summary(&next));
                match appended {
                    Ok(_) => {
                        outcomes[0] += 1;
                        assert!(found.iter().all(|state| *state == new), "{at} {fault:?}");
                        store.state = next;
                    }
                    Err(ManifestError::NotWritten(_)) => {
                        outcomes[1] += 1;
                        assert!(found.iter().all(|state| *state == old), "{at} {fault:?}");
                        break;
                    }
                    Err(ManifestError::Poison(_)) => {
                        outcomes[2] += 1;
                        assert!(
                            found.iter().all(|s| *s == old || *s == new),
                            "{at} {fault:?}"
                        );
                        break;
                    }
                }
            }
        }
    }
    assert!(outcomes.iter().all(|&count| count > 0), "{outcomes:?}");
}

/// Crashes at every step of creating, appending, rewriting; what is found is a state that was
/// acknowledged, or the one being written.
#[test]
fn every_crash_leaves_the_last_state_or_the_next() {
    let options = ManifestOptions {
        rewrite_above_bytes: 500,
    };
    let run = |switch: CrashSwitch| {
        let storage = SimulatedStorage::new(1, switch);
        let mut acknowledged: Vec<Edit> = Vec::new();
        let mut next = None;
        let created = Manifest::create(shared(&storage), directory(), identity(), options);
        if let Ok((mut manifest, mut state)) = created {
            acknowledged.push(summary(&state));
            for edit in edits().into_iter().chain((30..50).map(issue)) {
                let after = state.apply(&edit).unwrap();
                if manifest.append(&edit, &after).is_err() {
                    next = Some(summary(&after));
                    break;
                }
                state = after;
                acknowledged.push(summary(&state));
            }
        }
        (storage, acknowledged.pop(), next)
    };
    let switch = CrashSwitch::new();
    run(switch.clone());
    let steps = switch.count();
    assert!(steps > 80, "only {steps} steps");
    for step in 0..steps {
        let (storage, last, next) = run(CrashSwitch::frozen_at(step));
        for seed in 0..8 {
            let kind = if seed == 0 {
                CrashKind::Kill
            } else {
                CrashKind::PowerCut
            };
            let crashed = shared(&storage.crash(kind, seed, CrashSwitch::new()));
            match (load(&*crashed, directory()), &last) {
                (Ok(loaded), Some(last)) => {
                    let found = summary(&loaded.state);
                    assert!(
                        found == *last || Some(&found) == next.as_ref(),
                        "step {step}"
                    );
                }
                (Ok(loaded), None) => {
                    let first = ManifestState::begin(&ManifestState::first_edit(identity()));
                    assert_eq!(summary(&loaded.state), summary(&first.unwrap()));
                }
                (Err(Error::NoStore { .. }), None) => {
                    Manifest::create(crashed, directory(), identity(), options).unwrap();
                    continue;
                }
                (Err(error), _) => panic!("step {step} seed {seed}: {error}"),
            }
            // The next life goes on from there.
            let (mut manifest, state) =
                Manifest::open(Arc::clone(&crashed), directory(), options).unwrap();
            let state = append(&mut manifest, &state, &issue(1000)).unwrap();
            let loaded = load(&*crashed, directory()).unwrap();
            assert_eq!(
                (summary(&loaded.state), loaded.torn_tail),
                (summary(&state), None)
            );
        }
    }
}

#[test]
fn a_full_disk_is_told_from_other_failures() {
    let mut store = faulty(writes(), OPTIONS);
    store.plan.fail_from(store.plan.count(), Fault::NoSpace);
    match append(&mut store.manifest, &store.state, &issue(2)).unwrap_err() {
        ManifestError::NotWritten(error) => assert!(error.is_no_space(), "{error}"),
        ManifestError::Poison(error) => panic!("{error}"),
    }
}

#[test]
fn a_dump_shows_every_record_and_a_torn_tail() {
    let storage = shared(&new_storage());
    written(&storage, OPTIONS);
    let mut bytes = bytes_of(&*storage, "MANIFEST-000001");
    let records = record_starts(&bytes).len();
    bytes.extend([0; 13]);
    let storage = store_of(&bytes);
    let path = directory().join("MANIFEST-000001");
    let items: Vec<DumpItem> = ManifestDump::open(&*storage, &path)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(items.len(), records + 1);
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
        "13 bytes",
    ] {
        assert!(text.contains(line), "no {line:?} in\n{text}");
    }
    assert!(ManifestDump::open(&*storage, &directory().join("CURRENT")).is_err());
}

#[test]
fn the_format_is_the_one_that_was_committed() {
    let storage = shared(&new_storage());
    let (_, states) = written(&storage, OPTIONS);
    let written = bytes_of(&*storage, "MANIFEST-000001");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/manifest-v1.bin");
    if std::env::var_os("TERRACE_BLESS").is_some() {
        std::fs::write(&golden, &written).unwrap();
    }
    let golden = std::fs::read(golden).unwrap();
    assert!(golden == written, "the bytes of format 1 have changed");
    let loaded = load(&*store_of(&golden), directory()).unwrap();
    assert_eq!(summary(&loaded.state), summary(states.last().unwrap()));
}

#[test]
fn a_missing_directory_is_told_from_an_unreadable_one() {
    let plan = FaultPlan::new(FaultFilter::everything().operations(&[Operation::Open]));
    let storage = FailingStorage::new(shared(&new_storage()), plan.clone());
    plan.fail_from(0, Fault::Io);
    match load(&storage, directory()).unwrap_err() {
        Error::Io(error) => assert_ne!(error.kind(), ErrorKind::NotFound),
        error => panic!("{error}"),
    }
}
