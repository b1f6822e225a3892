//! Link layers: where the network header begins, and what the link says about the packet.
//!
//! In: the captured bytes and the link type of the file (tcpdump.org/linktypes.html). Out: the
//! layer 3 bytes, the sender's hardware address and the packet type. VLAN tags are skipped, up to
//! two. Frames that are not IP (ARP, LLDP ...) are told by a reason; of those of Ethernet the
//! header is read, for rules about frames.

use pcap_file::DataLink;
use weir_engine::packet::frame;
use weir_policy::model::PacketType;

/// What the link header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkAddress {
    /// Hardware address of the sender, where the link has one.
    pub source: Option<[u8; 6]>,
    /// To whom the frame was addressed, as far as the frame itself says.
    pub kind: PacketType,
    /// Destination, source and type of an Ethernet frame.
    pub frame: Option<([u8; 6], [u8; 6], u16)>,
}

/// A packet without its link header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Bytes from the IP header on; may be cut short by the capture.
    pub bytes: Vec<u8>,
    /// Bytes of the packet when it was on the wire, as far as the capture knows.
    pub wire: u32,
    /// What the link said.
    pub link: LinkAddress,
}

/// A frame of Ethernet that holds no IP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bare {
    /// What its header says.
    pub link: LinkAddress,
    /// Bytes behind the header when it was on the wire.
    pub wire: u32,
}

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPES_VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const VLAN_TAGS_MAX: usize = 2;
const LINK_IPV4: u32 = 228;
const LINK_IPV6: u32 = 229;
const LINK_SLL2: u32 = 276;

const UNKNOWN: LinkAddress = LinkAddress {
    source: None,
    kind: PacketType::Unicast,
    frame: None,
};

/// Cuts the link header off a frame that was `original` bytes long.
pub fn network(kind: DataLink, bytes: &[u8], original: u32) -> Result<Network, &'static str> {
    let mut network = cut(kind, bytes)?;
    let header = (bytes.len() - network.bytes.len()) as u32;
    network.wire = original.saturating_sub(header).max(network.wire);
    Ok(network)
}

/// The header of a frame in which no packet was found, if it is one of Ethernet.
pub fn bare(
    kind: DataLink,
    bytes: &[u8],
    original: u32,
    content: &Result<Network, &'static str>,
) -> Option<Bare> {
    if kind != DataLink::ETHERNET || content.is_ok() {
        return None;
    }
    // What the programs in the kernel make of frames as well, where VLAN tags are cut short.
    let (header, at) = frame::header(bytes)?;
    let (destination, source) = (hardware(bytes, 0)?, hardware(bytes, 6)?);
    let link = LinkAddress {
        source: Some(source),
        kind: addressed(destination),
        frame: Some((destination, source, header.kind)),
    };
    let wire = original.max(bytes.len() as u32) - at as u32;
    Some(Bare { link, wire })
}

/// To whom a frame goes, by its destination.
fn addressed(destination: [u8; 6]) -> PacketType {
    match destination {
        [0xff, 0xff, 0xff, 0xff, 0xff, 0xff] => PacketType::Broadcast,
        [first, ..] if first & 1 == 1 => PacketType::Multicast,
        _ => PacketType::Unicast,
    }
}

fn cut(kind: DataLink, bytes: &[u8]) -> Result<Network, &'static str> {
    match kind {
        DataLink::ETHERNET => ethernet(bytes),
        DataLink::RAW => ip(bytes, UNKNOWN),
        DataLink::NULL | DataLink::LOOP => null(bytes),
        DataLink::LINUX_SLL => cooked(bytes),
        DataLink::FDDI => fddi(bytes),
        other => match u32::from(other) {
            LINK_IPV4 | LINK_IPV6 | 12 | 14 => ip(bytes, UNKNOWN),
            LINK_SLL2 => cooked2(bytes),
            _ => Err("unknown link type"),
        },
    }
}

fn ip(bytes: &[u8], link: LinkAddress) -> Result<Network, &'static str> {
    match bytes.first().map(|byte| byte >> 4) {
        Some(4 | 6) => Ok(Network {
            bytes: bytes.to_vec(),
            wire: bytes.len() as u32,
            link,
        }),
        Some(_) => Err("not IP"),
        None => Err("empty frame"),
    }
}

fn by_ethertype(kind: u16, bytes: &[u8], link: LinkAddress) -> Result<Network, &'static str> {
    match kind {
        ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => ip(bytes, link),
        _ => Err("not IP"),
    }
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let pair = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([pair[0], pair[1]]))
}

fn hardware(bytes: &[u8], at: usize) -> Option<[u8; 6]> {
    bytes.get(at..at + 6)?.try_into().ok()
}

fn ethernet(bytes: &[u8]) -> Result<Network, &'static str> {
    const SHORT: &str = "Ethernet header cut short";
    let destination = hardware(bytes, 0).ok_or(SHORT)?;
    let mut at = 12;
    let mut kind = half(bytes, at).ok_or(SHORT)?;
    for _ in 0..VLAN_TAGS_MAX {
        if ETHERTYPES_VLAN.contains(&kind) {
            at += 4;
            kind = half(bytes, at).ok_or(SHORT)?;
        }
    }
    let link = LinkAddress {
        source: hardware(bytes, 6),
        kind: addressed(destination),
        frame: hardware(bytes, 6).map(|source| (destination, source, kind)),
    };
    by_ethertype(kind, &bytes[at + 2..], link)
}

/// FDDI with LLC and SNAP (RFC 1188): frame control, destination, source, eight bytes of LLC whose
/// last two are the type.
fn fddi(bytes: &[u8]) -> Result<Network, &'static str> {
    match (hardware(bytes, 7), half(bytes, 19), bytes.get(13..16)) {
        (source, Some(kind), Some([0xaa, 0xaa, 3])) => {
            let link = LinkAddress { source, ..UNKNOWN };
            by_ethertype(kind, &bytes[21..], link)
        }
        (_, Some(_), _) => Err("not IP"),
        _ => Err("FDDI header cut short"),
    }
}

/// BSD loopback: four bytes of address family in the byte order of the machine that captured.
fn null(bytes: &[u8]) -> Result<Network, &'static str> {
    match bytes.get(4..) {
        Some(rest) => ip(rest, UNKNOWN),
        None => Err("loopback header cut short"),
    }
}

/// The packet type field of both Linux cooked headers.
fn cooked_kind(kind: u8) -> PacketType {
    match kind {
        1 => PacketType::Broadcast,
        2 => PacketType::Multicast,
        3 => PacketType::OtherHost,
        4 => PacketType::Outgoing,
        _ => PacketType::Unicast,
    }
}

fn cooked(bytes: &[u8]) -> Result<Network, &'static str> {
    let (Some(kind), Some(length), Some(proto)) = (half(bytes, 0), half(bytes, 4), half(bytes, 14))
    else {
        return Err("cooked header cut short");
    };
    let link = LinkAddress {
        source: (length == 6).then(|| hardware(bytes, 6)).flatten(),
        kind: cooked_kind(kind as u8),
        frame: None,
    };
    by_ethertype(proto, &bytes[16..], link)
}

fn cooked2(bytes: &[u8]) -> Result<Network, &'static str> {
    let Some(header) = bytes.get(..20) else {
        return Err("cooked header cut short");
    };
    let link = LinkAddress {
        source: (header[11] == 6).then(|| hardware(header, 12)).flatten(),
        kind: cooked_kind(header[10]),
        frame: None,
    };
    by_ethertype(
        u16::from_be_bytes([header[0], header[1]]),
        &bytes[20..],
        link,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const IPV4: [u8; 4] = [0x45, 0, 0, 20];

    fn framed(header: &[u8]) -> Vec<u8> {
        [header, &IPV4].concat()
    }

    #[test]
    fn fddi_has_its_type_behind_snap() {
        let mut header = [0x50, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12].to_vec();
        header.extend([0xaa, 0xaa, 3, 0, 0, 0, 8, 0]);
        let found = network(DataLink::FDDI, &framed(&header), 25).unwrap();
        assert_eq!(found.bytes, IPV4);
        assert_eq!(found.link.source, Some([7, 8, 9, 10, 11, 12]));
        assert!(network(DataLink::FDDI, &header[..20], 20).is_err());
        header[13] = 0;
        assert_eq!(network(DataLink::FDDI, &framed(&header), 25), Err("not IP"));
    }

    #[test]
    fn ethernet_with_and_without_tags() {
        let addresses = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1];
        let plain = framed(&[&addresses[..], &[8, 0]].concat());
        let tags = [&addresses[..], &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 8, 0]].concat();
        for frame in [plain, framed(&tags)] {
            let packet = network(DataLink::ETHERNET, &frame, 0).unwrap();
            assert_eq!(packet.bytes, IPV4);
            assert_eq!(packet.link.source, Some([2, 0, 0, 0, 0, 1]));
            assert_eq!(packet.link.kind, PacketType::Broadcast);
        }
        let arp = framed(&[&addresses[..], &[8, 6]].concat());
        assert_eq!(network(DataLink::ETHERNET, &arp, 0), Err("not IP"));
        assert!(network(DataLink::ETHERNET, &addresses, 0).is_err());
    }

    #[test]
    fn headers_without_ethernet() {
        let cooked = [0, 3, 0, 1, 0, 6, 2, 0, 0, 0, 0, 9, 0, 0, 8, 0];
        let packet = network(DataLink::LINUX_SLL, &framed(&cooked), 0).unwrap();
        assert_eq!(packet.link.source, Some([2, 0, 0, 0, 0, 9]));
        assert_eq!(packet.link.kind, PacketType::OtherHost);
        let mut cooked2 = [0u8; 20];
        (cooked2[0], cooked2[10], cooked2[11]) = (8, 4, 0);
        let packet = network(DataLink::from(LINK_SLL2), &framed(&cooked2), 0).unwrap();
        assert_eq!(
            packet.link,
            LinkAddress {
                source: None,
                kind: PacketType::Outgoing,
                frame: None
            }
        );
        for kind in [DataLink::RAW, DataLink::from(LINK_IPV4)] {
            assert_eq!(network(kind, &IPV4, 0).unwrap().bytes, IPV4);
        }
        assert_eq!(
            network(DataLink::NULL, &framed(&[2, 0, 0, 0]), 0)
                .unwrap()
                .bytes,
            IPV4
        );
        assert_eq!(network(DataLink::RAW, &[], 0), Err("empty frame"));
        assert_eq!(
            network(DataLink::from(9999), &IPV4, 0),
            Err("unknown link type")
        );
    }
}
