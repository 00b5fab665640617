//! Transactions of several threads: histories without anomalies, sums that stay, models.

mod bank;
mod histories;
mod history;
mod model;
mod refusals;
#[path = "../support/mod.rs"]
mod support;
