//! A document of prose with places for tables: what lies between `<!-- begin NAME -->` and
//! `<!-- end NAME -->` is replaced, the rest is left alone.

use std::collections::BTreeMap;

/// The text with all tables in their places.
///
/// # Errors
/// A place without its end, and one that no table is for.
pub fn filled(text: &str, tables: &BTreeMap<String, String>) -> Result<String, String> {
    const BEGIN: &str = "<!-- begin ";
    const CLOSE: &str = " -->";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (name, after) = after
            .split_once(CLOSE)
            .ok_or("a marker that is not closed")?;
        let end = format!("<!-- end {name}{CLOSE}");
        let (_, after) = after
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
        out.push_str(&format!(
            "{BEGIN}{name}{CLOSE}\n\n{}\n\n{end}",
            table.trim_end()
        ));
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_replaced_and_prose_is_not() {
        let tables = BTreeMap::from([("a".to_owned(), "| new |\n".to_owned())]);
        let text = "x <!-- begin a -->old\n<!-- end a --> y <!-- begin a --><!-- end a -->";
        let once = filled(text, &tables).unwrap();
        let place = "<!-- begin a -->\n\n| new |\n\n<!-- end a -->";
        assert_eq!(once, format!("x {place} y {place}"));
        assert_eq!(filled(&once, &tables).unwrap(), once);
    }

    #[test]
    fn a_place_that_cannot_be_filled_is_an_error() {
        let tables = BTreeMap::from([("a".to_owned(), String::new())]);
        for (text, expected) in [
            ("<!-- begin a -->", "without its end"),
            ("<!-- begin a", "not closed"),
            (
                "<!-- begin b --><!-- end b -->",
                "no table named b; there are a",
            ),
        ] {
            let error = filled(text, &tables).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
