//! Memory regions that survive a crash: arenas of checksummed frames.
//!
//! A [`Region`] hands out arenas. An [`Arena`] takes frames at its end, makes them power-safe on
//! request, and lets any number of threads read its frames without a lock. How bytes become durable
//! is the [`Device`] below the region, chosen when it is opened:
//!
//! | method | device | an appended frame survives | a persisted frame survives |
//! |---|---|---|---|
//! | `written` | plain files; frames are built in DRAM and written by one `pwrite` | death of the process | power loss |
//! | `mapped` | plain files, mapped; frames are stored into the page cache | death of the process | power loss, on a disk |
//! | `dax` | files in persistent memory, mapped with MAP_SYNC; cache lines are written back | death of the process | power loss |
//! | `volatile` | DRAM | nothing | (refused) |
//! | `stored` | any [`Memory`]: CPU stores into memory that survives | death of the process | power loss |
//!
//! This crate knows nothing of keys; the bytes are specified in `docs/formats.md`.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic
    )
)]
#![deny(missing_docs)]
#![deny(unsafe_code)]

mod anonymous;
mod arena;
mod cache_lines;
mod dax;
mod device;
mod error;
mod files;
mod format;
mod front;
mod image;
mod mapped;
mod mapping;
mod persist_mark;
mod recovery;
mod region;
mod scan;
mod simulated;
mod slots;
mod stored;
mod volatile;
mod window;
mod written;

pub use anonymous::{AnonymousMemory, limit_allocator_arenas, release_free_memory};
pub use arena::{Appended, Arena, Frame, FrameView, Frames};
pub use dax::DaxOptions;
pub use device::{Attached, Description, Device, DeviceSlot, Medium};
pub use error::{Error, Result};
pub use format::{
    ArenaKey, CAPACITY_STEP_BYTES, FRAME_HEADER_BYTES, FRAMES_START, FrameInfo, HEADER_BYTES,
    Header, HeaderState, MAX_CAPACITY_BYTES, MIN_CAPACITY_BYTES, capacity_for_payload,
};
pub use front::{FRONT_BYTES, Front, FrontFault};
pub use image::{Image, ImagePool, ImageWriter};
pub use mapped::MappedOptions;
pub use recovery::{Expected, Judge, Placement, Recovered, SlotInfo};
pub use region::{Region, Slot};
pub use scan::{FrameList, FrameRun, FrameSpan, Scan, list_frames};
pub use simulated::{MemoryKind, SimulatedMemory};
pub use stored::{Memory, Stored};
pub use window::{SlotReader, Window};
pub use written::WrittenOptions;
