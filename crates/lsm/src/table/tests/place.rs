//! Tables in a place that is no directory.

use terrace_storage::{
    DirectoryEntry, Error, File, FilePlace, Operation, Result, SimulatedStorage,
};

use super::*;

/// A place without renames, links and locks. It refuses to open a file for anything but being made or read.
#[derive(Debug)]
struct Bucket(Arc<dyn Directory>);

impl FilePlace for Bucket {
    fn path(&self) -> &Path {
        self.0.path()
    }

    fn open(&self, name: &str, options: OpenOptions) -> Result<Arc<dyn File>> {
        match options.mode {
            OpenMode::CreateNew | OpenMode::Read => self.0.open(name, options),
            other => {
                let refused = std::io::Error::other(format!("{other:?} is not for tables"));
                Err(Error::new(Operation::Open, &self.shown(name), refused))
            }
        }
    }

    fn sync(&self) -> Result<()> {
        self.0.sync()
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.0.remove(name)
    }

    fn list(&self) -> Result<Vec<DirectoryEntry>> {
        self.0.list()
    }

    fn free_space_bytes(&self) -> Result<u64> {
        self.0.free_space_bytes()
    }
}

#[test]
fn a_table_asks_a_place_for_whole_files_only() {
    let storage = SimulatedStorage::new(1, terrace_storage::CrashSwitch::new());
    storage.create_directory(Path::new("/t")).unwrap();
    let bucket = Arc::new(Bucket(directory_at(&storage, "/t")));
    let versions: Vec<Version> = (0..500u32)
        .map(|number| version(&number.to_be_bytes(), 7, Kind::Put, &[9; 100]))
        .collect();
    let form = || options(Compression::None, 512);
    let mut writer = TableWriter::create(bucket.clone(), "7.table".to_owned(), form()).unwrap();
    for version in &versions {
        writer.add(internal(version), &version.2).unwrap();
    }
    writer.finish().unwrap();
    // A table that is given up goes.
    let name = "8.table".to_owned();
    drop(TableWriter::create(bucket.clone(), name, form()).unwrap());
    let names: Vec<String> = bucket
        .list()
        .unwrap()
        .into_iter()
        .map(|of| of.name)
        .collect();
    assert_eq!(names, ["7.table"]);
    let cache = Arc::new(BlockCache::new(0, false));
    let table = TableReader::open(&*bucket, "7.table", 7, cache).unwrap();
    table.verify().unwrap();
    for version in &versions {
        let found = get(&table, &version.0, 7).unwrap();
        assert_eq!(found, Some((version.1, version.2.clone())));
    }
}
