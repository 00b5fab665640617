//! Commands of a queue: checked, and handed to the backend.

use std::ops::DerefMut;

use super::action::{Action, Ended};
use super::authentication::is_authentication;
use super::backend::Command;
use super::command::{Data, decode};
use super::connection::{Connection, Phase};
use super::flight::Flight;
use super::identify;
use super::reader::Violation;
use super::statistics::Operation;
use super::subsystem::Kind;
use crate::wire::pdu::Fatal;
use crate::wire::{Status, SubmissionEntry, command, sgl};

impl<B: DerefMut<Target = [u8]>> Connection<B> {
    pub(super) fn command(
        &mut self,
        entry: SubmissionEntry,
        is_intact: bool,
        used_bytes: &dyn Fn(u32) -> u64,
        actions: &mut Vec<Action<B>>,
    ) -> Result<(), Violation> {
        if let Some(head) = &mut self.head {
            *head = (*head + 1) % self.queue_entries;
        }
        self.answering = match entry.opcode {
            command::FABRICS => Operation::Fabrics,
            _ if self.queue == 0 => Operation::Admin,
            _ => Operation::Refused,
        };
        let command_id = entry.command_id.get();
        if matches!(self.phase, Phase::Authenticate) && !is_authentication(&entry) {
            self.respond(command_id, Status::AUTHENTICATION_REQUIRED, 0);
            return Ok(());
        }
        if !is_intact {
            self.respond(command_id, Status::TRANSPORT_ERROR, 0);
            return Ok(());
        }
        if let Err(status) = self.check_descriptor(&entry) {
            self.respond(command_id, status, 0);
            return Ok(());
        }
        if entry.opcode == command::FABRICS {
            return self.fabrics_command(&entry);
        }
        if !matches!(self.phase, Phase::Ready) {
            self.respond(command_id, Status::SEQUENCE_ERROR, 0);
            return Ok(());
        }
        if self.queue == 0 {
            self.admin_command(&entry, used_bytes, actions);
            return Ok(());
        }
        self.io_command(&entry, actions)
    }

    /// Checks that the data are where the descriptor says.
    pub(super) fn check_descriptor(&self, entry: &SubmissionEntry) -> Result<(), Status> {
        let bytes = entry.data.bytes.get() as usize;
        match entry.data.kind {
            sgl::IN_CAPSULE if entry.data.address.get() != 0 => Err(Status::SGL_OFFSET_INVALID),
            sgl::IN_CAPSULE if bytes != self.capsule.len() => Err(Status::SGL_LENGTH_INVALID),
            sgl::IN_CAPSULE | sgl::TRANSPORT => {
                let max = 1_usize << self.settings.max_transfer_shift;
                match bytes <= max {
                    true => Ok(()),
                    false => Err(Status::INVALID_FIELD),
                }
            }
            _ if bytes == 0 => Ok(()),
            _ => Err(Status::SGL_TYPE_INVALID),
        }
    }

    pub(super) fn io_command(
        &mut self,
        entry: &SubmissionEntry,
        actions: &mut Vec<Action<B>>,
    ) -> Result<(), Violation> {
        let command_id = entry.command_id.get();
        if self.flights.len() >= usize::from(self.queue_entries) {
            return Err(Fatal::SequenceError.into());
        }
        if self.flights.find(command_id).is_some() {
            self.respond(command_id, Status::COMMAND_ID_CONFLICT, 0);
            return Ok(());
        }
        // Counted first: a removal of the controller sees the command, or the command sees the end.
        self.count_in_flight(1);
        if let Some(ended) = self.unanswerable(entry) {
            self.count_in_flight(-1);
            return ended.map_or(Ok(()), |ended| {
                self.end(ended);
                Ok(())
            });
        }
        match self.decode(entry) {
            Err(status) => {
                self.count_in_flight(-1);
                self.respond(command_id, status, 0);
            }
            Ok((command, data)) => {
                let is_in_capsule = entry.data.kind == sgl::IN_CAPSULE;
                let from_capsule = is_in_capsule && matches!(data, Data::FromHost(_));
                let capsule = from_capsule.then(|| std::mem::take(&mut self.capsule));
                let nsid = entry.nsid.get();
                self.flights.insert(Flight {
                    command_id,
                    nsid,
                    opcode: entry.opcode,
                    operation: Operation::of(&command),
                    data,
                    command: Some(command),
                    began: self.now,
                    capsule,
                    wanted: Default::default(),
                    asked: self.now,
                    sending: 0,
                    is_done: false,
                    failure: None,
                });
                self.admit(actions);
            }
        }
        Ok(())
    }

    /// Returns whether a command gets no answer, and the end of the connection if that is the reason. The
    /// host sends such a command again elsewhere; a status would reach its file system.
    fn unanswerable(&self, entry: &SubmissionEntry) -> Option<Option<Ended>> {
        let controller = self.controller.as_ref()?;
        if controller.has_ended() {
            return Some(Some(Ended::ControllerGone));
        }
        let subsystem = controller.subsystem.as_ref()?;
        let nsid = entry.nsid.get();
        let mut namespaces = subsystem.namespaces.iter();
        let is_of_blocks = namespaces.any(|namespace| {
            namespace.nsid == nsid && matches!(namespace.kind, Kind::Blocks { .. })
        });
        (self.is_stopping && is_of_blocks).then_some(None)
    }

    /// Refuses new commands from now on; the host may send them again elsewhere. Data of commands under
    /// way are taken.
    pub fn refuse_commands(&mut self) {
        self.is_stopping = true;
    }

    pub(super) fn decode(&self, entry: &SubmissionEntry) -> Result<(Command, Data), Status> {
        if self.is_stopping {
            return Err(Status::NAMESPACE_NOT_READY);
        }
        let controller = self.controller.as_ref().ok_or(Status::SEQUENCE_ERROR)?;
        if !controller.is_ready() {
            return Err(Status::SEQUENCE_ERROR);
        }
        let subsystem = controller.subsystem.as_ref();
        let subsystem = subsystem.ok_or(Status::INVALID_OPCODE)?;
        let nsid = entry.nsid.get();
        let mut visible = identify::visible(subsystem, controller);
        let namespace = visible.find(|namespace| namespace.nsid == nsid);
        let (command, data) = decode(entry, namespace.ok_or(Status::INVALID_NAMESPACE)?)?;
        if matches!(data, Data::ToHost(_)) && entry.data.kind == sgl::IN_CAPSULE {
            return Err(Status::SGL_TYPE_INVALID);
        }
        Ok((command, data))
    }
}
