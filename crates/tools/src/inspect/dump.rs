//! One file of a store, item by item, for people and scripts.

use std::path::Path;
use std::sync::Arc;

use terrace::offline::files::table_number;
use terrace::{Error, Result};
use terrace_lsm::levels::{self, ManifestDump, manifest_number};
use terrace_lsm::table::{BlockCache, BlockSummary, TableReader};
use terrace_lsm::things::things;
use terrace_region::{FRAMES_START, Header, HeaderState};
use terrace_storage::{Escaped, OpenMode, OpenOptions, Purpose, Storage};

/// Kind and contents of a file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Dump {
    /// `table`, `arena` or `manifest`.
    pub kind: &'static str,
    /// Facts of the whole file: name and value.
    pub summary: Vec<(&'static str, String)>,
    /// Its parts, in the order of their offsets.
    pub items: Vec<DumpItem>,
    /// Error that kept the dump from going on.
    pub problem: Option<Error>,
}

/// One block, frame or record.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DumpItem {
    /// Offset in bytes from the start of the file.
    pub offset: u64,
    /// Its length in bytes.
    pub length_bytes: u64,
    /// Kind of the item.
    pub kind: &'static str,
    /// Contents as text.
    pub text: String,
}

/// Shows a table, an arena or a manifest, told apart by its name.
///
/// # Errors
/// [`Error::InvalidArgument`] for any other name; [`Error::Io`] if the file cannot be read;
/// [`Error::Corruption`] if nothing in it can be shown.
pub fn dump(storage: &dyn Storage, path: &Path) -> Result<Dump> {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    if let Some(number) = table_number(name) {
        dump_table(storage, path, number)
    } else if manifest_number(name).is_some() {
        dump_manifest(storage, path)
    } else if name.starts_with("arena-") {
        dump_arena(storage, path)
    } else {
        Err(Error::invalid(format!(
            "{} is none of <number>.table, arena-<number>, MANIFEST-<number>",
            Escaped::path(path)
        )))
    }
}

fn dump_table(storage: &dyn Storage, path: &Path, number: u64) -> Result<Dump> {
    let cache = Arc::new(BlockCache::new(0, false));
    let (directory, name) = storage.parent(path)?;
    let reader = TableReader::open(&*directory, name, number, cache)?;
    let properties = reader.properties();
    let escape = |key: &[u8]| key.escape_ascii().to_string();
    let (smallest, largest) = properties.user_keys().unwrap_or_default();
    let mut summary = vec![
        ("identity", format!("{:032x}", properties.identity)),
        ("keyspace", properties.keyspace.to_string()),
        ("entries", properties.entries.to_string()),
        ("tombstones", properties.tombstones.to_string()),
        ("smallest key", escape(smallest)),
        ("largest key", escape(largest)),
        (
            "sequences",
            format!(
                "{}..={}",
                properties.smallest_sequence, properties.largest_sequence
            ),
        ),
        ("key bytes", properties.user_key_bytes.to_string()),
        ("value bytes", properties.value_bytes.to_string()),
        ("file bytes", properties.file_bytes.to_string()),
        ("compression", properties.compression.name().to_owned()),
        ("age when written", properties.age_hint.to_string()),
    ];
    if let Some((kind, bytes)) = properties.filter() {
        let bits = bytes as f64 * 8.0 / properties.entries.max(1) as f64;
        let text = format!("{}, {bits:.1} bits an entry", kind.name());
        summary.push(("filter", text));
    }
    if let Some(ranges) = &properties.range_tombstones {
        let (start, end) = (escape(&ranges.start), escape(&ranges.end));
        let text = format!("{} from {start} up to {end}", ranges.count);
        summary.push(("range tombstones", text));
    }
    if let Some(seconds) = properties.oldest_tombstone_seconds {
        let text = format!("{} since 1970", things(seconds, "second"));
        summary.push(("oldest tombstone", text));
    }
    if let Some(noted) = properties.superseded {
        let text = format!(
            "{} with {} of keys and values, by numbers up to {}",
            noted.versions,
            things(noted.bytes, "byte"),
            noted.largest_by
        );
        summary.push(("superseded versions", text));
    }
    let mut items = Vec::new();
    let shown = reader.inspect(&mut |block| {
        items.push(block_item(&block));
        Ok(())
    });
    Ok(Dump {
        kind: "table",
        summary,
        items,
        problem: shown.err(),
    })
}

fn block_item(block: &BlockSummary) -> DumpItem {
    let mut text = format!(
        "{} of contents, {}",
        things(block.contents_bytes, "byte"),
        block.compression.name()
    );
    if let Some((key, sequence)) = &block.first_key {
        let key = key.escape_ascii();
        text += &format!(", {} from {key}@{sequence}", things(block.entries, "entry"));
    }
    DumpItem {
        offset: block.offset,
        length_bytes: block.stored_bytes,
        kind: block.role.name(),
        text,
    }
}

fn dump_manifest(storage: &dyn Storage, path: &Path) -> Result<Dump> {
    let records = ManifestDump::open(storage, path)?;
    let summary = vec![("number", records.number().to_string())];
    let mut items = Vec::new();
    let mut problem = None;
    for record in records {
        match record {
            Ok(levels::DumpItem::Record {
                offset,
                length_bytes,
                edit,
            }) => items.push(DumpItem {
                offset,
                length_bytes,
                kind: "edit",
                text: edit.to_string(),
            }),
            Ok(levels::DumpItem::Mark {
                offset,
                length_bytes,
            }) => items.push(DumpItem {
                offset,
                length_bytes,
                kind: "mark",
                text: "the edit before it is durable".to_owned(),
            }),
            Ok(levels::DumpItem::DroppedTail(tail)) => items.push(DumpItem {
                offset: tail.offset,
                length_bytes: tail.length_bytes,
                kind: "dropped tail",
                text: tail.to_string(),
            }),
            Err(error) => problem = Some(error),
        }
    }
    Ok(Dump {
        kind: "manifest",
        summary,
        items,
        problem,
    })
}

fn dump_arena(storage: &dyn Storage, path: &Path) -> Result<Dump> {
    let bytes = read_arena(storage, path)?;
    let header = match Header::decode(&bytes) {
        HeaderState::Intact(header) => header,
        HeaderState::UnknownVersion(version) => {
            return Err(Error::unsupported(
                path,
                format!("arena format version {version}"),
            ));
        }
        // Only a region decides that a header is foreign.
        HeaderState::Foreign(header) => header,
        HeaderState::NotAFile => {
            return Err(Error::corruption(path, 0, "it is not a regular file"));
        }
        HeaderState::Damaged(detail) => return Err(Error::corruption(path, 0, detail)),
        HeaderState::Blank => {
            let summary = vec![("state", "never used".to_owned())];
            return Ok(Dump {
                kind: "arena",
                summary,
                items: Vec::new(),
                problem: None,
            });
        }
    };
    let scan = terrace_region::list_frames(&bytes, header.key());
    let summary = vec![
        ("generation", header.generation.to_string()),
        ("slot", header.slot.to_string()),
        (
            "store",
            format!("{:032x}", u128::from_le_bytes(header.store)),
        ),
        ("capacity bytes", header.capacity_bytes.to_string()),
        ("frames", scan.frames.len().to_string()),
        ("end of frames", scan.end_bytes.to_string()),
        ("frames behind the end", scan.behind.len().to_string()),
    ];
    let item = |kind, frame: &terrace_region::FrameInfo| DumpItem {
        offset: frame.offset as u64,
        length_bytes: (frame.next_offset() - frame.offset) as u64,
        kind,
        text: format!(
            "writes {}..={}, {} of payload, persisted until {}",
            frame.first_sequence,
            frame.last_sequence(),
            things(frame.payload_bytes, "byte"),
            frame.persisted_until
        ),
    };
    let frames = scan.frames.iter().map(|frame| item("frame", frame));
    let behind = scan
        .behind
        .iter()
        .map(|frame| item("frame behind damage", frame));
    Ok(Dump {
        kind: "arena",
        summary,
        items: frames.chain(behind).collect(),
        problem: None,
    })
}

fn read_arena(storage: &dyn Storage, path: &Path) -> Result<Vec<u8>> {
    let (directory, name) = storage.parent(path)?;
    let file = directory.open(name, OpenOptions::buffered(OpenMode::Read))?;
    let length_bytes = file.length_bytes()?;
    if length_bytes < FRAMES_START as u64 || length_bytes > terrace_region::MAX_CAPACITY_BYTES {
        let detail = format!("{length_bytes} bytes: no arena has this size");
        return Err(Error::corruption(path, length_bytes, detail));
    }
    let mut bytes = vec![0; length_bytes as usize];
    file.read_exact_at(&mut bytes, 0, Purpose::Other)?;
    Ok(bytes)
}
