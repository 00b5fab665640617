//! Links the system's LevelDB, and tells the program which versions of the stores it was built with.

use std::{env, fs, process};

/// Packages whose version is printed with the settings of a run, and the variable it is passed in.
const PRINTED: [(&str, &str); 5] = [
    ("fjall", "FJALL_VERSION"),
    ("heed", "HEED_VERSION"),
    ("librocksdb-sys", "LIBROCKSDB_SYS_VERSION"),
    ("redb", "REDB_VERSION"),
    ("rocksdb", "ROCKSDB_CRATE_VERSION"),
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=Cargo.lock");
    let lock = fs::read_to_string("Cargo.lock").unwrap_or_else(|error| {
        eprintln!("Cargo.lock, read for the versions of the stores: {error}");
        process::exit(1)
    });
    for (package, variable) in PRINTED {
        let version = version_of(package, &lock).unwrap_or("unknown");
        println!("cargo:rustc-env={variable}={version}");
    }
    if env::var_os("CARGO_FEATURE_LEVELDB").is_some() {
        println!("cargo:rustc-link-lib=leveldb");
    }
}

fn version_of<'a>(package: &str, lock: &'a str) -> Option<&'a str> {
    let entry = format!("[[package]]\nname = \"{package}\"\nversion = \"");
    let (_, rest) = lock.split_once(&entry)?;
    Some(rest.split_once('"')?.0)
}
