//! Rule files to a policy: read, parsed, lowered, compiled.
//!
//! In: paths or kept texts, and how to read them. Out: a [`Loaded`] with the syntax trees, the
//! policy and every message. Messages go to standard error as soon as they are known; the exit code
//! tells wrong input (2) from constructs that can't be honoured (3).

mod hosts;
mod message;
mod read;

pub use hosts::Hosts;
pub use message::{Message, messages};
pub use read::{FileArgs, ReadingArgs, read_files};

use crate::exit::{Exit, failure};
use crate::explain::Texts;
use crate::progress::Progress;
use crate::rules::Places;
use crate::state::SavedSource;
use std::path::PathBuf;
use weir_engine::compile::{Compiled, Options, compile};
use weir_policy::dialect::{self, Dialect, family_of, ipset, iptables};
use weir_policy::model::{Family, Policy, RuleId, SourceId};
use weir_policy::syntax::diag::{Colour, UNSUPPORTED, render};
use weir_policy::syntax::{Diagnostic, Severity, Sources};

/// A text after parsing.
pub enum Parsed {
    /// Rules.
    Rules(iptables::File),
    /// Sets.
    Sets(ipset::File),
}

/// Rule files after reading.
pub struct Loaded {
    /// The texts, for showing places.
    pub sources: Sources,
    /// The syntax trees, in the order of the files.
    pub parsed: Vec<(SourceId, Parsed)>,
    /// All messages, in the order of the files.
    pub diagnostics: Vec<Diagnostic>,
    /// The addresses that host names had.
    pub hosts: Vec<(String, Vec<std::net::IpAddr>)>,
    policy: Option<Policy>,
}
