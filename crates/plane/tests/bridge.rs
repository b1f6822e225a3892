//! Packets that a bridge hands to the programs: by which port they came and leave (`-m physdev`).

mod common;

use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use common::{All, Made, Pair, apply, inside, model_of};
use weir_engine::compile::{Options, compile};
use weir_plane::Plane;
use weir_policy::model::{Aside, Cond, Flow, Hook, IfPattern, Test, Verdict};

/// A third host behind another port of a bridge that the host's cable is a port of, too.
struct Bridged {
    pair: Pair,
    third: String,
}

fn run(words: &str) {
    let mut split = words.split_whitespace();
    let output = Command::new(split.next().expect("a program"))
        .args(split)
        .output()
        .expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}: {told}");
}

impl Bridged {
    fn new() -> Bridged {
        let pair = Pair::new();
        let (host, third) = (pair.host.clone(), format!("{}3", pair.host));
        let lines = [
            format!("ip netns add {third}"),
            format!("ip link add tap1 netns {host} type veth peer name eth0 netns {third}"),
            format!("ip -n {host} addr flush dev eth0"),
            format!("ip -n {host} link add br0 type bridge"),
            format!("ip -n {host} link set eth0 master br0"),
            format!("ip -n {host} link set tap1 master br0"),
            format!("ip -n {host} link set tap1 up"),
            format!("ip -n {host} link set br0 up"),
            format!("ip -n {third} link set eth0 address 02:00:00:00:09:03"),
            format!("ip -n {third} addr add 10.9.0.3/24 dev eth0"),
            format!("ip -n {third} link set eth0 up"),
            format!(
                "ip -n {} neigh replace 10.9.0.3 lladdr 02:00:00:00:09:03 dev eth0 nud permanent",
                pair.neighbour
            ),
            format!(
                "ip -n {third} neigh replace 10.9.0.2 lladdr 02:00:00:00:09:02 dev eth0 nud \
                 permanent"
            ),
            format!("ip netns exec {host} sysctl -qw net.bridge.bridge-nf-call-iptables=1"),
        ];
        lines.iter().for_each(|line| run(line));
        Bridged { pair, third }
    }

    /// Whether a datagram comes through the bridge.
    fn passes(&self, port: u16) -> bool {
        let socket = inside(&self.third, || {
            UdpSocket::bind(("0.0.0.0", port)).expect("free")
        });
        socket
            .set_read_timeout(Some(Duration::from_millis(400)))
            .expect("a time-out can be set");
        self.pair.in_neighbour(|| {
            let from = UdpSocket::bind("0.0.0.0:0").expect("a port is free");
            from.send_to(b"hello", ("10.9.0.3", port)).expect("sent");
        });
        socket.recv_from(&mut [0; 16]).is_ok()
    }
}

impl Drop for Bridged {
    fn drop(&mut self) {
        let words = ["netns", "del", &self.third];
        let _ = Command::new("ip").args(words).output();
    }
}

/// By which port, with a name or any.
fn port(out: bool, name: Option<(&str, bool)>) -> Cond {
    Cond::Aside(Aside::Port {
        out,
        name: name.map(|(name, prefix)| IfPattern {
            name: name.into(),
            prefix,
        }),
    })
}

#[test]
fn ports_of_a_bridge_are_known() {
    let Some(()) = weir_plane::kernel_or_skip("ports_of_a_bridge_are_known") else {
        return;
    };
    let bridged = Bridged::new();
    assert!(bridged.passes(7000), "nothing is enforced yet");
    // What each rule asks, negated or not, and whether it holds.
    let asked = [
        (port(false, Some(("eth0", false))), false, true),
        (port(false, Some(("et", true))), false, true),
        (port(false, Some(("eth", false))), false, false),
        (port(true, Some(("tap1", false))), false, true),
        (port(true, Some(("eth0", false))), true, true),
        (port(true, None), false, true),
        (port(false, None), true, false),
        (port(false, Some(("br0", false))), false, false),
    ];
    let mut model = model_of(&All::AcceptAfter(asked.len() as u32), Hook::Forward);
    for chain in &mut model.chains {
        for (rule, (cond, negate, _)) in chain.rules.iter_mut().zip(&asked) {
            rule.flow = Flow::Next;
            rule.tests = vec![Test {
                negate: *negate,
                cond: cond.clone(),
            }];
        }
    }
    let compiled = compile(&model, &Options::default()).expect("it compiles");
    let made = Made { model, compiled };
    let mut plane = Plane::open(Some(&bridged.pair.host)).expect("it can be opened");
    apply(&mut plane, &made);
    assert!(bridged.passes(7001));
    let counters = plane.counters(asked.len() as u32).expect("counters");
    for ((cond, negate, holds), counted) in asked.iter().zip(counters) {
        assert_eq!(counted.0, u64::from(*holds), "{cond:?}, negated: {negate}");
    }
    let mut stopping = made.model.clone();
    stopping.chains[0].rules[0].flow = Flow::Verdict(Verdict::Drop);
    let compiled = compile(&stopping, &Options::default()).expect("it compiles");
    let stopping = Made {
        model: stopping,
        compiled,
    };
    apply(&mut plane, &stopping);
    assert!(!bridged.passes(7002), "dropped by the port it came by");
}
