//! What a packet costs in the program alone, and what loading costs. Prints; the only claim is a
//! bound so wide that nothing but a mistake breaks it.

mod common;

use std::time::Instant;

use common::{All, made};
use weir_engine::compile::{Options, compile};
use weir_engine::packet::{self, Arrival};
use weir_plane::Policy;
use weir_plane::load::Capacity;
use weir_plane::testrun::TestRun;
use weir_policy::model::{
    Cond, CtState, Facts, Family, Flow, Fragment, Hook, Packet, PacketType, StateMask, Test,
    Transport, Verdict,
};

fn segment(family: Family) -> Packet {
    let mut packet = Packet {
        family,
        hook: Hook::Input,
        in_iface: String::new(),
        out_iface: String::new(),
        src: 0x0a00_0001,
        dst: 0x0a00_0002,
        proto: 17,
        length: 64,
        ttl: 64,
        tos: 0,
        fragment: Fragment::Whole,
        transport: Transport::Udp {
            src_port: 4000,
            dst_port: 53,
        },
        routing: None,
        mark: 0,
        mac: None,
        packet_type: PacketType::Unicast,
        owner: None,
        handling: 0,
        aside: Facts::default(),
    };
    packet::settle(&mut packet);
    packet
}

#[test]
fn a_packet_costs_nanoseconds() {
    let Some(()) = weir_plane::kernel_or_skip("a_packet_costs_nanoseconds") else {
        return;
    };
    let start = Instant::now();
    let run = TestRun::as_deployed(Capacity::for_policy(8 << 20, 32_768, 0, 65_536).expect("fits"))
        .unwrap_or_else(|e| panic!("{e}"));
    println!("loading the programs took {:?}", start.elapsed());
    let stateful = {
        let mut made = made(All::Accept);
        for chain in &mut made.model.chains {
            let state = Cond::State(StateMask(CtState::Established as u8 | CtState::New as u8));
            chain.rules[0].tests = vec![Test {
                negate: false,
                cond: state,
            }];
            chain.rules[0].flow = Flow::Verdict(Verdict::Accept);
        }
        made.compiled = compile(&made.model, &Options::default()).expect("it compiles");
        made
    };
    let empty = Policy {
        image: &[],
        rules: 0,
        history: 0,
        hooks: 0,
    };
    let (one, many) = (made(All::Accept), made(All::AcceptAfter(10_000)));
    let policies: [(&str, Policy<'_>); 4] = [
        ("no policy: memory, parser, handing back", empty),
        ("one rule", one.policy()),
        ("10,001 rules", many.policy()),
        ("one rule on state, one UDP flow", stateful.policy()),
    ];
    for (name, policy) in policies {
        run.install(&policy).expect("it can be installed");
        for family in [Family::V4, Family::V6] {
            let bytes = packet::build(&segment(family), TestRun::LIMIT).expect("it can be built");
            let arrival = Arrival::at(Hook::Input);
            let best = (0..5)
                .map(|_| {
                    run.time(family, &bytes, &arrival, 0, 200_000)
                        .expect("it runs")
                })
                .min()
                .expect("five runs");
            println!("{family:?} {name}: {best} ns");
            assert!(best < 5_000, "{name}: {best} ns");
        }
    }
}
