//! The texts that git knows.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Returns names and contents of the files that match patterns of git. A file that is deleted, but not yet in
/// a commit, is empty.
pub fn tracked(root: &Path, patterns: &[&str]) -> Result<Vec<(String, String)>, String> {
    let listed = Command::new("git")
        .args(["ls-files", "-z"])
        .args(patterns)
        .current_dir(root)
        .output()
        .map_err(|error| format!("git ls-files: {error}"))?;
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    let names = names.split('\0').filter(|name| !name.is_empty());
    let text = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_default();
    Ok(names.map(|name| (name.to_string(), text(name))).collect())
}
