//! The two files of `weir bench classify`, read and told about.
//!
//! In: paths. Out: filters and packets; or all messages on standard error and a failure: status 2
//! for lines that can't be read, 3 when all that is wrong is a field that weir does not have.

use crate::bench::filter::{FilterSet, Flags, Trace};
use crate::bench::read::{self, Messages};
use crate::exit::{Exit, failure};
use crate::input::{self, told};
use crate::output::count;
use std::path::{Path, PathBuf};
use weir_policy::model::SourceId;
use weir_policy::syntax::Sources;

/// Reads filters and packets.
pub fn read(rules: &Path, trace: &Path, flags: Flags) -> anyhow::Result<(FilterSet, Trace)> {
    let set = one(rules, |text, source| {
        let set = read::rules::parse(text, source)?;
        match flags {
            Flags::Ignored => Ok(set),
            Flags::Matched => read::flags::check(&set, text, source).map(|()| set),
        }
    })?;
    let trace = one(trace, |text, source| {
        read::trace::parse(text, source, set.version, set.filters.len())
    })?;
    Ok((set, trace))
}

fn one<T>(
    path: &Path,
    parse: impl FnOnce(&str, SourceId) -> Result<T, Messages>,
) -> anyhow::Result<T> {
    let mut texts = input::read_files(&[PathBuf::from(path)])?;
    let text = texts.swap_remove(0);
    if u32::try_from(text.text.len()).is_err() {
        let message = format!("{}: larger than 4 GiB", text.name);
        return Err(failure(Exit::Usage, message));
    }
    match parse(&text.text, SourceId(0)) {
        Ok(value) => Ok(value),
        Err(messages) => {
            let mut sources = Sources::new();
            sources.add(text.name.as_str(), text.text.as_str());
            Err(tell(&messages, &sources, &text.name))
        }
    }
}

fn tell(messages: &Messages, sources: &Sources, name: &str) -> anyhow::Error {
    told::show(&messages.kept, sources);
    let more = messages.count - messages.kept.len();
    if more > 0 {
        eprintln!("... and {more} more");
    }
    let exit = match told::only_unsupported(&messages.kept) {
        true => Exit::Unsupported,
        false => Exit::Usage,
    };
    let lines = count(messages.count as u64, "error", "errors");
    failure(exit, format!("{name}: {lines}"))
}
