//! The order of layers, as ARCHITECTURE.md shows it.

use std::collections::BTreeMap;

/// The fence of the table of layers in ARCHITECTURE.md.
const LAYERS: &str = "```layers";

/// The orders that ARCHITECTURE.md shows: of crates, and of each crate's rooms, the lowest first.
pub struct Layers {
    pub crates: Vec<String>,
    pub rooms: BTreeMap<String, Vec<String>>,
}

impl Layers {
    /// Reads the fenced table of ARCHITECTURE.md: a line for each crate, the lowest room first.
    pub fn parse(text: &str) -> Result<Layers, String> {
        let mut lines = text.lines().skip_while(|line| *line != LAYERS).skip(1);
        let mut rows = BTreeMap::new();
        for line in lines.by_ref().take_while(|line| *line != "```") {
            let (name, order) = line
                .split_once(':')
                .ok_or_else(|| format!("ARCHITECTURE.md, layers: `{line}` names no crate"))?;
            let order = order.split_whitespace().map(String::from).collect();
            rows.insert(name.trim().to_string(), order);
        }
        let crates = rows.remove("crates");
        Ok(Layers {
            crates: crates.ok_or("ARCHITECTURE.md has no layers of crates")?,
            rooms: rows,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_an_order() {
        let text = "# x\n```layers\ncrates: a b\nb: key table\n```\nc: no\n";
        let layers = Layers::parse(text).unwrap();
        assert_eq!(layers.crates, ["a", "b"]);
        assert!(layers.rooms.keys().eq(["b"]));
        assert!(Layers::parse("# x\n").is_err());
        assert!(Layers::parse("```layers\nno colon\n```\n").is_err());
    }
}
