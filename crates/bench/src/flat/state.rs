//! The files of a mounted device in memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use super::disk::CHUNK_BYTES;
use super::file::Tail;
use super::lock::Locks;
use super::space::Space;
use super::table::{FileEntry, Table};

/// A file while the device is mounted.
#[derive(Debug, Default)]
pub struct Node {
    pub length: u64,
    /// The length that tables have: that of the last sync.
    pub synced_length: u64,
    pub chunks: Vec<u32>,
    pub names: u64,
    pub handles: u64,
    /// Length or chunks are not those of the last table.
    pub is_changed: bool,
    /// Held by writers of the file.
    pub writing: Arc<Mutex<Option<Tail>>>,
}

/// Files, names and free chunks.
#[derive(Debug, Default)]
pub struct State {
    pub files: HashMap<u64, Node>,
    pub names: BTreeMap<String, u64>,
    pub space: Space,
    pub locks: Locks,
    next_file: u64,
    generation: u64,
    /// Names are not those of the last table.
    names_changed: bool,
    /// The last table is being written.
    is_committing: bool,
}

impl State {
    /// Returns the state that a table tells, on a device whose files may have these chunks.
    pub fn of(table: Table, chunks: Range<u32>) -> State {
        let all = table.files.values().flat_map(|file| &file.chunks);
        let used: BTreeSet<u32> = all.copied().collect();
        let names = table.names.values();
        let count = |number: u64| names.clone().filter(|named| **named == number).count() as u64;
        let files = table.files.iter().map(|(number, file)| {
            let node = Node {
                length: file.length,
                synced_length: file.length,
                chunks: file.chunks.clone(),
                names: count(*number),
                ..Node::default()
            };
            (*number, node)
        });
        State {
            files: files.collect(),
            space: Space::new(chunks.start, chunks.end, &used),
            next_file: table.next_file,
            generation: table.generation,
            names: table.names,
            ..State::default()
        }
    }

    /// Returns whether the last table has other names.
    pub fn names_changed(&self) -> bool {
        self.names_changed
    }

    /// Returns whether the last table may not be durable yet.
    pub fn is_committing(&self) -> bool {
        self.is_committing
    }

    /// Takes note that the last table is written, for better or worse.
    pub fn end_commit(&mut self) {
        self.is_committing = false;
    }

    /// Makes an empty file under a free name.
    pub fn create(&mut self, name: &str) -> u64 {
        self.next_file += 1;
        let file = self.next_file;
        self.files.insert(file, Node::default());
        self.name(name, file);
        file
    }

    /// Gives a file a name. The file that had the name loses it.
    pub fn name(&mut self, name: &str, file: u64) {
        let former = self.names.insert(name.to_owned(), file);
        if let Some(node) = self.files.get_mut(&file) {
            node.names += 1;
        }
        self.names_changed = true;
        if let Some(former) = former {
            self.lose_name(former);
        }
    }

    /// Takes a name away. Returns whether there was one.
    pub fn remove_name(&mut self, name: &str) -> bool {
        let Some(file) = self.names.remove(name) else {
            return false;
        };
        self.names_changed = true;
        self.lose_name(file);
        true
    }

    fn lose_name(&mut self, file: u64) {
        if let Some(node) = self.files.get_mut(&file) {
            node.names -= 1;
        }
        self.drop_unused(file);
    }

    /// Ends a handle of a file.
    pub fn close(&mut self, file: u64) {
        if let Some(node) = self.files.get_mut(&file) {
            node.handles -= 1;
        }
        self.drop_unused(file);
    }

    fn drop_unused(&mut self, file: u64) {
        let is_unused = |node: &Node| node.names == 0 && node.handles == 0;
        if self.files.get(&file).is_some_and(is_unused)
            && let Some(node) = self.files.remove(&file)
        {
            self.space.lose(node.chunks);
        }
    }

    /// Gives a file chunks up to a length, as far as there are free ones. Returns whether it has all.
    pub fn reserve(&mut self, file: u64, length: u64) -> bool {
        let Some(node) = self.files.get_mut(&file) else {
            return false;
        };
        let wanted = length.div_ceil(CHUNK_BYTES) as usize;
        while node.chunks.len() < wanted {
            let Some(chunk) = self.space.take() else {
                return false;
            };
            node.chunks.push(chunk);
            node.is_changed = true;
        }
        true
    }

    /// Cuts a file.
    pub fn truncate(&mut self, file: u64, length: u64) {
        let Some(node) = self.files.get_mut(&file) else {
            return;
        };
        let kept = length.div_ceil(CHUNK_BYTES) as usize;
        let cut = node.chunks.split_off(kept.min(node.chunks.len()));
        node.length = length;
        node.synced_length = node.synced_length.min(length);
        node.is_changed = true;
        self.space.lose(cut);
    }

    /// Returns the next table, and the chunks that are free once it is durable.
    pub fn begin_commit(&mut self, synced: Option<u64>) -> (Table, Vec<u32>) {
        self.generation += 1;
        self.names_changed = false;
        self.is_committing = true;
        let mut files = BTreeMap::new();
        for (number, node) in &mut self.files {
            if synced == Some(*number) {
                node.synced_length = node.length;
            }
            node.is_changed = node.synced_length != node.length;
            if node.names > 0 {
                let entry = FileEntry {
                    length: node.synced_length,
                    chunks: node.chunks.clone(),
                };
                files.insert(*number, entry);
            }
        }
        let table = Table {
            generation: self.generation,
            next_file: self.next_file,
            files,
            names: self.names.clone(),
        };
        (table, self.space.begin_release())
    }
}
