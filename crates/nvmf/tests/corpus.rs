//! Replays the fuzzers' corpus with the stable toolchain: no input may make a parser panic.
//!
//! `TERRACE_BLESS=1` writes the seeds anew; what fuzzers have found stays.

use std::fs;
use std::path::PathBuf;

use terrace_nvmf::fuzz;

type Parser = fn(&[u8]);

/// The parsers, under the names of their targets in `fuzz/fuzz_targets`.
const TARGETS: [(&str, Parser); 3] = [
    ("nvmf_host", fuzz::nvmf_host),
    ("nvmf_message", fuzz::nvmf_message),
    ("nvmf_target", fuzz::nvmf_target),
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
            // What a fuzzer tries first.
            for length in 0..bytes.len() {
                parse(&bytes[..length]);
            }
            for at in 0..bytes.len() {
                for value in [bytes[at] ^ 1 << (at % 8), 0, 0xff] {
                    let mut changed = bytes.clone();
                    changed[at] = value;
                    parse(&changed);
                }
            }
            count += 1;
        }
        assert!(count >= 2, "{target} has {count} inputs");
    }
}

#[test]
fn every_target_is_replayed() {
    let files = fs::read_dir(fuzz_directory().join("fuzz_targets")).unwrap();
    let stem = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let names = files.map(|file| stem(file.unwrap().path()));
    let mut names: Vec<String> = names.filter(|name| name.starts_with("nvmf_")).collect();
    names.sort();
    assert_eq!(names, TARGETS.map(|(target, _)| target));
}

fn bless() {
    let save = |target: &str, name: &str, bytes: &[u8]| {
        let directory = fuzz_directory().join("corpus").join(target);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(name), bytes).unwrap();
        fs::write(directory.join("empty"), b"").unwrap();
    };
    for (name, bytes) in fuzz::target_seeds() {
        save("nvmf_target", name, &bytes);
    }
    for (name, bytes) in fuzz::host_seeds() {
        save("nvmf_host", name, &bytes);
    }
    save("nvmf_message", "negotiate", &fuzz::negotiate());
}
