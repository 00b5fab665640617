//! A source file: its place among modules, its lines, its functions, and the names that it uses.

use std::collections::BTreeSet;
use std::path::Path;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::methods;

/// A file of a crate, without its tests.
pub struct Source {
    /// The modules from the crate's root down: empty for `lib.rs`.
    pub module: Vec<String>,
    /// Lines with code, those of tests left out.
    pub code_lines: usize,
    /// All lines, tests included.
    pub lines: usize,
    /// Each function's name and its lines, those of tests left out.
    pub functions: Vec<(String, usize)>,
    /// Each structure's name and its number of fields.
    pub structures: Vec<(String, usize)>,
    /// Methods of the store that belong to one owner.
    pub misplaced_methods: Vec<String>,
    /// The paths that begin at the crate's root, without the root.
    pub uses: BTreeSet<Vec<String>>,
    /// The names that the module hands on, as paths from the crate's root, with the paths at which
    /// they lie.
    pub handed_on: Vec<(Vec<String>, Vec<String>)>,
}

impl Source {
    /// Parses a file that lies at a path below the crate's `src`.
    pub fn parse(text: &str, place: &Path) -> Result<Source, String> {
        let file = syn::parse_file(text)
            .map_err(|error| format!("line {}: {error}", error.span().start().line))?;
        let mut reader = Reader {
            module: module_of(place),
            depth: 0,
            test_lines: BTreeSet::new(),
            functions: Vec::new(),
            structures: Vec::new(),
            uses: BTreeSet::new(),
            handed_on: Vec::new(),
        };
        reader.visit_file(&file);
        let is_code = |(number, line): &(usize, &str)| {
            let line = line.trim_start();
            !line.is_empty() && !line.starts_with("//") && !reader.test_lines.contains(number)
        };
        Ok(Source {
            code_lines: (1..).zip(text.lines()).filter(is_code).count(),
            lines: text.lines().count(),
            module: reader.module,
            functions: reader.functions,
            structures: reader.structures,
            misplaced_methods: methods::misplaced(&file),
            uses: reader.uses,
            handed_on: reader.handed_on,
        })
    }
}

/// Returns the modules of a file, from the crate's root down.
fn module_of(place: &Path) -> Vec<String> {
    let mut modules: Vec<String> = place
        .with_extension("")
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    if modules
        .last()
        .is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main"))
    {
        modules.pop();
    }
    modules
}

/// Returns whether a file holds tests alone, by its place below `src`.
pub fn is_of_tests(place: &Path) -> bool {
    place.with_extension("").iter().any(|part| {
        let part = part.to_string_lossy();
        part == "tests" || part.ends_with("_tests")
    })
}

struct Reader {
    module: Vec<String>,
    /// How many modules of the file itself lie around.
    depth: usize,
    test_lines: BTreeSet<usize>,
    functions: Vec<(String, usize)>,
    structures: Vec<(String, usize)>,
    uses: BTreeSet<Vec<String>>,
    handed_on: Vec<(Vec<String>, Vec<String>)>,
}

impl Reader {
    fn measure(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let lines = body.span().end().line + 1 - signature.span().start().line;
        self.functions.push((signature.ident.to_string(), lines));
    }

    /// Adds a path, if it begins at the crate's root or relative to this module.
    fn take(&mut self, path: &[String]) {
        if let Some(path) = self.resolved(path) {
            self.uses.insert(path);
        }
    }

    /// Returns a path from the crate's root, if it begins there or relative to this module.
    fn resolved(&self, path: &[String]) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        let outer = match first.as_str() {
            "crate" => return Some(rest.to_vec()),
            "self" if self.depth == 0 => return Some([&self.module, rest].concat()),
            "super" => 1 + rest.iter().take_while(|part| *part == "super").count(),
            _ => return None,
        };
        // A module inside the file is left first.
        let outer_files = outer.saturating_sub(self.depth);
        let kept = self.module.len().checked_sub(outer_files)?;
        let mut found = self.module.get(..kept)?.to_vec();
        found.extend_from_slice(path.get(outer..)?);
        Some(found)
    }

    fn take_tree(&mut self, tree: &syn::UseTree, path: &mut Vec<String>, is_public: bool) {
        match tree {
            syn::UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.take_tree(&part.tree, path, is_public);
                path.pop();
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.take_tree(tree, path, is_public);
                }
            }
            syn::UseTree::Name(name) => {
                let name = name.ident.to_string();
                self.take_name(path, &name, &name, is_public);
            }
            syn::UseTree::Rename(rename) => {
                let (name, other) = (rename.ident.to_string(), rename.rename.to_string());
                self.take_name(path, &name, &other, is_public);
            }
            syn::UseTree::Glob(_) => self.take(&path.clone()),
        }
    }

    fn take_name(&mut self, path: &[String], name: &str, known_as: &str, is_public: bool) {
        let mut whole = path.to_vec();
        if name != "self" {
            whole.push(name.to_string());
        }
        self.take(&whole);
        if is_public && self.depth == 0 {
            // Any other path begins at a module below, or outside of the crate, where nothing is.
            let from_root = self.resolved(&whole);
            let from_root = from_root.unwrap_or_else(|| [&self.module[..], &whole].concat());
            let known_as = [&self.module[..], &[known_as.to_string()]].concat();
            self.handed_on.push((known_as, from_root));
        }
    }
}

/// Returns whether an item is compiled for tests alone.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let mut is_test = attribute.path().is_ident("test");
        if attribute.path().is_ident("cfg") {
            // `cfg(all(test, ...))` is of tests, too.
            let _ = attribute.parse_nested_meta(|meta| {
                is_test |= meta.path.is_ident("test");
                if meta.path.is_ident("all") {
                    return meta.parse_nested_meta(|inner| {
                        is_test |= inner.path.is_ident("test");
                        skip_value(&inner)
                    });
                }
                skip_value(&meta)
            });
        }
        is_test
    })
}

/// Steps over the rest of one condition.
fn skip_value(meta: &syn::meta::ParseNestedMeta) -> syn::Result<()> {
    while !meta.input.is_empty() && !meta.input.peek(syn::Token![,]) {
        meta.input.parse::<proc_macro2::TokenTree>()?;
    }
    Ok(())
}

fn attributes_of(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

impl<'a> Visit<'a> for Reader {
    fn visit_item(&mut self, item: &'a syn::Item) {
        if is_test(attributes_of(item)) {
            let span = item.span();
            self.test_lines.extend(span.start().line..=span.end().line);
            return;
        }
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, module: &'a syn::ItemMod) {
        self.depth += 1;
        visit::visit_item_mod(self, module);
        self.depth -= 1;
    }

    fn visit_item_fn(&mut self, function: &'a syn::ItemFn) {
        self.measure(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'a syn::ImplItemFn) {
        if is_test(&function.attrs) {
            let span = function.span();
            self.test_lines.extend(span.start().line..=span.end().line);
            return;
        }
        self.measure(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_item_struct(&mut self, structure: &'a syn::ItemStruct) {
        self.structures
            .push((structure.ident.to_string(), structure.fields.len()));
        visit::visit_item_struct(self, structure);
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        let is_public = !matches!(item.vis, syn::Visibility::Inherited);
        self.take_tree(&item.tree, &mut Vec::new(), is_public);
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let parts: Vec<String> = path
            .segments
            .iter()
            .map(|part| part.ident.to_string())
            .collect();
        self.take(&parts);
        visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
use crate::levels::{Version, edit::Edit};
use super::jobs;
// A comment.

pub struct Store { one: u8, two: u8 }

fn long() {
    crate::table::open();
}

#[cfg(all(test, unix))]
mod tests {
    use crate::testing::Thing;
}
";

    fn paths(source: &Source) -> Vec<String> {
        source.uses.iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn lines_and_names_of_tests_are_left_out() {
        let source = Source::parse(TEXT, Path::new("db/read.rs")).unwrap();
        assert_eq!(source.module, ["db", "read"]);
        assert_eq!((source.code_lines, source.lines), (6, 14));
        assert_eq!(source.functions, [("long".to_string(), 3)]);
        assert_eq!(source.structures, [("Store".to_string(), 2)]);
        let expected = [
            "db::jobs",
            "levels::Version",
            "levels::edit::Edit",
            "table::open",
        ];
        assert_eq!(paths(&source), expected);
    }

    #[test]
    fn modules_hand_names_on() {
        let text =
            "mod a;\npub use a::One;\npub(crate) use crate::b::{Two as Three};\nuse c::Four;\n";
        let handed_on = |place: &str| -> Vec<String> {
            let source = Source::parse(text, Path::new(place)).unwrap();
            let names = source.handed_on.iter();
            names
                .map(|(name, path)| format!("{} {}", name.join("::"), path.join("::")))
                .collect()
        };
        assert_eq!(handed_on("lib.rs"), ["One a::One", "Three b::Two"]);
        let inner = ["db::One db::a::One", "db::Three b::Two"];
        assert_eq!(handed_on("db/mod.rs"), inner);
    }

    #[test]
    fn super_leaves_the_modules_of_a_file_first() {
        let text = "mod inner { use super::here; use super::super::there; }";
        let source = Source::parse(text, Path::new("a/b.rs")).unwrap();
        assert_eq!(paths(&source), ["a::b::here", "a::there"]);
    }

    #[test]
    fn files_of_tests_are_known_by_their_place() {
        for (place, expected) in [
            ("db/tests.rs", true),
            ("db/tests/open.rs", true),
            ("db/shuttle_tests.rs", true),
            ("db/contests.rs", false),
        ] {
            assert_eq!(is_of_tests(Path::new(place)), expected, "{place}");
        }
    }
}
