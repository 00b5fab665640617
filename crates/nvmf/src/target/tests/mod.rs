//! Tests of the target by raw bytes.

mod bring_up;
mod commands;
mod damage;
mod memory;
mod order;
mod pdus;
mod random;
mod transfer;
mod world;
