//! The bodies of a source's functions: the places where a mutant may differ.

use std::ops::Range;

use syn::visit::Visit;

/// The body of a function that lies in no other function.
struct Body {
    function: String,
    is_const: bool,
    /// From its opening brace to its closing one.
    bytes: Range<usize>,
}

/// A source text with the places of its bodies.
pub struct Source {
    text: String,
    bodies: Vec<Body>,
}

impl Source {
    pub fn parse(text: String) -> Result<Source, String> {
        let file = syn::parse_file(&text).map_err(|error| {
            let at = error.span().start();
            format!("line {}: {error}", at.line)
        })?;
        let mut finder = Finder::default();
        finder.visit_file(&file);
        Ok(Source {
            text,
            bodies: finder.bodies,
        })
    }

    fn bodies(&self) -> impl Iterator<Item = &str> {
        self.bodies
            .iter()
            .map(|body| self.text.get(body.bytes.clone()).unwrap_or_default())
    }

    /// Returns the text without its bodies.
    fn outside(&self) -> String {
        self.with_bodies(|_, _| String::new())
    }

    /// Returns the text with other bodies, each made from its index and its own text.
    fn with_bodies(&self, mut body_of: impl FnMut(usize, &str) -> String) -> String {
        let mut woven = String::new();
        let mut end = 0;
        for (index, body) in self.bodies.iter().enumerate() {
            woven.push_str(self.text.get(end..body.bytes.start).unwrap_or_default());
            let text = self.text.get(body.bytes.clone()).unwrap_or_default();
            woven.push_str(&body_of(index, text));
            end = body.bytes.end;
        }
        woven.push_str(self.text.get(end..).unwrap_or_default());
        woven
    }

    /// Returns the bodies in which a patched text differs, by their index.
    pub fn changes(&self, patched: &Source) -> Result<Vec<(usize, String)>, String> {
        if self.outside() != patched.outside() {
            return Err(
                "it changes more than bodies of functions: only these can be switched".into(),
            );
        }
        let pairs = self.bodies().zip(patched.bodies()).enumerate();
        let changed = pairs.filter(|(_, (ours, theirs))| ours != theirs);
        let changes: Vec<_> = changed
            .map(|(index, (_, theirs))| (index, theirs.to_string()))
            .collect();
        let bodies = changes
            .iter()
            .filter_map(|(index, _)| self.bodies.get(*index));
        match bodies.clone().find(|body| body.is_const) {
            Some(body) => Err(format!(
                "it changes `const fn {}`, which cannot ask for a switch",
                body.function
            )),
            None if bodies.count() == 0 => Err("it changes nothing".into()),
            None => Ok(changes),
        }
    }

    /// Returns the text in which changed bodies are chosen by the value of an expression at run time.
    pub fn woven(&self, switch: &str, changes: &[(u32, usize, String)]) -> String {
        self.with_bodies(|index, original| {
            let arms: String = changes
                .iter()
                .filter(|(_, changed, _)| *changed == index)
                .map(|(number, _, body)| format!("{number} => {body}\n"))
                .collect();
            if arms.is_empty() {
                return original.to_string();
            }
            format!("{{ match {switch} {{\n{arms}_ => {original}\n}} }}")
        })
    }
}

#[derive(Default)]
struct Finder {
    bodies: Vec<Body>,
}

impl Finder {
    fn add(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let (open, close) = (
            block.brace_token.span.open(),
            block.brace_token.span.close(),
        );
        self.bodies.push(Body {
            function: signature.ident.to_string(),
            is_const: signature.constness.is_some(),
            bytes: open.byte_range().start..close.byte_range().end,
        });
    }
}

/// Bodies are not entered: a function inside one belongs to it.
impl<'a> Visit<'a> for Finder {
    fn visit_item_fn(&mut self, function: &'a syn::ItemFn) {
        self.add(&function.sig, &function.block);
    }

    fn visit_impl_item_fn(&mut self, function: &'a syn::ImplItemFn) {
        self.add(&function.sig, &function.block);
    }

    fn visit_trait_item_fn(&mut self, function: &'a syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.add(&function.sig, block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGINAL: &str = "\
const ONE: u8 = 1;
fn first() -> u8 { ONE }
impl Thing {
    fn second(&self) -> u8 {
        fn inner() -> u8 { 2 }
        inner()
    }
}
const fn third() -> u8 { 3 }
";

    fn source(text: &str) -> Source {
        Source::parse(text.to_string()).unwrap()
    }

    #[test]
    fn a_changed_body_becomes_an_arm_of_the_switch() {
        let original = source(ORIGINAL);
        let changes = original
            .changes(&source(&ORIGINAL.replace("{ 2 }", "{ 7 }")))
            .unwrap();
        let [(index, body)] = changes.as_slice() else {
            panic!("one body changes: {changes:?}");
        };
        assert_eq!(*index, 1);
        let woven = original.woven("switch()", &[(9, *index, body.clone())]);
        source(&woven);
        assert!(woven.contains("{ match switch() {\n9 => {\n        fn inner() -> u8 { 7 }"));
        assert!(woven.contains("_ => {\n        fn inner() -> u8 { 2 }"));
        assert!(woven.starts_with("const ONE: u8 = 1;\nfn first() -> u8 { ONE }\n"));
        assert!(woven.ends_with("const fn third() -> u8 { 3 }\n"));
    }

    #[test]
    fn changes_that_no_switch_can_make_are_refused() {
        let refused = |from: &str, to: &str| {
            let patched = source(&ORIGINAL.replace(from, to));
            source(ORIGINAL).changes(&patched).unwrap_err()
        };
        assert!(refused("u8 = 1", "u8 = 2").contains("more than bodies"));
        assert!(refused("fn first", "fn other").contains("more than bodies"));
        assert!(refused("{ 3 }", "{ 4 }").contains("const fn third"));
        assert!(refused("none", "nothing").contains("changes nothing"));
    }
}
