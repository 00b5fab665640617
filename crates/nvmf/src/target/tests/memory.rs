//! A store in memory, which counts the buffers that it hands out.

use std::collections::{BTreeMap, VecDeque};

use crate::target::{Answer, Command, Condition, Event, Key};
use crate::wire::Status;

/// The most bytes of a piece.
pub(super) const PIECE_BYTES: u32 = 1000;
/// The most pieces of a command under way.
const PIECES: usize = 2;

struct Job {
    command: Command,
    data: Vec<u8>,
    /// Bytes that were asked for or handed out.
    moved: u32,
    /// Places of the pieces under way.
    pieces: VecDeque<u32>,
    is_aborted: bool,
}

/// The store. A store takes effect with its last piece, a retrieve ends with it, without any delay.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) values: BTreeMap<Vec<u8>, Vec<u8>>,
    jobs: BTreeMap<u64, Job>,
    /// Pieces of each tag that the connection has.
    pieces_out: BTreeMap<u64, usize>,
    pub(super) events: VecDeque<Event<Vec<u8>>>,
    /// Buffers that are not back.
    pub(super) buffers_out: usize,
    /// Whether commands rest as they are.
    pub(super) is_frozen: bool,
    pub(super) submitted: usize,
    /// Whether commands end as if they were not taken back.
    pub(super) ignores_aborts: bool,
}

impl Memory {
    pub(super) fn submit(&mut self, tag: u64, command: Command) {
        let job = Job {
            command,
            data: Vec::new(),
            moved: 0,
            pieces: VecDeque::new(),
            is_aborted: false,
        };
        self.submitted += 1;
        let is_free = self.pieces_out.get(&tag).is_none_or(|&pieces| pieces == 0);
        assert!(is_free, "a tag with pieces under way");
        assert!(self.jobs.insert(tag, job).is_none(), "a tag in use");
        self.go_on(tag);
    }

    pub(super) fn supply(&mut self, tag: u64, buffer: Vec<u8>) {
        self.buffers_out -= 1;
        let job = self.jobs.get_mut(&tag).expect("a command");
        let offset = job.pieces.pop_front().expect("a piece that was wanted");
        assert_eq!(offset as usize, job.data.len(), "pieces come in order");
        job.data.extend(buffer);
        self.go_on(tag);
    }

    pub(super) fn give_back(&mut self, tag: u64) {
        self.buffers_out -= 1;
        // The pieces of a retrieve may come back behind its end.
        let Some(job) = self.jobs.get_mut(&tag) else {
            let pieces = self.pieces_out.get_mut(&tag);
            *pieces.expect("a piece that is out") -= 1;
            return;
        };
        job.pieces.pop_front().expect("a piece that is out");
        // A piece that was wanted lacks its data.
        job.is_aborted |= matches!(job.command, Command::Store { .. });
        self.go_on(tag);
    }

    pub(super) fn abort(&mut self, tag: u64) {
        let aborted = self.jobs.get_mut(&tag).filter(|_| !self.ignores_aborts);
        if let Some(job) = aborted {
            job.is_aborted = true;
            self.go_on(tag);
        }
    }

    /// Goes on with all commands after a rest.
    pub(super) fn thaw(&mut self) {
        self.is_frozen = false;
        for tag in self.jobs.keys().copied().collect::<Vec<_>>() {
            self.go_on(tag);
        }
    }

    pub(super) fn jobs(&self) -> usize {
        self.jobs.len()
    }

    fn go_on(&mut self, tag: u64) {
        if self.is_frozen {
            return;
        }
        if let Some(result) = self.step(tag) {
            let job = self.jobs.remove(&tag).expect("it is there");
            self.pieces_out.insert(tag, job.pieces.len());
            self.events.push_back(Event::Done { tag, result });
        }
    }

    /// Moves a command's pieces. Returns the answer once it has ended.
    fn step(&mut self, tag: u64) -> Option<Result<Answer, Status>> {
        let job = self.jobs.get_mut(&tag)?;
        if job.is_aborted {
            return job.pieces.is_empty().then_some(Err(Status::ABORTED));
        }
        match job.command.clone() {
            Command::Store {
                key,
                value_bytes,
                condition,
            } => {
                let exists = self.values.contains_key(key.as_bytes());
                match condition {
                    Condition::IfExists if !exists => return Some(Err(Status::KEY_DOES_NOT_EXIST)),
                    Condition::IfAbsent if exists => return Some(Err(Status::KEY_EXISTS)),
                    _ => {}
                }
                while job.pieces.len() < PIECES && job.moved < value_bytes {
                    let bytes = (value_bytes - job.moved).min(PIECE_BYTES);
                    let event = Event::Want {
                        tag,
                        offset: job.moved,
                        bytes,
                        buffer: vec![0xee; bytes as usize],
                    };
                    self.events.push_back(event);
                    self.buffers_out += 1;
                    job.pieces.push_back(job.moved);
                    job.moved += bytes;
                }
                if !job.pieces.is_empty() {
                    return None;
                }
                let value = std::mem::take(&mut job.data);
                self.values.insert(key.as_bytes().to_vec(), value);
                Some(Ok(Answer::Done))
            }
            Command::Retrieve { key, max_bytes } => {
                let Some(value) = self.values.get(key.as_bytes()) else {
                    return Some(Err(Status::KEY_DOES_NOT_EXIST));
                };
                let whole = value.len() as u32;
                let end = whole.min(max_bytes);
                while job.pieces.len() < PIECES && job.moved < end {
                    let bytes = (end - job.moved).min(PIECE_BYTES);
                    let from = job.moved as usize;
                    // The piece does not begin at the buffer's start.
                    let buffer = [&[0xdd; 3], &value[from..from + bytes as usize]].concat();
                    self.events.push_back(Event::Piece {
                        tag,
                        offset: job.moved,
                        at: 3,
                        bytes,
                        is_last: job.moved + bytes == end,
                        buffer,
                    });
                    self.buffers_out += 1;
                    job.pieces.push_back(job.moved);
                    job.moved += bytes;
                }
                // As an engine does, it ends with its last piece, wherever that is.
                (job.moved == end).then_some(Ok(Answer::Retrieved(whole)))
            }
            Command::Delete { key } => Some(match self.values.remove(key.as_bytes()) {
                Some(_) => Ok(Answer::Done),
                None => Err(Status::KEY_DOES_NOT_EXIST),
            }),
            Command::Exist { key } => Some(match self.values.contains_key(key.as_bytes()) {
                true => Ok(Answer::Done),
                false => Err(Status::KEY_DOES_NOT_EXIST),
            }),
            Command::List { from, max_keys } => {
                let from = from.map_or(Vec::new(), |key| key.as_bytes().to_vec());
                let keys = self.values.range(from..).take(max_keys);
                let keys = keys.filter_map(|(key, _)| Key::new(key)).collect();
                Some(Ok(Answer::Keys(keys)))
            }
            Command::Flush => Some(Ok(Answer::Done)),
            Command::Read { .. } | Command::Write { .. } => Some(Err(Status::INTERNAL_ERROR)),
        }
    }
}
