//! The choice among the ways to a medium.

use std::io;
use std::sync::Arc;

use terrace::Escaped;

use super::{Device, Medium, RingDevice, ThreadDevice};
use crate::error::{Error, Result};

const MOST_THREADS: usize = 16;

/// The way requests take to the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// The ring; threads where the system has or allows none.
    #[default]
    Auto,
    /// An io_uring.
    Ring,
    /// Threads with one request each.
    Threads,
}

/// Makes a device for one event loop, which asks the system for at most `depth` things at once.
///
/// # Errors
/// The system refuses it.
pub fn open_device(medium: Arc<Medium>, backend: Backend, depth: usize) -> Result<Box<dyn Device>> {
    let what = |way: &str| format!("reach {} by {way}", Escaped::path(&medium.path));
    if backend != Backend::Threads {
        match RingDevice::new(Arc::clone(&medium), depth) {
            Ok(device) => return Ok(Box::new(device)),
            Err(error) if backend == Backend::Auto && is_refusal(&error) => {}
            Err(error) => return Err(Error::io(what("an io_uring"), error)),
        }
    }
    match ThreadDevice::new(Arc::clone(&medium), depth.clamp(1, MOST_THREADS)) {
        Ok(device) => Ok(Box::new(device)),
        Err(error) => Err(Error::io(what("threads"), error)),
    }
}

/// Returns true if there is no ring to be had: it is unknown, forbidden, or would lock too much memory.
fn is_refusal(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS | libc::ENOMEM)
    )
}
