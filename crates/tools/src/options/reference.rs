//! The reference in docs/options.md.

use terrace::Result;

use super::{Applies, DescribedOption, meaning, of_keyspace, of_store};

const HEAD: &str = "\
# Options

`Options` are those of a store, `KeyspaceOptions` those of a keyspace. [tuning.md](tuning.md) tells which to set for a disk, a memory and a workload. The documentation of the fields tells more of each. `terrace options` prints the options of a store as TOML, and `--options FILE` reads them. `terrace options NAME` shows one.

This page comes from the tables of options in the sources. A test compares them, and `TERRACE_BLESS=1 cargo test -p terrace-tools --test options` writes the page.

## Moments

";

const STORE: &str = "
No option is fixed when a store is made.

## Store

An opening takes `Options`, and nothing changes them on an open store. `[default_keyspace]` is a group of its own, see [Keyspace](#keyspace).

";

const READ_BUFFER: &str = "
## Read buffer

Fields of `Options::read_buffer`, in TOML the group `[read_buffer]`.

";

const KEYSPACE: &str = "
## Keyspace

`Db::create_keyspace` takes `KeyspaceOptions`. `Keyspace::set_options` changes them on an open store. Those of the default keyspace are `Options::default_keyspace`, in TOML the group `[default_keyspace]`. They apply at the opening, and *next table* to tables written after it.

";

/// Returns the reference of all options, in Markdown.
///
/// # Errors
/// As [`of_store`].
pub fn reference() -> Result<String> {
    let options = of_store()?;
    let of_group = |group| -> Vec<_> {
        let own = |option: &&DescribedOption| option.group() == group;
        options.iter().filter(own).cloned().collect()
    };
    Ok([
        HEAD,
        &moments(),
        STORE,
        &table(&of_group(None)),
        READ_BUFFER,
        &table(&of_group(Some("read_buffer"))),
        KEYSPACE,
        &table(&of_keyspace()?),
    ]
    .concat())
}

fn moments() -> String {
    let moments = [Applies::Live, Applies::NextTable, Applies::AtOpen];
    let rows = moments.map(|applies| format!("| {applies} | {} |\n", meaning(applies)));
    format!(
        "| a change applies | meaning |\n|---|---|\n{}",
        rows.concat()
    )
}

fn table(options: &[DescribedOption]) -> String {
    let head =
        "| option | description | values | default | a change applies |\n|---|---|---|---|---|\n";
    let rows: String = options.iter().map(row).collect();
    head.to_owned() + &rows
}

fn row(option: &DescribedOption) -> String {
    let default = match (&option.default, option.default_note) {
        (None, note) => format!("not set: {}", note.unwrap_or_default()),
        (Some(_), Some(of_machine)) => of_machine.to_owned(),
        (Some(value), None) => match option.default_size() {
            Some(size) => format!("`{value}` ({size})"),
            None => format!("`{value}`"),
        },
    };
    format!(
        "| `{}` | {} | {} | {default} | {} |\n",
        option.own_name(),
        option.description,
        option.values,
        option.applies
    )
}
