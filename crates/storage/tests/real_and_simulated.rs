//! Without a crash the simulated storage cannot be told from a real one, nor one on an emulated device.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use terrace_storage::{
    CrashSwitch, DeviceProfile, EmulatedDevice, EmulatedStorage, ErrorKind, File, Lock, LockKind,
    OpenMode, OpenOptions, Purpose, RealStorage, Result, SimulatedStorage, Storage,
};

const PURPOSE: Purpose = Purpose::Other;
const HANDLES: usize = 4;
/// A device without a cost.
const INSTANT: DeviceProfile = DeviceProfile {
    read_bytes_per_second: 0.0,
    write_bytes_per_second: 0.0,
    read_latency_us: 0.0,
    queued_read_latency_us: 0.0,
    sync_latency_us: 0.0,
    price_per_gb: 0.0,
    endurance_writes: 0.0,
};

#[derive(Clone, Debug)]
enum Step {
    Open(usize, &'static str, OpenMode, bool),
    Close(usize),
    Read(usize, u64, usize),
    ReadExact(usize, u64, usize),
    Write(usize, u64, usize, u8),
    Append(usize, usize, u8),
    Allocate(usize, u64),
    Truncate(usize, u64),
    StartWriteBack(usize, u64, u64),
    Sync(usize),
    Length(usize),
    CreateDirectory(&'static str),
    SyncDirectory(&'static str),
    Rename(&'static str, &'static str),
    Link(&'static str, &'static str),
    Remove(&'static str),
    List(&'static str),
    Lock(usize, LockKind),
    Unlock(usize),
}

/// Outcome of a step, in a form in which two storages can be compared.
#[derive(Debug, PartialEq)]
enum Outcome {
    Done,
    Number(u64),
    Bytes(Vec<u8>),
    Entries(Vec<(String, u64, bool)>),
    Failed(ErrorKind),
}

/// A storage with the handles that a random program holds on it.
struct Player<'a> {
    storage: &'a dyn Storage,
    root: PathBuf,
    files: [Option<Arc<dyn File>>; HANDLES],
    locks: [Option<Box<dyn Lock>>; 2],
}

impl<'a> Player<'a> {
    fn new(storage: &'a dyn Storage, root: &Path) -> Self {
        storage.create_directory(root).unwrap();
        Player {
            storage,
            root: root.to_path_buf(),
            files: Default::default(),
            locks: Default::default(),
        }
    }

    fn play(&mut self, step: &Step) -> Outcome {
        self.try_play(step)
            .unwrap_or_else(|error| Outcome::Failed(error.kind()))
    }

    fn try_play(&mut self, step: &Step) -> Result<Outcome> {
        let path = |name: &str| self.root.join(name);
        match *step {
            Step::Open(handle, name, mode, direct) => {
                self.files[handle] = None;
                let options = OpenOptions {
                    direct,
                    polled: direct,
                    ..OpenOptions::buffered(mode)
                };
                self.files[handle] = Some(self.storage.open(&path(name), options)?);
            }
            Step::Close(handle) => self.files[handle] = None,
            Step::CreateDirectory(name) => self.storage.create_directory(&path(name))?,
            Step::SyncDirectory(name) => self.storage.sync_directory(&path(name))?,
            // Names move within their directory only.
            Step::Rename(from, to) if path(from).parent() != path(to).parent() => {}
            Step::Rename(from, to) => self.storage.rename(&path(from), &path(to))?,
            Step::Link(from, to) => self.storage.link(&path(from), &path(to))?,
            Step::Remove(name) => self.storage.remove(&path(name))?,
            Step::List(name) => {
                let entries = self.storage.list(&path(name))?.into_iter();
                let entries =
                    entries.map(|entry| (entry.name, entry.length_bytes, entry.is_directory));
                return Ok(Outcome::Entries(entries.collect()));
            }
            Step::Lock(index, kind) => {
                self.locks[index] = None;
                self.locks[index] = Some(self.storage.lock(&path("LOCK"), kind)?);
            }
            Step::Unlock(index) => self.locks[index] = None,
            Step::Read(handle, ..)
            | Step::ReadExact(handle, ..)
            | Step::Write(handle, ..)
            | Step::Append(handle, ..)
            | Step::Allocate(handle, _)
            | Step::Truncate(handle, _)
            | Step::StartWriteBack(handle, ..)
            | Step::Sync(handle)
            | Step::Length(handle) => {
                if let Some(file) = &self.files[handle] {
                    return play_on_file(file.as_ref(), step);
                }
            }
        }
        Ok(Outcome::Done)
    }
}

fn play_on_file(file: &dyn File, step: &Step) -> Result<Outcome> {
    match *step {
        Step::Read(_, offset, length) => {
            let mut bytes = vec![0; length];
            let count = file.read_at(&mut bytes, offset, PURPOSE)?;
            bytes.truncate(count);
            Ok(Outcome::Bytes(bytes))
        }
        Step::ReadExact(_, offset, length) => {
            let mut bytes = vec![0; length];
            file.read_exact_at(&mut bytes, offset, PURPOSE)?;
            Ok(Outcome::Bytes(bytes))
        }
        Step::Write(_, offset, length, byte) => {
            file.write_at(&vec![byte; length], offset, PURPOSE)?;
            Ok(Outcome::Done)
        }
        Step::Append(_, length, byte) => {
            let offset = file.append(&vec![byte; length], PURPOSE)?;
            Ok(Outcome::Number(offset))
        }
        Step::Allocate(_, length) => file.allocate(length).map(|()| Outcome::Done),
        Step::Truncate(_, length) => file.truncate(length).map(|()| Outcome::Done),
        Step::StartWriteBack(_, offset, length) => file
            .start_write_back(offset, length)
            .map(|()| Outcome::Done),
        Step::Sync(_) => file.sync(PURPOSE).map(|()| Outcome::Done),
        Step::Length(_) => file.length_bytes().map(Outcome::Number),
        _ => unreachable!("not a step on a file: {step:?}"),
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    let handle = 0..HANDLES;
    let file = select(vec!["a", "b", "c", "d/a", "d/b", "e/a", "e/f/a"]);
    let directory = select(vec!["", "d", "e", "e/f", "g"]);
    let mode = select(vec![
        OpenMode::Read,
        OpenMode::ReadWrite,
        OpenMode::CreateNew,
    ]);
    let kind = select(vec![LockKind::Exclusive, LockKind::Shared]);
    let offset = prop_oneof![0..20_000_u64, (0..5_u64).prop_map(|page| page * 4096)];
    let length = prop_oneof![1..10_000_usize, (1..4_usize).prop_map(|pages| pages * 4096)];
    let opened = prop_oneof![4 => file.clone(), 1 => Just("a/below"), 1 => Just("d")];
    let target = prop_oneof![8 => file.clone(), 1 => Just("d")];
    prop_oneof![
        6 => (handle.clone(), opened, mode, any::<bool>())
            .prop_map(|(handle, name, mode, direct)| {
                // A directory can be opened for reading, but means nothing here.
                let mode = if name == "d" { OpenMode::CreateNew } else { mode };
                Step::Open(handle, name, mode, direct)
            }),
        1 => handle.clone().prop_map(Step::Close),
        4 => (handle.clone(), offset.clone(), length.clone())
            .prop_map(|(handle, offset, length)| Step::Read(handle, offset, length)),
        2 => (handle.clone(), offset.clone(), length.clone())
            .prop_map(|(handle, offset, length)| Step::ReadExact(handle, offset, length)),
        6 => (handle.clone(), offset.clone(), length.clone(), 1..u8::MAX)
            .prop_map(|(handle, offset, length, byte)| Step::Write(handle, offset, length, byte)),
        6 => (handle.clone(), length, 1..u8::MAX)
            .prop_map(|(handle, length, byte)| Step::Append(handle, length, byte)),
        1 => (handle.clone(), 1..50_000_u64)
            .prop_map(|(handle, length)| Step::Allocate(handle, length)),
        2 => (handle.clone(), offset.clone())
            .prop_map(|(handle, length)| Step::Truncate(handle, length)),
        1 => (handle.clone(), offset.clone(), 0..50_000_u64)
            .prop_map(|(handle, offset, length)| Step::StartWriteBack(handle, offset, length)),
        1 => handle.clone().prop_map(Step::Sync),
        2 => handle.prop_map(Step::Length),
        2 => directory.clone().prop_map(Step::CreateDirectory),
        1 => directory.clone().prop_map(Step::SyncDirectory),
        3 => (file.clone(), target.clone()).prop_map(|(from, to)| Step::Rename(from, to)),
        3 => (file.clone(), target.clone()).prop_map(|(from, to)| Step::Link(from, to)),
        3 => target.prop_map(Step::Remove),
        2 => directory.prop_map(Step::List),
        1 => (0..2_usize, kind).prop_map(|(index, kind)| Step::Lock(index, kind)),
        1 => (0..2_usize).prop_map(Step::Unlock),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn real_and_simulated_storage_agree(steps in prop::collection::vec(any_step(), 1..60)) {
        let directory = tempfile::tempdir().unwrap();
        let simulated = SimulatedStorage::new(1, CrashSwitch::new());
        let inner = Arc::new(SimulatedStorage::new(1, CrashSwitch::new()));
        let device = EmulatedDevice::new("instant", INSTANT).with_capacity_bytes(1 << 30);
        let emulated = EmulatedStorage::new(inner, Arc::new(device));
        let mut real = Player::new(&RealStorage, directory.path());
        let mut model = Player::new(&simulated, Path::new("/store"));
        let mut emulation = Player::new(&emulated, Path::new("/store"));
        for step in &steps {
            let outcome = real.play(step);
            prop_assert_eq!(&outcome, &model.play(step), "{:?}", step);
            prop_assert_eq!(&outcome, &emulation.play(step), "emulated: {:?}", step);
        }
    }
}
