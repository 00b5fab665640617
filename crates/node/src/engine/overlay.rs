//! Recovery that changes nothing: its writes stay in memory.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::Node;
use super::blocking::Blocking;
use crate::Result;
use crate::block::{BLOCK_BYTES, Buffer};
use crate::device::{Completion, Device, Request, Wait, Waker};

/// Recovers the namespaces in memory only. The device needs to be open for reading alone, and no
/// event loop may work with the result: small values may have no place on the device yet.
///
/// # Errors
/// The device cannot be read, or its superblock, a checkpoint or a journal is damaged.
pub fn inspect(device: &mut dyn Device) -> Result<Arc<Node>> {
    Node::open(&mut Overlay::new(device))
}

/// A device that keeps writes in memory: those of a recovery.
pub(super) struct Overlay<'a> {
    below: &'a mut dyn Device,
    written: BTreeMap<u64, Buffer>,
    completed: Vec<Completion>,
}

impl<'a> Overlay<'a> {
    pub(super) fn new(below: &'a mut dyn Device) -> Self {
        Overlay {
            below,
            written: BTreeMap::new(),
            completed: Vec::new(),
        }
    }
}

impl Device for Overlay<'_> {
    fn bytes(&self) -> u64 {
        self.below.bytes()
    }

    fn submit(&mut self, tag: u64, request: Request) {
        let buffer = match request {
            Request::Read { buffer, parts } => {
                let (mut buffer, result) = Blocking(self.below).read_parts(buffer, parts.clone());
                for part in parts.iter().filter(|_| result.is_ok()) {
                    for at in (0..part.bytes).step_by(BLOCK_BYTES) {
                        if let Some(block) = self.written.get(&(part.offset + at as u64)) {
                            buffer[part.at + at..][..BLOCK_BYTES].copy_from_slice(block);
                        }
                    }
                }
                return self.completed.push(Completion {
                    tag,
                    buffer,
                    result,
                });
            }
            Request::Write { buffer, parts } => {
                for part in &parts {
                    for at in (0..part.bytes).step_by(BLOCK_BYTES) {
                        let mut block = Buffer::zeroed(1);
                        block.copy_from_slice(&buffer[part.at + at..][..BLOCK_BYTES]);
                        self.written.insert(part.offset + at as u64, block);
                    }
                }
                buffer
            }
            Request::Flush => Buffer::default(),
        };
        self.completed.push(Completion {
            tag,
            buffer,
            result: Ok(()),
        });
    }

    fn poll(&mut self, _: Wait, completions: &mut Vec<Completion>) -> std::io::Result<()> {
        completions.append(&mut self.completed);
        Ok(())
    }

    fn start(&mut self) -> std::io::Result<()> {
        if !self.completed.is_empty() {
            self.below.waker().wake();
        }
        Ok(())
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.below.readiness()
    }

    fn waker(&self) -> Waker {
        self.below.waker()
    }
}
