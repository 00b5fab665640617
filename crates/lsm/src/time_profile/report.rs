//! The report of where time went.

use std::fmt;
use std::time::Duration;

use crate::things::things;

/// Where the time of operations went since the store was opened, by stages. A random draw chose
/// some operations, and each of their stages was timed. Times are those of all threads together.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = terrace::Db::open(directory.path().join("store"), terrace::Options::default())?;
/// let before = db.time_profile();
/// for number in 0..10_000u32 {
///     db.put(&number.to_be_bytes(), b"value")?;
/// }
/// let profile = db.time_profile().since(&before);
/// let writes = profile.path("write").unwrap();
/// assert!(writes.watched > 0 && !writes.stages.is_empty());
/// println!("{profile}");
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct TimeProfile {
    /// `write`, `get`, `seek` and `step` of iterators, `flush`, `merge` (a slice of one): always
    /// all of them.
    pub paths: Vec<PathProfile>,
}

/// The operations of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct PathProfile {
    /// Its name.
    pub path: String,
    /// Of this many operations one was watched, on average.
    pub one_in: u32,
    /// How many were watched.
    pub watched: u64,
    /// How many there were, estimated by that. Where `one_in` is 1 it is exact.
    pub operations: u64,
    /// Time of all of them, estimated: the sum of the stages.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "seconds", with = "crate::serial::seconds")
    )]
    pub time: Duration,
    /// Stages that took time, in the order in which an operation comes to them, about. The time of
    /// one that is inside another counts for it alone.
    pub stages: Vec<StageProfile>,
}

/// A stage of operations.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct StageProfile {
    /// Its name.
    pub stage: String,
    /// Time of the stage in all operations, watched or not, estimated; `held back` and `persist` of
    /// writes are measured each time.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "seconds", with = "crate::serial::seconds")
    )]
    pub time: Duration,
    /// Of the time of all stages, from 0 to 1.
    pub share: f64,
}

impl TimeProfile {
    /// Returns the operations of one kind, by the name of [`PathProfile::path`].
    pub fn path(&self, name: &str) -> Option<&PathProfile> {
        self.paths.iter().find(|path| path.path == name)
    }

    /// Returns the times and counts after `earlier`, a profile of the same opening.
    #[must_use]
    pub fn since(&self, earlier: &TimeProfile) -> TimeProfile {
        let since = |path: &PathProfile| match earlier.path(&path.path) {
            Some(earlier) => path.since(earlier),
            None => path.clone(),
        };
        TimeProfile {
            paths: self.paths.iter().map(since).collect(),
        }
    }
}

impl PathProfile {
    /// Returns the time of a stage, by the name of [`StageProfile::stage`]; zero if it took none.
    pub fn time_of(&self, stage: &str) -> Duration {
        let found = self.stages.iter().find(|known| known.stage == stage);
        found.map_or(Duration::ZERO, |stage| stage.time)
    }

    /// Returns the time of one operation, on average.
    pub fn mean(&self) -> Duration {
        let mean = self.time.as_secs_f64() / self.operations.max(1) as f64;
        Duration::try_from_secs_f64(mean).unwrap_or_default()
    }

    fn since(&self, earlier: &PathProfile) -> PathProfile {
        let stages = self.stages.iter().map(|stage| StageProfile {
            time: stage.time.saturating_sub(earlier.time_of(&stage.stage)),
            ..stage.clone()
        });
        let mut since = PathProfile {
            watched: self.watched.saturating_sub(earlier.watched),
            operations: self.operations.saturating_sub(earlier.operations),
            stages: stages.filter(|stage| !stage.time.is_zero()).collect(),
            ..self.clone()
        };
        since.add_up();
        since
    }

    /// Makes the sum and the shares those of the stages.
    pub(super) fn add_up(&mut self) {
        self.time = self.stages.iter().map(|stage| stage.time).sum();
        let all = self.time.as_secs_f64().max(f64::MIN_POSITIVE);
        for stage in &mut self.stages {
            stage.share = stage.time.as_secs_f64() / all;
        }
    }
}

/// A table for each path that was taken, with a bar for each stage.
impl fmt::Display for TimeProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let taken = |path: &&PathProfile| path.operations > 0 || !path.stages.is_empty();
        let mut paths = self.paths.iter().filter(taken);
        let Some(first) = paths.next() else {
            return writeln!(f, "nothing was watched");
        };
        write!(f, "{first}")?;
        paths.try_for_each(|path| write!(f, "\n{path}"))
    }
}

/// A line for the path and one for each stage: share, bar, time, and time an operation.
impl fmt::Display for PathProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const WIDTH: usize = 32;
        let about = if self.one_in == 1 { "" } else { "about " };
        writeln!(
            f,
            "{}: {about}{}, {} in all, {} each",
            self.path,
            things(self.operations, "operation"),
            shown(self.time),
            shown(self.mean())
        )?;
        for stage in &self.stages {
            let each = stage.time.as_secs_f64() / self.operations.max(1) as f64;
            let each = Duration::try_from_secs_f64(each).unwrap_or_default();
            let cells = (stage.share * WIDTH as f64).round() as usize;
            writeln!(
                f,
                "  {:<24}{:>6.1} % ▕{:<WIDTH$}▏{:>10}{:>10} each",
                stage.stage,
                stage.share * 100.0,
                "█".repeat(cells.min(WIDTH)),
                shown(stage.time),
                shown(each)
            )?;
        }
        Ok(())
    }
}

/// Shows a time in the unit that leaves one to three digits before the point.
fn shown(time: Duration) -> String {
    let nanoseconds = time.as_nanos() as f64;
    let (unit, name) = match nanoseconds {
        below if below < 1e3 => (1.0, "ns"),
        below if below < 1e6 => (1e3, "us"),
        below if below < 1e9 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!("{:.1} {name}", nanoseconds / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(name: &str, milliseconds: u64) -> StageProfile {
        StageProfile {
            stage: name.to_owned(),
            time: Duration::from_millis(milliseconds),
            share: 0.0,
        }
    }

    fn profile(operations: u64, stages: Vec<StageProfile>) -> TimeProfile {
        let mut path = PathProfile {
            path: "get".to_owned(),
            one_in: 2,
            watched: operations / 2,
            operations,
            stages,
            ..PathProfile::default()
        };
        path.add_up();
        TimeProfile { paths: vec![path] }
    }

    #[test]
    fn what_came_after_is_the_difference() {
        let before = profile(10, vec![stage("a", 5), stage("b", 7)]);
        let after = profile(30, vec![stage("a", 8), stage("b", 7), stage("c", 1)]);
        let since = after.since(&before);
        let path = since.path("get").unwrap();
        assert_eq!((path.operations, path.watched), (20, 10));
        assert_eq!(path.time, Duration::from_millis(4));
        let stages = path.stages.iter();
        let stages: Vec<_> = stages.map(|s| (s.stage.as_str(), s.share)).collect();
        assert_eq!(stages, [("a", 0.75), ("c", 0.25)]);
        assert_eq!(path.mean(), Duration::from_micros(200));
        assert_eq!(after.since(&TimeProfile::default()), after);
    }

    #[test]
    fn a_profile_is_shown_as_tables_with_bars() {
        let shown = profile(30, vec![stage("index", 3), stage("block", 9)]).to_string();
        let expected = "\
get: about 30 operations, 12.0 ms in all, 400.0 us each
  index                     25.0 % ▕████████                        ▏    3.0 ms  100.0 us each
  block                     75.0 % ▕████████████████████████        ▏    9.0 ms  300.0 us each
";
        assert_eq!(shown, expected);
        let nothing = TimeProfile::default().to_string();
        assert_eq!(nothing, "nothing was watched\n");
    }

    #[test]
    fn a_profile_survives_json() {
        let profile = profile(30, vec![stage("index", 3), stage("block", 9)]);
        let text = serde_json::to_string(&profile).unwrap();
        assert!(text.contains("\"seconds\":0.012"), "{text}");
        assert_eq!(serde_json::from_str::<TimeProfile>(&text).unwrap(), profile);
    }
}
