//! What was typed about a packet, each with its place, and its completion to a whole packet.
//!
//! In: the fields that `parse` collected. Out: a [`Spec`]. Contradictions (ports on ICMP, IPv4 to
//! IPv6, flags without TCP) are errors at the word that can't hold.

use super::{Spec, SpecError};
use std::net::IpAddr;
use weir_policy::model::{
    CtState, Facts, Family, Fragment, Hook, Packet, PacketType, Reading, SctpChunk, Transport,
};

const TCP: u8 = 6;
const UDP_LIKE: [u8; 3] = [17, 136, 33];
const SCTP: u8 = 132;
const ICMP: u8 = 1;
const ICMP6: u8 = 58;
const SPI: [u8; 2] = [51, 50];
/// Source port of a packet whose spec names none: an ephemeral one.
const EPHEMERAL: u16 = 40_000;

/// A value and the byte range where it was written.
#[derive(Clone, Debug)]
pub struct Placed<T> {
    pub value: T,
    pub start: usize,
    pub length: usize,
}

/// An address with an optional port.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    pub address: IpAddr,
    pub port: Option<u16>,
}

/// Everything that a specification may say.
#[derive(Default)]
pub struct Draft {
    pub proto: Option<Placed<u8>>,
    pub source: Option<Placed<Endpoint>>,
    pub destination: Option<Placed<Endpoint>>,
    pub in_iface: Option<Placed<String>>,
    pub out_iface: Option<Placed<String>>,
    pub hook: Option<Placed<Hook>>,
    pub state: Option<Placed<CtState>>,
    pub flags: Option<Placed<u8>>,
    pub icmp: Option<Placed<String>>,
    pub fragment: Option<Placed<Fragment>>,
    pub mac: Option<Placed<[u8; 6]>>,
    pub packet_type: Option<Placed<PacketType>>,
    pub handling: Option<Placed<u16>>,
    pub groups: Option<Placed<Vec<u32>>>,
    pub bridge: Option<Placed<[String; 2]>>,
    pub payload: Option<Placed<String>>,
    /// Plain numbers: `mark`, `ttl`, `len` ... by key.
    pub numbers: Vec<(&'static str, Placed<u64>)>,
}

impl Draft {
    /// The value of a plain number.
    fn number(&self, key: &str) -> Option<&Placed<u64>> {
        self.numbers.iter().find(|n| n.0 == key).map(|n| &n.1)
    }

    fn number_or(&self, key: &str, default: u64) -> u64 {
        self.number(key).map_or(default, |n| n.value)
    }

    /// Completes the packet.
    pub fn finish(self, text: &str) -> Result<Spec, SpecError> {
        let (source, destination, family) = self.endpoints(text)?;
        let proto = self.protocol(text, family)?;
        self.check_owned_fields(text, proto)?;
        let fragment = self.fragment.as_ref().map_or(Fragment::Whole, |f| f.value);
        let transport = match fragment {
            Fragment::Later(_) => self.no_transport(text)?,
            _ => self.transport(text, proto, source, destination)?,
        };
        let header = match family {
            Family::V4 => 20,
            Family::V6 => 40,
        };
        let tos = match self.number("dscp") {
            Some(dscp) => dscp.value << 2,
            None => self.number_or("tos", 0),
        };
        let owner = (self.number("uid").is_some() || self.number("gid").is_some())
            .then(|| (self.number_or("uid", 0), self.number_or("gid", 0)));
        let hook = self.hook.as_ref().map(|h| h.value);
        let in_iface = self.in_iface.as_ref().map_or("", |i| &i.value).to_owned();
        let out_iface = self.out_iface.as_ref().map_or("", |i| &i.value).to_owned();
        self.check_interfaces(text, hook)?;
        let way = hook.unwrap_or(match (in_iface.is_empty(), out_iface.is_empty()) {
            (false, false) => Hook::Forward,
            (true, false) => Hook::Output,
            _ => Hook::Input,
        });
        let outgoing = matches!(way, Hook::Output | Hook::Postrouting) && in_iface.is_empty();
        let packet = Packet {
            family,
            hook: way,
            in_iface,
            out_iface,
            src: value(source.address),
            dst: value(destination.address),
            proto,
            length: self.number_or("len", header + transport_length(&transport)) as u32,
            ttl: self.number_or("ttl", 64) as u8,
            tos: tos as u8,
            fragment,
            transport,
            routing: None,
            mark: self.number_or("mark", 0) as u32,
            mac: self.mac.as_ref().map(|m| m.value),
            packet_type: match (&self.packet_type, outgoing) {
                (Some(kind), _) => kind.value,
                (None, true) => PacketType::Outgoing,
                (None, false) => PacketType::Unicast,
            },
            owner: owner.map(|(uid, gid)| (uid as u32, gid as u32)),
            handling: self.handling.as_ref().map_or(0, |h| h.value),
            aside: self.facts(),
        };
        let packet = self.with_bytes(packet);
        Ok(Spec {
            packet,
            hook,
            state: self.state.as_ref().map(|s| s.value),
            connmark: self.number("connmark").map(|n| n.value as u32),
        })
    }

    /// What is said of the packet beside its headers.
    fn facts(&self) -> Facts {
        let number = |key| self.number_or(key, 0) as u32;
        let class = self.number("class").map(|class| class.value as u32);
        Facts {
            socket: class.is_some(),
            groups: self
                .groups
                .as_ref()
                .map_or_else(Vec::new, |g| g.value.clone()),
            class,
            control_groups: Vec::new(),
            cpu: number("cpu"),
            device_groups: [number("in-group"), number("out-group")],
            realm: number("realm"),
            ports: self.bridge.as_ref().map(|ports| ports.value.clone()),
            ..Facts::default()
        }
    }

    /// The packet with its bytes, where it can be written: a payload makes it longer.
    fn with_bytes(&self, mut packet: Packet) -> Packet {
        let payload = self.payload.as_ref().map_or("", |payload| &payload.value);
        if self.number("len").is_none() {
            packet.length += payload.len() as u32;
        }
        let mut written = packet.clone();
        weir_engine::packet::settle(&mut written);
        if let Ok(mut bytes) = weir_engine::packet::build(&written, usize::MAX) {
            let start = bytes.len().saturating_sub(payload.len());
            bytes.truncate(start);
            bytes.extend(payload.bytes());
            if let Some(key) =
                weir_engine::packet::parse(&bytes, bytes.len() as u32, Reading::Linux)
            {
                weir_engine::packet::beside::tell(&mut packet.aside, &bytes, &key);
            }
            packet.aside.bytes = bytes;
        }
        packet
    }

    fn endpoints(&self, text: &str) -> Result<(Endpoint, Endpoint, Family), SpecError> {
        let (Some(source), Some(destination)) = (&self.source, &self.destination) else {
            let help = "write SOURCE > DESTINATION, for example 192.0.2.1:4242 > 198.51.100.7:22";
            return Err(at_end(text, "no addresses", help));
        };
        let family = match (source.value.address, destination.value.address) {
            (IpAddr::V4(_), IpAddr::V4(_)) => Family::V4,
            (IpAddr::V6(_), IpAddr::V6(_)) => Family::V6,
            _ => {
                let message = "source and destination are of different families";
                return Err(at(text, destination, message, None));
            }
        };
        Ok((source.value, destination.value, family))
    }

    fn protocol(&self, text: &str, family: Family) -> Result<u8, SpecError> {
        let Some(proto) = &self.proto else {
            if let Some(flags) = &self.flags {
                return Err(at(text, flags, "TCP flags without `tcp`", None));
            }
            let help = "name one: tcp, udp, icmp ... or proto=NUMBER";
            return Err(at_end(text, "no protocol", help));
        };
        match (proto.value, family) {
            (ICMP, Family::V6) => {
                let help = Some("IPv6 has `icmpv6`");
                Err(at(text, proto, "`icmp` is IPv4's protocol", help))
            }
            (ICMP6, Family::V4) => {
                let help = Some("IPv4 has `icmp`");
                Err(at(text, proto, "`icmpv6` is IPv6's protocol", help))
            }
            (value, _) => Ok(value),
        }
    }

    /// Fields that only some protocols have.
    fn check_owned_fields(&self, text: &str, proto: u8) -> Result<(), SpecError> {
        if let (Some(flags), true) = (&self.flags, proto != TCP) {
            return Err(at(text, flags, "only TCP has these flags", None));
        }
        if let (Some(icmp), true) = (&self.icmp, proto != ICMP && proto != ICMP6) {
            return Err(at(text, icmp, "only ICMP has types", None));
        }
        let owners: [(&str, &[u8]); 5] = [
            ("mss", &[TCP]),
            ("id", &[ICMP, ICMP6]),
            ("spi", &SPI),
            ("chunk", &[SCTP]),
            ("chunk-flags", &[SCTP]),
        ];
        for (key, protocols) in owners {
            if let (Some(number), false) = (self.number(key), protocols.contains(&proto)) {
                let message = format!("this protocol has no `{key}`");
                return Err(at(text, number, &message, None));
            }
        }
        Ok(())
    }

    /// Interfaces that a hook can't have.
    fn check_interfaces(&self, text: &str, hook: Option<Hook>) -> Result<(), SpecError> {
        match (hook, &self.in_iface, &self.out_iface) {
            (Some(Hook::Prerouting | Hook::Input), _, Some(out)) => {
                let message = "there is no sending interface at this hook";
                Err(at(text, out, message, None))
            }
            (Some(Hook::Output), Some(received), _) => {
                let message = "packets made here have no receiving interface";
                Err(at(text, received, message, None))
            }
            _ => Ok(()),
        }
    }

    /// A later fragment has no transport header, so nothing may be said about one.
    fn no_transport(&self, text: &str) -> Result<Transport, SpecError> {
        let endpoints = [&self.source, &self.destination];
        for endpoint in endpoints.into_iter().flatten() {
            if endpoint.value.port.is_some() {
                return Err(at(text, endpoint, "a later fragment has no ports", None));
            }
        }
        match (&self.flags, &self.icmp) {
            (Some(flags), _) => Err(at(text, flags, "a later fragment has no flags", None)),
            (_, Some(icmp)) => Err(at(text, icmp, "a later fragment has no type", None)),
            _ => Ok(Transport::None),
        }
    }

    fn transport(
        &self,
        text: &str,
        proto: u8,
        source: Endpoint,
        destination: Endpoint,
    ) -> Result<Transport, SpecError> {
        let ported = proto == TCP || proto == SCTP || UDP_LIKE.contains(&proto);
        if !ported {
            for endpoint in [&self.source, &self.destination].into_iter().flatten() {
                if endpoint.value.port.is_some() {
                    return Err(at(text, endpoint, "this protocol has no ports", None));
                }
            }
            return self.portless(text, proto);
        }
        let Some(dst_port) = destination.port else {
            let help = Some("write it as ADDRESS:PORT, IPv6 as [ADDRESS]:PORT");
            let place = self.destination.as_ref();
            return Err(match place {
                Some(place) => at(text, place, "the destination port is missing", help),
                None => at_end(text, "no destination", "write SOURCE > DESTINATION:PORT"),
            });
        };
        let src_port = source.port.unwrap_or(EPHEMERAL);
        Ok(match proto {
            TCP => self.tcp(src_port, dst_port),
            SCTP => Transport::Sctp {
                src_port,
                dst_port,
                chunks: vec![SctpChunk {
                    kind: self.number_or("chunk", 1) as u8,
                    flags: self.number_or("chunk-flags", 0) as u8,
                }],
                broken: false,
            },
            _ => Transport::Udp { src_port, dst_port },
        })
    }

    fn tcp(&self, src_port: u16, dst_port: u16) -> Transport {
        let ongoing = self
            .state
            .as_ref()
            .is_some_and(|s| s.value == CtState::Established);
        let flags = match &self.flags {
            Some(flags) => flags.value,
            None if ongoing => 16,
            None => 2,
        };
        let options = match self.number("mss") {
            Some(mss) => {
                let size = (mss.value as u16).to_be_bytes();
                vec![2, 4, size[0], size[1]]
            }
            None => Vec::new(),
        };
        Transport::Tcp {
            src_port,
            dst_port,
            flags,
            sequence: 1,
            acknowledgement: u32::from(flags & 16 != 0),
            window: 64_240,
            options,
            payload: 0,
            malformed: false,
        }
    }

    fn portless(&self, text: &str, proto: u8) -> Result<Transport, SpecError> {
        if proto == ICMP || proto == ICMP6 {
            let (kind, code) = match &self.icmp {
                None if proto == ICMP => (8, 0),
                None => (128, 0),
                Some(word) => {
                    super::names::icmp_of(&word.value, proto == ICMP6).ok_or_else(|| {
                        let help = Some("types are names, numbers or TYPE/CODE");
                        at(text, word, "no such ICMP type", help)
                    })?
                }
            };
            return Ok(Transport::Icmp {
                kind,
                code,
                id: self.number_or("id", 1) as u16,
                about: None,
            });
        }
        if SPI.contains(&proto) {
            return Ok(Transport::Spi(self.number_or("spi", 256) as u32));
        }
        Ok(Transport::None)
    }
}

fn value(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

fn transport_length(transport: &Transport) -> u64 {
    match transport {
        Transport::Tcp { options, .. } => 20 + options.len() as u64,
        Transport::Udp { .. } | Transport::Spi(_) => 8,
        Transport::Sctp { .. } => 32,
        Transport::Icmp { .. } => 64,
        Transport::None | Transport::Short => 0,
    }
}

/// An error at a value.
pub fn at<T>(text: &str, place: &Placed<T>, message: &str, help: Option<&str>) -> SpecError {
    SpecError {
        text: text.to_owned(),
        start: place.start,
        length: place.length,
        message: message.to_owned(),
        help: help.map(str::to_owned),
    }
}

/// An error about something that is not there.
fn at_end(text: &str, message: &str, help: &str) -> SpecError {
    SpecError {
        text: text.to_owned(),
        start: text.len(),
        length: 0,
        message: message.to_owned(),
        help: Some(help.to_owned()),
    }
}
