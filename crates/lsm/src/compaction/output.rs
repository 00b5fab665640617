//! The form in which new tables are written: a pure function of their keyspace, its levels and their
//! place. Flushes, compactions, ingestions and repairs ask it, and so does a policy that would move a
//! table as it is.

use crate::keyspace_options::KeyspaceOptions;
use crate::levels::{FilterMemory, KeyspaceLevels, LEVELS, Place};
use crate::table::{Compression, FilterForm, FilterKind};

/// The place and the form of new tables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Output {
    /// Level, sub-level and age.
    pub place: Place,
    /// Compression of the blocks.
    pub compression: Compression,
    /// Kind and memory of the filters.
    pub filter: FilterForm,
}

impl Output {
    /// Returns the form of tables among the levels of their keyspace. A flush brings about
    /// `flush_bytes` into level 0.
    pub fn among(
        levels: &KeyspaceLevels,
        options: &KeyspaceOptions,
        flush_bytes: u64,
        place: Place,
    ) -> Output {
        let memory = FilterMemory {
            bits_per_key: f64::from(options.filter_bits_per_key),
            level_ratio: options.level_ratio,
            flush_bytes,
        };
        Output {
            filter: memory.form_at(levels, place),
            ..Output::alone(options, place)
        }
    }

    /// Returns the form of tables whose keyspace is unknown but for its options: their filters have the
    /// average memory.
    pub fn alone(options: &KeyspaceOptions, place: Place) -> Output {
        Output {
            place,
            compression: options.compression_of(usize::from(place.level)),
            filter: FilterForm {
                kind: FilterKind::Fuse,
                bits_per_key: f64::from(options.filter_bits_per_key),
            },
        }
    }
}

/// Returns for each level whether tables of the level above may be moved there as they are. Filters may
/// differ: a move keeps the better ones.
pub fn takes_tables_as_they_are(options: &KeyspaceOptions) -> Vec<bool> {
    let compression = |level| options.compression_of(level);
    let is_same = |level: usize| {
        compression(level) == compression(level - 1)
            && options.tier_of(level) == options.tier_of(level - 1)
    };
    (0..LEVELS)
        .map(|level| level > 0 && is_same(level))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels::testing::{added, flush_place, levels, version};

    fn options() -> KeyspaceOptions {
        KeyspaceOptions {
            compression: vec![Compression::None, Compression::None, Compression::Lz4],
            ..KeyspaceOptions::default()
        }
    }

    #[test]
    fn a_level_has_its_own_compression() {
        let compressions = [0, 1, 2, 6].map(|level| {
            let place = Place::base(level);
            Output::alone(&options(), place).compression
        });
        let [none, lz4] = [Compression::None, Compression::Lz4];
        assert_eq!(compressions, [none, none, lz4, lz4]);
    }

    #[test]
    fn a_table_moves_where_the_compression_stays() {
        let moves = takes_tables_as_they_are(&options());
        assert_eq!(moves, [false, true, false, true, true, true, true]);
    }

    #[test]
    fn a_table_stays_where_the_next_level_has_another_tier() {
        let options = KeyspaceOptions {
            level_tiers: vec!["a".into(), "a".into(), "b".into()],
            compression: vec![Compression::None],
            ..KeyspaceOptions::default()
        };
        let moves = takes_tables_as_they_are(&options);
        assert_eq!(moves, [false, true, false, true, true, true, true]);
    }

    #[test]
    fn levels_decide_on_the_filter_alone() {
        let version = version(vec![added(flush_place(1), 1, "a", "z")]);
        let place = Place::base(6);
        let alone = Output::alone(&options(), place);
        let among = Output::among(levels(&version), &options(), 1 << 20, place);
        assert_ne!(among.filter, alone.filter);
        let filter = alone.filter;
        assert_eq!(Output { filter, ..among }, alone);
    }
}
