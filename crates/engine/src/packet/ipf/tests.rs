//! Headers as IPFilter judges them, one by one.

use super::*;

/// An IPv4 packet around a transport header, with right checksums left to the caller.
fn ipv4(proto: u8, fragment: u16, data: &[u8]) -> Vec<u8> {
    let length = (20 + data.len()) as u16;
    let mut bytes = vec![0x45, 0];
    bytes.extend(length.to_be_bytes());
    bytes.extend([0, 1]);
    bytes.extend(fragment.to_be_bytes());
    bytes.extend([63, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    bytes.extend(data);
    bytes
}

fn tcp(flags: u8) -> Vec<u8> {
    let mut data = vec![
        0, 80, 0, 81, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 0x10, 0, 0, 0, 0, 1,
    ];
    let sum = checksum::pseudo(&[10, 0, 0, 1], &[10, 0, 0, 2], 6, 20);
    let sum = checksum::finish(checksum::sum(&data, sum));
    data[16..18].copy_from_slice(&sum.to_be_bytes());
    data
}

fn read(bytes: &[u8]) -> IpfPacket {
    ipf_packet(bytes, false, "e0", LinkClass::default())
}

#[test]
fn flags_that_cannot_be_are_bad() {
    for (flags, bad) in [
        (0x02, false),
        (0x12, false),
        (0x10, false),
        (0x18, false),
        (0x11, false),
        (0x04, false),
        (0x14, false),
        (0x15, false),
        (0x30, false),
        (0x00, true),
        (0x01, true),
        (0x03, true),
        (0x06, true),
        (0x05, true),
        (0x0a, true),
        (0x1a, true),
        (0x08, true),
    ] {
        let packet = read(&ipv4(6, 0, &tcp(flags)));
        assert_eq!(packet.is(attribute::BAD), bad, "flags {flags:#x}");
        assert_eq!(packet.ports, Some((80, 81)));
    }
    let mut urgent = tcp(0x30);
    urgent[18..20].copy_from_slice(&[0, 0]);
    assert!(read(&ipv4(6, 0, &urgent)).is(attribute::BAD));
}

#[test]
fn wrong_checksums_and_offsets_are_bad() {
    let mut segment = tcp(0x02);
    segment[16] ^= 1;
    assert!(read(&ipv4(6, 0, &segment)).is(attribute::BAD));
    let mut segment = tcp(0x02);
    segment[12] = 0x40;
    let packet = read(&ipv4(6, 0, &segment));
    assert!(packet.is(attribute::BAD));
    assert_eq!(packet.tcp.map(|tcp| tcp.flags), Some(0));
    // A first fragment's checksum covers what is not here.
    let mut segment = tcp(0x02);
    segment[16] ^= 1;
    assert!(!read(&ipv4(6, 0x2000, &segment)).is(attribute::BAD));
}

#[test]
fn fragments_know_their_place() {
    let first = read(&ipv4(17, 0x2000, &[0; 16]));
    assert!(first.is(attribute::FRAG) && !first.is(attribute::FRAG_BODY));
    assert_eq!(first.ports, Some((0, 0)));
    let later = read(&ipv4(17, 2, &[0; 8]));
    assert!(later.is(attribute::FRAG_BODY) && later.ports.is_none());
    assert_eq!(later.offset, 16);
    assert!(!later.is(attribute::BAD | attribute::SHORT));
    assert!(read(&ipv4(17, 0x2002, &[0; 9])).is(attribute::BAD));
    assert!(read(&ipv4(17, 0x1fff, &[0; 16])).is(attribute::BAD));
    assert!(read(&ipv4(6, 1, &[0; 16])).is(attribute::SHORT));
    assert!(
        read(&ipv4(6, 2, &[0; 16])).is(attribute::SHORT),
        "16 bytes are inside the header"
    );
    assert!(!read(&ipv4(6, 3, &[0; 16])).is(attribute::SHORT));
}

#[test]
fn headers_that_are_not_there_are_unreadable() {
    assert!(read(&ipv4(6, 0, &[0; 8])).unreadable);
    assert!(read(&ipv4(50, 0, &[])).unreadable);
    assert!(read(&ipv4(1, 0, &[8, 0, 0])).unreadable);
    assert!(read(&ipv4(17, 0, &[0; 6])).unreadable);
    let packet = read(&ipv4(17, 0, &[0; 3]));
    assert!(!packet.unreadable && packet.is(attribute::SHORT));
    assert!(read(&[0x45, 0, 0]).unreadable && read(&[]).unreadable);
    let mut claims_more = ipv4(17, 0, &[0; 8]);
    claims_more[0] = 0x4f;
    assert!(read(&claims_more).unreadable);
}

#[test]
fn icmp_sizes_depend_on_the_type() {
    for (kind, size) in [
        (8u8, 8usize),
        (0, 8),
        (13, 20),
        (17, 12),
        (15, 12),
        (3, 28),
        (30, 28),
    ] {
        let mut data = vec![0; size];
        data[0] = kind;
        assert!(
            !read(&ipv4(1, 0, &data)).is(attribute::SHORT),
            "type {kind}"
        );
        if size > 8 {
            data.truncate(size - 1);
            assert!(read(&ipv4(1, 0, &data)).is(attribute::SHORT), "type {kind}");
        }
    }
}

#[test]
fn extension_headers_are_noted_once() {
    let mut bytes = vec![0x60, 0, 0, 0, 0, 24, 0, 64];
    bytes.extend([0; 15].iter().chain(&[1]));
    bytes.extend([0; 15].iter().chain(&[2]));
    bytes.extend([60, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend([17, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend([0, 1, 0, 2, 0, 8, 0, 0]);
    let packet = read(&bytes);
    let wanted = words::header("hopopts").unwrap() | words::header("dstopts").unwrap();
    assert_eq!((packet.headers, packet.proto), (wanted, 17));
    assert_eq!(packet.ports, Some((1, 2)));
    assert!(packet.is(attribute::V6HDRS) && !packet.is(attribute::BAD));
    bytes[40] = 0;
    assert!(read(&bytes).is(attribute::BAD), "hop-by-hop options twice");
}
