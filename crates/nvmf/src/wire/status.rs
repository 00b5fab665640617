//! Statuses of commands (Base Specification, section 4.2.3).

use std::fmt;

/// A status: its type, its code, and whether to try again.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(u16);

/// The command may be repeated.
const RETRY: u16 = 0;
/// The command must not be repeated: it would fail again (DNR).
const NEVER: u16 = 1 << 14;

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $kind:literal $code:literal $retry:ident $words:literal;)*) => {
        impl Status {
            $($(#[$doc])* pub const $name: Status = Status($kind << 8 | $code | $retry);)*

            fn words(self) -> Option<&'static str> {
                let all = [$((Status::$name, $words),)*];
                let found = all.iter().find(|(status, _)| status.code() == self.code());
                found.map(|(_, words)| *words)
            }
        }
    };
}

statuses! {
    /// Successful Completion.
    SUCCESS = 0 0x00 RETRY "success";
    /// Invalid Command Opcode.
    INVALID_OPCODE = 0 0x01 NEVER "invalid command opcode";
    /// Invalid Field in Command.
    INVALID_FIELD = 0 0x02 NEVER "invalid field in command";
    /// Command ID Conflict.
    COMMAND_ID_CONFLICT = 0 0x03 NEVER "command identifier in use";
    /// Data Transfer Error.
    DATA_TRANSFER_ERROR = 0 0x04 RETRY "data transfer error";
    /// Internal Error.
    INTERNAL_ERROR = 0 0x06 NEVER "internal error";
    /// Command Abort Requested.
    ABORTED = 0 0x07 NEVER "command aborted";
    /// Invalid Namespace or Format.
    INVALID_NAMESPACE = 0 0x0b NEVER "invalid namespace or format";
    /// Command Sequence Error.
    SEQUENCE_ERROR = 0 0x0c NEVER "command sequence error";
    /// Data SGL Length Invalid.
    SGL_LENGTH_INVALID = 0 0x0f NEVER "data SGL length invalid";
    /// SGL Descriptor Type Invalid.
    SGL_TYPE_INVALID = 0 0x11 NEVER "SGL descriptor type invalid";
    /// SGL Offset Invalid.
    SGL_OFFSET_INVALID = 0 0x16 NEVER "SGL offset invalid";
    /// Host Identifier Inconsistent Format.
    HOST_ID_INCONSISTENT = 0 0x18 NEVER "host identifier inconsistent format";
    /// Namespace is Write Protected.
    WRITE_PROTECTED = 0 0x20 NEVER "namespace is write protected";
    /// Command Interrupted.
    COMMAND_INTERRUPTED = 0 0x21 RETRY "command interrupted";
    /// Transient Transport Error.
    TRANSPORT_ERROR = 0 0x22 RETRY "transient transport error";
    /// LBA Out of Range.
    LBA_OUT_OF_RANGE = 0 0x80 NEVER "logical block address out of range";
    /// Capacity Exceeded.
    CAPACITY_EXCEEDED = 0 0x81 NEVER "capacity exceeded";
    /// Namespace Not Ready.
    NAMESPACE_NOT_READY = 0 0x82 RETRY "namespace not ready";
    /// Invalid Value Size.
    INVALID_VALUE_SIZE = 0 0x85 NEVER "invalid value size";
    /// Invalid Key Size.
    INVALID_KEY_SIZE = 0 0x86 NEVER "invalid key size";
    /// Key Does Not Exist.
    KEY_DOES_NOT_EXIST = 0 0x87 NEVER "key does not exist";
    /// Unrecovered Error.
    UNRECOVERED_ERROR = 0 0x88 NEVER "unrecovered error";
    /// Key Exists.
    KEY_EXISTS = 0 0x89 NEVER "key exists";
    /// Asynchronous Event Request Limit Exceeded.
    TOO_MANY_EVENT_REQUESTS = 1 0x05 NEVER "asynchronous event request limit exceeded";
    /// Invalid Log Page.
    INVALID_LOG_PAGE = 1 0x09 NEVER "invalid log page";
    /// Feature Identifier Not Saveable.
    FEATURE_NOT_SAVEABLE = 1 0x0d NEVER "feature identifier not saveable";
    /// Connect: Incompatible Format.
    CONNECT_FORMAT = 1 0x80 NEVER "connect: incompatible format";
    /// Connect: Controller Busy.
    CONNECT_BUSY = 1 0x81 RETRY "connect: controller busy";
    /// Connect: Invalid Parameters.
    CONNECT_INVALID_PARAMETERS = 1 0x82 NEVER "connect: invalid parameters";
    /// Connect: Invalid Host.
    CONNECT_INVALID_HOST = 1 0x84 NEVER "connect: the host is not allowed";
    /// Authentication Required.
    AUTHENTICATION_REQUIRED = 1 0x91 NEVER "authentication required";
    /// Media error: Write Fault.
    WRITE_FAULT = 2 0x80 NEVER "write fault";
    /// Media error: Unrecovered Read Error.
    UNRECOVERED_READ_ERROR = 2 0x81 NEVER "unrecovered read error";
}

impl Status {
    /// Returns the status with the bits of a completion above the phase bit.
    pub const fn from_bits(bits: u16) -> Self {
        Status(bits & 0x7fff)
    }

    /// Returns the bits of a completion above the phase bit.
    pub const fn to_bits(self) -> u16 {
        self.0
    }

    /// Returns type and code, as hosts print them: 187h is code 87h of type 1.
    pub const fn code(self) -> u16 {
        self.0 & 0x7ff
    }

    /// Returns whether the command succeeded.
    pub const fn is_success(self) -> bool {
        self.code() == 0
    }

    /// Returns whether the host may try again.
    pub const fn may_retry(self) -> bool {
        self.0 & NEVER == 0
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.words() {
            Some(words) => write!(f, "{words} ({:02x}h)", self.code()),
            None => write!(f, "status {:02x}h", self.code()),
        }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_key_is_what_the_kernel_shows() {
        // Linux prints 4089h for Key Exists: do not retry, type 0, code 89h.
        assert_eq!(Status::KEY_EXISTS.to_bits(), 0x4089);
        assert_eq!(Status::from_bits(0x4087), Status::KEY_DOES_NOT_EXIST);
        assert_eq!(
            Status::KEY_DOES_NOT_EXIST.to_string(),
            "key does not exist (87h)"
        );
        assert_eq!(Status::from_bits(0x1fe).to_string(), "status 1feh");
        assert!(Status::SUCCESS.is_success() && Status::SUCCESS.to_bits() == 0);
    }
}
