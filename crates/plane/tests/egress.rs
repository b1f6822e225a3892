//! Marks of headers reach the wire: TOS byte, traffic class, segment size, with right checksums.

mod common;

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use common::{All, Pair, apply, made, made_at};
use weir_engine::packet::checksum;
use weir_engine::packet::parse::tcp_options;
use weir_plane::Plane;
use weir_plane::events::Event;
use weir_policy::model::{Hook, MssOp, Op};

/// What the neighbour receives while `work` goes on.
fn received(pair: &Pair, work: impl FnOnce()) -> Vec<Event> {
    let mut plane = Plane::open(Some(&pair.neighbour)).expect("it can be opened");
    apply(&mut plane, &made(All::LogAccept));
    let mut reader = plane.events().expect("there are events");
    reader.discard();
    work();
    let mut seen = Vec::new();
    while reader
        .read(Duration::from_millis(200), |event| {
            seen.push(event);
            true
        })
        .expect("it can be read")
        > 0
    {}
    seen
}

/// Whether the IPv4 header's checksum is right.
fn header_is_right(event: &Event) -> bool {
    event.key.family == 6 || checksum::finish(checksum::sum(&event.bytes[..20], 0)) == 0
}

#[test]
fn tos_and_traffic_class_are_set_on_the_wire() {
    let Some(()) = weir_plane::kernel_or_skip("tos_and_traffic_class") else {
        return;
    };
    let pair = Pair::new();
    let mut plane = Plane::open(Some(&pair.host)).expect("it can be opened");
    apply(
        &mut plane,
        &made_at(All::Do(Op::SetDscp(0x2e)), Hook::Output),
    );
    let links = plane.status().expect("it is in force").links;
    assert_eq!(links.len(), 4, "two hooks, two interfaces: {links:?}");
    let seen = received(&pair, || {
        pair.in_host(|| {
            for to in ["10.9.0.2:9", "[fd09::2]:9"] {
                let any = if to.starts_with('[') {
                    "[::]:0"
                } else {
                    "0.0.0.0:0"
                };
                let socket = UdpSocket::bind(any).expect("a port is free");
                socket.send_to(b"colour me", to).expect("it can be sent");
            }
        });
    });
    for family in [4, 6] {
        let event = seen
            .iter()
            .find(|e| e.key.family == family && e.key.proto == 17)
            .expect("the datagram arrived");
        assert_eq!(event.key.tos, 0xb8, "IPv{family}");
        assert!(header_is_right(event), "IPv{family}: {:02x?}", event.bytes);
    }
    // Another policy needs no tcx programs: they go.
    apply(&mut plane, &made_at(All::Accept, Hook::Output));
    assert_eq!(plane.status().expect("it is in force").links.len(), 2);
}

#[test]
fn the_segment_size_of_a_syn_is_lowered() {
    let Some(()) = weir_plane::kernel_or_skip("the_segment_size_of_a_syn") else {
        return;
    };
    let pair = Pair::new();
    let mut plane = Plane::open(Some(&pair.host)).expect("it can be opened");
    for (mss, wanted) in [
        (MssOp::Set(1200), 1200),
        (MssOp::Set(9000), 1460),
        (MssOp::ClampToPmtu, 1460),
    ] {
        apply(&mut plane, &made_at(All::Do(Op::TcpMss(mss)), Hook::Output));
        let listener = pair.in_neighbour(|| TcpListener::bind("10.9.0.2:8000").expect("free"));
        let seen = received(&pair, || {
            // The connection comes about, so the TCP checksum is right too.
            let stream = pair.in_host(|| TcpStream::connect("10.9.0.2:8000").expect("it connects"));
            drop(stream);
        });
        drop(listener);
        let syn = seen
            .iter()
            .find(|e| e.key.tcp_flags == 2 && e.key.dst_port == 8000)
            .expect("the SYN arrived");
        let options = tcp_options(&syn.bytes, &syn.key);
        assert_eq!(options[..2], [2, 4], "{options:02x?}");
        let value = u16::from_be_bytes([options[2], options[3]]);
        assert_eq!(value, wanted, "asked for {mss:?}");
        assert!(header_is_right(syn));
    }
}
