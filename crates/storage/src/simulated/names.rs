//! The directories of a simulated disk: which names are durable, which changes are not yet.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use rand::RngExt;
use rand::rngs::StdRng;

use super::crash::Loss;

/// The identity of a file, whatever its names.
pub(super) type InodeNumber = u64;

/// Invariant: `current` is `durable` with `unsynced` applied in order.
///
/// A directory is durable as soon as it is created and is neither renamed nor removed, so only
/// the names of files have a history.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    directories: BTreeSet<PathBuf>,
    current: BTreeMap<PathBuf, InodeNumber>,
    durable: BTreeMap<PathBuf, InodeNumber>,
    unsynced: Vec<Change>,
}

/// One change that takes place whole or not at all.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Add { path: PathBuf, inode: InodeNumber },
    Remove { path: PathBuf },
    Rename { from: PathBuf, to: PathBuf },
}

impl Change {
    fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        let (first, second) = match self {
            Change::Add { path, .. } | Change::Remove { path } => (path, None),
            Change::Rename { from, to } => (from, Some(to)),
        };
        std::iter::once(first).chain(second)
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, InodeNumber>) {
        match self {
            Change::Add { path, inode } => {
                names.insert(path.clone(), *inode);
            }
            Change::Remove { path } => {
                names.remove(path);
            }
            Change::Rename { from, to } => {
                if let Some(inode) = names.remove(from) {
                    names.insert(to.clone(), inode);
                }
            }
        }
    }
}

/// The same name for every spelling of a path; relative paths start at the root.
pub(super) fn normalise(path: &Path) -> PathBuf {
    let mut normal = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => normal.push(name),
            Component::ParentDir => {
                normal.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    normal
}

impl Names {
    pub(super) fn inode(&self, path: &Path) -> Option<InodeNumber> {
        self.current.get(path).copied()
    }

    pub(super) fn is_directory(&self, path: &Path) -> bool {
        path == Path::new("/") || self.directories.contains(path)
    }

    pub(super) fn add_directory(&mut self, path: &Path) {
        self.directories.insert(path.to_path_buf());
    }

    pub(super) fn subdirectories(&self, parent: &Path) -> impl Iterator<Item = &PathBuf> {
        self.directories
            .iter()
            .filter(move |path| path.parent() == Some(parent))
    }

    pub(super) fn files(&self, parent: &Path) -> impl Iterator<Item = (&PathBuf, InodeNumber)> {
        self.current
            .iter()
            .filter(move |(path, _)| path.parent() == Some(parent))
            .map(|(path, inode)| (path, *inode))
    }

    pub(super) fn named_inodes(&self) -> impl Iterator<Item = InodeNumber> {
        self.current.values().copied()
    }

    /// Every inode that has a name now or that a power cut could bring back.
    pub(super) fn reachable_inodes(&self) -> BTreeSet<InodeNumber> {
        let added = self.unsynced.iter().filter_map(|change| match change {
            Change::Add { inode, .. } => Some(*inode),
            Change::Remove { .. } | Change::Rename { .. } => None,
        });
        let durable = self.durable.values().copied();
        self.named_inodes().chain(durable).chain(added).collect()
    }

    pub(super) fn change(&mut self, change: Change) {
        change.apply(&mut self.current);
        self.unsynced.push(change);
    }

    /// Makes the changes of a directory durable, and with them those they build upon (a rename
    /// out of another directory needs the changes that made its source).
    pub(super) fn sync_directory(&mut self, directory: &Path) {
        let mut needed_paths = BTreeSet::new();
        let mut needed = Vec::with_capacity(self.unsynced.len());
        for change in self.unsynced.iter().rev() {
            let is_needed = change
                .paths()
                .any(|path| path.parent() == Some(directory) || needed_paths.contains(path));
            if is_needed {
                needed_paths.extend(change.paths().cloned());
            }
            needed.push(is_needed);
        }
        for (change, is_needed) in std::mem::take(&mut self.unsynced)
            .into_iter()
            .zip(needed.into_iter().rev())
        {
            if is_needed {
                change.apply(&mut self.durable);
            } else {
                self.unsynced.push(change);
            }
        }
    }

    /// What the medium holds after a power cut: the durable names and any subset of the unsynced
    /// changes in which no change is kept without the earlier ones of its names.
    pub(super) fn after_power_cut(&self, random: &mut StdRng) -> Self {
        let loss = Loss::choose(random);
        let suffix_start = random.random_range(0..=self.unsynced.len());
        let mut names = self.durable.clone();
        let mut lost_paths = BTreeSet::new();
        for (index, change) in self.unsynced.iter().enumerate() {
            let lost = match loss {
                Loss::Everything => true,
                Loss::Nothing => false,
                Loss::Suffix => index >= suffix_start,
                Loss::Scattered => random.random_bool(0.5),
            };
            if lost || change.paths().any(|path| lost_paths.contains(path)) {
                lost_paths.extend(change.paths());
            } else {
                change.apply(&mut names);
            }
        }
        Names {
            directories: self.directories.clone(),
            current: names.clone(),
            durable: names,
            unsynced: Vec::new(),
        }
    }
}
