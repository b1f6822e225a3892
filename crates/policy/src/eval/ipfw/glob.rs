//! Shell patterns of interface names, as fnmatch(3) has them without flags.
//!
//! In: a pattern and a name. Out: whether the name matches. `*`, `?`, `[a-z]`, `[!a]`, and `\`
//! before a character that is meant itself.

/// Whether a name matches a pattern.
#[must_use]
pub fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut at, mut next) = (0, 0);
    // Where to go on after the last star: the pattern behind it, and the name one further.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if at == pattern.len() && next == name.len() {
            return true;
        }
        let step = pattern
            .get(at)
            .and_then(|_| one(&pattern[at..], name.get(next).copied()));
        if pattern.get(at) == Some(&'*') {
            star = Some((at + 1, next));
            at += 1;
        } else if let Some(width) = step {
            at += width;
            next += 1;
        } else {
            match star {
                Some((behind, from)) if from < name.len() => {
                    star = Some((behind, from + 1));
                    (at, next) = (behind, from + 1);
                }
                _ => return false,
            }
        }
    }
}

/// How many characters of the pattern one character of the name takes, if it fits.
fn one(pattern: &[char], character: Option<char>) -> Option<usize> {
    let character = character?;
    match pattern[0] {
        '*' => None,
        '?' => Some(1),
        '\\' if pattern.len() > 1 => (pattern[1] == character).then_some(2),
        '[' => match set(pattern, character) {
            Some((true, width)) => Some(width),
            Some((false, _)) => None,
            // A bracket that is never closed is itself.
            None => (character == '[').then_some(1),
        },
        plain => (plain == character).then_some(1),
    }
}

/// Whether a bracket set holds a character, and its width; `None` when it is never closed.
fn set(pattern: &[char], character: char) -> Option<(bool, usize)> {
    let negated = matches!(pattern.get(1), Some('!' | '^'));
    let mut at = 1 + usize::from(negated);
    let mut holds = false;
    let mut first = true;
    loop {
        let mut low = *pattern.get(at)?;
        if low == ']' && !first {
            return Some((holds != negated, at + 1));
        }
        first = false;
        if low == '\\' {
            at += 1;
            low = *pattern.get(at)?;
        }
        let mut high = low;
        if pattern.get(at + 1) == Some(&'-') && pattern.get(at + 2).is_some_and(|c| *c != ']') {
            at += 2;
            high = *pattern.get(at)?;
            if high == '\\' {
                at += 1;
                high = *pattern.get(at)?;
            }
        }
        holds |= (low..=high).contains(&character);
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn shell_patterns() {
        for (pattern, name, expected) in [
            ("em*", "em0", true),
            ("em*", "em", true),
            ("em?", "em", false),
            ("em[0-2]", "em2", true),
            ("em[!0-2]", "em2", false),
            ("em[^0-2]", "em3", true),
            ("*0", "em10", true),
            ("*0", "em01", false),
            ("*", "", true),
            ("[", "[", true),
            ("a[]b", "a]", false),
            ("a[]]b", "a]b", true),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("e*m*0", "eXmY0", true),
            ("vlan[0-9]*", "vlan12", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
