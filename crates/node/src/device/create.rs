//! Files that stand in for a device.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;
use terrace::Escaped;

use super::open::{lock, open_file};
use super::transfer;
use crate::block::{BLOCK_BYTES, Buffer};
use crate::error::{Error, Result};

/// So much is written at once.
const STEP_BYTES: usize = 1 << 20;

/// Makes a file of `bytes` zeros, durably. They are really written: then no later write has to change
/// the file system's own records. `progress` gets the number of bytes written.
///
/// # Errors
/// [`Error::Occupied`] if there is a file and `force` is not given, or a node has the file locked. A
/// file that was made here and could not be filled is removed.
pub fn create_file(
    path: &Path,
    bytes: u64,
    force: bool,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    if bytes == 0 || !bytes.is_multiple_of(BLOCK_BYTES as u64) {
        let what = format!("a file of {bytes} bytes: not a multiple of {BLOCK_BYTES}");
        return Err(Error::InvalidArgument(what));
    }
    let (file, is_new) = begin(path, force)?;
    let filled = fill(&file, path, bytes, progress);
    if filled.is_err() && is_new {
        // The first error says more than one of the removal.
        let _ = std::fs::remove_file(path);
    }
    filled
}

/// Opens the file, empty and locked, and says whether it is a new one.
fn begin(path: &Path, force: bool) -> Result<(File, bool)> {
    let named = |source| Error::io(format!("create {}", Escaped::path(path)), source);
    let mut options = File::options();
    let made = options.write(true).create_new(true).mode(0o600).open(path);
    let is_new = match made {
        Ok(_) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            check_existing(path, force)?;
            false
        }
        Err(error) => return Err(named(error)),
    };
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let (file, _) = open_file(path, flags).map_err(|error| named(error.into()))?;
    // A node that works on the file must not find it empty.
    lock(&file, path)?;
    file.set_len(0).map_err(named)?;
    Ok((file, is_new))
}

fn check_existing(path: &Path, force: bool) -> Result<()> {
    let metadata = path.metadata();
    let metadata =
        metadata.map_err(|source| Error::io(format!("create {}", Escaped::path(path)), source))?;
    let what = match metadata.is_file() {
        true if force => return Ok(()),
        true => "the file exists; remove it or ask for it to be overwritten",
        false => "this is not a regular file",
    };
    Err(Error::Occupied {
        path: path.to_owned(),
        what: what.into(),
    })
}

fn fill(file: &File, path: &Path, bytes: u64, progress: &mut dyn FnMut(u64)) -> Result<()> {
    let named = |source| Error::io(format!("fill {}", Escaped::path(path)), source);
    // A lack of space shows before anything is written.
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        Err(error) => return Err(named(error.into())),
    }
    let zeros = Buffer::zeroed(STEP_BYTES / BLOCK_BYTES);
    let mut done = 0;
    while done < bytes {
        let step = (bytes - done).min(STEP_BYTES as u64);
        transfer::write_full(file, &zeros[..step as usize], done).map_err(named)?;
        done += step;
        progress(done);
    }
    file.sync_all().map_err(named)?;
    sync_directory(path).map_err(named)
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::super::{Access, Medium};
    use super::*;

    #[test]
    fn a_file_is_filled_with_zeros() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let bytes = (2 << 20) + 3 * BLOCK_BYTES as u64;
        let mut steps = Vec::new();
        create_file(&path, bytes, false, &mut |done| steps.push(done)).unwrap();
        assert_eq!(steps, [1 << 20, 2 << 20, bytes]);
        let metadata = path.metadata().unwrap();
        assert_eq!(metadata.len(), bytes);
        assert!(metadata.blocks() * 512 >= bytes, "space is allocated");
        assert!(std::fs::read(&path).unwrap().iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_file_is_overwritten_only_by_force() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![1; 5 * BLOCK_BYTES]).unwrap();
        let block = BLOCK_BYTES as u64;
        let error = create_file(&path, block, false, &mut |_| {}).unwrap_err();
        assert!(matches!(error, Error::Occupied { .. }), "{error}");
        let node = Medium::open(&path, Access::Write).unwrap();
        let error = create_file(&path, block, true, &mut |_| {}).unwrap_err();
        assert!(matches!(error, Error::Occupied { .. }), "{error}");
        drop(node);
        assert_eq!(path.metadata().unwrap().len(), 5 * block, "as it was");
        create_file(&path, block, true, &mut |_| {}).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), vec![0; BLOCK_BYTES]);
    }

    #[test]
    fn no_file_is_left_where_there_is_no_space() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let error = create_file(&path, 1 << 60, false, &mut |_| {}).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
        assert!(!path.exists());
        let error = create_file(&path, 4097, false, &mut |_| {}).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
        let error = create_file(directory.path(), 4096, true, &mut |_| {}).unwrap_err();
        assert!(matches!(error, Error::Occupied { .. }), "{error}");
    }
}
