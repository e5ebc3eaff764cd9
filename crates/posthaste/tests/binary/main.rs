//! The shipped thing, as its users run it: the real binary in a folder of its own, killed and started again.

mod audit;
mod being_told;
mod bench;
mod commands;
mod crash;
mod dashboard;
mod defaults;
mod demo;
mod dev;
mod doctor;
mod erasure;
mod keys;
mod loops;
mod mistakes;
mod node;
mod order;
mod replays;
mod roles;
mod seeing;
mod start;
mod stream;
mod traps;
mod way_out;
