//! Repair: damage is named and kept aside, everything else is there again, and a repair that is cut
//! short at any step can be run again.

mod arenas;
mod foreign;
mod forged;
#[path = "../image/mod.rs"]
mod image;
mod interruption;
mod manifest;
mod random;
mod specimen;
mod strangers;
#[path = "../support/mod.rs"]
mod support;
mod tables;
