//! Files and directories behind one narrow trait.
//!
//! Everything that Terrace reads or writes goes through [`Storage`] and [`File`]. So the same
//! engine runs on a real file system, on a simulated one that crashes, and on one that fails.
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

#[cfg(not(target_os = "linux"))]
compile_error!("Terrace runs on Linux (x86-64 and aarch64) only");

mod by_directory;
mod counting;
mod crash_switch;
mod directory;
mod emulated;
mod error;
mod escaped;
mod failing;
mod file_place;
mod fork;
mod layered;
mod layered_file;
mod limited;
mod no_thread;
mod profile;
mod real;
mod simulated;
mod traits;

pub use by_directory::StorageByDirectory;
pub use counting::{CountingLayer, CountingStorage, IoCounts, IoStatistics};
pub use crash_switch::{CrashSwitch, Step};
pub use directory::{Access, Directory, DirectoryEntry, FileIdentity};
pub use emulated::{EmulatedDevice, EmulatedLayer, EmulatedStorage, PreciseClock};
pub use error::{Error, ErrorKind, Operation};
pub use escaped::Escaped;
pub use failing::{FailingLayer, FailingStorage, Fault, FaultFilter, FaultPlan};
pub use file_place::FilePlace;
pub use fork::{ForkMark, on_fork};
pub use layered::{DirectoryLayer, LayeredDirectory, LayeredStorage};
pub use layered_file::{FileCall, FileLayer, LayeredFile};
pub use limited::{Clock, LimitedLayer, LimitedStorage, RateLimiter, SystemClock};
pub use no_thread::NoThread;
pub use profile::DeviceProfile;
pub use real::RealStorage;
pub use simulated::{CrashKind, SimulatedStorage};
pub use traits::{File, FileSystem, Lock, LockKind, OpenMode, OpenOptions, Purpose, Storage};

/// The result of a storage operation.
pub type Result<T> = std::result::Result<T, Error>;
