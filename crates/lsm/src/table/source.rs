//! The file of a table as a source of checked blocks. Only here does a fault in bytes become an
//! error that names the file.

use std::path::PathBuf;
use std::sync::Arc;

use terrace_region::FrontFault;
use terrace_storage::{File, Purpose};

use super::block::Block;
use super::block_bounds::{BlockBounds, Contents};
use super::compression::{Unsealed, unseal};
use super::copies::{Copied, TableCopies};
use super::format::{
    self, BLOCK_TRAILER_BYTES, BlockHandle, HEADER, HEADER_BYTES, Malformed, TRAILER_BYTES,
    TrailerFault,
};
use super::index_block::IndexBlock;
use super::read_ahead::Runs;
use super::reads::TableReads;
use crate::time_profile::{Stage, leaf};
use crate::{Error, Result};

/// A position that lies in no part of a file.
const IN_NO_PART: u64 = u64::MAX;

#[derive(Debug)]
pub(super) struct BlockSource {
    pub(super) file: Arc<dyn File>,
    pub(super) path: PathBuf,
    pub(super) runs: Runs,
    pub(super) bounds: BlockBounds,
    /// Where the reads of blocks are counted, for a table that is listed.
    pub(super) reads: Option<Arc<TableReads>>,
    /// Copies on a faster device, which reads of one block ask first.
    pub(super) copies: Option<TableCopies>,
}

impl BlockSource {
    /// Checks the trailer, and returns where the footer is. The header is left to
    /// [`BlockSource::check_header`]: it says nothing that the trailer does not say.
    pub(super) fn read_trailer(&self, file_bytes: u64, purpose: Purpose) -> Result<BlockHandle> {
        const LEAST: u64 = (HEADER_BYTES + TRAILER_BYTES) as u64;
        if file_bytes < LEAST {
            let detail = format!("a table has at least {LEAST} bytes, this file has {file_bytes}");
            return Err(Error::corruption(&self.path, file_bytes, detail));
        }
        let offset = file_bytes - TRAILER_BYTES as u64;
        let mut trailer = [0; TRAILER_BYTES];
        self.file.read_exact_at(&mut trailer, offset, purpose)?;
        let footer = format::decode_trailer(&trailer, offset).map_err(|fault| match fault {
            TrailerFault::Malformed(fault) => {
                Error::corruption(&self.path, offset + fault.position as u64, fault.detail)
            }
            TrailerFault::UnknownVersion(version) => {
                Error::unknown_version(&self.path, "table", version, format::VERSION)
            }
        })?;
        self.check_place(footer, offset, offset)?;
        Ok(footer)
    }

    /// Checks the first bytes of a table whose trailer is whole. The trailer has decided on the
    /// version, so every other header is damage.
    pub(super) fn check_header(&self, purpose: Purpose) -> Result<()> {
        let mut header = [0; HEADER_BYTES];
        self.file.read_exact_at(&mut header, 0, purpose)?;
        HEADER.check(&header).map_err(|fault| match fault {
            FrontFault::Damaged { offset, detail } => Error::corruption(&self.path, offset, detail),
            FrontFault::UnknownVersion(version) => {
                let detail = format!("the header says version {version}, and the trailer does not");
                Error::corruption(&self.path, 0, detail)
            }
        })
    }

    /// Refuses a handle that does not lie between the header and `limit`. `named_at` is where in
    /// the file the handle was found.
    pub(super) fn check_place(&self, handle: BlockHandle, limit: u64, named_at: u64) -> Result<()> {
        if is_inside(handle, limit) {
            return Ok(());
        }
        let detail = format!(
            "a block is said to be at byte {} with {} bytes, which is not inside the file",
            handle.offset, handle.length_bytes
        );
        Err(Error::corruption(&self.path, named_at, detail))
    }

    /// Reads and unseals the block at a handle whose place has been checked: the length is then
    /// no more than the file's.
    pub(super) fn read(
        &self,
        handle: BlockHandle,
        contents: Contents,
        purpose: Purpose,
    ) -> Result<Unsealed> {
        let stored = match contents {
            Contents::Data => self.read_stored(handle, purpose)?,
            // It is for keys of other parts of the file than its own.
            Contents::Partition => {
                let length = self.length_of(handle)?;
                self.read_counted(length, handle.offset, purpose, IN_NO_PART)?
            }
            // Parts beside the entries. Reports read sketches, too.
            _ => {
                let length = self.length_of(handle)?;
                self.file.read_vec_at(length, handle.offset, purpose)?
            }
        };
        self.unseal(handle, contents, stored)
    }

    fn read_stored(&self, handle: BlockHandle, purpose: Purpose) -> Result<Vec<u8>> {
        let length = self.length_of(handle)?;
        Ok(self.read_bytes(length, handle.offset, purpose)?)
    }

    fn length_of(&self, handle: BlockHandle) -> Result<usize> {
        usize::try_from(handle.length_bytes)
            .map_err(|_| self.corruption(handle, Malformed::new(0, "the block is too long")))
    }

    /// Reads bytes as they are stored, and counts them: a block that leads to entries, or many.
    pub(super) fn read_bytes(
        &self,
        length: usize,
        offset: u64,
        purpose: Purpose,
    ) -> terrace_storage::Result<Vec<u8>> {
        self.read_counted(length, offset, purpose, offset)
    }

    /// Reads bytes as they are stored, and counts them for the part of the file with a position.
    fn read_counted(
        &self,
        length: usize,
        offset: u64,
        purpose: Purpose,
        counted_at: u64,
    ) -> terrace_storage::Result<Vec<u8>> {
        let began = self.reads.as_ref().and_then(|reads| reads.begin());
        let stored = self.file.read_vec_at(length, offset, purpose)?;
        if let Some(reads) = &self.reads {
            reads.count(counted_at, stored.len() as u64, purpose, began);
        }
        Ok(stored)
    }

    fn unseal(&self, handle: BlockHandle, contents: Contents, stored: Vec<u8>) -> Result<Unsealed> {
        let most = self.bounds.most(contents, stored.len());
        unseal(stored, handle.offset, most).map_err(|fault| {
            let offset = handle.offset + fault.position as u64;
            Error::corruption(&self.path, offset, fault.detail)
        })
    }

    pub(super) fn read_block(
        &self,
        handle: BlockHandle,
        contents: Contents,
        purpose: Purpose,
    ) -> Result<Block> {
        self.decode(handle, self.read(handle, contents, purpose)?.contents)
    }

    /// Returns a block by its copy on a faster device, or else from the file. Then the copies may take it.
    /// `is_counted`: the read tells how often the block is wanted.
    pub(super) fn read_copied(
        &self,
        handle: BlockHandle,
        contents: Contents,
        (purpose, is_counted): (Purpose, bool),
    ) -> Result<Block> {
        let Some(copies) = &self.copies else {
            return self.read_block(handle, contents, purpose);
        };
        let is_wanted = match copies.look(handle, is_counted) {
            Copied::Found(stored) => match self.unseal(handle, contents, stored) {
                Ok(unsealed) => return self.decode(handle, unsealed.contents),
                Err(_) => false,
            },
            Copied::Wanted => true,
            Copied::Unwanted => false,
        };
        if !is_wanted {
            return self.read_block(handle, contents, purpose);
        }
        let stored = self.read_stored(handle, purpose)?;
        let unsealed = self.unseal(handle, contents, stored.clone())?;
        copies.offer(handle, stored);
        self.decode(handle, unsealed.contents)
    }

    fn decode(&self, handle: BlockHandle, contents: Vec<u8>) -> Result<Block> {
        let _decode = leaf(Stage::Decode);
        Block::new(contents).map_err(|fault| self.corruption(handle, fault))
    }

    /// Returns a data block from its stored bytes, which were read as part of more.
    pub(super) fn block_of(&self, handle: BlockHandle, stored: Vec<u8>) -> Result<Block> {
        self.decode(
            handle,
            self.unseal(handle, Contents::Data, stored)?.contents,
        )
    }

    /// Reads an index block, whose children lie before it.
    pub(super) fn read_index(
        &self,
        handle: BlockHandle,
        contents: Contents,
        purpose: Purpose,
    ) -> Result<IndexBlock> {
        self.index_of(handle, &self.read_block(handle, contents, purpose)?)
    }

    /// Returns a block as a block of the index.
    pub(super) fn index_of(&self, handle: BlockHandle, block: &Block) -> Result<IndexBlock> {
        let _decode = leaf(Stage::Decode);
        IndexBlock::new(block, |child| is_inside(child, handle.offset))
            .map_err(|fault| self.corruption(handle, fault))
    }

    /// Returns the error for a fault inside a block, which may be compressed. The offset is the
    /// block's; the position within its contents is in the text.
    pub(super) fn corruption(&self, handle: BlockHandle, fault: Malformed) -> Error {
        let detail = format!("{} (byte {} of its block)", fault.detail, fault.position);
        Error::corruption(&self.path, handle.offset, detail)
    }
}

/// Returns whether a block lies between the header and `limit`.
fn is_inside(handle: BlockHandle, limit: u64) -> bool {
    handle.offset >= HEADER_BYTES as u64
        && handle.length_bytes > BLOCK_TRAILER_BYTES as u64
        && handle.end().is_some_and(|end| end <= limit)
}
