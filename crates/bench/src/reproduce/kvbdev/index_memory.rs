//! Memory of the node's index.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use terrace_nvmf::initiator::client::{Client, Condition, Key, Request};

use super::setting::Setting;
use crate::node::{Content, FILE_OPTION, NAMESPACE, Served};
use crate::report::numbers::digits;
use crate::reproduce::report::{Section, Table};
use crate::settings::DurabilityClass;
use crate::{Error, Result};

/// Stores under way.
const DEPTH: usize = 64;
/// A client gives a command up before.
const PATIENCE: Duration = Duration::from_secs(60);

/// The index of a node, with as many keys as were stored.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct IndexMemory {
    /// Keys.
    pub keys: u64,
    /// Memory of the index, bytes.
    pub index_bytes: u64,
    /// Memory of the map of free blocks, bytes.
    pub space_bytes: u64,
}

impl IndexMemory {
    /// Returns bytes of the index for each key.
    pub fn bytes_a_key(&self) -> f64 {
        self.index_bytes as f64 / self.keys.max(1) as f64
    }
}

/// Stores small values, and asks the node.
///
/// # Errors
/// The node fails, or has not as many keys as were stored.
pub fn measure(setting: &Setting, file: &Path) -> Result<IndexMemory> {
    let directory = tempfile::tempdir_in(&setting.directory)?;
    let dataset = setting.indexed_dataset();
    let mut settings = setting.settings(DurabilityClass::ProcessCrash, &dataset);
    let option = (FILE_OPTION.to_string(), file.display().to_string());
    settings.own.extend([option]);
    let served = Served::open(directory.path(), &settings, Content::Keys)?;
    let mut client = served.connect()?;
    let values = dataset.values(setting.seed);
    let (mut key, mut value) = (Vec::new(), Vec::new());
    for record in 0..dataset.records {
        dataset.key_form.write(record, &mut key);
        values.write_into(record, 0, &mut value);
        wait_below(&mut client, DEPTH)?;
        client.submit(Request::Store {
            nsid: NAMESPACE,
            key: Key::new(&key)?,
            value: value.as_slice().into(),
            condition: Condition::None,
        })?;
    }
    wait_below(&mut client, 1)?;
    client.close()?;
    let found = served
        .statistics()
        .ok_or_else(|| Error::from("the node has no namespace of keys"))?;
    served.stop()?;
    if found.keys != dataset.records {
        let text = format!(
            "{} keys were stored, and the node has {}",
            dataset.records, found.keys
        );
        return Err(text.into());
    }
    Ok(IndexMemory {
        keys: found.keys,
        index_bytes: found.index_bytes,
        space_bytes: found.space_bytes,
    })
}

/// Waits until fewer commands than `depth` are under way.
fn wait_below(client: &mut Client, depth: usize) -> Result<()> {
    while client.in_flight() >= depth {
        for done in client.wait(PATIENCE) {
            done.result?;
        }
    }
    Ok(())
}

/// Shows the memory to people.
pub fn section(found: &IndexMemory) -> Section {
    let mut table = Table::new("The index in memory", &["", "published", "here"]);
    let mut row = |name: &str, published: &str, here: String| {
        table.rows.push(vec![name.into(), published.into(), here]);
    };
    row("keys", "15 M", found.keys.to_string());
    row("bytes a key", "not told", digits(found.bytes_a_key()));
    row(
        "map of free blocks, KiB",
        "not told",
        digits(found.space_bytes as f64 / 1024.0),
    );
    Section {
        figure: "Not in the paper".into(),
        title: "memory of the index".into(),
        notes: vec![
            "The paper's index has 4 bytes of hash and the place for each key, and stores no key: of 15 M \
             random keys some 26,000 share their hash with another, and one of each two is lost. The node \
             stores the key with its value and compares it; its index has a fingerprint, place and length."
                .into(),
            "Keys of 4 B, values of 100 B. An LSM keeps filters and the top of its tables' indexes in \
             memory, 10 bits a key and a few bytes a block."
                .into(),
        ],
        tables: vec![table],
        ..Section::default()
    }
}
