//! Fabrics commands (Base Specification, section 6).

use std::mem::offset_of;

use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::command::SubmissionEntry;

/// Types of fabrics commands, in byte 4 of the entry.
pub mod kind {
    /// Property Set.
    pub const PROPERTY_SET: u8 = 0x00;
    /// Connect.
    pub const CONNECT: u8 = 0x01;
    /// Property Get.
    pub const PROPERTY_GET: u8 = 0x04;
    /// Authentication Send.
    pub const AUTHENTICATION_SEND: u8 = 0x05;
    /// Authentication Receive.
    pub const AUTHENTICATION_RECEIVE: u8 = 0x06;
}

/// Returns the type of a fabrics command.
pub fn kind_of(entry: &SubmissionEntry) -> u8 {
    entry.nsid.get() as u8
}

/// The name of the discovery subsystem.
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";
/// The most bytes of a name.
pub const MAX_NQN_BYTES: usize = 223;
/// The controller that a host asks for in the dynamic model.
pub const DYNAMIC_CONTROLLER: u16 = 0xffff;

/// Bit of Connect's result: the host must authenticate by DH-HMAC-CHAP first (ATR).
pub const AUTHENTICATION_REQUIRED: u32 = 1 << 17;

/// The data of a Connect command.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ConnectData {
    /// Identifier of the host.
    pub host_id: [u8; 16],
    /// The controller: any, or that of the admin queue.
    pub controller_id: U16,
    /// Zeros.
    pub reserved: [u8; 238],
    /// Name of the subsystem.
    pub subsystem: [u8; 256],
    /// Name of the host.
    pub host: [u8; 256],
    /// Zeros.
    pub reserved2: [u8; 256],
}

const _: () = assert!(size_of::<ConnectData>() == 1024);
const _: () = assert!(offset_of!(ConnectData, subsystem) == 256);
const _: () = assert!(offset_of!(ConnectData, host) == 512);

impl ConnectData {
    /// Makes the data of a Connect.
    pub fn new(host_id: [u8; 16], controller_id: u16, subsystem: &str, host: &str) -> Self {
        let mut data = ConnectData::new_zeroed();
        data.host_id = host_id;
        data.controller_id = controller_id.into();
        super::fill_text(&mut data.subsystem, subsystem, 0);
        super::fill_text(&mut data.host, host, 0);
        data
    }

    /// Returns the subsystem's name; none if it is no legal name.
    pub fn subsystem(&self) -> Option<&str> {
        name(&self.subsystem)
    }

    /// Returns the host's name; none if it is no legal name.
    pub fn host(&self) -> Option<&str> {
        name(&self.host)
    }
}

fn name(field: &[u8]) -> Option<&str> {
    let end = field.iter().position(|&byte| byte == 0)?;
    let name = std::str::from_utf8(&field[..end]).ok()?;
    (!name.is_empty() && name.len() <= MAX_NQN_BYTES).then_some(name)
}

/// The arguments of a Connect command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect {
    /// Format of the record: 0.
    pub format: u16,
    /// The queue: 0 is the admin queue.
    pub queue: u16,
    /// Entries of the queue, 0's based.
    pub queue_entries: u16,
    /// Attributes: bit 2 does without flow control.
    pub attributes: u8,
    /// The time of Keep Alive in milliseconds; 0 is none.
    pub keep_alive_ms: u32,
}

impl Connect {
    /// Reads the arguments of a command.
    pub fn from_entry(entry: &SubmissionEntry) -> Self {
        let (cdw10, cdw11) = (entry.cdw10.get(), entry.cdw11.get());
        Connect {
            format: cdw10 as u16,
            queue: (cdw10 >> 16) as u16,
            queue_entries: cdw11 as u16,
            attributes: (cdw11 >> 16) as u8,
            keep_alive_ms: entry.cdw12.get(),
        }
    }

    /// Makes the command.
    pub fn to_entry(self) -> SubmissionEntry {
        let mut entry = SubmissionEntry::new(super::command::FABRICS, u32::from(kind::CONNECT));
        entry.cdw10 = (u32::from(self.format) | u32::from(self.queue) << 16).into();
        let attributes = u32::from(self.attributes) << 16;
        entry.cdw11 = (u32::from(self.queue_entries) | attributes).into();
        entry.cdw12 = self.keep_alive_ms.into();
        entry
    }
}

/// Attribute of Connect: the host does without flow control of the submission queue.
pub const NO_FLOW_CONTROL: u8 = 1 << 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connect_survives_its_entry() {
        let connect = Connect {
            format: 0,
            queue: 3,
            queue_entries: 127,
            attributes: NO_FLOW_CONTROL,
            keep_alive_ms: 5000,
        };
        let entry = connect.to_entry();
        assert_eq!(Connect::from_entry(&entry), connect);
        assert_eq!(kind_of(&entry), kind::CONNECT);
    }

    #[test]
    fn a_name_without_an_end_is_none() {
        let mut data = ConnectData::new([1; 16], DYNAMIC_CONTROLLER, "nqn.a", "nqn.b");
        assert_eq!(
            (data.subsystem(), data.host()),
            (Some("nqn.a"), Some("nqn.b"))
        );
        data.host = [b'a'; 256];
        assert_eq!(data.host(), None);
        data.host = [0; 256];
        assert_eq!(data.host(), None);
    }
}
