//! The names of a store's files.

use terrace_lsm::data_files::{FileId, Stage};
use terrace_lsm::key::MAX_SEQUENCE;

/// Lock that the owner takes and readers share.
pub const LOCK: &str = "LOCK";

/// The name of the socket at which the owner answers questions.
pub const SOCKET: &str = "inspect";
/// Its name until it has its permissions.
pub const NEW_SOCKET: &str = "inspect.new";

/// Blocks that a full disk gives back; see `reserve.rs`.
pub(crate) const RESERVE: &str = "RESERVE";

/// Whether a persist of arenas is in doubt; beside the arenas.
pub(crate) const PERSISTS: &str = "PERSISTS";

/// Copies of blocks of slower tiers; see `tiers/cache/`.
pub(crate) const CACHE: &str = "CACHE";

/// Returns whether the number after a file's may be given. Numbers beyond those of writes are never
/// reached, so a file with one does no harm.
pub fn leaves_room(number: u64) -> bool {
    number < MAX_SEQUENCE
}

/// Returns the number of a table whose name is that of a stage.
fn number_at(stage: Stage, name: &str) -> Option<u64> {
    let (file, named) = FileId::parse(name)?;
    (named == stage).then_some(file.number)
}

/// Returns the number in a table's file name.
pub fn table_number(name: &str) -> Option<u64> {
    number_at(Stage::Listed, name)
}

/// Returns whether a file is an arena.
pub fn is_arena(name: &str) -> bool {
    is_numbered(name, "arena-")
}

/// Suffix of a file that `repair` found damaged and put aside.
pub const DAMAGED: &str = ".damaged";

/// Returns the name that a file had before it was put aside.
pub fn without_damaged(name: &str) -> &str {
    name.split_once(DAMAGED).map_or(name, |(name, _)| name)
}

/// Returns the number of a table that `repair` is writing, or had written when it was cut short.
pub fn new_table_number(name: &str) -> Option<u64> {
    number_at(Stage::New, name)
}

/// Returns the number of a table that an opening kept.
pub(crate) fn unlisted_table_number(name: &str) -> Option<u64> {
    number_at(Stage::Unlisted, name)
}

/// Returns the number that a table has, or had before it was put aside: it is not given again.
pub fn used_table_number(name: &str) -> Option<u64> {
    let (file, stage) = FileId::parse(without_damaged(name))?;
    (stage != Stage::New).then_some(file.number)
}

fn is_numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix)
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns whether a file may belong to a store: all other files in a directory are foreign.
pub fn is_ours(name: &str) -> bool {
    let name = without_damaged(name);
    [LOCK, RESERVE, PERSISTS, CACHE, SOCKET, NEW_SOCKET].contains(&name)
        || name.starts_with("CURRENT")
        || is_numbered(name, "MANIFEST-")
        || is_arena(name)
        || used_table_number(name).is_some()
        || new_table_number(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_recognised_exactly() {
        assert_eq!(table_number("12.table"), Some(12));
        for foreign in [
            "012.table",
            "18446744073709551615.table",
            ".table",
            "x.table",
            "12.tables",
            "12.table.newer",
            "x.damaged",
            "12.table.unlisted.new",
            "arena-1.unlisted",
            "arena-",
            "arena-1x",
            "a",
        ] {
            assert!(!is_ours(foreign), "{foreign}");
        }
        for ours in [
            "LOCK",
            "RESERVE",
            "PERSISTS",
            "CACHE",
            "inspect",
            "inspect.new",
            "CURRENT",
            "CURRENT.tmp",
            "MANIFEST-000001",
            "arena-3",
            "7.table",
            "7.table.new",
            "7.table.damaged",
            "7.table.unlisted",
            "7.table.taken",
            "arena-3.damaged-2",
        ] {
            assert!(is_ours(ours), "{ours}");
        }
    }
}
