//! Names that rule files use for numbers, embedded so that a file means the same on every machine.
//!
//! Everything here is a table and a lookup in it. Printing uses the name or number that
//! `iptables-save` prints, never a guess.

pub mod icmp;
pub mod protocols;
pub mod services;
pub mod small;

/// A transport protocol that has ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP; UDP-Lite and DCCP have no names of their own in the table and use UDP's and TCP's.
    Udp,
    /// SCTP.
    Sctp,
}

impl Transport {
    /// One bit each, for the service table.
    #[must_use]
    pub const fn bit(self) -> u8 {
        match self {
            Self::Tcp => 1,
            Self::Udp => 2,
            Self::Sctp => 4,
        }
    }
}

/// What looking a name up in a list of names gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The index of the only fitting name.
    Found(usize),
    /// Several names start like this.
    Ambiguous,
    /// No name starts like this.
    Unknown,
}

/// Looks `word` up among `names`: letter case counts for nothing, and a beginning that only one
/// name has stands for that name, as in the original tool.
pub fn look_up<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> Lookup {
    let mut found = Lookup::Unknown;
    for (index, name) in names.into_iter().enumerate() {
        if name.eq_ignore_ascii_case(word) {
            return Lookup::Found(index);
        }
        let begins = name
            .get(..word.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(word));
        if begins && !word.is_empty() {
            found = match found {
                Lookup::Unknown => Lookup::Found(index),
                _ => Lookup::Ambiguous,
            };
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_names_win_over_beginnings() {
        let names = ["redirect", "redirect-net", "echo"];
        assert_eq!(look_up("REDIRECT", names), Lookup::Found(0));
        assert_eq!(look_up("redirect-", names), Lookup::Found(1));
        assert_eq!(look_up("redir", names), Lookup::Ambiguous);
        assert_eq!(look_up("x", names), Lookup::Unknown);
        assert_eq!(look_up("", names), Lookup::Unknown);
    }
}
