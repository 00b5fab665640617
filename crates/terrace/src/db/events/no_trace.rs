//! Without the feature `tracing` events go to listeners and statistics alone.

use std::path::Path;

use crate::db::recover::Recovery;
use crate::event::Event;
use crate::{Durability, Error};

pub(super) fn event(_: &Event) {}

pub(crate) fn opened(_: &Path, _: Durability, _: &Recovery) {}

pub(crate) fn poisoned(_: &Path, _: &Error) {}
