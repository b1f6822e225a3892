//! Comments of the source, carried over to the rules that came of it.
//!
//! In: where a rule was written. Out, the first time it is asked: the comment lines that stand over
//! the rule in its file, the comment behind it, or its place.

use crate::model::Origin;
use crate::syntax::Sources;
use std::collections::BTreeSet;

/// What was said already.
pub struct Remarks<'s> {
    sources: &'s Sources,
    told: BTreeSet<(u16, u32)>,
}

impl<'s> Remarks<'s> {
    /// Nothing yet.
    pub fn new(sources: &'s Sources) -> Self {
        Remarks {
            sources,
            told: BTreeSet::new(),
        }
    }

    /// Everything is said anew, for another file.
    pub fn again(&mut self) {
        self.told.clear();
    }

    /// Lines of comment for a rule, without sign.
    pub fn of(&mut self, origin: Origin) -> Vec<String> {
        let key = (origin.source.0, origin.line);
        let Some(source) = self.sources.get(origin.source) else {
            return Vec::new();
        };
        if !self.told.insert(key) {
            return Vec::new();
        }
        let mut out = Vec::new();
        let mut line = origin.line;
        while line > 1 {
            line -= 1;
            let text = source.line_text(line).trim();
            let Some(comment) = text.strip_prefix('#') else {
                break;
            };
            if comment.trim().is_empty() || comment.starts_with(" --sysctl") {
                break;
            }
            if !self.told.insert((origin.source.0, line)) {
                break;
            }
            out.push(comment.trim().to_owned());
        }
        out.reverse();
        let place = format!("from {}:{}", source.name(), origin.line);
        let behind = behind(source.line_text(origin.line));
        out.push(match behind {
            Some(comment) => format!("{place}: {comment}"),
            None => place,
        });
        // A name with a line end in it would not stay a comment.
        out.iter_mut()
            .for_each(|line| line.retain(|c| !c.is_control()));
        out
    }
}

/// The comment behind a rule, in any of the languages.
fn behind(line: &str) -> Option<String> {
    if let Some((_, rest)) = line.split_once("--comment ") {
        let rest = rest.trim_start();
        let text = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next().unwrap_or(quoted),
            None => rest.split_whitespace().next().unwrap_or(rest),
        };
        return Some(text.to_owned());
    }
    let comment = line
        .split_once(" // ")
        .or_else(|| line.split_once('#'))
        .map(|(_, comment)| comment.trim())?;
    (!comment.is_empty()).then(|| comment.to_owned())
}
