//! Opening, reading, writing and syncing files.

use std::io;
use std::path::Path;

use rand::RngExt;

use super::{Disk, Inode, error};
use crate::crash_switch::Step;
use crate::simulated::content::SECTOR_BYTES;
use crate::simulated::names::{Change, InodeNumber};
use crate::{CrashSwitch, OpenMode, Operation, Result};

impl Disk {
    /// Opens a file and counts a handle on it, to be given back with [`Disk::close`].
    pub(in crate::simulated) fn open(
        &mut self,
        path: &Path,
        mode: OpenMode,
    ) -> Result<InodeNumber> {
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

    pub(super) fn create(&mut self, operation: Operation, path: &Path) -> Result<InodeNumber> {
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

    pub(in crate::simulated) fn close(&mut self, number: InodeNumber) {
        if let Some(inode) = self.inodes.get_mut(&number) {
            inode.handles -= 1;
            if inode.handles == 0 && inode.names == 0 {
                self.discard_unreachable();
            }
        }
    }

    pub(in crate::simulated) fn read(
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

    pub(in crate::simulated) fn length_bytes(
        &self,
        number: InodeNumber,
        path: &Path,
    ) -> Result<u64> {
        self.check_alive(Operation::Length, path)?;
        let inode = self.inode(number, Operation::Length, path)?;
        Ok(inode.content.length_bytes() as u64)
    }

    pub(in crate::simulated) fn links(&self, number: InodeNumber, path: &Path) -> Result<u64> {
        self.check_alive(Operation::Length, path)?;
        Ok(self.inode(number, Operation::Length, path)?.names as u64)
    }

    /// Writes at an offset, or at the end if there is none, and returns the offset.
    ///
    /// A write that dies with the machine leaves a prefix that ends between two sectors. A write
    /// that runs out of space may leave a prefix, too: the bytes that fitted.
    pub(in crate::simulated) fn write(
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

    /// Returns nothing, everything, or the bytes up to a sector boundary of the file.
    fn torn_prefix<'a>(&mut self, bytes: &'a [u8], offset: u64) -> &'a [u8] {
        let into_sector = (offset % SECTOR_BYTES as u64) as usize;
        let sectors = (into_sector + bytes.len()).div_ceil(SECTOR_BYTES);
        let kept_sectors = self.random.random_range(0..=sectors);
        let kept = (kept_sectors * SECTOR_BYTES).saturating_sub(into_sector);
        bytes.get(..kept).unwrap_or(bytes)
    }

    pub(in crate::simulated) fn allocate(
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

    pub(in crate::simulated) fn truncate(
        &mut self,
        number: InodeNumber,
        path: &Path,
        length_bytes: u64,
    ) -> Result<()> {
        let operation = Operation::Truncate;
        self.step(operation, path)?;
        let content = &mut self.inode_mut(number, operation, path)?.content;
        if let Ok(length) = usize::try_from(length_bytes) {
            content.truncate(length);
        }
        Ok(())
    }

    pub(in crate::simulated) fn sync(&mut self, number: InodeNumber, path: &Path) -> Result<()> {
        self.step(Operation::Sync, path)?;
        self.inode_mut(number, Operation::Sync, path)?
            .content
            .sync();
        Ok(())
    }

    /// Loses the changes of a file since its last sync; see `Content::lose_unsynced`.
    pub(in crate::simulated) fn lose_unsynced(&mut self, path: &Path) -> Result<()> {
        let number = self.existing(Operation::Open, path)?;
        let inode = self.inode_mut(number, Operation::Sync, path)?;
        inode.content.lose_unsynced();
        Ok(())
    }
}
