//! Files on blocks behave as real files do, under random programs.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use terrace_storage::{
    ErrorKind, File, Lock, LockKind, OpenMode, OpenOptions, RealStorage, Result, Storage,
};

use super::{PATH, PURPOSE, formatted};
use crate::flat::disk::CHUNK_BYTES;

#[derive(Clone, Debug)]
enum Step {
    Open(usize, &'static str, OpenMode),
    Close(usize),
    Read(usize, u64, usize),
    ReadExact(usize, u64, usize),
    Write(usize, u64, usize, u8),
    Append(usize, usize, u8),
    Allocate(usize, u64),
    Truncate(usize, u64),
    Sync(usize),
    Links(usize),
    SyncDirectory,
    Rename(&'static str, &'static str),
    RenameNew(&'static str, &'static str),
    Link(&'static str, &'static str),
    Remove(&'static str),
    List,
    Lock(&'static str, LockKind),
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Done,
    Number(u64),
    Bytes(Vec<u8>),
    Entries(Vec<(String, u64, bool)>),
    Failed(ErrorKind),
}

/// A storage with the handles of a random program.
struct Player<'a> {
    storage: &'a dyn Storage,
    root: &'a Path,
    files: [Option<Arc<dyn File>>; 4],
    lock: Option<Box<dyn Lock>>,
}

impl Player<'_> {
    fn play(&mut self, step: &Step) -> Outcome {
        let played = self.try_play(step);
        played.unwrap_or_else(|error| Outcome::Failed(error.kind()))
    }

    fn try_play(&mut self, step: &Step) -> Result<Outcome> {
        let directory = self.storage.directory(self.root, Default::default())?;
        match *step {
            Step::Open(handle, name, mode) => {
                self.files[handle] = None;
                self.files[handle] = Some(directory.open(name, OpenOptions::buffered(mode))?);
            }
            Step::Close(handle) => self.files[handle] = None,
            Step::SyncDirectory => directory.sync()?,
            Step::Rename(from, to) => directory.rename(from, to)?,
            Step::RenameNew(from, to) => directory.rename_new(from, to)?,
            Step::Link(from, to) => directory.link(from, &*directory, to)?,
            Step::Remove(name) => directory.remove(name)?,
            Step::Lock(name, kind) => {
                self.lock = None;
                self.lock = Some(directory.lock(name, kind)?);
            }
            Step::List => {
                let entries = directory.list()?.into_iter();
                let entries = entries.map(|one| (one.name, one.length_bytes, one.is_directory));
                return Ok(Outcome::Entries(entries.collect()));
            }
            Step::Read(handle, ..)
            | Step::ReadExact(handle, ..)
            | Step::Write(handle, ..)
            | Step::Append(handle, ..)
            | Step::Allocate(handle, _)
            | Step::Truncate(handle, _)
            | Step::Links(handle)
            | Step::Sync(handle) => {
                if let Some(file) = &self.files[handle] {
                    return play_on_file(&**file, step);
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
            let written = file.write_at(&vec![byte; length], offset, PURPOSE);
            written.map(|()| Outcome::Done)
        }
        Step::Append(_, length, byte) => {
            let offset = file.append(&vec![byte; length], PURPOSE)?;
            Ok(Outcome::Number(offset))
        }
        Step::Allocate(_, length) => file.allocate(length).map(|()| Outcome::Done),
        Step::Truncate(_, length) => file.truncate(length).map(|()| Outcome::Done),
        Step::Sync(_) => file.sync(PURPOSE).map(|()| Outcome::Done),
        Step::Links(_) => file.links().map(Outcome::Number),
        _ => unreachable!("not a step on a file: {step:?}"),
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    let handle = 0..4_usize;
    let name = select(vec!["a", "b", "c"]);
    let mode = select(vec![
        OpenMode::Read,
        OpenMode::ReadWrite,
        OpenMode::CreateNew,
    ]);
    let kind = select(vec![LockKind::Exclusive, LockKind::Shared]);
    let offset = prop_oneof![
        4 => 0..20_000_u64,
        3 => (0..5_u64).prop_map(|page| page * 4096),
        1 => (CHUNK_BYTES - 9000)..(CHUNK_BYTES + 9000),
    ];
    let length = prop_oneof![1..10_000_usize, (1..4_usize).prop_map(|pages| pages * 4096)];
    prop_oneof![
        6 => (handle.clone(), name.clone(), mode).prop_map(|(h, n, m)| Step::Open(h, n, m)),
        1 => handle.clone().prop_map(Step::Close),
        4 => (handle.clone(), offset.clone(), length.clone())
            .prop_map(|(h, o, l)| Step::Read(h, o, l)),
        2 => (handle.clone(), offset.clone(), length.clone())
            .prop_map(|(h, o, l)| Step::ReadExact(h, o, l)),
        6 => (handle.clone(), offset.clone(), length.clone(), 1..u8::MAX)
            .prop_map(|(h, o, l, b)| Step::Write(h, o, l, b)),
        6 => (handle.clone(), length, 1..u8::MAX).prop_map(|(h, l, b)| Step::Append(h, l, b)),
        1 => (handle.clone(), 1..50_000_u64).prop_map(|(h, l)| Step::Allocate(h, l)),
        2 => (handle.clone(), offset).prop_map(|(h, l)| Step::Truncate(h, l)),
        1 => handle.clone().prop_map(Step::Sync),
        1 => handle.prop_map(Step::Links),
        1 => Just(Step::SyncDirectory),
        3 => (name.clone(), name.clone()).prop_map(|(from, to)| Step::Rename(from, to)),
        2 => (name.clone(), name.clone()).prop_map(|(from, to)| Step::RenameNew(from, to)),
        2 => (name.clone(), name.clone()).prop_map(|(from, to)| Step::Link(from, to)),
        3 => name.clone().prop_map(Step::Remove),
        2 => Just(Step::List),
        1 => (name, kind).prop_map(|(n, k)| Step::Lock(n, k)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn files_on_blocks_cannot_be_told_from_real_ones(
        steps in prop::collection::vec(any_step(), 1..60)
    ) {
        let directory = tempfile::tempdir().unwrap();
        let (_, flat) = formatted(40);
        let player = |storage, root| Player { storage, root, files: Default::default(), lock: None };
        let mut real = player(&RealStorage as &dyn Storage, directory.path());
        let mut model = player(&flat, Path::new(PATH));
        for step in &steps {
            prop_assert_eq!(real.play(step), model.play(step), "{:?}", step);
        }
    }
}
