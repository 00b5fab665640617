//! Replays the fuzzers' corpus with the stable toolchain: no input may make a parser panic.
//!
//! `TERRACE_BLESS=1` rewrites the seeds, out of a real store, after a change of format; findings of
//! fuzzers stay.

mod image;
mod support;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use image::{Image, STORE};
use terrace::{Background, Db, DeviceProfile, Options, TierOptions, internal};
use terrace_region::{Header, HeaderState, list_frames};
use terrace_storage::{CrashSwitch, OpenMode, OpenOptions, Purpose, SimulatedStorage, Storage};

type Parser = fn(&[u8]);

/// The parsers, under the names of their targets in `fuzz/fuzz_targets`.
const TARGETS: [(&str, Parser); 12] = [
    ("arena", internal::fuzz_arena),
    ("block", internal::fuzz_block),
    ("cache", internal::fuzz_cache),
    ("current", internal::fuzz_current),
    ("edit", internal::fuzz_edit),
    ("forged", internal::fuzz_forged),
    ("manifest", internal::fuzz_manifest),
    ("record", internal::fuzz_record),
    ("region", internal::fuzz_region),
    ("request", terrace_tools::inspect::fuzz_request),
    ("table", internal::fuzz_table),
    ("tier", internal::fuzz_tier),
];

fn fuzz_directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

#[test]
fn every_input_of_the_corpus_is_taken_without_a_panic() {
    if std::env::var_os("TERRACE_BLESS").is_some() {
        bless();
    }
    for (target, parse) in TARGETS {
        let inputs = fs::read_dir(fuzz_directory().join("corpus").join(target)).unwrap();
        let mut count = 0;
        for input in inputs {
            let path = input.unwrap().path();
            println!("{}", path.display());
            let bytes = fs::read(&path).unwrap();
            parse(&bytes);
            // Inputs that a fuzzer tries first.
            for length in 0..bytes.len().min(300) {
                parse(&bytes[..length]);
            }
            for at in (0..bytes.len()).step_by(7) {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << (at % 8);
                parse(&flipped);
            }
            count += 1;
        }
        assert!(count >= 2, "{target} has {count} inputs");
    }
}

#[test]
fn every_target_is_replayed() {
    let files = fs::read_dir(fuzz_directory().join("fuzz_targets")).unwrap();
    let mut names: Vec<String> = files
        .map(|file| {
            file.unwrap()
                .path()
                .file_stem()
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    // Those of the storage node and of its network are replayed by their own tests.
    names.retain(|name| !name.starts_with("node_") && !name.starts_with("nvmf_"));
    names.sort();
    assert_eq!(names, TARGETS.map(|(target, _)| target));
}

/// Returns a killed store with tables on two levels and frames in an arena.
fn specimen() -> Image {
    let disk = SimulatedStorage::new(1, CrashSwitch::new());
    let options = support::script::tiny(Options {
        storage: Arc::new(disk.clone()),
        background: Background::Inline,
        randomness: internal::Randomness::seeded(1),
        ..Options::default()
    });
    let db = Db::open(STORE, options).unwrap();
    internal::create_second(&db).unwrap();
    for number in 0..60u64 {
        let key = format!("key-{:03}", number * 7 % 40);
        db.put(key.as_bytes(), vec![number as u8; number as usize * 3])
            .unwrap();
        if number % 5 == 0 {
            db.delete(format!("key-{:03}", number % 40).as_bytes())
                .unwrap();
        }
    }
    db.flush().unwrap();
    db.compact().unwrap();
    db.put(b"", b"an empty key").unwrap();
    db.put(b"large", [7; 5_000]).unwrap();
    db.delete(b"key-003").unwrap();
    Image::of(&disk)
}

/// Returns the file `REGION` of a store with arenas elsewhere.
fn region_identity() -> Vec<u8> {
    let disk = SimulatedStorage::new(1, CrashSwitch::new());
    let options = support::script::tiny(Options {
        storage: Arc::new(disk.clone()),
        background: Background::Inline,
        randomness: internal::Randomness::seeded(1),
        region_dir: Some("/fast".into()),
        ..Options::default()
    });
    let _db = Db::open(STORE, options).unwrap();
    let options = OpenOptions::buffered(OpenMode::Read);
    let file = disk.open("/fast/REGION".as_ref(), options).unwrap();
    let mut bytes = vec![0; file.length_bytes().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0, Purpose::Other).unwrap();
    bytes
}

/// Returns the file `TIER` of a store with a second tier, and its manifest.
fn tier_identity() -> (Vec<u8>, Vec<u8>) {
    let disk = SimulatedStorage::new(1, CrashSwitch::new());
    let mut options = support::script::tiny(Options {
        storage: Arc::new(disk.clone()),
        background: Background::Inline,
        randomness: internal::Randomness::seeded(1),
        tiers: vec![TierOptions {
            capacity_bytes: Some(1 << 40),
            profile: Some(DeviceProfile::WD10EZEX),
            ..TierOptions::new("slow", "/slow")
        }],
        ..Options::default()
    });
    options.default_keyspace.level_tiers = vec!["store".into(), "slow".into()];
    let db = Db::open(STORE, options.clone()).unwrap();
    db.create_keyspace("second", options.default_keyspace)
        .unwrap();
    for number in 0..200u64 {
        db.put(number.to_be_bytes(), [number as u8; 100]).unwrap();
    }
    db.flush().unwrap();
    db.compact().unwrap();
    db.drain_tier("slow").unwrap();
    let read = |path: &str| {
        let options = OpenOptions::buffered(OpenMode::Read);
        let file = disk.open(path.as_ref(), options).unwrap();
        let length = file.length_bytes().unwrap() as usize;
        file.read_vec_at(length, 0, Purpose::Other).unwrap()
    };
    let manifests = disk.list(STORE.as_ref()).unwrap().into_iter();
    let mut manifests = manifests.map(|entry| entry.name);
    let manifest = manifests.find(|name| name.starts_with("MANIFEST")).unwrap();
    (read("/slow/TIER"), read(&format!("{STORE}/{manifest}")))
}

fn bless() {
    let image = specimen();
    let save = |target: &str, name: &str, bytes: &[u8]| {
        let directory = fuzz_directory().join("corpus").join(target);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(name), bytes).unwrap();
        fs::write(directory.join("empty"), b"").unwrap();
    };
    save("region", "seed", &region_identity());
    let (tier, manifest) = tier_identity();
    save("tier", "seed", &tier);
    let golden = env!("CARGO_MANIFEST_DIR").to_owned() + "/tests/golden/cache-v1.bin";
    save("cache", "seed", &fs::read(golden).unwrap());
    save("manifest", "tiers", &manifest);
    let of_tiers = edits(&manifest).into_iter().enumerate();
    // The first ones are like those of any store.
    for (number, edit) in of_tiers.rev().take(3) {
        save("edit", &format!("tiers-{number}"), edit);
    }
    // Changes to one block each, and to many.
    for block in [0u8, 8, 16, 20, 21, 24] {
        let changes = (0..40u8).flat_map(|at| [block, at * 2, 0, at.wrapping_mul(37)]);
        save(
            "forged",
            &format!("block-{block}"),
            &Vec::from_iter(changes),
        );
    }
    let changes = (0..30u8).flat_map(|at| [at, at * 3, 0, b'0' + at % 10]);
    save("forged", "many-blocks", &Vec::from_iter(changes));
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../lsm/tests/golden");
    let table = fs::read(golden.join("table-v2-ranges.bin")).unwrap();
    save("table", "ranges", &table);
    save("block", "ranges", range_tombstones(&table));
    let table = fs::read(golden.join("table-v2-fuse.bin")).unwrap();
    save("table", "fuse", &table);
    let table = fs::read(golden.join("table-v2-oldest-tombstone.bin")).unwrap();
    save("table", "oldest-tombstone", &table);
    for (name, bytes) in &image.files {
        if name == "CURRENT" {
            save("current", "seed", bytes);
        } else if name.starts_with("MANIFEST-") {
            save("manifest", "seed", bytes);
            for (number, edit) in edits(bytes).into_iter().enumerate() {
                save("edit", &format!("seed-{number}"), edit);
            }
        } else if name.ends_with(".table") {
            save("table", "seed", bytes);
            save("block", "seed", first_block(bytes));
        } else if let HeaderState::Intact(header) = Header::decode(bytes) {
            let found = list_frames(bytes, header.key());
            if let Some(last) = found.frames.last() {
                save("arena", "seed", &bytes[..last.next_offset() + 64]);
                let payload = last.payload_offset()..last.payload_offset() + last.payload_bytes;
                save("record", "seed", &bytes[payload]);
            }
        }
    }
}

/// Returns the contents of the block of range tombstones, from its first entry, which deletes from
/// the empty key on, to its number of restart points.
fn range_tombstones(table: &[u8]) -> &[u8] {
    let first = [&[0, 8, 8][..], &(7u64 << 8 | 4).to_le_bytes(), b"key/0003"].concat();
    let start = table.windows(first.len()).position(|w| w == first).unwrap();
    let rest = &table[start..];
    let is_end =
        |&end: &usize| rest[end] == 1 && rest[end + 1..end + 5] == (end as u32).to_le_bytes();
    let end = (first.len()..rest.len() - 5).find(is_end).unwrap();
    &rest[..end]
}

/// Returns the payloads of a manifest's edits: `checksum u64 | length u32 | kind u32 | payload`,
/// padded to 8 bytes, from byte 32 on. A mark of kind 2 follows each.
fn edits(manifest: &[u8]) -> Vec<&[u8]> {
    let mut edits = Vec::new();
    let mut rest = &manifest[32..];
    while rest.len() > 16 {
        let length = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        if rest[12] == 1 {
            edits.push(&rest[16..16 + length]);
        }
        rest = &rest[16 + length.next_multiple_of(8)..];
    }
    edits
}

/// Returns the contents of the first block, which starts behind the header: up to the first place
/// where an uncompressed block's trailer says its own length.
fn first_block(table: &[u8]) -> &[u8] {
    const START: usize = 16;
    let is_end = |&end: &usize| {
        let length = u32::from_le_bytes(table[end + 1..end + 5].try_into().unwrap());
        table[end] == 1 && length as usize == end - START
    };
    let end = (START + 1..table.len() - 5).find(is_end).unwrap();
    &table[START..end]
}
