//! The family of rules that nothing in them fixes, where their language has no word for it: HP-UX
//! keeps IPv4 and IPv6 in two files.
//!
//! In: a text with lines `# --family ipv6`, from each of which on rules are of that family, or with
//! a line `# --ipv6`, which is said of the whole text. To the language they are comments. Out: the
//! family at a place. Printing writes the first kind where a text has rules of IPv6.

use super::ast::{Language, Rule};
use super::print::Form;
use crate::model::{Family, SourceId};
use crate::syntax::words::lines;
use crate::syntax::{Diagnostic, Span};

/// What stands in front of `ipv4` or `ipv6`: rules behind the line are of that family.
pub const LINE: &str = "# --family ";
/// All rules of the text are of IPv6, but for those behind the other kind of line.
pub const WHOLE: &str = "# --ipv6";

/// What the lines of a text say.
#[derive(Clone, Debug, Default)]
pub(super) struct Families {
    whole: Option<Family>,
    /// Where each line stands, in the order of the text.
    from: Vec<(usize, Family)>,
}

impl Families {
    /// Of a text; a line that says it wrong is told.
    pub fn of(text: &str, source: SourceId, found: &mut Vec<Diagnostic>) -> Self {
        let mut families = Self::default();
        if !text.contains(LINE) && !text.contains(WHOLE) {
            return families;
        }
        for line in lines(text) {
            if line.text.trim_end() == WHOLE {
                families.whole = Some(Family::V6);
            }
            let Some(given) = line.text.strip_prefix(LINE) else {
                continue;
            };
            match given.trim() {
                "ipv4" => families.from.push((line.start, Family::V4)),
                "ipv6" => families.from.push((line.start, Family::V6)),
                other => {
                    let start = line.start + LINE.len();
                    let span = Span::new(source, start, line.start + line.text.len());
                    let message = format!("`{other}` is no family");
                    let wrong = Diagnostic::error("family", span, message);
                    found.push(wrong.help("write ipv4 or ipv6"));
                }
            }
        }
        families
    }

    /// What is said of a place, if anything.
    pub fn at(&self, place: usize) -> Option<Family> {
        let before = self.from.partition_point(|(start, _)| *start <= place);
        match before.checked_sub(1) {
            Some(last) => Some(self.from[last].1),
            None => self.whole,
        }
    }
}

impl Form {
    /// The form of a language.
    #[must_use]
    pub fn of(language: Language) -> Self {
        match language {
            Language::Hpux => Self::V4,
            Language::Ipf => Self::V5,
        }
    }
}

/// Lines between printed rules that keep the families apart.
#[derive(Clone, Copy, Debug)]
pub struct Between {
    wanted: bool,
    now: Option<Family>,
}

impl Between {
    /// Of the rules that are to be printed: where the form has words for families, or where all
    /// are of IPv4, or some of none, there are no lines.
    pub fn of<'r>(form: Form, rules: impl Iterator<Item = &'r Rule>) -> Self {
        let mut six = false;
        let mut all = true;
        for rule in rules {
            six |= rule.family == Some(Family::V6);
            all &= rule.family.is_some();
        }
        Self {
            wanted: six && all && form == Form::V4,
            now: None,
        }
    }

    /// The line that belongs in front of a rule, with its end.
    pub fn line(&mut self, rule: &Rule) -> Option<String> {
        if !self.wanted || self.now == rule.family {
            return None;
        }
        self.now = rule.family;
        let name = match rule.family? {
            Family::V4 => "ipv4",
            Family::V6 => "ipv6",
        };
        Some(format!("{LINE}{name}\n"))
    }
}
