//! Shell patterns of interface names as names and prefixes.
//!
//! In: a pattern (fnmatch). Out: the model's patterns, where a few of them say the same: letters
//! and sets of letters, and a star at the end. Of others each name is asked, by
//! [`crate::model::Aside::Name`].

use crate::model::IfPattern;

/// Names that one pattern may come to.
const NAMES_MAX: usize = 64;
/// Bytes of a name.
const NAME_BYTES_MAX: usize = 15;

/// The names and prefixes that a pattern stands for; `None` when it is not that simple.
pub(super) fn expand(pattern: &str) -> Option<Vec<IfPattern>> {
    let mut names = vec![String::new()];
    let mut letters = pattern.chars();
    let mut prefix = false;
    while let Some(letter) = letters.next() {
        if prefix {
            return None;
        }
        let choices = match letter {
            '?' => return None,
            '*' => {
                prefix = true;
                continue;
            }
            '\\' => vec![letters.next()?],
            '[' => class(&mut letters)?,
            plain => vec![plain],
        };
        let longer = |name: &String| {
            let name = name.clone();
            choices
                .iter()
                .map(move |choice| format!("{name}{choice}"))
                .collect::<Vec<_>>()
        };
        names = names.iter().flat_map(longer).collect();
        if names.len() > NAMES_MAX {
            return None;
        }
    }
    names.retain(|name| name.len() <= NAME_BYTES_MAX);
    Some(
        names
            .into_iter()
            .map(|name| IfPattern { name, prefix })
            .collect(),
    )
}

/// The letters of a bracket set, the opening bracket already read.
fn class(letters: &mut std::str::Chars<'_>) -> Option<Vec<char>> {
    let inside: String = {
        let rest = letters.as_str();
        let end = rest
            .char_indices()
            .skip(1)
            .find(|(_, letter)| *letter == ']')?
            .0;
        *letters = rest[end + 1..].chars();
        rest[..end].to_owned()
    };
    if inside.starts_with(['!', '^']) || inside.contains('\\') {
        return None;
    }
    let inside: Vec<char> = inside.chars().collect();
    let mut out = Vec::new();
    let mut at = 0;
    while at < inside.len() {
        let first = inside[at];
        let is_range = inside.get(at + 1) == Some(&'-') && at + 2 < inside.len();
        let last = if is_range { inside[at + 2] } else { first };
        out.extend(first..=last);
        at += if is_range { 3 } else { 1 };
    }
    out.sort_unstable();
    out.dedup();
    (out.len() <= NAMES_MAX).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn stars_and_sets() {
        let names = |pattern: &str| {
            let all = expand(pattern)?;
            let star = |prefix| if prefix { "*" } else { "" };
            Some(
                all.iter()
                    .map(|one| format!("{}{}", one.name, star(one.prefix)))
                    .collect(),
            )
        };
        let some = |list: &[&str]| Some(list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>());
        assert_eq!(names("em*"), some(&["em*"]));
        assert_eq!(names("em[0-2]"), some(&["em0", "em1", "em2"]));
        assert_eq!(names("[ab]x[1]*"), some(&["ax1*", "bx1*"]));
        assert_eq!(names("*"), some(&["*"]));
        for pattern in ["em?", "*0", "em[!0]", "em[", "e*m*"] {
            assert_eq!(names(pattern), None, "{pattern}");
        }
    }
}
