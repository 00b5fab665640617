//! Figure 4.5: every write into the region, against NoveLSM's policy.

use serde::{Deserialize, Serialize};

use super::gain::Gain;
use super::gains::{own_options, plan, region_name};
use super::paper;
use super::setting::Setting;
use super::stores::{NOVELSM, NOVELSM_MODELLED};
use crate::contest::{self, Program, Setup, Variant};
use crate::outcome::Contest;
use crate::reproduce::report::{Bar, Chart, Claim, Section, Table, Verdict, Whose};
use crate::{Error, Result};

/// Inserts into an empty store.
const WORKLOAD: &str = "G";

/// Numbers of the figure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AgainstNovelsm {
    /// The gain of the region.
    pub gain: Gain,
    /// All runs.
    pub contest: Contest,
}

/// Holds the contest.
///
/// # Errors
/// A store that fails.
pub fn measure(program: &Program, setting: &Setting, command: &str) -> Result<AgainstNovelsm> {
    let region = region_name(setting);
    let novelsm = match setting.model {
        Some(_) => NOVELSM_MODELLED,
        None => NOVELSM,
    };
    let mut own = own_options(setting, region);
    own.extend(own_options(setting, novelsm));
    let setup = Setup {
        command: command.into(),
        title: format!("{}: figure 4.5", paper::TITLE),
        conditions: Vec::new(),
        variants: vec![Variant {
            plan: plan(setting, WORKLOAD, setting.records_against_novelsm())?,
            memory_bytes: None,
            unbounded_because: None,
        }],
        contestants: program.named(&[novelsm.to_string(), region.to_string()])?,
        repeats: setting.repeats,
        directory: setting.directory.clone(),
        own,
    };
    let contest = contest::hold(program, &setup)?;
    contest.succeeded()?;
    let gain = Gain::of(&contest, WORKLOAD, region, novelsm)
        .ok_or_else(|| Error::from("no run was completed"))?;
    Ok(AgainstNovelsm { gain, contest })
}

/// Shows the gain to people.
pub fn section(found: &AgainstNovelsm, modelled: bool) -> Section {
    let gain = &found.gain;
    let mut table = Table::new(
        "Inserts into an empty store (workload G)",
        &["", "published", "here"],
    );
    let mut row = |name: &str, published: String, ours: String| {
        table.rows.push(vec![name.into(), published, ours]);
    };
    row(
        "NoveLSM's policy, op/s",
        "-".into(),
        format!("{:.0}", gain.baseline_rate),
    );
    row(
        "every write into the region, op/s",
        format!("about {:.0}", paper::RATE_AGAINST_NOVELSM),
        format!("{:.0}", gain.rate),
    );
    let published = format!("{:+.0} %", paper::GAIN_OVER_NOVELSM);
    row("gain", published, gain.text());
    let bar = |whose, value| Bar {
        label: "over NoveLSM".into(),
        whose,
        value,
    };
    Section {
        figure: "Figure 4.5".into(),
        title: "every write into the region, against NoveLSM's policy".into(),
        modelled,
        emulated: false,
        notes: vec![
            "What stands for NoveLSM is its policy, composed of two stores of this engine: one with \
             a log takes writes until it would stall, then one in the region does; the newest \
             version wins by a number in each value. It is not NoveLSM: both stores have levels of \
             their own, waiting MemTables of the first stay in DRAM with their log, and it has twice \
             the MemTables and, where both are busy, twice the threads of the store that it is \
             compared with. So it is favoured where writes stall, and burdened where reads have two \
             places to look."
                .into(),
            "What a write of the composition costs is in part the composition's own: it takes its \
             key's lock and a number, and copies its value behind that number, which makes it 9 bytes \
             longer. That part of a gain says nothing of the policy."
                .into(),
        ],
        tables: vec![table],
        plots: Vec::new(),
        charts: vec![Chart {
            title: "Gain in throughput".into(),
            unit: "%".into(),
            bars: vec![
                bar(Whose::Paper, paper::GAIN_OVER_NOVELSM),
                bar(Whose::Ours, gain.percent),
            ],
        }],
    }
}

/// Returns the claims on the gain and on the rate.
pub fn claims(found: &AgainstNovelsm, because: &str) -> Vec<Claim> {
    let gain = &found.gain;
    vec![
        Claim {
            claim: "Every write into persistent memory is faster than NoveLSM".into(),
            paper: format!("{:+.0} %", paper::GAIN_OVER_NOVELSM),
            ours: gain.text(),
            verdict: gain.verdict(paper::GAIN_OVER_NOVELSM),
            because: gain.because(&format!(
                "NoveLSM's policy, composed of two of our stores. {because}"
            )),
        },
        Claim {
            claim: "The variant on LevelDB reaches about 20,000 operations a second".into(),
            paper: format!("about {:.0} op/s", paper::RATE_AGAINST_NOVELSM),
            ours: format!("{:.0} op/s", gain.rate),
            verdict: Verdict::CannotBeTold,
            because: "An absolute rate is that of its machine, its memory and its engine.".into(),
        },
    ]
}
