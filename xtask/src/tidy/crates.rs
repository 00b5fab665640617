//! The crates of the workspace, read and parsed.

use std::fs;
use std::path::{Path, PathBuf};

use super::read;
use super::source::{self, Source};

/// A crate of `crates/`, parsed.
pub struct Crate {
    pub name: String,
    /// Each file with its place below the workspace.
    pub files: Vec<(PathBuf, Source)>,
    /// The lines of files that hold tests alone, with their places.
    pub test_files: Vec<(PathBuf, usize)>,
    pub dependencies: Vec<String>,
}

/// Returns the crates of `crates/`, in the order of their names.
pub fn crates(root: &Path) -> Result<Vec<Crate>, String> {
    let io = |error: std::io::Error| error.to_string();
    let mut crates = Vec::new();
    for entry in fs::read_dir(root.join("crates")).map_err(io)? {
        let folder = entry.map_err(io)?.path();
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let mut found = Crate {
            dependencies: dependencies(&read(&folder.join("Cargo.toml"))?, &name)?,
            name: name.into_owned(),
            files: Vec::new(),
            test_files: Vec::new(),
        };
        let source = folder.join("src");
        found.take(root, &source, &source)?;
        found.files.sort_by(|a, b| a.0.cmp(&b.0));
        crates.push(found);
    }
    crates.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(crates)
}

/// Returns the folders of the crates of this workspace that a crate needs when it is built.
fn dependencies(manifest: &str, name: &str) -> Result<Vec<String>, String> {
    let manifest: toml::Table =
        toml::from_str(manifest).map_err(|error| format!("{name}, Cargo.toml: {error}"))?;
    let needed = manifest
        .get("dependencies")
        .and_then(toml::Value::as_table)
        .into_iter()
        .flat_map(|table| table.keys());
    let ours = needed.filter_map(|needed| match needed.as_str() {
        "terrace" => Some("terrace"),
        other => other.strip_prefix("terrace-"),
    });
    Ok(ours.map(String::from).collect())
}

impl Crate {
    fn take(&mut self, root: &Path, source: &Path, folder: &Path) -> Result<(), String> {
        let io = |error: std::io::Error| format!("{}: {error}", folder.display());
        for entry in fs::read_dir(folder).map_err(io)? {
            let path = entry.map_err(io)?.path();
            if path.is_dir() {
                self.take(root, source, &path)?;
                continue;
            }
            if path.extension().is_none_or(|end| end != "rs") {
                continue;
            }
            let shown = path.strip_prefix(root).unwrap_or(&path).to_path_buf();
            let place = path.strip_prefix(source).unwrap_or(&path);
            let text = read(&path)?;
            if source::is_of_tests(place) {
                self.test_files.push((shown, text.lines().count()));
                continue;
            }
            let parsed = Source::parse(&text, place)
                .map_err(|error| format!("{}, {error}", shown.display()))?;
            self.files.push((shown, parsed));
        }
        Ok(())
    }
}
