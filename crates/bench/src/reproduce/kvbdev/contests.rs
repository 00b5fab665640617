//! The contest: which phases each system goes through.

use std::collections::BTreeMap;
use std::path::Path;

use super::paper;
use super::setting::Setting;
use super::systems::{BLOCKS, KEYS, System};
use crate::Result;
use crate::contest::{self, Program, Setup, Variant};
use crate::node::FILE_OPTION;
use crate::outcome::Contest;
use crate::run::{INTERVAL_MS, Plan};
use crate::settings::DurabilityClass;
use crate::told::OwnOptions;
use crate::workload::db_bench::Benchmark;
use crate::workload::{Dataset, LoadOrder, Phase, PhaseKind};

/// The paper's run.
pub const FILL: &str = "fillseq";
/// Reads of random pairs.
pub const READS: &str = "readrandom";
/// Random pairs written again.
pub const OVERWRITES: &str = "overwrite";

/// Words behind the names of phases without a flush for each write.
pub const UNSYNCED: &str = ", not synced";
/// Words behind those with small values.
pub const SMALL: &str = ", 100 B";

/// Numbers of clients beside the paper's.
pub const CLIENTS: [u32; 4] = [1, 2, 4, 8];
/// The part of the pairs that these phases read and write again.
const CLIENTS_PART: u64 = 10;

/// Holds the contest of all systems.
///
/// # Errors
/// All systems have failed; of a single one the contest tells.
pub fn hold(
    program: &Program,
    setting: &Setting,
    systems: &[System],
    file: &Path,
    command: &str,
) -> Result<Contest> {
    let names: Vec<String> = systems.iter().map(|one| one.name.to_string()).collect();
    let variant = |plan| Variant {
        plan,
        memory_bytes: None,
        unbounded_because: None,
    };
    let setup = Setup {
        command: command.into(),
        title: paper::TITLE.into(),
        conditions: setting.conditions(),
        variants: plans(setting).map(variant).into(),
        contestants: program.named(&names)?,
        repeats: setting.repeats,
        directory: setting.directory.clone(),
        own: own_options(file),
    };
    contest::hold(program, &setup)
}

/// The node's file, for those that use it.
pub fn own_options(file: &Path) -> OwnOptions {
    let option = (FILE_OPTION.to_string(), file.display().to_string());
    let of = |system: System| (system.name.to_string(), BTreeMap::from([option.clone()]));
    OwnOptions::from([of(KEYS), of(BLOCKS)])
}

/// Everything durable; the paper's run once more without a flush for each write; small values.
pub fn plans(setting: &Setting) -> [Plan; 3] {
    let (dataset, small) = (setting.dataset(), setting.small_dataset());
    let all = dataset.records;
    let mut durable = vec![
        fill(&dataset),
        phase(READS, Benchmark::ReadRandom, all, paper::CLIENTS),
        phase(OVERWRITES, Benchmark::Overwrite, all, paper::CLIENTS),
    ];
    for clients in CLIENTS {
        for (name, benchmark) in [
            (READS, Benchmark::ReadRandom),
            (OVERWRITES, Benchmark::Overwrite),
        ] {
            let operations = (all / CLIENTS_PART).max(u64::from(clients));
            durable.push(phase(
                &by_clients(name, clients),
                benchmark,
                operations,
                clients,
            ));
        }
    }
    let of_small = vec![
        fill(&small),
        phase(READS, Benchmark::ReadRandom, small.records, paper::CLIENTS),
    ];
    let (power_cut, crash) = (DurabilityClass::PowerCut, DurabilityClass::ProcessCrash);
    [
        plan(setting, power_cut, dataset, durable, ""),
        plan(setting, crash, dataset, vec![fill(&dataset)], UNSYNCED),
        plan(setting, power_cut, small, of_small, SMALL),
    ]
}

/// The name of a phase with other clients than the paper's.
pub fn by_clients(name: &str, clients: u32) -> String {
    match clients {
        paper::CLIENTS => name.into(),
        1 => format!("{name} by 1 client"),
        _ => format!("{name} by {clients} clients"),
    }
}

fn fill(dataset: &Dataset) -> Phase {
    Phase {
        name: FILL.into(),
        ..Phase::load(dataset, LoadOrder::Parts, paper::CLIENTS)
    }
}

fn phase(name: &str, benchmark: Benchmark, operations: u64, clients: u32) -> Phase {
    Phase::new(name, PhaseKind::DbBench(benchmark), operations, clients)
}

fn plan(
    setting: &Setting,
    durability: DurabilityClass,
    dataset: Dataset,
    phases: Vec<Phase>,
    label: &str,
) -> Plan {
    Plan {
        dataset,
        phases,
        rates: BTreeMap::new(),
        warm_up: 0.0,
        sample_interval_ms: INTERVAL_MS,
        seed: setting.seed,
        settings: setting.settings(durability, &dataset),
        label: label.into(),
    }
}
