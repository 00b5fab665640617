//! Random histories, each cut by a power failure, against rules stated without the machinery.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::sample::select;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::content::{Content, SECTOR_BYTES};
use super::names::{Change, InodeNumber, Names};

#[derive(Clone, Debug)]
enum Access {
    Write {
        offset: usize,
        length: usize,
        byte: u8,
    },
    Cut {
        length: usize,
    },
    Sync,
}

fn any_access() -> impl Strategy<Value = Access> {
    prop_oneof![
        4 => (0..12_000_usize, 1..6000_usize, 1..=u8::MAX)
            .prop_map(|(offset, length, byte)| Access::Write { offset, length, byte }),
        1 => (0..12_000_usize).prop_map(|length| Access::Cut { length }),
        1 => Just(Access::Sync),
    ]
}

/// Returns the sector of a file at an offset, with zeros behind the end of the file.
fn sector(bytes: &[u8], start: usize) -> [u8; SECTOR_BYTES] {
    let mut sector = [0; SECTOR_BYTES];
    let rest = bytes.get(start..).unwrap_or_default();
    let length = rest.len().min(SECTOR_BYTES);
    sector[..length].copy_from_slice(&rest[..length]);
    sector
}

fn bytes_of(content: &Content) -> Vec<u8> {
    let mut bytes = vec![0; content.length_bytes()];
    content.read(&mut bytes, 0);
    bytes
}

type NameMap = BTreeMap<PathBuf, InodeNumber>;

#[derive(Clone, Debug)]
enum Move {
    Create(&'static str),
    Remove(&'static str),
    Rename(&'static str, &'static str),
    Sync(&'static str),
}

fn any_move() -> impl Strategy<Value = Move> {
    let path = select(vec!["/a", "/b", "/d/a", "/d/b"]);
    prop_oneof![
        3 => path.clone().prop_map(Move::Create),
        2 => path.clone().prop_map(Move::Remove),
        3 => (path.clone(), path).prop_map(|(from, to)| Move::Rename(from, to)),
        1 => select(vec!["/", "/d"]).prop_map(Move::Sync),
    ]
}

fn paths_of(change: &Change) -> Vec<&Path> {
    match change {
        Change::Add { path, .. } | Change::Remove { path } => vec![path],
        Change::Rename { from, to } => vec![from, to],
    }
}

fn share_a_path(one: &Change, other: &Change) -> bool {
    let other = paths_of(other);
    paths_of(one).iter().any(|path| other.contains(path))
}

/// All changes ever made, and which of them a sync has made durable.
#[derive(Default)]
struct History {
    changes: Vec<Change>,
    durable: Vec<bool>,
}

impl History {
    fn push(&mut self, change: Change) {
        self.changes.push(change);
        self.durable.push(false);
    }

    /// Makes a change durable, and all those that it builds upon.
    fn make_durable(&mut self, index: usize) {
        self.durable[index] = true;
        for earlier in 0..index {
            if share_a_path(&self.changes[earlier], &self.changes[index]) {
                self.make_durable(earlier);
            }
        }
    }

    fn sync(&mut self, directory: &Path) {
        for index in 0..self.changes.len() {
            let paths = paths_of(&self.changes[index]);
            if paths.iter().any(|path| path.parent() == Some(directory)) {
                self.make_durable(index);
            }
        }
    }

    /// Returns whether a subset keeps all durable changes, and with each change the earlier ones of
    /// its paths.
    fn is_legal(&self, kept: &[bool]) -> bool {
        (0..kept.len()).all(|index| {
            let builds_on_kept = (0..index).all(|earlier| {
                kept[earlier] || !share_a_path(&self.changes[earlier], &self.changes[index])
            });
            (kept[index] || !self.durable[index]) && (!kept[index] || builds_on_kept)
        })
    }

    fn legal_outcomes(&self) -> BTreeSet<NameMap> {
        let count = self.changes.len();
        let subsets = (0..1_u32 << count).map(|bits| {
            let kept = (0..count).map(|index| bits & (1 << index) != 0);
            kept.collect::<Vec<_>>()
        });
        let legal = subsets.filter(|kept| self.is_legal(kept));
        legal.map(|kept| self.names_after(&kept)).collect()
    }

    fn names_after(&self, kept: &[bool]) -> NameMap {
        let mut names = NameMap::new();
        for (change, _) in self.changes.iter().zip(kept).filter(|(_, kept)| **kept) {
            match change {
                Change::Add { path, inode } => {
                    names.insert(path.clone(), *inode);
                }
                Change::Remove { path } => {
                    names.remove(path).unwrap();
                }
                Change::Rename { from, to } => {
                    let inode = names.remove(from).unwrap();
                    names.insert(to.clone(), inode);
                }
            }
        }
        names
    }
}

fn all_names(names: &Names) -> NameMap {
    [Path::new("/"), Path::new("/d")]
        .into_iter()
        .flat_map(|directory| names.files(directory))
        .map(|(path, inode)| (path.clone(), inode))
        .collect()
}

/// Makes the moves that make sense on the names as they are.
fn play(moves: &[Move]) -> (Names, History) {
    let mut names = Names::default();
    let mut history = History::default();
    let mut next_inode = 1;
    for step in moves {
        let existing = |path: &str| names.inode(Path::new(path));
        let change = match *step {
            Move::Create(path) if existing(path).is_none() => {
                next_inode += 1;
                let (path, inode) = (PathBuf::from(path), next_inode);
                Change::Add { path, inode }
            }
            Move::Remove(path) if existing(path).is_some() => {
                let path = PathBuf::from(path);
                Change::Remove { path }
            }
            Move::Rename(from, to) if existing(from).is_some() && from != to => {
                let (from, to) = (PathBuf::from(from), PathBuf::from(to));
                Change::Rename { from, to }
            }
            Move::Sync(directory) => {
                names.sync_directory(Path::new(directory));
                history.sync(Path::new(directory));
                continue;
            }
            Move::Create(_) | Move::Remove(_) | Move::Rename(..) => continue,
        };
        names.change(change.clone());
        history.push(change);
    }
    (names, history)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Each sector is in a state, and the length has a value, that it had since the last sync.
    #[test]
    fn contents_after_a_power_cut_are_made_of_earlier_states(
        accesses in prop::collection::vec(any_access(), 1..12),
        seed in any::<u64>(),
    ) {
        let mut content = Content::default();
        let mut states = vec![Vec::new()];
        for access in accesses {
            match access {
                Access::Write { offset, length, byte } => {
                    content.write(&vec![byte; length], offset);
                    states.push(bytes_of(&content));
                }
                Access::Cut { length } => {
                    content.truncate(length);
                    states.push(bytes_of(&content));
                }
                Access::Sync => {
                    content.sync();
                    states = vec![bytes_of(&content)];
                }
            }
        }
        let mut random = StdRng::seed_from_u64(seed);
        for _ in 0..8 {
            let after = bytes_of(&content.after_power_cut(&mut random));
            prop_assert!(states.iter().any(|state| state.len() == after.len()));
            for start in (0..after.len()).step_by(SECTOR_BYTES) {
                let end = after.len().min(start + SECTOR_BYTES) - start;
                let found = &sector(&after, start)[..end];
                let legal = states.iter().any(|state| sector(state, start)[..end] == *found);
                prop_assert!(legal, "sector at {}", start);
            }
        }
    }

    /// The names are those of a legal subset of the changes, and every legal subset is reached.
    #[test]
    fn names_after_a_power_cut_are_a_legal_subset_of_the_changes(
        moves in prop::collection::vec(any_move(), 1..8),
        seed in any::<u64>(),
    ) {
        let (names, history) = play(&moves);
        let legal = history.legal_outcomes();
        let mut random = StdRng::seed_from_u64(seed);
        let mut reached = BTreeSet::new();
        for _ in 0..10_000 {
            let outcome = all_names(&names.after_power_cut(&mut random));
            prop_assert!(legal.contains(&outcome), "{:?} is not legal", outcome);
            reached.insert(outcome);
            if reached.len() == legal.len() {
                break;
            }
        }
        prop_assert_eq!(reached, legal);
    }
}
