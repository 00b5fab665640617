//! What a contest found, for people and for programs: a table, JSON, and one HTML page.

pub mod figures;
pub(crate) mod html;
pub mod numbers;
pub mod quantities;
#[doc(hidden)]
pub mod sample;
mod summary;
pub(crate) mod table;

use std::fs;
use std::path::Path;

use crate::Result;
use crate::outcome::Contest;

/// Writes the page: one file that needs nothing else and asks nobody for anything.
pub fn write_html(contest: &Contest, path: &Path) -> Result<()> {
    let nonce = format!("{:032x}", rand::random::<u128>());
    let page = html::page(contest, &nonce)?;
    fs::write(path, page).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Tables for a terminal, plain text of at most 100 columns where names allow it.
pub fn table(contest: &Contest) -> String {
    table::table(contest)
}

/// Everything, as JSON that [`Contest`] can be read from again.
pub fn json(contest: &Contest) -> Result<String> {
    Ok(serde_json::to_string_pretty(contest)?)
}
