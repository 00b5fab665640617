//! Fabrics commands: Connect, properties.

use std::ops::DerefMut;
use std::sync::Arc;

use zerocopy::FromBytes;

use super::action::Ended;
use super::connection::{Connection, Phase};
use super::controller::Controller;
use super::notice::{Notice, Party};
use super::reader::Violation;
use crate::wire::fabrics::{
    Connect, ConnectData, DISCOVERY_NQN, DYNAMIC_CONTROLLER, NO_FLOW_CONTROL, kind, kind_of,
};
use crate::wire::properties::{
    CAPABILITIES, CONFIGURATION, STATUS, VERSION, VERSION_2_0, capabilities,
};
use crate::wire::{Status, SubmissionEntry};

/// Entries of the admin queues of Linux and SPDK.
const MAX_ADMIN_ENTRIES: u16 = 32;
/// Connects that a connection may send in vain.
const MAX_REFUSED_CONNECTS: u32 = 4;

/// A Connect that is being carried out.
pub(super) struct Connecting {
    command_id: u16,
    connect: Connect,
    data: ConnectData,
    /// The look of all loops at their sockets that must come first.
    look: Option<u64>,
}

impl<B: DerefMut<Target = [u8]>> Connection<B> {
    pub(super) fn fabrics_command(&mut self, entry: &SubmissionEntry) -> Result<(), Violation> {
        let command_id = entry.command_id.get();
        let answer = match (kind_of(entry), &self.phase) {
            (kind::CONNECT, Phase::Connect) => return self.connect(entry),
            (_, Phase::Connect) => Err(Status::SEQUENCE_ERROR),
            (kind::PROPERTY_GET, _) => self.property_get(entry),
            (kind::PROPERTY_SET, _) => self.property_set(entry),
            (kind::CONNECT, _) => Err(Status::SEQUENCE_ERROR),
            (kind::AUTHENTICATION_SEND, _) => {
                self.authentication_send(entry);
                return Ok(());
            }
            (kind::AUTHENTICATION_RECEIVE, _) => {
                self.authentication_receive(entry);
                return Ok(());
            }
            _ => Err(Status::INVALID_OPCODE),
        };
        match answer {
            Ok(result) => self.respond(command_id, Status::SUCCESS, result),
            Err(status) => self.respond(command_id, status, 0),
        }
        Ok(())
    }

    fn connect(&mut self, entry: &SubmissionEntry) -> Result<(), Violation> {
        let command_id = entry.command_id.get();
        let Ok(data) = ConnectData::read_from_bytes(self.capsule()) else {
            self.respond(command_id, Status::SGL_LENGTH_INVALID, 0);
            return Ok(());
        };
        let connect = Connect::from_entry(entry);
        let look = self.has_lost_connections(&connect, &data);
        self.phase = Phase::Held(Box::new(Connecting {
            command_id,
            connect,
            data,
            look: look.then(|| self.registry.lookouts.ask()),
        }));
        Ok(())
    }

    /// Returns whether connections may be lost that the host means to replace, without the loops having
    /// seen it.
    fn has_lost_connections(&self, connect: &Connect, data: &ConnectData) -> bool {
        if connect.queue == 0 {
            let host = data.host().unwrap_or_default();
            return self.registry.knows(host, data.host_id);
        }
        let controller = self.registry.find(data.controller_id.get());
        controller.is_some_and(|controller| {
            let queues = controller.queues.lock();
            queues.connected.contains(&connect.queue)
        })
    }

    /// Returns whether a Connect waits for loops to look at their sockets.
    pub fn awaits_look(&self) -> bool {
        matches!(&self.phase, Phase::Held(connecting) if connecting.look.is_some())
    }

    /// Returns whether a Connect must wait.
    fn must_wait(&self, connecting: &Connecting) -> bool {
        let (connect, data) = (&connecting.connect, &connecting.data);
        let look = connecting.look;
        if look.is_some_and(|look| !self.registry.lookouts.have_looked(look)) {
            return true;
        }
        if connect.queue > 0 {
            let controller = self.registry.find(data.controller_id.get());
            return controller.is_some_and(|controller| {
                controller.queues.lock().leaving.contains(&connect.queue)
            });
        }
        let host = data.host().unwrap_or_default();
        self.registry.has_late_commands(host, data.host_id)
    }

    /// Carries a Connect out that waits, unless the backend still has commands of connections that
    /// the same host lost. All loops first end those that the host has closed: see [`Lookout`].
    ///
    /// [`Lookout`]: super::Lookout
    pub fn go_on(&mut self) {
        let Phase::Held(connecting) = &self.phase else {
            return;
        };
        // A controller that is made for a closed connection would stay for ever.
        if self.ended().is_some() {
            return;
        }
        if self.must_wait(connecting) {
            return;
        }
        let Phase::Held(connecting) = std::mem::replace(&mut self.phase, Phase::Connect) else {
            return;
        };
        let command_id = connecting.command_id;
        match self.carry_out(&connecting.connect, &connecting.data) {
            Ok(controller) => {
                let id = controller.id;
                self.controller = Some(Arc::clone(&controller));
                let demand = self.begin_authentication(&controller);
                self.respond(
                    command_id,
                    Status::SUCCESS,
                    u64::from(u32::from(id) | demand),
                );
            }
            Err((status, result)) => {
                let (host, subsystem) = (connecting.data.host(), connecting.data.subsystem());
                let party = Party {
                    host,
                    subsystem,
                    queue: connecting.connect.queue,
                    peer: self.ports.peer,
                };
                // A refused connection must not keep it from hosts.
                let reserved = std::mem::take(&mut self.reserved_bytes);
                self.registry.release(reserved);
                self.registry.notice(&party, Notice::Refused(status));
                self.respond(command_id, status, result);
                self.refused_connects += u32::from(!status.may_retry());
                if self.refused_connects >= MAX_REFUSED_CONNECTS {
                    self.end(Ended::Violation("one refused Connect after the other"));
                }
            }
        }
    }

    fn carry_out(
        &mut self,
        connect: &Connect,
        data: &ConnectData,
    ) -> Result<Arc<Controller>, (Status, u64)> {
        if connect.format != 0 {
            return Err((Status::CONNECT_FORMAT, 0));
        }
        let in_data = |offset: u64| (Status::CONNECT_INVALID_PARAMETERS, 1 << 16 | offset);
        let in_command = |offset: u64| (Status::CONNECT_INVALID_PARAMETERS, offset);
        let subsystem = data.subsystem().ok_or(in_data(256))?;
        let host = data.host().ok_or(in_data(512))?;
        if data.host_id == [0; 16] {
            return Err(in_data(0));
        }
        let entries = connect.queue_entries.checked_add(1).ok_or(in_command(44))?;
        // Hosts choose the admin queue's size before they can read a limit.
        let most = match connect.queue {
            0 => self.settings.queue_entries.max(MAX_ADMIN_ENTRIES),
            _ => self.settings.queue_entries,
        };
        if !(2..=most).contains(&entries) {
            return Err(in_command(44));
        }
        // A queue of the discovery service has one command at a time, and so has one that is to be
        // authenticated: see `take_place`.
        let found = self.registry.subsystem(subsystem);
        let is_guarded = found.is_some_and(|found| found.secrets.is_some());
        let is_counted = subsystem != DISCOVERY_NQN && !is_guarded;
        self.reserve_capsules(if is_counted { entries } else { 1 })?;
        let controller = match connect.queue {
            0 => {
                let controller = self.new_controller(connect, data, subsystem, host)?;
                if is_counted && !self.registry.count(&controller) {
                    self.registry.remove(&controller);
                    return Err((Status::CONNECT_BUSY, 0));
                }
                controller
            }
            queue => {
                let found = self.registry.find(data.controller_id.get());
                let controller = found.ok_or(in_data(16))?;
                let is_own = controller.host == host && controller.host_id == data.host_id;
                let own = controller.subsystem.as_ref().map(|own| own.nqn.as_str());
                if !is_own || own != Some(subsystem) {
                    return Err((Status::CONNECT_INVALID_HOST, 0));
                }
                if queue > self.settings.max_queues {
                    return Err(in_command(42));
                }
                if !controller.is_ready() || controller.has_ended() {
                    return Err((Status::SEQUENCE_ERROR, 0));
                }
                if controller.queues.lock().connected.contains(&queue) {
                    return Err((Status::SEQUENCE_ERROR, 0));
                }
                controller
            }
        };
        (self.queue, self.queue_entries) = (connect.queue, entries);
        self.is_counted = is_counted;
        let has_flow_control = connect.attributes & NO_FLOW_CONTROL == 0;
        self.head = has_flow_control.then_some(1 % entries);
        Ok(controller)
    }

    /// Takes memory for the queue, and a place among the controllers, once the host has proved its name.
    /// False if there is none: strangers must leave room to hosts.
    pub(super) fn take_place(&mut self) -> bool {
        let Some(controller) = self.controller.clone().filter(|_| !self.is_counted) else {
            return true;
        };
        if controller.subsystem.is_none() {
            return true;
        }
        let has_memory = self.reserve_capsules(self.queue_entries).is_ok();
        self.is_counted = has_memory && (self.queue > 0 || self.registry.count(&controller));
        self.is_counted
    }

    /// Takes memory for the queue's capsules in place of the former; the end of the connection, or a
    /// Connect that is refused, gives it back.
    fn reserve_capsules(&mut self, entries: u16) -> Result<(), (Status, u64)> {
        let bytes = usize::from(entries) * self.settings.capsule_data_bytes as usize;
        self.registry
            .release(std::mem::take(&mut self.reserved_bytes));
        let budget = self.settings.capsule_budget_bytes;
        if !self.registry.reserve(bytes, budget) {
            return Err((Status::CONNECT_BUSY, 0));
        }
        self.reserved_bytes = bytes;
        Ok(())
    }

    fn new_controller(
        &self,
        connect: &Connect,
        data: &ConnectData,
        subsystem: &str,
        host: &str,
    ) -> Result<Arc<Controller>, (Status, u64)> {
        let in_data = |offset: u64| (Status::CONNECT_INVALID_PARAMETERS, 1 << 16 | offset);
        if data.controller_id.get() != DYNAMIC_CONTROLLER {
            return Err(in_data(16));
        }
        let found = match subsystem {
            DISCOVERY_NQN => None,
            nqn => {
                let subsystem = self.registry.subsystem(nqn).ok_or(in_data(256))?;
                if !subsystem.allows(host) {
                    return Err((Status::CONNECT_INVALID_HOST, 0));
                }
                Some(subsystem)
            }
        };
        let came = (self.ports.peer, self.now);
        let added = self
            .registry
            .add(found, host, data.host_id, connect.keep_alive_ms, came);
        added.ok_or((Status::CONNECT_BUSY, 0))
    }

    fn property_get(&self, entry: &SubmissionEntry) -> Result<u64, Status> {
        let controller = self.controller.as_ref().ok_or(Status::SEQUENCE_ERROR)?;
        let has_eight_bytes = entry.cdw10.get() & 0b111 == 1;
        match (entry.cdw11.get(), has_eight_bytes) {
            (CAPABILITIES, true) => Ok(capabilities(self.settings.queue_entries)),
            (VERSION, false) => Ok(u64::from(VERSION_2_0)),
            (CONFIGURATION, false) => Ok(u64::from(controller.configuration())),
            (STATUS, false) => Ok(u64::from(controller.status())),
            _ => Err(Status::INVALID_FIELD),
        }
    }

    fn property_set(&self, entry: &SubmissionEntry) -> Result<u64, Status> {
        let controller = self.controller.as_ref().ok_or(Status::SEQUENCE_ERROR)?;
        let has_four_bytes = entry.cdw10.get() & 0b111 == 0;
        let is_legal = entry.cdw11.get() == CONFIGURATION
            && has_four_bytes
            && self.queue == 0
            && controller.configure(entry.cdw12.get());
        match is_legal {
            true => Ok(0),
            false => Err(Status::INVALID_FIELD),
        }
    }
}
