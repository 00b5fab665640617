//! The figures of a storage node's engine on a file.
//!
//! `cargo bench -p terrace-node --bench load -- PATH [--gib N] [--runs N] [--only NAME]` makes the file,
//! fills it with zeros and removes it again. NAME chooses figures. Each line is the median of the
//! runs, and the peers of a figure alternate within a run: the engine, the same device without the
//! engine (`raw`), and fio where it is installed. Without arguments, a tiny run on a temporary file,
//! which is that of the gate.

mod beside;
mod engine;
mod figures;
mod fio;
mod raw;
mod recovery;
mod report;

use std::path::{Path, PathBuf};

use report::Report;

/// Where and how much is measured.
struct Setting {
    path: PathBuf,
    /// Size of the file.
    bytes: u64,
    /// Counts are divided by it.
    scale: u64,
    runs: usize,
}

/// Measures the peers of a figure once; the number of the run chooses their order.
type Figure = fn(&Setting, &mut Report, usize);

const FIGURES: [(&str, Figure); 9] = [
    ("fillsequential", figures::fill_sequential),
    ("large values", figures::large_values),
    ("random retrieves", figures::random_retrieves),
    ("small stores", figures::small_stores),
    ("exist", figures::exist),
    ("retrieves beside large stores", beside::retrieves),
    ("overwrites of large values", figures::overwrites_large),
    ("overwrites of small values", figures::overwrites_small),
    ("recovery", recovery::recovery),
];

fn main() {
    if recovery::is_child() {
        return recovery::child();
    }
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let (setting, chosen) = arguments(temporary.path());
    for (name, figure) in FIGURES
        .into_iter()
        .filter(|(name, _)| name.contains(&chosen))
    {
        println!("# {name}");
        let mut report = Report::default();
        for run in 0..setting.runs {
            figure(&setting, &mut report, run);
        }
        report.print();
        let _ = std::fs::remove_file(&setting.path);
    }
}

const USAGE: &str =
    "usage: cargo bench -p terrace-node --bench load -- [PATH] [--gib N] [--runs N] [--only NAME]";

fn refuse(why: &str) {
    eprintln!("{why}");
    std::process::exit(2);
}

fn arguments(temporary: &Path) -> (Setting, String) {
    let mut setting = Setting {
        path: temporary.join("device"),
        bytes: 64 << 20,
        scale: 200,
        runs: 1,
    };
    let mut chosen = String::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().expect("an option has a value");
        match argument.as_str() {
            "--gib" => {
                let gib: f64 = value().parse().expect("a number of GiB");
                setting.bytes = (gib * f64::from(1 << 30)) as u64 / 4096 * 4096;
            }
            "--runs" => setting.runs = value().parse().expect("a number of runs"),
            "--only" => chosen = value(),
            // Cargo's own.
            "--bench" => {}
            option if option.starts_with('-') => refuse(USAGE),
            path if Path::new(path).exists() => {
                refuse(&format!("{path} exists; name a file to be made"));
            }
            path => {
                let (bytes, scale) = (6 << 30, 1);
                setting = Setting {
                    path: path.into(),
                    bytes,
                    scale,
                    ..setting
                };
            }
        }
    }
    (setting, chosen)
}
