//! Lines of the packet log for packets written by hand.

use super::*;

/// A SYN with a timestamp option, 192.0.2.1:4242 to 198.51.100.7:22.
const SYN: &[u8] = &[
    0x45, 0x10, 0, 52, 0x12, 0x34, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, 1, 198, 51, 100, 7, // IP
    0x10, 0x92, 0, 22, 0, 0, 0, 1, 0, 0, 0, 0, 0x80, 2, 0xfa, 0xf0, 0, 0, 0, 0, // TCP
    1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, // options
];

fn logged(bytes: &[u8]) -> Logged<'_> {
    Logged {
        prefix: "x: ",
        in_name: "eth0",
        bytes,
        ..Logged::default()
    }
}

#[test]
fn tcp_over_ipv4() {
    let link = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let mut packet = Logged {
        link: &link,
        ..logged(SYN)
    };
    let plain = "x: IN=eth0 OUT= MAC=02:00:00:00:00:01:02:00:00:00:00:02:08:00 SRC=192.0.2.1 \
                 DST=198.51.100.7 LEN=52 TOS=0x10 PREC=0x00 TTL=64 ID=4660 DF PROTO=TCP SPT=4242 \
                 DPT=22 WINDOW=64240 RES=0x00 SYN URGP=0";
    assert_eq!(line(&packet), plain);
    packet.wants = Wants {
        tcp_sequence: true,
        tcp_options: true,
        ip_options: true,
        uid: true,
    };
    packet.mark = 0x10;
    packet.owner = Some((1000, 100));
    let full = plain.replace("DPT=22 ", "DPT=22 SEQ=1 ACK=0 ")
        + " OPT (0101080A0000000100000000) UID=1000 GID=100 MARK=0x10";
    assert_eq!(line(&packet), full);
}

#[test]
fn packets_made_here_have_no_link_header() {
    let udp = [
        0x45, 0, 0, 28, 0, 0, 0, 0, 1, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 53, 0, 54, 0, 8, 0, 0,
    ];
    let packet = Logged {
        out_name: "wan0",
        bytes: &udp,
        ..Logged::default()
    };
    assert_eq!(
        line(&packet),
        "IN= OUT=wan0 SRC=10.0.0.1 DST=10.0.0.2 LEN=28 TOS=0x00 PREC=0x00 TTL=1 ID=0 PROTO=UDP \
         SPT=53 DPT=54 LEN=8"
    );
}

#[test]
fn icmp_errors_hold_their_packet_in_brackets() {
    let mut bytes = vec![
        0x45, 0xc0, 0, 80, 0, 1, 0, 0, 64, 1, 0, 0, 10, 0, 0, 2, 192, 0, 2, 1, 3, 4, 0, 0, 0, 0, 5,
        0xdc,
    ];
    bytes.extend_from_slice(&SYN[..28]);
    assert_eq!(
        line(&logged(&bytes)),
        "x: IN=eth0 OUT= MAC= SRC=10.0.0.2 DST=192.0.2.1 LEN=80 TOS=0x00 PREC=0xC0 TTL=64 ID=1 \
         PROTO=ICMP TYPE=3 CODE=4 [SRC=192.0.2.1 DST=198.51.100.7 LEN=52 TOS=0x10 PREC=0x00 TTL=64 \
         ID=4660 DF PROTO=TCP INCOMPLETE [8 bytes] ] MTU=1500"
    );
}

#[test]
fn ipv6_with_a_fragment_header() {
    let mut bytes = vec![0x60, 0x01, 0x23, 0x45, 0, 24, 44, 64];
    bytes.extend_from_slice(&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    bytes.extend_from_slice(&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    bytes.extend_from_slice(&[58, 0, 0, 1, 0, 0, 0, 9]);
    bytes.extend_from_slice(&[128, 0, 0, 0, 0, 7, 0, 3]);
    assert_eq!(
        line(&logged(&bytes)),
        "x: IN=eth0 OUT= MAC= SRC=2001:0db8:0000:0000:0000:0000:0000:0001 \
         DST=2001:0db8:0000:0000:0000:0000:0000:0002 LEN=64 TC=0 HOPLIMIT=64 FLOWLBL=74565 FRAG:0 \
         INCOMPLETE ID:00000009 PROTO=ICMPv6 TYPE=128 CODE=0 ID=7 SEQ=3"
    );
    assert!(line(&logged(&bytes[..30])).ends_with("TRUNCATED"));
}

#[test]
fn later_fragments_have_no_ports() {
    let mut bytes = SYN.to_vec();
    (bytes[6], bytes[7]) = (0x20, 185);
    let text = line(&logged(&bytes));
    assert!(text.ends_with("MF FRAG:185 PROTO=TCP"), "{text}");
}
