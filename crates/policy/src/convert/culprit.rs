//! What keeps a rule from being converted, and where in its line that stands.
//!
//! In: a condition or an action that the other language has no words for. Out: a located message.
//! The model knows a rule's line and column; the words themselves are looked for in the text.

use crate::model::{Aside, Cond, Op, Origin, RejectKind};
use crate::syntax::{Diagnostic, Sources, Span};

/// What can't be said in the other language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Culprit {
    /// Words of the source languages by which it is found in the rule.
    pub words: &'static [&'static str],
    /// What it is, as the subject of a sentence.
    pub what: String,
    /// What to do.
    pub help: &'static str,
}

impl Culprit {
    /// Something.
    pub fn new(
        words: &'static [&'static str],
        what: impl Into<String>,
        help: &'static str,
    ) -> Self {
        let what = what.into();
        Culprit { words, what, help }
    }

    /// A rule that is in the way only because something else in its list can't be said: a last
    /// match that could not be made a first one.
    pub fn of_the_list() -> Self {
        Culprit::new(&[], "this rule", "write it by hand")
    }

    /// Whether it is one.
    pub fn is_of_the_list(&self) -> bool {
        *self == Culprit::of_the_list()
    }

    /// As a message about a rule.
    pub fn at(&self, origin: Origin, sources: &Sources, target: &str) -> Diagnostic {
        let message = format!(
            "{} can't be said in {target} with the same meaning",
            self.what
        );
        Diagnostic::unsupported(span_of(origin, self.words, sources), message).help(self.help)
    }
}

/// The words of a rule, or the whole rule.
pub fn span_of(origin: Origin, words: &[&str], sources: &Sources) -> Span {
    let Some(source) = sources.get(origin.source) else {
        return Span::default();
    };
    let start = source.line_start(origin.line);
    let line = source.line_text(origin.line).trim_end();
    let column = (origin.column as usize).saturating_sub(1).min(line.len());
    let column = if line.is_char_boundary(column) {
        column
    } else {
        0
    };
    let rest = &line[column..];
    for word in words {
        if let Some(at) = find_word(rest, word) {
            let from = start + column + at;
            return Span::new(origin.source, from, from + word.len());
        }
    }
    Span::new(
        origin.source,
        start + column,
        start + line.len().max(column),
    )
}

/// A word that no letter or digit goes on behind or in front of.
fn find_word(text: &str, word: &str) -> Option<usize> {
    let inside = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let begins = word.starts_with(|c: char| c.is_ascii_alphanumeric());
    let ends = word.ends_with(|c: char| c.is_ascii_alphanumeric());
    text.match_indices(word).map(|(at, _)| at).find(|&at| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !(begins && inside(before) || ends && inside(after))
    })
}

const TRACKED: &str = "--states=tracked leaves states to the connection tracking of the result; see \
                       docs/compare.md";
/// Words of ipfw about routes.
const WAYS_BACK: [&str; 3] = ["verrevpath", "antispoof", "versrcreach"];
const REWRITE: &str = "write it by hand, and compare with `weir diff`";

/// A condition.
pub fn of_condition(cond: &Cond) -> Culprit {
    let (words, what, help): (&'static [&'static str], &str, &'static str) = match cond {
        Cond::State(_) => (
            &["--ctstate", "--state", "conntrack", "state"],
            "a state of connection tracking",
            TRACKED,
        ),
        Cond::Learned
        | Cond::Learn(_)
        | Cond::OutOfWindow
        | Cond::IcmpHead(_)
        | Cond::Dynamic(_) => (
            &[
                "keep state",
                "keep-state",
                "check-state",
                "keep frags",
                "limit",
                "oow",
                "record-state",
            ],
            "a rule that keeps states",
            TRACKED,
        ),
        Cond::History(_) => (
            &[
                "-m limit",
                "hashlimit",
                "recent",
                "connlimit",
                "statistic",
                "quota",
                "-m time",
                "prob",
                "logamount",
            ],
            "what remembers or counts packets",
            "take it out, and put it in by hand where the result needs it",
        ),
        Cond::Set { .. } => (
            &["--match-set", "-m set"],
            "a set with ports, with timeouts, or that rules change",
            "sets of addresses can be converted",
        ),
        Cond::Ct(_) => (&["conntrack"], "a field of the connection", REWRITE),
        Cond::Mark { .. } | Cond::Connmark { .. } => (
            &["--mark", "connmark", "mark", "tagged"],
            "a mark of the packet or its connection",
            REWRITE,
        ),
        Cond::Mac(_) => (&["--mac-source", "mac"], "an Ethernet address", REWRITE),
        Cond::PacketType(_) => (&["--pkt-type", "pkttype"], "a type of frame", REWRITE),
        Cond::SrcType(_) | Cond::DstType(_) => (
            &["addrtype", "me6", "me"],
            "an address by its type, or the host's own",
            "write the addresses",
        ),
        Cond::Owner(_) => (&["owner", "uid", "gid"], "the owner of a socket", REWRITE),
        Cond::Ipsec { .. } => (&["-m policy", "policy"], "IPsec", REWRITE),
        Cond::ReversePath(_) => (&WAYS_BACK, "the way back", REWRITE),
        Cond::IpfWith(_) => (&["with", "and"], "what `with` asks of headers", REWRITE),
        Cond::TcpMss(_) => (&["tcpmss"], "the maximum segment size", REWRITE),
        Cond::AhSpi(_) | Cond::EspSpi(_) => (&["--ahspi", "--espspi"], "an SPI", REWRITE),
        Cond::SctpChunks { .. } => (&["--chunk-types"], "SCTP chunk types", REWRITE),
        Cond::RoutingHeader { .. } => (&["-m rt", "rt"], "a routing header", REWRITE),
        Cond::EcnTcp(_) => (
            &["--ecn-tcp-ece", "--ecn-tcp-cwr"],
            "ECN bits of TCP",
            REWRITE,
        ),
        Cond::AnyPort(_) => (&["--ports"], "either port, twice", REWRITE),
        Cond::Aside(aside) => return of_aside(aside),
        _ => (&[], "this condition", REWRITE),
    };
    Culprit::new(words, what, help)
}

/// A condition beside headers.
fn of_aside(aside: &Aside) -> Culprit {
    let (words, what, help): (&'static [&'static str], &str, &'static str) = match aside {
        Aside::Words(_) => (
            &["--u32", "u32", "ipid", "flow-id", "frag"],
            "a word of the packet",
            REWRITE,
        ),
        Aside::Tcp(..) => (
            &["tcpseq", "tcpack", "tcpwin", "tcpdatalen"],
            "a number of the TCP header",
            REWRITE,
        ),
        Aside::IpOptions { .. } => (&["ipoptions"], "IPv4 options", REWRITE),
        Aside::Extensions(_) | Aside::Headers { .. } => {
            (&["ext6hdr", "ipv6header"], "an extension header", REWRITE)
        }
        Aside::Ethernet(_) => (
            &["MAC", "mac", "mac-type", "src-mac", "dst-mac", "lookup"],
            "a question about frames",
            REWRITE,
        ),
        Aside::Name { .. } => (
            &["via", "recv", "xmit"],
            "a pattern of interface names",
            "write the names",
        ),
        _ => (&[], "this condition", REWRITE),
    };
    Culprit::new(words, what, help)
}

/// An operation.
pub fn of_operation(op: &Op) -> Culprit {
    let (words, what): (&'static [&'static str], &str) = match op {
        Op::Nflog(_) => (&["NFLOG"], "NFLOG"),
        Op::SetMark { .. } => (&["MARK", "setmark", "tag"], "setting a mark"),
        Op::SetConnmark { .. } | Op::SaveConnmark { .. } | Op::RestoreConnmark { .. } => {
            (&["CONNMARK"], "CONNMARK")
        }
        Op::Notrack => (&["NOTRACK", "--notrack", "CT"], "leaving packets untracked"),
        Op::SetDscp(_) => (&["DSCP", "setdscp"], "setting the DSCP"),
        Op::SetTos { .. } => (&["TOS"], "setting the TOS"),
        Op::Classify(_) => (&["CLASSIFY"], "CLASSIFY"),
        Op::Ttl(_) => (&["TTL", "HL"], "changing the hop limit"),
        Op::TcpMss(_) => (&["TCPMSS", "tcp-setmss"], "setting the MSS"),
        Op::SetAdd { .. } | Op::SetDelete { .. } => (&["SET"], "changing a set"),
        Op::Log(_) => (&["LOG", "log"], "this log"),
    };
    Culprit::new(words, what, "leave it to the rules of that system")
}

/// An answer.
pub fn of_answer(kind: RejectKind) -> Culprit {
    let words: &'static [&'static str] = &[
        "--reject-with",
        "REJECT",
        "return-icmp",
        "return-rst",
        "unreach6",
        "unreach",
        "reset6",
        "reset",
        "reject",
    ];
    let what = match kind {
        RejectKind::TcpReset => "a reset".to_owned(),
        RejectKind::Icmp(code) => format!("an answer of ICMP unreachable, code {code},"),
        RejectKind::Icmp6(code) => format!("an answer of ICMPv6 unreachable, code {code},"),
        RejectKind::IcmpAsDestination(_) | RejectKind::Icmp6AsDestination(_) => {
            "an answer in the name of the destination".to_owned()
        }
        RejectKind::FragmentationNeeded(_) => "an answer with an MTU".to_owned(),
    };
    Culprit::new(words, what, "choose an answer that both languages have")
}
