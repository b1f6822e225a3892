//! Bytes of a packet, from the network header on, as FreeBSD's ipfw reads them.
//!
//! In: bytes, and what ipfw's settings say of odd IPv6 headers. Out: a packet of
//! `weir_policy::eval::ipfw`, or why it is dropped before any rule. It differs from
//! [`super::parse`] in what counts as cut short, in the extension headers that it knows, and in
//! what it keeps.
//!
//! Sources: RFC 791, 8200, 9293, 768, 792, 4443, 9260; behaviour of FreeBSD 13.

use super::{Arrival, packet};
use weir_policy::dialect::ipfw::Settings;
use weir_policy::eval::ipfw::{Ip, Packet, Pass, Tcp, Unjudged, Upper, proto};
use weir_policy::model::{Family, Hook, Reading};

/// IPv6 extension headers and other next headers.
mod next {
    pub const HOPOPTS: u8 = 0;
    pub const IPV4: u8 = 4;
    pub const IPV6: u8 = 41;
    pub const ROUTING: u8 = 43;
    pub const FRAGMENT: u8 = 44;
    pub const GRE: u8 = 47;
    pub const ESP: u8 = 50;
    pub const AH: u8 = 51;
    pub const NONE: u8 = 59;
    pub const DSTOPTS: u8 = 60;
    pub const OSPF: u8 = 89;
    pub const PIM: u8 = 103;
    pub const CARP: u8 = 112;
}

/// Extension headers looked at; a packet has far fewer.
const HEADERS_MAX: usize = 64;

/// Where a packet was met.
#[derive(Clone, Debug)]
pub struct Met {
    /// Which way.
    pub pass: Pass,
    /// Receiving interface.
    pub recv: String,
    /// Sending interface.
    pub xmit: String,
    /// Hardware addresses (destination, source) and type.
    pub frame: Option<([u8; 6], [u8; 6], u16)>,
    /// Broadcast or multicast frame.
    pub to_many: bool,
}

/// What bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// A packet for the rules.
    Packet(Box<Packet>),
    /// A packet that is dropped before the rules.
    Dropped(Unjudged),
    /// No IP packet that a host would take in.
    NotIp,
}

/// The bytes of a packet, as far as they were captured.
struct Bytes<'a> {
    data: &'a [u8],
    /// Bytes that the packet has.
    length: usize,
}

impl Bytes<'_> {
    /// Whether so many bytes from `at` on are there and were captured.
    fn have(&self, at: usize, count: usize) -> Result<(), Unjudged> {
        match at + count <= self.length.min(self.data.len()) {
            true => Ok(()),
            false => Err(Unjudged::CutShort),
        }
    }

    fn u8(&self, at: usize) -> u8 {
        self.data[at]
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.data[at], self.data[at + 1]])
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from(self.u16(at)) << 16 | u32::from(self.u16(at + 2))
    }

    fn address6(&self, at: usize) -> u128 {
        self.data[at..at + 16]
            .iter()
            .fold(0, |all, byte| all << 8 | u128::from(*byte))
    }
}

/// Reads the bytes of a packet of `wire` bytes, of which `data` were captured.
#[must_use]
pub fn read(data: &[u8], wire: u32, met: &Met, settings: &Settings) -> Read {
    let wire = (wire as usize).max(data.len());
    let parsed = match data.first().map(|byte| byte >> 4) {
        Some(4) if data.len() >= 20 => ipv4(data, wire),
        Some(6) if data.len() >= 40 => ipv6(data, wire, settings),
        _ => return Read::NotIp,
    };
    match parsed {
        Err(None) => Read::NotIp,
        Err(Some(why)) => Read::Dropped(why),
        Ok((ip, bytes)) => Read::Packet(Box::new(Packet {
            quoted: match settings.dyn_icmp_errors {
                true => quoted(data, wire as u32, met),
                false => None,
            },
            pass: met.pass,
            recv: met.recv.clone(),
            xmit: match met.pass {
                Pass::In => String::new(),
                Pass::Out => met.xmit.clone(),
            },
            layer2: false,
            frame: met.frame,
            to_many: met.to_many,
            bytes,
            ip: Some(ip),
            owner: None,
        })),
    }
}

/// The packet that an ICMP error quotes.
fn quoted(data: &[u8], wire: u32, met: &Met) -> Option<Box<Packet>> {
    let hook = match met.pass {
        Pass::In => Hook::Prerouting,
        Pass::Out => Hook::Output,
    };
    let mut arrival = Arrival::at(hook);
    arrival.in_iface.clone_from(&met.recv);
    arrival.out_iface.clone_from(&met.xmit);
    Packet::quoted(&packet(data, wire, &arrival, Reading::Linux)?, met.pass)
}

/// A frame that holds no IP packet, or any frame, judged at the link layer.
#[must_use]
pub fn frame(met: &Met, bytes: u32, inside: Option<Packet>) -> Packet {
    match inside {
        Some(packet) => Packet {
            layer2: true,
            ..packet
        },
        None => Packet {
            pass: met.pass,
            recv: met.recv.clone(),
            xmit: match met.pass {
                Pass::In => String::new(),
                Pass::Out => met.xmit.clone(),
            },
            layer2: true,
            frame: met.frame,
            to_many: met.to_many,
            bytes,
            ip: None,
            owner: None,
            quoted: None,
        },
    }
}

/// `None` inside the error: no packet that a host would take in.
type Parsed = Result<(Ip, u32), Option<Unjudged>>;

fn ipv4(data: &[u8], wire: usize) -> Parsed {
    let whole = Bytes { data, length: wire };
    let header = usize::from(whole.u8(0) & 15) * 4;
    let total = usize::from(whole.u16(2));
    if header < 20 || header > data.len() {
        return Err(None);
    }
    // A host trims what follows the packet; a length of 0 is a segment that isn't cut up yet.
    let length = match total {
        0 => wire,
        total if total < header => return Err(None),
        total => total.min(wire),
    };
    let bytes = Bytes { data, length };
    let word = bytes.u16(6);
    let (offset, more) = (word & 0x1fff, word & 0x2000 != 0);
    let number = bytes.u8(9);
    let upper = match (offset, number) {
        // RFC 3128: such a fragment could overwrite flags.
        (1, proto::TCP) => return Err(Some(Unjudged::CutShort)),
        (0, _) => upper(&bytes, header, number)?,
        _ => Upper::None,
    };
    let ip = Ip {
        family: Family::V4,
        src: u128::from(bytes.u32(12)),
        dst: u128::from(bytes.u32(16)),
        proto: number,
        length: if total == 0 {
            wire as u16
        } else {
            total as u16
        },
        ttl: bytes.u8(8),
        tos: bytes.u8(1),
        id: u32::from(bytes.u16(4)),
        flags: (word >> 8) as u8 & 0xe0,
        offset,
        more,
        options: data[20..header].to_vec(),
        extensions: 0,
        flow_label: 0,
        header: header as u16,
        upper,
    };
    Ok((ip, length as u32))
}

/// The upper-layer header; of IPv4 only what is listed here must be there.
fn upper(bytes: &Bytes<'_>, at: usize, number: u8) -> Result<Upper, Unjudged> {
    match number {
        proto::TCP => Ok(Upper::Tcp(tcp(bytes, at)?)),
        proto::UDP | proto::UDPLITE => {
            bytes.have(at, 8)?;
            Ok(Upper::Ports(bytes.u16(at), bytes.u16(at + 2)))
        }
        proto::SCTP => {
            bytes.have(at, 12)?;
            Ok(Upper::Ports(bytes.u16(at), bytes.u16(at + 2)))
        }
        proto::ICMP => {
            bytes.have(at, 4)?;
            Ok(Upper::Icmp(bytes.u8(at), bytes.u8(at + 1)))
        }
        _ => Ok(Upper::None),
    }
}

fn tcp(bytes: &Bytes<'_>, at: usize) -> Result<Tcp, Unjudged> {
    bytes.have(at, 20)?;
    let header = usize::from(bytes.u8(at + 12) >> 4) * 4;
    let options = match (header, bytes.have(at, header)) {
        (20.., Ok(())) => Some(bytes.data[at + 20..at + header].to_vec()),
        (20.., Err(_)) => None,
        // A header shorter than itself has no options.
        _ => Some(Vec::new()),
    };
    Ok(Tcp {
        src_port: bytes.u16(at),
        dst_port: bytes.u16(at + 2),
        sequence: bytes.u32(at + 4),
        acknowledgement: bytes.u32(at + 8),
        flags: bytes.u8(at + 13),
        window: bytes.u16(at + 14),
        header: header as u16,
        options,
    })
}

/// What the chain of IPv6 headers comes to.
#[derive(Default)]
struct Chain {
    proto: u8,
    at: usize,
    extensions: u8,
    offset: u16,
    more: bool,
    id: u32,
    upper: Upper,
}

fn ipv6(data: &[u8], wire: usize, settings: &Settings) -> Parsed {
    let payload = usize::from(u16::from_be_bytes([data[4], data[5]]));
    let length = match payload {
        0 => wire,
        payload => (payload + 40).min(wire),
    };
    let bytes = Bytes { data, length };
    let chain = headers(&bytes, settings)?;
    let first = bytes.u32(0);
    let ip = Ip {
        family: Family::V6,
        src: bytes.address6(8),
        dst: bytes.address6(24),
        proto: chain.proto,
        length: (payload + 40) as u16,
        ttl: bytes.u8(7),
        tos: (first >> 20) as u8,
        id: chain.id,
        flags: 0,
        offset: chain.offset,
        more: chain.more,
        options: Vec::new(),
        extensions: chain.extensions,
        flow_label: first & 0xf_ffff,
        header: chain.at as u16,
        upper: chain.upper,
    };
    Ok((ip, (payload + 40).min(wire) as u32))
}

fn headers(bytes: &Bytes<'_>, settings: &Settings) -> Result<Chain, Unjudged> {
    let mut chain = Chain {
        proto: bytes.u8(6),
        at: 40,
        ..Chain::default()
    };
    for _ in 0..HEADERS_MAX {
        if chain.offset != 0 || !extension(bytes, &mut chain, settings)? {
            return Ok(chain);
        }
    }
    Err(Unjudged::CutShort)
}

/// Reads one header; `false` when the chain ends with it.
fn extension(bytes: &Bytes<'_>, chain: &mut Chain, settings: &Settings) -> Result<bool, Unjudged> {
    let at = chain.at;
    let unknown = |size: usize| match settings.deny_unknown_exthdrs {
        true => Err(Unjudged::UnknownHeader),
        false => bytes.have(at, size),
    };
    match chain.proto {
        proto::ICMPV6 => {
            bytes.have(at, 8)?;
            chain.upper = Upper::Icmp(bytes.u8(at), bytes.u8(at + 1));
        }
        proto::TCP | proto::UDP | proto::UDPLITE | proto::SCTP => {
            chain.upper = upper(bytes, at, chain.proto)?;
        }
        next::HOPOPTS | next::DSTOPTS => {
            bytes.have(at, 2)?;
            chain.extensions |= if chain.proto == next::HOPOPTS {
                0x02
            } else {
                0x20
            };
            (chain.proto, chain.at) = (bytes.u8(at), at + (usize::from(bytes.u8(at + 1)) + 1) * 8);
            return Ok(true);
        }
        next::ROUTING => {
            bytes.have(at, 4)?;
            chain.extensions |= match bytes.u8(at + 2) {
                0 => 0x40,
                2 => 0x80,
                _ => {
                    unknown(4)?;
                    0
                }
            } | 0x04;
            (chain.proto, chain.at) = (bytes.u8(at), at + (usize::from(bytes.u8(at + 1)) + 1) * 8);
            return Ok(true);
        }
        next::FRAGMENT => {
            bytes.have(at, 8)?;
            let word = bytes.u16(at + 2);
            chain.extensions |= 0x01;
            (chain.offset, chain.more) = (word >> 3, word & 1 != 0);
            chain.id = bytes.u32(at + 4);
            (chain.proto, chain.at) = (bytes.u8(at), at + 8);
            if !settings.permit_single_frag6 && chain.offset == 0 && !chain.more {
                unknown(8)?;
                return Ok(false);
            }
            return Ok(true);
        }
        next::AH => {
            bytes.have(at, 2)?;
            chain.extensions |= 0x08;
            (chain.proto, chain.at) = (bytes.u8(at), at + (usize::from(bytes.u8(at + 1)) + 2) * 4);
            return Ok(true);
        }
        next::ESP => {
            bytes.have(at, 4)?;
            chain.extensions |= 0x10;
        }
        next::NONE => {}
        next::OSPF => bytes.have(at, 2)?,
        next::PIM | next::GRE => bytes.have(at, 4)?,
        next::CARP => {
            bytes.have(at, 36)?;
            // Only advertisements of version 2 are known.
            if bytes.u8(at) != 0x21 {
                return Err(Unjudged::UnknownHeader);
            }
        }
        next::IPV6 => bytes.have(at, 40)?,
        next::IPV4 => bytes.have(at, 20)?,
        _ => unknown(2)?,
    }
    Ok(false)
}
