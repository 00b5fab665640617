//! Measures the speed of the device below a directory: the facts of a [`DeviceProfile`].
//!
//! [`measure`] writes a file of random bytes past the page cache, reads it in order and at random, and
//! syncs small writes. It removes the file in every outcome but the death of the process. Method and
//! alternatives stand in docs/decisions/probe.md.
//!
//! `options` has the limits, `plan` their division among the phases, `content` the bytes and the offsets,
//! and `figures` turns samples into spreads: all of these are pure. `file` owns the file, `phases` and
//! `readers` do the requests, `watch` holds them to their time. `outcome` is the result, `presets` compares
//! it with known devices, `text` writes a profile as TOML, and `profile_file`
//! reads it back.
//!
//! ```
//! use std::ops::ControlFlow;
//! use std::time::Duration;
//! use terrace_storage::RealStorage;
//! use terrace_tools::probe::{ProbeOptions, measure};
//!
//! let directory = tempfile::tempdir().unwrap();
//! let options = ProbeOptions {
//!     max_file_bytes: 1 << 20,
//!     max_duration: Duration::from_millis(10),
//!     ..ProbeOptions::default()
//! };
//! let go_on = &mut |_| ControlFlow::Continue(());
//! let outcome = measure(&RealStorage, directory.path(), &options, go_on)?;
//! assert!(outcome.profile.read_latency_us > 0.0);
//! # Ok::<(), terrace_tools::probe::Error>(())
//! ```

mod content;
mod error;
mod figures;
mod file;
mod options;
mod outcome;
mod phases;
mod plan;
mod presets;
mod profile_file;
mod readers;
#[cfg(test)]
mod tests;
mod text;
mod watch;

use std::ops::ControlFlow;
use std::path::Path;

use terrace_storage::{Access, DeviceProfile, Storage};

pub use self::error::{Error, Result};
pub use self::figures::{Latency, Spread};
pub use self::options::{MIN_FREE_BYTES, ProbeOptions};
pub use self::outcome::{Medium, Outcome};
pub use self::presets::{Resemblance, nearest};
pub use self::profile_file::read_profile;
pub use self::text::toml;
pub use self::watch::{Phase, Progress};

use self::file::ProbeFile;
use self::plan::Plan;
use self::watch::Watch;

/// Measures the device that holds a directory. `tell` hears of the progress many times a second, and can
/// end the work.
///
/// # Errors
/// [`Error::NoSpace`] on an almost full file system, [`Error::Occupied`] if the file's name is taken,
/// [`Error::Interrupted`] if `tell` breaks off, [`Error::WrongBytes`] if a read finds other bytes than
/// were written, [`Error::NoThread`] for want of threads, [`Error::NothingMeasured`] if the options allow
/// no request, and [`Error::Storage`] for a failed operation.
pub fn measure(
    storage: &dyn Storage,
    path: &Path,
    options: &ProbeOptions,
    tell: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Outcome> {
    let directory = storage.directory(path, Access::Owner)?;
    let file_system = directory.file_system()?;
    let free_bytes = directory.free_space_bytes()?;
    let plan = Plan::of(options, free_bytes).ok_or_else(|| Error::NoSpace {
        path: path.to_path_buf(),
        free_bytes,
    })?;
    let file = ProbeFile::create(directory)?;
    let medium = Medium::of(&file_system, file.file().is_direct());
    let mut watch = Watch::new(options.max_duration, tell);
    let measured = phases::all(&file, &plan, &mut watch);
    // The file goes in both cases. A failed phase is the cause that counts.
    let removed = file.remove();
    let measured = measured?;
    removed?;
    Ok(Outcome {
        file_system: file_system.name,
        medium,
        file_bytes: measured.file_bytes,
        profile: DeviceProfile {
            read_bytes_per_second: measured.read_bytes_per_second.median,
            write_bytes_per_second: measured.write_bytes_per_second.median,
            read_latency_us: measured.read.p50_us.median,
            queued_read_latency_us: measured.queued_read.p50_us.median,
            sync_latency_us: measured.sync.p50_us.median,
            price_per_gb: options.price_per_gb,
            endurance_writes: options.endurance_writes,
        },
        write_bytes_per_second: measured.write_bytes_per_second,
        read_bytes_per_second: measured.read_bytes_per_second,
        read: measured.read,
        queued_read: measured.queued_read,
        sync: measured.sync,
    })
}
