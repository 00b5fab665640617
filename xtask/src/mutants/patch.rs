//! The patches of `mutants/`: a head of `why:` and `test:` lines, and a diff.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A patch that breaks one rule, and the test that notices.
pub struct Mutant {
    pub name: String,
    /// The value of the switch that chooses this mutant, from 1 on.
    pub number: u32,
    pub patch: PathBuf,
    /// The arguments of `cargo test`.
    pub test: Vec<String>,
}

/// Returns all mutants of a directory, in the order of their names.
pub fn load(directory: &Path) -> Result<Vec<Mutant>, String> {
    let files = match fs::read_dir(directory) {
        Ok(files) => files,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("{}: {error}", directory.display())),
    };
    let mut patches: Vec<PathBuf> = files
        .flatten()
        .map(|file| file.path())
        .filter(|path| path.extension().is_some_and(|end| end == "patch"))
        .collect();
    patches.sort();
    (1..)
        .zip(patches)
        .map(|(number, patch)| {
            let name = patch.file_stem().unwrap_or_default();
            Ok(Mutant {
                name: name.to_string_lossy().into_owned(),
                number,
                test: test_of(&patch)?,
                patch,
            })
        })
        .collect()
}

/// Returns the arguments in the `test:` line of a patch's head.
fn test_of(patch: &Path) -> Result<Vec<String>, String> {
    let text =
        fs::read_to_string(patch).map_err(|error| format!("{}: {error}", patch.display()))?;
    let mut head = text
        .lines()
        .take_while(|line| !line.starts_with("diff --git"));
    let line = head.find_map(|line| line.strip_prefix("test:"));
    let words: Vec<String> = line
        .unwrap_or_default()
        .split_whitespace()
        .map(String::from)
        .collect();
    if words.is_empty() {
        return Err(format!(
            "{} has no `test: ARGUMENTS` line in its head",
            patch.display()
        ));
    }
    Ok(words)
}

/// Returns the paths of the files that a patch changes.
pub fn files_of(patch: &str) -> impl Iterator<Item = &str> {
    patch
        .lines()
        .filter_map(|line| line.strip_prefix("+++ b/"))
        .map(str::trim_end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_without_a_test_line_is_refused() {
        let directory = std::env::temp_dir().join(format!("xtask-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let patch = directory.join("a.patch");
        fs::write(
            &patch,
            "why: x\ntest: -p terrace --lib db\ndiff --git a b\n",
        )
        .unwrap();
        assert_eq!(test_of(&patch).unwrap(), ["-p", "terrace", "--lib", "db"]);
        fs::write(&patch, "why: x\ndiff --git a b\ntest: -p terrace\n").unwrap();
        assert!(test_of(&patch).unwrap_err().contains("test:"));
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn every_file_of_a_patch_is_named() {
        let patch = "why: x\n--- a/x/a.rs\n+++ b/x/a.rs\n@@\n-a\n+b\n--- a/b.rs\n+++ b/b.rs\n";
        assert!(files_of(patch).eq(["x/a.rs", "b.rs"]));
    }
}
