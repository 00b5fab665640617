//! A document of prose with places for tables: what lies between `<!-- begin NAME -->` and
//! `<!-- end NAME -->` is replaced, the rest is left alone. A place whose table there is nothing for yet keeps
//! what it has.

use std::collections::BTreeMap;

/// The text with all tables in their places.
///
/// # Errors
/// A place without its end, one that no table is for, and a document without any.
pub fn filled(text: &str, tables: &BTreeMap<String, Option<String>>) -> Result<String, String> {
    const BEGIN: &str = "<!-- begin ";
    const CLOSE: &str = " -->";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    if !text.contains(BEGIN) {
        return Err(format!("has no place for a table: no `{BEGIN}NAME{CLOSE}`"));
    }
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (name, after) = after
            .split_once(CLOSE)
            .ok_or("a marker that is not closed")?;
        let end = format!("<!-- end {name}{CLOSE}");
        let (present, after) = after
            .split_once(&end)
            .ok_or_else(|| format!("`{BEGIN}{name}{CLOSE}` without its end"))?;
        let table = tables.get(name).ok_or_else(|| {
            let known: Vec<_> = tables.keys().map(String::as_str).collect();
            format!(
                "there is no table named {name}; there are {}",
                known.join(", ")
            )
        })?;
        out.push_str(before);
        out.push_str(&format!("{BEGIN}{name}{CLOSE}"));
        match table {
            Some(table) => out.push_str(&format!("\n\n{}\n\n", table.trim_end())),
            None => out.push_str(present),
        }
        out.push_str(&end);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables() -> BTreeMap<String, Option<String>> {
        BTreeMap::from([
            ("a".to_owned(), Some("| new |\n".to_owned())),
            ("b".to_owned(), None),
        ])
    }

    #[test]
    fn tables_are_replaced_and_prose_is_not() {
        let text = "x <!-- begin a -->old\n<!-- end a --> y <!-- begin a --><!-- end a -->";
        let once = filled(text, &tables()).unwrap();
        let place = "<!-- begin a -->\n\n| new |\n\n<!-- end a -->";
        assert_eq!(once, format!("x {place} y {place}"));
        assert_eq!(filled(&once, &tables()).unwrap(), once);
    }

    #[test]
    fn what_was_not_measured_keeps_its_place() {
        let text = "<!-- begin b -->\n| of yesterday |\n<!-- end b -->";
        assert_eq!(filled(text, &tables()).unwrap(), text);
    }

    #[test]
    fn a_place_that_cannot_be_filled_is_an_error() {
        for (text, expected) in [
            ("<!-- begin a -->", "without its end"),
            ("<!-- begin a", "not closed"),
            (
                "<!-- begin c --><!-- end c -->",
                "no table named c; there are a, b",
            ),
            ("prose", "no place for a table"),
        ] {
            let error = filled(text, &tables()).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
