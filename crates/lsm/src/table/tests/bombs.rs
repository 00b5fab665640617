//! Blocks that expand to more than a block of their kind can hold.

use super::*;
use crate::table::compression::tests::forged;
use crate::table::format::{BlockHandle, encode_trailer};
use crate::table::properties::TableProperties;

/// Far more than the process of a small store has, and little enough to be had by mistake.
const BOMB_BYTES: u32 = 1 << 28;

fn numbered() -> Vec<Version> {
    (0..40)
        .map(|n| version(format!("{n:05}").as_bytes(), 9, Kind::Put, &[7; 40]))
        .collect()
}

/// Puts a block of zeros before the footer of a table, and has the footer name it.
fn with_bomb(name_it: impl FnOnce(&mut TableProperties, BlockHandle)) -> Vec<u8> {
    let storage = memory();
    let mut properties = write(&storage, &numbered(), options(Compression::Zstd, 512));
    let table = storage.bytes(PATH);
    let reader = open(&storage).unwrap();
    let mut out = table[..reader.footer().offset as usize].to_vec();
    let zeros = vec![0; BOMB_BYTES as usize];
    let body = zstd::bulk::compress(&zeros, 1).unwrap();
    let offset = out.len() as u64;
    let stored = forged(&body, Compression::Zstd as u8, BOMB_BYTES, offset);
    out.extend(&stored);
    let length_bytes = stored.len() as u64;
    name_it(
        &mut properties,
        BlockHandle {
            offset,
            length_bytes,
        },
    );
    let encoded = properties.encode();
    let offset = out.len() as u64;
    let footer = forged(&encoded, 1, encoded.len() as u32, offset);
    out.extend(&footer);
    let footer = BlockHandle {
        offset,
        length_bytes: footer.len() as u64,
    };
    let trailer = encode_trailer(footer, out.len() as u64);
    out.extend(trailer);
    out
}

fn opened(table: Vec<u8>) -> crate::Result<Arc<TableReader>> {
    let storage = memory();
    storage.put(PATH, table);
    open(&storage)
}

#[test]
fn a_top_index_that_expands_to_gigabytes_is_refused_before_there_is_memory_for_it() {
    let bomb = with_bomb(|properties, bomb| properties.top_index = Some(bomb));
    let error = opened(bomb).unwrap_err().to_string();
    assert!(error.contains("more than such a block can"), "{error}");
}

#[test]
fn what_is_never_compressed_holds_no_more_than_its_bytes() {
    let bomb = with_bomb(|properties, bomb| properties.sketch = Some(bomb));
    let table = opened(bomb).unwrap();
    let error = table.key_sketch(Purpose::Other).unwrap_err().to_string();
    assert!(error.contains("more than such a block can"), "{error}");
}

/// The fuzzer begins with bombs under good checksums, which it cannot find by itself.
#[test]
fn the_corpus_has_bombs() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/table");
    let bombs = [
        (
            "bomb-top-index",
            with_bomb(|properties, bomb| properties.top_index = Some(bomb)),
        ),
        (
            "bomb-sketch",
            with_bomb(|properties, bomb| properties.sketch = Some(bomb)),
        ),
    ];
    for (name, bomb) in bombs {
        let path = corpus.join(name);
        if std::env::var_os("TERRACE_BLESS").is_some() {
            std::fs::write(&path, &bomb).unwrap();
        }
        assert!(std::fs::read(&path).unwrap() == bomb, "{name}");
    }
}
