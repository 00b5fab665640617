//! Methods of the store that belong to one of its owners: they use the fields of that one alone.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};
use syn::{Expr, ExprField, ExprPath, ImplItem, Item, ItemImpl, Member, Type};

const STORE: &str = "Store";
/// Fields of the store that are no owners.
const SETTINGS: [&str; 2] = ["options", "default_form"];

/// Returns the misplaced methods of a file, each as `method: owner`.
pub fn misplaced(file: &syn::File) -> Vec<String> {
    let mut found = Vec::new();
    for item in &file.items {
        if let Item::Impl(block) = item
            && is_of_store(block)
        {
            found.extend(block.items.iter().filter_map(misplaced_item));
        }
    }
    found
}

/// Returns whether a block holds methods of the store that no trait asks for.
fn is_of_store(block: &ItemImpl) -> bool {
    let Type::Path(named) = &*block.self_ty else {
        return false;
    };
    block.trait_.is_none() && named.path.is_ident(STORE)
}

fn misplaced_item(item: &ImplItem) -> Option<String> {
    let ImplItem::Fn(method) = item else {
        return None;
    };
    let mut uses = Uses::default();
    uses.visit_block(&method.block);
    let owner = uses.only_owner()?;
    Some(format!("{}: {owner}", method.sig.ident))
}

/// The uses of `self` in a body.
#[derive(Default)]
struct Uses {
    fields: BTreeSet<String>,
    /// `self` is used as a whole: by a method of the store, or as an argument.
    is_whole: bool,
}

impl Uses {
    fn only_owner(&self) -> Option<&String> {
        let owner = self.fields.first()?;
        let is_owner = !SETTINGS.contains(&owner.as_str());
        (!self.is_whole && self.fields.len() == 1 && is_owner).then_some(owner)
    }
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_expr_field(&mut self, field: &'ast ExprField) {
        match (&*field.base, &field.member) {
            (Expr::Path(base), Member::Named(name)) if base.path.is_ident("self") => {
                self.fields.insert(name.to_string());
            }
            _ => visit::visit_expr_field(self, field),
        }
    }

    fn visit_expr_path(&mut self, path: &'ast ExprPath) {
        self.is_whole |= path.path.is_ident("self");
    }

    /// Counts each `self` in a macro's words as the whole: they are not parsed.
    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let words = call.tokens.to_string();
        self.is_whole |= words
            .split(|c: char| !c.is_alphanumeric())
            .any(|word| word == "self");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn misplaced_in(body: &str) -> Vec<String> {
        let text = format!("impl Store {{ fn method(&self) {{ {body} }} }}");
        misplaced(&syn::parse_file(&text).unwrap())
    }

    #[test]
    fn a_method_of_one_owner_is_misplaced() {
        assert_eq!(
            misplaced_in("self.files.tables.close();"),
            ["method: files"]
        );
        let closure = "let get = || self.reads.view.load(); get(self.reads.pins)";
        assert_eq!(misplaced_in(closure), ["method: reads"]);
        for placed in [
            "self.files.take(self.reads.view)",
            "self.flush()",
            "self.files.take(self)",
            "self.options.arena_bytes",
            "assert!(self.files.take())",
            "1 + 1",
        ] {
            assert!(misplaced_in(placed).is_empty(), "{placed}");
        }
    }

    #[test]
    fn other_types_and_traits_are_left_alone() {
        for block in ["impl Files", "impl Drop for Store"] {
            let text = format!("{block} {{ fn method(&self) {{ self.files.take() }} }}");
            assert!(misplaced(&syn::parse_file(&text).unwrap()).is_empty());
        }
    }
}
