//! Bytes of an Ethernet frame to the [`Packet`] that rules on frames are asked about.
//!
//! In: the frame from its header on. Out: the packet in it, with what the frame says beside it; for
//! one that holds no IP packet zeros, and how long it is. Twin of `plane/bpf/frames.bpf.c`: same
//! tags, same limits.
//!
//! Sources: IEEE 802.3 and 802.1Q; ipfw(8) on `layer2` for what counts as a packet.

use super::convert::{Arrival, packet};
use super::parse;
use weir_policy::model::{Facts, Family, Fragment, Frame, Packet, Reading, Transport};

const ETHERNET: usize = 14;
const TAG: usize = 4;
const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const TAGS_MAX: usize = 2;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes
        .get(at..at + 2)
        .map(|two| u16::from_be_bytes([two[0], two[1]]))
}

/// The header of a frame, and where what it holds begins; `None` when it is cut short. Whether that
/// is a packet is left open (`bare`).
#[must_use]
pub fn header(bytes: &[u8]) -> Option<(Frame, usize)> {
    let mac = |at: usize| {
        let six = bytes.get(at..at + 6)?;
        Some(six.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)))
    };
    let mut frame = Frame {
        destination: mac(0)?,
        source: mac(6)?,
        kind: half(bytes, 12)?,
        bare: true,
    };
    let mut at = ETHERNET;
    for _ in 0..TAGS_MAX {
        match half(bytes, at + 2).filter(|_| TAGS.contains(&frame.kind)) {
            Some(kind) => (frame.kind, at) = (kind, at + TAG),
            None => break,
        }
    }
    Some((frame, at))
}

/// The frame in these bytes; `None` when its header is cut short. The arrival's hook is one of
/// [`weir_policy::model::Root`]'s for frames.
#[must_use]
pub fn frame(bytes: &[u8], arrival: &Arrival, reading: Reading) -> Option<Packet> {
    let (mut frame, at) = header(bytes)?;
    let inside = &bytes[at..];
    let length = inside.len() as u32;
    let held = matches!(frame.kind, IPV4 | IPV6)
        .then(|| parse::parse(inside, length, reading))
        .flatten()
        .filter(|key| key.family == 6 || u32::from(key.transport_offset) <= length)
        .and_then(|_| packet(inside, length, arrival, reading));
    frame.bare = held.is_none();
    let mut packet = held.unwrap_or_else(|| bare(length, arrival));
    packet.aside.frame = Some(frame);
    Some(packet)
}

/// What rules see of a frame that holds no IP packet.
fn bare(length: u32, arrival: &Arrival) -> Packet {
    Packet {
        family: Family::V4,
        hook: arrival.hook,
        in_iface: arrival.in_iface.clone(),
        out_iface: arrival.out_iface.clone(),
        src: 0,
        dst: 0,
        proto: 0,
        length,
        ttl: 0,
        tos: 0,
        fragment: Fragment::Whole,
        transport: Transport::None,
        routing: None,
        mark: arrival.mark,
        mac: None,
        packet_type: arrival.packet_type,
        owner: arrival.owner,
        handling: arrival.handling,
        aside: Facts {
            bytes: Vec::new(),
            ..arrival.aside.clone()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_policy::model::Hook;

    fn of(kind: &[u8], inside: &[u8]) -> Packet {
        let mut bytes = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1];
        bytes.extend_from_slice(kind);
        bytes.extend_from_slice(inside);
        frame(&bytes, &Arrival::at(Hook::Input), Reading::Ipfw).expect("a whole header")
    }

    #[test]
    fn tags_are_passed_over_and_only_whole_headers_are_packets() {
        let mut ip = vec![0u8; 28];
        (ip[0], ip[3], ip[9]) = (0x45, 28, 17);
        let plain = of(&[8, 0], &ip);
        let told = plain.aside.frame.expect("it is a frame");
        assert_eq!(
            (told.destination, told.source),
            (0x0200_0000_0009, 0x0200_0000_0001)
        );
        assert_eq!((told.kind, told.bare, plain.proto), (0x0800, false, 17));
        let kind = |packet: &Packet| packet.aside.frame.map(|frame| (frame.kind, frame.bare));
        assert_eq!(
            kind(&of(&[0x81, 0, 0, 5, 8, 0], &ip)),
            Some((0x0800, false))
        );
        let both = [0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 0x86, 0xdd];
        // Its version says what it is, whatever the type says.
        assert_eq!(kind(&of(&both, &ip)), Some((0x86dd, false)));
        let third = [&both[..8], &[0x81, 0, 0, 7, 8, 0]].concat();
        assert_eq!(kind(&of(&third, &ip)), Some((0x8100, true)));
        assert_eq!(kind(&of(&[8, 6], &ip)), Some((0x0806, true)));
        assert_eq!(kind(&of(&[8, 0], &ip[..19])), Some((0x0800, true)));
        // A header that is longer than what is there.
        ip[0] = 0x4f;
        let long = of(&[8, 0], &ip);
        assert_eq!((kind(&long), long.length), (Some((0x0800, true)), 28));
        assert_eq!(
            frame(&[0; 13], &Arrival::at(Hook::Input), Reading::Ipfw),
            None
        );
    }
}
