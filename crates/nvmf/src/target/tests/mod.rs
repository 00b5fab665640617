//! Tests of the target by raw bytes.

mod admission;
mod bring_up;
mod commands;
mod damage;
mod memory;
mod order;
mod pdus;
mod random;
mod reconnection;
mod statistics;
mod transfer;
mod world;
