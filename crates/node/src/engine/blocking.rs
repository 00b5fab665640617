//! One request at a time, waited for, as opening and checking need it.

use std::io;

use crate::block::{Buffer, Extent};
use crate::device::{Completion, Device, Part, Request, Wait, parts_of};
use crate::{Error, Result};

/// A device whose requests are waited for. Nothing else is in flight on it.
pub(super) struct Blocking<'a>(pub(super) &'a mut dyn Device);

impl Blocking<'_> {
    /// Reads extents; their bytes follow each other.
    pub(super) fn read(&mut self, extents: &[Extent]) -> Result<Buffer> {
        let blocks: u64 = extents.iter().map(|extent| extent.blocks).sum();
        let buffer = Buffer::zeroed(blocks as usize);
        let parts = parts_of(extents);
        let answer = self.run(Request::Read { buffer, parts });
        answer.map_err(|error| Error::io(format!("read {}", names(extents)), error))
    }

    /// Writes the start of `buffer` to extents.
    pub(super) fn write(&mut self, extents: &[Extent], buffer: Buffer) -> Result<()> {
        let parts = parts_of(extents);
        let answer = self.run(Request::Write { buffer, parts });
        answer
            .map(|_| ())
            .map_err(|error| Error::io(format!("write {}", names(extents)), error))
    }

    /// Writes parts of a buffer.
    pub(super) fn write_parts(&mut self, buffer: Buffer, parts: Vec<Part>) -> Result<()> {
        let answer = self.run(Request::Write { buffer, parts });
        answer
            .map(|_| ())
            .map_err(|error| Error::io("write the journal", error))
    }

    /// Makes everything that was written durable.
    pub(super) fn flush(&mut self) -> Result<()> {
        let answer = self.run(Request::Flush);
        answer
            .map(|_| ())
            .map_err(|error| Error::io("flush the device", error))
    }

    /// Reads parts of a buffer. It comes back in any case.
    pub(super) fn read_parts(
        &mut self,
        buffer: Buffer,
        parts: Vec<Part>,
    ) -> (Buffer, io::Result<()>) {
        match self.complete(Request::Read { buffer, parts }) {
            Ok(Completion { buffer, result, .. }) => (buffer, result),
            Err(error) => (Buffer::default(), Err(error)),
        }
    }

    fn run(&mut self, request: Request) -> io::Result<Buffer> {
        let Completion { buffer, result, .. } = self.complete(request)?;
        result.map(|()| buffer)
    }

    fn complete(&mut self, request: Request) -> io::Result<Completion> {
        self.0.submit(0, request);
        let mut completions: Vec<Completion> = Vec::new();
        loop {
            self.0.poll(Wait::Yes, &mut completions)?;
            if let Some(completion) = completions.pop() {
                return Ok(completion);
            }
        }
    }
}

fn names(extents: &[Extent]) -> String {
    match extents {
        [] => "nothing".to_owned(),
        [only] => only.to_string(),
        [first, .., last] => format!("{first} and others to {last}"),
    }
}
