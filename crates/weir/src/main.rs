//! `weir`: check, explain, replay and enforce rule files.
#![forbid(unsafe_code)]
mod capture;
mod describe;
mod exit;
mod output;
mod progress;
mod spec;
fn main() {}
