//! The `ipfw` dialect: FreeBSD's ipfw, from 2.2.5 to today.
//!
//! In: lines of commands (the pathname form), single commands with their arguments, or listings
//! that ipfw printed. Out: a [`Ruleset`] that commands act on, and located messages. Parsing
//! ([`parse`]), printing ([`print`]) and carrying out ([`Ruleset::apply`]) are apart; what a rule
//! means is `crate::eval::ipfw`'s business.
//!
//! Original semantics: ipfw(8), dummynet(4) and the behaviour of FreeBSD 13's ipfw.

pub mod ast;
pub mod command;
mod fault;
mod file;
mod lint;
pub mod log;
pub mod lower;
pub mod names;
pub mod numbers;
mod parse;
pub mod print;
mod refuse;
mod ruleset;
mod settings;
pub mod shaping;
pub mod words;

pub use fault::{ExitClass, Fault, Notes};
pub use file::{Program, Step, looks_like, looks_like_script, read, read_line};
pub use parse::{Names, NoNames, command as parse_command};
pub use refuse::refusals;
pub use ruleset::{
    Answer, DEFAULT_RULE, DEFAULT_SET, Entry, Key, LoadedRule, Ruleset, Table, Value,
};
pub use settings::Settings;
