//! Dialects: the languages that weir reads, and how a file tells which one it is written in.
//!
//! In: a text and, if there is one, its file name. Out: which dialect and family it is. Nothing
//! here reads files.

pub mod ipf;
pub mod ipfw;
pub mod ipset;
pub mod iptables;

use crate::model::Family;
use crate::syntax::words;

/// A language that weir reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// `iptables-save` or `ip6tables-save`.
    Iptables,
    /// `ipset save`.
    Ipset,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Iptables, Self::Ipset];

    /// The name that options and messages use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Iptables => "iptables",
            Self::Ipset => "ipset",
        }
    }

    /// The dialect of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.name() == name)
    }
}

/// Tells the dialect from the first line that is neither blank nor a comment.
#[must_use]
pub fn detect(text: &str) -> Option<Dialect> {
    let first = words::lines(text.trim_start_matches('\u{feff}'))
        .map(|line| line.text.trim_matches([' ', '\t']))
        .find(|line| !line.is_empty() && !line.starts_with('#'))?;
    let word = first.split([' ', '\t']).next().unwrap_or(first);
    match word {
        "create" | "add" | "-N" | "-exist" | "flush" | "destroy" | "swap" | "rename" => {
            Some(Dialect::Ipset)
        }
        _ if word.starts_with(['*', ':', '[']) => Some(Dialect::Iptables),
        "COMMIT" => Some(Dialect::Iptables),
        _ if word.starts_with('-') => Some(Dialect::Iptables),
        _ => None,
    }
}

/// The family of an `iptables` file: the comment that its tool wrote, else the file's name
/// (`rules.v6`, `ip6tables.rules`), else its words, else IPv4.
#[must_use]
pub fn family_of(name: &str, text: &str) -> Family {
    family_of_header(text)
        .or_else(|| family_of_name(name))
        .or_else(|| family_of_words(text))
        .unwrap_or(Family::V4)
}

/// The family that the text itself tells, by its tool's comment or by its words.
#[must_use]
pub fn family_of_text(text: &str) -> Option<Family> {
    family_of_header(text).or_else(|| family_of_words(text))
}

fn family_of_header(text: &str) -> Option<Family> {
    let mut comments = words::lines(text)
        .take(20)
        .filter_map(|line| line.text.trim_start().strip_prefix('#'));
    comments.find_map(|comment| {
        let comment = comment.to_ascii_lowercase();
        if comment.contains("ip6tables-save") || comment.contains("ip6tables-nft-save") {
            Some(Family::V6)
        } else if comment.contains("iptables-save") || comment.contains("iptables-nft-save") {
            Some(Family::V4)
        } else {
            None
        }
    })
}

fn family_of_name(name: &str) -> Option<Family> {
    let file = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    if file.contains("ip6") || file.contains("ipv6") || file.ends_with("v6") || file.contains("v6.")
    {
        Some(Family::V6)
    } else if file.ends_with("v4") || file.contains("ipv4") || file.contains("v4.") {
        Some(Family::V4)
    } else {
        None
    }
}

/// Lines enough to tell; a longer look would cost more than it tells.
const LINES_TO_LOOK_AT: usize = 10_000;

/// Looks for words that exist in one family only.
fn family_of_words(text: &str) -> Option<Family> {
    for line in words::lines(text).take(LINES_TO_LOOK_AT) {
        let mut before = "";
        for word in line.text.split([' ', '\t']).filter(|word| !word.is_empty()) {
            match (before, word) {
                ("-s" | "-d" | "--source" | "--destination" | "--src" | "--dst", _) => {
                    let address = word.split([',', '/']).next().unwrap_or(word);
                    if address.parse::<std::net::Ipv6Addr>().is_ok() {
                        return Some(Family::V6);
                    }
                    if address.parse::<std::net::Ipv4Addr>().is_ok() {
                        return Some(Family::V4);
                    }
                }
                (
                    _,
                    "icmp6" | "--icmpv6-type" | "icmpv6" | "hl" | "rt" | "ipv6header" | "eui64",
                ) if matches!(before, "-m" | "-p") || word.starts_with("--") => {
                    return Some(Family::V6);
                }
                ("-p" | "-m", "icmp")
                | (_, "--icmp-type" | "--ttl-eq" | "--ttl-lt" | "--ttl-gt") => {
                    return Some(Family::V4);
                }
                ("--reject-with", kind) if kind.starts_with("icmp6") => return Some(Family::V6),
                ("--reject-with", kind) if kind.starts_with("icmp-") => return Some(Family::V4),
                _ => {}
            }
            before = word;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dialects_are_told_by_the_first_word() {
        assert_eq!(detect("# x\n\n*filter\n"), Some(Dialect::Iptables));
        assert_eq!(detect("-A INPUT -j DROP\n"), Some(Dialect::Iptables));
        assert_eq!(
            detect("create a hash:ip family inet\n"),
            Some(Dialect::Ipset)
        );
        assert_eq!(detect("add a 1.2.3.4"), Some(Dialect::Ipset));
        assert_eq!(detect("# only a comment\n"), None);
        assert_eq!(detect("pass in all\n"), None);
    }

    #[test]
    fn families_are_told_by_header_then_name_then_words() {
        let v6 = "# Generated by ip6tables-save v1.8.9\n*filter\n";
        let v4 = "# Generated by iptables-save v1.8.9\n*filter\n";
        assert_eq!(family_of("rules.v4", v6), Family::V6);
        assert_eq!(family_of("rules.v6", v4), Family::V4);
        assert_eq!(family_of("/etc/iptables/rules.v6", "*filter\n"), Family::V6);
        assert_eq!(family_of("rules.v4", "*filter\n"), Family::V4);
        assert_eq!(
            family_of("x", "*filter\n-A INPUT -s 2001:db8::/32 -j DROP\n"),
            Family::V6
        );
        assert_eq!(
            family_of("x", "*filter\n-A INPUT -s 10.0.0.0/8 -j DROP\n"),
            Family::V4
        );
        assert_eq!(
            family_of("x", "*filter\n-A INPUT -p icmpv6 -j DROP\n"),
            Family::V6
        );
        assert_eq!(family_of("x", "*filter\n-A INPUT -j DROP\n"), Family::V4);
    }
}
