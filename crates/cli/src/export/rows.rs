//! Rows as they are written.

use std::io::{self, Write};

use serde_json::json;

use crate::arguments::FileFormat;
use crate::export::{KEY_HEX, VALUE_HEX, columns};
use crate::text::{brief, json_entry, json_line, to_hex};

/// Writes rows of one format.
pub enum Rows<W: Write> {
    Json {
        output: W,
        hex: bool,
    },
    Delimited {
        output: Box<csv::Writer<W>>,
        hex: bool,
    },
    Tabbed {
        output: W,
        hex: bool,
    },
}

impl<W: Write> Rows<W> {
    pub fn new(output: W, format: FileFormat, hex: bool) -> Self {
        match format {
            FileFormat::Jsonl => Rows::Json { output, hex },
            FileFormat::Csv => Rows::Delimited {
                output: Box::new(csv::Writer::from_writer(output)),
                hex,
            },
            FileFormat::Tsv => Rows::Tabbed { output, hex },
        }
    }

    /// Writes the names of the columns, where the format has them.
    pub fn write_header(&mut self) -> io::Result<()> {
        match self {
            Rows::Json { .. } => Ok(()),
            Rows::Delimited { output, hex } => Ok(output.write_record(columns(*hex))?),
            Rows::Tabbed { output, hex } => writeln!(output, "{}", columns(*hex).join("\t")),
        }
    }

    pub fn write(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        match self {
            Rows::Json { output, hex: false } => {
                writeln!(output, "{}", json_line(&json_entry(key, value)))
            }
            Rows::Json { output, hex: true } => {
                let row = json!({ KEY_HEX: to_hex(key), VALUE_HEX: to_hex(value) });
                writeln!(output, "{row}")
            }
            Rows::Delimited { output, hex: false } => Ok(output.write_record([key, value])?),
            Rows::Delimited { output, hex: true } => {
                Ok(output.write_record([to_hex(key), to_hex(value)])?)
            }
            Rows::Tabbed { output, hex: true } => {
                writeln!(output, "{}\t{}", to_hex(key), to_hex(value))
            }
            Rows::Tabbed { output, hex: false } => {
                let breaks = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r');
                if key.iter().chain(value).any(breaks) {
                    return Err(io::Error::other(format!(
                        "the entry of key {} has a tab or the end of a line in it, which TSV cannot \
                         hold; export as csv or jsonl, or with --hex",
                        brief(key, 40)
                    )));
                }
                output.write_all(key)?;
                output.write_all(b"\t")?;
                output.write_all(value)?;
                output.write_all(b"\n")
            }
        }
    }

    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Rows::Json { output, .. } | Rows::Tabbed { output, .. } => output.flush(),
            Rows::Delimited { output, .. } => output.flush(),
        }
    }
}
