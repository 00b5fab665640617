//! Requests of which parts are on their way, and the memory that these parts point to.
//!
//! A [`Flight`] owns each request's buffer from the begin to the completion of its last piece. The
//! ring relies on that: nothing here frees, moves or touches the memory of a buffer before.

use std::collections::VecDeque;
use std::io;

use super::{Completion, Kind, Request, transfer};
use crate::block::Buffer;

/// One call to the system: a part of a request, or the rest of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) kind: Kind,
    /// Exposed address of the memory, inside the request's buffer; 0 for a flush.
    pub(super) address: usize,
    pub(super) bytes: usize,
    /// Offset on the device.
    pub(super) offset: u64,
    /// Key of the request.
    request: usize,
}

/// A request that has begun.
struct Begun {
    tag: u64,
    buffer: Buffer,
    pieces_left: usize,
    result: io::Result<()>,
}

/// Values under small numbers, which are used again.
struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Slab<T> {
    fn new() -> Self {
        Slab {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    fn insert(&mut self, value: T) -> usize {
        if let Some(key) = self.free.pop() {
            self.slots[key] = Some(value);
            return key;
        }
        self.slots.push(Some(value));
        self.slots.len() - 1
    }

    fn get_mut(&mut self, key: usize) -> Option<&mut T> {
        self.slots.get_mut(key)?.as_mut()
    }

    fn remove(&mut self, key: usize) -> Option<T> {
        let value = self.slots.get_mut(key)?.take()?;
        self.free.push(key);
        Some(value)
    }
}

/// All requests of a device that have begun and not completed.
pub(super) struct Flight {
    requests: Slab<Begun>,
    pieces: Slab<Piece>,
    /// Keys of pieces that the system has not been asked for.
    waiting: VecDeque<usize>,
    count: usize,
}

impl Flight {
    pub(super) fn new() -> Self {
        Flight {
            requests: Slab::new(),
            pieces: Slab::new(),
            waiting: VecDeque::new(),
            count: 0,
        }
    }

    /// Returns the number of pieces that the system has not been asked for.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns true if no request has begun and not completed.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Begins a request; returns its completion if there is nothing to do.
    pub(super) fn begin(
        &mut self,
        tag: u64,
        request: Request,
        device_bytes: u64,
    ) -> Option<Completion> {
        let checked = request.check(device_bytes);
        let (kind, mut buffer, parts) = request.dismantle();
        if checked.is_err() || (parts.is_empty() && kind != Kind::Flush) {
            return Some(Completion {
                tag,
                buffer,
                result: checked,
            });
        }
        // The one use of a reference to the memory: the system writes to it behind the compiler's back.
        let base = buffer.as_mut_ptr().expose_provenance();
        let request = self.requests.insert(Begun {
            tag,
            buffer,
            pieces_left: parts.len().max(1),
            result: Ok(()),
        });
        self.count += 1;
        for part in &parts {
            self.wait(Piece {
                kind,
                address: base + part.at,
                bytes: part.bytes,
                offset: part.offset,
                request,
            });
        }
        if kind == Kind::Flush {
            self.wait(Piece {
                kind,
                address: 0,
                bytes: 0,
                offset: 0,
                request,
            });
        }
        None
    }

    fn wait(&mut self, piece: Piece) {
        let key = self.pieces.insert(piece);
        self.waiting.push_back(key);
    }

    /// Takes the next piece to ask the system for, and its key.
    pub(super) fn next(&mut self) -> Option<(usize, Piece)> {
        let key = self.waiting.pop_front()?;
        let piece = *self.pieces.get_mut(key)?;
        Some((key, piece))
    }

    /// Puts back a piece that the system was not asked for.
    pub(super) fn put_back(&mut self, key: usize) {
        self.waiting.push_front(key);
    }

    /// Forgets the pieces that the system was not asked for; their requests never complete.
    pub(super) fn forget_waiting(&mut self) {
        self.waiting.clear();
    }

    /// Notes the system's answer to a piece, a count of bytes or an error's number below zero. Returns
    /// the request's completion if that was its last piece.
    pub(super) fn answer(&mut self, key: usize, answer: i32) -> Option<Completion> {
        let piece = self.pieces.get_mut(key)?;
        let result = match rest_of(piece, answer) {
            Ok(Some(rest)) => {
                *piece = rest;
                self.waiting.push_front(key);
                return None;
            }
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        let request = self.pieces.remove(key)?.request;
        let begun = self.requests.get_mut(request)?;
        if begun.result.is_ok() {
            begun.result = result;
        }
        begun.pieces_left -= 1;
        if begun.pieces_left > 0 {
            return None;
        }
        self.count -= 1;
        let begun = self.requests.remove(request)?;
        Some(Completion {
            tag: begun.tag,
            buffer: begun.buffer,
            result: begun.result,
        })
    }
}

/// Returns the part of a piece that is still to be done after an answer.
fn rest_of(piece: &Piece, answer: i32) -> io::Result<Option<Piece>> {
    let Ok(done) = usize::try_from(answer) else {
        return match answer.wrapping_neg() {
            // A thread that ends takes its requests back.
            libc::EINTR | libc::EAGAIN | libc::ECANCELED => Ok(Some(*piece)),
            error => Err(io::Error::from_raw_os_error(error)),
        };
    };
    match piece.kind {
        Kind::Flush => return Ok(None),
        Kind::Read if done == 0 => return Err(transfer::end_met(piece.offset)),
        Kind::Write if done == 0 => return Err(transfer::nothing_written(piece.offset)),
        Kind::Read | Kind::Write => {}
    }
    let rest = Piece {
        address: piece.address + done,
        bytes: piece.bytes.saturating_sub(done),
        offset: piece.offset + done as u64,
        ..*piece
    };
    Ok((rest.bytes > 0).then_some(rest))
}

#[cfg(test)]
mod tests {
    use super::super::Part;
    use super::*;

    fn read(blocks: usize, parts: &[Part]) -> Request {
        Request::Read {
            buffer: Buffer::zeroed(blocks),
            parts: parts.to_vec(),
        }
    }

    fn part(at: usize, bytes: usize, offset: u64) -> Part {
        Part { at, bytes, offset }
    }

    #[test]
    fn short_and_interrupted_pieces_go_on() {
        let mut flight = Flight::new();
        let request = read(4, &[part(4096, 12288, 8192)]);
        assert!(flight.begin(7, request, 1 << 20).is_none());
        let (key, whole) = flight.next().unwrap();
        for error in [libc::EINTR, libc::EAGAIN, libc::ECANCELED] {
            assert!(flight.answer(key, -error).is_none());
            assert_eq!(flight.next(), Some((key, whole)));
        }
        assert!(flight.answer(key, 5120).is_none());
        let (key, rest) = flight.next().unwrap();
        assert_eq!((rest.address - whole.address, rest.bytes), (5120, 7168));
        assert_eq!(rest.offset, 8192 + 5120);
        let completion = flight.answer(key, 7168).unwrap();
        assert_eq!((completion.tag, completion.buffer.blocks()), (7, 4));
        assert!(completion.result.is_ok() && flight.is_empty());
    }

    #[test]
    fn the_buffer_stays_until_the_last_piece() {
        let mut flight = Flight::new();
        let parts = [
            part(0, 4096, 0),
            part(4096, 4096, 65536),
            part(8192, 4096, 0),
        ];
        assert!(flight.begin(1, read(3, &parts), 1 << 20).is_none());
        let keys: Vec<usize> = (0..3).map(|_| flight.next().unwrap().0).collect();
        assert!(flight.answer(keys[2], -libc::EIO).is_none());
        assert!(flight.answer(keys[0], -libc::ENXIO).is_none());
        let completion = flight.answer(keys[1], 4096).unwrap();
        let error = completion.result.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EIO), "the first one");
        assert!(flight.answer(keys[1], 4096).is_none(), "answered once only");
    }

    #[test]
    fn nothing_moved_is_an_error() {
        let mut flight = Flight::new();
        assert!(
            flight
                .begin(1, read(1, &[part(0, 4096, 0)]), 4096)
                .is_none()
        );
        let (key, _) = flight.next().unwrap();
        let error = flight.answer(key, 0).unwrap().result.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(flight.begin(2, Request::Flush, 4096).is_none());
        let (key, _) = flight.next().unwrap();
        assert!(flight.answer(key, 0).unwrap().result.is_ok());
    }
}
