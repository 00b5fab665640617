//! A store that keeps nothing: the cost of a run on it is the harness's own.

use std::path::Path;
use std::time::Instant;

use crate::Result;
use crate::settings::Settings;
use crate::store::{Contestant, Direction, Opened, Store};

/// Acknowledges every write and finds nothing.
pub const NOTHING: Contestant = Contestant {
    name: "nothing",
    about: "keeps nothing and finds nothing: the harness's own cost",
    open,
};

struct Nothing;

fn open(_: &Path, _: &Settings) -> Result<Opened> {
    Ok(Opened {
        store: Box::new(Nothing),
        durability: "nothing is kept".into(),
        settings: Vec::new(),
    })
}

impl Store for Nothing {
    fn put(&self, _: &[u8], _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn delete(&self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn get(&self, _: &[u8], _: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(false)
    }

    fn scan(
        &self,
        _: Option<&[u8]>,
        _: u64,
        _: Direction,
        _: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        Ok(())
    }

    fn settle(&self) -> Result<Instant> {
        Ok(Instant::now())
    }
}
