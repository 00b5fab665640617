//! The shape of a LevelDB tree, read from its properties: it has no call that waits for compactions,
//! and none that tells whether one runs.

/// Files in the first level at which LevelDB merges it (`config::kL0_CompactionTrigger`).
pub const FIRST_LEVEL_TRIGGER: u64 = 4;
/// Files in the first level at which LevelDB slows writers down (`config::kL0_SlowdownWritesTrigger`).
pub const FIRST_LEVEL_SLOWDOWN: u64 = 8;
/// The last level is never merged.
const LEVELS: usize = 7;
const SECOND_LEVEL_BYTES: u64 = 10 << 20;

/// Files and bytes of each level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape([Level; LEVELS]);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Level {
    files: u64,
    bytes: u64,
}

impl Shape {
    /// From the property `leveldb.sstables`: `--- level 0 ---`, then lines ` number:bytes[...]`.
    pub fn parse(sstables: &str) -> Shape {
        let mut shape = Shape::default();
        let mut current = None;
        for line in sstables.lines() {
            if let Some(rest) = line.strip_prefix("--- level ") {
                let number = rest.split(' ').next().and_then(|n| n.parse::<usize>().ok());
                current = number.filter(|number| *number < LEVELS);
            } else if let (Some(level), Some(bytes)) = (current, bytes_of(line))
                && let Some(level) = shape.0.get_mut(level)
            {
                level.files += 1;
                level.bytes += bytes;
            }
        }
        shape
    }

    /// Whether LevelDB's rule (`VersionSet::Finalize`) says that a level must be merged. Its only
    /// thread then does so, or is about to.
    pub fn compaction_is_due(&self) -> bool {
        let [first, deeper @ .., _last] = &self.0;
        let mut most_bytes = SECOND_LEVEL_BYTES;
        let over = deeper.iter().any(|level| {
            let over = level.bytes >= most_bytes;
            most_bytes = most_bytes.saturating_mul(10);
            over
        });
        over || first.files >= FIRST_LEVEL_TRIGGER
    }
}

fn bytes_of(line: &str) -> Option<u64> {
    let (_, rest) = line.strip_prefix(' ')?.split_once(':')?;
    rest.split_once('[')?.0.trim().parse().ok()
}

/// MB that LevelDB says it wrote to the first level, and to all others: the last column of the
/// property `leveldb.stats`. Flushes mostly write to the first, compactions to the others.
pub fn written(stats: &str) -> (u64, u64) {
    let (mut first, mut others) = (0, 0);
    for line in stats.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [level, _files, _size, _time, _read, written] = fields[..] else {
            continue;
        };
        match (level.parse::<usize>(), written.parse::<u64>()) {
            (Ok(0), Ok(written)) => first += written,
            (Ok(_), Ok(written)) => others += written,
            _ => {}
        }
    }
    (first, others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_due_by_files_or_bytes() {
        let few = "--- level 0 ---\n 7:100['a' @ 1 : 1 .. 'b:[' @ 2 : 1]\n--- level 1 ---\n";
        assert_eq!(
            Shape::parse(few).0[0],
            Level {
                files: 1,
                bytes: 100
            }
        );
        assert!(!Shape::parse(few).compaction_is_due());

        let many = "--- level 0 ---\n".to_string() + &" 7:100['a' .. 'b']\n".repeat(4);
        assert!(Shape::parse(&many).compaction_is_due());

        let large = "--- level 0 ---\n--- level 1 ---\n 9:10485760['a' .. 'b']\n";
        assert!(Shape::parse(large).compaction_is_due());
        let larger_below = "--- level 2 ---\n 9:10485760['a' .. 'b']\n";
        assert!(!Shape::parse(larger_below).compaction_is_due());
        let last = "--- level 6 ---\n 9:99999999999999['a' .. 'b']\n";
        assert!(!Shape::parse(last).compaction_is_due());
    }

    #[test]
    fn written_megabytes_are_the_last_column() {
        let stats = "                               Compactions\n\
            Level  Files Size(MB) Time(sec) Read(MB) Write(MB)\n\
            --------------------------------------------------\n\
            \u{20} 0        2       12         1        0        24\n\
            \u{20} 1        5       10         2       40        39\n\
            \u{20} 2        5       10         2       40        2\n";
        assert_eq!(written(stats), (24, 41));
    }
}
