//! The state table: who belongs to which entry, through which interface, for how long.
//!
//! In: packets. Out: the entry that a packet belongs to, or none. An entry has four interface
//! slots, forward and reverse, in and out; each is filled by the first packet seen there and fixed
//! from then on. Newer entries are looked at first. Source: behaviour of 5.1.2.

use super::packet::IpfPacket;
use super::tcp::{self, Fit, Machine};
use super::{Flags, Settings};
use crate::dialect::ipf::words::attribute;
use crate::model::Family;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;

/// Attributes that must repeat within one direction.
const REPEATED: u32 = attribute::IPOPTS
    | attribute::MCAST
    | attribute::BCAST
    | attribute::MBCAST
    | attribute::BAD_SRC
    | attribute::LOWTTL
    | attribute::V6HDRS
    | attribute::AH;
/// Of packets that an ICMP error quotes, only these are compared.
const REPEATED_QUOTED: u32 = attribute::IPOPTS | attribute::AH;

/// One entry.
#[derive(Clone, Debug)]
pub struct State {
    /// Its number, never used twice.
    pub number: u64,
    /// Family.
    pub family: Family,
    /// Protocol.
    pub proto: u8,
    /// Who began.
    pub source: u128,
    /// With whom.
    pub destination: u128,
    /// Ports, of TCP and UDP.
    pub ports: (u16, u16),
    /// Type and identifier of the query, of ICMP.
    pub icmp: (u8, u16),
    /// The destination is not yet known (the first packet went to many).
    pub open_destination: bool,
    /// Names: in forward, in reverse, out forward, out reverse.
    pub interfaces: [Option<String>; 4],
    /// The rule that made it.
    pub rule: usize,
    /// The number of that rule in its list.
    pub rule_number: u32,
    /// The flag word of that rule.
    pub flags: Flags,
    /// TCP's own.
    pub machine: Machine,
    /// Packets and bytes: in forward, out forward, in reverse, out reverse.
    pub counts: [(u64, u64); 4],
    icmp_packets: [u64; 4],
    options: [Option<(u32, u16)>; 2],
    classes: u8,
    seen: [[Option<u32>; 2]; 2],
    /// Lifetimes of the rule, in milliseconds.
    pub age_ms: Option<(u64, u64)>,
    /// When it ends.
    pub expires_ms: u64,
    /// The tag of its records.
    pub tag: Option<u32>,
    /// The HP-UX limit entry it counts for.
    pub limit: Option<usize>,
}

/// A packet that belongs to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Index of the entry.
    pub at: usize,
    /// Whether it goes the other way.
    pub reverse: bool,
}

/// Something that happened to an entry.
#[derive(Clone, Debug)]
pub enum Event {
    /// It was made.
    New(State),
    /// It is gone: time was up.
    Expire(State),
}

/// All entries.
#[derive(Clone, Debug, Default)]
pub struct Table {
    entries: Vec<State>,
    next_number: u64,
    /// What happened, for the log.
    pub events: Vec<Event>,
}

impl Table {
    /// The entries, oldest first.
    #[must_use]
    pub fn entries(&self) -> &[State] {
        &self.entries
    }

    /// The entry at an index.
    #[must_use]
    pub fn get(&self, at: usize) -> &State {
        &self.entries[at]
    }

    /// The entry at an index, to change it.
    pub fn get_mut(&mut self, at: usize) -> &mut State {
        &mut self.entries[at]
    }

    /// Takes out what is over.
    pub fn expire(&mut self, now_ms: u64) {
        self.remove_where(|entry| entry.expires_ms <= now_ms);
    }

    /// What the original's test program does behind each packet: closing TCP entries go.
    pub fn flush_closing(&mut self) {
        self.remove_where(|entry| {
            entry.proto == TCP
                && match entry.age_ms {
                    None => entry.machine.queue > tcp::ESTABLISHED,
                    Some(_) => entry.machine.states.iter().all(|s| *s > tcp::ESTABLISHED),
                }
        });
    }

    fn remove_where(&mut self, gone: impl Fn(&State) -> bool) {
        if !self.entries.iter().any(&gone) {
            return;
        }
        let (out, kept) = std::mem::take(&mut self.entries)
            .into_iter()
            .partition(gone);
        self.entries = kept;
        let out: Vec<State> = out;
        self.events.extend(out.into_iter().map(Event::Expire));
    }

    /// Adds an entry for a packet.
    pub fn add(&mut self, packet: &IpfPacket, attributes: u32, new: NewState) -> usize {
        let icmp = packet
            .icmp
            .as_ref()
            .map_or((0, 0), |icmp| (icmp.kind, icmp.id));
        let many = attribute::MCAST | attribute::BCAST | attribute::MBCAST;
        let open = match packet.family {
            Family::V4 => attributes & many != 0,
            Family::V6 => packet.proto == ICMPV6 && packet.destination >> 120 == 0xff,
        };
        let out = usize::from(packet.out);
        let mut counts = [(0, 0); 4];
        counts[out] = (1, u64::from(packet.length));
        let mut seen = [[None; 2]; 2];
        seen[out][0] = Some(noted(packet, attributes));
        self.next_number += 1;
        let mut state = State {
            number: self.next_number,
            family: packet.family,
            proto: packet.proto,
            source: packet.source,
            destination: packet.destination,
            ports: packet.ports.unwrap_or_default(),
            icmp,
            open_destination: open,
            interfaces: new.interfaces,
            rule: new.rule,
            rule_number: new.rule_number,
            flags: new.flags,
            machine: Machine::default(),
            counts,
            icmp_packets: [0; 4],
            options: [Some((packet.options, headers_of(packet))), None],
            classes: packet.classes,
            seen,
            age_ms: new.age_ms,
            expires_ms: 0,
            tag: new.tag,
            limit: new.limit,
        };
        if let Some(tcp) = &packet.tcp {
            state.machine = Machine::begin(tcp, packet.data);
            state.machine.strict = new.strict;
            state.machine.loose = new.loose;
            state.machine.age(tcp, packet.data, false);
        }
        state.expires_ms = new
            .now_ms
            .saturating_add(lifetime(&state, false, &new.lifetimes));
        self.events.push(Event::New(state.clone()));
        self.entries.push(state);
        self.entries.len() - 1
    }

    /// The entry that a packet belongs to. A TCP packet outside the window gets its mark.
    pub fn find(
        &mut self,
        packet: &IpfPacket,
        attributes: &mut u32,
        now_ms: u64,
        settings: &Settings,
    ) -> Option<Hit> {
        let mut outside = 0;
        for at in (0..self.entries.len()).rev() {
            let entry = &mut self.entries[at];
            if entry.proto != packet.proto || entry.family != packet.family {
                continue;
            }
            // What another identifier names is looked for elsewhere, and not even compared.
            if packet.icmp.as_ref().is_some_and(|icmp| {
                let own = named_id(entry.family, entry.icmp.0, entry.icmp.1);
                own != named_id(packet.family, icmp.kind, icmp.id)
            }) {
                continue;
            }
            let Some(reverse) = entry.matches(packet, *attributes, REPEATED) else {
                continue;
            };
            match packet.proto {
                ICMP | ICMPV6 if !entry.pairs(packet, reverse) => continue,
                TCP => {
                    let Some(tcp) = &packet.tcp else { continue };
                    match entry.machine.step(tcp, packet.data, reverse) {
                        Fit::Inside => {}
                        Fit::Outside => {
                            outside = attribute::OOW;
                            continue;
                        }
                        Fit::Wrong => continue,
                    }
                }
                _ => {}
            }
            entry.count(packet, reverse);
            let life = lifetime(entry, reverse, &settings.lifetimes);
            if entry.proto != TCP || !entry.machine.kept_time {
                entry.expires_ms = now_ms.saturating_add(life);
            }
            return Some(Hit { at, reverse });
        }
        *attributes |= outside;
        None
    }

    /// The entries, newest first, whose traffic an ICMP error speaks of.
    pub fn of_error(&mut self, packet: &IpfPacket) -> Vec<Hit> {
        let quoted = packet.icmp.as_ref().and_then(|icmp| icmp.about.as_deref());
        let Some(quoted) = quoted else {
            return Vec::new();
        };
        if quoted.icmp.as_ref().is_some_and(|icmp| icmp.error) {
            return Vec::new();
        }
        let known = match packet.family {
            Family::V4 => matches!(quoted.proto, ICMP | TCP | UDP),
            Family::V6 => matches!(quoted.proto, ICMPV6 | TCP | UDP),
        };
        if !known {
            return Vec::new();
        }
        let mut hits = Vec::new();
        for at in (0..self.entries.len()).rev() {
            let entry = &mut self.entries[at];
            if entry.proto != quoted.proto || entry.family != quoted.family {
                continue;
            }
            // The error goes the other way than the packet that it quotes.
            let mut quoted = quoted.clone();
            quoted.out = !packet.out;
            quoted.interface.clone_from(&packet.interface);
            let queries = matches!(quoted.proto, ICMP | ICMPV6);
            let id = quoted.icmp.as_ref().map(|icmp| icmp.id);
            if queries && id.is_some_and(|id| id != entry.icmp.1) {
                continue;
            }
            if entry
                .matches(&quoted, quoted.attributes, REPEATED_QUOTED)
                .is_some()
            {
                // Backward: the quoted packet went from the destination to the source.
                let backward = entry.source != quoted.source;
                hits.push(Hit {
                    at,
                    reverse: !backward,
                });
            }
        }
        hits
    }

    /// Lets an ICMP error belong to an entry, unless it had more errors than packets.
    pub fn allow_error(&mut self, hit: Hit, packet: &IpfPacket) -> bool {
        let entry = &mut self.entries[hit.at];
        let backward = usize::from(!hit.reverse);
        let out = usize::from(packet.out);
        let own = (1 - backward) * 2 + out;
        let original = backward * 2 + (1 - out);
        if entry.icmp_packets[own] > entry.counts[original].0 {
            return false;
        }
        entry.icmp_packets[own] += 1;
        entry.count(packet, hit.reverse);
        true
    }
}

/// What makes an entry, beside its first packet.
#[derive(Clone, Debug)]
pub struct NewState {
    /// The rule.
    pub rule: usize,
    /// Its number in its list.
    pub rule_number: u32,
    /// Its flag word.
    pub flags: Flags,
    /// Interface slots.
    pub interfaces: [Option<String>; 4],
    /// `strict`
    pub strict: bool,
    /// `loose`
    pub loose: bool,
    /// Lifetimes of the rule.
    pub age_ms: Option<(u64, u64)>,
    /// Tag of its records.
    pub tag: Option<u32>,
    /// The HP-UX limit entry.
    pub limit: Option<usize>,
    /// The time.
    pub now_ms: u64,
    /// Lifetimes of all.
    pub lifetimes: crate::model::Lifetimes,
}

fn headers_of(packet: &IpfPacket) -> u16 {
    // A fragment header may come and go within a conversation.
    packet.headers & !crate::dialect::ipf::words::header_bit(44)
}

/// The attributes that the next packet of this direction must repeat; never 0 for TCP and UDP.
fn noted(packet: &IpfPacket, attributes: u32) -> u32 {
    let kind = if packet.is_tcp_or_udp() { 1 << 31 } else { 0 };
    attributes & REPEATED | kind
}

/// The identifier, where it is part of an ICMP entry's name: that of IPv4 queries and of echo.
fn named_id(family: Family, kind: u8, id: u16) -> u16 {
    let named = match family {
        Family::V4 => matches!(kind, 0 | 8 | 13..=18),
        Family::V6 => matches!(kind, 128 | 129),
    };
    if named { id } else { 0 }
}

/// How long an entry lives from now on.
fn lifetime(entry: &State, reverse: bool, lifetimes: &crate::model::Lifetimes) -> u64 {
    if let Some((forward, back)) = entry.age_ms {
        return if reverse { back } else { forward };
    }
    match entry.proto {
        TCP => lifetimes.tcp[entry.machine.queue as usize],
        UDP if reverse => lifetimes.udp_reply,
        UDP => lifetimes.udp,
        ICMP | ICMPV6 if reverse => lifetimes.icmp_reply,
        ICMP | ICMPV6 => lifetimes.icmp,
        _ => lifetimes.other,
    }
}

impl State {
    /// Whether a packet fits addresses, ports, interface and options, and if it does, whether it
    /// goes the other way.
    fn matches(&mut self, packet: &IpfPacket, attributes: u32, compared: u32) -> Option<bool> {
        let with_ports = matches!(self.proto, TCP | UDP);
        let ports = packet.ports.unwrap_or_default();
        let reverse = packet.destination != self.destination || with_ports && ports != self.ports;
        let slot = usize::from(packet.out) * 2 + usize::from(reverse);
        let fits = match self.interfaces[slot].as_deref() {
            None | Some("*" | "-") => true,
            Some(name) => name == packet.interface,
        };
        if !fits || !self.addresses_fit(packet, reverse) {
            return None;
        }
        let expected = if reverse {
            (self.ports.1, self.ports.0)
        } else {
            self.ports
        };
        if with_ports && ports != expected {
            return None;
        }
        let seen = self.seen[usize::from(packet.out)][usize::from(reverse)];
        let now = noted(packet, attributes);
        let mask = compared | 1 << 31;
        if seen.is_some_and(|seen| seen != 0 && seen & mask != now & mask) {
            return None;
        }
        let options = (packet.options, headers_of(packet));
        if self.options[usize::from(reverse)].is_some_and(|known| known != options)
            || packet.classes != self.classes
        {
            return None;
        }
        if self.open_destination && (reverse || attributes & attribute::MBCAST == 0) {
            let known = if reverse {
                packet.source
            } else {
                packet.destination
            };
            self.destination = known;
            self.open_destination = false;
        }
        let seen = &mut self.seen[usize::from(packet.out)][usize::from(reverse)];
        if seen.unwrap_or(0) == 0 {
            *seen = Some(now);
            if reverse && self.options[1].is_none() {
                self.options[1] = Some(options);
            }
        }
        if matches!(self.interfaces[slot].as_deref(), None | Some("*")) {
            self.interfaces[slot] = Some(packet.interface.clone());
        }
        Some(reverse)
    }

    fn addresses_fit(&self, packet: &IpfPacket, reverse: bool) -> bool {
        let (near, far) = match reverse {
            false => (packet.source, packet.destination),
            true => (packet.destination, packet.source),
        };
        near == self.source && (far == self.destination || self.open_destination)
    }

    /// Whether an ICMP packet is the query again or its reply.
    fn pairs(&self, packet: &IpfPacket, reverse: bool) -> bool {
        let Some(icmp) = &packet.icmp else {
            return false;
        };
        let (kind, id) = self.icmp;
        let reply = match (packet.family, kind) {
            (Family::V4, 8) => Some(0),
            (Family::V4, 13 | 15 | 17) => Some(kind + 1),
            (Family::V6, 128) => Some(129),
            (Family::V6, 130) => Some(131),
            (Family::V6, 133 | 135) => Some(kind + 1),
            (Family::V6, 139) => Some(140),
            _ => None,
        };
        let with_id = packet.family == Family::V4 || kind == 128;
        let fits = match reverse {
            false => icmp.kind == kind,
            true => Some(icmp.kind) == reply,
        };
        fits && (!with_id || icmp.id == id)
    }

    fn count(&mut self, packet: &IpfPacket, reverse: bool) {
        let counts = &mut self.counts[usize::from(reverse) * 2 + usize::from(packet.out)];
        counts.0 += 1;
        counts.1 += u64::from(packet.length);
    }
}
