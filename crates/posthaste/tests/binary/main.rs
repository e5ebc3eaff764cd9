//! The shipped thing, as its users run it: the real binary in a folder of its own, killed and started again.

mod commands;
mod crash;
mod dev;
mod mistakes;
mod node;
mod replays;
mod roles;
mod start;
