//! The directories of a simulated disk: which names are durable, which changes are not yet.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use rand::RngExt;
use rand::rngs::StdRng;

use super::crash::Loss;

/// The identity of a file under all its names.
pub(super) type InodeNumber = u64;

/// Invariant: `current` is `durable` with `unsynced` applied in order.
///
/// A directory has a *home*, a path that never changes and belongs to no other: a file is known by the
/// home of its directory and its name. So an open directory stays the one that was opened when it is
/// renamed. Changes of directories are durable at once; only the names of files have a
/// history.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    /// From the paths of directories to their homes; the root is always there.
    directories: BTreeMap<PathBuf, PathBuf>,
    /// Every home that was ever given.
    homes: BTreeSet<PathBuf>,
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

/// Returns the same name for every spelling of a path; relative paths start at the root.
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

    /// Returns the home of the directory at a path.
    pub(super) fn home(&self, path: &Path) -> Option<PathBuf> {
        if path == Path::new("/") {
            return Some(PathBuf::from("/"));
        }
        self.directories.get(path).cloned()
    }

    /// Returns the key of the file at a path, if its directory is there.
    pub(super) fn key(&self, path: &Path) -> Option<PathBuf> {
        let home = self.home(path.parent()?)?;
        Some(home.join(path.file_name()?))
    }

    /// Returns the path of the directory with a home; `None` if it was removed.
    pub(super) fn path_of(&self, home: &Path) -> Option<&Path> {
        if home == Path::new("/") {
            return Some(Path::new("/"));
        }
        let mut directories = self.directories.iter();
        let found = directories.find(|(_, known)| *known == home);
        found.map(|(path, _)| path.as_path())
    }

    /// Returns whether a file's key is the name of a directory.
    pub(super) fn is_directory(&self, key: &Path) -> bool {
        let parent = key.parent().and_then(|home| self.path_of(home));
        match (parent, key.file_name()) {
            (Some(parent), Some(name)) => self.directories.contains_key(&parent.join(name)),
            _ => false,
        }
    }

    pub(super) fn add_directory(&mut self, path: &Path) {
        let mut home = path.to_path_buf();
        // An open directory that was here before keeps its home.
        while !self.homes.insert(home.clone()) {
            home = PathBuf::from(format!("/#{}", self.homes.len()));
        }
        self.directories.insert(path.to_path_buf(), home);
    }

    /// Renames a directory with everything in it.
    pub(super) fn rename_directory(&mut self, from: &Path, to: &Path) {
        let moved: Vec<PathBuf> = self
            .directories
            .keys()
            .filter(|path| path.starts_with(from))
            .cloned()
            .collect();
        for path in moved {
            if let Some(home) = self.directories.remove(&path)
                && let Ok(rest) = path.strip_prefix(from)
            {
                // Joining an empty rest would add a slash.
                let path = if rest == Path::new("") {
                    to.to_path_buf()
                } else {
                    to.join(rest)
                };
                self.directories.insert(path, home);
            }
        }
    }

    pub(super) fn remove_directory(&mut self, path: &Path) {
        self.directories.remove(path);
    }

    /// Returns the names of the directories in the one with a home.
    pub(super) fn subdirectories(&self, home: &Path) -> impl Iterator<Item = &PathBuf> {
        let parent = self.path_of(home);
        self.directories
            .keys()
            .filter(move |path| parent.is_some() && path.parent() == parent)
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

    /// Returns every inode that has a name now or that a power cut could bring back.
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

    /// Returns the names after a power cut: the durable ones and any subset of the unsynced changes
    /// in which no change is kept without the earlier ones of its names.
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
            homes: self.homes.clone(),
            current: names.clone(),
            durable: names,
            unsynced: Vec::new(),
        }
    }
}
