//! The codecs of blocks, each behind a feature of its name. Without its feature a codec compresses nothing
//! and takes nothing out; options and tables that ask for it are refused before.

use std::io;

use super::compression::Compression;
use crate::time_profile::{Stage, leaf};

/// Compresses blocks one after the other. Buffers and contexts stay from block to block.
pub(super) enum Codec {
    None,
    #[cfg(feature = "lz4")]
    Lz4 {
        scratch: Vec<u8>,
    },
    #[cfg(feature = "zstd")]
    Zstd {
        compressor: zstd::bulk::Compressor<'static>,
        scratch: Vec<u8>,
    },
}

#[cfg(feature = "zstd")]
const ZSTD_LEVEL: i32 = 3;

impl Codec {
    pub(super) fn new(compression: Compression) -> io::Result<Self> {
        Ok(match compression {
            #[cfg(feature = "lz4")]
            Compression::Lz4 => Codec::Lz4 {
                scratch: Vec::new(),
            },
            #[cfg(feature = "zstd")]
            Compression::Zstd => Codec::Zstd {
                compressor: zstd::bulk::Compressor::new(ZSTD_LEVEL)?,
                scratch: Vec::new(),
            },
            _ => Codec::None,
        })
    }

    /// Returns the contents compressed; `None` if that is not wanted or fails.
    #[cfg_attr(
        not(any(feature = "lz4", feature = "zstd")),
        expect(unused_variables, reason = "no codec reads the contents")
    )]
    pub(super) fn compress(&mut self, contents: &[u8]) -> Option<&[u8]> {
        match self {
            Codec::None => None,
            #[cfg(feature = "lz4")]
            Codec::Lz4 { scratch } => {
                let _packing = leaf(Stage::Compression);
                let bound = lz4_flex::block::get_maximum_output_size(contents.len());
                scratch.resize(bound, 0);
                let length = lz4_flex::block::compress_into(contents, scratch).ok()?;
                scratch.get(..length)
            }
            #[cfg(feature = "zstd")]
            Codec::Zstd {
                compressor,
                scratch,
            } => {
                let _packing = leaf(Stage::Compression);
                let bound = zstd::zstd_safe::compress_bound(contents.len());
                scratch.resize(bound, 0);
                let packed = compressor.compress_to_buffer(contents, scratch.as_mut_slice());
                scratch.get(..packed.ok()?)
            }
        }
    }
}

/// Returns the contents of compressed bytes, which have this length. `None` if they are damaged, or
/// their codec is not there.
pub(super) fn decompressed(
    compression: Compression,
    stored: &[u8],
    length: usize,
) -> Option<Vec<u8>> {
    let _unpacking = leaf(Stage::Decompression);
    match compression {
        Compression::None => Some(stored.to_vec()),
        Compression::Lz4 => unpack_lz4(stored, length),
        Compression::Zstd => unpack_zstd(stored, length),
    }
}

#[cfg(feature = "lz4")]
fn unpack_lz4(stored: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut contents = vec![0; length];
    let result = lz4_flex::block::decompress_into(stored, &mut contents);
    (result.ok() == Some(length)).then_some(contents)
}

#[cfg(not(feature = "lz4"))]
fn unpack_lz4(_: &[u8], _: usize) -> Option<Vec<u8>> {
    None
}

#[cfg(feature = "zstd")]
fn unpack_zstd(stored: &[u8], length: usize) -> Option<Vec<u8>> {
    use std::cell::RefCell;

    use zstd::bulk::Decompressor;

    thread_local! {
        /// A Zstandard context is large and slow to make, a block is small: one for each thread.
        static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
    }

    DECOMPRESSOR.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = Decompressor::new().ok();
        }
        slot.as_mut()?.decompress(stored, length).ok()
    })
}

#[cfg(not(feature = "zstd"))]
fn unpack_zstd(_: &[u8], _: usize) -> Option<Vec<u8>> {
    None
}
