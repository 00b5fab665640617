//! Texts in the sources of all crates.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Two backslashes print one, and the newline and the indent of the source with it.
#[test]
fn no_text_is_continued_by_two_backslashes() {
    let mut found = Vec::new();
    sources(Path::new("src"), &mut found);
    for room in ["bench", "node", "node-server", "nvmf", "region", "storage"] {
        sources(&Path::new("..").join(room).join("src"), &mut found);
    }
    assert!(found.len() > 300, "{}", found.len());
    for path in found {
        let text = fs::read_to_string(&path).unwrap();
        let wrong = text.lines().position(|line| line.ends_with("\\\\"));
        assert_eq!(wrong, None, "{} counts lines from 0", path.display());
    }
}
