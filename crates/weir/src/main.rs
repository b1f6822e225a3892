//! `weir`: check, explain, replay and enforce rule files.
#![forbid(unsafe_code)]
mod capture;
mod describe;
mod exit;
mod explain;
mod netns;
mod output;
mod progress;
mod rules;
mod spec;
mod state;
fn main() {}
