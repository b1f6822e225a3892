//! A packet as ipfw sees it on one pass.
//!
//! In: fields, made from bytes by `weir-engine::packet::ipfw` or by hand. Out: what patterns ask
//! for. It holds more than [`crate::model::Packet`] does (identification, IPv4 options, extension
//! headers, hardware addresses), because this language asks for more; [`Packet::of`] makes it from
//! the common form.

use crate::model::{self, Family, Fragment, Hook, Transport};

/// Protocol numbers.
pub mod proto {
    /// ICMP.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// ICMPv6.
    pub const ICMPV6: u8 = 58;
    /// SCTP.
    pub const SCTP: u8 = 132;
    /// UDP-Lite.
    pub const UDPLITE: u8 = 136;
}

/// Which way a packet passes the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pass {
    /// Received.
    In,
    /// About to be sent.
    Out,
}

/// The upper-layer header, when the packet has one and is no later fragment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Upper {
    /// None that rules ask about.
    #[default]
    None,
    /// TCP.
    Tcp(Tcp),
    /// UDP, UDP-Lite or SCTP.
    Ports(u16, u16),
    /// ICMP or ICMPv6: type and code.
    Icmp(u8, u8),
}

/// A TCP header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32.
    pub flags: u8,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgement number.
    pub acknowledgement: u32,
    /// Window.
    pub window: u16,
    /// Header length in bytes as the header says, which may be wrong.
    pub header: u16,
    /// Option bytes; `None` when the packet ends before them.
    pub options: Option<Vec<u8>>,
}

/// The IP part of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ip {
    /// Family.
    pub family: Family,
    /// Source address; IPv4 in the low 32 bits.
    pub src: u128,
    /// Destination address.
    pub dst: u128,
    /// Protocol; IPv6: after the extension headers.
    pub proto: u8,
    /// IPv4 total length; IPv6 payload length and 40.
    pub length: u16,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// Type of service or traffic class.
    pub tos: u8,
    /// Identification: of IPv4, or of the IPv6 fragment header.
    pub id: u32,
    /// IPv4 fragment flags: reserved 0x80, do not 0x40, more 0x20.
    pub flags: u8,
    /// Fragment offset in units of 8 bytes.
    pub offset: u16,
    /// More fragments follow.
    pub more: bool,
    /// IPv4 option bytes.
    pub options: Vec<u8>,
    /// IPv6 extension headers, bits of `dialect::ipfw::names::EXTENSIONS`.
    pub extensions: u8,
    /// IPv6 flow label.
    pub flow_label: u32,
    /// Bytes of headers before the upper layer.
    pub header: u16,
    /// Upper layer.
    pub upper: Upper,
}

/// One packet on one pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Which way.
    pub pass: Pass,
    /// Receiving interface; empty for packets made here.
    pub recv: String,
    /// Sending interface; empty on input.
    pub xmit: String,
    /// Judged at the link layer.
    pub layer2: bool,
    /// Hardware addresses, destination and source, and type, when the frame is known.
    pub frame: Option<([u8; 6], [u8; 6], u16)>,
    /// The frame was a broadcast or multicast.
    pub to_many: bool,
    /// Bytes that counters count: the smaller of IP length and what is there.
    pub bytes: u32,
    /// The IP packet; `None` for other frames.
    pub ip: Option<Ip>,
    /// User and group of the local socket.
    pub owner: Option<(u32, u32)>,
    /// Of an ICMP error the packet that it quotes, as far as that is read: for states, where
    /// settings ask for it. Its pass and interfaces are those of the error.
    pub quoted: Option<Box<Packet>>,
}

impl Packet {
    /// Protocol, 0 for frames that are not IP.
    #[must_use]
    pub fn proto(&self) -> u8 {
        self.ip.as_ref().map_or(0, |ip| ip.proto)
    }

    /// Ports, when the packet has them.
    #[must_use]
    pub fn ports(&self) -> Option<(u16, u16)> {
        match &self.ip.as_ref()?.upper {
            Upper::Tcp(tcp) => Some((tcp.src_port, tcp.dst_port)),
            Upper::Ports(src, dst) => Some((*src, *dst)),
            _ => None,
        }
    }

    /// TCP header.
    #[must_use]
    pub fn tcp(&self) -> Option<&Tcp> {
        match &self.ip.as_ref()?.upper {
            Upper::Tcp(tcp) => Some(tcp),
            _ => None,
        }
    }

    /// The interface of this pass.
    #[must_use]
    pub fn interface(&self) -> &str {
        match self.pass {
            Pass::In => &self.recv,
            Pass::Out => &self.xmit,
        }
    }

    /// The common form of a packet as this language sees it. Fields that the common form lacks
    /// are 0. `None` when ipfw drops the packet before its rules: a transport header cut short.
    #[must_use]
    pub fn of(packet: &model::Packet, pass: Pass) -> Option<Self> {
        if packet.transport == Transport::Short {
            return None;
        }
        let (offset, more) = match packet.fragment {
            Fragment::Whole => (0, false),
            Fragment::First => (0, true),
            Fragment::Later(offset) => (offset, false),
        };
        let upper = match (offset, &packet.transport) {
            (0, transport) => upper_of(packet, transport),
            _ => Upper::None,
        };
        Some(Self {
            pass,
            recv: packet.in_iface.clone(),
            xmit: match pass {
                Pass::In => String::new(),
                Pass::Out => packet.out_iface.clone(),
            },
            layer2: false,
            frame: None,
            to_many: matches!(
                packet.packet_type,
                model::PacketType::Broadcast | model::PacketType::Multicast
            ),
            bytes: packet.length,
            ip: Some(Ip {
                family: packet.family,
                src: packet.src,
                dst: packet.dst,
                proto: packet.proto,
                length: packet.length as u16,
                ttl: packet.ttl,
                tos: packet.tos,
                id: 0,
                flags: if more { 0x20 } else { 0 },
                offset,
                more,
                options: Vec::new(),
                extensions: 0,
                flow_label: 0,
                header: 0,
                upper,
            }),
            owner: packet.owner,
            quoted: Self::quoted(packet, pass),
        })
    }

    /// The packet that an ICMP error in the common form quotes; of its transport header the first
    /// 8 bytes must be there.
    #[must_use]
    pub fn quoted(packet: &model::Packet, pass: Pass) -> Option<Box<Self>> {
        let Transport::Icmp {
            about: Some(about), ..
        } = &packet.transport
        else {
            return None;
        };
        let mut quoted = Self::of(about, pass)?;
        quoted.recv.clone_from(&packet.in_iface);
        if pass == Pass::Out {
            quoted.xmit.clone_from(&packet.out_iface);
        }
        Some(Box::new(quoted))
    }

    /// The common form of this packet's headers, as this language sees them, at PREROUTING on input
    /// and at FORWARD on output. `None` for frames without an IP packet, and for a packet whose
    /// transport header this language leaves unread.
    #[must_use]
    pub fn headers(&self) -> Option<model::Packet> {
        let ip = self.ip.as_ref()?;
        let fragment = match (ip.offset, ip.more) {
            (0, false) => Fragment::Whole,
            (0, true) => Fragment::First,
            (offset, _) => Fragment::Later(offset),
        };
        Some(model::Packet {
            family: ip.family,
            hook: match self.pass {
                Pass::In => Hook::Prerouting,
                Pass::Out => Hook::Forward,
            },
            in_iface: self.recv.clone(),
            out_iface: self.xmit.clone(),
            src: ip.src,
            dst: ip.dst,
            proto: ip.proto,
            length: u32::from(ip.length),
            ttl: ip.ttl,
            tos: ip.tos,
            fragment,
            transport: transport_of(ip)?,
            routing: None,
            mark: 0,
            mac: None,
            packet_type: model::PacketType::Unicast,
            owner: self.owner,
            handling: 0,
            aside: model::Facts::default(),
        })
    }

    /// The passes of a packet that reaches a hook: input, output, or both for forwarded ones.
    #[must_use]
    pub fn passes(hook: Hook) -> &'static [Pass] {
        match hook {
            Hook::Prerouting | Hook::Input => &[Pass::In],
            Hook::Forward => &[Pass::In, Pass::Out],
            Hook::Output | Hook::Postrouting => &[Pass::Out],
        }
    }
}

fn upper_of(packet: &model::Packet, transport: &Transport) -> Upper {
    match transport {
        Transport::Tcp {
            src_port,
            dst_port,
            flags,
            sequence,
            acknowledgement,
            window,
            options,
            ..
        } => Upper::Tcp(Tcp {
            src_port: *src_port,
            dst_port: *dst_port,
            flags: *flags,
            sequence: *sequence,
            acknowledgement: *acknowledgement,
            window: *window,
            header: 20 + options.len() as u16,
            options: Some(options.clone()),
        }),
        // DCCP has ports elsewhere, not here.
        Transport::Udp { src_port, dst_port }
            if matches!(packet.proto, proto::UDP | proto::UDPLITE) =>
        {
            Upper::Ports(*src_port, *dst_port)
        }
        Transport::Sctp {
            src_port, dst_port, ..
        } => Upper::Ports(*src_port, *dst_port),
        Transport::Icmp { kind, code, .. } => Upper::Icmp(*kind, *code),
        _ => Upper::None,
    }
}

fn transport_of(ip: &Ip) -> Option<Transport> {
    let has_header = match ip.family {
        Family::V4 => ip.proto == proto::ICMP,
        Family::V6 => ip.proto == proto::ICMPV6,
    } || matches!(
        ip.proto,
        proto::TCP | proto::UDP | proto::SCTP | proto::UDPLITE
    );
    Some(match &ip.upper {
        Upper::None if has_header && ip.offset == 0 => return None,
        Upper::None => Transport::None,
        Upper::Tcp(tcp) => Transport::Tcp {
            src_port: tcp.src_port,
            dst_port: tcp.dst_port,
            flags: tcp.flags,
            sequence: tcp.sequence,
            acknowledgement: tcp.acknowledgement,
            window: tcp.window,
            options: Vec::new(),
            payload: 0,
            malformed: false,
        },
        Upper::Ports(src_port, dst_port) if ip.proto == proto::SCTP => Transport::Sctp {
            src_port: *src_port,
            dst_port: *dst_port,
            chunks: Vec::new(),
            broken: true,
        },
        Upper::Ports(src_port, dst_port) => Transport::Udp {
            src_port: *src_port,
            dst_port: *dst_port,
        },
        Upper::Icmp(kind, code) => Transport::Icmp {
            kind: *kind,
            code: *code,
            id: 0,
            about: None,
        },
    })
}
