use super::*;
use crate::cursor::Cursor;

fn versions() -> Vec<Version> {
    (0..400u64)
        .map(|n| version(format!("{n:05}").as_bytes(), n + 1, Kind::Put, &[7; 40]))
        .collect()
}

fn table_on(storage: &SimulatedStorage) -> (Arc<TableReader>, Arc<BlockCache>) {
    write(storage, &versions(), options(Compression::None, 512));
    let cache = Arc::new(BlockCache::new(1 << 20));
    let table = TableReader::open(storage, PathBuf::from(PATH), 7, Arc::clone(&cache));
    (table.unwrap(), cache)
}

#[test]
fn a_block_is_read_once_and_found_afterwards() {
    let storage = memory();
    let (table, cache) = table_on(&storage);
    get(&table, b"00100", 500).unwrap().unwrap();
    assert_eq!((cache.hits(), cache.misses()), (0, 2));
    get(&table, b"00100", 500).unwrap().unwrap();
    assert_eq!((cache.hits(), cache.misses()), (2, 2));
}

#[test]
fn a_key_that_the_filter_denies_costs_no_block() {
    let storage = memory();
    let (table, cache) = table_on(&storage);
    let denied = (0..100u32)
        .map(|n| format!("00100/{n}"))
        .find(|key| !table.may_contain(key_hash(key.as_bytes(), SEED)))
        .unwrap();
    assert_eq!(get(&table, denied.as_bytes(), 500).unwrap(), None);
    assert_eq!(cache.misses(), 0);
}

#[test]
fn a_read_that_may_not_fill_the_cache_does_not() {
    let storage = memory();
    let (table, cache) = table_on(&storage);
    let mut cursor = table.cursor(CursorOptions::uncached(Purpose::Compaction));
    cursor.seek_to_first().unwrap();
    while cursor.valid() {
        cursor.next().unwrap();
    }
    assert_eq!(cache.used_bytes(), 0);
}

#[test]
fn a_failed_read_does_not_poison_the_cache() {
    let storage = memory();
    let (table, cache) = table_on(&storage);
    let good = storage.bytes(PATH);
    let mode = OpenOptions::buffered(OpenMode::ReadWrite);
    let file = storage.open(Path::new(PATH), mode).unwrap();
    file.write_at(&[0xee; 300], 100, Purpose::Other).unwrap();
    assert!(get(&table, b"00001", 500).is_err());
    assert_eq!(cache.misses(), 2);
    file.write_at(&good, 0, Purpose::Other).unwrap();
    assert_eq!(get(&table, b"00001", 500).unwrap().unwrap().1, [7; 40]);
    assert_eq!((cache.hits(), cache.misses()), (1, 3));
}

#[test]
fn a_value_outlives_its_block_in_the_cache() {
    let storage = memory();
    write(&storage, &versions(), options(Compression::None, 512));
    let cache = Arc::new(BlockCache::new(0));
    let table = TableReader::open(&storage, PathBuf::from(PATH), 7, Arc::clone(&cache)).unwrap();
    let hash = key_hash(b"00007", SEED);
    let found = table.get(b"00007", hash, 500, CursorOptions::user_read());
    let (_, value) = found.unwrap().unwrap();
    assert_eq!(cache.used_bytes(), 0);
    drop(table);
    assert_eq!(&*value, [7; 40]);
}

#[test]
fn open_tables_are_counted_limited_and_forgotten() {
    let storage = Arc::new(memory());
    write(&*storage, &versions(), options(Compression::None, 512));
    let bytes = storage.bytes(PATH);
    for number in 1..=20 {
        storage.put(&format!("/t/{number}.table"), bytes.clone());
    }
    let blocks = Arc::new(BlockCache::new(1 << 20));
    let storage_object: Arc<dyn Storage> = Arc::clone(&storage) as _;
    let tables = TableCache::new(storage_object, PathBuf::from("/t"), 4, blocks).unwrap();
    let open = |number| tables.get(number, |_| true);
    let seventh = open(7).unwrap();
    assert!(Arc::ptr_eq(&seventh, &open(7).unwrap()));
    assert_eq!(tables.metadata_bytes(), seventh.metadata_bytes() as u64);
    for number in 1..=20 {
        assert_eq!(
            open(number).unwrap().path(),
            table_path("/t".as_ref(), number)
        );
    }
    assert!(tables.open_tables() <= 4);
    open(7).unwrap();
    tables.remove(7);
    storage.remove(Path::new(PATH)).unwrap();
    assert!(open(7).is_err());
    assert_eq!(get(&seventh, b"00003", 500).unwrap().unwrap().1, [7; 40]);
    storage.put(PATH, bytes);
    let error = tables
        .get(7, |properties| properties.entries == 0)
        .unwrap_err();
    assert!(error.to_string().contains("not the one"), "{error}");
    open(7).unwrap();
}
