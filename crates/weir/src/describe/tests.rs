//! Tests of the words: sets of values, tests with and without negation, what the packet had.

use super::*;
use crate::spec;
use weir_policy::eval::Locals;
use weir_policy::model::{
    AddrMatch, Cond, CtState, Family, IfPattern, Policy, RangeSet, StateMask, Test,
};

fn words(cond: Cond) -> String {
    let negated = Test { negate: true, cond };
    test(&Policy::default(), Family::V4, &negated)
}

#[test]
fn tests_read_as_phrases() {
    let prefix = RangeSet::from_ranges([(0x0a00_0000, 0x0aff_ffff), (0xc000_0201, 0xc000_0201)]);
    let odd = RangeSet::range(0x0a00_0001, 0x0a00_0009);
    let mask = AddrMatch::Masked {
        value: 1,
        mask: 255,
    };
    let ports = RangeSet::from_ranges([(22, 22), (80, 90)]);
    let many = RangeSet::from_ranges((0..9u16).map(|p| (p * 10, p * 10)));
    let lan = IfPattern {
        name: "lan".to_owned(),
        prefix: true,
    };
    let cases = [
        (
            Cond::Src(AddrMatch::Ranges(prefix)),
            "source 10.0.0.0/8,192.0.2.1",
        ),
        (
            Cond::Dst(AddrMatch::Ranges(odd)),
            "destination 10.0.0.1-10.0.0.9",
        ),
        (Cond::Src(mask), "source 0.0.0.1/0.0.0.255"),
        (Cond::DstPort(ports), "destination port 22,80-90"),
        (
            Cond::SrcPort(many),
            "source port 0,10,20,30,40,50,and 3 more",
        ),
        (Cond::InIface(lan), "received on lan+"),
        (Cond::Proto(RangeSet::one(6)), "protocol tcp"),
        (Cond::State(StateMask(12)), "state ESTABLISHED,RELATED"),
        (
            Cond::TcpFlags { mask: 23, value: 2 },
            "TCP flags syn of fin,syn,rst,ack",
        ),
        (
            Cond::Icmp {
                kind: Some(8),
                codes: (0, 255),
            },
            "ICMP type 8",
        ),
        (
            Cond::Mark {
                value: 1,
                mask: u32::MAX,
            },
            "mark 0x1",
        ),
    ];
    for (cond, expected) in cases {
        assert_eq!(words(cond), format!("not {expected}"));
    }
    let all = Cond::Src(AddrMatch::Ranges(RangeSet::range(0, u128::MAX)));
    let any6 = Test {
        negate: false,
        cond: all,
    };
    assert_eq!(test(&Policy::default(), Family::V6, &any6), "source ::/0");
}

#[test]
fn the_packet_shows_what_decided() {
    let packet = spec::parse("in=eth0 tcp 192.0.2.1:4242 > 198.51.100.7:22 syn")
        .unwrap()
        .packet;
    let seen = |cond: Cond| {
        let moment = Moment {
            state: Some(CtState::New),
        };
        observed(&cond, &packet, moment, &Locals::default())
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        seen(Cond::Src(AddrMatch::Ranges(RangeSet::default()))),
        some("it is 192.0.2.1")
    );
    assert_eq!(seen(Cond::DstPort(RangeSet::default())), some("it is 22"));
    assert_eq!(seen(Cond::State(StateMask(4))), some("it is NEW"));
    assert_eq!(
        seen(Cond::TcpFlags { mask: 1, value: 1 }),
        some("they are syn")
    );
    assert_eq!(seen(Cond::TcpOption(4)), some("it has no such option"));
    assert_eq!(
        seen(Cond::Icmp {
            kind: None,
            codes: (0, 255)
        }),
        some("it has no such header")
    );
    assert_eq!(seen(Cond::Mac([0; 6])), some("it has none"));
    assert_eq!(seen(Cond::Mark { value: 1, mask: 1 }), None);
}
