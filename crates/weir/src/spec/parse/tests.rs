//! Tests of the packet specification: what each spelling means, and where each error points.

use super::parse;
use weir_policy::model::{CtState, Family, Fragment, Hook, PacketType, SctpChunk, Transport};

/// The part of the text that an error points at, and its message.
fn wrong(text: &str) -> (String, String) {
    let error = parse(text).expect_err(text);
    let place = text[error.start..error.start + error.length].to_owned();
    (place, error.message)
}

#[test]
fn the_example_of_the_manual() {
    let spec = parse("in=eth0 hook=INPUT tcp 192.0.2.1:4242 > 198.51.100.7:22 syn").unwrap();
    let packet = &spec.packet;
    assert_eq!((packet.family, packet.proto), (Family::V4, 6));
    assert_eq!((packet.src, packet.dst), (0xc000_0201, 0xc633_6407));
    assert_eq!(packet.ports(), Some((4242, 22)));
    assert_eq!((packet.hook, spec.hook), (Hook::Input, Some(Hook::Input)));
    assert_eq!(
        (packet.in_iface.as_str(), packet.out_iface.as_str()),
        ("eth0", "")
    );
    assert_eq!((packet.length, packet.ttl, packet.mark), (40, 64, 0));
    assert!(matches!(packet.transport, Transport::Tcp { flags: 2, .. }));
    assert_eq!((spec.state, spec.connmark), (None, None));
}

#[test]
fn arrows_need_no_blanks_and_order_is_free() {
    let long = parse("udp 10.0.0.1:53 -> 10.0.0.2:5353 out=wan0 in=lan0").unwrap();
    let short = parse("in=lan0 10.0.0.1:53>10.0.0.2:5353 out=wan0 udp").unwrap();
    let dashed = parse("10.0.0.1:53->10.0.0.2:5353 udp in=lan0 out=wan0").unwrap();
    assert_eq!(long, short);
    assert_eq!(long, dashed);
    assert_eq!(long.packet.hook, Hook::Forward);
    assert_eq!(long.hook, None);
}

#[test]
fn the_way_follows_from_the_interfaces() {
    let hook = |text: &str| parse(text).unwrap().packet.hook;
    assert_eq!(hook("udp 1.1.1.1 > 2.2.2.2:53"), Hook::Input);
    assert_eq!(hook("udp 1.1.1.1 > 2.2.2.2:53 in=a"), Hook::Input);
    assert_eq!(hook("udp 1.1.1.1 > 2.2.2.2:53 out=a"), Hook::Output);
    assert_eq!(hook("udp 1.1.1.1 > 2.2.2.2:53 out=a in=b"), Hook::Forward);
    assert_eq!(
        hook("udp 1.1.1.1 > 2.2.2.2:53 out=a hook=postrouting"),
        Hook::Postrouting
    );
    let made_here = parse("udp 1.1.1.1 > 2.2.2.2:53 out=a").unwrap();
    assert_eq!(made_here.packet.packet_type, PacketType::Outgoing);
}

#[test]
fn ipv6_with_and_without_ports() {
    let spec = parse("tcp [2001:db8::1]:4000 > [2001:db8::2]:443 state=ESTABLISHED").unwrap();
    assert_eq!(spec.packet.family, Family::V6);
    assert_eq!(spec.packet.dst, 0x2001_0db8_0000_0000_0000_0000_0000_0002);
    assert_eq!(spec.packet.ports(), Some((4000, 443)));
    assert_eq!(spec.state, Some(CtState::Established));
    assert!(matches!(
        spec.packet.transport,
        Transport::Tcp { flags: 16, .. }
    ));
    let ping = parse("icmpv6 fe80::1 > ff02::1").unwrap();
    let echo = Transport::Icmp {
        kind: 128,
        code: 0,
        id: 1,
        about: None,
    };
    assert_eq!((ping.packet.transport, ping.packet.length), (echo, 104));
}

#[test]
fn every_field_arrives() {
    let spec = parse(
        "tcp 10.0.0.1:1 > 10.0.0.2:2 syn ack ece mark=0x10 connmark=7 ttl=3 dscp=46 len=900 \
         mss=1200 mac=02:00:5e:10:00:01 type=broadcast uid=1000 gid=100 frag=first",
    )
    .unwrap();
    let packet = &spec.packet;
    assert_eq!((packet.mark, spec.connmark), (16, Some(7)));
    assert_eq!((packet.ttl, packet.tos, packet.length), (3, 0xb8, 900));
    assert_eq!(packet.mac, Some([2, 0, 0x5e, 0x10, 0, 1]));
    assert_eq!(packet.packet_type, PacketType::Broadcast);
    assert_eq!(
        (packet.owner, packet.fragment),
        (Some((1000, 100)), Fragment::First)
    );
    let Transport::Tcp { flags, options, .. } = &packet.transport else {
        panic!("{:?}", packet.transport);
    };
    assert_eq!(
        (*flags, options.as_slice()),
        (2 | 16 | 64, &[2, 4, 4, 176][..])
    );
}

#[test]
fn other_transports() {
    let transport = |text: &str| parse(text).unwrap().packet.transport;
    let icmp = |kind, code, id| Transport::Icmp {
        kind,
        code,
        id,
        about: None,
    };
    assert_eq!(
        transport("icmp 1.1.1.1 > 2.2.2.2 3/13 id=9"),
        icmp(3, 13, 9)
    );
    assert_eq!(
        transport("icmp 1.1.1.1 > 2.2.2.2 host-unreachable"),
        icmp(3, 1, 1)
    );
    assert_eq!(transport("icmpv6 ::1 > ::2 icmp=135"), icmp(135, 0, 1));
    assert_eq!(
        transport("esp 1.1.1.1 > 2.2.2.2 spi=0x100"),
        Transport::Spi(256)
    );
    assert_eq!(transport("proto=47 1.1.1.1 > 2.2.2.2"), Transport::None);
    assert_eq!(
        transport("udp 1.1.1.1 > 2.2.2.2 frag=later"),
        Transport::None
    );
    let chunks = vec![SctpChunk { kind: 65, flags: 3 }];
    let sctp = Transport::Sctp {
        src_port: 40_000,
        dst_port: 80,
        chunks,
        broken: false,
    };
    let text = "sctp 1.1.1.1 > 2.2.2.2:80 chunk=65 chunk-flags=3";
    assert_eq!(transport(text), sctp);
}

#[test]
fn errors_point_at_the_word() {
    let cases = [
        (
            "tcp 1.1.1.1:x > 2.2.2.2:2",
            "1.1.1.1:x",
            "not a port number",
        ),
        (
            "tcp 1.1.1.1:1 > 2.2.2.2",
            "2.2.2.2",
            "the destination port is missing",
        ),
        ("tcp 1.1.1.1:1 > ::2", "::2", "different families"),
        ("tcp 1.1.1.1:1 >", ">", "no destination"),
        ("> 1.1.1.1:1 tcp", ">", "no source"),
        (
            "tcp example.org:1 > 2.2.2.2:2",
            "example.org:1",
            "not an address",
        ),
        ("udp 1.1.1.1:1 > 2.2.2.2:2 syn", "syn", "only TCP"),
        ("icmp 1.1.1.1:1 > 2.2.2.2", "1.1.1.1:1", "no ports"),
        ("icmp ::1 > ::2", "icmp", "IPv4's"),
        (
            "tcp 1.1.1.1 > 2.2.2.2:2 hook=FORWRAD",
            "FORWRAD",
            "no such hook",
        ),
        (
            "tcp 1.1.1.1 > 2.2.2.2:2 state=OPEN",
            "OPEN",
            "no such state",
        ),
        ("tcp 1.1.1.1 > 2.2.2.2:2 ttl=256", "256", "from 0 to 255"),
        (
            "tcp 1.1.1.1 > 2.2.2.2:2 ttl=1 ttl=1",
            "ttl=1",
            "a second `ttl`",
        ),
        ("tcp udp 1.1.1.1 > 2.2.2.2:2", "udp", "a second protocol"),
        (
            "tcp 1.1.1.1 > 2.2.2.2:2 hook=INPUT out=a",
            "out=a",
            "no sending interface",
        ),
        (
            "tcp 1.1.1.1 > 2.2.2.2:2 hook=OUTPUT in=a",
            "in=a",
            "no receiving interface",
        ),
        (
            "tcp 1.1.1.1 > 2.2.2.2:2 in=name-of-16-bytes",
            "name-of-16-bytes",
            "interface name",
        ),
        ("tcp 1.1.1.1 > 2.2.2.2:2 mac=1:2:3", "1:2:3", "MAC"),
        (
            "udp 1.1.1.1:5 > 2.2.2.2 frag=later",
            "1.1.1.1:5",
            "no ports",
        ),
        ("udp 1.1.1.1 > 2.2.2.2:2 mss=9", "mss=9", "no `mss`"),
        (
            "tcp 1.1.1.1 > 2.2.2.2:2 colour=red",
            "colour=red",
            "no such field",
        ),
        ("tcp 1.1.1.1 > 2.2.2.2:2 3.3.3.3", "3.3.3.3", "without `>`"),
        (
            "icmp 1.1.1.1 > 2.2.2.2 icmp=nothing",
            "icmp=nothing",
            "no such ICMP type",
        ),
        ("tcp", "", "no addresses"),
        ("1.1.1.1 > 2.2.2.2", "", "no protocol"),
    ];
    for (text, place, message) in cases {
        let (at, said) = wrong(text);
        assert_eq!(at, place, "{text}: {said}");
        assert!(said.contains(message), "{text}: {said}");
    }
}

#[test]
fn the_message_shows_the_place_and_the_remedy() {
    let error = parse("tcp 1.1.1.1 > 2.2.2.2:2 hook=FORWRAD").unwrap_err();
    assert_eq!(
        error.to_string(),
        "packet: no such hook\n\
         \x20 | tcp 1.1.1.1 > 2.2.2.2:2 hook=FORWRAD\n\
         \x20 |                              ^^^^^^^\n\
         \x20 = did you mean `FORWARD`?"
    );
}

#[test]
fn what_is_printed_reads_back_as_the_same_packet() {
    let texts = [
        "in=eth0 hook=INPUT tcp 192.0.2.1:4242 > 198.51.100.7:22 syn",
        "out=a udp [2001:db8::1]:53 > [2001:db8::2]:5353 mark=0xff state=NEW uid=5 gid=6",
        "in=a out=b icmp 10.0.0.1 > 10.0.0.2 3/1 id=77 ttl=1 tos=16 len=576",
        "esp 10.0.0.1 > 10.0.0.2 spi=99 frag=first type=multicast mac=02:00:5e:10:00:01",
        "udp 10.0.0.1 > 10.0.0.2 frag=later connmark=3",
        "tcp 10.0.0.1:9 > 10.0.0.2:10 none mss=536",
        "sctp 10.0.0.1:9 > 10.0.0.2:10 chunk=14 chunk-flags=1",
        "proto=47 10.0.0.1 > 10.0.0.2 dscp=10",
        "in=a out=b tcp 10.0.0.1:9 > 10.0.0.2:10 kernel=dnat,ipsec-in",
    ];
    for text in texts {
        let spec = parse(text).unwrap();
        let printed = spec.describe();
        let mut again = parse(&printed).unwrap_or_else(|e| panic!("{e}"));
        // The printed form names the hook that the first form left to be inferred.
        assert_eq!(again.hook, Some(spec.packet.hook), "{printed}");
        again.hook = spec.hook;
        assert_eq!(again, spec, "{text} -> {printed}");
    }
}
