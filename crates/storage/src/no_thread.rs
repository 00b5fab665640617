//! Why a thread cannot be made: the system's answer, and the limits that it may have met.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use crate::Escaped;

/// A thread that the system refused.
///
/// Its text names `RLIMIT_NPROC` and the control group's `pids.max`, with their values where these
/// can be read.
#[derive(Debug)]
pub struct NoThread {
    name: String,
    limits: Limits,
    source: io::Error,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Limits {
    user: Option<u64>,
    group: Option<Group>,
}

/// The pids of a control group.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    max: u64,
    current: Option<u64>,
}

impl NoThread {
    /// Takes the system's answer to the start of a thread, and reads the limits.
    pub fn new(name: &str, source: io::Error) -> Self {
        NoThread {
            name: name.to_owned(),
            limits: Limits::read(),
            source,
        }
    }
}

impl fmt::Display for NoThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Escaped::name(&self.name);
        write!(f, "{name}: {}; see RLIMIT_NPROC (`ulimit -u`)", self.source)?;
        if let Some(user) = self.limits.user {
            write!(f, ", which is {user},")?;
        }
        f.write_str(" and the control group's pids.max")?;
        if let Some(Group { max, current }) = self.limits.group {
            write!(f, ", which is {max}")?;
            if let Some(current) = current {
                write!(f, " with {current} in use")?;
            }
        }
        f.write_str("; raise the one that is reached, or end other threads")
    }
}

impl std::error::Error for NoThread {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl From<NoThread> for io::Error {
    fn from(error: NoThread) -> Self {
        io::Error::new(error.source.kind(), error)
    }
}

impl Limits {
    fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Limits {
            user: user_limit(&text("/proc/self/limits")),
            group: group(&text("/proc/self/cgroup"), Path::new("/sys/fs/cgroup")),
        }
    }
}

/// Returns the soft limit on processes in `/proc/self/limits`; `None` if there is no limit.
fn user_limit(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Max processes"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the tightest group with a limit, among the process's own (`text` is `/proc/self/cgroup`)
/// and those that contain it.
fn group(text: &str, mount: &Path) -> Option<Group> {
    let mut parts = text.lines().map(|line| line.splitn(3, ':'));
    let (mount, path) = parts.find_map(|mut parts| {
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        match controllers {
            "" => Some((mount.to_path_buf(), path)),
            "pids" => Some((mount.join("pids"), path)),
            _ => None,
        }
    })?;
    let groups = Path::new(path.trim_start_matches('/')).ancestors();
    let number = |file: &Path| fs::read_to_string(file).ok()?.trim().parse().ok();
    let limited = groups.filter_map(|group| {
        let group = mount.join(group);
        Some(Group {
            max: number(&group.join("pids.max"))?,
            current: number(&group.join("pids.current")),
        })
    });
    limited.min_by_key(|group| group.max.saturating_sub(group.current.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(limits: Limits) -> String {
        let error = NoThread {
            name: "terrace-flush".into(),
            limits,
            source: io::Error::other("no"),
        };
        error.to_string()
    }

    #[test]
    fn a_refusal_names_both_limits_and_the_values_that_are_known() {
        assert_eq!(
            told(Limits::default()),
            "terrace-flush: no; see RLIMIT_NPROC (`ulimit -u`) and the control group's pids.max; \
             raise the one that is reached, or end other threads"
        );
        let known = told(Limits {
            user: Some(7),
            group: Some(Group {
                max: 9,
                current: Some(8),
            }),
        });
        assert!(known.contains("`ulimit -u`), which is 7, and"), "{known}");
        assert!(
            known.contains("pids.max, which is 9 with 8 in use;"),
            "{known}"
        );
    }

    #[test]
    fn limits_are_read_from_the_texts_of_the_system() {
        let limits = "Limit   Soft Limit  Hard Limit  Units\nMax processes  41  99  processes\n";
        assert_eq!(user_limit(limits), Some(41));
        assert_eq!(
            user_limit("Max processes  unlimited  unlimited  processes\n"),
            None
        );
        assert_eq!(user_limit(""), None);

        let mount = tempfile::tempdir().unwrap();
        let inner = mount.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        assert_eq!(group("0::/a/b\n", mount.path()), None);
        fs::write(inner.join("pids.max"), "max\n").unwrap();
        fs::write(mount.path().join("a/pids.max"), "30\n").unwrap();
        fs::write(mount.path().join("a/pids.current"), "29\n").unwrap();
        let of_parent = Group {
            max: 30,
            current: Some(29),
        };
        assert_eq!(group("0::/a/b\n", mount.path()), Some(of_parent));
        let old = mount.path().join("pids/c");
        fs::create_dir_all(&old).unwrap();
        fs::write(old.join("pids.max"), "5\n").unwrap();
        let of_own = Group {
            max: 5,
            current: None,
        };
        assert_eq!(group("4:cpu:/c\n3:pids:/c\n", mount.path()), Some(of_own));
        assert_eq!(group("", mount.path()), None);
    }
}
