//! Replays the fuzzers' corpus with the stable toolchain: no input may make a parser panic.
//!
//! `TERRACE_BLESS=1` rewrites the seeds after a change of format; findings of fuzzers stay.

mod specimen;

use std::fs;
use std::path::PathBuf;

use terrace_node::format::fuzz;

type Parser = fn(&[u8]);

/// The parsers, under the names of their targets in `fuzz/fuzz_targets`.
const TARGETS: [(&str, Parser); 5] = [
    ("node_checkpoint", fuzz::node_checkpoint),
    ("node_journal", fuzz::node_journal),
    ("node_segment", fuzz::node_segment),
    ("node_superblock", fuzz::node_superblock),
    ("node_trailer", fuzz::node_trailer),
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
    let mut names: Vec<String> = names.filter(|name| name.starts_with("node_")).collect();
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
    // Parsers put zeros behind input that is shorter than a block.
    let trimmed = |bytes: &[u8]| {
        let end = bytes
            .iter()
            .rposition(|&byte| byte != 0)
            .map_or(0, |last| last + 1);
        bytes[..end].to_vec()
    };
    let superblock = specimen::superblock().encode(0);
    save("node_superblock", "seed", &trimmed(&superblock));
    save("node_journal", "seed", &trimmed(&specimen::journal()));
    let checkpoint = specimen::checkpoint();
    save("node_checkpoint", "seed", &trimmed(&checkpoint));
    save("node_checkpoint", "content", &trimmed(&checkpoint[4096..]));
    save("node_segment", "seed", &specimen::segment());
    // Parsers of a trailer need no more than it.
    for (name, trailer) in ["one-extent", "seed"].into_iter().zip(specimen::trailers()) {
        let block = specimen::last_block(&trailer);
        let start = block.iter().position(|&byte| byte != 0).unwrap();
        save("node_trailer", name, &block[start..]);
    }
}
