//! Features of a controller or a namespace (Base Specification, section 5.1.25).

/// Number of Queues.
pub const NUMBER_OF_QUEUES: u8 = 0x07;
/// Asynchronous Event Configuration.
pub const ASYNC_EVENTS: u8 = 0x0b;
/// Keep Alive Timer.
pub const KEEP_ALIVE: u8 = 0x0f;
/// Host Identifier.
pub const HOST_ID: u8 = 0x81;
/// Key Value Configuration.
pub const KEY_VALUE: u8 = 0x20;

/// Bit of Key Value Configuration: Delete of a missing key is an error (EDNEK).
pub const ERROR_ON_MISSING_DELETE: u32 = 1;
