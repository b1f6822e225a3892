//! Headers that end early, for whom ([`Reading`]), and what each language makes of them.
//!
//! In: the language as which packets are read. Out: packets whose transport header it can read,
//! drops for being cut short, or leaves alone. [`Field::Short`] has a bit for each language, and
//! [`Field::Malformed`] says how a TCP header is wrong; which values go together stands in one
//! table here, so that a packet that one language reads and another drops is a packet that exists.

use super::diagram::{NO, Node, TooLarge, YES};
use super::field::Field;
use super::space::{Header, ICMP, SCTP, Space, TCP};
use crate::model::{Family, Policy, RangeSet, Reading};

const UDP: u8 = 17;
const DCCP: u8 = 33;
const GRE: u8 = 47;
const ESP: u8 = 50;
const AH: u8 = 51;
/// No next header.
const NONE: u8 = 59;
const MOBILITY: u8 = 135;
const UDPLITE: u8 = 136;
/// IPv6 extension headers: the protocol only of a packet whose chain of headers is cut short.
const EXTENSIONS: [u8; 5] = [0, 43, 44, AH, 60];

/// Bits of [`Field::Short`].
const LINUX: u128 = 1;
const IPF: u128 = 2;
const IPFW: u128 = 4;
/// IPFilter finds an IPv6 extension header that can't be, and nothing behind it.
const CHAIN: u128 = 8;
/// Neither reads it.
const BOTH: u128 = LINUX | IPFW;
/// Nobody does.
const ALL: u128 = LINUX | IPF | IPFW;

/// A value of [`Field::Malformed`]: the TCP header is longer than its packet, or chunks of SCTP
/// end before it does.
pub const TOO_LONG: u128 = 1;
/// The TCP header is shorter than it may be.
const TOO_SHORT: u128 = 2;

/// The bit of a language.
pub(super) fn bit(reading: Reading) -> u128 {
    match reading {
        Reading::Linux => LINUX,
        Reading::Ipf => IPF,
        Reading::Ipfw => IPFW,
    }
}

/// The bits that matter between policies. What IPFilter leaves alone of UDP is cut for Linux.
pub(super) fn bits(policies: &[&Policy]) -> u128 {
    policies.iter().fold(0, |all, policy| {
        all | match policy.reading {
            Reading::Ipf => LINUX | IPF | CHAIN,
            reading => bit(reading),
        }
    })
}

/// Protocols, and for whom their headers can be cut short in a packet or first fragment.
type Row = (&'static [u8], &'static [u128]);
/// The last row is for all other protocols.
type Rows = &'static [Row];

const V4: Rows = &[
    // Options that are cut are IPFilter's business alone.
    (&[TCP], &[0, IPF, ALL]),
    // Below four bytes there are no ports for IPFilter.
    (&[UDP], &[0, BOTH, ALL]),
    (&[SCTP], &[0, BOTH]),
    (&[UDPLITE], &[0, BOTH]),
    (&[DCCP, ICMP[1]], &[0, LINUX]),
    // ipfw needs four bytes, others eight.
    (&[ICMP[0]], &[0, LINUX | IPF, ALL]),
    (&[ESP], &[0, LINUX | IPF]),
    // Its own header for Linux, what is behind it for IPFilter.
    (&[AH], &[0, LINUX, IPF]),
    (&[GRE], &[0, IPF]),
    (&[], &[0]),
];

/// Without a payload any packet is one that IPFilter drops.
const V6: Rows = &[
    (&[TCP], &[0, IPF, ALL]),
    (&[SCTP], &[0, BOTH, ALL]),
    (&[UDP, UDPLITE], &[0, BOTH, ALL]),
    (&[DCCP, ICMP[0]], &[0, LINUX, BOTH, ALL]),
    (&[ICMP[1]], &[0, ALL]),
    (&[ESP], &[0, LINUX | IPF, ALL]),
    (&EXTENSIONS, &[BOTH, ALL]),
    (&[GRE], &[0, IPF, IPF | IPFW]),
    (&[NONE], &[0, IPF]),
    (&[], &[0, IPFW, IPF | IPFW]),
];

/// RFC 3128: a later fragment of IPv4's TCP that begins inside the header.
const TINY: &[u128] = &[0, BOTH];

fn rows(family: Family) -> Rows {
    match family {
        Family::V4 => V4,
        Family::V6 => V6,
    }
}

/// The value of [`Field::Short`] of a packet that a language drops for it, as few others as can be
/// do.
pub(super) fn short_for(reading: Reading, family: Family, proto: u8, later: bool) -> u128 {
    let row = || {
        let all = rows(family);
        let own = all.iter().find(|(protocols, _)| protocols.contains(&proto));
        own.or(all.last()).map_or(&[0][..], |row| row.1)
    };
    let values = if later { TINY } else { row() };
    let dropped = values.iter().find(|value| *value & bit(reading) != 0);
    dropped.copied().unwrap_or(bit(reading))
}

/// Protocols whose transport header a language reads.
fn read(reading: Reading, header: Header, family: Family) -> &'static [u8] {
    match (header, reading, family) {
        (Header::Ports, Reading::Linux, _) => &[TCP, UDP, DCCP, SCTP, UDPLITE],
        (Header::Ports, Reading::Ipf, _) => &[TCP, UDP],
        (Header::Ports, Reading::Ipfw, _) => &[TCP, UDP, SCTP, UDPLITE],
        (Header::Tcp, ..) => &[TCP],
        (Header::Sctp, ..) => &[SCTP],
        (Header::Icmp, Reading::Linux, _) => &ICMP,
        (Header::Icmp, _, Family::V4) => &ICMP.as_slice()[..1],
        (Header::Icmp, _, Family::V6) => &ICMP.as_slice()[1..],
        (Header::Spi, Reading::Linux, _) => &[ESP, AH],
        (Header::Spi, ..) => &[],
    }
}

/// Whether a language reads the transport header of a packet that isn't cut short for it.
pub(super) fn reads(reading: Reading, family: Family, proto: u8, short: u128) -> bool {
    // Of UDP with fewer than four bytes IPFilter takes nothing, and drops nothing.
    let few = proto == UDP && short & LINUX != 0;
    let bare = reading == Reading::Ipf && (few || short & CHAIN != 0);
    let all = [Header::Ports, Header::Icmp, Header::Spi];
    let reads = |header| read(reading, header, family).contains(&proto);
    reading == Reading::Linux || !bare && all.into_iter().any(reads)
}

/// The protocol that IPFilter has for a packet that others see as one of this protocol: behind a
/// chain of headers that is broken there is nothing, and so it is behind a mobility header (RFC
/// 6275 section 6.1.1), which is a part of the chain.
pub(super) fn proto_for(
    reading: Reading,
    family: Family,
    (later, short): (bool, u128),
    proto: u8,
) -> u8 {
    let chain = short & CHAIN != 0 || EXTENSIONS.contains(&proto) || proto == MOBILITY;
    match reading == Reading::Ipf && family == Family::V6 && !later && chain {
        true => NONE,
        false => proto,
    }
}

impl Space {
    /// Packets are read as a language reads them, until this is called again.
    pub fn read_as(&mut self, reading: Reading) {
        self.reading = reading;
    }

    fn first(&mut self) -> Result<Node, TooLarge> {
        self.diagram.among(Field::Fragment, &[(0, 1), (3, 3)])
    }

    /// The last value of [`Field::Fragment`]: where nobody tells whole packets with a fragment
    /// header from others, there are none.
    pub(super) fn places(&self) -> u128 {
        match self.family == Family::V6 && self.cuts & IPF != 0 {
            true => 3,
            false => 2,
        }
    }

    /// Packets in one of these places of a datagram: bits 1 whole, 2 first fragment, 4 later. One
    /// that has a fragment header and is whole is a first fragment to IPFilter.
    pub(super) fn placed(&mut self, bits: u8) -> Result<Node, TooLarge> {
        let mut kinds: Vec<(u128, u128)> = (0..3u128)
            .filter(|kind| bits >> kind & 1 != 0)
            .map(|kind| (kind, kind))
            .collect();
        let like = match self.reading {
            Reading::Ipf => 2,
            Reading::Linux | Reading::Ipfw => 1,
        };
        if bits & like != 0 {
            kinds.push((3, 3));
        }
        self.diagram.among(Field::Fragment, &kinds)
    }

    /// Packets of one of these protocols.
    pub(super) fn of_protocols(&mut self, ranges: &[(u128, u128)]) -> Result<Node, TooLarge> {
        let named = self.diagram.among(Field::Proto, ranges)?;
        if self.reading != Reading::Ipf || self.family == Family::V4 {
            return Ok(named);
        }
        let chain = self.protocols(&[&EXTENSIONS[..], &[MOBILITY]].concat())?;
        let broken = self.diagram.masked(Field::Short, CHAIN, CHAIN)?;
        let chain = self.diagram.or(chain, broken)?;
        let first = self.first()?;
        let chain = self.diagram.and(chain, first)?;
        let none = u128::from(NONE);
        match ranges
            .iter()
            .any(|range| (range.0..=range.1).contains(&none))
        {
            true => self.diagram.or(named, chain),
            false => self.diagram.without(named, chain),
        }
    }

    /// Packets whose transport header is there and whole, and read.
    pub fn readable(&mut self, header: Header) -> Result<Node, TooLarge> {
        let (reading, family) = (self.reading, self.family);
        let mut protocols = self.protocols(read(reading, header, family))?;
        if reading == Reading::Ipf && header == Header::Ports {
            let udp = self.protocols(&[UDP])?;
            let few = self.diagram.masked(Field::Short, LINUX, LINUX)?;
            let bare = self.diagram.and(udp, few)?;
            protocols = self.diagram.without(protocols, bare)?;
        }
        let first = self.first()?;
        let wrong = match reading {
            Reading::Ipf => IPF | CHAIN,
            reading => bit(reading),
        };
        let whole = self.diagram.masked(Field::Short, 0, wrong)?;
        let there = self.diagram.and(first, whole)?;
        self.diagram.and(protocols, there)
    }

    /// The rows, each with the packets of its protocols.
    fn rows(&mut self) -> Result<Vec<(Node, Row)>, TooLarge> {
        let mut others = YES;
        let mut out = Vec::new();
        for row in rows(self.family) {
            let such = match row.0 {
                [] => others,
                protocols => self.protocols(protocols)?,
            };
            others = self.diagram.without(others, such)?;
            out.push((such, *row));
        }
        Ok(out)
    }

    /// Packets whose transport header is cut short.
    pub fn short(&mut self) -> Result<Node, TooLarge> {
        let bit = bit(self.reading);
        let mut possible = NO;
        let first = self.first()?;
        for (such, (_, values)) in self.rows()? {
            if values.iter().any(|value| value & bit != 0) {
                let such = self.diagram.and(such, first)?;
                possible = self.diagram.or(possible, such)?;
            }
        }
        if self.family == Family::V4 && TINY[1] & bit != 0 {
            let tiny = self.tiny()?;
            possible = self.diagram.or(possible, tiny)?;
        }
        let short = self.diagram.masked(Field::Short, bit, bit)?;
        self.diagram.and(possible, short)
    }

    fn tiny(&mut self) -> Result<Node, TooLarge> {
        let tcp = self.protocols(&[TCP])?;
        let later = self.diagram.is(Field::Fragment, 2)?;
        self.diagram.and(tcp, later)
    }

    /// Packets with something impossible in what a test reads: the length of a TCP header, SCTP
    /// chunks that end before the packet does.
    pub fn malformed(&mut self) -> Result<Node, TooLarge> {
        let (tcp, sctp) = (self.readable(Header::Tcp)?, self.readable(Header::Sctp)?);
        let either = self.diagram.or(tcp, sctp)?;
        let malformed = self
            .diagram
            .among(Field::Malformed, &[(TOO_LONG, TOO_SHORT)])?;
        self.diagram.and(either, malformed)
    }

    /// Packets of whose TCP flags this is what they say: IPFilter takes none from a header that is
    /// shorter than it may be. `none`: whether no flags are among what is wanted.
    pub(super) fn flags_read(&mut self, flags: Node, none: bool) -> Result<Node, TooLarge> {
        if self.reading != Reading::Ipf {
            return Ok(flags);
        }
        let unread = self.diagram.is(Field::Malformed, TOO_SHORT)?;
        match none {
            true => self.diagram.or(flags, unread),
            false => self.diagram.without(flags, unread),
        }
    }

    /// Packets that nobody reads otherwise than the others for where they end: their transport
    /// headers are whole, and so is a TCP header by its own length where IPFilter is among them.
    pub fn whole_headers(&mut self) -> Result<Node, TooLarge> {
        let whole = self.diagram.is(Field::Short, 0)?;
        if !self.ipf_and_another {
            return Ok(whole);
        }
        let tcp = self.protocols(&[TCP])?;
        let right = self.diagram.is(Field::Malformed, 0)?;
        let wrong = self.diagram.without(tcp, right)?;
        self.diagram.without(whole, wrong)
    }

    /// [`CHAIN`] where it matters, nothing elsewhere.
    fn chains(&self) -> u128 {
        match self.family {
            Family::V4 => 0,
            Family::V6 => self.cuts & CHAIN,
        }
    }

    /// The values of [`Field::Short`] that packets can have here.
    fn cuts_possible(&self) -> Vec<u128> {
        let chains = self.chains();
        let of_rows = rows(self.family).iter().flat_map(|row| row.1);
        let all = of_rows
            .chain(TINY)
            .flat_map(|value| [*value, value & !IPF | chains]);
        all.map(|value| value & self.cuts).collect()
    }

    /// The values that a field can have here, where not all of its bits are in use.
    pub(super) fn possible(&self, field: Field) -> Option<Vec<(u128, u128)>> {
        let values = match field {
            Field::Short => self.cuts_possible(),
            Field::Malformed if self.cuts & IPF != 0 => vec![0, TOO_LONG, TOO_SHORT],
            Field::Malformed => vec![0, TOO_LONG],
            Field::Fragment => (0..=self.places()).collect(),
            _ => return None,
        };
        let ranges = values.into_iter().map(|value| (value, value));
        Some(RangeSet::from_ranges(ranges).ranges().to_vec())
    }

    /// The bit of the only language whose cuts there are; `None` between languages.
    fn alone(&self) -> Option<u128> {
        match self.cuts {
            LINUX | IPFW => Some(self.cuts),
            _ if self.cuts & IPF != 0 && !self.ipf_and_another => Some(IPF),
            _ => None,
        }
    }

    /// Whether these values of [`Field::Short`] are just those of whole headers.
    pub fn is_whole(&self, values: &[u128]) -> bool {
        let own = self.alone().unwrap_or(ALL | CHAIN);
        values.contains(&0) && values.iter().all(|value| value & own == 0)
    }

    /// Values of [`Field::Short`] in words.
    pub fn cut_in_words(&self, values: &[u128]) -> String {
        let mut words = Vec::new();
        if values.contains(&0) {
            words.push("transport header whole".to_owned());
        }
        if let Some(own) = self.alone() {
            if words.is_empty() && values.iter().any(|value| value & own == 0) {
                words.push("transport header not there".to_owned());
            }
            if values.iter().any(|value| value & own != 0) {
                words.push("transport header cut short".to_owned());
            }
            return words.join(" or ");
        }
        let languages = [(LINUX, "Linux"), (IPF, "IPFilter"), (IPFW, "ipfw")];
        for value in values.iter().filter(|value| **value != 0) {
            let of = languages.iter().filter(|(bit, _)| value & bit != 0);
            let names: Vec<&str> = of.map(|(_, name)| *name).collect();
            let word = match (value & CHAIN, value & ALL == self.cuts & ALL) {
                (0, true) => "transport header cut short".to_owned(),
                (0, false) => format!("transport header cut short for {}", names.join(" and ")),
                _ => "IPv6 headers broken for IPFilter".to_owned(),
            };
            if !words.contains(&word) {
                words.push(word);
            }
        }
        words.join(" or ")
    }

    /// Packets by whom they are cut short for, and how their headers are wrong.
    pub(super) fn short_or_whole(&mut self) -> Result<Node, TooLarge> {
        let first = self.first()?;
        let later = self.diagram.is(Field::Fragment, 2)?;
        let mut all = NO;
        for (such, (protocols, values)) in self.rows()? {
            let such = self.diagram.and(such, first)?;
            let chains = self.chains();
            for value in values
                .iter()
                .flat_map(|value| [*value, value & !IPF | chains])
            {
                let one = self.cut(value, protocols)?;
                let one = self.diagram.and(such, one)?;
                all = self.diagram.or(all, one)?;
            }
        }
        let plain = self.cut(0, &[])?;
        let rest = self.diagram.and(later, plain)?;
        all = self.diagram.or(all, rest)?;
        if self.family == Family::V4 {
            let tiny = self.tiny()?;
            let cut = self.cut(TINY[1], &[])?;
            let tiny = self.diagram.and(tiny, cut)?;
            all = self.diagram.or(all, tiny)?;
        }
        Ok(all)
    }

    /// Packets that are cut short for these, as far as that matters here, with headers that are
    /// wrong as they can be then.
    fn cut(&mut self, value: u128, protocols: &[u8]) -> Result<Node, TooLarge> {
        let short = self.diagram.is(Field::Short, value & self.cuts)?;
        let how = match (value & !CHAIN, protocols) {
            (0, [TCP]) if self.cuts & IPF != 0 => (0, TOO_SHORT),
            (0, [TCP]) => (0, TOO_LONG),
            (0, [SCTP]) => (0, TOO_LONG),
            (IPF, [TCP]) => (TOO_LONG, TOO_LONG),
            _ => (0, 0),
        };
        let wrong = self.diagram.among(Field::Malformed, &[how])?;
        self.diagram.and(short, wrong)
    }
}
