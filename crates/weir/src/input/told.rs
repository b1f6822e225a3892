//! What the commands say of messages, whatever language the files are in.
//!
//! In: diagnostics. Out: them on standard error, their number in words, the error that ends a
//! command when some of them are errors.

use std::collections::BTreeMap;

use crate::exit::{Exit, failure};
use weir_policy::syntax::diag::{Colour, UNSUPPORTED, render};
use weir_policy::syntax::{Diagnostic, Severity, Sources};

/// How many messages of one kind are shown with their lines: a list of 20,000 rules may well have
/// 19,999 duplicates, and half a second is what loading it takes.
const IN_FULL: usize = 20;

/// Prints messages from a severity on to standard error.
///
/// Behind the first twenty of a kind, errors and what can't be honoured have a line each, so that
/// every affected rule is named; other warnings are counted.
pub fn tell(diagnostics: &[Diagnostic], sources: &Sources, least: Severity) {
    eprint!("{}", told(diagnostics, sources, least));
}

fn told(diagnostics: &[Diagnostic], sources: &Sources, least: Severity) -> String {
    let mut of_kind: BTreeMap<(Severity, &str), usize> = BTreeMap::new();
    let (mut full, mut lines) = (Vec::new(), String::new());
    for found in diagnostics.iter().filter(|found| found.severity >= least) {
        let seen = of_kind.entry((found.severity, found.code)).or_default();
        *seen += 1;
        if *seen <= IN_FULL {
            full.push(found.clone());
        } else if is_listed(found.severity, found.code) {
            lines += &found.line(sources);
            lines.push('\n');
        }
    }
    let mut out = in_full(&full, sources);
    out += &lines;
    for ((severity, code), seen) in of_kind {
        let rest = seen.saturating_sub(IN_FULL);
        if rest > 0 && !is_listed(severity, code) {
            let kind = severity.name();
            out += &format!(
                "weir: {rest} more of {kind}[{code}] are not shown; `weir check --json` has all\n"
            );
        }
    }
    out
}

/// Prints messages to standard error, all of them with their lines.
pub fn show(found: &[Diagnostic], sources: &Sources) {
    eprint!("{}", in_full(found, sources));
}

fn in_full(found: &[Diagnostic], sources: &Sources) -> String {
    let colour = match crate::output::stderr_colours() {
        true => Colour::Terminal,
        false => Colour::Plain,
    };
    render(found, sources, colour)
}

/// Whether each message of a kind is named.
fn is_listed(severity: Severity, code: &str) -> bool {
    severity == Severity::Error || code == UNSUPPORTED
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

#[cfg(test)]
mod tests {
    use weir_policy::syntax::{SourceId, Span};

    use super::*;

    fn messages(count: u32, of: impl Fn(Span) -> Diagnostic) -> Vec<Diagnostic> {
        let span = |line| Span {
            source: SourceId(0),
            start: 2 * line,
            end: 2 * line + 1,
        };
        (0..count).map(|line| of(span(line))).collect()
    }

    #[test]
    fn many_of_a_kind_are_bounded_and_no_error_is_left_out() {
        let mut sources = Sources::new();
        sources.add("rules", "a\n".repeat(100));
        let warnings = messages(50, |span| Diagnostic::warning("duplicate", span, "again"));
        let text = told(&warnings, &sources, Severity::Warning);
        assert_eq!(text.matches("warning[duplicate]: again").count(), IN_FULL);
        assert!(text.ends_with(
            "weir: 30 more of warning[duplicate] are not shown; `weir check --json` has all\n"
        ));
        let errors = messages(50, |span| Diagnostic::error("syntax", span, "wrong"));
        let text = told(&errors, &sources, Severity::Warning);
        assert_eq!(text.matches("error[syntax]: wrong").count(), 50);
        assert!(
            text.ends_with("rules:50:1: error[syntax]: wrong\n"),
            "{text}"
        );
        assert_eq!(told(&warnings, &sources, Severity::Error), "");
    }
}
