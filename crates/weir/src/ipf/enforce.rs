//! IPFilter rules for the kernel: lowered to the rule model like any other language.
//!
//! In: texts. Out: their policy with all messages. What remembers packets is refused by name; see
//! `weir_policy::dialect::ipf::lower`.

use super::check::reading_of;
use super::files::Rules;
use crate::input::ReadingArgs;
use crate::state::SavedSource;
use weir_policy::dialect::ipf::Language;
use weir_policy::dialect::ipf::lower::{LowerOptions, lower};
use weir_policy::model::Policy;
use weir_policy::syntax::{Diagnostic, Sources};

/// Rules after lowering.
pub struct Lowered {
    /// The texts.
    pub sources: Sources,
    /// All messages.
    pub diagnostics: Vec<Diagnostic>,
    /// The policy, if nothing was wrong.
    pub policy: Option<Policy>,
}

/// Reads and lowers texts.
pub fn lower_texts(texts: &[SavedSource], args: &ReadingArgs) -> Lowered {
    let mut rules = Rules::of_texts(texts, &reading_of(args));
    rules.refuse_translations();
    let unused: Vec<Diagnostic> = rules
        .settings()
        .map(|setting| {
            let message = format!("`set {}` is not used by the kernel's side", setting.name);
            let found = Diagnostic::warning("setting-unused", setting.at.0, message);
            found.help("`weir ipftest` and `weir explain` use it")
        })
        .collect();
    rules.diagnostics.extend(unused);
    let mut policy = None;
    if !rules.diagnostics.iter().any(Diagnostic::is_error) {
        let options = LowerOptions {
            exact_headers: rules.file.language == Language::Hpux,
            ..LowerOptions::default()
        };
        let (made, found) = lower(&rules.set, &rules.tables, &rules.sources, options);
        rules.diagnostics.extend(found);
        policy = made;
    }
    rules
        .diagnostics
        .sort_by_key(|found| (found.span.source, found.span.start));
    Lowered {
        sources: rules.sources,
        diagnostics: rules.diagnostics,
        policy,
    }
}
