//! Write-behind logging (WBL, 2022): new writes into persistent memory, without a log.
//!
//! Each figure has a file: its measurement, its presentation, and verdicts on its claims.

mod against_novelsm;
mod bandwidth;
mod driver;
mod forward_simulation;
mod gain;
mod gains;
mod hit_ratio;
mod novelsm;
mod paper;
mod setting;
mod stalls;
mod stores;

use serde::{Deserialize, Serialize};

use crate::contest::{self, Program};
use crate::{Result, machine};

use super::arguments::Wbl;
use super::report::{Claim, Reproduction, Section};
use setting::Setting;

pub use against_novelsm::AgainstNovelsm;
pub use bandwidth::Bandwidths;
pub use gains::Gains;
pub use hit_ratio::HitRatios;
pub use stalls::Stalls;
pub use stores::CONTESTANTS;

/// All figures, as numbers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figures {
    /// Figure 2.1.
    pub bandwidth: Bandwidths,
    /// Figures 4.2 and 4.3.
    pub gains: Gains,
    /// Figure 4.4.
    pub hit_ratio: HitRatios,
    /// Figure 4.5.
    pub against_novelsm: AgainstNovelsm,
    /// No figure of the thesis.
    pub stalls: Stalls,
}

/// Measures every figure.
///
/// # Errors
/// Arguments that make no sense, a directory that cannot hold a region, and a store that fails.
pub fn reproduce(program: &Program, asked: &Wbl, command: &str) -> Result<Reproduction<Figures>> {
    let setting = Setting::of(asked)?;
    contest::check_directory(&setting.directory)?;
    // First the part that a directory without mappings refuses.
    say("figure 2.1");
    let bandwidth = bandwidth::measure(&setting)?;
    say("figures 4.2 and 4.3");
    let gains = gains::measure(program, &setting, command)?;
    say("figure 4.4");
    let hit_ratio = hit_ratio::measure(&setting)?;
    say("figure 4.5");
    let against_novelsm = against_novelsm::measure(program, &setting, command)?;
    say("stalls");
    let stalls = stalls::measure(&setting)?;
    let figures = Figures {
        bandwidth,
        gains,
        hit_ratio,
        against_novelsm,
        stalls,
    };
    let mut machine = machine::describe(&setting.directory);
    machine.harness = figures.gains.contest.machine.harness.clone();
    Ok(Reproduction {
        command: command.into(),
        paper: paper::TITLE.into(),
        model: setting.model.map(describe_model),
        conditions: setting.conditions(asked),
        machine,
        sections: sections(&figures, &setting),
        claims: claims(&figures, &setting),
        figures,
    })
}

/// Says how far it is; contests report their own runs.
fn say(part: &str) {
    crate::output::tell(&format!("wbl: {part}"));
}

fn describe_model(model: super::region_model::RegionModel) -> String {
    format!(
        "each write {} ns and its bytes at {} GB/s, on top of what the medium takes; reads at {} GB/s \
         in figure 2.1, and elsewhere as fast as the medium",
        model.latency_ns, model.write_gbps, model.read_gbps
    )
}

fn sections(figures: &Figures, setting: &Setting) -> Vec<Section> {
    let modelled = setting.model.is_some();
    vec![
        bandwidth::section(&figures.bandwidth, modelled),
        gains::section(&figures.gains, modelled),
        hit_ratio::section(&figures.hit_ratio, setting),
        against_novelsm::section(&figures.against_novelsm, modelled),
        stalls::section(&figures.stalls, modelled),
    ]
}

fn claims(figures: &Figures, setting: &Setting) -> Vec<Claim> {
    let region = &figures.bandwidth.region;
    let because = format!(
        "The thesis' region is persistent memory, which is not here; this one is {region}, and only \
         the sign can be compared."
    );
    let modelled = setting.model.is_some();
    let mut claims = gains::claims(&figures.gains, &because);
    claims.extend(hit_ratio::claims(&figures.hit_ratio));
    claims.extend(against_novelsm::claims(&figures.against_novelsm, &because));
    claims.extend(stalls::claims(&figures.stalls));
    claims.extend(bandwidth::claims(&figures.bandwidth, modelled));
    if modelled {
        for claim in &mut claims {
            claim.because.push_str(" Our number is modelled.");
        }
    }
    claims
}
