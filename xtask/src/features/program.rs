//! A program that depends on the engine alone, without any of its features.

use terrace::{Compression, Db, Error, KeyspaceOptions, Options, WriteOptions};

fn main() {
    let mut paths = std::env::args().skip(1);
    let [own, packed, named] = [(); 3].map(|()| paths.next().expect("three directories"));

    let db = Db::open(&own, Options::default()).expect("a store of this program");
    for key in 0..2000u32 {
        db.put(key.to_be_bytes(), [7; 100]).expect("a put");
    }
    db.compact_range(..).expect("a merge");
    assert_eq!(db.range(..).expect("a scan").count(), 2000);
    let mut batch = terrace::WriteBatch::new();
    batch.put("last", "row").expect("a record");
    db.write(batch, WriteOptions::with_sync(true)).expect("a synced write");
    db.close().expect("a close");

    for (compression, name) in [(Compression::Lz4, "lz4"), (Compression::Zstd, "zstd")] {
        assert!(!compression.is_built_in(), "the program was built with {name}");
        let options = KeyspaceOptions {
            compression: vec![compression],
            ..KeyspaceOptions::default()
        };
        let refused = options.check().expect_err("an option of a feature left out");
        assert!(matches!(refused, Error::InvalidArgument(_)), "{refused:?}");
        assert!(refused.to_string().contains(name), "{refused}");
    }

    // A table of another program: its first row asks for the feature by name.
    let db = Db::open(&packed, Options::default()).expect("a store with packed tables");
    let refused = db.get("lisbon").expect_err("a table compressed with zstd");
    assert!(matches!(refused, Error::Unsupported { .. }), "{refused:?}");
    println!("{refused}");
    assert!(refused.to_string().contains("without the feature `zstd`"), "{refused}");

    // A keyspace whose options ask for lz4: the manifest is sound, and says so.
    let refused = Db::open(&named, Options::default()).expect_err("a keyspace of another program");
    assert!(matches!(refused, Error::Unsupported { .. }), "{refused:?}");
    println!("{refused}");
    assert!(refused.to_string().contains("`lz4`"), "{refused}");
}
