//! Marks that PREROUTING sets choose the route: two ways out, a rule of policy routing, real
//! datagrams. What is judged on the way in is counted once, tracked once, and dropped for good.

mod common;

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use common::inside;
use weir_engine::compile::{Options, compile};
use weir_plane::{ApplyOptions, Plane, Policy};
use weir_policy::dialect::iptables::{self, Input, LowerOptions};
use weir_policy::model::{self, Family};
use weir_policy::syntax::Sources;

const RULES_V4: &str = "\
*raw
:PREROUTING ACCEPT [0:0]
-A PREROUTING -p udp -m udp --dport 7009 -j DROP
-A PREROUTING -p udp -m udp --dport 7005 -j CT --notrack
COMMIT
*mangle
:PREROUTING ACCEPT [0:0]
-A PREROUTING -i wan2 -m conntrack --ctstate NEW -j CONNMARK --set-xmark 0x2/0xffffffff
-A PREROUTING -i lan -j CONNMARK --restore-mark --nfmask 0xffffffff --ctmask 0xffffffff
-A PREROUTING -p udp -m udp --dport 7002 -j MARK --set-xmark 0x2/0xffffffff
COMMIT
*filter
:FORWARD ACCEPT [0:0]
-A FORWARD -m conntrack --ctstate UNTRACKED -j ACCEPT
-A FORWARD -m mark --mark 0x2 -j ACCEPT
-A FORWARD -m conntrack --ctstate NEW -j ACCEPT
COMMIT
";
const LINES: std::ops::Range<u32> = 3..17;

const RULES_V6: &str = "\
*mangle
:PREROUTING ACCEPT [0:0]
-A PREROUTING -p udp -m udp --dport 7002 -j MARK --set-xmark 0x2/0xffffffff
COMMIT
";

/// A gateway between a client and two providers that both have the server's address.
struct Town {
    gateway: String,
    client: String,
    first: String,
    second: String,
}

fn ip(arguments: &str) {
    let mut command = Command::new("ip");
    let output = command.args(arguments.split_whitespace()).output();
    let output = output.expect("ip runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {error}");
}

fn sysctl(namespace: &str, setting: &str) {
    ip(&format!("netns exec {namespace} sysctl -qw {setting}"));
}

impl Town {
    fn new(tag: &str) -> Town {
        let name = |end: &str| format!("rest-{tag}-{}{end}", std::process::id());
        let town = Town {
            gateway: name("g"),
            client: name("c"),
            first: name("a"),
            second: name("b"),
        };
        let (g, c) = (&town.gateway, &town.client);
        for namespace in [g, c, &town.first, &town.second] {
            ip(&format!("netns add {namespace}"));
            sysctl(namespace, "net.ipv6.conf.all.accept_dad=0");
            sysctl(namespace, "net.ipv6.conf.default.accept_dad=0");
            for which in ["all", "default"] {
                sysctl(namespace, &format!("net.ipv4.conf.{which}.rp_filter=0"));
            }
            ip(&format!("-n {namespace} link set lo up"));
        }
        let ends = [
            ("lan", c, 1),
            ("wan1", &town.first, 2),
            ("wan2", &town.second, 3),
        ];
        for (name, other, net) in ends {
            ip(&format!(
                "link add {name} netns {g} type veth peer name eth0 netns {other}"
            ));
            for (space, device, host) in [(g, name, 1), (other, "eth0", 2)] {
                ip(&format!(
                    "-n {space} addr add 10.{net}.0.{host}/24 dev {device}"
                ));
                ip(&format!(
                    "-n {space} -6 addr add fd0{net}::{host}/64 dev {device} nodad"
                ));
                ip(&format!("-n {space} link set {device} up"));
            }
            ip(&format!("-n {other} route add default via 10.{net}.0.1"));
            ip(&format!("-n {other} -6 route add default via fd0{net}::1"));
        }
        for provider in [&town.first, &town.second] {
            ip(&format!("-n {provider} addr add 203.0.113.1/32 dev lo"));
            ip(&format!(
                "-n {provider} -6 addr add 2001:db8::1/128 dev lo nodad"
            ));
        }
        sysctl(g, "net.ipv4.ip_forward=1");
        sysctl(g, "net.ipv6.conf.all.forwarding=1");
        ip(&format!("-n {g} route add default via 10.2.0.2"));
        ip(&format!("-n {g} route add default via 10.3.0.2 table 100"));
        ip(&format!("-n {g} rule add fwmark 2 table 100"));
        ip(&format!("-n {g} -6 route add default via fd02::2"));
        ip(&format!(
            "-n {g} -6 route add default via fd03::2 table 100"
        ));
        ip(&format!("-n {g} -6 rule add fwmark 2 table 100"));
        town
    }
}

impl Drop for Town {
    fn drop(&mut self) {
        if let Ok(mut plane) = Plane::open(Some(&self.gateway)) {
            let _ = plane.unload();
        }
        for name in [&self.gateway, &self.client, &self.first, &self.second] {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

fn socket(namespace: &str, address: &str) -> UdpSocket {
    let socket = inside(namespace, || {
        UdpSocket::bind(address).expect("it can be bound")
    });
    let patience = Some(Duration::from_millis(300));
    socket.set_read_timeout(patience).expect("it can be set");
    socket
}

/// Datagrams that wait at a socket, up to so many.
fn arrived(socket: &UdpSocket, up_to: u32) -> u32 {
    let mut buffer = [0; 4096];
    for count in 0..up_to {
        match socket.recv_from(&mut buffer) {
            Ok(_) => {}
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return count;
            }
            Err(e) => panic!("{e}"),
        }
    }
    up_to
}

fn lowered(text: &str, family: Family) -> model::Policy {
    let mut sources = Sources::new();
    let id = sources.add("rules", text.to_owned());
    let (file, found) = iptables::parse_as(text, id, family);
    assert!(found.is_empty(), "{found:?}");
    let input = Input::Rules {
        name: "rules",
        file: &file,
    };
    let (policy, report) = iptables::lower(&[input], &LowerOptions::default());
    policy.unwrap_or_else(|| panic!("{:?}", report.diagnostics))
}

fn apply(town: &Town, policy: &model::Policy) -> Plane {
    let compiled = compile(policy, &Options::default()).expect("it compiles");
    let mut plane = Plane::open(Some(&town.gateway)).expect("it can be opened");
    plane
        .apply(&Policy::of(policy, &compiled), ApplyOptions::default())
        .unwrap_or_else(|e| panic!("{e}"));
    plane
}

/// Packets that the rules of these lines counted.
fn counted(plane: &Plane, policy: &model::Policy, lines: std::ops::Range<u32>) -> Vec<(u32, u64)> {
    let counters = plane
        .counters(policy.rule_count)
        .expect("there are counters");
    let rules = policy.chains.iter().flat_map(|chain| &chain.rules);
    let mut found: Vec<(u32, u64)> = rules
        .filter(|rule| lines.contains(&rule.origin.line))
        .map(|rule| (rule.origin.line, counters[rule.id.0 as usize].0))
        .collect();
    found.sort_unstable();
    found
}

#[test]
fn marks_of_prerouting_choose_the_way_out() {
    let Some(()) = weir_plane::kernel_or_skip("marks_of_prerouting") else {
        return;
    };
    let town = Town::new("mark");
    let policy = lowered(RULES_V4, Family::V4);
    let plane = apply(&town, &policy);
    // Somebody who listens to IPv4 makes the kernel copy each packet between the two hooks.
    let gateway = weir_plane::space::Space::open(Some(&town.gateway)).expect("it exists");
    let _listener = gateway
        .enter(|| Ok(weir_testkit::sys::open_packet_socket("lan", 0x0800).expect("it opens")))
        .expect("it can be entered");
    let at = |space: &str, port: u16| socket(space, &format!("203.0.113.1:{port}"));
    let servers: Vec<(u16, UdpSocket, UdpSocket)> = [7001, 7002, 7005, 7009]
        .map(|port| (port, at(&town.first, port), at(&town.second, port)))
        .into();
    let client = socket(&town.client, "10.1.0.2:7100");
    for (port, _, _) in &servers {
        for _ in 0..10 {
            let to = ("203.0.113.1", *port);
            client.send_to(b"hello", to).expect("it is sent");
        }
    }
    // In two fragments: counted once, as the datagram that they make up; too late for routing.
    client
        .send_to(&[7; 2000], ("203.0.113.1", 7001))
        .expect("it is sent");
    let went = servers
        .iter()
        .map(|(port, first, second)| (*port, arrived(first, 20), arrived(second, 20)));
    let went: Vec<(u16, u32, u32)> = went.collect();
    assert_eq!(
        went,
        [(7001, 11, 0), (7002, 0, 10), (7005, 10, 0), (7009, 0, 0)]
    );

    // What came in by the second provider is answered through it.
    let caller = at(&town.second, 5555);
    let other = at(&town.first, 5555);
    caller
        .send_to(b"hello", "10.1.0.2:7100")
        .expect("it is sent");
    assert_eq!(arrived(&client, 1), 1);
    for _ in 0..5 {
        client
            .send_to(b"answer", "203.0.113.1:5555")
            .expect("it is sent");
    }
    assert_eq!((arrived(&caller, 9), arrived(&other, 1)), (5, 0));

    // Of the rules: dropped; untracked; begun outside; from the client; marked; then FORWARD, which
    // sees the first packet from outside as NEW and the answers by their mark.
    let expected = [
        (3, 10),
        (4, 10),
        (8, 1),
        (9, 36),
        (10, 10),
        (14, 10),
        (15, 15),
        (16, 12),
    ];
    assert_eq!(counted(&plane, &policy, LINES), expected);
}

#[test]
fn marks_steer_ipv6_and_new_interfaces_only_while_a_policy_asks() {
    let Some(()) = weir_plane::kernel_or_skip("marks_steer_ipv6") else {
        return;
    };
    let town = Town::new("six");
    let policy = lowered(RULES_V6, Family::V6);
    let plane = apply(&town, &policy);
    let links = |plane: &Plane| {
        let links = plane.status().expect("it is in force").links;
        links
            .iter()
            .filter(|name| name.starts_with("link_tcxin_"))
            .count()
    };
    assert_eq!(links(&plane), 4, "lo and three cables");
    ip(&format!(
        "-n {} link add extra type veth peer name extra2",
        town.gateway
    ));
    plane.take_up_interfaces().expect("it can be attached");
    assert_eq!(links(&plane), 6);

    let at = |space: &str, port: u16| socket(space, &format!("[2001:db8::1]:{port}"));
    let (first, second) = (at(&town.first, 7002), at(&town.second, 7002));
    let plain = at(&town.first, 7001);
    let client = socket(&town.client, "[fd01::2]:7100");
    for _ in 0..10 {
        client
            .send_to(b"hello", "[2001:db8::1]:7001")
            .expect("it is sent");
        client
            .send_to(b"hello", "[2001:db8::1]:7002")
            .expect("it is sent");
    }
    assert_eq!(
        (
            arrived(&plain, 20),
            arrived(&second, 20),
            arrived(&first, 1)
        ),
        (10, 10, 0)
    );
    assert_eq!(counted(&plane, &policy, 3..4), [(3, 10)]);

    let without = RULES_V6.replace("-j MARK --set-xmark 0x2/0xffffffff", "-j ACCEPT");
    let plane = apply(&town, &lowered(&without, Family::V6));
    assert_eq!(links(&plane), 0);
    client
        .send_to(b"hello", "[2001:db8::1]:7002")
        .expect("it is sent");
    assert_eq!((arrived(&first, 1), arrived(&second, 1)), (1, 0));
}
