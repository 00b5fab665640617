//! Contents of simulated tables: spans of writes over ranges of keys.
//!
//! A key is a place between 0 and the largest number of 64 bits. It is written as its eight bytes,
//! so that ranges are those of real tables. Records are everywhere equally dense.

use terrace_lsm::levels::KeyRange;

use super::load::{Load, Span};

/// The last versions among the writes of a span.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Content {
    pub(crate) span: Span,
    /// Write up to which tombstones are gone, and with them the versions that they deleted.
    pub(crate) purged_to: f64,
}

impl Content {
    /// Returns the content that a flush leaves.
    pub(crate) fn flushed(span: Span) -> Content {
        Content {
            span,
            purged_to: span.from,
        }
    }

    /// Returns the newest versions of both, which are neighbours in time.
    pub(crate) fn with(self, other: Content) -> Content {
        let older = if self.span.from <= other.span.from {
            self
        } else {
            other
        };
        Content {
            span: self.span.with(other.span),
            purged_to: older.purged_to,
        }
    }

    /// Returns it as a merge writes it that knows of nothing older: without tombstones.
    pub(crate) fn purged(self) -> Content {
        Content {
            purged_to: self.span.to,
            ..self
        }
    }

    /// Returns the number of its versions, over all keys.
    pub(crate) fn entries(self, load: &Load) -> f64 {
        let purged = load.tombstones(self.span) - load.tombstones(self.unpurged());
        load.distinct_keys(self.span) - purged
    }

    /// Returns the number of those that are tombstones.
    pub(crate) fn tombstones(self, load: &Load) -> f64 {
        load.tombstones(self.unpurged())
    }

    fn unpurged(self) -> Span {
        Span {
            from: self.purged_to.max(self.span.from),
            to: self.span.to,
        }
    }
}

/// Keys from one place up to another, which is excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Keys {
    pub(crate) const ALL: Keys = Keys {
        from: 0,
        to: u64::MAX,
    };

    pub(crate) fn share(self) -> f64 {
        self.to.saturating_sub(self.from) as f64 / u64::MAX as f64
    }

    pub(crate) fn of(range: &KeyRange) -> Keys {
        Keys {
            from: place_of(&range.smallest),
            to: place_of(&range.largest),
        }
    }

    /// Returns the range of a table that holds them.
    pub(crate) fn range(self) -> KeyRange {
        KeyRange {
            smallest: key_at(self.from),
            largest: key_at(self.to),
            largest_excluded: true,
        }
    }

    /// Returns those between two keys; `None` is no limit.
    pub(crate) fn within(self, from: Option<&[u8]>, to: Option<&[u8]>) -> Option<Keys> {
        let keys = Keys {
            from: self.from.max(from.map_or(0, place_of)),
            to: self.to.min(to.map_or(u64::MAX, place_of)),
        };
        (keys.from < keys.to).then_some(keys)
    }

    /// Returns the place at a share of them.
    pub(crate) fn at(self, share: f64) -> u64 {
        let width = self.to.saturating_sub(self.from);
        let offset = (width as f64 * share.clamp(0.0, 1.0)) as u64;
        self.from.saturating_add(offset.min(width))
    }
}

pub(crate) fn key_at(place: u64) -> Vec<u8> {
    place.to_be_bytes().to_vec()
}

fn place_of(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    for (byte, of_key) in bytes.iter_mut().zip(key) {
        *byte = *of_key;
    }
    u64::from_be_bytes(bytes)
}

/// Contents that are the same for all of some keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Piece {
    pub(crate) keys: Keys,
    pub(crate) content: Content,
}

/// Lays pieces over one another, in the order of keys: where several have the same keys, their
/// newest versions stay.
pub(crate) fn overlaid(mut pieces: Vec<Piece>) -> Vec<Piece> {
    pieces.sort_by_key(|piece| piece.keys.from);
    let ends = pieces.iter().map(|piece| piece.keys.to);
    let mut bounds: Vec<u64> = pieces
        .iter()
        .map(|piece| piece.keys.from)
        .chain(ends)
        .collect();
    bounds.sort_unstable();
    bounds.dedup();
    let mut coming = pieces.into_iter().peekable();
    let mut open: Vec<Piece> = Vec::new();
    let mut laid: Vec<Piece> = Vec::new();
    for pair in bounds.windows(2) {
        let &[from, to] = pair else { break };
        open.retain(|piece| piece.keys.to > from);
        while let Some(piece) = coming.next_if(|piece| piece.keys.from <= from) {
            open.push(piece);
        }
        let contents = open.iter().map(|piece| piece.content);
        let Some(content) = contents.reduce(Content::with) else {
            continue;
        };
        match laid.last_mut() {
            Some(last) if last.content == content && last.keys.to == from => last.keys.to = to,
            _ => laid.push(Piece {
                keys: Keys { from, to },
                content,
            }),
        }
    }
    laid
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::description::Simulation;

    fn piece(keys: (u64, u64), span: (f64, f64)) -> Piece {
        Piece {
            keys: Keys {
                from: keys.0,
                to: keys.1,
            },
            content: Content::flushed(Span {
                from: span.0,
                to: span.1,
            }),
        }
    }

    #[test]
    fn pieces_are_laid_over_one_another_without_gaps_and_doubles() {
        let pieces = vec![
            piece((10, 30), (5.0, 9.0)),
            piece((0, 20), (0.0, 5.0)),
            piece((20, 25), (0.0, 5.0)),
            piece((40, 50), (2.0, 5.0)),
        ];
        assert_eq!(
            overlaid(pieces),
            [
                piece((0, 10), (0.0, 5.0)),
                piece((10, 25), (0.0, 9.0)),
                piece((25, 30), (5.0, 9.0)),
                piece((40, 50), (2.0, 5.0)),
            ]
        );
    }

    #[test]
    fn tombstones_go_where_nothing_is_older() {
        let load = Load::of(&Simulation {
            keys: 1000,
            writes: 10_000,
            delete_share: 0.2,
            ..Simulation::default()
        });
        let flushed = |from, to| Content::flushed(Span { from, to });
        let (old, young) = (flushed(0.0, 4000.0), flushed(4000.0, 4500.0));
        assert!((old.tombstones(&load) / old.entries(&load) - 0.2).abs() < 1e-9);
        let base = old.purged();
        assert_eq!(base.tombstones(&load), 0.0);
        assert!((base.entries(&load) / old.entries(&load) - 0.8).abs() < 1e-9);
        // Before they are merged, the young ones are still there, and versions that the old ones
        // hid are not.
        let both = base.with(young);
        assert_eq!(both.tombstones(&load), young.tombstones(&load));
        assert!(both.entries(&load) > both.purged().entries(&load));
        assert!(both.entries(&load) < old.with(young).entries(&load));
    }

    #[test]
    fn keys_are_cut_where_a_slice_ends() {
        let keys = Keys { from: 100, to: 200 };
        assert_eq!(Keys::of(&keys.range()), keys);
        assert_eq!((keys.at(0.5), keys.at(7.0)), (150, 200));
        let cut = keys.within(Some(&key_at(50)), Some(&key_at(150)));
        assert_eq!(cut, Some(Keys { from: 100, to: 150 }));
        assert_eq!(keys.within(Some(&key_at(200)), None), None);
        assert_eq!(Keys::ALL.share(), 1.0);
    }
}
