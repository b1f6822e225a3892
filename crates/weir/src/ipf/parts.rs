//! Rules, tables and translation rules in one text, as `weir show` prints them together.
//!
//! In: a text. Out: a text for each kind, in which the lines of the other kinds are blank, so that
//! every place is that of the whole. Comments stay in all of them.

use std::borrow::Cow;
use weir_policy::dialect::ipf::{Kind, detect};

/// What lines of other kinds than rules begin with.
const OTHERS: [&str; 10] = [
    "table",
    "group-map",
    "pool",
    "map",
    "map-block",
    "rdr",
    "bimap",
    "rewrite",
    "divert",
    "no",
];

/// Where rules, tables and translation rules stand in this list.
fn place(kind: Kind) -> usize {
    match kind {
        Kind::Pools => 0,
        Kind::Nat => 1,
        Kind::Rules(_) => 2,
    }
}

/// The parts of a text, each with what it is.
pub fn parts(text: &str) -> Vec<(Option<Kind>, Cow<'_, str>)> {
    let other = |line: &str| {
        let first = line.split_whitespace().next().unwrap_or_default();
        OTHERS.iter().any(|word| word.eq_ignore_ascii_case(first))
    };
    let whole = || vec![(detect(text), Cow::Borrowed(text))];
    if !text.lines().any(other) {
        return whole();
    }
    let mut places = Vec::new();
    let mut depth = 0i64;
    let mut now = None;
    for line in text.split_inclusive('\n') {
        if depth == 0
            && let Some(kind) = detect(line)
        {
            now = Some(place(kind));
        }
        depth = (depth + braces(line)).max(0);
        places.push(now);
    }
    // What stands in front of the first statement, such as an assignment, belongs to it.
    let first = places.iter().copied().find_map(|place| place);
    let mut out = Vec::new();
    for own in 0..3 {
        if !places.contains(&Some(own)) {
            continue;
        }
        let mut part = String::with_capacity(text.len());
        for (line, place) in text.split_inclusive('\n').zip(&places) {
            let comment = line.trim_start().starts_with('#');
            match comment || place.or(first) == Some(own) {
                true => part.push_str(line),
                false => part.extend(line.bytes().map(|b| if b == b'\n' { '\n' } else { ' ' })),
            }
        }
        out.push((detect(&part), Cow::Owned(part)));
    }
    match out.len() {
        0 | 1 => whole(),
        _ => out,
    }
}

/// How many more braces a line opens than it closes, outside of quotes and comments.
fn braces(line: &str) -> i64 {
    let mut quoted = None;
    let mut depth = 0;
    for character in line.chars() {
        match (quoted, character) {
            (Some(end), other) => quoted = (other != end).then_some(end),
            (None, '"' | '\'') => quoted = Some(character),
            (None, '#') => break,
            (None, '{') => depth += 1,
            (None, '}') => depth -= 1,
            (None, _) => {}
        }
    }
    depth
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_keeps_its_places() {
        let text = "table role = ipf type = tree number = 1\n\t{ 10.0.0.0/8;\n 11.0.0.0/8; };\n\
                    # é\nblock in from pool/1 to any\n";
        let found = parts(text);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].0, Some(Kind::Pools));
        assert!(matches!(found[1].0, Some(Kind::Rules(_))));
        let at = text.find("block");
        assert_eq!(found[1].1.find("block"), at);
        assert!(!found[0].1.contains("block") && found[0].1.contains("11.0.0.0/8; };"));
        assert_eq!(found[1].1.len(), text.len());
        let rules = "pass in all\nblock in from pool/1 to any\n";
        assert_eq!(parts(rules).len(), 1);
        assert_eq!(parts("").len(), 1);
    }
}
