//! A controller for tests, which fails on demand.

pub mod pdus;
pub mod peer;
pub mod script;
