//! The arguments: the commands here, and those of each command in a file by subject.

mod entries;
mod files;
mod keyspaces;
mod kv;
mod looks;
mod nodes;
mod others;
mod policies;
mod shell;
mod stores;
mod tier;
mod upkeep;

use clap::{Parser, Subcommand};

pub use self::entries::{Count, Del, EntryFormat, Get, Listing, Put, Removed, Scan, ShownKey};
pub use self::files::{Export, FileFormat, Import};
pub use self::keyspaces::{DropKeyspace, Keyspaces, RenameKeyspace};
pub use self::kv::{Kv, KvGet, KvKey, KvList, KvNode, KvPut};
pub use self::looks::{Dump, Events, Levels, Report, Stats};
pub use self::nodes::{Node, NodeInit, NodeRecover, NodeReport, NodeServe, NodeStatus};
pub use self::others::{Completions, Demo, DemoChild, Man, ShownOptions};
pub use self::policies::{Explain, ExplainCompaction, Simulate, SimulateCompaction};
pub use self::shell::{Shell, ShellCommand, ShellLine};
pub use self::stores::{KeyRange, ReadStore, StoreDirectory, Wait, WrittenStore};
pub use self::tier::{
    AdvisedGoal, Tier, TierAdd, TierAdvise, TierDrain, TierExplain, TierProbe, TierRemove,
};
pub use self::upkeep::{CheckpointTo, Compact, Maintenance, Repair};

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  the key was not found
  2  wrong usage, or a row that cannot be imported
  3  corruption found, a file of an unknown format, unflushed writes lost, or a tier missing
  4  the store or the node's device is open elsewhere
  5  no space left
  6  reading or writing failed
  7  there is no store in the directory, no such keyspace in the store, or no node on the
     device

With --json a failure is a JSON object on standard error: error, hint (or null), exit_code,
and in the shell line.

The store is a directory, given by --store or TERRACE_STORE. `put`, `import` and `shell`
make it if there is none; `get`, `scan`, `count`, `stats`, `levels` and `verify` open it read-only.
While another process has it open, `stats`, `levels`, `explain`, `events`, `flush`, `compact`,
`checkpoint`, `keyspaces` and `tier` ask that one, if it serves its inspection socket. With
--wait, commands wait until it has closed the store.
A store whose arenas are in a directory of their own needs --region-dir, or
TERRACE_REGION_DIR, every time. It finds its tiers by itself.";

/// An ordered key-value store that survives kill -9
#[derive(Debug, Parser)]
#[command(name = "terrace", version, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Set a key's value
    #[command(after_help = "\
Examples:
  terrace put -d ./cities oslo Norway
  terrace put -d ./cities --sync map < map.png
  terrace put -d ./cities --hex 00ff cafe
  terrace put -d ./cities --wait=60 oslo Norway
  terrace put -d ./cities --keyspace rivers rhine 1233")]
    Put(Put),
    /// Print a key's value
    #[command(after_help = "\
On a terminal, characters that steer it are shown as escapes. A pipe gets the bytes.

Examples:
  terrace get -d ./cities oslo
  terrace get -d ./cities --raw map > map.png
  terrace get -d ./cities --json oslo | jq -r .value")]
    Get(Get),
    /// Remove a key, or every key of a range; an absent one is no error
    #[command(after_help = "\
The removal of a range costs as little as that of a key, however many keys it holds.

Examples:
  terrace del -d ./cities oslo
  terrace del -d ./cities --prefix os
  terrace del -d ./cities --from a --to n
  terrace del -d ./cities --hex 00ff")]
    Del(Del),
    /// Print keys and values in order
    #[command(after_help = "\
Formats:
  utf8  key, tab, value; control characters, backslashes and bytes that are not UTF-8
        are written as \\t, \\n, \\r, \\\\ or \\xNN, and characters that show nothing or
        turn the text as \\u{N}
  hex   the same, with both in hexadecimal
  json  an object a line: {\"key\":...,\"value\":...}; what is not UTF-8 appears as
        \"key_hex\" or \"value_hex\"

Examples:
  terrace scan -d ./cities
  terrace scan -d ./cities --prefix os --limit 10
  terrace scan -d ./cities --from a --to n --reverse --format json
  terrace scan -d ./cities --keys-only")]
    Scan(Scan),
    /// Count keys
    #[command(after_help = "\
Every key of the range is read: the number of keys is kept nowhere.
JSON: keys, the number of keys in the range.

Examples:
  terrace count -d ./cities
  terrace count -d ./cities --prefix os --json | jq .keys")]
    Count(Count),
    /// Run many commands on one open store, from a terminal or a pipe
    #[command(after_help = "\
Commands: get, put, del, scan, count, use, keyspaces, sync, flush, exit; `help` tells more.
In a pipe the message of a failed line begins with its number, and the next lines run. --bail stops
at the first failure. The exit code is that of the first failure.

Examples:
  terrace shell -d ./cities
  printf 'put oslo Norway\\nget oslo\\n' | terrace shell -d ./cities
  terrace shell -d ./cities --bail < commands.txt")]
    Shell(Shell),
    /// Import a CSV, TSV or JSON Lines file
    #[command(after_help = "\
The value of a row is the whole row as a JSON object, or one column with --value. Rows are
written in batches; each batch is there as a whole or not at all. A later row replaces an earlier
one of its key.

A row of a JSON Lines file may have a column COLUMN in hexadecimal, as COLUMN_hex, if it is not
UTF-8: `terrace export` writes such rows among others.

With --resume each batch holds the position behind it, too (in the keyspace terrace.imports,
under the file's whole path), so that both are there or neither. An import that was killed goes
on there when it is run again, and one that had ended takes the rows that were appended since. The
input is read from its start and must begin with the rows that were read before. An import without
--resume removes the position.

Examples:
  terrace import -d ./people people.csv --key id
  terrace import -d ./people people.jsonl --key id --value name
  zcat log.tsv.gz | terrace import -d ./log - --format tsv --key time --skip-bad
  terrace import -d ./people people.csv --key id --resume
  terrace import -d ./people people.csv --key id --events --json 2> events.jsonl
  terrace import -d ./unicode data/UnicodeData.txt --format csv --delimiter ';' --no-header \\
      --key 1 --value 2")]
    Import(Import),
    /// Export entries to a CSV, TSV or JSON Lines file
    #[command(after_help = "\
A row has two columns, key and value, and the entries are in the order of their keys, as the
store is at one moment. CSV holds any bytes. TSV has no quotes: tabs and ends of lines in an
entry are an error. In JSON Lines what is not UTF-8 appears as \"key_hex\" or \"value_hex\". With
--hex all keys and values are in hexadecimal, in each of the formats, and the columns are called
key_hex and value_hex.

An export that was cut short goes on behind its last whole row with --resume; the rows that
follow are then of the store's present state.

Examples:
  terrace export -d ./cities cities.csv
  terrace export -d ./cities cities.csv --resume
  terrace export -d ./cities - --prefix os | gzip > os.jsonl.gz
  terrace export -d ./cities cities.tsv --hex
  terrace import -d ./copy cities.tsv --hex --key key_hex --value value_hex")]
    Export(Export),
    /// Merge until no level is over its target, or merge a range of keys into one level
    #[command(after_help = "\
A range of keys, or all of a keyspace's with --all, is merged although no level is over its
target: one version of each key is left, and deleted keys take no space.

Examples:
  terrace compact -d ./cities
  terrace compact -d ./cities --prefix os
  terrace compact -d ./cities --all --json | jq .written_bytes")]
    Compact(Compact),
    /// Back a store up: copy it into a new directory, as it is at one moment
    #[command(after_help = "\
Tables are linked where the new directory is on the same file system, so that a copy takes little
time and space. It shares no file that is written to. Against the loss of the disk, copy the
backup to another one. To restore, move the store's directory aside and put the backup there.

Examples:
  terrace checkpoint -d ./cities ./cities-monday")]
    Checkpoint(CheckpointTo),
    /// Write what is in arenas to tables
    #[command(after_help = "\
Afterwards the arenas may be moved to another --region-dir, or lost.

Examples:
  terrace flush -d ./cities")]
    Flush(Maintenance),
    /// List, rename or drop the keyspaces of a store
    #[command(after_help = "\
Examples:
  terrace keyspaces list -d ./cities
  terrace keyspaces rename -d ./cities rivers streams
  terrace keyspaces drop --help")]
    Keyspaces {
        /// The work to do
        #[command(subcommand)]
        what: Keyspaces,
    },
    /// Show what a store holds and how it was recovered
    #[command(after_help = "\
Examples:
  terrace stats -d ./cities
  terrace stats -d ./cities --json | jq .sequences
  terrace stats -d ./cities --prometheus
  terrace stats -d ./cities --follow")]
    Stats(Stats),
    /// Draw the levels of a store
    #[command(after_help = "\
Each line is a sub-level, the youngest first; its bar shows which part of the keys its tables
cover. The scale is the keyspace's data in the order of its keys: a table takes the room of its
bytes, and tables over the same keys lie over each other. Its age is that of the oldest flush in it, counted from 1: the larger the younger; `base`
is what the leveled policy keeps in a level, older than all else. Below a level stands how many
versions it has for each of its keys, estimated from the sketches in its tables, and what merges
still have to do.

Only the process that has the store open knows what it merged: --history asks it. `predicted` are
the entries that a merge was to drop, if that was why it was chosen.

Examples:
  terrace levels -d ./cities
  terrace levels -d ./cities --history
  terrace levels -d ./cities --json | jq .keyspaces[0].duplicates")]
    Levels(Levels),
    /// Tell what the process that has a store open does in the background
    #[command(after_help = "\
The process is asked through the file `inspect` in the store's directory: `terrace import`,
`compact` and `shell` open it, and programs with terrace_tools::inspect.

Examples:
  terrace events -d ./cities
  terrace events -d ./cities --follow --json | jq .event")]
    Events(Events),
    /// Explain what a store would do, and why
    #[command(after_help = "\
Examples:
  terrace explain compaction -d ./cities
  terrace explain compaction --help")]
    Explain {
        /// What is to be explained
        #[command(subcommand)]
        what: Explain,
    },
    /// Find out what a store would cost, without one
    #[command(after_help = "\
Examples:
  terrace simulate compaction --keys 1e9
  terrace simulate compaction --help")]
    Simulate {
        /// What is to be simulated
        #[command(subcommand)]
        what: Simulate,
    },
    /// List, add, drain, remove, explain and choose the tiers of a store, and measure devices
    #[command(after_help = "\
A tier is a directory for tables, on a device of its own. The store's own directory is the first one.
`level_tiers` in --options gives levels their tiers; without it the capacities of the tiers do.

Examples:
  terrace tier list -d ./cities
  terrace tier probe /mnt/fast
  terrace tier add -d ./cities disk /mnt/disk/cities
  terrace tier drain --help")]
    Tier {
        /// The work to do
        #[command(subcommand)]
        what: Tier,
    },
    /// Check every checksum and every age rule
    #[command(after_help = "\
Nothing is changed. The exit code is 3 if anything is wrong.

Examples:
  terrace verify -d ./cities
  terrace verify -d ./cities --json")]
    Verify(Report),
    /// Make a damaged store openable again, with everything that can still be read
    #[command(after_help = "\
Copy the directory first: cp -a ./cities ./cities.copy. Damaged files stay in it, with .damaged
behind their names. A store without damage is
left as it is. If the manifest is lost, a new one is made from the tables and the arenas. Arenas
of another store are not taken and are kept aside, too. If several stores' arenas lie there and
the manifest is lost, none is taken; --arenas-of names the one whose arenas are.

An opening that drops the end of the manifest keeps tables that it may have listed, with .unlisted
behind their names. With --take-unlisted their entries are in the store again, unless newer ones are.

KEYS THAT WERE DELETED MAY BE THERE AGAIN: their deletions may have been in a table or a block that
no longer exists. Keep the copy of the directory until you have looked at the result. Of a device
that fails to read, repair the copy.

Examples:
  terrace repair -d ./cities
  terrace verify -d ./cities
  terrace repair -d ./cities --region-dir /mnt/fast/cities
  terrace repair -d ./cities --json | jq .deleted_keys_may_be_back")]
    Repair(Repair),
    /// Print the options of a store with their defaults, as --options reads them
    #[command(after_help = "\
The text is TOML; sizes are in bytes. Comments give the values of each option and the moment from
which a change applies: live, next table or at open. An option that is not set has an example
behind a \"#\". An option that the file leaves out has its default. docs/options.md has all of them,
those of keyspaces too.

Examples:
  terrace options > store.toml
  terrace import -d ./people people.csv --key id --options store.toml
  terrace options level_ratio
  terrace options --json | jq -r '.options[] | [.name, .applies] | @tsv'")]
    Options(ShownOptions),
    /// Show what is in a table, an arena or a manifest
    #[command(after_help = "\
The kind of file is told by its name: N.table, arena-N or MANIFEST-N.

Examples:
  terrace dump ./cities/MANIFEST-000001
  terrace dump ./cities/7.table --json | head")]
    Dump(Dump),
    /// Keys of a storage node, through the network
    #[command(after_help = "\
The commands speak NVMe over TCP with the Key Value command set, to `terrace node serve` or to any
other target that has it.

Examples:
  terrace node serve ./node.img &
  terrace kv put hello world
  terrace kv get hello")]
    Kv {
        /// The command
        #[command(subcommand)]
        what: Kv,
    },
    /// Make, check, recover and serve the device of a storage node
    #[command(after_help = "\
A storage node keeps keys of 1 to 16 bytes with values of up to 256 MiB on a raw block device, or
on a file in its place.

Examples:
  terrace node init ./node.img --size 4GiB
  terrace node status ./node.img
  terrace node init --help")]
    Node {
        /// The command
        #[command(subcommand)]
        what: Node,
    },
    /// Run a workload on Terrace in one or several configurations, and show what it costs
    #[command(after_help = "\
Stores of other makers take part in `peers compare`, in the directory peers/ of the sources, with the
same workloads and options.

Examples:
  terrace bench ycsb c a
  terrace bench reopen
  terrace bench ycsb --help")]
    Bench {
        /// The workload
        #[command(subcommand)]
        what: terrace_bench::arguments::Bench,
    },
    /// Re-run a published experiment, and show its numbers beside those found here
    #[command(after_help = "\
Examples:
  terrace reproduce wbl
  terrace reproduce plexdb --html plexdb.html
  terrace reproduce kvbdev --directory /mnt/disk
  terrace reproduce wbl --help")]
    Reproduce {
        /// The experiment
        #[command(subcommand)]
        what: terrace_bench::reproduce::arguments::Reproduce,
    },
    /// Print a shell's completions of these commands
    #[command(after_help = "\
Examples:
  terrace completions bash > ~/.local/share/bash-completion/completions/terrace
  terrace completions fish > ~/.config/fish/completions/terrace.fish")]
    Completions(Completions),
    /// Write the manual's pages, one for each command, into a directory
    #[command(after_help = "\
Examples:
  terrace man ~/.local/share/man/man1")]
    Man(Man),
    /// Import a real data set, query it, kill the process in mid-import, and check what survived
    #[command(after_help = "\
Examples:
  terrace demo
  terrace demo --directory ./demo --keep")]
    Demo(Demo),
    /// The demo's child, which is killed
    #[command(hide = true)]
    DemoChild(DemoChild),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_agree_with_each_other() {
        Arguments::command().debug_assert();
    }

    /// Returns the examples of a command and of those below it, each on one line.
    fn examples(command: &clap::Command) -> Vec<String> {
        let help = command.get_after_help().map(ToString::to_string);
        let help = help.unwrap_or_default().replace("\\\n", "");
        let listed = help
            .split_once("Examples:\n")
            .map_or("", |(_, listed)| listed);
        let mut found: Vec<String> = listed.lines().map(|line| line.trim().to_owned()).collect();
        found.extend(command.get_subcommands().flat_map(examples));
        found
    }

    /// Returns the words of a shell's command before a pipe, without redirections.
    fn words(command: &str) -> Vec<String> {
        let mut words = Vec::new();
        let quoted = |part: (usize, &str)| (part.0 % 2 == 1, part.1.to_owned());
        for (is_quoted, part) in command.split('\'').enumerate().map(quoted) {
            match is_quoted {
                true => words.push(part),
                false => words.extend(part.split_whitespace().map(str::to_owned)),
            }
        }
        let is_end = |word: &String| ["|", ">", "2>", "<", "&", "&&"].contains(&word.as_str());
        let end = words.iter().position(is_end).unwrap_or(words.len());
        words.truncate(end);
        words
    }

    #[test]
    fn every_example_of_the_help_can_be_typed() {
        let mut tried = 0;
        for example in examples(&Arguments::command()) {
            let Some(at) = example.find("terrace ") else {
                continue;
            };
            let typed = words(&example[at..]);
            match Arguments::try_parse_from(&typed) {
                Err(answer) if answer.exit_code() != 0 => panic!("{example}: {answer}"),
                _ => tried += 1,
            }
        }
        assert!(tried > 90, "{tried} examples");
    }
}
