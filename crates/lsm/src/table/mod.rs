//! The sorted table file: blocks of versions in key order under a two-level index, with a filter.
//!
//! A table is written once, front to back ([`TableWriter`]), and never changed. Behind the header
//! come the data blocks, the partitions of the index, the top index over the partitions, and the
//! filter. Then come the sketches, the range tombstones, and the footer, which says where all those
//! are. A trailer of fixed length ends the file and says where the footer is. docs/formats.md has
//! every byte.
//!
//! Readers first believe the trailer, by its own checksum. Then they believe blocks, each by a
//! checksum seeded with its offset. Last comes every length and offset in them, by comparison with
//! the block or file it must fit. A lookup ([`TableReader::get`]) searches one block of each kind
//! and rebuilds no keys; a [`TableCursor`] walks both ways.
//!
//! Nothing here knows of levels but their numbers, for which reads and writes are counted and timed. Which tables
//! are read, and in which order, is the business of levels.

mod block;
mod block_bounds;
mod block_builder;
mod cache;
mod check;
mod codec;
mod compression;
pub mod copies;
mod cursor;
mod descriptors;
mod filter;
pub mod forging;
mod format;
pub mod fuzz;
mod index_block;
mod index_builder;
mod inspect;
mod key_sample;
mod properties;
mod range_block;
mod read_ahead;
mod reader;
mod reads;
mod resident_blocks;
mod salvage;
mod sample;
mod sketch;
mod sketches;
mod source;
mod superseded;
mod table_cache;
mod table_file;
mod tally;
mod times;
mod unread;
mod walk;
mod writer;

pub use cache::BlockCache;
pub use compression::Compression;
pub use cursor::TableCursor;
pub(crate) use descriptors::sparing;
pub use descriptors::{TableLimit, closes_tables_for};
pub use filter::FilterBench;
pub use filter::{FILTER_BUILD_BYTES_PER_KEY, FilterForm, FilterKind, key_hash};
pub use format::{MAX_BLOCK_BYTES, MAX_VALUE_BYTES};
pub use inspect::BlockSummary;
pub use key_sample::SampledVersion;
pub use properties::{RESTART_INTERVAL, TableOptions, TableProperties};
pub use reader::{CursorOptions, TableReader, read_properties};
pub use reads::{DeviceReads, READ_PARTS};
pub(crate) use reads::{LevelReads, TableReads};
pub use sketch::{Sketch, SmallSketch};
pub(crate) use superseded::Superseded;
pub use table_cache::{KeptOpen, TableCache, another_table};
pub use times::TableTimes;
pub use unread::Unread;
pub use writer::TableWriter;

#[cfg(test)]
mod tests;
