mod damage;
mod directories;
mod editing;
mod failures;
mod marks;

use std::path::Path;

use terrace_storage::{
    Access, CrashKind, CrashSwitch, FailingStorage, Fault, FaultFilter, FaultPlan, Operation,
    SimulatedStorage, Storage,
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

fn opened(storage: &dyn Storage, path: &Path) -> Result<Arc<dyn Directory>> {
    Ok(storage.directory(path, Access::Owner)?)
}

fn load_at(storage: &dyn Storage, path: &Path) -> Result<Loaded> {
    let opened = opened(storage, path);
    load(&*opened.map_err(|error| match error {
        Error::Io(error) if error.kind() == ErrorKind::NotFound => Error::NoStore {
            path: path.to_path_buf(),
            detail: "there is no such directory".to_owned(),
        },
        error => error,
    })?)
}

fn create_at(
    storage: Arc<dyn Storage>,
    path: &Path,
    identity: Identity,
    options: ManifestOptions,
) -> Result<(Manifest, ManifestState)> {
    storage.create_directory(path)?;
    Manifest::create(opened(&*storage, path)?, identity, options)
}

fn open_at(
    storage: Arc<dyn Storage>,
    path: &Path,
    options: ManifestOptions,
) -> Result<(Manifest, ManifestState)> {
    Manifest::open(opened(&*storage, path)?, options)
}

/// Makes a manifest the current one of a directory that had none.
fn switch_at(
    storage: &dyn Storage,
    path: &Path,
    number: u64,
) -> std::result::Result<(), SwitchError> {
    let directory = opened(storage, path).map_err(SwitchError::Unchanged)?;
    current::switch(&*directory, number, true).map(drop)
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
        replaced_generation: Some(0),
    };
    vec![
        Edit {
            opening_bits: Some(0x0123_4567_89ab_cdef),
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

/// Returns the state as one edit, by which tests compare two states.
fn summary(state: &ManifestState) -> Edit {
    state.as_edit()
}

/// Makes a store with all of [`edits`], and its state after each of them.
fn written(storage: &Arc<dyn Storage>, options: ManifestOptions) -> (Manifest, Vec<ManifestState>) {
    let (mut manifest, mut state) =
        create_at(Arc::clone(storage), directory(), identity(), options).unwrap();
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
            replaced_generation: Some(0),
        }],
        ..Edit::default()
    }
}

fn bytes_of(storage: &dyn Storage, name: &str) -> Vec<u8> {
    let directory = opened(storage, directory()).unwrap();
    read_file(&*directory, name, LONGEST_BYTES, Purpose::Other).unwrap()
}

/// Makes a directory that holds a manifest of these bytes and a `CURRENT` that names it.
fn store_of(bytes: &[u8]) -> Arc<dyn Storage> {
    let storage = shared(&new_storage());
    storage.create_directory(directory()).unwrap();
    put(&*storage, "MANIFEST-000001", bytes);
    assert!(switch_at(&*storage, directory(), 1).is_ok());
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

/// Returns where each edit begins and ends.
fn edit_places(bytes: &[u8]) -> Vec<(usize, usize)> {
    let path = Path::new("MANIFEST-000001");
    let records = Records::new(path, bytes, 1).unwrap();
    records
        .map(|record| record.unwrap())
        .map(|record| (record.offset as usize, record.end as usize))
        .collect()
}

/// Returns the bytes of a manifest with all of [`edits`], and the state after each of them.
fn written_bytes() -> (Vec<u8>, Vec<ManifestState>) {
    let storage = shared(&new_storage());
    let (_, states) = written(&storage, OPTIONS);
    (bytes_of(&*storage, "MANIFEST-000001"), states)
}
