//! What a recovery finds in a slot: facts, no decisions.

use std::sync::Arc;

use crate::arena::Arena;
use crate::format::HeaderState;
use crate::scan::Scan;

/// A slot that the region holds, as evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotInfo {
    /// Its number.
    pub number: u64,
    /// Its size in bytes; not necessarily one that an arena can have.
    pub length_bytes: u64,
    /// Its header.
    pub header: HeaderState,
}

/// An arena found after a crash, for one generation.
#[derive(Debug)]
pub struct Recovered {
    /// The arena, sealed; it holds the frames of `scan.frames` and no others.
    pub arena: Arc<Arena>,
    /// Its header.
    pub header: HeaderState,
    /// The header is intact and of the generation asked for: the arena was activated.
    pub is_activated: bool,
    /// It was activated in the present boot of the machine: if damage is found, the process died
    /// and not the machine. False if the header cannot tell.
    pub is_same_boot: bool,
    /// The frames and the damage.
    pub scan: Scan,
}

impl Recovered {
    /// Frames lie here although the header, durable before any of them, does not vouch for them:
    /// the header was damaged afterwards. Without frames, the arena was never activated.
    pub fn has_lost_header(&self) -> bool {
        !self.is_activated && self.scan.all_frames().next().is_some()
    }
}
