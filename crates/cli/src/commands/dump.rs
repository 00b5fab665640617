//! Shows the contents of one file of a store.

use std::io::{self, Write};

use serde_json::{Map, Value, json};
use terrace::Options;
use terrace_tools::inspect::{Dump as Contents, dump};

use crate::arguments::Dump;
use crate::failure::Result;
use crate::output;
use crate::text::{json_line, readable};

pub fn run(arguments: &Dump) -> Result<()> {
    let contents = dump(&*Options::default().storage, &arguments.file)?;
    let mut stdout = output::buffered();
    match arguments.json {
        true => write_json(&mut stdout, &contents),
        false => write_text(&mut stdout, &contents),
    }
    .and_then(|()| stdout.flush())
    .map_err(output::failed)?;
    // The readable part is shown; then the problem that ended it.
    contents
        .problem
        .map_or(Ok(()), |problem| Err(problem.into()))
}

fn write_text(output: &mut impl Write, contents: &Contents) -> io::Result<()> {
    writeln!(output, "{}", contents.kind)?;
    for (name, value) in &contents.summary {
        writeln!(output, "  {name:<24} {}", readable(value))?;
    }
    for item in &contents.items {
        let (offset, length, kind) = (item.offset, item.length_bytes, item.kind);
        let mut lines = item.text.lines();
        let first = lines.next().unwrap_or_default();
        let first = readable(first);
        writeln!(output, "{offset:>12} {length:>10} B  {kind:<12} {first}")?;
        for line in lines.filter(|line| !line.is_empty()) {
            writeln!(output, "{:40}{}", "", readable(line))?;
        }
    }
    Ok(())
}

/// Writes one line for the file, one for each item.
fn write_json(output: &mut impl Write, contents: &Contents) -> io::Result<()> {
    let summary: Map<String, Value> = contents
        .summary
        .iter()
        .map(|(name, value)| (name.replace(' ', "_"), value.as_str().into()))
        .collect();
    let file = json!({"kind": contents.kind, "summary": summary});
    writeln!(output, "{}", json_line(&file))?;
    for item in &contents.items {
        let line = json!({
            "offset": item.offset,
            "length_bytes": item.length_bytes,
            "kind": item.kind,
            "text": item.text,
        });
        writeln!(output, "{}", json_line(&line))?;
    }
    Ok(())
}
