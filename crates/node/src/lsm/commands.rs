//! Store and retrieve commands under way: their pieces.

use std::collections::VecDeque;
use std::sync::Arc;

use terrace::{Snapshot, Value};

use super::INLINE_BYTES;
use super::engine::{Active, LsmEngine};
use super::head::Head;
use super::namespace::{Namespace, Opened, Source};
use super::threads::{ChangeKind, KeyChange, ReadKind, Write};
use crate::Key;
use crate::block::{Buffer, blocks_of};
use crate::engine::{Answer, Condition, Event, Failure, PIECE_BYTES};

/// The most pieces of one command that are under way: one moves while the next is fetched.
const MAX_PIECES: usize = 2;

/// A store under way.
pub(super) struct Store {
    namespace: Arc<Namespace>,
    key: Key,
    value_bytes: u32,
    condition: Condition,
    /// The version of its pieces; none if the value lies with its key.
    version: Option<u64>,
    /// Place in the value of the next piece to be wanted.
    next_want: u32,
    /// Pieces that the caller has: place and size.
    pub(super) wanted: VecDeque<(u32, u32)>,
    /// Pieces that are being written.
    writing: usize,
    /// Whether a piece was ever sent to be written.
    has_pieces: bool,
    pub(super) waits_for_buffer: bool,
    /// Whether its change is in a thread's hands.
    is_committing: bool,
    failure: Option<Failure>,
}

/// A retrieve under way.
pub(super) struct Retrieve {
    namespace: Arc<Namespace>,
    max_bytes: u32,
    /// Size of the value, and where its bytes are; none until it is opened.
    found: Option<(u32, Bytes)>,
    /// Bytes to hand out.
    limit: u32,
    /// Place of the next piece to be read.
    next_read: u32,
    /// Place and size of the piece that is being read.
    reading: Option<(u32, u32)>,
    /// Pieces that the caller has.
    pub(super) with_caller: usize,
    pub(super) waits_for_buffer: bool,
    failure: Option<Failure>,
}

enum Bytes {
    /// Nowhere: the retrieve has failed.
    None,
    Record(Value),
    Pieces(Arc<Snapshot>, u64),
}

impl Store {
    pub(super) fn new(
        namespace: &Arc<Namespace>,
        key: Key,
        value_bytes: u32,
        condition: Condition,
    ) -> Self {
        let version = (value_bytes > INLINE_BYTES).then(|| namespace.next_version());
        Store {
            namespace: Arc::clone(namespace),
            key,
            value_bytes,
            condition,
            version,
            next_want: 0,
            wanted: VecDeque::new(),
            writing: 0,
            has_pieces: false,
            waits_for_buffer: false,
            is_committing: false,
            failure: None,
        }
    }

    fn change(&self, tag: u64, kind: ChangeKind) -> Write {
        Write::Change(KeyChange {
            tag,
            namespace: Arc::clone(&self.namespace),
            key: self.key,
            kind,
        })
    }
}

impl Retrieve {
    pub(super) fn new(namespace: &Arc<Namespace>, max_bytes: u32) -> Self {
        Retrieve {
            namespace: Arc::clone(namespace),
            max_bytes,
            found: None,
            limit: 0,
            next_read: 0,
            reading: None,
            with_caller: 0,
            waits_for_buffer: false,
            failure: None,
        }
    }
}

impl LsmEngine {
    fn store(&mut self, tag: u64) -> Option<&mut Store> {
        match self.commands.get_mut(&tag) {
            Some(Active::Store(store)) => Some(store),
            _ => None,
        }
    }

    fn retrieve(&mut self, tag: u64) -> Option<&mut Retrieve> {
        match self.commands.get_mut(&tag) {
            Some(Active::Retrieve(retrieve)) => Some(retrieve),
            _ => None,
        }
    }

    /// Asks the caller for pieces, as long as there are buffers.
    pub(super) fn want_pieces(&mut self, tag: u64) {
        loop {
            let Some(store) = self.store(tag) else {
                return;
            };
            let is_busy = store.waits_for_buffer || store.is_committing || store.failure.is_some();
            if is_busy || store.wanted.len() + store.writing >= MAX_PIECES {
                return;
            }
            if store.value_bytes == 0 {
                return self.commit_whole(tag, Buffer::default());
            }
            let offset = store.next_want;
            let bytes = PIECE_BYTES.min(store.value_bytes - offset);
            if bytes == 0 {
                return;
            }
            let Some(buffer) = self.buffers.take(blocks_of(bytes.into()) as usize) else {
                if let Some(store) = self.store(tag) {
                    store.waits_for_buffer = true;
                }
                return self.buffer_waiters.push_back(tag);
            };
            if let Some(store) = self.store(tag) {
                store.next_want += bytes;
                store.wanted.push_back((offset, bytes));
            }
            self.events.push(Event::Want {
                tag,
                offset,
                bytes,
                buffer,
            });
        }
    }

    /// Takes a piece from the caller.
    pub(super) fn piece_supplied(&mut self, tag: u64, buffer: Buffer) {
        let Some(store) = self.store(tag) else {
            return self.buffers.put(buffer);
        };
        let piece = store.wanted.pop_front();
        let has_failed = store.failure.is_some();
        let Some((offset, bytes)) = piece.filter(|_| !has_failed) else {
            self.buffers.put(buffer);
            return self.settle_store(tag);
        };
        let Some(version) = store.version else {
            return self.commit_whole(tag, buffer);
        };
        store.writing += 1;
        store.has_pieces = true;
        let (key, namespace) = (store.key, Arc::clone(&store.namespace));
        let piece = Write::Piece(tag, namespace, buffer, (version, offset, bytes));
        self.write(&key, piece);
        self.want_pieces(tag);
    }

    pub(super) fn piece_written(&mut self, tag: u64, buffer: Buffer, result: Result<(), Failure>) {
        self.buffers.put(buffer);
        if let Some(store) = self.store(tag) {
            store.writing -= 1;
        }
        match result {
            Ok(()) => {
                self.want_pieces(tag);
                self.settle_store(tag);
            }
            Err(failure) => self.fail_store(tag, failure),
        }
    }

    fn commit_whole(&mut self, tag: u64, buffer: Buffer) {
        let Some(store) = self.store(tag) else {
            return self.buffers.put(buffer);
        };
        store.is_committing = true;
        let kind = ChangeKind::Whole(store.condition, buffer, store.value_bytes);
        let (key, change) = (store.key, store.change(tag, kind));
        self.write(&key, change);
    }

    pub(super) fn fail_store(&mut self, tag: u64, failure: Failure) {
        let Some(store) = self.store(tag) else {
            return;
        };
        // The change of one that commits decides.
        if !store.is_committing {
            store.failure.get_or_insert(failure);
            self.settle_store(tag);
        }
    }

    /// Goes on once nothing of the store is under way: to its change, or to its end.
    fn settle_store(&mut self, tag: u64) {
        let Some(store) = self.store(tag) else {
            return;
        };
        if store.is_committing || store.writing > 0 || !store.wanted.is_empty() {
            return;
        }
        let (key, version) = (store.key, store.version);
        if let Some(failure) = store.failure.clone() {
            let namespace = Arc::clone(&store.namespace);
            if let Some(version) = version.filter(|_| store.has_pieces) {
                self.write(&key, Write::Drop(namespace, version));
            }
            return self.done(tag, Err(failure));
        }
        let Some(version) = version.filter(|_| store.next_want == store.value_bytes) else {
            return;
        };
        store.is_committing = true;
        let kind = ChangeKind::InPieces(store.condition, store.value_bytes, version);
        let change = store.change(tag, kind);
        self.write(&key, change);
    }

    pub(super) fn value_opened(&mut self, tag: u64, result: Result<Opened, Failure>) {
        let Some(retrieve) = self.retrieve(tag) else {
            return;
        };
        match result {
            Ok(Opened {
                value_bytes,
                source,
            }) => {
                retrieve.limit = retrieve.max_bytes.min(value_bytes);
                let bytes = match source {
                    Source::Record(record) => Bytes::Record(record),
                    Source::Pieces(snapshot, version) => Bytes::Pieces(Arc::new(snapshot), version),
                };
                retrieve.found = Some((value_bytes, bytes));
            }
            Err(failure) => {
                retrieve.failure.get_or_insert(failure);
                retrieve.found = Some((0, Bytes::None));
            }
        }
        self.read_pieces(tag);
    }

    /// Reads on, as long as there are buffers and the caller takes pieces.
    pub(super) fn read_pieces(&mut self, tag: u64) {
        loop {
            let Some(retrieve) = self.retrieve(tag) else {
                return;
            };
            let Some((value_bytes, bytes)) = &retrieve.found else {
                return;
            };
            if retrieve.reading.is_some() || retrieve.waits_for_buffer {
                return;
            }
            let value_bytes = *value_bytes;
            let offset = retrieve.next_read;
            if offset >= retrieve.limit || retrieve.failure.is_some() {
                let failure = retrieve.failure.take();
                let result = failure.map_or(Ok(Answer::Retrieved(value_bytes)), Err);
                return self.done(tag, result);
            }
            if retrieve.with_caller >= MAX_PIECES {
                return;
            }
            let size = PIECE_BYTES.min(retrieve.limit - offset);
            let from = match bytes {
                Bytes::None | Bytes::Record(_) => None,
                Bytes::Pieces(snapshot, version) => Some((Arc::clone(snapshot), *version)),
            };
            let Some(buffer) = self.buffers.take(blocks_of(size.into()) as usize) else {
                if let Some(retrieve) = self.retrieve(tag) {
                    retrieve.waits_for_buffer = true;
                }
                return self.buffer_waiters.push_back(tag);
            };
            match from {
                None => self.copy_whole(tag, buffer, size),
                Some((snapshot, version)) => {
                    return self.read_piece(tag, buffer, snapshot, (version, offset, size));
                }
            }
        }
    }

    /// Hands out a value that lies with its key.
    fn copy_whole(&mut self, tag: u64, mut buffer: Buffer, size: u32) {
        let Some(retrieve) = self.retrieve(tag) else {
            return self.buffers.put(buffer);
        };
        if let Some((_, Bytes::Record(record))) = &retrieve.found {
            let value = &Head::value(record)[..size as usize];
            buffer[..value.len()].copy_from_slice(value);
        }
        retrieve.next_read += size;
        retrieve.with_caller += 1;
        let is_last = size == retrieve.limit;
        self.events.push(Event::Piece {
            tag,
            offset: 0,
            at: 0,
            bytes: size,
            is_last,
            buffer,
        });
    }

    fn read_piece(
        &mut self,
        tag: u64,
        buffer: Buffer,
        snapshot: Arc<Snapshot>,
        piece: (u64, u32, u32),
    ) {
        let Some(retrieve) = self.retrieve(tag) else {
            return self.buffers.put(buffer);
        };
        retrieve.reading = Some((piece.1, piece.2));
        let namespace = Arc::clone(&retrieve.namespace);
        self.read(tag, &namespace, ReadKind::Piece(snapshot, buffer, piece));
    }

    pub(super) fn piece_read(&mut self, tag: u64, buffer: Buffer, result: Result<(), Failure>) {
        let Some(retrieve) = self.retrieve(tag) else {
            return self.buffers.put(buffer);
        };
        let read = retrieve.reading.take();
        if let Err(failure) = result {
            retrieve.failure.get_or_insert(failure);
        }
        let Some((offset, bytes)) = read.filter(|_| retrieve.failure.is_none()) else {
            self.buffers.put(buffer);
            return self.read_pieces(tag);
        };
        retrieve.next_read = offset + bytes;
        retrieve.with_caller += 1;
        let is_last = offset + bytes == retrieve.limit;
        self.events.push(Event::Piece {
            tag,
            offset,
            at: 0,
            bytes,
            is_last,
            buffer,
        });
        self.read_pieces(tag);
    }

    pub(super) fn fail_retrieve(&mut self, tag: u64, failure: Failure) {
        if let Some(retrieve) = self.retrieve(tag) {
            retrieve.failure.get_or_insert(failure);
            // One that waits for a buffer has no turn to wait for any more.
            retrieve.waits_for_buffer = false;
        }
        self.read_pieces(tag);
    }
}
