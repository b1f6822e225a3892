//! Packets to bytes and back: what is built is read back the same, by our parser and, where it
//! knows the protocol, by etherparse.

use fastrand::Rng;
use weir_engine::packet::{self, Arrival};
use weir_policy::model::{Facts, Family, Fragment, Hook, Packet, Reading, SctpChunk, Transport};

fn random_transport(random: &mut Rng, family: Family, depth: u32) -> (u8, Transport) {
    let (src_port, dst_port) = (random.u16(..), random.u16(..));
    match random.u8(0..10) {
        0..=2 => {
            let options = (0..random.usize(0..11) * 4)
                .map(|_| random.u8(..))
                .collect();
            let transport = Transport::Tcp {
                src_port,
                dst_port,
                flags: random.u8(..),
                sequence: random.u32(..),
                acknowledgement: random.u32(..),
                window: random.u16(..),
                options,
                payload: 0,
                malformed: random.u8(0..16) == 0,
            };
            (6, transport)
        }
        3..=4 => (
            *random.choice(&[17, 136, 33]).unwrap(),
            Transport::Udp { src_port, dst_port },
        ),
        5 => {
            let mut chunk = || SctpChunk {
                kind: random.u8(..),
                flags: random.u8(..),
            };
            let chunks: Vec<SctpChunk> = (0..40).map(|_| chunk()).collect();
            let chunks = chunks[random.usize(..40)..].to_vec();
            let broken = random.bool();
            (
                132,
                Transport::Sctp {
                    src_port,
                    dst_port,
                    chunks,
                    broken,
                },
            )
        }
        6..=7 => {
            let proto = if family == Family::V4 { 1 } else { 58 };
            let about = (depth == 0).then(|| Box::new(random_packet(random, family, 1)));
            let kind = if random.bool() {
                random.u8(0..13)
            } else {
                random.u8(128..130)
            };
            (
                proto,
                Transport::Icmp {
                    kind,
                    code: random.u8(0..16),
                    id: random.u16(..),
                    about,
                },
            )
        }
        8 => (
            *random.choice(&[50, 51]).unwrap(),
            Transport::Spi(random.u32(..)),
        ),
        _ => (
            random.u8(..),
            if random.bool() {
                Transport::None
            } else {
                Transport::Short
            },
        ),
    }
}

fn random_packet(random: &mut Rng, family: Family, depth: u32) -> Packet {
    let (proto, transport) = random_transport(random, family, depth);
    let mut packet = Packet {
        family,
        hook: Hook::Input,
        in_iface: String::new(),
        out_iface: String::new(),
        src: random.u128(..),
        dst: random.u128(..),
        proto,
        length: random.u32(0..2000),
        ttl: random.u8(..),
        tos: random.u8(..),
        fragment: match random.u8(0..8) {
            0 => Fragment::First,
            1 => Fragment::Later(random.u16(0..4)),
            _ => Fragment::Whole,
        },
        transport,
        routing: (random.u8(0..8) == 0).then(|| (random.u8(..), random.u8(..))),
        mark: 0,
        mac: None,
        packet_type: weir_policy::model::PacketType::Unicast,
        owner: None,
        handling: 0,
        aside: Facts::default(),
    };
    packet::settle(&mut packet);
    packet
}

/// Bytes behind the TCP header; building gives malformed segments one of 16 bytes.
fn tcp_data(packet: &Packet) -> u16 {
    let header = match &packet.transport {
        Transport::Tcp {
            malformed: true, ..
        } => 16,
        Transport::Tcp { options, .. } => 20 + options.len() as u32,
        _ => return 0,
    };
    (packet.length - packet::build::transport_offset(packet) as u32).wrapping_sub(header) as u16
}

/// Headers of an IPv6 packet as `-m ipv6header` names them; what is in front of protocols that are
/// no headers themselves.
fn headers(packet: &Packet) -> Option<u8> {
    let routing = if packet.routing.is_some() { 4 } else { 0 };
    let fragment = if packet.fragment == Fragment::Whole {
        0
    } else {
        8
    };
    (packet.family == Family::V6).then_some(128 | routing | fragment)
}

/// IPv6 extension headers of those that building writes, and ESP.
fn extensions(packet: &Packet) -> u8 {
    if packet.family == Family::V4 || packet.transport == Transport::Short {
        return 0;
    }
    let routing = match packet.routing {
        Some((0, _)) => 0x44,
        Some((2, _)) => 0x84,
        Some(_) => 0x04,
        None => 0,
    };
    let fragment = u8::from(packet.fragment != Fragment::Whole);
    let later = matches!(packet.fragment, Fragment::Later(_));
    let esp = if packet.proto == 50 && !later {
        0x10
    } else {
        0
    };
    routing | fragment | esp
}

#[test]
fn built_packets_are_read_back_the_same() {
    let mut random = Rng::with_seed(1);
    for round in 0..200_000 {
        let family = if random.bool() {
            Family::V4
        } else {
            Family::V6
        };
        let wanted = random_packet(&mut random, family, 0);
        let bytes =
            packet::build(&wanted, 4096).unwrap_or_else(|e| panic!("{round}: {e}: {wanted:#?}"));
        assert_eq!(bytes.len(), wanted.length as usize, "{round}");
        let got = packet::packet(
            &bytes,
            bytes.len() as u32,
            &Arrival::at(Hook::Input),
            Reading::Linux,
        );
        // What is read also holds the bytes, for tests of payloads, and what few ask of headers.
        let wanted_read = Packet {
            aside: Facts {
                bytes: bytes.clone(),
                tcp_data: tcp_data(&wanted),
                extensions: extensions(&wanted),
                headers: match wanted.proto {
                    // Followed through the payload.
                    0 | 43 | 44 | 50 | 51 | 59 | 60 => got.as_ref().and_then(|p| p.aside.headers),
                    _ => headers(&wanted),
                },
                ..Facts::default()
            },
            ..wanted.clone()
        };
        assert_eq!(got, Some(wanted_read), "{round}: {bytes:02x?}");
        let mut key =
            packet::parse(&bytes, bytes.len() as u32, Reading::Linux).expect("it was read above");
        key.hook = 1;
        assert_eq!(key, packet::key_of(&wanted), "{round}: {wanted:?}");
    }
}

#[test]
fn checksums_satisfy_another_implementation() {
    let mut random = Rng::with_seed(2);
    let mut checked = 0;
    for _ in 0..20_000 {
        let family = if random.bool() {
            Family::V4
        } else {
            Family::V6
        };
        let wanted = random_packet(&mut random, family, 0);
        if wanted.fragment != Fragment::Whole || wanted.routing.is_some() {
            continue;
        }
        let bytes = packet::build(&wanted, 4096).expect("settled packets can be built");
        let Ok(sliced) = etherparse::SlicedPacket::from_ip(&bytes) else {
            continue;
        };
        let net = sliced.net.expect("an IP header was built");
        let (src, dst) = (wanted.src.to_be_bytes(), wanted.dst.to_be_bytes());
        let v4 = |a: [u8; 16]| [a[12], a[13], a[14], a[15]];
        if let etherparse::NetSlice::Ipv4(header) = &net {
            assert_eq!(
                header.header().header_checksum(),
                header.header().to_header().calc_header_checksum()
            );
        }
        match sliced.transport {
            Some(etherparse::TransportSlice::Tcp(tcp)) => {
                let header = tcp.to_header();
                let sum = match family {
                    Family::V4 => header.calc_checksum_ipv4_raw(v4(src), v4(dst), tcp.payload()),
                    Family::V6 => header.calc_checksum_ipv6_raw(src, dst, tcp.payload()),
                };
                assert_eq!(sum.expect("short payload"), header.checksum);
                checked += 1;
            }
            Some(etherparse::TransportSlice::Icmpv6(icmp)) => {
                assert!(icmp.is_checksum_valid(src, dst));
                checked += 1;
            }
            _ => {}
        }
    }
    assert!(checked > 1000, "{checked}");
}

#[test]
fn any_bytes_are_read_without_panic() {
    let mut random = Rng::with_seed(3);
    for _ in 0..200_000 {
        let family = if random.bool() {
            Family::V4
        } else {
            Family::V6
        };
        let made = random_packet(&mut random, family, 0);
        let mut bytes = packet::build(&made, 300).expect("settled packets can be built");
        for _ in 0..random.usize(1..6) {
            let at = random.usize(..bytes.len().min(80));
            bytes[at] = random.u8(..);
        }
        bytes.truncate(random.usize(..=bytes.len()));
        let wire = bytes.len() as u32 + random.u32(0..3) * 100;
        packet::packet(
            &bytes,
            wire,
            &Arrival::at(Hook::Forward),
            [Reading::Linux, Reading::Ipf, Reading::Ipfw][random.usize(..3)],
        );
    }
}
