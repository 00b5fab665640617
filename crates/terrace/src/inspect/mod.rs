//! Looking into a store's files without changing them: [`verify()`] checks everything, [`dump()`]
//! shows one file.

mod dump;
mod prometheus;
mod verify;

pub use dump::{Dump, DumpItem, dump};
pub use verify::{Problem, VerifyReport, verify};
