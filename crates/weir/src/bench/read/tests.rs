//! Vectors of both file formats, right ones and broken ones.

use super::{Messages, rules, trace};
use crate::bench::filter::{Filter, FilterSet, Flags, Masked, Packet, Ports, Prefix, Version};
use crate::bench::generate::trace::{Kind, make};
use crate::bench::generate::{Family, Options, generate};
use crate::bench::write;
use weir_policy::model::SourceId;
use weir_policy::syntax::Sources;

const SOURCE: SourceId = SourceId(0);

fn filters(text: &str) -> FilterSet {
    rules::parse(text, SOURCE).unwrap_or_else(|e| panic!("{e:?}"))
}

fn told(messages: Messages, text: &str) -> Vec<String> {
    let mut sources = Sources::new();
    sources.add("f", text);
    messages
        .kept
        .iter()
        .map(|message| message.line(&sources))
        .collect()
}

#[test]
fn a_line_of_db_generator_is_read() {
    let text = "@95.105.142.17/24\t204.13.218.182/32\t0 : 65535\t1550 : 1560\t0x06/0xFF\t\
                0x1000/0x1000\t\n";
    let expected = Filter {
        src: Prefix {
            first: 0x5f69_8e00,
            length: 24,
        },
        dst: Prefix {
            first: 0xcc0d_dab6,
            length: 32,
        },
        src_port: Ports::ANY,
        dst_port: Ports {
            first: 1550,
            last: 1560,
        },
        proto: Masked::one(6),
        flags: Masked {
            value: 0x1000,
            mask: 0x1000,
        },
    };
    assert_eq!(filters(text).filters, [expected]);
    // Blanks for tabs, no blanks around colons, decimal numbers, no trailing tab.
    let text = "# a comment\n\n  @95.105.142.0/24 204.13.218.182/32 0:65535 1550 :1560 6/255 \
                4096/4096 0 0";
    assert_eq!(filters(text).filters, [expected]);
}

#[test]
fn columns_may_be_missing_and_addresses_may_be_long() {
    let set = filters("@2001:db8::1/32\t::/0\t53 : 53\t0 : 65535\t0x00/0x00\n");
    assert_eq!(set.version, Version::V6);
    let filter = set.filters[0];
    assert_eq!(filter.src.first, 0x2001_0db8 << 96);
    assert_eq!(filter.dst.last(set.version), u128::MAX);
    assert_eq!((filter.proto, filter.flags.mask), (Masked::ANY, 0));
}

#[test]
fn broken_filters_are_located() {
    let cases = [
        (
            "1.2.3.4/8 0.0.0.0/0 0 : 1 0 : 1 0/0",
            "f:1:1: error[no-filter]",
        ),
        (
            "@1.2.3.4/33 0.0.0.0/0 0 : 1 0 : 1 0/0",
            "f:1:2: error[bad-prefix]",
        ),
        (
            "@1.2.3.4 0.0.0.0/0 0 : 1 0 : 1 0/0",
            "f:1:2: error[bad-prefix]",
        ),
        (
            "@1.2.3.256/8 0.0.0.0/0 0 : 1 0 : 1 0/0",
            "f:1:2: error[bad-prefix]",
        ),
        (
            "@1.2.3.4/8 ::/0 0 : 1 0 : 1 0/0",
            "f:1:12: error[mixed-families]",
        ),
        (
            "@1.2.3.4/8 0.0.0.0/0 0 : 65536 0 : 1 0/0",
            "f:1:26: error[bad-port]",
        ),
        (
            "@1.2.3.4/8 0.0.0.0/0 -1 : 5 0 : 1 0/0",
            "f:1:22: error[bad-port]",
        ),
        (
            "@1.2.3.4/8 0.0.0.0/0 9 : 5 0 : 1 0/0",
            "f:1:22: error[empty-range]",
        ),
        (
            "@1.2.3.4/8 0.0.0.0/0 0 - 5 0 : 1 0/0",
            "f:1:24: error[no-colon]",
        ),
        ("@1.2.3.4/8 0.0.0.0/0 0 : 5 0 : 1", "f:1:33: error[missing]"),
        ("@1.2.3.4/8", "f:1:11: error[missing]"),
        (
            "@1.2.3.4/8 0.0.0.0/0 0 : 5 0 : 1 0x06",
            "f:1:34: error[bad-mask]",
        ),
        (
            "@1.2.3.4/8 0.0.0.0/0 0 : 5 0 : 1 0x06/0xFFF",
            "f:1:34: error[bad-mask]",
        ),
        (
            "@1.2.3.4/8 0.0.0.0/0 0 : 5 0 : 1 0x06/0x00",
            "f:1:34: error[bad-mask]",
        ),
        (
            "@1.2.3.4/8 0.0.0.0/0 0 : 5 0 : 1 tcp/0xff",
            "f:1:34: error[bad-mask]",
        ),
        (
            "@1.2.3.4/8 0.0.0.0/0 0 : 5 0 : 1 0/0 5",
            "f:1:38: error[bad-mask]",
        ),
        (
            "@1.2.3.4/8 0.0.0.0/0 0 : 5 0 : 1 0/0 0/0 7",
            "f:1:42: error[unsupported]",
        ),
        (
            "@1.2.3.4/8 0.0.0.0/0 0 : 5 0 : 1 0/0 0/0 x",
            "f:1:42: error[trailing]",
        ),
        ("# nothing\n", "f:1:1: error[empty]"),
    ];
    for (text, expected) in cases {
        let lines = told(rules::parse(text, SOURCE).expect_err(text), text);
        assert_eq!(lines.len(), 1, "{text}: {lines:?}");
        assert!(lines[0].starts_with(expected), "{text}: {lines:?}");
    }
    let both = "@1.2.3.4/8 0.0.0.0/0 0 : 1 0 : 1 0/0\n@::/0 ::/0 0 : 1 0 : 1 0/0\n@x\n";
    let lines = told(rules::parse(both, SOURCE).unwrap_err(), both);
    assert_eq!(lines.len(), 2, "all at once: {lines:?}");
    assert!(
        lines[0].starts_with("f:2:1: error[mixed-families]"),
        "{lines:?}"
    );
}

#[test]
fn columns_of_traces_are_told_apart_by_their_number() {
    let packet = Packet {
        src: 0x0102_0304,
        dst: 7,
        src_port: 80,
        dst_port: 65_535,
        proto: 6,
        flags: 0,
    };
    let read = |text| trace::parse(text, SOURCE, Version::V4, 10).unwrap();
    let five = read("16909060\t7\t80\t65535\t6\n1.2.3.4 0.0.0.7 80 65535 6\n");
    assert_eq!(
        (five.packets, five.made_for),
        (vec![packet, packet], vec![])
    );
    let six = read("16909060\t7\t80\t65535\t6\t9\n");
    assert_eq!((six.packets, six.made_for), (vec![packet], vec![9]));
    // ACK and the mask of ACK, then the filter.
    let seven = read("16909060 7 80 65535 6 268439552 3");
    assert_eq!(
        seven.packets,
        [Packet {
            flags: 0x10,
            ..packet
        }]
    );
    assert_eq!(seven.made_for, [3]);
    let more = read("16909060 7 80 65535 6 4294967295 11 12 3");
    assert_eq!(
        more.packets,
        [Packet {
            flags: 0xff,
            ..packet
        }]
    );
    assert_eq!(more.made_for, [3]);
    let long = trace::parse("5 2001:db8::1 1 2 17", SOURCE, Version::V6, 1).unwrap();
    assert_eq!(long.packets[0].dst, (0x2001_0db8 << 96) + 1);
}

#[test]
fn broken_packets_are_located() {
    let cases = [
        ("1 2 3 4", "f:1:1: error[columns]"),
        ("1 2 3 4 5\n1 2 3 4 5 6", "f:2:1: error[columns]"),
        ("4294967296 2 3 4 5", "f:1:1: error[bad-address]"),
        ("1 ::1 3 4 5", "f:1:3: error[bad-address]"),
        ("1 2 65536 4 5", "f:1:5: error[bad-number]"),
        ("1 2 3 x 5", "f:1:7: error[bad-number]"),
        ("1 2 3 4 256", "f:1:9: error[bad-number]"),
        ("1 2 3 4 5 10", "f:1:11: error[bad-number]"),
        ("1 2 3 4 5 -1", "f:1:11: error[bad-number]"),
        ("1 2 3 4 5 0x10 1", "f:1:11: error[bad-number]"),
        ("1 2 3 4 5 0 y 1", "f:1:13: error[bad-number]"),
        ("", "f:1:1: error[empty]"),
    ];
    for (text, expected) in cases {
        let wrong = trace::parse(text, SOURCE, Version::V4, 10).expect_err(text);
        let lines = told(wrong, text);
        assert_eq!(lines.len(), 1, "{text}: {lines:?}");
        assert!(lines[0].starts_with(expected), "{text}: {lines:?}");
    }
}

#[test]
fn flags_are_a_field_where_they_are_tcps() {
    let check = |line: &str| {
        let set = filters(line);
        super::flags::check(&set, line, SOURCE).map_err(|messages| told(messages, line))
    };
    let line = |rest: &str| format!("@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 {rest}\n");
    assert_eq!(check(&line("6/255 0x0000/0x0200")), Ok(()));
    assert_eq!(check(&line("17/255 0/0")), Ok(()));
    assert!(check(&line("6/255 0x0010/0x0010")).unwrap_err()[0].contains("low byte"));
    assert!(check(&line("0/0 0x1000/0x1000")).unwrap_err()[0].contains("not for TCP"));
    let set = filters(&line("6/255 0x1000/0x1200"));
    let holds = |proto, flags, with| {
        let packet = Packet {
            proto,
            flags,
            ..Packet::default()
        };
        set.filters[0].holds(&packet, set.version, with)
    };
    assert!(holds(6, 0x10, Flags::Matched) && holds(6, 0x18, Flags::Matched));
    assert!(!holds(6, 0x12, Flags::Matched) && !holds(6, 0x02, Flags::Matched));
    assert!(holds(6, 0x02, Flags::Ignored) && !holds(17, 0x10, Flags::Ignored));
}

#[test]
fn what_is_written_is_read_back() {
    for version in [Version::V4, Version::V6] {
        for family in Family::all() {
            let options = Options {
                version,
                ..Options::new(family, 200, 8)
            };
            let set = generate(&options).unwrap();
            assert_eq!(filters(&write::filters(&set)), set, "{family}");
            for kind in Kind::ALL {
                let made = make(&set, 100, kind, 8);
                let read = trace::parse(&write::trace(&made), SOURCE, version, 200);
                assert_eq!(read.unwrap(), made, "{family}");
            }
        }
    }
}
