//! Between [`Key`], bytes and [`Packet`].

use weir_policy::model::{Facts, Family, Fragment, Hook, Packet, PacketType, Reading, Transport};

use super::key::{Key, fragment, transport};
use super::{beside, parse};

/// What a packet's bytes do not say: where it was met.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Hook.
    pub hook: Hook,
    /// Receiving interface; empty when there is none.
    pub in_iface: String,
    /// Sending interface; empty when there is none.
    pub out_iface: String,
    /// Packet mark.
    pub mark: u32,
    /// Source Ethernet address.
    pub mac: Option<[u8; 6]>,
    /// Link-layer type.
    pub packet_type: PacketType,
    /// User and group of the sending socket.
    pub owner: Option<(u32, u32)>,
    /// What else the kernel does with it, see [`Packet::handling`].
    pub handling: u16,
    /// What few rules ask; bytes and fields of headers are taken from the packet.
    pub aside: Facts,
}

impl Arrival {
    /// At a hook, nothing else known.
    pub fn at(hook: Hook) -> Arrival {
        Arrival {
            hook,
            in_iface: String::new(),
            out_iface: String::new(),
            mark: 0,
            mac: None,
            packet_type: match hook {
                Hook::Output | Hook::Postrouting => PacketType::Outgoing,
                _ => PacketType::Unicast,
            },
            owner: None,
            handling: 0,
            aside: Facts::default(),
        }
    }

    /// Where this packet was met.
    pub fn of(packet: &Packet) -> Arrival {
        Arrival {
            hook: packet.hook,
            in_iface: packet.in_iface.clone(),
            out_iface: packet.out_iface.clone(),
            mark: packet.mark,
            mac: packet.mac,
            packet_type: packet.packet_type,
            owner: packet.owner,
            handling: packet.handling,
            aside: Facts {
                bytes: Vec::new(),
                tcp_data: 0,
                ip_options: 0,
                extensions: 0,
                ..packet.aside.clone()
            },
        }
    }
}

/// The packet in these bytes (from the network header on), of `wire` bytes in all; `None` when
/// there is no valid IPv4 or IPv6 header. `reading`: that of the policy that it comes to.
pub fn packet(data: &[u8], wire: u32, arrival: &Arrival, reading: Reading) -> Option<Packet> {
    let key = parse::parse(data, wire, reading)?;
    let about = parse::embedded(data, wire, &key).map(|inner| {
        // Nothing beyond 8 bytes of its transport header is looked at.
        Box::new(from_key(&inner, &[], &Arrival::at(arrival.hook), None))
    });
    Some(from_key(&key, data, arrival, about))
}

fn from_key(key: &Key, data: &[u8], arrival: &Arrival, about: Option<Box<Packet>>) -> Packet {
    let address = |half: [u64; 2]| u128::from(half[0]) << 64 | u128::from(half[1]);
    let mut packet = Packet {
        family: if key.family == 4 {
            Family::V4
        } else {
            Family::V6
        },
        hook: arrival.hook,
        in_iface: arrival.in_iface.clone(),
        out_iface: arrival.out_iface.clone(),
        src: address(key.src),
        dst: address(key.dst),
        proto: key.proto,
        length: key.length,
        ttl: key.ttl,
        tos: key.tos,
        fragment: match key.fragment {
            fragment::FIRST => Fragment::First,
            fragment::LATER => Fragment::Later(key.fragment_offset),
            _ => Fragment::Whole,
        },
        transport: transport_of(key, data, about),
        routing: (key.has_routing != 0).then_some((key.routing_type, key.routing_left)),
        mark: arrival.mark,
        mac: arrival.mac,
        packet_type: arrival.packet_type,
        owner: arrival.owner,
        handling: arrival.handling,
        aside: Facts {
            // A frame may have more behind the packet.
            bytes: data[..data.len().min(key.length as usize)].to_vec(),
            ..arrival.aside.clone()
        },
    };
    beside::tell(&mut packet.aside, data, key);
    packet
}

fn transport_of(key: &Key, data: &[u8], about: Option<Box<Packet>>) -> Transport {
    let (src_port, dst_port) = (key.src_port, key.dst_port);
    match key.transport {
        transport::SHORT => Transport::Short,
        transport::TCP => Transport::Tcp {
            src_port,
            dst_port,
            flags: key.tcp_flags,
            sequence: key.sequence,
            acknowledgement: key.acknowledgement,
            window: key.window,
            options: parse::tcp_options(data, key).to_vec(),
            payload: key.payload,
            malformed: key.malformed != 0,
        },
        transport::UDP => Transport::Udp { src_port, dst_port },
        transport::SCTP => {
            let (chunks, broken) = parse::sctp_chunks(data, key);
            Transport::Sctp {
                src_port,
                dst_port,
                chunks,
                broken,
            }
        }
        transport::ICMP => Transport::Icmp {
            kind: (src_port >> 8) as u8,
            code: src_port as u8,
            id: dst_port,
            about,
        },
        transport::SPI => Transport::Spi(key.sequence),
        _ => Transport::None,
    }
}

/// The key of a packet: what parsing its bytes (see [`super::build`]) would give, with the mark.
/// State and interface classes are left 0.
pub fn key_of(packet: &Packet) -> Key {
    let halves = |address: u128| [(address >> 64) as u64, address as u64];
    let mut key = Key {
        src: halves(packet.src),
        dst: halves(packet.dst),
        length: packet.length,
        family: if packet.family == Family::V4 { 4 } else { 6 },
        hook: hook_number(packet.hook),
        proto: packet.proto,
        ttl: packet.ttl,
        tos: packet.tos,
        packet_type: packet_type_number(packet.packet_type),
        mark: packet.mark,
        transport_offset: super::build::transport_offset(packet) as u16,
        ..Key::default()
    };
    (key.fragment, key.fragment_offset) = match packet.fragment {
        Fragment::Whole => (fragment::WHOLE, 0),
        Fragment::First => (fragment::FIRST, 0),
        Fragment::Later(offset) => (fragment::LATER, offset),
    };
    if let Some((kind, left)) = packet.routing {
        (key.has_routing, key.routing_type, key.routing_left) = (1, kind, left);
    }
    put_transport(&mut key, &packet.transport);
    key
}

fn put_transport(key: &mut Key, from: &Transport) {
    if let Transport::Tcp {
        src_port, dst_port, ..
    }
    | Transport::Udp { src_port, dst_port }
    | Transport::Sctp {
        src_port, dst_port, ..
    } = from
    {
        (key.src_port, key.dst_port) = (*src_port, *dst_port);
    }
    key.transport = match from {
        Transport::None => transport::NONE,
        Transport::Short => transport::SHORT,
        Transport::Tcp {
            flags,
            sequence,
            acknowledgement,
            window,
            options,
            payload,
            malformed,
            ..
        } => {
            key.tcp_flags = *flags;
            key.sequence = *sequence;
            key.acknowledgement = *acknowledgement;
            key.window = *window;
            key.tcp_options = options.len() as u8;
            key.payload = *payload;
            key.malformed = u8::from(*malformed);
            if !malformed {
                super::parse::put_tcp_options(key, options);
            }
            transport::TCP
        }
        Transport::Udp { .. } => transport::UDP,
        Transport::Sctp { .. } => transport::SCTP,
        Transport::Icmp { kind, code, id, .. } => {
            key.src_port = u16::from(*kind) << 8 | u16::from(*code);
            key.dst_port = *id;
            transport::ICMP
        }
        Transport::Spi(spi) => {
            key.sequence = *spi;
            transport::SPI
        }
    };
}

/// The number of a netfilter hook.
pub fn hook_number(hook: Hook) -> u8 {
    match hook {
        Hook::Prerouting => 0,
        Hook::Input => 1,
        Hook::Forward => 2,
        Hook::Output => 3,
        Hook::Postrouting => 4,
    }
}

/// The kernel's number of a link-layer type.
pub fn packet_type_number(kind: PacketType) -> u8 {
    match kind {
        PacketType::Unicast => 0,
        PacketType::Broadcast => 1,
        PacketType::Multicast => 2,
        PacketType::OtherHost => 3,
        PacketType::Outgoing => 4,
    }
}
