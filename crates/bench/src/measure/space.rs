//! Bytes that a store's files take.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Unit of `st_blocks`, whatever the file system's blocks are.
const BLOCK_BYTES: u64 = 512;

/// Space of a store's files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// All files.
    pub bytes: u64,
    /// Those that a store does not tell apart from its tables.
    pub table_bytes: u64,
}

/// Returns the bytes allocated for all files under `directory`: a sparse file counts for its
/// allocated part only. A file that goes away meanwhile does not count.
pub fn allocated_bytes(directory: &Path) -> io::Result<u64> {
    Ok(allocated(directory, &|_| false)?.bytes)
}

/// Returns the same, and the part of it without those files that are `beside` tables, named by
/// their paths within `directory`.
pub fn allocated(directory: &Path, beside: &dyn Fn(&Path) -> bool) -> io::Result<Space> {
    let mut space = Space::default();
    add(&mut space, directory, Path::new(""), beside)?;
    Ok(space)
}

fn add(
    space: &mut Space,
    directory: &Path,
    within: &Path,
    beside: &dyn Fn(&Path) -> bool,
) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = within.join(entry.file_name());
        let added = match entry.metadata() {
            Ok(found) if found.is_dir() => add(space, &entry.path(), &name, beside),
            Ok(found) => {
                let bytes = found.blocks().saturating_mul(BLOCK_BYTES);
                space.bytes = space.bytes.saturating_add(bytes);
                if !beside(&name) {
                    space.table_bytes = space.table_bytes.saturating_add(bytes);
                }
                Ok(())
            }
            Err(error) => Err(error),
        };
        match added {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
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

    #[test]
    fn what_is_beside_tables_is_known_by_its_path_in_the_directory() {
        let directory = tempfile::tempdir_in(".").unwrap();
        fs::create_dir(directory.path().join("logs")).unwrap();
        for (file, bytes) in [("table", 300_000), ("logs/new", 100_000), ("log", 50_000)] {
            let path = directory.path().join(file);
            fs::write(&path, vec![7; bytes]).unwrap();
            fs::File::open(path).unwrap().sync_all().unwrap();
        }
        let beside = |file: &Path| file.starts_with("logs") || file == Path::new("log");
        let space = allocated(directory.path(), &beside).unwrap();
        assert_eq!(space.bytes, allocated_bytes(directory.path()).unwrap());
        let apart = space.bytes - space.table_bytes;
        assert!((150_000..170_000).contains(&apart), "{space:?}");
        assert!((300_000..310_000).contains(&space.table_bytes), "{space:?}");
    }
}
