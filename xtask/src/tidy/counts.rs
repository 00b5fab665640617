//! Counts of the order of the house, and the limits that they are held to.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::crates::Crate;
use super::imports::Imports;
use super::layers::Layers;
use super::source::Source;

/// Lines of a function, its signature included, and of a file.
const MAX_FUNCTION_LINES: usize = 80;
const MAX_FILE_LINES: usize = 600;
/// Lines of code by which a crate may stay below its limit.
const SPARE_CODE_LINES: usize = 300;

/// The limits, as in `limits.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    options: usize,
    upward_imports: usize,
    files_in_circles: usize,
    store_fields: usize,
    misplaced_methods: usize,
    long_functions: usize,
    long_files: usize,
    code_lines: BTreeMap<String, usize>,
    pub clause_words_per_10_000: usize,
    pub mean_sentence_words: usize,
    pub long_sentences: usize,
    pub step_minutes: BTreeMap<String, u32>,
}

/// The counts, each with its places.
pub struct Counts {
    options: usize,
    upward_imports: Vec<String>,
    files_in_circles: Vec<String>,
    store_fields: usize,
    misplaced_methods: Vec<String>,
    long_functions: Vec<String>,
    long_files: Vec<String>,
    code_lines: BTreeMap<String, usize>,
}

impl Counts {
    /// Counts. `reference` is docs/options.md, which a test compares with the tables of options.
    pub fn of(crates: &[Crate], layers: &Layers, reference: &str) -> Result<Counts, String> {
        let rows = reference.lines().filter(|line| line.starts_with("| `"));
        let mut counts = Counts {
            options: rows.count(),
            upward_imports: Vec::new(),
            files_in_circles: Vec::new(),
            store_fields: 0,
            misplaced_methods: Vec::new(),
            long_functions: Vec::new(),
            long_files: Vec::new(),
            code_lines: BTreeMap::new(),
        };
        for found in crates {
            counts.add_order(found, layers)?;
            counts.add_sizes(found);
        }
        Ok(counts)
    }

    /// Adds the imports of a crate that go up, or round.
    fn add_order(&mut self, found: &Crate, layers: &Layers) -> Result<(), String> {
        let name = &found.name;
        let height = |name: &str| layers.crates.iter().position(|other| other == name);
        if height(name).is_none() {
            return Err(format!("ARCHITECTURE.md: the layers lack the crate {name}"));
        }
        for needed in &found.dependencies {
            if height(needed) > height(name) {
                self.upward_imports.push(format!("{name} -> {needed}"));
            }
        }
        let Some(order) = layers.rooms.get(name) else {
            return Ok(());
        };
        let sources = found.files.iter().map(|(_, source)| source);
        let imports = Imports::of(&sources.collect::<Vec<_>>());
        let mut rooms = imports.rooms().into_iter();
        if let Some(room) = rooms.find(|room| !order.iter().any(|other| other == room)) {
            return Err(format!("ARCHITECTURE.md: the layers of {name} lack {room}"));
        }
        let named = |place: &str| format!("{name}: {place}");
        let upward = imports.upward(order);
        self.upward_imports
            .extend(upward.iter().map(|import| named(import)));
        for circle in imports.circles() {
            self.files_in_circles.extend(circle.into_iter().map(named));
        }
        Ok(())
    }

    fn add_sizes(&mut self, found: &Crate) {
        let mut code_lines = 0;
        for (place, source) in &found.files {
            code_lines += source.code_lines;
            let functions = source.functions.iter();
            let long = functions.filter(|(_, lines)| *lines > MAX_FUNCTION_LINES);
            self.long_functions
                .extend(long.map(|(name, lines)| format!("{}, {name}: {lines}", place.display())));
            if found.name == "terrace" {
                self.add_store(place, source);
            }
        }
        let files = found
            .files
            .iter()
            .map(|(place, source)| (place, source.lines));
        let test_files = found
            .test_files
            .iter()
            .map(|(place, lines)| (place, *lines));
        let long = files
            .chain(test_files)
            .filter(|(_, lines)| *lines > MAX_FILE_LINES);
        self.long_files
            .extend(long.map(|(place, lines)| format!("{}: {lines}", place.display())));
        self.code_lines.insert(found.name.clone(), code_lines);
    }

    /// Adds a file of the crate that has the store.
    fn add_store(&mut self, place: &Path, source: &Source) {
        let stores = source.structures.iter().filter(|(name, _)| name == "Store");
        self.store_fields += stores.map(|(_, fields)| fields).sum::<usize>();
        let misplaced = source.misplaced_methods.iter();
        self.misplaced_methods
            .extend(misplaced.map(|method| format!("{}, {method}", place.display())));
    }

    /// Prints each count with its places.
    pub fn show_places(&self) {
        for (count, places) in [
            ("upward imports", &self.upward_imports),
            ("files in circles across rooms", &self.files_in_circles),
            (
                "methods of Store that one owner's fields suffice for",
                &self.misplaced_methods,
            ),
            ("long functions", &self.long_functions),
            ("long files", &self.long_files),
        ] {
            println!("{count}: {}", places.len());
            for place in places {
                println!("  {place}");
            }
        }
        println!("options: {}", self.options);
        println!("fields of Store: {}", self.store_fields);
        for (name, lines) in &self.code_lines {
            println!("code lines of {name}: {lines}");
        }
    }

    /// Returns the limits that do not hold, or that can be lower.
    pub fn beyond(&self, limits: &Limits) -> Vec<String> {
        let counted = [
            ("options", self.options, limits.options),
            (
                "upward_imports",
                self.upward_imports.len(),
                limits.upward_imports,
            ),
            (
                "files_in_circles",
                self.files_in_circles.len(),
                limits.files_in_circles,
            ),
            ("store_fields", self.store_fields, limits.store_fields),
            (
                "misplaced_methods",
                self.misplaced_methods.len(),
                limits.misplaced_methods,
            ),
            (
                "long_functions",
                self.long_functions.len(),
                limits.long_functions,
            ),
            ("long_files", self.long_files.len(), limits.long_files),
        ];
        let mut broken = Vec::new();
        for (name, count, limit) in counted {
            if count > limit {
                broken.push(format!(
                    "{name} {count}, its limit is {limit}: see `cargo xtask tidy`"
                ));
            } else if count < limit {
                broken.push(format!(
                    "{name} fell to {count}: lower its limit of {limit}"
                ));
            }
        }
        for (name, &lines) in &self.code_lines {
            match limits.code_lines.get(name) {
                None => broken.push(format!("code_lines lacks {name}")),
                Some(&limit) if lines > limit => {
                    broken.push(format!(
                        "{name} has {lines} code lines, its limit is {limit}"
                    ));
                }
                Some(&limit) if lines + SPARE_CODE_LINES < limit => {
                    broken.push(format!(
                        "{name} has {lines} code lines: lower its limit of {limit}"
                    ));
                }
                Some(_) => {}
            }
        }
        broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beyond(upward_imports: usize, code_lines: usize) -> Vec<String> {
        let places = |count| vec!["a -> b".to_string(); count];
        let counts = Counts {
            options: 34,
            upward_imports: places(upward_imports),
            files_in_circles: places(4),
            store_fields: 9,
            misplaced_methods: places(0),
            long_functions: places(0),
            long_files: places(1),
            code_lines: BTreeMap::from([("terrace".to_string(), code_lines)]),
        };
        let limits = Limits {
            options: 34,
            upward_imports: 2,
            files_in_circles: 4,
            store_fields: 9,
            misplaced_methods: 0,
            long_functions: 0,
            long_files: 1,
            code_lines: BTreeMap::from([("terrace".to_string(), 1000)]),
            clause_words_per_10_000: 0,
            mean_sentence_words: 0,
            long_sentences: 0,
            step_minutes: BTreeMap::new(),
        };
        counts.beyond(&limits)
    }

    #[test]
    fn a_count_meets_its_limit_and_a_crate_stays_close_below() {
        assert!(beyond(2, 1000).is_empty() && beyond(2, 700).is_empty());
        assert!(beyond(3, 1000)[0].starts_with("upward_imports 3, its limit is 2"));
        assert!(beyond(1, 1000)[0].starts_with("upward_imports fell to 1"));
        assert!(beyond(2, 1001)[0].starts_with("terrace has 1001 code lines, its limit"));
        assert!(beyond(2, 699)[0].starts_with("terrace has 699 code lines: lower"));
    }
}
