//! Storage that fails, is full, or dies with the machine.

use super::*;

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
    let (mut manifest, state) = create_at(storage, directory(), identity(), options).unwrap();
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
        let loaded = load_at(&store.inner, directory()).unwrap();
        assert_eq!(summary(&loaded.state), summary(&state));
        // And the fresh manifest takes edits as any other.
        let state = append(&mut store.manifest, &state, &issue(3)).unwrap();
        let loaded = load_at(&store.inner, directory()).unwrap();
        assert_eq!(summary(&loaded.state), summary(&state));
    }
}

#[test]
fn a_mark_that_cannot_be_written_changes_nothing() {
    for fault in [Fault::Io, Fault::NoSpace, Fault::ShortWrite] {
        let mut store = faulty(writes(), OPTIONS);
        // Behind the write of the edit.
        store.plan.fail_at(store.plan.count() + 1, fault);
        let mut state = store.state;
        for generation in 2..4 {
            state = append(&mut store.manifest, &state, &issue(generation)).unwrap();
            assert_eq!(store.manifest.number, 1, "no fresh manifest: {fault:?}");
            let loaded = load_at(&store.inner, directory()).unwrap();
            assert_eq!(summary(&loaded.state), summary(&state), "{fault:?}");
            assert_eq!(loaded.tail, None, "{fault:?}");
        }
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
                let loaded = load_at(&crashed, directory()).unwrap();
                assert_eq!(summary(&loaded.state), summary(&store.state));
            }
        }
        store.plan.heal();
        let state = append(&mut store.manifest, &store.state, &issue(2)).unwrap();
        let loaded = load_at(&store.inner, directory()).unwrap();
        assert_eq!(
            (summary(&loaded.state), loaded.tail),
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
        store.manifest.unlock();
        // A reopened store holds the edit or not, and nothing else.
        let (_, state) = open_at(shared(&store.inner), directory(), OPTIONS).unwrap();
        assert!(state.live_arenas.len() - store.state.live_arenas.len() <= 1);
    }
}

/// Fails each operation of an append that rewrites, once and from then on; after each the store
/// holds the state that the answer names.
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
                    summary(&load_at(&crashed, directory()).unwrap().state)
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

/// Crashes at every step of creating, appending, rewriting. A reopening finds a state that was
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
        let created = create_at(shared(&storage), directory(), identity(), options);
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
            match (load_at(&*crashed, directory()), &last) {
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
                    create_at(crashed, directory(), identity(), options).unwrap();
                    continue;
                }
                (Err(error), _) => panic!("step {step} seed {seed}: {error}"),
            }
            // The next life goes on from there.
            let (mut manifest, state) =
                open_at(Arc::clone(&crashed), directory(), options).unwrap();
            let state = append(&mut manifest, &state, &issue(1000)).unwrap();
            let loaded = load_at(&*crashed, directory()).unwrap();
            assert_eq!(
                (summary(&loaded.state), loaded.tail),
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
