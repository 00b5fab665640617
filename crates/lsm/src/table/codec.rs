//! The codecs of blocks, each behind a feature of its name. Without its feature a codec compresses nothing
//! and takes nothing out; options and tables that ask for it are refused before.

use std::io;

use super::compression::Compression;
#[cfg(any(feature = "lz4", feature = "zstd"))]
use crate::debug_expect::DebugExpect;
#[cfg(any(feature = "lz4", feature = "zstd"))]
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
                Some(within_bound(scratch, length))
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
                Some(within_bound(scratch, packed.ok()?))
            }
        }
    }
}

#[cfg(any(feature = "lz4", feature = "zstd"))]
fn within_bound(scratch: &[u8], length: usize) -> &[u8] {
    scratch
        .get(..length)
        .debug_expect("a compressed block fits the bound")
}

/// Returns the contents of bytes that LZ4 compressed, which have this length. `None` if they are damaged, or
/// LZ4 is left out.
#[cfg(feature = "lz4")]
pub(super) fn unpack_lz4(stored: &[u8], length: usize) -> Option<Vec<u8>> {
    let _unpacking = leaf(Stage::Decompression);
    let mut contents = vec![0; length];
    let result = lz4_flex::block::decompress_into(stored, &mut contents);
    (result.ok() == Some(length)).then_some(contents)
}

#[cfg(not(feature = "lz4"))]
pub(super) fn unpack_lz4(_: &[u8], _: usize) -> Option<Vec<u8>> {
    None
}

/// Returns the contents of bytes that Zstandard compressed, as [`unpack_lz4`] does.
#[cfg(feature = "zstd")]
pub(super) fn unpack_zstd(stored: &[u8], length: usize) -> Option<Vec<u8>> {
    use std::cell::RefCell;

    use zstd::bulk::Decompressor;

    thread_local! {
        /// A Zstandard context is large and slow to make, a block is small: one for each thread.
        static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
    }

    let _unpacking = leaf(Stage::Decompression);
    DECOMPRESSOR.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = Decompressor::new().ok();
        }
        slot.as_mut()?.decompress(stored, length).ok()
    })
}

#[cfg(not(feature = "zstd"))]
pub(super) fn unpack_zstd(_: &[u8], _: usize) -> Option<Vec<u8>> {
    None
}
