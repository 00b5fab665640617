//! The state behind a simulated storage: inodes, names, locks, space, and the life of the machine.
//!
//! Every operation runs under the one lock that holds the disk, and asks the crash switch there. So
//! a crash falls between two operations or into exactly one.

mod directories;
mod files;
mod locks;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::content::Content;
use super::crash::CrashKind;
use super::names::{InodeNumber, Names};
use crate::crash_switch::Step;
use crate::{CrashSwitch, Error, Operation, Result};

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

    /// Returns the disk that the next process finds.
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
