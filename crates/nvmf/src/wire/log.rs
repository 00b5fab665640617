//! Log pages (Base Specification, section 5.1.12).

/// Error Information.
pub const ERRORS: u8 = 0x01;
/// SMART / Health Information.
pub const HEALTH: u8 = 0x02;
/// Firmware Slot Information.
pub const FIRMWARE: u8 = 0x03;
/// Changed Attached Namespace List.
pub const CHANGED_NAMESPACES: u8 = 0x04;
/// Commands Supported and Effects.
pub const EFFECTS: u8 = 0x05;
/// Discovery.
pub const DISCOVERY: u8 = 0x70;

/// Bytes of the effects log.
pub const EFFECTS_BYTES: usize = 4096;
/// Offset of the effects of I/O commands in the log.
pub const EFFECTS_IO: usize = 1024;
/// Effect: the command is supported.
pub const SUPPORTED: u32 = 1;
/// Effect: the command changes the contents of the namespace.
pub const CHANGES_CONTENT: u32 = 1 << 1;
