//! Interfaces that have another name on this host than in the rules.
//!
//! In: a text with lines `# --interface em0=eth0`, which its own language takes for comments. Out:
//! which name stands for which. The reader of the text puts the new names into what it read, so
//! everything behind it, lists included, says them as though they had been written.

use crate::eval::ipfw::glob;
use crate::model::SourceId;
use crate::syntax::words::lines;
use crate::syntax::{Diagnostic, Span};
use std::collections::BTreeMap;

/// What stands in front of `OLD=NEW`.
pub const LINE: &str = "# --interface ";

/// Bytes of the longest name that Linux gives an interface (`IFNAMSIZ` without its zero).
const NAME_MAX: usize = 15;

/// Names of another host's interfaces, and what they are called here.
#[derive(Clone, Debug, Default)]
pub struct Renamed(BTreeMap<String, String>);

impl Renamed {
    /// What the lines of a text say; a line that says it wrong is told.
    pub fn of(text: &str, source: SourceId, found: &mut Vec<Diagnostic>) -> Self {
        let mut known = BTreeMap::new();
        if !text.contains(LINE) {
            return Self(known);
        }
        for line in lines(text) {
            let Some(given) = line.text.strip_prefix(LINE) else {
                continue;
            };
            let wrong = match pair(given.trim()) {
                Err(wrong) => wrong,
                Ok((old, new)) => match known.insert(old.to_owned(), new.to_owned()) {
                    Some(before) if before != new => {
                        format!("`{old}` is to be called `{before}` and `{new}`")
                    }
                    _ => continue,
                },
            };
            let start = line.start + LINE.len();
            let span = Span::new(source, start, line.start + line.text.len());
            let wrong = Diagnostic::error("interface", span, wrong);
            found.push(wrong.help("write OLD=NEW, such as em0=eth0"));
        }
        Self(known)
    }

    /// Whether every interface has the name that the rules say.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What an interface of the rules is called here, if that is something else.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Says of a shell pattern that means interfaces with other names here; it stays as it is.
    #[must_use]
    pub fn left_out(&self, pattern: &str, at: Span) -> Option<Diagnostic> {
        let (old, new) = self
            .0
            .iter()
            .find(|(old, new)| glob::matches(pattern, old) != glob::matches(pattern, new))?;
        let message = format!("`{pattern}` is not renamed, and `{old}` is called `{new}`");
        let found = Diagnostic::warning("interface-pattern", at, message);
        Some(found.help("write the pattern for the names that interfaces have here"))
    }
}

/// `OLD=NEW`, or what is wrong with it.
pub fn pair(given: &str) -> Result<(&str, &str), String> {
    let (old, new) = given
        .split_once('=')
        .ok_or_else(|| format!("`{given}` is no pair of names"))?;
    let plain = |name: &str| {
        let letters = name
            .bytes()
            .all(|b| b.is_ascii_graphic() && !b"/*?[]{}\"'".contains(&b));
        !name.is_empty() && letters
    };
    if !plain(old) || !plain(new) {
        return Err(format!("`{given}` is no pair of interface names"));
    }
    if new.len() > NAME_MAX {
        return Err(format!(
            "`{new}` is longer than a name on Linux, {NAME_MAX} bytes"
        ));
    }
    Ok((old, new))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Renamed, Vec<Diagnostic>) {
        let mut found = Vec::new();
        (Renamed::of(text, SourceId(0), &mut found), found)
    }

    #[test]
    fn pairs_of_names_are_read_where_they_stand() {
        let (renamed, found) = read("# --interface em0=eth0\nrule\n# --interface lo0=lo\n");
        assert!(found.is_empty());
        assert_eq!(renamed.get("em0"), Some("eth0"));
        assert_eq!(renamed.get("lo0"), Some("lo"));
        assert_eq!(renamed.get("eth0"), None);
        for wrong in [
            "em0",
            "em0=",
            "=eth0",
            "em0=eth 0",
            "em*=eth0",
            "em0=sixteen-letters-",
        ] {
            let (_, found) = read(&format!("# --interface {wrong}\n"));
            assert_eq!(found.len(), 1, "{wrong}");
        }
        let (_, found) = read("# --interface em0=eth0\n# --interface em0=eth1\n");
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn patterns_that_no_longer_mean_the_same_are_told() {
        let (renamed, _) = read("# --interface em0=eth0\n");
        let at = Span::new(SourceId(0), 0, 1);
        assert!(renamed.left_out("em*", at).is_some());
        assert!(renamed.left_out("e*", at).is_none());
        assert!(renamed.left_out("ix*", at).is_none());
    }
}
