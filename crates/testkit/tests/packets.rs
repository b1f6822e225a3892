//! Packets survive the wire: written as bytes and parsed again, they say the same.

use weir_engine::packet::{Arrival, beside, build, key_of, packet, settle};
use weir_policy::model::{Family, Hook, Reading, Transport};
use weir_testkit::random::{PacketSource, Shape, policy};

#[test]
fn bytes_and_fields_agree() {
    let hooks = [
        Hook::Prerouting,
        Hook::Input,
        Hook::Forward,
        Hook::Output,
        Hook::Postrouting,
    ];
    for seed in 0..20 {
        let policy = policy(seed, Shape::default());
        let mut source = PacketSource::new(&policy, seed);
        for n in 0..2000 {
            let family = if n % 2 == 0 { Family::V4 } else { Family::V6 };
            let mut made = source.conversation(family, hooks[n % 5]);
            settle(&mut made);
            if let Transport::Icmp { about: Some(_), .. } = made.transport {
                continue; // the packet within keeps only its first bytes
            }
            let bytes = build(&made, usize::MAX).unwrap_or_else(|e| panic!("{e}: {made:?}"));
            assert_eq!(bytes.len(), made.length as usize, "{made:?}");
            made.aside.bytes.clone_from(&bytes);
            let known = key_of(&made);
            beside::tell(&mut made.aside, &bytes, &known);
            let read = packet(&bytes, made.length, &Arrival::of(&made), Reading::Linux);
            assert_eq!(read.as_ref(), Some(&made), "seed {seed}, packet {n}");
            let key = weir_engine::packet::parse::parse(&bytes, made.length, Reading::Linux)
                .expect("parsed before");
            let mut expected = key_of(&made);
            // The program, not the parser, knows these.
            (expected.hook, expected.packet_type, expected.mark) =
                (key.hook, key.packet_type, key.mark);
            expected.transport_offset = key.transport_offset;
            assert_eq!(key, expected, "seed {seed}, packet {n}: {made:?}");
        }
    }
}
