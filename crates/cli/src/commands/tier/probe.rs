//! Measures a device.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::emulate_default_handler;
use terrace_storage::RealStorage;
use terrace_tools::probe::{
    self, Error, Latency, Medium, Outcome, ProbeOptions, Progress, Spread, measure, nearest,
};

use crate::arguments::TierProbe;
use crate::failure::{Failure, Result};
use crate::output::{print, print_json};
use crate::progress::Steps;
use crate::report::bytes;
use crate::text::{json_path, shown};

pub fn run(arguments: &TierProbe) -> Result<()> {
    let options = ProbeOptions {
        max_file_bytes: arguments.size,
        max_duration: Duration::from_secs_f64(arguments.seconds),
        price_per_gb: arguments.price_per_gb.unwrap_or(0.0),
        endurance_writes: arguments.endurance_writes.unwrap_or(0.0),
        ..ProbeOptions::default()
    };
    let signal = Signal::caught();
    let mut steps = Steps::of_seconds(shown(&arguments.path));
    let seconds = arguments.seconds;
    let tell = &mut |Progress { phase, share }| {
        steps.call(format!("{}, {}:", shown(&arguments.path), phase.name()));
        steps.reach((share * seconds) as u64, Some(seconds.ceil() as u64));
        match signal.number() {
            0 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    };
    let measured = measure(&RealStorage, &arguments.path, &options, tell);
    steps.finish();
    if matches!(measured, Err(Error::Interrupted)) {
        // The file is gone: now the signal does its work, and the shell sees it.
        let _ = emulate_default_handler(signal.number());
    }
    let outcome = measured.map_err(Failure::Probe)?;
    match arguments.json {
        true => print_json(&as_json(&arguments.path, &outcome)),
        false => print(as_text(&arguments.path, &outcome)),
    }
}

/// The signal that came and would have ended the process.
struct Signal(Arc<AtomicUsize>);

impl Signal {
    /// Catches the signals that end a process. A second one ends it at once.
    fn caught() -> Self {
        let (first, number) = (Arc::new(AtomicBool::new(false)), Arc::default());
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // Without a handler the signal ends the process, and leaves the file.
            let _ = flag::register_conditional_default(signal, Arc::clone(&first));
            let _ = flag::register(signal, Arc::clone(&first));
            let _ = flag::register_usize(signal, Arc::clone(&number), signal as usize);
        }
        Signal(number)
    }

    /// Returns the number of the signal; 0 if none came.
    fn number(&self) -> i32 {
        self.0.load(Ordering::Relaxed) as i32
    }
}

/// Returns the reason why the figures are not those of a device.
fn caveat(outcome: &Outcome) -> Option<String> {
    let name = &outcome.file_system;
    match outcome.medium {
        Medium::Device => None,
        Medium::PageCache => Some(format!(
            "THE PAGE CACHE WAS IN THE WAY: {name} has no direct I/O. The figures are those of memory."
        )),
        Medium::Memory => Some(format!(
            "{name} KEEPS ITS FILES IN MEMORY, and has no device. The figures are those of memory."
        )),
    }
}

fn as_text(path: &Path, outcome: &Outcome) -> String {
    let mut text = format!(
        "{}: {}, a file of {}\n\n{:<34}{:>12}{:>12}{:>12}\n",
        shown(path),
        outcome.file_system,
        bytes(outcome.file_bytes),
        "",
        "median",
        "least",
        "greatest"
    );
    for (name, bandwidth) in [
        ("sequential write, MB/s", outcome.write_bytes_per_second),
        ("sequential read, MB/s", outcome.read_bytes_per_second),
    ] {
        text.push_str(&line(name, bandwidth, 1e6));
    }
    for (name, latency) in [
        ("random read of 4 KiB", outcome.read),
        ("random read, 32 at a time", outcome.queued_read),
        ("sync after 4 KiB", outcome.sync),
    ] {
        text.push_str(&line(&format!("{name}, p50, us"), latency.p50_us, 1.0));
        text.push_str(&line(&format!("{name}, p99, us"), latency.p99_us, 1.0));
    }
    if let Some(caveat) = caveat(outcome) {
        text.push_str(&format!(
            "\n{caveat}\nNo profile follows from them: measure a directory on a device.\n"
        ));
        return text;
    }
    text.push_str(&format!("\n{}", probe::toml(&outcome.profile)));
    if let Some(found) = nearest(&outcome.profile) {
        text.push_str(&format!(
            "\nA guess: of the known devices {} resembles it most; figures differ {:.1} times on average.\n",
            found.preset, found.factor
        ));
    }
    text
}

fn line(name: &str, spread: Spread, unit: f64) -> String {
    let Spread { min, median, max } = spread;
    let [median, min, max] = [median, min, max].map(|value| value / unit);
    format!("{name:<34}{median:>12.1}{min:>12.1}{max:>12.1}\n")
}

fn as_json(path: &Path, outcome: &Outcome) -> Value {
    let is_device = outcome.medium == Medium::Device;
    let profile = &outcome.profile;
    let found = nearest(profile).filter(|_| is_device);
    let mut object = json!({
        "file_system": outcome.file_system,
        "medium": outcome.medium.name(),
        "file_bytes": outcome.file_bytes,
        "write_bytes_per_second": of_spread(outcome.write_bytes_per_second),
        "read_bytes_per_second": of_spread(outcome.read_bytes_per_second),
        "profile": is_device.then(|| json!({
            "read_bytes_per_second": profile.read_bytes_per_second,
            "write_bytes_per_second": profile.write_bytes_per_second,
            "read_latency_us": profile.read_latency_us,
            "queued_read_latency_us": profile.queued_read_latency_us,
            "sync_latency_us": profile.sync_latency_us,
            "price_per_gb": profile.price_per_gb,
            "endurance_writes": profile.endurance_writes,
        })),
        "guessed_preset": found.map(|found| found.preset),
        "guessed_preset_factor": found.map(|found| found.factor),
        "caveat": caveat(outcome),
    });
    json_path(&mut object, "path", Some(path));
    if let Some(object) = object.as_object_mut() {
        add_latency(object, "read", outcome.read);
        add_latency(object, "queued_read", outcome.queued_read);
        add_latency(object, "sync", outcome.sync);
    }
    object
}

fn add_latency(object: &mut Map<String, Value>, name: &str, latency: Latency) {
    let mut add = |field: String, value| object.insert(field, value);
    add(format!("{name}_latency_p50_us"), of_spread(latency.p50_us));
    add(format!("{name}_latency_p99_us"), of_spread(latency.p99_us));
    add(format!("{name}_requests"), latency.requests.into());
}

fn of_spread(spread: Spread) -> Value {
    json!({"min": spread.min, "median": spread.median, "max": spread.max})
}

#[cfg(test)]
mod tests {
    use terrace_storage::DeviceProfile;

    use super::*;

    fn outcome(medium: Medium) -> Outcome {
        let spread = |median| Spread {
            min: median / 2.0,
            median,
            max: median * 2.0,
        };
        let latency = |p50| Latency {
            p50_us: spread(p50),
            p99_us: spread(p50 * 3.0),
            requests: 1000,
        };
        let profile = DeviceProfile::NVME_960_PRO;
        Outcome {
            file_system: "ext4".to_owned(),
            medium,
            file_bytes: 1 << 30,
            profile,
            write_bytes_per_second: spread(profile.write_bytes_per_second),
            read_bytes_per_second: spread(profile.read_bytes_per_second),
            read: latency(profile.read_latency_us),
            queued_read: latency(profile.queued_read_latency_us),
            sync: latency(profile.sync_latency_us),
        }
    }

    #[test]
    fn a_report_has_figures_with_units_a_profile_and_a_guess() {
        let text = as_text(Path::new("/mnt"), &outcome(Medium::Device));
        let wanted = "\
/mnt: ext4, a file of 1.0 GiB

                                        median       least    greatest
sequential write, MB/s                  2100.0      1050.0      4200.0
sequential read, MB/s                   3500.0      1750.0      7000.0
random read of 4 KiB, p50, us             71.0        35.5       142.0
random read of 4 KiB, p99, us            213.0       106.5       426.0
random read, 32 at a time, p50, us       110.0        55.0       220.0
random read, 32 at a time, p99, us       330.0       165.0       660.0
sync after 4 KiB, p50, us               1200.0       600.0      2400.0
sync after 4 KiB, p99, us               3600.0      1800.0      7200.0

[tiers.profile]
read_bytes_per_second = 3500000000
write_bytes_per_second = 2100000000
read_latency_us = 71
queued_read_latency_us = 110
sync_latency_us = 1200
price_per_gb = 0.6
endurance_writes = 781

A guess: of the known devices 960-pro resembles it most; figures differ 1.0 times on average.
";
        assert_eq!(text, wanted);
    }

    #[test]
    fn figures_of_memory_give_no_profile() {
        for (medium, part) in [
            (Medium::PageCache, "THE PAGE CACHE WAS IN THE WAY: ext4 has"),
            (Medium::Memory, "ext4 KEEPS ITS FILES IN MEMORY"),
        ] {
            let outcome = outcome(medium);
            let text = as_text(Path::new("/mnt"), &outcome);
            assert!(
                text.contains(part) && text.contains("those of memory"),
                "{text}"
            );
            assert!(
                !text.contains("[tiers.profile]") && !text.contains("guess"),
                "{text}"
            );
            let json = as_json(Path::new("/mnt"), &outcome);
            assert_eq!(json["profile"], Value::Null);
            assert_eq!(json["guessed_preset"], Value::Null);
            assert!(json["caveat"].as_str().unwrap().contains(part), "{json}");
        }
    }

    #[test]
    fn json_names_its_units() {
        let json = as_json(Path::new("/mnt"), &outcome(Medium::Device));
        assert_eq!(json["profile"]["queued_read_latency_us"], 110.0);
        assert_eq!(json["write_bytes_per_second"]["min"], 1050e6);
        assert_eq!(json["sync_latency_p99_us"]["max"], 7200.0);
        assert_eq!(
            (&json["read_requests"], &json["path"]),
            (&json!(1000), &json!("/mnt"))
        );
        assert_eq!(
            (&json["medium"], &json["caveat"]),
            (&json!("device"), &Value::Null)
        );
        assert_eq!(json["guessed_preset"], "960-pro");
    }
}
