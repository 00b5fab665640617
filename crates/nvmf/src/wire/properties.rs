//! Properties of a controller (Base Specification, section 3.1.4).

/// Offset of Controller Capabilities, 8 bytes.
pub const CAPABILITIES: u32 = 0x00;
/// Offset of Version, 4 bytes.
pub const VERSION: u32 = 0x08;
/// Offset of Controller Configuration, 4 bytes.
pub const CONFIGURATION: u32 = 0x14;
/// Offset of Controller Status, 4 bytes.
pub const STATUS: u32 = 0x1c;
/// Offset of NVM Subsystem Reset, 4 bytes.
pub const SUBSYSTEM_RESET: u32 = 0x20;

/// Version 2.0.
pub const VERSION_2_0: u32 = 0x0002_0000;

/// Configuration: enabled.
pub const ENABLE: u32 = 1;
/// Configuration: mask of the command set selected.
pub const COMMAND_SET: u32 = 0b111 << 4;
/// Configuration: all supported command sets.
pub const ALL_COMMAND_SETS: u32 = 0b110 << 4;
/// Configuration: mask of the shutdown notification.
pub const SHUTDOWN: u32 = 0b11 << 14;
/// Configuration: entries of 64 bytes for commands and of 16 for completions.
pub const ENTRY_SIZES: u32 = 6 << 16 | 4 << 20;

/// Status: ready.
pub const READY: u32 = 1;
/// Status: fatal.
pub const FATAL: u32 = 1 << 1;
/// Status: the shutdown is complete.
pub const SHUTDOWN_COMPLETE: u32 = 0b10 << 2;

/// Returns the capabilities of a controller with queues of `entries` entries at most: contiguous
/// queues, both command sets by selection of all, half a second to get ready.
pub fn capabilities(entries: u16) -> u64 {
    let ready_in_half_seconds = 1;
    let command_sets = 1 | 1 << 6;
    u64::from(entries - 1) | 1 << 16 | ready_in_half_seconds << 24 | command_sets << 37
}

/// Returns the most entries of a queue, of capabilities.
pub fn queue_entries(capabilities: u64) -> u32 {
    (capabilities & 0xffff) as u32 + 1
}
