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

/// Reads, parses and lowers files, and prints their messages. Wrong input is not yet an error.
pub fn read_and_lower(args: &FileArgs) -> anyhow::Result<Loaded> {
    let texts = read_files(&args.files)?;
    let mut loaded = parse(&texts, args.reading.dialect.as_deref())?;
    loaded.lower(&Hosts::asking(), args.reading.allow_unsupported);
    loaded.tell(Severity::Note);
    Ok(loaded)
}

/// Reads, parses and lowers files; wrong input is an error.
pub fn load_files(paths: &[PathBuf], reading: &ReadingArgs) -> anyhow::Result<Loaded> {
    let args = FileArgs {
        files: paths.to_vec(),
        reading: reading.clone(),
    };
    let loaded = read_and_lower(&args)?;
    loaded.policy()?;
    Ok(loaded)
}

/// Reads and parses files without lowering them; wrong lines are an error.
pub fn read_and_parse(paths: &[PathBuf], reading: &ReadingArgs) -> anyhow::Result<Loaded> {
    let texts = read_files(paths)?;
    let loaded = parse(&texts, reading.dialect.as_deref())?;
    loaded.tell(Severity::Warning);
    loaded.check_errors()?;
    Ok(loaded)
}

/// Parses the kept texts of a policy.
pub fn parse_saved(saved: &crate::state::Saved) -> anyhow::Result<Loaded> {
    let loaded = parse(&saved.sources, None)?;
    loaded.check_errors()?;
    Ok(loaded)
}

/// Parses and lowers the kept texts of a policy as they were when it was applied.
pub fn load_saved(saved: &crate::state::Saved) -> anyhow::Result<Loaded> {
    let mut loaded = parse(&saved.sources, None)?;
    loaded.lower(&Hosts::known(&saved.hosts), saved.allow_unsupported);
    loaded.policy()?;
    Ok(loaded)
}

/// Parses and lowers texts; wrong input is an error.
pub fn load_texts(texts: &[SavedSource], reading: &ReadingArgs) -> anyhow::Result<Loaded> {
    let mut loaded = parse(texts, reading.dialect.as_deref())?;
    loaded.lower(&Hosts::asking(), reading.allow_unsupported);
    loaded.tell(Severity::Note);
    loaded.policy()?;
    Ok(loaded)
}
