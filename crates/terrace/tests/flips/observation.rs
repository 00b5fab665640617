//! Everything that a store answers, errors included.

use std::collections::{BTreeMap, BTreeSet};

use terrace::{Db, Error, IterOptions};

pub type Content = BTreeMap<Vec<u8>, Vec<u8>>;
/// A store's answer for a key.
type Got = terrace::Result<Option<Vec<u8>>>;

/// Everything that a store answers.
pub struct Observation {
    gets: Vec<(Vec<u8>, Got)>,
    forward: Scan,
    backward: Scan,
}

/// The entries up to the end or the first error.
struct Scan {
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    error: Option<Error>,
}

impl Scan {
    fn of(entries: impl Iterator<Item = terrace::Result<(Vec<u8>, Vec<u8>)>>) -> Scan {
        let mut scan = Scan {
            entries: Vec::new(),
            error: None,
        };
        for entry in entries {
            match entry {
                Ok(entry) => scan.entries.push(entry),
                Err(error) => {
                    scan.error = Some(error);
                    break;
                }
            }
        }
        scan
    }

    fn agrees<'a>(&self, mut expected: impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)>) -> bool {
        let same = self
            .entries
            .iter()
            .all(|(key, value)| expected.next() == Some((key, value)));
        same && (self.error.is_some() || expected.next().is_none())
    }
}

impl Observation {
    pub fn of(db: &Db, keys: &BTreeSet<Vec<u8>>) -> Observation {
        let get = |key: &Vec<u8>| {
            let value = db.get(key).map(|value| value.map(|value| value.to_vec()));
            (key.clone(), value)
        };
        let iterator = || db.iter(IterOptions::default()).unwrap();
        Observation {
            gets: keys.iter().map(get).collect(),
            forward: Scan::of(iterator().entries()),
            backward: Scan::of(iterator().entries().rev()),
        }
    }

    /// Returns whether every answer but the errors agrees with `state`.
    pub fn agrees(&self, state: &Content) -> bool {
        let mut gets = self.gets.iter();
        gets.all(|(key, got)| {
            got.as_ref()
                .map_or(true, |value| value.as_ref() == state.get(key))
        }) && self.forward.agrees(state.iter())
            && self.backward.agrees(state.iter().rev())
    }

    pub fn first_error(&self) -> Option<Error> {
        let gets = self.gets.iter().filter_map(|(_, got)| got.as_ref().err());
        gets.chain(&self.forward.error)
            .chain(&self.backward.error)
            .next()
            .cloned()
    }

    pub fn difference(&self, state: &Content) -> String {
        let wrong = self.gets.iter().find(|(key, got)| {
            got.as_ref()
                .is_ok_and(|value| value.as_ref() != state.get(key))
        });
        match wrong {
            Some((key, got)) => format!("{} reads {got:?}", key.escape_ascii()),
            None => "the iterator differs from the gets".to_owned(),
        }
    }
}
