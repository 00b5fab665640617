//! How RocksDB merges.

use std::str::FromStr;

use rocksdb::DBCompactionStyle;

/// What `compaction_style` accepts.
#[derive(Clone, Copy, Debug)]
pub enum Style {
    /// Each level below the first is one sorted run.
    Level,
    /// Sorted runs by age, merged by their sizes.
    Universal,
}

impl FromStr for Style {
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<Style, ()> {
        match text {
            "level" => Ok(Style::Level),
            "universal" => Ok(Style::Universal),
            _ => Err(()),
        }
    }
}

impl From<Style> for DBCompactionStyle {
    fn from(style: Style) -> DBCompactionStyle {
        match style {
            Style::Level => DBCompactionStyle::Level,
            Style::Universal => DBCompactionStyle::Universal,
        }
    }
}
