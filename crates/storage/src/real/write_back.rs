//! Sending dirty pages of the page cache on their way before a sync waits for them.
//!
//! `posix_fadvise(DONTNEED)` has a safe wrapper and starts write-back as well, but drops the pages,
//! which are read again soon; so this one call is made without a wrapper.
#![expect(unsafe_code, reason = "no crate in use wraps sync_file_range")]

use std::fs;
use std::io;
use std::os::fd::AsRawFd;

/// Starts the write-back of a range and does not wait for it. Where the file system knows no such
/// thing, nothing happens: the sync does all of it then.
pub(super) fn start(file: &fs::File, offset: u64, length_bytes: u64) -> io::Result<()> {
    let (Ok(offset), Ok(length)) = (i64::try_from(offset), i64::try_from(length_bytes)) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // SAFETY: the call takes numbers only and reads or writes no memory of this process; the
    // descriptor is open as long as `file` is borrowed.
    let outcome = unsafe {
        libc::sync_file_range(
            file.as_raw_fd(),
            offset,
            length,
            libc::SYNC_FILE_RANGE_WRITE,
        )
    };
    if outcome == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENOSYS | libc::EOPNOTSUPP | libc::ESPIPE) => Ok(()),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_range_is_accepted_wherever_it_ends_and_nothing_changes() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 10_000]).unwrap();
        start(&file, 0, 8192).unwrap();
        start(&file, 8192, 1 << 30).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 10_000);
        start(&file, u64::MAX, 1).unwrap_err();
    }
}
