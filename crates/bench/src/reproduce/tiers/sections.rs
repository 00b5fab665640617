//! The figures for people: paper, prediction and measurement side by side.

use super::Figures;
use super::experiment::{Experiment, Found};
use super::measured::{Change, Measured, text};
use super::paper;
use super::prediction::Predicted;
use super::setting::Memory;
use super::traffic;
use crate::report::numbers::digits;
use crate::reproduce::report::{Bar, Chart, Plot, Point, Section, Table, Whose};

/// Shows the sweep of data size.
pub fn sizes(figures: &Figures) -> Section {
    let experiment = Experiment::sizes();
    let found = &figures.sizes;
    let mut section = Section {
        figure: "Table 2".into(),
        title: "size of the data, on NVMe flash of 33 GB before SATA flash of 200 GB".into(),
        emulated: true,
        notes: vec![
            "Levels fill NVMe flash up to its capacity. The deepest level lies there in part, so its tables \
             are on both devices."
                .into(),
        ],
        ..Section::default()
    };
    for memory in Memory::ALL {
        section.tables.push(rates(&experiment, figures, memory));
    }
    for memory in Memory::ALL {
        section
            .tables
            .push(traffic::devices(&experiment, &found.runs, memory));
    }
    section.plots.push(size_plot(figures));
    section
}

fn size_plot(figures: &Figures) -> Plot {
    let mut points = Vec::new();
    for (paper_gb, published) in paper::SIZES {
        points.push(Point {
            label: "paper".into(),
            whose: Whose::Paper,
            across: paper_gb,
            up: published,
            curve: Some("paper".into()),
        });
    }
    for memory in Memory::ALL {
        for (paper_gb, _) in paper::SIZES {
            let name = super::experiment::size_name(paper_gb);
            let Some(measured) = figures.measured(&name, memory) else {
                continue;
            };
            points.push(Point {
                label: short(memory).into(),
                whose: Whose::Ours,
                across: paper_gb,
                up: measured.per_second.median,
                curve: Some(memory.name().into()),
            });
        }
    }
    Plot {
        title: "Requests a second by size of the data, emulated".into(),
        across: "GB of data".into(),
        up: "requests a second".into(),
        points,
        ..Plot::default()
    }
}

fn short(memory: Memory) -> &'static str {
    match memory {
        Memory::Fits => "fits",
        Memory::Bounded => "bounded",
    }
}

/// Shows the nine placements.
pub fn placements(figures: &Figures) -> Section {
    let experiment = Experiment::placements();
    let mut section = Section {
        figure: "Tables 3 and 4".into(),
        title: "nine placements at 42 GB".into(),
        emulated: true,
        notes: vec![
            "The price of a million requests is that of the bytes on each device for five years at this \
             throughput, or until wear ends a device, at the prices of the profiles. The bytes are the paper's."
                .into(),
            "The paper does not say that all data fit in its 64 GB of memory; both regimes are here.".into(),
        ],
        ..Section::default()
    };
    for memory in Memory::ALL {
        section.tables.push(rates(&experiment, figures, memory));
    }
    for memory in Memory::ALL {
        section.tables.push(traffic::levels(
            &experiment,
            &figures.placements.runs,
            memory,
        ));
        section.tables.push(traffic::devices(
            &experiment,
            &figures.placements.runs,
            memory,
        ));
    }
    section.charts = Memory::ALL
        .map(|memory| chart(&experiment, figures, memory))
        .into();
    section
}

fn chart(experiment: &Experiment, figures: &Figures, memory: Memory) -> Chart {
    let mut bars = Vec::new();
    for case in &experiment.cases {
        let mut bar = |whose, value: Option<f64>| {
            bars.extend(value.map(|value| Bar {
                label: case.name.clone(),
                whose,
                value,
            }));
        };
        bar(Whose::Paper, case.placement.published);
        bar(
            Whose::Predicted,
            figures
                .predicted(&case.name, memory)
                .map(|one| one.per_second),
        );
        let measured = figures.measured(&case.name, memory);
        bar(
            Whose::Ours,
            measured.map(|measured| measured.per_second.median),
        );
    }
    Chart {
        title: format!("Placements, {}, emulated", memory.name()),
        unit: "requests a second".into(),
        bars,
    }
}

/// Shows the fifth level.
pub fn five_levels(figures: &Figures) -> Section {
    let experiment = Experiment::five_levels();
    let runs = &figures.five_levels.runs;
    let mut section = Section {
        figure: "Not in the paper".into(),
        title: "the fifth level at 42 GB".into(),
        emulated: true,
        notes: vec![
            "Under the named settings 42 GB need levels 0 to 4, of which the paper has 0 to 3. Terrace counts \
             targets from below, so level 1 grows with the data and four levels are enough. Here level 1 has a \
             quarter of the bytes, and there are five."
                .into(),
            levels_of(&figures.placements, "four levels"),
            levels_of(&figures.five_levels, "five levels"),
        ],
        ..Section::default()
    };
    for memory in Memory::ALL {
        section.tables.push(rates(&experiment, figures, memory));
    }
    for memory in Memory::ALL {
        section
            .tables
            .push(traffic::levels(&experiment, runs, memory));
    }
    section
}

/// Returns the bytes of the levels of a loaded store, in words.
fn levels_of(found: &Found, name: &str) -> String {
    let Some((_, level_bytes)) = found.loaded.first() else {
        return format!("{name}: none was loaded.");
    };
    let levels = level_bytes.iter().enumerate();
    let used = levels.filter(|(_, bytes)| **bytes > 0);
    let texts: Vec<String> = used
        .map(|(level, bytes)| {
            format!(
                "L{level} {} MiB",
                digits(*bytes as f64 / f64::from(1 << 20))
            )
        })
        .collect();
    format!(
        "The store of {name} as it was loaded: {}.",
        texts.join(", ")
    )
}

/// Shows which differences are noise.
pub fn differences(figures: &Figures) -> Section {
    let mut table = Table::new(
        "Throughput of one placement against another [emulated]",
        &["", "published", "all data fit", "", "bounded memory", ""],
    );
    let rates = paper::PLACEMENTS.map(|one| (one.name, one.published.unwrap_or_default()));
    let neighbours = rates.windows(2).filter_map(|pair| match pair {
        [one, other] => Some((*other, *one)),
        _ => None,
    });
    let ends = [("D", "A"), ("G", "E"), ("H", "E"), ("I", "E")];
    let find = |name: &str| rates.into_iter().find(|(known, _)| *known == name);
    let ends = ends
        .into_iter()
        .filter_map(|(ours, theirs)| find(ours).zip(find(theirs)));
    for ((ours, our_rate), (theirs, their_rate)) in neighbours.chain(ends) {
        let mut row = vec![
            format!("{ours} against {theirs}"),
            format!("{:+.1} %", (our_rate / their_rate - 1.0) * 100.0),
        ];
        for memory in Memory::ALL {
            let change = Change::of(&figures.placements.runs, memory, ours, theirs);
            row.extend(match change {
                Some(change) => [change.text(), decided(&change).into()],
                None => ["-".into(), "-".into()],
            });
        }
        table.rows.push(row);
    }
    Section {
        figure: "Differences".into(),
        title: "which of the paper's differences are noise".into(),
        emulated: true,
        notes: vec![
            "Each published number is of a single run. A difference counts here where the repeats of the two \
             lie apart, and is noise where they overlap."
                .into(),
        ],
        tables: vec![table],
        ..Section::default()
    }
}

fn decided(change: &Change) -> &'static str {
    match (change.repeats, change.exceeds_spread()) {
        (1, _) => "one repeat",
        (_, true) => "counts",
        (_, false) => "noise",
    }
}

/// Returns the throughput, latency and price of each case beside the paper's throughput and the predicted one.
fn rates(experiment: &Experiment, figures: &Figures, memory: Memory) -> Table {
    let mut table = Table::new(
        &format!("Requests a second, {} [emulated]", memory.name()),
        &[
            "",
            "levels",
            "published",
            "predicted",
            "measured",
            "p50 us",
            "p99 us",
            "price of a million, 1e-6",
        ],
    );
    for case in &experiment.cases {
        let Some(measured) = figures.measured(&case.name, memory) else {
            continue;
        };
        let predicted: Option<&Predicted> = figures.predicted(&case.name, memory);
        let or_dash = |number: Option<f64>| number.map_or("-".into(), digits);
        table.rows.push(vec![
            case.name.clone(),
            match case.placement.levels.is_empty() {
                true => case.placement.name.into(),
                false => case.placement.describe(),
            },
            or_dash(case.placement.published),
            or_dash(predicted.map(|one| one.per_second)),
            text(measured.per_second),
            text(measured.p50_us),
            text(measured.p99_us),
            price(measured),
        ]);
    }
    table
}

fn price(measured: &Measured) -> String {
    let mut figure = measured.price_per_million;
    for value in [&mut figure.median, &mut figure.least, &mut figure.most] {
        *value *= 1e6;
    }
    text(figure)
}
