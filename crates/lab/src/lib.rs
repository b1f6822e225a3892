//! The performance lab of weir: rule sets, traces, a live-frame injector, contenders, records.
//!
//! A measurement goes: [`rules`] and [`trace`] make text and headers from a seed; [`netns`] makes a
//! namespace per contender; [`contender`] loads each once; [`inject`] plays the trace into them
//! round-robin and takes thread CPU time; [`stats`] compares inside each round; [`record`] writes
//! what was measured, where. The lab knows weir only as a program to run beside its peers.
#![deny(unsafe_code)]

pub mod cmd;
pub mod contender;
pub mod hook;
pub mod inject;
pub mod interrupt;
pub mod machine;
pub mod measure;
pub mod memory;
pub mod netns;
pub mod programs;
pub mod record;
pub mod rules;
pub mod service;
pub mod space;
pub mod stats;
pub mod svg;
pub mod sys;
pub mod trace;
