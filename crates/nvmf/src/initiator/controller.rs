//! A controller: its bring-up, its queries and its shutdown.

mod authentication;
mod namespaces;

use std::thread;
use std::time::{Duration, Instant};

use zerocopy::{FromBytes, FromZeros, IntoBytes};

use self::authentication::{Authenticator, Demand};
use super::connection::{Done, Transfer};
use super::error::{Error, Result};
use super::queue::Channel;
use crate::auth::SecretPair;
use crate::wire::command::{FABRICS, SubmissionEntry, admin};
use crate::wire::fabrics::{
    Connect, ConnectData, DISCOVERY_NQN, DYNAMIC_CONTROLLER, MAX_NQN_BYTES, kind,
};
use crate::wire::identify::{self, IDENTIFY_BYTES, cns};
use crate::wire::{features, properties};

/// Entries of an admin queue.
pub const ADMIN_ENTRIES: u16 = 32;
/// Bit of the capabilities: all command sets can be enabled.
const ALL_COMMAND_SETS: u64 = 1 << 43;

/// The names in a Connect.
#[derive(Clone, Debug)]
pub struct Names {
    /// Identifier of the host.
    pub host_id: [u8; 16],
    /// Name of the host.
    pub host: String,
    /// Name of the subsystem.
    pub subsystem: String,
}

impl Names {
    fn check(&self) -> Result<()> {
        let legal = |name: &str| (1..=MAX_NQN_BYTES).contains(&name.len()) && !name.contains('\0');
        if legal(&self.host) && legal(&self.subsystem) {
            return Ok(());
        }
        Err(Error::InvalidArgument("a name must have 1 to 223 bytes"))
    }

    fn is_discovery(&self) -> bool {
        self.subsystem == DISCOVERY_NQN
    }
}

/// A controller that is ready, by way of its admin queue.
pub struct Controller<C> {
    channel: C,
    names: Names,
    authenticator: Option<Authenticator>,
    id: u16,
    capabilities: u64,
    configuration: u32,
    version: u32,
    identity: Box<identify::Controller>,
}

impl<C: Channel> Controller<C> {
    /// Brings a controller up: connects its admin queue, enables it and identifies it. `secrets` serve
    /// a controller that asks for authentication; with one of the controller, it must ask.
    /// `keep_alive` is the time without a Keep Alive after which the controller gives the host up;
    /// zero is none.
    ///
    /// # Errors
    /// The controller refuses, is not authenticated, is not ready in time, or lacks something that the
    /// host needs.
    pub fn start(
        mut channel: C,
        names: Names,
        secrets: Option<SecretPair>,
        keep_alive: Duration,
    ) -> Result<Self> {
        let authenticator = secrets.map(Authenticator::new);
        let id = connect(
            &mut channel,
            &names,
            authenticator.as_ref(),
            0,
            ADMIN_ENTRIES,
            DYNAMIC_CONTROLLER,
            keep_alive,
        )?;
        let mut controller = Controller {
            channel,
            names,
            authenticator,
            id,
            capabilities: 0,
            configuration: 0,
            version: 0,
            identity: Box::new(identify::empty()),
        };
        controller.enable()?;
        controller.version = controller.property(properties::VERSION, false)? as u32;
        let data = controller.identify(cns::CONTROLLER, 0, 0)?;
        controller.identity = Box::new(read(&data)?);
        controller.check(!keep_alive.is_zero())?;
        Ok(controller)
    }

    fn enable(&mut self) -> Result<()> {
        self.capabilities = self.property(properties::CAPABILITIES, true)?;
        self.configuration = properties::ENTRY_SIZES;
        if self.capabilities & ALL_COMMAND_SETS != 0 {
            self.configuration |= properties::ALL_COMMAND_SETS;
        }
        self.set_property(properties::CONFIGURATION, self.configuration)?;
        self.configuration |= properties::ENABLE;
        self.set_property(properties::CONFIGURATION, self.configuration)?;
        self.wait_for(
            properties::READY,
            properties::READY,
            "the controller's start",
        )
    }

    /// Waits until the status has `value` under `mask`, as long as the capabilities grant.
    fn wait_for(&mut self, mask: u32, value: u32, what: &'static str) -> Result<()> {
        let half_seconds = (self.capabilities >> 24 & 0xff).max(1) as u32;
        let deadline = Instant::now() + Duration::from_millis(500) * half_seconds;
        let mut pause = Duration::from_millis(1);
        loop {
            let status = self.property(properties::STATUS, false)? as u32;
            if status & mask == value {
                return Ok(());
            }
            if status & properties::FATAL != 0 {
                return Err(Error::Unsupported("health: its status is fatal"));
            }
            if Instant::now() >= deadline {
                return Err(Error::Timeout(what));
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }

    fn check(&self, keep_alive: bool) -> Result<()> {
        let identity = &self.identity;
        if identity.controller_id.get() != self.id {
            return Err(Error::Malformed("number"));
        }
        if identity.sgl.get() & 0b11 == 0 {
            return Err(Error::Unsupported("scatter-gather lists"));
        }
        if self.names.is_discovery() {
            return Ok(());
        }
        if keep_alive && identity.keep_alive_granularity.get() == 0 {
            return Err(Error::Unsupported("Keep Alive"));
        }
        if identity.capsule_data_offset.get() != 0 {
            return Err(Error::Unsupported("data right behind the command"));
        }
        if u64::from(identity.command_capsule.get()) * 16 < size_of::<SubmissionEntry>() as u64 {
            return Err(Error::Malformed("capsule size"));
        }
        Ok(())
    }

    /// Returns the controller's number.
    pub fn id(&self) -> u16 {
        self.id
    }

    /// Returns the version of the specification: major, minor and tertiary number, as the property
    /// has them.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Returns the structure that Identify returned.
    pub fn identity(&self) -> &identify::Controller {
        &self.identity
    }

    /// Returns the most bytes of data that a command may have; none is no limit.
    pub fn max_transfer(&self) -> Option<u64> {
        let power = u32::from(self.identity.max_transfer);
        let page_power = 12 + (self.capabilities >> 48 & 0xf) as u32;
        (power > 0).then(|| 1 << (power + page_power).min(63))
    }

    /// Returns the most entries that an I/O queue may have.
    pub fn max_queue_entries(&self) -> u32 {
        let entries = properties::queue_entries(self.capabilities);
        match u32::from(self.identity.max_commands.get()) {
            0 => entries,
            commands => entries.min(commands.max(2)),
        }
    }

    /// Returns the most bytes of data in a capsule of an I/O queue.
    pub fn capsule_data(&self) -> usize {
        let bytes = u64::from(self.identity.command_capsule.get()) * 16;
        bytes.saturating_sub(size_of::<SubmissionEntry>() as u64) as usize
    }

    /// Asks for I/O queues. Returns the number that the controller grants, `wanted` at most.
    ///
    /// # Errors
    /// The controller refuses.
    pub fn request_queues(&mut self, wanted: u16) -> Result<u16> {
        let wanted = wanted.max(1);
        let mut entry = SubmissionEntry::new(admin::SET_FEATURES, 0);
        entry.cdw10 = u32::from(features::NUMBER_OF_QUEUES).into();
        entry.cdw11 = (u32::from(wanted - 1) | u32::from(wanted - 1) << 16).into();
        let granted = self.execute(entry, Transfer::None)?.completion.dw0.get();
        let least = (granted as u16).min((granted >> 16) as u16);
        Ok(least.saturating_add(1).min(wanted))
    }

    /// Connects the channel of an I/O queue to the controller. Numbers of queues begin with 1.
    ///
    /// # Errors
    /// The controller refuses, or is not authenticated. The channel is of no use then.
    pub fn connect_queue(&self, channel: &mut C, queue: u16, entries: u16) -> Result<()> {
        connect(
            channel,
            &self.names,
            self.authenticator.as_ref(),
            queue,
            entries,
            self.id,
            Duration::ZERO,
        )
        .map(drop)
    }

    /// Sends a Keep Alive.
    ///
    /// # Errors
    /// The connection broke, or the controller refuses.
    pub fn keep_alive(&mut self) -> Result<()> {
        let entry = SubmissionEntry::new(admin::KEEP_ALIVE, 0);
        self.execute(entry, Transfer::None).map(drop)
    }

    /// Shuts the controller down and waits until it is.
    ///
    /// # Errors
    /// The connection broke, or the controller does not shut down in time.
    pub fn shut_down(&mut self) -> Result<()> {
        const NORMAL: u32 = 0b01 << 14;
        const MASK: u32 = 0b11 << 2;
        self.configuration |= NORMAL;
        self.set_property(properties::CONFIGURATION, self.configuration)?;
        self.wait_for(
            MASK,
            properties::SHUTDOWN_COMPLETE,
            "the controller's shutdown",
        )
    }

    /// Returns `bytes` bytes of a log page, from `offset` on. Both are multiples of 4.
    ///
    /// # Errors
    /// The controller refuses.
    pub fn log_page(&mut self, page: u8, offset: u64, bytes: u32) -> Result<Vec<u8>> {
        if bytes == 0 || !bytes.is_multiple_of(4) || !offset.is_multiple_of(4) {
            return Err(Error::InvalidArgument("a log has words of 4 bytes"));
        }
        let words = bytes / 4 - 1;
        let mut entry = SubmissionEntry::new(admin::GET_LOG_PAGE, 0);
        entry.cdw10 = (u32::from(page) | words << 16).into();
        entry.cdw11 = (words >> 16).into();
        entry.cdw12 = (offset as u32).into();
        entry.cdw13 = ((offset >> 32) as u32).into();
        let data = self.execute(entry, Transfer::Read(bytes))?.data;
        if data.len() != bytes as usize {
            return Err(Error::Malformed("log page"));
        }
        Ok(data)
    }

    /// Does a command of the admin queue.
    ///
    /// # Errors
    /// The connection broke, or the command completed with an error.
    pub fn execute(&mut self, entry: SubmissionEntry, transfer: Transfer) -> Result<Done> {
        succeed(&mut self.channel, entry, transfer)
    }

    fn identify(&mut self, cns: u8, nsid: u32, command_set: u8) -> Result<Vec<u8>> {
        let mut entry = SubmissionEntry::new(admin::IDENTIFY, nsid);
        entry.cdw10 = u32::from(cns).into();
        entry.cdw11 = (u32::from(command_set) << 24).into();
        let data = self
            .execute(entry, Transfer::Read(IDENTIFY_BYTES as u32))?
            .data;
        if data.len() != IDENTIFY_BYTES {
            return Err(Error::Malformed("answer to Identify"));
        }
        Ok(data)
    }

    fn property(&mut self, offset: u32, long: bool) -> Result<u64> {
        let mut entry = SubmissionEntry::new(FABRICS, u32::from(kind::PROPERTY_GET));
        entry.cdw10 = u32::from(long).into();
        entry.cdw11 = offset.into();
        let result = self.execute(entry, Transfer::None)?.completion.result();
        Ok(if long { result } else { result & 0xffff_ffff })
    }

    fn set_property(&mut self, offset: u32, value: u32) -> Result<()> {
        let mut entry = SubmissionEntry::new(FABRICS, u32::from(kind::PROPERTY_SET));
        entry.cdw11 = offset.into();
        entry.cdw12 = value.into();
        self.execute(entry, Transfer::None).map(drop)
    }
}

/// Connects a channel to a queue of a controller, and authenticates. Returns the controller's number.
fn connect(
    channel: &mut impl Channel,
    names: &Names,
    authenticator: Option<&Authenticator>,
    queue: u16,
    entries: u16,
    controller_id: u16,
    keep_alive: Duration,
) -> Result<u16> {
    names.check()?;
    let connect = Connect {
        format: 0,
        queue,
        queue_entries: entries.saturating_sub(1),
        attributes: 0,
        keep_alive_ms: u32::try_from(keep_alive.as_millis()).unwrap_or(u32::MAX),
    };
    let data = ConnectData::new(names.host_id, controller_id, &names.subsystem, &names.host);
    let transfer = Transfer::Write(data.as_bytes().into());
    let done = succeed(channel, connect.to_entry(), transfer)?;
    let result = done.completion.dw0.get();
    authenticate(channel, names, authenticator, result)?;
    Ok(result as u16)
}

/// Authenticates the host to the queue's controller if Connect's `result` asks for it.
fn authenticate(
    channel: &mut impl Channel,
    names: &Names,
    authenticator: Option<&Authenticator>,
    result: u32,
) -> Result<()> {
    match (authentication::demand(result), authenticator) {
        (Demand::None, Some(authenticator))
            if authenticator.is_mutual() && !names.is_discovery() =>
        {
            Err(Error::Unauthenticated)
        }
        (Demand::None, _) => Ok(()),
        (Demand::DhHmacChap, Some(authenticator)) => authenticator.run(channel, names),
        (Demand::DhHmacChap | Demand::Other, _) => Err(Error::AuthenticationRequired),
    }
}

/// Does a command that must succeed.
fn succeed(channel: &mut impl Channel, entry: SubmissionEntry, transfer: Transfer) -> Result<Done> {
    let done = channel.execute(entry, transfer)?;
    match done.completion.status() {
        status if status.is_success() => Ok(done),
        status => Err(Error::Status(status)),
    }
}

/// Reads a structure of Identify, whose length the caller has checked.
fn read<T: FromBytes + FromZeros>(data: &[u8]) -> Result<T> {
    T::read_from_bytes(data).map_err(|_| Error::Malformed("answer to Identify"))
}

#[cfg(test)]
mod tests;
