//! The `ipf` and `hpux` dialects: IPFilter 4.1 and 5.1 rule files, and HP-UX IPFilter's.
//!
//! In: the text of an `ipf.conf`. Out: its rules as they are loaded, that is with variables put in,
//! lists multiplied out and bodies flattened ([`parse`]), their canonical text ([`print()`]), and
//! the lists in the order in which packets meet them ([`load`]). `ippool.conf` and `ipnat.conf` are
//! the modules [`pool`] and [`nat`].
//!
//! Both bracket styles of lists, both spellings of words that changed between versions, and address
//! ranges are read everywhere; what only HP-UX has (`keep limit`, `log limit`, `return-icmpv6`) is
//! refused in `ipf`, as upstream refuses it. Nothing here resolves names or reads files.
//!
//! Original semantics: `ipf(5)`, `ippool(5)`, `ipnat(5)`, and the behaviour of 5.1.2 and 4.1.34;
//! HP-UX: the administrator's guides A.03.05.13 to 18.21.

pub mod ast;
pub mod families;
mod lex;
pub mod load;
pub mod lower;
pub mod nat;
mod parse;
pub mod pool;
mod print;
pub mod words;

pub use ast::{File, Item, Language, Rule};
pub use parse::{Names, ParseOptions, parse};
pub use print::{Form, PrintOptions, print, print_rule, side_text};

/// What a text in this family of languages is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Filter rules.
    Rules(Language),
    /// Tables of addresses.
    Pools,
    /// Translation rules.
    Nat,
}

/// Tells from the first statements whether a text is in one of these languages.
#[must_use]
pub fn detect(text: &str) -> Option<Kind> {
    let lines = text
        .trim_start_matches('\u{feff}')
        .lines()
        .map(|line| line.split('#').next().unwrap_or("").trim())
        .filter(|line| !line.is_empty());
    // Assignments stand in all of them.
    let assigns = |line: &&str| {
        line.split_once('=').is_some_and(|(name, value)| {
            let name = name.trim();
            !name.is_empty()
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
                && value.trim_start().starts_with(['"', '\''])
        })
    };
    let first = lines.clone().find(|line| !assigns(line))?;
    let mut words = first.split(|c: char| c.is_whitespace() || c == '@' || c == ';');
    let mut words = words
        .by_ref()
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase);
    let mut word = words.next()?;
    let begins = |word: &str| {
        let actions = [
            "pass", "block", "log", "count", "nomatch", "skip", "auth", "preauth",
        ];
        actions.contains(&word) || ["call", "decapsulate"].contains(&word)
    };
    while word.bytes().all(|b| b.is_ascii_digit()) {
        word = words.next()?;
    }
    let second = words.next().unwrap_or_default();
    match &*word {
        "table" | "group-map" | "pool" if first.contains("role") || first.contains('/') => {
            Some(Kind::Pools)
        }
        "map" | "map-block" | "rdr" | "bimap" | "rewrite" | "divert" if first.contains("->") => {
            Some(Kind::Nat)
        }
        "no" if ["map", "rdr", "bimap", "map-block"].contains(&&*second) => Some(Kind::Nat),
        "set" if first.contains(';') => Some(Kind::Rules(Language::Ipf)),
        word if begins(word) && follows_action(&second) => Some(Kind::Rules(language_of(text))),
        _ => None,
    }
}

/// Whether a text is a script of the shell that calls ipf: the handbook of FreeBSD has one that
/// writes its rules through `cat`.
#[must_use]
pub fn looks_like_script(text: &str) -> bool {
    let mut first = text.strip_prefix("#!").unwrap_or("").lines();
    let shell = first.next().and_then(|line| line.split_whitespace().next());
    if shell.is_some_and(|path| path.ends_with("sh")) {
        return text.contains("ipf");
    }
    let calls = |line: &str| {
        let line = line.split('#').next().unwrap_or("");
        let words: Vec<&str> = line.split_whitespace().collect();
        words
            .windows(2)
            .any(|pair| pair[0].rsplit('/').next() == Some("ipf") && pair[1].starts_with('-'))
    };
    text.lines().any(calls)
}

/// Whether a word can stand behind an action: other languages have some of the actions too.
fn follows_action(word: &str) -> bool {
    let own = [
        "in", "out", "body", "first", "or-block", "level", "limit", "now", "l5-as",
    ];
    own.contains(&word)
        || word.starts_with("return-")
        || word.contains('/')
        || !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit())
}

/// The dialect, by the words that only one of them has.
fn language_of(text: &str) -> Language {
    let own = [
        "keep limit",
        "log limit",
        "icmpv6-type",
        "return-icmpv6",
        "cumulative",
    ];
    let mut lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or(""));
    match lines.any(|line| own.iter().any(|word| line.contains(word))) {
        true => Language::Hpux,
        false => Language::Ipf,
    }
}
