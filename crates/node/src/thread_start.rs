//! The start of every thread of a node.

use std::io;
use std::thread::{Builder, JoinHandle};

use terrace::NoThread;

/// Starts a thread.
///
/// # Errors
/// The system has none left; the error names its limits on threads.
pub fn start<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let thread = Builder::new().name(name.to_owned());
    let started = thread.spawn(work);
    started.map_err(|error| NoThread::new(name, error).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_the_system_refuses_is_told_with_the_limits() {
        // No system maps a stack of this size.
        let refused = Builder::new().stack_size(1 << 62).spawn(|| ()).unwrap_err();
        let error = io::Error::from(NoThread::new("node-device", refused));
        let text = error.to_string();
        assert!(text.starts_with("node-device: "), "{text}");
        assert!(
            text.contains("RLIMIT_NPROC") && text.contains("pids.max"),
            "{text}"
        );
    }
}
