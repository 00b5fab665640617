//! The host's side of a queue's TCP connection, without input and output.
//!
//! The caller feeds the bytes that the controller sends, in any fragments, and sends the bytes that
//! the connection puts out. Completed commands wait to be taken. Nothing that a controller sends
//! makes memory grow beyond the buffers that commands asked for.

use std::collections::VecDeque;
use std::sync::Arc;

use zerocopy::IntoBytes;

use super::output::{Output, digest_bits};
pub use super::receiver::Digests;
use super::receiver::{Piece, Receiver};
pub use super::violation::Violation;
use crate::wire::command::{FABRICS, SubmissionEntry};
use crate::wire::completion::CompletionEntry;
use crate::wire::pdu::{Data, FLAG_LAST, FLAG_SUCCESS, Initialize, Kind};
use crate::wire::sgl::{self, Sgl};
use crate::wire::status::Status;

/// The least limit of data PDUs that a controller may set.
const MIN_DATA_LIMIT: u32 = 4096;
/// The most data in a capsule, even if the controller takes more; longer data go in their own PDUs.
const MAX_CAPSULE_DATA: usize = 1 << 20;
/// The most data in the capsule of an admin or fabrics command, by the specification.
pub const FABRICS_CAPSULE_DATA: usize = 8192;
/// The most data in a PDU, even if the controller takes more.
const MAX_DATA: usize = 1 << 24;

/// The data of a command.
#[derive(Clone, Debug, Default)]
pub enum Transfer {
    /// No data.
    #[default]
    None,
    /// Data to the controller.
    Write(Arc<[u8]>),
    /// Data from the controller, with their maximum in bytes.
    Read(u32),
}

/// A completed command.
#[derive(Clone, Debug)]
pub struct Done {
    /// The tag of the submission.
    pub tag: u64,
    /// The controller's answer.
    pub completion: CompletionEntry,
    /// Data from the controller.
    pub data: Vec<u8>,
}

/// The reason why a connection does not take a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The connection is not initialized yet, or has ended.
    NotReady,
    /// As many commands are in flight as the queue has room for.
    QueueFull,
    /// The data are longer than 4 GiB.
    TooLong,
}

/// Parameters of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// Digests to ask for.
    pub digests: Digests,
    /// Entries of the queue. One less is in flight at most.
    pub entries: u16,
    /// The most bytes of data in a command capsule. Fabrics commands have a limit of their own.
    pub capsule_data: usize,
}

/// A command in flight.
struct Active {
    tag: u64,
    transfer: Transfer,
    /// Data that came.
    data: Vec<u8>,
    /// Bytes of data that the controller asked for, or had in the capsule.
    sent: usize,
    /// The last data came.
    last: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Initializing,
    Ready,
    Failed(Violation),
}

/// The host's side of a connection.
pub struct Connection {
    parameters: Parameters,
    phase: Phase,
    receiver: Receiver,
    /// The commands in flight, by number.
    commands: Vec<Option<Active>>,
    /// Numbers not in use. The one longest out of use comes first.
    free: VecDeque<u16>,
    /// The command that the data on their way belong to, and their flags.
    filling: Option<(u16, u8)>,
    data_limit: usize,
    output: Output,
    done: VecDeque<Done>,
}

impl Connection {
    /// Makes a connection. Its first request is in the output.
    pub fn new(parameters: Parameters) -> Self {
        let depth = parameters.entries.saturating_sub(1).max(1);
        Connection {
            parameters,
            phase: Phase::Initializing,
            receiver: Receiver::new(parameters.digests),
            commands: (0..depth).map(|_| None).collect(),
            free: (0..depth).collect(),
            filling: None,
            data_limit: 0,
            output: Output::new(parameters.digests),
            done: VecDeque::new(),
        }
    }

    /// Returns whether commands are possible.
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// Returns the number of commands that the queue has room for.
    pub fn room(&self) -> usize {
        self.free.len()
    }

    /// Returns whether no command is in flight.
    pub fn is_idle(&self) -> bool {
        self.free.len() == self.commands.len()
    }

    /// Returns the bytes to send.
    pub fn output(&self) -> &[u8] {
        self.output.bytes()
    }

    /// Takes note that the first `bytes` bytes of the output are sent.
    pub fn sent(&mut self, bytes: usize) {
        self.output.sent(bytes);
    }

    /// Takes a completed command.
    pub fn completed(&mut self) -> Option<Done> {
        self.done.pop_front()
    }

    /// Puts a command out. `tag` is the caller's name of it; the connection sets the command's
    /// number and its data pointer.
    ///
    /// # Errors
    /// The reason why the command is not possible. Nothing has changed then.
    pub fn submit(
        &mut self,
        mut entry: SubmissionEntry,
        transfer: Transfer,
        tag: u64,
    ) -> Result<(), Refusal> {
        if self.phase != Phase::Ready {
            return Err(Refusal::NotReady);
        }
        let bytes = match &transfer {
            Transfer::None => 0,
            Transfer::Write(data) => u32::try_from(data.len()).map_err(|_| Refusal::TooLong)?,
            Transfer::Read(bytes) => *bytes,
        };
        let id = self.free.pop_front().ok_or(Refusal::QueueFull)?;
        let limit = match entry.opcode {
            FABRICS => FABRICS_CAPSULE_DATA,
            _ => self.parameters.capsule_data.min(MAX_CAPSULE_DATA),
        };
        let capsule_data = match &transfer {
            Transfer::Write(data) if data.len() <= limit => data.len(),
            _ => 0,
        };
        let pointer = if capsule_data > 0 {
            sgl::IN_CAPSULE
        } else {
            sgl::TRANSPORT
        };
        entry.command_id = id.into();
        entry.data = Sgl::new(pointer, bytes);
        let data = match &transfer {
            Transfer::Write(data) => &data[..capsule_data],
            _ => &[],
        };
        self.output.put(Kind::Command, 0, entry.as_bytes(), data);
        self.commands[usize::from(id)] = Some(Active {
            tag,
            transfer,
            data: Vec::new(),
            sent: capsule_data,
            last: false,
        });
        Ok(())
    }

    /// Takes bytes that the controller sent.
    ///
    /// # Errors
    /// The controller broke the protocol, now or earlier. The connection has ended: the output may
    /// still have a request that tells the controller why.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        if let Phase::Failed(violation) = self.phase {
            return Err(violation);
        }
        let result = self.receive_all(bytes);
        if let Err(violation) = result {
            self.phase = Phase::Failed(violation);
            self.output
                .put_termination(violation, self.receiver.header());
        }
        result
    }

    fn receive_all(&mut self, mut bytes: &[u8]) -> Result<(), Violation> {
        while let Some(piece) = self.receiver.next(&mut bytes)? {
            match piece {
                Piece::Initialize(response) => self.initialize(response)?,
                Piece::Termination(request) => {
                    return Err(Violation::Terminated {
                        status: request.status.get(),
                        information: request.information.get(),
                    });
                }
                Piece::Response(completion) => self.complete(completion)?,
                Piece::ReadyToTransfer(wanted) => self.transfer(wanted)?,
                Piece::Data(data, flags) => self.begin_data(data, flags)?,
                Piece::DataBytes(bytes) => {
                    if let Some((id, _)) = self.filling {
                        self.active(id)?.data.extend_from_slice(bytes);
                    }
                }
                Piece::DataEnd => self.end_data()?,
            }
        }
        Ok(())
    }

    fn initialize(&mut self, response: Initialize) -> Result<(), Violation> {
        if response.format.get() != 0 {
            return Err(Violation::Format(response.format.get()));
        }
        if response.data_alignment != 0 {
            return Err(Violation::Alignment(response.data_alignment));
        }
        if response.digests != digest_bits(self.parameters.digests) {
            return Err(Violation::Digests(response.digests));
        }
        let limit = response.limit.get();
        if limit < MIN_DATA_LIMIT || !limit.is_multiple_of(4) {
            return Err(Violation::DataLimit(limit));
        }
        self.data_limit = MAX_DATA.min(limit as usize);
        self.phase = Phase::Ready;
        Ok(())
    }

    fn active(&mut self, id: u16) -> Result<&mut Active, Violation> {
        let slot = self.commands.get_mut(usize::from(id));
        slot.and_then(Option::as_mut)
            .ok_or(Violation::UnknownCommand(id))
    }

    fn complete(&mut self, completion: CompletionEntry) -> Result<(), Violation> {
        let id = completion.command_id.get();
        let active = self.active(id)?;
        let moved = match &active.transfer {
            Transfer::None => true,
            Transfer::Write(data) => active.sent == data.len(),
            Transfer::Read(_) => active.last || active.data.is_empty(),
        };
        if completion.status().is_success() && !moved {
            return Err(Violation::MissingData(id));
        }
        if let Some(active) = self.commands[usize::from(id)].take() {
            self.free.push_back(id);
            self.done.push_back(Done {
                tag: active.tag,
                completion,
                data: active.data,
            });
        }
        Ok(())
    }

    fn begin_data(&mut self, data: Data, flags: u8) -> Result<(), Violation> {
        let (id, offset, bytes) = (data.command_id.get(), data.offset.get(), data.bytes.get());
        let active = self.active(id)?;
        let Transfer::Read(room) = active.transfer else {
            return Err(Violation::UnexpectedData(id));
        };
        if active.last {
            return Err(Violation::UnexpectedData(id));
        }
        if offset as usize != active.data.len() || bytes > room - offset.min(room) {
            return Err(Violation::DataOutOfRange {
                command: id,
                offset,
                bytes,
            });
        }
        active.data.reserve(bytes as usize);
        self.filling = Some((id, flags));
        Ok(())
    }

    fn end_data(&mut self) -> Result<(), Violation> {
        let Some((id, flags)) = self.filling.take() else {
            return Ok(());
        };
        self.active(id)?.last = flags & FLAG_LAST != 0;
        if flags & FLAG_SUCCESS != 0 {
            self.complete(CompletionEntry::new(id, 0, Status::SUCCESS, 0))?;
        }
        Ok(())
    }

    /// Puts out the data that the controller asks for.
    fn transfer(&mut self, wanted: Data) -> Result<(), Violation> {
        let (id, offset) = (wanted.command_id.get(), wanted.offset.get());
        let bytes = wanted.bytes.get();
        let slot = self.commands.get_mut(usize::from(id));
        let active = slot
            .and_then(Option::as_mut)
            .ok_or(Violation::UnknownCommand(id))?;
        let Transfer::Write(data) = &active.transfer else {
            return Err(Violation::UnexpectedTransfer(id));
        };
        if active.sent == data.len() {
            return Err(Violation::UnexpectedTransfer(id));
        }
        if bytes == 0 || offset as usize != active.sent || bytes as usize > data.len() - active.sent
        {
            return Err(Violation::TransferOutOfRange {
                command: id,
                offset,
                bytes,
            });
        }
        let end = active.sent + bytes as usize;
        for chunk in data[active.sent..end].chunks(self.data_limit) {
            let mut header = wanted;
            header.offset = (active.sent as u32).into();
            header.bytes = (chunk.len() as u32).into();
            header.reserved = [0; 4];
            active.sent += chunk.len();
            let last = if active.sent == end { FLAG_LAST } else { 0 };
            self.output
                .put(Kind::HostData, last, header.as_bytes(), chunk);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
