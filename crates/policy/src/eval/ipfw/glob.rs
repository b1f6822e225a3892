//! Shell patterns of interface names, as fnmatch(3) has them without flags, byte by byte.
//!
//! In: a pattern and a name. Out: whether the name matches. `*`, `?`, `[a-z]`, `[!a]`, and `\`
//! before a character that is meant itself. For who asks many names, or can't go back in one: the
//! pattern as an [`Automaton`].

/// Bytes of an interface's name (IFNAMSIZ without its zero).
pub const NAME_BYTES_MAX: usize = 15;

/// A pattern as the places in it that a name can have come to: bit n is set when the first n of its
/// elements are matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Automaton {
    /// For each byte, the elements that it matches.
    pub masks: [u16; 256],
    /// Places in front of which a star stands: any byte leaves them as they are.
    pub stars: u16,
    /// How many elements there are, stars not counted; at most [`NAME_BYTES_MAX`].
    pub length: u16,
}

/// The automaton of a pattern; `None` where no name is long enough to match.
#[must_use]
pub fn automaton(pattern: &str) -> Option<Automaton> {
    let pattern = pattern.as_bytes();
    let (mut at, mut length, mut stars, mut masks) = (0, 0usize, 0u16, [0u16; 256]);
    while at < pattern.len() {
        if pattern[at] == b'*' {
            stars |= 1 << length;
            at += 1;
            continue;
        }
        if length == NAME_BYTES_MAX {
            return None;
        }
        for byte in 0..=255u8 {
            if one(&pattern[at..], Some(byte)).is_some() {
                masks[usize::from(byte)] |= 1 << length;
            }
        }
        length += 1;
        at += width(&pattern[at..]);
    }
    Some(Automaton {
        masks,
        stars,
        length: length as u16,
    })
}

impl Automaton {
    /// Whether a name matches.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let step = |places: u32, byte: &u8| {
            let matched = places & u32::from(self.masks[usize::from(*byte)]);
            matched << 1 | places & u32::from(self.stars)
        };
        name.as_bytes().iter().fold(1, step) >> self.length & 1 != 0
    }
}

/// How many bytes of the pattern its first element is.
fn width(pattern: &[u8]) -> usize {
    match pattern[0] {
        b'\\' if pattern.len() > 1 => 2,
        b'[' => set(pattern, 0).map_or(1, |(_, width)| width),
        _ => 1,
    }
}

/// Whether a name matches a pattern.
#[must_use]
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
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
        if pattern.get(at) == Some(&b'*') {
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
fn one(pattern: &[u8], character: Option<u8>) -> Option<usize> {
    let character = character?;
    match pattern[0] {
        b'*' => None,
        b'?' => Some(1),
        b'\\' if pattern.len() > 1 => (pattern[1] == character).then_some(2),
        b'[' => match set(pattern, character) {
            Some((true, width)) => Some(width),
            Some((false, _)) => None,
            // A bracket that is never closed is itself.
            None => (character == b'[').then_some(1),
        },
        plain => (plain == character).then_some(1),
    }
}

/// Whether a bracket set holds a character, and its width; `None` when it is never closed.
fn set(pattern: &[u8], character: u8) -> Option<(bool, usize)> {
    let negated = matches!(pattern.get(1), Some(b'!' | b'^'));
    let mut at = 1 + usize::from(negated);
    let mut holds = false;
    let mut first = true;
    loop {
        let mut low = *pattern.get(at)?;
        if low == b']' && !first {
            return Some((holds != negated, at + 1));
        }
        first = false;
        if low == b'\\' {
            at += 1;
            low = *pattern.get(at)?;
        }
        let mut high = low;
        if pattern.get(at + 1) == Some(&b'-') && pattern.get(at + 2).is_some_and(|c| *c != b']') {
            at += 2;
            high = *pattern.get(at)?;
            if high == b'\\' {
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
    use super::{automaton, matches};

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
            let places = automaton(pattern).expect("not longer than a name");
            assert_eq!(places.matches(name), expected, "{pattern} {name}");
        }
        assert_eq!(automaton("????????????????*"), None);
    }

    #[test]
    fn places_in_a_pattern_say_what_matching_says() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut held = 0;
        for _ in 0..200_000 {
            let mut some = |letters: &[&str], most: usize| -> String {
                let count = rng.usize(..=most);
                (0..count)
                    .map(|_| letters[rng.usize(..letters.len())])
                    .collect()
            };
            let parts = [
                "a", "b", "*", "?", "[ab]", "[!a]", "[", "]", "\\", "-", "\u{e9}",
            ];
            let pattern = some(&parts, 6);
            let name = some(&["a", "b", "-", "[", "]", "\\", "\u{e9}"], 7);
            let meant = matches(&pattern, &name);
            held += u32::from(meant);
            if let Some(places) = automaton(&pattern) {
                assert_eq!(places.matches(&name), meant, "{pattern} {name}");
            }
        }
        assert!(held > 5_000, "{held}");
    }
}
