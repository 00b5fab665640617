//! Figure 4.4: hits in DRAM by the rule for writes, measured in the store, and simulated.

use serde::{Deserialize, Serialize};
use terrace::{Constants, Db, ForwardPolicy, Options, ReadBufferOptions};

use super::driver;
use super::forward_simulation::{Access, Rule, hit_ratio};
use super::setting::Setting;
use super::stores::region_options;
use crate::Result;
use crate::operation::Operation;
use crate::reproduce::report::{Bar, Chart, Claim, Section, Table, Verdict, Whose};
use crate::workload::ycsb::{self, UpdateStyle};
use crate::workload::{Dataset, Phase};

const WORKLOADS: [&str; 3] = ["A", "B", "C"];
/// Clients side by side, so that reads fall between a write's beginning and its end.
const CLIENTS: u32 = 4;
/// Operations of others between a write's beginning and its end, in the simulation.
const WINDOWS: [usize; 3] = [0, 4, 64];

/// Numbers of the figure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HitRatios {
    /// Ratios of the store's own buffer.
    pub measured: Vec<Measured>,
    /// Ratios of the simulation.
    pub simulated: Vec<Simulated>,
    /// Entries of the simulation's buffer.
    pub simulated_entries: usize,
}

/// One policy of the store in one workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// A workload of YCSB.
    pub workload: String,
    /// Policy of the store's read buffer.
    pub policy: ForwardPolicy,
    /// Gets that the buffer answered, of all gets, from 0 to 1.
    pub hit_ratio: f64,
    /// Operations a second.
    pub rate: f64,
}

/// One rule of the simulation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Simulated {
    /// A workload of YCSB.
    pub workload: String,
    /// The effect of a write.
    pub rule: Rule,
    /// Operations between a write's beginning and its end.
    pub window: usize,
    /// From 0 to 1.
    pub hit_ratio: f64,
}

/// Returns our store's name for a rule of the simulation, `None` for the rule that it does not have.
fn policy(rule: Rule) -> Option<ForwardPolicy> {
    match rule {
        Rule::Resident => Some(ForwardPolicy::Resident),
        Rule::ForwardAll => Some(ForwardPolicy::All),
        Rule::InvalidateFirst => None,
    }
}

/// Runs both.
///
/// # Errors
/// A store that fails.
pub fn measure(setting: &Setting) -> Result<HitRatios> {
    let dataset = setting.dataset();
    let mut measured = Vec::new();
    for policy in Rule::ALL.into_iter().filter_map(policy) {
        measured.extend(measure_policy(setting, &dataset, policy)?);
    }
    // As many as the store's buffer has room for.
    let record_bytes = dataset.expected_bytes() / dataset.records.max(1);
    let entries = setting.settings().cache_bytes / 2 / record_bytes.max(1);
    let simulated_entries = usize::try_from(entries)?;
    let mut simulated = Vec::new();
    for workload in WORKLOADS {
        let phase = phase(setting, &dataset, workload)?;
        let accesses = accesses(&phase, &dataset, setting.seed);
        for (rule, window) in Rule::ALL
            .iter()
            .flat_map(|rule| WINDOWS.map(|w| (*rule, w)))
        {
            let found = hit_ratio(accesses.iter().copied(), rule, simulated_entries, window);
            simulated.push(Simulated {
                workload: workload.into(),
                rule,
                window,
                hit_ratio: found.unwrap_or_default(),
            });
        }
    }
    Ok(HitRatios {
        measured,
        simulated,
        simulated_entries,
    })
}

fn phase(setting: &Setting, dataset: &Dataset, workload: &str) -> Result<Phase> {
    let style = UpdateStyle::Value;
    let phase = ycsb::phase(workload, dataset, setting.operations, CLIENTS, None, style);
    phase.ok_or_else(|| format!("there is no workload {workload}").into())
}

/// Measures one store, loaded and settled, which goes through the workloads.
fn measure_policy(
    setting: &Setting,
    dataset: &Dataset,
    policy: ForwardPolicy,
) -> Result<Vec<Measured>> {
    let directory = tempfile::tempdir_in(&setting.directory)?;
    let options = region_options(directory.path(), &setting.settings(), setting.model)?;
    let options = Options {
        read_buffer: ReadBufferOptions {
            policy,
            ..options.read_buffer
        },
        constants: Constants {
            while_blocks_fit: true,
            ..options.constants
        },
        ..options
    };
    let db = Db::open(directory.path(), options)?;
    driver::drive(&db, &ycsb::load(dataset, 1), dataset, setting.seed)?;
    db.flush()?;
    db.compact()?;
    let hits = |db: &Db| db.statistics().read_buffer.map_or(0, |buffer| buffer.hits);
    let mut measured = Vec::new();
    for workload in WORKLOADS {
        let before = hits(&db);
        let phase = phase(setting, dataset, workload)?;
        let driven = driver::drive(&db, &phase, dataset, setting.seed)?;
        measured.push(Measured {
            workload: workload.into(),
            policy,
            hit_ratio: (hits(&db) - before) as f64 / driven.gets.max(1) as f64,
            rate: driven.operations as f64 / driven.seconds.max(1e-9),
        });
    }
    db.close()?;
    Ok(measured)
}

/// Returns the requests of all clients, in turns.
fn accesses(phase: &Phase, dataset: &Dataset, seed: u64) -> Vec<Access> {
    let mut streams = phase.streams(dataset, seed);
    let mut accesses = Vec::new();
    loop {
        let before = accesses.len();
        for stream in &mut streams {
            accesses.extend(match stream.next() {
                Some(Operation::Read { record, .. }) => Some(Access::Read(record)),
                Some(Operation::Update { record, .. }) => Some(Access::Write(record)),
                _ => None,
            });
        }
        if accesses.len() == before {
            return accesses;
        }
    }
}

/// Shows the ratios to people.
pub fn section(found: &HitRatios, setting: &Setting) -> Section {
    Section {
        figure: "Figure 4.4".into(),
        title: "gets that the DRAM buffer answers, by what a write does to it".into(),
        modelled: setting.model.is_some(),
        emulated: false,
        notes: vec![
            format!(
                "Measured: one store for each policy, its new writes in the region, {CLIENTS} \
                 clients, workloads one after the other on the same store; hits as the store counts \
                 them, of all gets. What the buffer does not answer is found in MemTables, cached \
                 blocks or tables. The thesis' rule, `invalidate, then forward`, is simulated alone: \
                 the store has it no more."
            ),
            format!(
                "Simulated: an LRU of {} entries before the same streams, clients in turns, each \
                 workload from an empty buffer; a write ends so many operations of others after it \
                 began, which on a machine with few processors is rarely seen. Under the thesis' \
                 rule reads in between miss.",
                found.simulated_entries
            ),
            "The thesis shows this figure for its baseline and for WBL, and gives no number of it in \
             the text."
                .into(),
        ],
        tables: vec![measured_table(found), simulated_table(found)],
        plots: Vec::new(),
        charts: vec![chart(found)],
    }
}

fn percent(ratio: f64) -> String {
    format!("{:.1}", ratio * 100.0)
}

fn measured_table(found: &HitRatios) -> Table {
    let mut table = Table::new("Measured, % of gets", &["a write does", "A", "B", "C"]);
    for (rule, policy) in Rule::ALL.map(|rule| (rule, policy(rule))) {
        let Some(policy) = policy else {
            continue;
        };
        let own = found.measured.iter().filter(|m| m.policy == policy);
        let cells = own.map(|measured| percent(measured.hit_ratio));
        table.rows.push(
            std::iter::once(rule.name().to_string())
                .chain(cells)
                .collect(),
        );
    }
    table
}

fn simulated_table(found: &HitRatios) -> Table {
    let mut table = Table::new(
        "Simulated, % of reads",
        &["a write does", "ends after", "A", "B", "C"],
    );
    for (rule, window) in Rule::ALL
        .iter()
        .flat_map(|rule| WINDOWS.map(|w| (*rule, w)))
    {
        let own = found
            .simulated
            .iter()
            .filter(|m| (m.rule, m.window) == (rule, window));
        let names = [rule.name().to_string(), window.to_string()];
        let cells = own.map(|simulated| percent(simulated.hit_ratio));
        table.rows.push(names.into_iter().chain(cells).collect());
    }
    table
}

fn chart(found: &HitRatios) -> Chart {
    let bars = WORKLOADS.iter().flat_map(|workload| {
        let own = found
            .measured
            .iter()
            .filter(move |m| m.workload == *workload);
        own.map(move |measured| Bar {
            label: format!("{workload}, {:?}", measured.policy),
            whose: Whose::Ours,
            value: measured.hit_ratio * 100.0,
        })
    });
    Chart {
        title: "Gets that the buffer answers".into(),
        unit: "%".into(),
        bars: bars.collect(),
    }
}

/// Returns the claims, none of which can be judged: no number was published.
pub fn claims(found: &HitRatios) -> Vec<Claim> {
    let of = |workload: &str, wanted: ForwardPolicy| {
        let mut own = found.measured.iter();
        own.find(|m| m.workload == workload && m.policy == wanted)
            .map_or("-".to_string(), |m| percent(m.hit_ratio))
    };
    let ours = WORKLOADS.map(|workload| {
        format!(
            "{workload} {} % (resident {} %)",
            of(workload, ForwardPolicy::All),
            of(workload, ForwardPolicy::Resident)
        )
    });
    vec![Claim {
        claim: "Forwarding every write keeps hits in DRAM as frequent as in the baseline".into(),
        paper: "a figure without numbers".into(),
        ours: ours.join(", "),
        verdict: Verdict::CannotBeTold,
        because: "The figure's numbers are not in the text; ours are beside each other above."
            .into(),
    }]
}
