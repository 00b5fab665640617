//! The imports between the files of a crate, and between its rooms.
//!
//! A room is a folder right below `src`, or a file there with the modules below it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::source::Source;

/// The imports of a crate: each file's module with the modules that it imports from.
pub struct Imports {
    files: BTreeMap<String, BTreeSet<String>>,
}

impl Imports {
    pub fn of(sources: &[&Source]) -> Imports {
        let modules: BTreeSet<&[String]> = sources.iter().map(|source| &*source.module).collect();
        let handed_on: HashMap<&[String], &[String]> = sources
            .iter()
            .flat_map(|source| &source.handed_on)
            .map(|(name, path)| (name.as_slice(), path.as_slice()))
            .collect();
        let resolve = |path: &[String]| {
            let path = place_of(path, &handed_on);
            (1..=path.len())
                .rev()
                .filter_map(|length| path.get(..length))
                .find(|module| modules.contains(module))
                .map(|module| module.join("::"))
        };
        let files = sources.iter().filter(|source| !source.module.is_empty());
        let files = files.map(|source| {
            let module = source.module.join("::");
            let found = source.uses.iter().filter_map(|path| resolve(path));
            (
                module.clone(),
                found.filter(|other| *other != module).collect(),
            )
        });
        Imports {
            files: files.collect(),
        }
    }

    /// Returns the rooms.
    pub fn rooms(&self) -> BTreeSet<&str> {
        self.files.keys().map(|module| room_of(module)).collect()
    }

    /// Returns the imports, as "file -> file", of a room from one that stands above it in an order.
    pub fn upward(&self, order: &[String]) -> Vec<String> {
        let height = |module: &str| order.iter().position(|room| room == room_of(module));
        let mut upward = Vec::new();
        for (file, imported) in &self.files {
            for other in imported {
                if height(other) > height(file) {
                    upward.push(format!("{file} -> {other}"));
                }
            }
        }
        upward
    }

    /// Returns the circles of files that lie in more than one room.
    pub fn circles(&self) -> Vec<Vec<&str>> {
        let mut circles = Vec::new();
        let mut placed: BTreeSet<&str> = BTreeSet::new();
        let reached: BTreeMap<&str, BTreeSet<&str>> = self
            .files
            .keys()
            .map(|file| (file.as_str(), self.reached_from(file)))
            .collect();
        for (file, others) in &reached {
            if placed.contains(*file) {
                continue;
            }
            let is_mutual =
                |other: &&&str| reached.get(*other).is_some_and(|back| back.contains(file));
            let circle: Vec<&str> = others.iter().filter(is_mutual).copied().collect();
            placed.extend(&circle);
            let rooms: BTreeSet<&str> = circle.iter().copied().map(room_of).collect();
            if rooms.len() > 1 {
                circles.push(circle);
            }
        }
        circles
    }

    /// Returns the files that a file imports, and those that these import, and so on.
    fn reached_from(&self, file: &str) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut waiting: Vec<&str> = self.imported_by(file).collect();
        while let Some(next) = waiting.pop() {
            if reached.insert(next) {
                waiting.extend(self.imported_by(next));
            }
        }
        reached
    }

    fn imported_by(&self, file: &str) -> impl Iterator<Item = &str> {
        self.files
            .get(file)
            .into_iter()
            .flatten()
            .map(String::as_str)
    }
}

/// Returns the path at which a name lies, behind all modules that hand it on.
fn place_of(path: &[String], handed_on: &HashMap<&[String], &[String]>) -> Vec<String> {
    /// More modules than hand a name on. Two that hand it to each other end here.
    const MAX_STEPS: usize = 8;
    let mut path = path.to_vec();
    for _ in 0..MAX_STEPS {
        let found = (1..=path.len()).rev().find_map(|length| {
            let (name, rest) = path.split_at_checked(length)?;
            Some([handed_on.get(name)?, rest].concat())
        });
        match found {
            Some(next) => path = next,
            None => break,
        }
    }
    path
}

fn room_of(module: &str) -> &str {
    module.split("::").next().unwrap_or(module)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn imports(files: &[(&str, &str)]) -> Imports {
        let sources: Vec<Source> = files
            .iter()
            .map(|(place, text)| Source::parse(text, Path::new(place)).unwrap())
            .collect();
        Imports::of(&sources.iter().collect::<Vec<_>>())
    }

    #[test]
    fn an_import_from_above_is_named() {
        let imports = imports(&[
            ("lib.rs", "pub use db::Db;"),
            ("table.rs", "use crate::{Db, key::Key};"),
            ("key.rs", ""),
            ("db/mod.rs", "use crate::table::Table; use crate::key;"),
        ]);
        assert!(imports.rooms().into_iter().eq(["db", "key", "table"]));
        let order = ["key", "table", "db"].map(String::from);
        assert_eq!(imports.upward(&order), ["table -> db"]);
    }

    #[test]
    fn a_name_is_imported_from_where_it_lies() {
        let imports = imports(&[
            ("db/mod.rs", "use crate::inspect::socket::Server;"),
            (
                "inspect/socket/mod.rs",
                "pub(crate) use self::server::Server;",
            ),
            ("inspect/socket/server.rs", "use crate::db::Store;"),
        ]);
        let order = ["db", "inspect"].map(String::from);
        assert_eq!(imports.upward(&order), ["db -> inspect::socket::server"]);
        assert_eq!(imports.circles(), [["db", "inspect::socket::server"]]);
    }

    #[test]
    fn a_circle_counts_if_it_leaves_its_room() {
        let inside = [
            ("db/mod.rs", "use crate::db::read::get;"),
            ("db/read.rs", "use crate::db::Store;"),
        ];
        assert!(imports(&inside).circles().is_empty());
        let across = [
            ("db/read.rs", "use crate::table::get;"),
            ("table.rs", "use crate::cache::Cache;"),
            ("cache.rs", "use crate::db::read::Read;"),
            ("key.rs", "use crate::cache::Cache;"),
        ];
        assert_eq!(imports(&across).circles(), [["cache", "db::read", "table"]]);
    }
}
