//! What the commands say of messages, whatever language the files are in.
//!
//! In: diagnostics. Out: them on standard error, their number in words, the error that ends a
//! command when some of them are errors.

use crate::exit::{Exit, failure};
use weir_policy::syntax::diag::{Colour, render};
use weir_policy::syntax::{Diagnostic, Severity, Sources};

/// Prints messages from a severity on to standard error.
pub fn tell(diagnostics: &[Diagnostic], sources: &Sources, least: Severity) {
    let shown = diagnostics.iter().filter(|found| found.severity >= least);
    let shown: Vec<Diagnostic> = shown.cloned().collect();
    if shown.is_empty() {
        return;
    }
    let colour = match crate::output::stderr_colours() {
        true => Colour::Terminal,
        false => Colour::Plain,
    };
    eprint!("{}", render(&shown, sources, colour));
}

/// Whether there are errors, and all of them are about constructs that can't be honoured.
pub fn only_unsupported(diagnostics: &[Diagnostic]) -> bool {
    let mut errors = diagnostics.iter().filter(|d| d.is_error()).peekable();
    errors.peek().is_some() && errors.all(Diagnostic::is_unsupported)
}

/// A number of errors as the end of the command, with the exit code for their kind.
pub fn check_errors(errors: usize, only_unsupported: bool) -> anyhow::Result<()> {
    if errors == 0 {
        return Ok(());
    }
    let what = errors_in_words(errors);
    Err(match only_unsupported {
        true => failure(
            Exit::Unsupported,
            format!("{what}: constructs that weir can't honour; nothing is loaded"),
        ),
        false => failure(
            Exit::Usage,
            format!("{what} in the rules; nothing is loaded"),
        ),
    })
}

fn errors_in_words(errors: usize) -> String {
    match errors {
        1 => "1 error".to_owned(),
        errors => format!("{errors} errors"),
    }
}

/// The last line of a check: `ok` or the errors, then the warnings.
pub fn summary_in_words(errors: usize, warnings: usize) -> String {
    let verdict = match errors {
        0 => "ok".to_owned(),
        errors => errors_in_words(errors),
    };
    with_warnings(&verdict, warnings)
}

/// A verdict in words with the number of warnings behind it.
pub fn with_warnings(verdict: &str, warnings: usize) -> String {
    match warnings {
        0 => verdict.to_owned(),
        1 => format!("{verdict}, 1 warning"),
        warnings => format!("{verdict}, {warnings} warnings"),
    }
}
