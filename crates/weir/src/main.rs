//! x
#![allow(dead_code, unused_imports)]
mod agent; mod logtext;
mod capture;
mod describe;
mod exit;
mod explain;
mod nat;
mod netns;
mod output;
mod progress;
mod rules;
mod spec;
mod ssh;
mod state;
fn main() {}
