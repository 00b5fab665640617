//! The fields of the commands that carry messages (Base Specification, sections 6.1 and 6.2).

use crate::wire::command::{FABRICS, SubmissionEntry};
use crate::wire::fabrics::kind;

/// Security protocol of authentication in a command (SECP).
pub const SECURITY_PROTOCOL: u8 = 0xe9;
/// Both bytes of the protocol's own field in a command (SPSP0 and SPSP1).
pub const PROTOCOL_SPECIFIC: u8 = 1;

/// The fields of Authentication Send and Authentication Receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Security protocol: [`SECURITY_PROTOCOL`].
    pub protocol: u8,
    /// SPSP0 and SPSP1: [`PROTOCOL_SPECIFIC`] each.
    pub specific: [u8; 2],
    /// Bytes of the message (TL), or of the room for one (AL).
    pub bytes: u32,
}

impl Transfer {
    /// Makes the fields for a message of `bytes`, or room for as many.
    pub fn new(bytes: u32) -> Self {
        Transfer {
            protocol: SECURITY_PROTOCOL,
            specific: [PROTOCOL_SPECIFIC; 2],
            bytes,
        }
    }

    /// Reads the fields of a command.
    pub fn from_entry(entry: &SubmissionEntry) -> Self {
        let [_, first, second, protocol] = entry.cdw10.get().to_le_bytes();
        Transfer {
            protocol,
            specific: [first, second],
            bytes: entry.cdw11.get(),
        }
    }

    /// Makes an Authentication Send.
    pub fn to_send(self) -> SubmissionEntry {
        self.to_entry(kind::AUTHENTICATION_SEND)
    }

    /// Makes an Authentication Receive.
    pub fn to_receive(self) -> SubmissionEntry {
        self.to_entry(kind::AUTHENTICATION_RECEIVE)
    }

    fn to_entry(self, kind: u8) -> SubmissionEntry {
        let mut entry = SubmissionEntry::new(FABRICS, u32::from(kind));
        let [first, second] = self.specific;
        entry.cdw10 = u32::from_le_bytes([0, first, second, self.protocol]).into();
        entry.cdw11 = self.bytes.into();
        entry
    }

    /// Returns whether the command is one of authentication and moves any bytes. Invalid Field
    /// answers others.
    pub fn is_valid(&self) -> bool {
        *self == Transfer::new(self.bytes) && self.bytes > 0
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;

    #[test]
    fn a_transfer_lies_as_the_kernel_has_it() {
        let entry = Transfer::new(72).to_send();
        let bytes = entry.as_bytes();
        assert_eq!((bytes[0], bytes[4]), (0x7f, 0x05));
        assert_eq!(bytes[40..48], [0, 1, 1, 0xe9, 72, 0, 0, 0]);
        assert_eq!(Transfer::from_entry(&entry), Transfer::new(72));
        assert_eq!(Transfer::new(1).to_receive().as_bytes()[4], 0x06);
    }

    #[test]
    fn a_transfer_of_another_protocol_is_invalid() {
        let good = Transfer::new(8);
        assert!(good.is_valid());
        for bad in [
            Transfer::new(0),
            Transfer {
                protocol: 0xea,
                ..good
            },
            Transfer {
                specific: [0, 1],
                ..good
            },
            Transfer {
                specific: [1, 2],
                ..good
            },
        ] {
            assert!(!bad.is_valid());
        }
    }
}
