//! Bytes that a store's files take.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What `st_blocks` counts in, whatever the file system's blocks are.
const BLOCK_BYTES: u64 = 512;

/// Bytes allocated for all files under `directory`: a sparse file counts for what it really holds. A
/// file that goes away meanwhile does not count.
pub fn allocated_bytes(directory: &Path) -> io::Result<u64> {
    let mut total = 0u64;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let bytes = match entry.metadata() {
            Ok(found) if found.is_dir() => allocated_bytes(&entry.path()),
            Ok(found) => Ok(found.blocks().saturating_mul(BLOCK_BYTES)),
            Err(error) => Err(error),
        };
        match bytes {
            Ok(bytes) => total = total.saturating_add(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_do_not_count_and_subdirectories_do() {
        let directory = tempfile::tempdir_in(".").unwrap();
        fs::create_dir(directory.path().join("sub")).unwrap();
        fs::write(directory.path().join("sub/full"), vec![7; 100_000]).unwrap();
        let sparse = fs::File::create(directory.path().join("sparse")).unwrap();
        sparse.set_len(1 << 30).unwrap();
        // Blocks are given when data is written back.
        fs::File::open(directory.path().join("sub/full"))
            .unwrap()
            .sync_all()
            .unwrap();
        let bytes = allocated_bytes(directory.path()).unwrap();
        assert!((100_000..1_000_000).contains(&bytes), "{bytes}");
    }
}
