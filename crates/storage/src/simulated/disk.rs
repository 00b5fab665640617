//! The state behind a simulated storage: inodes, names, locks, space, and the life of the machine.
//!
//! Every operation runs under the one lock that holds the disk, and asks the crash switch there,
//! so a crash falls between two operations or into exactly one.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::content::{Content, SECTOR_BYTES};
use super::crash::CrashKind;
use super::names::{Change, InodeNumber, Names};
use crate::crash_switch::Step;
use crate::{CrashSwitch, DirectoryEntry, Error, LockKind, OpenMode, Operation, Result};

#[derive(Debug)]
pub(super) struct Disk {
    inodes: BTreeMap<InodeNumber, Inode>,
    names: Names,
    locks: BTreeMap<InodeNumber, HeldLock>,
    next_inode: InodeNumber,
    pub(super) capacity_bytes: u64,
    boot_id: [u8; 16],
    random: StdRng,
    switch: CrashSwitch,
}

#[derive(Clone, Debug, Default)]
struct Inode {
    content: Content,
    names: usize,
    handles: usize,
}

#[derive(Clone, Copy, Debug)]
enum HeldLock {
    Exclusive,
    Shared { holders: usize },
}

fn error(operation: Operation, path: &Path, kind: io::ErrorKind) -> Error {
    Error::new(operation, path, io::Error::from(kind))
}

impl Disk {
    pub(super) fn new(seed: u64, capacity_bytes: u64, switch: CrashSwitch) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        Disk {
            inodes: BTreeMap::new(),
            names: Names::default(),
            locks: BTreeMap::new(),
            next_inode: 1,
            capacity_bytes,
            boot_id: random.random(),
            random,
            switch,
        }
    }

    /// The disk that the next process finds.
    pub(super) fn after_crash(&self, kind: CrashKind, seed: u64, switch: CrashSwitch) -> Disk {
        let mut disk = Disk::new(seed, self.capacity_bytes, switch);
        disk.next_inode = self.next_inode;
        let inodes = self.inodes.iter();
        match kind {
            CrashKind::Kill => {
                disk.boot_id = self.boot_id;
                disk.names = self.names.clone();
                disk.inodes = inodes
                    .map(|(number, inode)| {
                        (
                            *number,
                            Inode {
                                handles: 0,
                                ..inode.clone()
                            },
                        )
                    })
                    .collect();
            }
            CrashKind::PowerCut => {
                while disk.boot_id == self.boot_id {
                    disk.boot_id = disk.random.random();
                }
                disk.names = self.names.after_power_cut(&mut disk.random);
                for (number, inode) in inodes {
                    let content = inode.content.after_power_cut(&mut disk.random);
                    let names = disk.names.named_inodes().filter(|named| named == number);
                    let inode = Inode {
                        content,
                        names: names.count(),
                        handles: 0,
                    };
                    disk.inodes.insert(*number, inode);
                }
            }
        }
        disk.discard_unreachable();
        disk
    }

    pub(super) fn check_alive(&self, operation: Operation, path: &Path) -> Result<()> {
        if self.switch.is_frozen() {
            return Err(CrashSwitch::error(operation, path));
        }
        Ok(())
    }

    fn step(&mut self, operation: Operation, path: &Path) -> Result<()> {
        match self.switch.advance() {
            Step::Alive => Ok(()),
            Step::Interrupted | Step::Frozen => Err(CrashSwitch::error(operation, path)),
        }
    }

    fn inode(&self, number: InodeNumber, operation: Operation, path: &Path) -> Result<&Inode> {
        let inode = self.inodes.get(&number);
        inode.ok_or_else(|| error(operation, path, io::ErrorKind::NotFound))
    }

    fn inode_mut(
        &mut self,
        number: InodeNumber,
        operation: Operation,
        path: &Path,
    ) -> Result<&mut Inode> {
        let inode = self.inodes.get_mut(&number);
        inode.ok_or_else(|| error(operation, path, io::ErrorKind::NotFound))
    }

    /// Forgets the inodes that no name, no handle and no power cut can bring back.
    fn discard_unreachable(&mut self) {
        let reachable = self.names.reachable_inodes();
        self.inodes
            .retain(|number, inode| inode.handles > 0 || reachable.contains(number));
    }

    pub(super) fn free_bytes(&self) -> u64 {
        let in_use = |inode: &&Inode| inode.names > 0 || inode.handles > 0;
        let footprints = self.inodes.values().filter(in_use);
        let used_bytes = footprints
            .map(|inode| inode.content.footprint_bytes() as u64)
            .sum();
        self.capacity_bytes.saturating_sub(used_bytes)
    }

    pub(super) fn boot_id(&self) -> [u8; 16] {
        self.boot_id
    }
}

/// Files.
impl Disk {
    /// Opens a file and counts a handle on it, to be given back with [`Disk::close`].
    pub(super) fn open(&mut self, path: &Path, mode: OpenMode) -> Result<InodeNumber> {
        let operation = Operation::Open;
        self.check_alive(operation, path)?;
        let number = match (self.names.inode(path), mode) {
            (Some(_), OpenMode::CreateNew) => {
                return Err(error(operation, path, io::ErrorKind::AlreadyExists));
            }
            (None, OpenMode::CreateNew) => self.create(operation, path)?,
            (_, OpenMode::Read | OpenMode::ReadWrite) => self.existing(operation, path)?,
        };
        self.inode_mut(number, operation, path)?.handles += 1;
        Ok(number)
    }

    fn create(&mut self, operation: Operation, path: &Path) -> Result<InodeNumber> {
        self.check_new_name(operation, path)?;
        self.step(operation, path)?;
        let inode = self.next_inode;
        self.next_inode += 1;
        self.inodes.insert(
            inode,
            Inode {
                names: 1,
                ..Inode::default()
            },
        );
        self.names.change(Change::Add {
            path: path.to_path_buf(),
            inode,
        });
        Ok(inode)
    }

    pub(super) fn close(&mut self, number: InodeNumber) {
        if let Some(inode) = self.inodes.get_mut(&number) {
            inode.handles -= 1;
            if inode.handles == 0 && inode.names == 0 {
                self.discard_unreachable();
            }
        }
    }

    pub(super) fn read(
        &self,
        number: InodeNumber,
        path: &Path,
        buffer: &mut [u8],
        offset: u64,
    ) -> Result<usize> {
        self.check_alive(Operation::Read, path)?;
        let inode = self.inode(number, Operation::Read, path)?;
        Ok(inode.content.read(buffer, offset))
    }

    pub(super) fn length_bytes(&self, number: InodeNumber, path: &Path) -> Result<u64> {
        self.check_alive(Operation::Length, path)?;
        let inode = self.inode(number, Operation::Length, path)?;
        Ok(inode.content.length_bytes() as u64)
    }

    /// Writes at an offset, or at the end if there is none, and returns the offset.
    ///
    /// A write that dies with the machine leaves a prefix that ends between two sectors, and so
    /// may one that runs out of space: it leaves what fitted.
    pub(super) fn write(
        &mut self,
        number: InodeNumber,
        path: &Path,
        bytes: &[u8],
        offset: Option<u64>,
    ) -> Result<u64> {
        let operation = Operation::Write;
        let step = self.switch.advance();
        let free_bytes = self.free_bytes();
        let content = &self.inode(number, operation, path)?.content;
        let offset = offset.unwrap_or(content.length_bytes() as u64);
        let fitting_bytes = (content.footprint_bytes() as u64)
            .saturating_add(free_bytes)
            .saturating_sub(offset);
        let fitting = usize::try_from(fitting_bytes).unwrap_or(usize::MAX);
        let fitting = bytes.get(..fitting).unwrap_or(bytes);
        let (written, outcome) = match step {
            Step::Frozen => return Err(CrashSwitch::error(operation, path)),
            Step::Interrupted => (
                self.torn_prefix(fitting, offset),
                Err(CrashSwitch::error(operation, path)),
            ),
            Step::Alive if fitting.len() < bytes.len() => (
                fitting,
                Err(error(operation, path, io::ErrorKind::StorageFull)),
            ),
            Step::Alive => (bytes, Ok(offset)),
        };
        if let Ok(offset) = usize::try_from(offset) {
            let inode = self.inode_mut(number, operation, path)?;
            inode.content.write(written, offset);
        }
        outcome
    }

    /// Nothing, everything, or the bytes up to a sector boundary of the file.
    fn torn_prefix<'a>(&mut self, bytes: &'a [u8], offset: u64) -> &'a [u8] {
        let into_sector = (offset % SECTOR_BYTES as u64) as usize;
        let sectors = (into_sector + bytes.len()).div_ceil(SECTOR_BYTES);
        let kept_sectors = self.random.random_range(0..=sectors);
        let kept = (kept_sectors * SECTOR_BYTES).saturating_sub(into_sector);
        bytes.get(..kept).unwrap_or(bytes)
    }

    pub(super) fn allocate(
        &mut self,
        number: InodeNumber,
        path: &Path,
        length_bytes: u64,
    ) -> Result<()> {
        let operation = Operation::Allocate;
        self.step(operation, path)?;
        let free_bytes = self.free_bytes();
        let content = &mut self.inode_mut(number, operation, path)?.content;
        let growth_bytes = length_bytes.saturating_sub(content.footprint_bytes() as u64);
        if growth_bytes > free_bytes {
            return Err(error(operation, path, io::ErrorKind::StorageFull));
        }
        content.reserve(usize::try_from(length_bytes).unwrap_or(usize::MAX));
        Ok(())
    }

    pub(super) fn sync(&mut self, number: InodeNumber, path: &Path) -> Result<()> {
        self.step(Operation::Sync, path)?;
        self.inode_mut(number, Operation::Sync, path)?
            .content
            .sync();
        Ok(())
    }
}

/// Names.
impl Disk {
    pub(super) fn exists(&self, path: &Path) -> bool {
        self.names.is_directory(path) || self.names.inode(path).is_some()
    }

    /// The error of a path that leads to nothing, or on through a file.
    fn missing(&self, operation: Operation, path: &Path) -> Error {
        let through_file = path
            .ancestors()
            .any(|ancestor| self.names.inode(ancestor).is_some());
        let kind = if through_file {
            io::ErrorKind::NotADirectory
        } else {
            io::ErrorKind::NotFound
        };
        error(operation, path, kind)
    }

    fn check_directory(&self, operation: Operation, path: &Path) -> Result<()> {
        if self.names.is_directory(path) {
            return Ok(());
        }
        Err(self.missing(operation, path))
    }

    /// A file may get this name: its directory exists, and it is not itself one.
    fn check_new_name(&self, operation: Operation, path: &Path) -> Result<()> {
        if self.names.is_directory(path) {
            return Err(error(operation, path, io::ErrorKind::AlreadyExists));
        }
        self.check_parent(operation, path)
    }

    fn check_parent(&self, operation: Operation, path: &Path) -> Result<()> {
        self.check_directory(operation, path.parent().unwrap_or(Path::new("/")))
    }

    fn existing(&self, operation: Operation, path: &Path) -> Result<InodeNumber> {
        if self.names.is_directory(path) {
            return Err(error(operation, path, io::ErrorKind::IsADirectory));
        }
        let inode = self.names.inode(path);
        inode.ok_or_else(|| self.missing(operation, path))
    }

    pub(super) fn create_directory(&mut self, path: &Path) -> Result<()> {
        let operation = Operation::CreateDirectory;
        self.check_alive(operation, path)?;
        let mut missing: Vec<PathBuf> = path
            .ancestors()
            .take_while(|ancestor| !self.names.is_directory(ancestor))
            .map(Path::to_path_buf)
            .collect();
        while let Some(directory) = missing.pop() {
            if self.names.inode(&directory).is_some() {
                return Err(error(operation, &directory, io::ErrorKind::AlreadyExists));
            }
            self.step(operation, &directory)?;
            self.names.add_directory(&directory);
        }
        Ok(())
    }

    pub(super) fn sync_directory(&mut self, path: &Path) -> Result<()> {
        let operation = Operation::SyncDirectory;
        self.check_alive(operation, path)?;
        self.check_directory(operation, path)?;
        self.step(operation, path)?;
        self.names.sync_directory(path);
        self.discard_unreachable();
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> Result<()> {
        let operation = Operation::Rename;
        self.check_alive(operation, from)?;
        for path in [from, to] {
            self.check_parent(operation, path)?;
        }
        let number = self.existing(operation, from)?;
        if self.names.is_directory(to) {
            return Err(error(operation, to, io::ErrorKind::IsADirectory));
        }
        let replaced = self.names.inode(to);
        if replaced == Some(number) {
            // Two names of one file: POSIX asks that nothing happen.
            return Ok(());
        }
        self.step(operation, from)?;
        if let Some(replaced) = replaced {
            self.inode_mut(replaced, operation, to)?.names -= 1;
        }
        self.names.change(Change::Rename {
            from: from.to_path_buf(),
            to: to.to_path_buf(),
        });
        self.discard_unreachable();
        Ok(())
    }

    pub(super) fn link(&mut self, from: &Path, to: &Path) -> Result<()> {
        let operation = Operation::Link;
        self.check_alive(operation, from)?;
        let inode = self.existing(operation, from)?;
        self.check_new_name(operation, to)?;
        if self.names.inode(to).is_some() {
            return Err(error(operation, to, io::ErrorKind::AlreadyExists));
        }
        self.step(operation, from)?;
        self.inode_mut(inode, operation, from)?.names += 1;
        self.names.change(Change::Add {
            path: to.to_path_buf(),
            inode,
        });
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path) -> Result<()> {
        let operation = Operation::Remove;
        self.check_alive(operation, path)?;
        let number = self.existing(operation, path)?;
        self.step(operation, path)?;
        self.inode_mut(number, operation, path)?.names -= 1;
        self.names.change(Change::Remove {
            path: path.to_path_buf(),
        });
        self.discard_unreachable();
        Ok(())
    }

    pub(super) fn list(&self, path: &Path) -> Result<Vec<DirectoryEntry>> {
        self.check_alive(Operation::List, path)?;
        self.check_directory(Operation::List, path)?;
        let name = |path: &Path| {
            let name = path.file_name().unwrap_or_default();
            name.to_string_lossy().into_owned()
        };
        let mut entries = Vec::new();
        for (file, number) in self.names.files(path) {
            entries.push(DirectoryEntry {
                name: name(file),
                length_bytes: self.length_bytes(number, file)?,
                is_directory: false,
            });
        }
        entries.extend(
            self.names
                .subdirectories(path)
                .map(|directory| DirectoryEntry {
                    name: name(directory),
                    length_bytes: 0,
                    is_directory: true,
                }),
        );
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }
}

/// Locks.
impl Disk {
    /// Locks a file and counts a handle on it, to be given back with [`Disk::unlock`].
    pub(super) fn lock(&mut self, path: &Path, kind: LockKind) -> Result<InodeNumber> {
        let operation = Operation::Lock;
        self.check_alive(operation, path)?;
        let number = match self.names.inode(path) {
            Some(number) => number,
            None => self.create(operation, path)?,
        };
        let lock = match (self.locks.get(&number), kind) {
            (None, LockKind::Exclusive) => HeldLock::Exclusive,
            (None, LockKind::Shared) => HeldLock::Shared { holders: 1 },
            (Some(HeldLock::Shared { holders }), LockKind::Shared) => HeldLock::Shared {
                holders: holders + 1,
            },
            (Some(_), _) => return Err(error(operation, path, io::ErrorKind::WouldBlock)),
        };
        self.locks.insert(number, lock);
        self.inode_mut(number, operation, path)?.handles += 1;
        Ok(number)
    }

    pub(super) fn unlock(&mut self, number: InodeNumber) {
        match self.locks.get_mut(&number) {
            Some(HeldLock::Shared { holders }) if *holders > 1 => *holders -= 1,
            _ => {
                self.locks.remove(&number);
            }
        }
        self.close(number);
    }
}
