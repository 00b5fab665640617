//! The tests of changes since the last commit: unit tests of changed crates, and changed test programs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use crate::Outcome;
use crate::process::{cargo, show};

/// Runs the tests of all changes since the last commit, or of the last commit if there are none.
pub fn test(root: &Path) -> Outcome {
    let paths = changed(root, &["HEAD"]).and_then(|paths| {
        if paths.is_empty() {
            return changed(root, &["HEAD~1", "HEAD"]);
        }
        Ok(paths)
    });
    let paths = match paths {
        Ok(paths) => paths,
        Err(what) => return Outcome::Failed(what),
    };
    let packages = packages(paths.iter().map(String::as_str));
    let runs = packages.iter().map(|(folder, programs)| {
        let mut command = cargo(root);
        command.args(["test", "--locked", "-p", &package_of(folder)]);
        let has_library = root.join(folder).join("src/lib.rs").exists();
        command.arg(if has_library { "--lib" } else { "--bins" });
        let exists = |name: &&String| {
            let tests = root.join(folder).join("tests");
            tests.join(name).join("main.rs").exists() || tests.join(format!("{name}.rs")).exists()
        };
        for program in programs.iter().filter(exists) {
            command.args(["--test", program]);
        }
        show(&mut command)
    });
    Outcome::of_parts(runs)
}

/// Returns the paths that git lists as different, new ones included.
fn changed(root: &Path, revisions: &[&str]) -> Result<Vec<String>, String> {
    let list = |arguments: &[&str]| {
        let listed = Command::new("git")
            .args(arguments)
            .current_dir(root)
            .output();
        let listed = listed.map_err(|error| format!("git: {error}"))?;
        let text = String::from_utf8_lossy(&listed.stdout).into_owned();
        Ok::<_, String>(text.lines().map(String::from).collect::<Vec<_>>())
    };
    let mut paths = list(&[&["diff", "--name-only"], revisions].concat())?;
    if revisions == ["HEAD"] {
        paths.extend(list(&["ls-files", "--others", "--exclude-standard"])?);
    }
    Ok(paths)
}

/// Returns the folders of changed packages, each with its test programs that changed.
fn packages<'a>(paths: impl Iterator<Item = &'a str>) -> BTreeMap<String, BTreeSet<String>> {
    let mut packages: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in paths {
        let parts: Vec<&str> = path.split('/').collect();
        let (folder, rest) = match parts.as_slice() {
            ["crates", name, rest @ ..] => (format!("crates/{name}"), rest),
            ["xtask", rest @ ..] => ("xtask".to_string(), rest),
            _ => continue,
        };
        let programs = packages.entry(folder).or_default();
        if let ["tests", name, ..] = rest {
            programs.insert(name.trim_end_matches(".rs").to_string());
        }
    }
    packages
}

fn package_of(folder: &str) -> String {
    match folder.strip_prefix("crates/") {
        None | Some("terrace") => folder.trim_start_matches("crates/").to_string(),
        Some(name) => format!("terrace-{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_path_names_its_package_and_test_program() {
        let paths = [
            "crates/terrace/src/db/read.rs",
            "crates/terrace/tests/crash/main.rs",
            "crates/node/tests/power_cuts.rs",
            "xtask/src/gate.rs",
            "docs/node.md",
        ];
        let found = packages(paths.into_iter());
        let shown: Vec<String> = found
            .iter()
            .map(|(folder, programs)| {
                let programs: Vec<_> = programs.iter().map(String::as_str).collect();
                format!("{} {}", package_of(folder), programs.join(","))
            })
            .collect();
        assert_eq!(
            shown,
            ["terrace-node power_cuts", "terrace crash", "xtask "]
        );
    }
}
