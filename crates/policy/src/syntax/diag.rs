//! Located messages: what is wrong, where, and what to do about it.
//!
//! Parsers collect [`Diagnostic`]s and go on. They are printed either with the source line and
//! the words underlined ([`render`]) or as one plain line each ([`Diagnostic::line`]), which
//! starts with `file:line:column:`.

use super::span::{Sources, Span};
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; nothing is wrong.
    Note,
    /// Accepted, but should be changed.
    Warning,
    /// The text has no meaning as written; nothing is loaded.
    Error,
}

impl Severity {
    /// The word that messages use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// The code of errors about text that is right in its language and that weir cannot honour.
/// Programs end with exit status 3 for these, not 1.
pub const UNSUPPORTED: &str = "unsupported";

/// One message about one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Stable short name of the kind of message, in kebab case.
    pub code: &'static str,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// The words it is about.
    pub span: Span,
    /// Other places that help to understand it, each with a remark.
    pub related: Vec<(Span, String)>,
    /// What to do.
    pub help: Option<String>,
}

impl Diagnostic {
    /// A message of the given severity.
    #[must_use]
    pub fn new(
        severity: Severity,
        code: &'static str,
        span: Span,
        message: impl Into<String>,
    ) -> Self {
        Self {
            severity,
            code,
            message: message.into(),
            span,
            related: Vec::new(),
            help: None,
        }
    }

    /// An error.
    #[must_use]
    pub fn error(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, span, message)
    }

    /// An error about something that the language has and weir cannot honour.
    #[must_use]
    pub fn unsupported(span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, UNSUPPORTED, span, message)
    }

    /// A warning.
    #[must_use]
    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, span, message)
    }

    /// A note.
    #[must_use]
    pub fn note(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Note, code, span, message)
    }

    /// Adds what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds `did you mean ...` when a candidate is near enough to `word`; else leaves it as it is.
    #[must_use]
    pub fn did_you_mean<'c>(
        self,
        word: &str,
        candidates: impl IntoIterator<Item = &'c str>,
    ) -> Self {
        match nearest(word, candidates) {
            Some(candidate) => self.help(format!("did you mean `{candidate}`?")),
            None => self,
        }
    }

    /// Adds another place.
    #[must_use]
    pub fn related(mut self, span: Span, remark: impl Into<String>) -> Self {
        self.related.push((span, remark.into()));
        self
    }

    /// It is an error.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// It is about something that weir cannot honour.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        self.is_error() && self.code == UNSUPPORTED
    }

    /// The plain form, for machines and for files too broken to show:
    /// `file:line:column: severity[code]: message; help`.
    #[must_use]
    pub fn line(&self, sources: &Sources) -> String {
        let mut out = String::new();
        if let (Some(source), Some(at)) =
            (sources.get(self.span.source), sources.position(self.span))
        {
            out = format!("{}:{}:{}: ", source.name(), at.line, at.column);
        }
        out += &format!("{}[{}]: {}", self.severity.name(), self.code, self.message);
        if let Some(help) = &self.help {
            out += "; ";
            out += help;
        }
        out
    }
}

/// Whether messages are printed in colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Escape sequences for a terminal.
    Terminal,
    /// Plain text.
    Plain,
}

/// Prints messages with their source lines, the words underlined, a blank line between messages.
#[must_use]
pub fn render(diagnostics: &[Diagnostic], sources: &Sources, colour: Colour) -> String {
    let renderer = match colour {
        Colour::Terminal => Renderer::styled(),
        Colour::Plain => Renderer::plain(),
    };
    let mut out = String::new();
    for diagnostic in diagnostics {
        if !out.is_empty() {
            out.push('\n');
        }
        out += &render_one(diagnostic, sources, &renderer);
        out.push('\n');
    }
    out
}

fn render_one(diagnostic: &Diagnostic, sources: &Sources, renderer: &Renderer) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let title = level
        .primary_title(&*diagnostic.message)
        .id(diagnostic.code);
    let mut group = match snippet(diagnostic.span, sources, AnnotationKind::Primary, "") {
        Some(snippet) => title.element(snippet),
        None => Group::with_title(title),
    };
    for (span, remark) in &diagnostic.related {
        if let Some(snippet) = snippet(*span, sources, AnnotationKind::Context, remark) {
            group = group.element(snippet);
        }
    }
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(&**help));
    }
    renderer.render(&[group])
}

/// Only the line of the span is handed to the renderer, so that a message about a file of a million
/// lines costs what one line costs.
fn snippet<'s>(
    span: Span,
    sources: &'s Sources,
    kind: AnnotationKind,
    label: &'s str,
) -> Option<Snippet<'s, annotate_snippets::Annotation<'s>>> {
    let source = sources.get(span.source)?;
    let line = source.line_of(span.start);
    let text = source.line_text(line);
    let line_start = source.line_start(line);
    let place = |offset: u32| {
        let inside = (offset as usize).saturating_sub(line_start);
        super::span::floor_char_boundary(text, inside)
    };
    let (start, end) = (place(span.start), place(span.end));
    let mut annotation = kind.span(start..end.max(start));
    if !label.is_empty() {
        annotation = annotation.label(label);
    }
    Some(
        Snippet::source(text)
            .line_start(line as usize)
            .path(source.name())
            .annotation(annotation),
    )
}

/// How many candidates are compared for one suggestion, so that a file with many chains and many
/// faulty lines is still read in time.
const CANDIDATES_MAX: usize = 1000;

/// The candidate nearest to `word`, if it is near enough to be what was meant.
#[must_use]
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let allowed = match word.chars().count() {
        0..=2 => 1,
        3..=5 => 2,
        _ => 3,
    };
    candidates
        .into_iter()
        .take(CANDIDATES_MAX)
        .map(|candidate| (edit_distance(word, candidate), candidate))
        .filter(|&(distance, candidate)| {
            distance <= allowed && distance < candidate.chars().count()
        })
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, replacements and swaps of neighbours that lead from one word to the other
/// (Damerau's distance, restricted form); letter case counts as nothing.
fn edit_distance(one: &str, other: &str) -> usize {
    let a: Vec<char> = one.chars().flat_map(char::to_lowercase).take(64).collect();
    let b: Vec<char> = other
        .chars()
        .flat_map(char::to_lowercase)
        .take(64)
        .collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::super::span::SourceId;
    use super::*;

    fn example() -> (Sources, Diagnostic) {
        let mut sources = Sources::new();
        let id = sources.add("rules.v4", "*filter\n-A INPUT -p tpc -j DROP\nCOMMIT\n");
        let span = Span::new(id, 20, 23);
        let found = Diagnostic::error("unknown-protocol", span, "unknown protocol `tpc`")
            .did_you_mean("tpc", ["udp", "tcp", "icmp"]);
        (sources, found)
    }

    #[test]
    fn the_plain_form_starts_with_the_place() {
        let (sources, found) = example();
        let line = found.line(&sources);
        let expected = "rules.v4:2:13: error[unknown-protocol]: unknown protocol `tpc`; \
                        did you mean `tcp`?";
        assert_eq!(line, expected);
    }

    #[test]
    fn the_long_form_underlines_the_words() {
        let (sources, found) = example();
        let text = render(&[found], &sources, Colour::Plain);
        assert!(text.contains("rules.v4:2:13"), "{text}");
        assert!(text.contains("-A INPUT -p tpc -j DROP"), "{text}");
        assert!(text.contains("^^^"), "{text}");
        assert!(text.contains("did you mean `tcp`?"), "{text}");
    }

    #[test]
    fn a_place_outside_every_text_still_prints() {
        let sources = Sources::new();
        let found = Diagnostic::note("x", Span::new(SourceId(9), 5, 7), "hello");
        assert_eq!(found.line(&sources), "note[x]: hello");
        assert!(render(&[found], &sources, Colour::Plain).contains("hello"));
    }

    #[test]
    fn only_near_words_are_suggested() {
        assert_eq!(nearest("dprot", ["sport", "dport"]), Some("dport"));
        assert_eq!(nearest("ACEPT", ["ACCEPT", "DROP"]), Some("ACCEPT"));
        assert_eq!(nearest("elephant", ["tcp", "udp"]), None);
        assert_eq!(nearest("", ["a"]), None);
    }
}
