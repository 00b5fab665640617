//! Other stores as contestants of `terrace_bench`: each told the same settings in its own way.
#![deny(unsafe_code)]
#![deny(missing_docs)]

#[cfg(all(
    feature = "rocksdb",
    target_arch = "x86_64",
    not(all(target_feature = "sse4.2", target_feature = "pclmulqdq"))
))]
compile_error!(
    "RocksDB takes its checksums from the hardware only if told so at compile time, and would be \
     slower here than anyone runs it. Build in `peers/`, whose .cargo/config.toml asks for \
     `-C target-feature=+sse4.2,+pclmulqdq`, or add these to RUSTFLAGS where that is set."
);

pub mod contestants;
