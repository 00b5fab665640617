//! A loaded store: made once, copied for each run, placed, and asked.

use std::fs;
use std::path::{Path, PathBuf};

use terrace::{Db, Keyspace, KeyspaceOptions, Statistics, TierStatistics};

use super::clients::{Clients, Driven, Limit};
use super::devices::{Device, Devices};
use super::paper::Placement;
use super::setting::{Memory, Setting};
use super::table_rows::OneTree;
use crate::Result;
use crate::draw::seed_of;
use crate::linkbench::Graph;
use crate::linkbench::audit::audit;
use crate::linkbench::graph::InUse;
use crate::linkbench::perform::GraphStore;
use crate::linkbench::stream::{Loads, Requests};
use crate::operation::Stream;
use crate::settings::Settings;
use crate::stores::NOTHING;

#[cfg(test)]
mod tests;

/// Name of the tree's keyspace.
const KEYSPACE: &str = "linkbench";

/// A kind of store that is loaded once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kind {
    /// Data, in GB of the paper's.
    pub paper_gb: f64,
    /// Whether NVMe flash has a bounded capacity, which places the levels.
    pub is_sweep: bool,
    /// Whether level 1 is so small that there are five levels.
    pub has_fifth_level: bool,
}

/// A store as it was loaded, in files that no store has open.
pub struct Loaded {
    kind: Kind,
    /// The copy to keep.
    kept: PathBuf,
    graph: Graph,
    in_use: InUse,
    /// Listed bytes of each level.
    pub level_bytes: Vec<u64>,
}

/// Counters of a store at a moment.
pub struct Counters {
    /// Of the store.
    pub store: Statistics,
    /// Of its tiers.
    pub tiers: Vec<TierStatistics>,
}

/// The measured part of a run.
pub struct Measurement {
    /// The requests.
    pub driven: Driven,
    /// Requests a second before, while devices took no time.
    pub instant_per_second: f64,
    /// Counters before.
    pub before: Counters,
    /// Counters at the end.
    pub after: Counters,
}

/// An open store, its devices, and the directory of them all.
struct Open<'a> {
    setting: &'a Setting,
    kind: Kind,
    devices: Devices,
    db: Db,
    keyspace: Keyspace,
}

impl<'a> Open<'a> {
    /// Opens the store in `home` on instant devices.
    fn new(setting: &'a Setting, kind: Kind, home: &Path, memory: Memory) -> Result<Self> {
        let devices = Devices::new(home);
        devices.set_instant(true);
        let cache_bytes = setting.cache_bytes(memory, kind.paper_gb);
        let options = setting.options(&devices, cache_bytes, kind.is_sweep);
        let store = devices.tables(Device::Nvme);
        devices.storage().create_directory(&store)?;
        let db = Db::open(store, options)?;
        let form = form(setting, kind, &[Device::Nvme]);
        let keyspace = db.get_or_create_keyspace(KEYSPACE, form)?;
        Ok(Open {
            setting,
            kind,
            devices,
            db,
            keyspace,
        })
    }

    /// Moves all tables to the tiers of their levels.
    fn place(&self, placement: &Placement) -> Result<()> {
        let form = form(self.setting, self.kind, placement.levels);
        self.keyspace.set_options(form)?;
        while self.db.wait_for_migration()? {}
        Ok(())
    }

    /// Waits until no flush, compaction or migration is due.
    fn settle(&self) -> Result<()> {
        self.db.flush()?;
        self.db.compact()?;
        while self.db.wait_for_migration()? {}
        Ok(())
    }

    fn counters(&self) -> Counters {
        Counters {
            store: self.db.statistics(),
            tiers: self.db.tiers(),
        }
    }

    fn level_bytes(&self) -> Vec<u64> {
        let levels = self.db.statistics().levels;
        levels.iter().map(|level| level.bytes).collect()
    }

    fn close(self) -> Result<()> {
        drop(self.keyspace);
        Ok(self.db.close()?)
    }
}

/// Returns the form of a store. That of the sweep names no tier.
fn form(setting: &Setting, kind: Kind, levels: &[Device]) -> KeyspaceOptions {
    let levels = if kind.is_sweep { &[] } else { levels };
    setting.keyspace(kind.has_fifth_level, levels)
}

/// Loads a store in the directory `home`, which is then the store's no more, and checks it row by row.
///
/// # Errors
/// Those of the store, and rows that are not those of the graph.
pub fn load(setting: &Setting, kind: Kind, home: &Path, kept: PathBuf) -> Result<Loaded> {
    fs::create_dir(home)?;
    let graph = Graph::new(setting.nodes(kind.paper_gb), setting.seed);
    let in_use = InUse::default();
    let open = Open::new(setting, kind, home, Memory::Fits)?;
    let tables = OneTree::new(&open.db, &open.keyspace);
    let store = GraphStore {
        tables: &tables,
        graph: &graph,
        in_use: &in_use,
    };
    let loaders = u64::from(setting.clients.min(4));
    let loads = |loader| Box::new(Loads::new(graph.nodes(), loader, loaders)) as Box<dyn Stream>;
    let all = Limit {
        requests: u64::MAX,
        time: None,
    };
    ask(
        setting,
        kind,
        store,
        (0..loaders).map(loads).collect(),
        |clients| clients.run(all).map(drop),
    )?;
    open.settle()?;
    audit(&store, true)?;
    let level_bytes = open.level_bytes();
    drop(tables);
    open.close()?;
    fs::rename(home, &kept)?;
    Ok(Loaded {
        kind,
        kept,
        graph,
        in_use,
        level_bytes,
    })
}

/// Measures a placement on a copy of a loaded store in the directory `home`, and removes the copy.
///
/// # Errors
/// Those of the store, and an answer that contradicts the graph.
pub fn measure(
    setting: &Setting,
    loaded: &Loaded,
    home: &Path,
    (placement, memory, repeat): (&Placement, Memory, u32),
) -> Result<Measurement> {
    copy_directory(&loaded.kept, home)?;
    let kind = loaded.kind;
    let in_use = loaded.in_use.copy();
    let open = Open::new(setting, kind, home, memory)?;
    open.place(placement)?;
    let tables = OneTree::new(&open.db, &open.keyspace);
    let store = GraphStore {
        tables: &tables,
        graph: &loaded.graph,
        in_use: &in_use,
    };
    if memory == Memory::Fits {
        // Each row comes into memory, and is checked.
        audit(&store, true)?;
    }
    let streams = requests(setting, &loaded.graph, repeat);
    let measurement = ask(setting, kind, store, streams, |clients| {
        let warm_up = clients.run(Limit {
            requests: setting.warm_up(kind.paper_gb),
            time: None,
        })?;
        open.settle()?;
        open.devices.set_instant(false);
        let before = open.counters();
        let driven = clients.run(Limit {
            requests: u64::MAX,
            time: Some(setting.time),
        })?;
        let after = open.counters();
        open.devices.set_instant(true);
        Ok(Measurement {
            driven,
            instant_per_second: warm_up.per_second,
            before,
            after,
        })
    })?;
    if repeat == 0 {
        audit(&store, false)?;
    }
    drop(tables);
    open.close()?;
    fs::remove_dir_all(home)?;
    Ok(measurement)
}

/// Has clients with these requests ask a store.
fn ask<T>(
    setting: &Setting,
    kind: Kind,
    graph: GraphStore<'_>,
    streams: Vec<Box<dyn Stream>>,
    run: impl FnOnce(&mut Clients<'_>) -> Result<T>,
) -> Result<T> {
    let dataset = setting.dataset(kind.paper_gb);
    let values = dataset.values(setting.seed);
    let beside = (NOTHING.open)(Path::new(""), &Settings::default())?;
    run(&mut Clients {
        graph,
        beside: &beside,
        dataset,
        values: &values,
        streams,
    })
}

/// Returns the requests of each client. A placement gets the same as another in the same repeat.
fn requests(setting: &Setting, graph: &Graph, repeat: u32) -> Vec<Box<dyn Stream>> {
    let seed = seed_of(setting.seed, &format!("repeat {repeat}"));
    let clients = u64::from(setting.clients);
    let stream = |client| Requests::new(graph.clone(), seed, u64::MAX, client, clients);
    (0..clients)
        .map(|client| Box::new(stream(client)) as Box<dyn Stream>)
        .collect()
}

/// Copies a directory with all that is in it.
fn copy_directory(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_directory(&entry.path(), &target)?,
            false => {
                fs::copy(entry.path(), target)?;
            }
        }
    }
    Ok(())
}
