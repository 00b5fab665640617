//! Bytes written against the space that the store takes: a policy's place between the two.

use super::measured::{Figure, Measured};
use super::paper;
use super::points::{FJALL, Point};
use super::simulation::{self, Simulated};
use crate::report::numbers::digits;
use crate::reproduce::report::{self, Bar, Chart, Plot, Section, Table, Whose};

/// Shows the paper's load.
pub fn section(points: &[Measured], simulated: &[Simulated]) -> Section {
    Section {
        figure: "20 GB, 9 updates a key".into(),
        title: "space and write amplification".into(),
        notes: notes(points),
        tables: vec![space(points, true), written(points, true)],
        charts: vec![
            chart(
                "Space, mean over the second half of the load",
                "times the distinct data",
                points,
                &paper::SPACE,
                |point| Some(point.space.mean.median),
            ),
            chart(
                "Write amplification, tables, to settled",
                "times the bytes that came in",
                points,
                &paper::WRITES,
                |point| Some(point.written.settled_tables?.median),
            ),
        ],
        plots: vec![uniform_plot(points, simulated)],
        ..Section::default()
    }
}

/// Shows the same number of writes of other keys, of which the paper has nothing.
pub fn zipfian_section(points: &[Measured]) -> Section {
    Section {
        figure: "Zipfian updates".into(),
        title: "space and write amplification where some keys are written far more often".into(),
        notes: vec![
            "Each record once, in random order; then nine times as many writes, each of a record that \
             is chosen zipfian (0.99), hot ones anywhere. No experiment of the paper: every level \
             holds many versions of few keys."
                .into(),
        ],
        tables: vec![space(points, false), written(points, false)],
        plots: vec![plot("Space against writes, zipfian", points, false)],
        ..Section::default()
    }
}

fn notes(points: &[Measured]) -> Vec<String> {
    let mut notes = vec![
        "Space is that of all files but those that hold what was written last (arenas, logs, \
         journals) and manifests, divided by keys and values of the distinct records. The mean is over the time \
         between half of the writes and the last acknowledgement, the peak over all of the time to \
         settled, as far as a look every 50 ms or so can see; both hold what merges read and write at \
         the time. Settled is when nothing is left to merge."
            .into(),
        "Write amplification of tables is by each store's own count of what flushes and merges wrote. \
         That of the process is the system's count, logs included: all that reached the device's \
         queue, so that a log that is removed before it is written back is not in it, and of Terrace's \
         arenas, which are mapped and used again, only what was written back."
            .into(),
        "Published numbers stand beside what is the same by name or by policy; LSM-trie is no contestant \
         (tables in hash order allow no scans): in the plot it stands as it is simulated, at full \
         scale."
            .into(),
    ];
    let silent: Vec<&str> = points
        .iter()
        .filter(|point| point.written.settled_tables.is_none())
        .map(|point| point.name.as_str())
        .collect();
    if !silent.is_empty() {
        notes.push(format!(
            "No count of its tables: {}. In the plot it stands with all that its process wrote.",
            silent.join(", ")
        ));
    }
    if points.iter().any(|point| point.name == FJALL) {
        notes.push(
            "fjall lets go of the files of merged tables only once later writes have come: settled, \
             after the last of them, it still has those of its last merges."
                .into(),
        );
    }
    notes
}

/// Returns the published number of the paper's counterpart of a point.
fn published(point: &Measured, numbers: &[(&str, f64)]) -> Option<f64> {
    let known = Point::named(&point.name)?;
    paper::of(numbers, known.paper?)
}

/// Returns a number, with least and most where there are repeats.
pub fn text(figure: Figure) -> String {
    let Figure {
        median,
        least,
        most,
    } = figure;
    match least < most {
        true => format!("{} [{}..{}]", digits(median), digits(least), digits(most)),
        false => digits(median),
    }
}

/// Returns a number, or a dash where it is missing.
pub fn or_dash(figure: Option<String>) -> String {
    figure.unwrap_or_else(|| "-".into())
}

fn space(points: &[Measured], with_paper: bool) -> Table {
    let mut table = Table::new(
        "Space, times the distinct data",
        &["store", "second half", "peak", "settled"],
    );
    for point in points {
        let space = point.space;
        let figures = [space.mean, space.peak, space.settled].map(text);
        table
            .rows
            .push([vec![point.name.clone()], figures.to_vec()].concat());
    }
    if with_paper {
        publish(&mut table, points, &paper::SPACE);
    }
    table
}

fn written(points: &[Measured], with_paper: bool) -> Table {
    let mut table = Table::new(
        "Write amplification, times the bytes that came in",
        &[
            "store",
            "tables, load",
            "tables, settled",
            "process, settled",
        ],
    );
    for point in points {
        let written = point.written;
        table.rows.push(vec![
            point.name.clone(),
            or_dash(written.load_tables.map(text)),
            or_dash(written.settled_tables.map(text)),
            text(written.settled_process),
        ]);
    }
    if with_paper {
        publish(&mut table, points, &paper::WRITES);
    }
    table
}

/// Adds a last column with the paper's numbers; those of its stores for which no point stands have
/// rows of their own.
fn publish(table: &mut Table, points: &[Measured], numbers: &[(&str, f64)]) {
    table.header.push("published".into());
    for (row, point) in table.rows.iter_mut().zip(points) {
        row.push(or_dash(published(point, numbers).map(about)));
    }
    let has_point = |store: &str| {
        let mut names = points
            .iter()
            .filter_map(|point| Point::named(&point.name)?.paper);
        names.any(|name| name == store)
    };
    for (store, number) in numbers.iter().filter(|(store, _)| !has_point(store)) {
        let mut row = vec![format!("({store})")];
        row.resize(table.header.len() - 1, "-".into());
        row.push(match *store == LSM_TRIE {
            true => format!("above {}", digits(*number)),
            false => about(*number),
        });
        table.rows.push(row);
    }
}

fn about(number: f64) -> String {
    format!("about {}", digits(number))
}

const LSM_TRIE: &str = "LSM-trie";

fn chart(
    title: &str,
    unit: &str,
    points: &[Measured],
    numbers: &[(&str, f64)],
    read: fn(&Measured) -> Option<f64>,
) -> Chart {
    let published = numbers.iter().map(|(store, value)| Bar {
        label: store.to_string(),
        whose: Whose::Paper,
        value: *value,
    });
    let ours = points.iter().filter_map(|point| {
        Some(Bar {
            label: point.name.clone(),
            whose: Whose::Ours,
            value: read(point)?,
        })
    });
    Chart {
        title: title.into(),
        unit: unit.into(),
        bars: published.chain(ours).collect(),
    }
}

fn uniform_plot(points: &[Measured], simulated: &[Simulated]) -> Plot {
    let mut plot = plot("Space against writes", points, true);
    plot.points.extend(simulation::trie_point(simulated));
    plot
}

fn plot(title: &str, points: &[Measured], with_paper: bool) -> Plot {
    let ours = points.iter().map(|point| report::Point {
        label: point.name.clone(),
        whose: Whose::Ours,
        across: point.space.mean.median,
        up: point.written.usual().median,
        curve: Point::named(&point.name)
            .and_then(Point::curve)
            .map(str::to_string),
    });
    // Those of which the paper has both numbers.
    let published = paper::SPACE.iter().filter_map(|(store, space)| {
        Some(report::Point {
            label: store.to_string(),
            whose: Whose::Paper,
            across: *space,
            up: paper::of(&paper::WRITES, store)?,
            curve: None,
        })
    });
    let published = published.filter(|_| with_paper);
    Plot {
        title: title.into(),
        across: "space, times the distinct data (second half of the load); left and down is better"
            .into(),
        up: "write amplification (settled)".into(),
        is_linear_up: false,
        points: ours.chain(published).collect(),
    }
}

#[cfg(test)]
mod tests;
