//! Predicts the speed, the price and the wear of a store on its tiers and on others.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use terrace::Statistics;
use terrace_storage::DeviceProfile;
use terrace_tools::advise::{self, Advice, AdviceGoal, AdviceRequest, AdvisedPlacement, advise};

use super::add::profile_of;
use super::aligned;
use crate::arguments::{AdvisedGoal, TierAdvise};
use crate::failure::{Failure, Result};
use crate::output::{print, print_json};
use crate::report::{bytes, count};
use crate::store;
use crate::text::{escape, shown};

pub fn run(arguments: &TierAdvise) -> Result<()> {
    let statistics = match &arguments.traffic {
        Some(file) => read_statistics(file)?,
        None => store::statistics_for_advice(arguments)?,
    };
    let profiles = arguments.profiles.iter().map(|given| profile(given));
    let request = AdviceRequest {
        profiles: profiles.collect::<Result<_>>()?,
        devices: arguments.devices.clone(),
        threads: Some(arguments.threads),
        processors: arguments.processors,
        cpu_us: arguments.cpu_us,
        any_order: arguments.any_order,
        goal: match arguments.goal {
            AdvisedGoal::Throughput => AdviceGoal::Throughput,
            AdvisedGoal::Price => AdviceGoal::Price,
        },
    };
    let advice = advise(&statistics, &request).map_err(refused)?;
    match arguments.json {
        true => print_json(&as_json(&advice)),
        false => print(as_text(&advice, arguments.limit)),
    }
}

fn read_statistics(file: &Path) -> Result<Statistics> {
    let text = fs::read_to_string(file).map_err(|error| Failure::file(file, error))?;
    serde_json::from_str(&text).map_err(|error| {
        let file = shown(file);
        Failure::Usage(format!(
            "{file} has no statistics of `terrace stats --json`: {error}"
        ))
    })
}

/// Returns a tier's name and its profile: a preset, or the contents of a file.
fn profile(given: &str) -> Result<(String, DeviceProfile)> {
    let (tier, source) = given.split_once('=').ok_or_else(|| {
        Failure::Usage(format!("--profile {given:?}: TIER=PRESET|FILE is expected"))
    })?;
    Ok((tier.to_owned(), profile_of(Path::new(source))?))
}

fn refused(error: advise::Error) -> Failure {
    Failure::Usage(match error.hint() {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    })
}

fn as_json(advice: &Advice) -> Value {
    let mut object = json!(advice);
    if let Some(fields) = object.as_object_mut() {
        fields.insert("is_prediction".to_owned(), true.into());
        fields.insert("options_toml".to_owned(), advice.level_tiers().into());
    }
    object
}

fn as_text(advice: &Advice, limit: usize) -> String {
    let mut text = format!(
        "Predictions, not measurements: {} always have a request under way, on {}.\nA request takes {:.1} us of a \
         processor, as {} since the opening did, and compactions {:.1} us.\n\n",
        things(advice.threads, "thread"),
        things(advice.processors, "processor"),
        advice.cpu_us,
        count(advice.requests),
        advice.background_cpu_us,
    );
    text.push_str(&aligned(&tiers(advice), &[0]));
    text.push('\n');
    text.push_str(&aligned(&levels(advice), &[]));
    text.push('\n');
    text.push_str(&aligned(&placements(advice, limit), &[0, 1]));
    let more = advice.placements.len().saturating_sub(limit);
    if more > 0 {
        text.push_str(&format!(
            "{} more; --limit shows them\n",
            count(more as u64)
        ));
    }
    for note in &advice.notes {
        text.push_str(&format!("\nNote: {}.", escape(note.as_bytes())));
    }
    if !advice.notes.is_empty() {
        text.push('\n');
    }
    text.push_str(&format!("\n{}", conclusion(advice)));
    text
}

fn conclusion(advice: &Advice) -> String {
    match (advice.best(), advice.level_tiers()) {
        (Some(best), Some(_)) if best.is_present => {
            "The present placement is the best one of these.\n".to_owned()
        }
        (_, Some(line)) => format!(
            "For the best placement, in the options of the keyspaces (`[default_keyspace]`):\n  {line}\n"
        ),
        _ => String::new(),
    }
}

fn things(number: u32, thing: &str) -> String {
    crate::report::things(number.into(), thing)
}

fn with_heads(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Vec<Vec<String>> {
    let heads = heads.iter().map(|head| (*head).to_owned()).collect();
    [heads].into_iter().chain(rows).collect()
}

fn tiers(advice: &Advice) -> Vec<Vec<String>> {
    let rows = advice.tiers.iter().map(|tier| {
        let profile = &tier.profile;
        vec![
            escape(tier.name.as_bytes()),
            bytes(tier.capacity_bytes),
            format!("{:.0}", profile.read_latency_us),
            format!("{:.0}", profile.queued_read_latency_us),
            format!("{:.0}", profile.read_bytes_per_second / 1e6),
            format!("{:.0}", profile.write_bytes_per_second / 1e6),
            price(profile.price_per_gb),
            match tier.number {
                Some(_) => String::new(),
                None => "not there".to_owned(),
            },
        ]
    });
    let heads = [
        "tier",
        "capacity",
        "read, us",
        "of 32, us",
        "read, MB/s",
        "write, MB/s",
        "price/GB",
        "",
    ];
    with_heads(&heads, rows)
}

fn levels(advice: &Advice) -> Vec<Vec<String>> {
    let levels = advice.levels.iter().enumerate();
    let rows = levels.map(|(number, level)| {
        vec![
            number.to_string(),
            bytes(level.bytes),
            format!("{:.4}", level.reads),
            format!("{:.0}", level.read_bytes),
            format!("{:.0}", level.written_bytes),
            format!("{:.0}", level.compaction_read_bytes),
        ]
    });
    let heads = [
        "level",
        "stored",
        "reads/request",
        "bytes read",
        "bytes written",
        "compaction reads",
    ];
    with_heads(&heads, rows)
}

fn placements(advice: &Advice, limit: usize) -> Vec<Vec<String>> {
    let all = advice.placements.iter().enumerate();
    let shown =
        all.filter(|(at, placement)| *at < limit || placement.is_present || placement.is_best);
    let rows = shown.map(|(_, placement)| row(placement));
    let heads = [
        "",
        "levels",
        "requests/s",
        "mean, us",
        "p50, us",
        "p99, us",
        "bound by",
        "price",
        "price/million",
        "worn out",
    ];
    with_heads(&heads, rows)
}

fn row(placement: &AdvisedPlacement) -> Vec<String> {
    let marks = match (placement.is_best, placement.is_present) {
        (true, true) => "* now",
        (true, false) => "*",
        (false, true) if !placement.fits => "  now, too large",
        (false, true) => "  now",
        (false, false) => "",
    };
    vec![
        marks.to_owned(),
        escape(placement.levels.join(" ").as_bytes()),
        count(placement.requests_per_second.round() as u64),
        latency(placement.mean_latency_us),
        latency(placement.p50_latency_us),
        latency(placement.p99_latency_us),
        escape(placement.bound.as_bytes()),
        price(placement.price),
        price(placement.price_per_million),
        placement.worn_out_years.map_or("-".to_owned(), years),
    ]
}

fn latency(us: f64) -> String {
    match us < 100.0 {
        true => format!("{us:.1}"),
        false => count(us.round() as u64),
    }
}

fn price(price: f64) -> String {
    match price {
        0.0 => "-".to_owned(),
        price if price < 0.001 => format!("{price:.1e}"),
        price if price < 100.0 => format!("{price:.3}"),
        price => count(price.round() as u64),
    }
}

fn years(years: f64) -> String {
    match years {
        years if years < 0.1 => format!("{:.0} d", years * 365.25),
        years if years < 100.0 => format!("{years:.1} y"),
        _ => "> 100 y".to_owned(),
    }
}
