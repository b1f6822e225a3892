//! Random rule sets of ipfw, of everything that is enforced, and what they lower to.
//!
//! In: a seed. Out: text in ipfw's own words, or the rule set and its policy. Numbers, sets, jumps
//! and calls, tables with values, blocks, modifiers and all kinds of patterns; addresses and ports
//! are few, so that rules meet the same packets.

use fastrand::Rng;
use std::fmt::Write as _;
use weir_policy::dialect::ipfw::lower::{Options, lower};
use weir_policy::dialect::ipfw::{NoNames, Ruleset, Settings, read};
use weir_policy::eval::ipfw::{Host, Packet};
use weir_policy::model::{Policy, ReversePath};
use weir_policy::syntax::Sources;

/// Addresses of the host that `me` stands for.
pub const OWN: [(&str, u128); 2] = [("10.1.2.3", 0x0a01_0203), ("192.168.0.1", 0xc0a8_0001)];
/// Its IPv6 address.
pub const OWN6: u128 = 0x2001_0db8 << 96 | 1;

fn one<'t>(rng: &mut Rng, words: &[&'t str]) -> &'t str {
    words[rng.usize(..words.len())]
}

const V4: &[&str] = &[
    "any",
    "any",
    "any",
    "me",
    "not me",
    "10.0.0.0/8",
    "not 10.1.0.0/16",
    "10.1.2.3",
    "10.1.2.3,10.1.2.9,192.168.0.0/24",
    "10.0.0.0:255.0.255.0",
    "not 10.0.0.1:255.0.0.255,192.168.0.1",
    "10.1.2.0/24{1,3,5-9,255}",
    "table(nets)",
    "not table(nets)",
    "table(nets,2)",
    "{ 10.1.2.3 or 192.168.0.0/16 }",
    "{ not 10.0.0.0/8 or 10.1.0.0/16 }",
    "{ 10.1.2.3 or any }",
];
const V6: &[&str] = &[
    "any",
    "me6",
    "2001:db8::/32",
    "not 2001:db8:0:1::/64",
    "table(nets)",
];
const PORTS: &[&str] = &[
    "80",
    "1-1023",
    "22,53,80-90",
    "not 53",
    "0,65535",
    "not 1024-65535",
];
const INTERFACES: &[&str] = &[
    "eth0",
    "eth1",
    "eth*",
    "eth[01]",
    "eth?",
    "?*[!1]",
    "*0",
    "*",
    "wg0",
    "table(ifs)",
    "any",
];

const OPTIONS: &[&str] = &[
    "in",
    "out",
    "not in",
    "established",
    "not established",
    "setup",
    "tcpflags syn,!ack,!rst",
    "not tcpflags fin,psh,urg",
    "frag",
    "not frag",
    "frag mf,!offset",
    "frag mf",
    "frag df,!mf",
    "not frag offset,!mf",
    "not frag rf,df",
    "frag !df",
    "ipid 0-100",
    "not ipid 5,0",
    "flow-id 0,5",
    "not flow-id 5",
    "tcpseq 0",
    "not tcpseq 100",
    "tcpack 0",
    "not tcpack 1",
    "tcpwin 0-1000,65535",
    "not tcpwin 5000-65535",
    "tcpdatalen 0",
    "not tcpdatalen 1-1300,65500-65535",
    "ipoptions !rr",
    "not ipoptions ts",
    "ext6hdr frag,route",
    "not ext6hdr esp,hopopt",
    "{ ipid 0 or tcpwin 0 or not src-port 53 }",
    "icmptypes 0,3,8",
    "not icmptypes 8,11",
    "icmp6types 128,129",
    "iplen 20-100,1300-1500",
    "not iplen 0-60",
    "ipttl 1,60-64",
    "not ipttl 64",
    "iptos lowdelay",
    "iptos !throughput,!reliability",
    "ipprecedence 5",
    "dscp ef,cs1,af21",
    "not dscp be",
    "tcpoptions mss",
    "not tcpoptions mss,!sack",
    "tcpmss 536-1460",
    "tagged 5",
    "not tagged 5,7",
    "tagged 1-6",
    "src-port 1-1023",
    "not dst-port 80",
    "proto tcp",
    "not proto udp",
    "ip4",
    "not ip6",
    "src-ip 10.0.0.0/8,192.168.0.1",
    "lookup dst-port ports",
    "not lookup src-port ports",
    "lookup dst-ip nets",
    "lookup dscp codes",
    "flow table(flows)",
    "{ in or dst-port 80 }",
    "{ icmptypes 8 or not src-port 53 or established }",
    "{ not iplen 0-60 or ipttl 64 }",
    "{ frag or proto udp }",
    "layer2",
    "not layer2",
    "uid 0 out",
    "antispoof out",
    "verrevpath",
    "not verrevpath",
    "antispoof",
    "not antispoof",
    "{ not verrevpath or antispoof }",
    "versrcreach",
    "not versrcreach",
    "ipversion 4",
];

fn interface(rng: &mut Rng) -> String {
    let side = one(rng, &["via", "via", "recv", "xmit", "not via", "not recv"]);
    let name = one(rng, INTERFACES);
    format!(" {side} {name}")
}

fn body(rng: &mut Rng) -> String {
    let proto = one(
        rng,
        &[
            "ip",
            "ip",
            "tcp",
            "tcp",
            "udp",
            "icmp",
            "ip4",
            "{ tcp or udp }",
            "not tcp",
            "ipv6-icmp",
            "ip6",
        ],
    );
    let six = proto == "ip6" || rng.u8(..4) == 0 && proto != "icmp" && proto != "ip4";
    let addresses = if six { V6 } else { V4 };
    let mut out = String::new();
    if rng.u8(..8) > 0 {
        let (source, destination) = (one(rng, addresses), one(rng, addresses));
        let port = |rng: &mut Rng| match rng.u8(..4) {
            0 => format!(" {}", one(rng, PORTS)),
            _ => String::new(),
        };
        let from = port(rng);
        let to = port(rng);
        write!(out, " {proto} from {source}{from} to {destination}{to}").unwrap();
    } else {
        out.push_str(" ip from any to any");
    }
    for _ in 0..rng.usize(..3) {
        let option = one(rng, OPTIONS);
        // It wants ip6 as the last protocol that was named.
        let is_six = out.starts_with(" ip6") && !out.contains(" proto ");
        if option.contains("flow-id") && !is_six {
            continue;
        }
        write!(out, " {option}").unwrap();
    }
    if rng.u8(..4) == 0 {
        out.push_str(&interface(rng));
    }
    out
}

fn action(rng: &mut Rng, number: u32, uses_tags: bool) -> String {
    let forward = number + rng.u32(1..900);
    let all = [
        "allow".to_owned(),
        "allow".to_owned(),
        "deny".to_owned(),
        "deny".to_owned(),
        "count".to_owned(),
        "count".to_owned(),
        "reset".to_owned(),
        "reject".to_owned(),
        match rng.u8(..3) {
            0 => "unreach needfrag 1400".to_owned(),
            1 => "unreach needfrag".to_owned(),
            _ => "unreach port".to_owned(),
        },
        "unreach6 admin-prohib".to_owned(),
        "reset6".to_owned(),
        format!("skipto {forward}"),
        format!("skipto {forward}"),
        "call 40000".to_owned(),
        match rng.u8(..12) {
            0 => "return".to_owned(),
            _ => "allow".to_owned(),
        },
        "setdscp ef".to_owned(),
        "setdscp be".to_owned(),
        "tcp-setmss 1000".to_owned(),
        "reass".to_owned(),
        format!("pipe {}", rng.u8(1..5)),
        match uses_tags {
            true => "count".to_owned(),
            false => "setmark 0x103".to_owned(),
        },
    ];
    all[rng.usize(..all.len())].clone()
}

/// A rule with `tablearg`.
fn by_table(rng: &mut Rng, uses_tags: bool) -> String {
    let action = one(
        rng,
        &[
            "skipto tablearg",
            "setdscp tablearg",
            "call tablearg",
            "count",
        ],
    );
    let tag = match (action, uses_tags) {
        ("count", true) => " tag tablearg",
        _ => "",
    };
    let lookup = one(
        rng,
        &[
            "ip from table(steps) to any",
            "ip from any to table(steps) in",
            "tcp from any to any lookup dst-port ports",
            "ip from table(nets,2) to table(steps)",
        ],
    );
    format!("{action}{tag} {lookup}")
}

fn rule(rng: &mut Rng, number: u32, uses_tags: bool) -> String {
    let set = one(rng, &["", "", "", "set 1 ", "set 2 "]);
    if rng.u8(..12) == 0 {
        return format!("add {number} {set}{}", by_table(rng, uses_tags));
    }
    let action = action(rng, number, uses_tags);
    let log = one(rng, &["", "", "", " log", " log logamount 3"]);
    let tag = match uses_tags && rng.u8(..6) == 0 {
        true => one(rng, &[" tag 5", " tag 7", " untag 5"]),
        false => "",
    };
    let mark = match uses_tags {
        false if rng.u8(..8) == 0 => one(rng, &[" mark 0x103", " not mark 0x1:0xff"]),
        _ => "",
    };
    let body = body(rng);
    // A block that is never closed.
    let trap = match rng.u8(..40) {
        0 => " { src-port 80 or ip4 or in",
        _ => "",
    };
    format!("add {number} {set}{action}{log}{tag}{body}{mark}{trap}")
}

const TABLES: &str = "\
table nets create type addr
table nets add 10.0.0.0/8 1 10.1.0.0/16 2 10.1.2.3/32 1 2001:db8::/32 2 192.168.0.0/24 3
table steps create type addr
table steps add 10.0.0.0/8 20000 10.1.0.0/16 46 192.168.0.0/16 8 2001:db8::/32 46
table ifs create type iface
table ifs add eth0 1 wg0 2
table ports create type number
table ports add 80 46 53 10 22 20000
table codes create type number
table codes add 46 1 0 1
table flows create type flow:src-ip,proto,dst-port
table flows add 10.1.2.3,tcp,80 1 10.1.2.9,udp,53 1
";

/// Pipes that packets of a test fill; the fourth is not there.
const PIPES: &str = "\
pipe 1 config bw 64Kbit/s queue 4
pipe 2 config bw 20Kbit/s queue 3000bytes burst 2000 mask src-ip 0xff dst-port 0xffff
pipe 3 config bw 9Kbit/s queue 2 mask proto 0xff dst-ip6 64 src-ip 0xffffff00
";

/// A rule set as text.
#[must_use]
pub fn text(seed: u64) -> String {
    let rng = &mut Rng::with_seed(seed);
    let mut out = TABLES.to_owned() + PIPES;
    let uses_tags = rng.bool();
    let mut number = 0;
    for _ in 0..rng.usize(2..20) {
        number += rng.u32(0..3) * 100;
        out += &rule(rng, number.max(100), uses_tags);
        out.push('\n');
    }
    if rng.u8(..3) > 0 {
        // A range that is called, behind a way around it.
        out += "add 30000 skipto 50000 ip from any to any\n";
        for step in 0..rng.u32(1..5) {
            let line = rule(rng, 40_000 + step * 100, uses_tags).replace("call 40000", "count");
            out += &line.replace("call tablearg", "count");
            out.push('\n');
        }
        out += one(rng, &["", "add 40800 return ip from any to any in\n"]);
        out += "add 40900 return ip from any to any\n";
        for step in 0..rng.u32(..5) {
            out += &rule(rng, 50_000 + step * 100, uses_tags);
            out.push('\n');
        }
    }
    out += one(
        rng,
        &[
            "",
            "disable one_pass\n",
            "set disable 2\n",
            "set disable 1 2\n",
            "set swap 1 2\n",
        ],
    );
    out
}

/// Hardware addresses of frames, as numbers.
pub const MACS: [u64; 4] = [
    0x0200_0000_0001,
    0x0200_0000_0002,
    0x0255_0000_0003,
    0xffff_ffff_ffff,
];
/// Types of frames, not all of which hold IP packets.
pub const KINDS: [u16; 5] = [0x0800, 0x86dd, 0x0806, 0x88cc, 0x8863];

const FRAME_OPTIONS: &[&str] = &[
    "layer2",
    "layer2",
    "not layer2",
    "mac-type 0x0806",
    "mac-type 0x0800,0x86dd",
    "not mac-type 0x8000-0x88ff",
    "MAC any 02:00:00:00:00:01",
    "MAC 02:00:00:00:00:02 any",
    "not MAC 02:00:00:00:00:02 02:00:00:00:00:01",
    "MAC ff:ff:ff:ff:ff:ff any",
    "MAC any 02:00:00:00:00:00/24",
    "MAC 02:00:00:00:00:01&ff:00:00:00:00:01 any",
    "not MAC any any",
    "{ mac-type 0x0806 or proto udp }",
    "{ MAC any 02:55:00:00:00:03 or not mac-type 0x0800 }",
    "src-mac table(macs)",
    "not dst-mac table(macs)",
    "dst-mac table(macs,46)",
    "not src-mac table(macs,46)",
    "lookup src-mac macs",
    "not lookup dst-mac macs",
];

const FRAME_TABLES: &str = "\
table macs create type mac
table macs add 02:00:00:00:00:00/40 46 02:00:00:00:00:02/48 20000 ff:ff:ff:ff:ff:ff/48 8
";

/// A rule set as text, many of whose rules ask about frames. Frames never come to pipes.
#[must_use]
pub fn text_of_frames(seed: u64) -> String {
    let rng = &mut Rng::with_seed(seed ^ 0xf4a3e5);
    let mut out = FRAME_TABLES.to_owned();
    for line in text(seed).lines() {
        let mut line = line.to_owned();
        if line.starts_with("add") && !line.contains(" { src-port 80 or ip4 or in") {
            if line.contains(" pipe ") {
                line += " not layer2";
            } else if rng.u8(..3) > 0 {
                line += &format!(" {}", one(rng, FRAME_OPTIONS));
            } else if rng.u8(..8) == 0 {
                // The number is kept.
                let number = line.split(' ').nth(1).unwrap_or("100");
                let action = one(rng, &["setdscp", "skipto"]);
                line = format!(
                    "add {number} {action} tablearg ip from any to any src-mac table(macs)"
                );
            }
        } else if line.contains(" pipe ") {
            continue;
        }
        out += &line;
        out.push('\n');
    }
    out
}

/// What the kernel finds out about the way back to the source of a packet that comes to a host.
#[must_use]
pub fn ways_back(host: &Host, packet: &Packet) -> u16 {
    let Some(ip) = &packet.ip else { return 0 };
    let same = host.leaves_by(ip.family, ip.src, &packet.recv);
    let near = host.is_connected(ip.family, ip.src);
    let verified = same || packet.recv.is_empty();
    let bit = |holds, asked: ReversePath| if holds { asked.bit() } else { 0 };
    bit(verified, ReversePath::Verified)
        | bit(same || !near, ReversePath::NotSpoofed)
        | bit(host.reaches(ip.family, ip.src), ReversePath::Reached)
}

/// The rule set of a text and its policy; `None` when some of it can't be lowered.
///
/// # Panics
/// When ipfw itself would refuse the text.
#[must_use]
pub fn lowered(text: &str, settings: Settings) -> Option<(Ruleset, Policy)> {
    let mut sources = Sources::new();
    let id = sources.add("rules", text);
    let program = read(text, id, &NoNames, settings);
    let wrong = |found: &&_| {
        let found: &weir_policy::syntax::Diagnostic = found;
        found.is_error() && !found.is_unsupported()
    };
    let errors: Vec<_> = program.diagnostics.iter().filter(wrong).collect();
    assert!(errors.is_empty(), "{errors:?} in\n{text}");
    let options = Options {
        allow_unsupported: true,
        frames: true,
    };
    let (policy, found) = lower(&program.ruleset, &sources, options);
    assert!(
        found
            .iter()
            .filter(|one| one.is_error())
            .all(|one| one.is_unsupported())
    );
    Some((program.ruleset, policy?))
}

/// A policy out of a seed; another seed's when its rules can't be lowered.
#[must_use]
pub fn policy(seed: u64) -> Policy {
    let tries = (0..64).map(|number| seed.wrapping_add(number * 0x1_0000_0001));
    let mut made = tries.filter_map(|seed| lowered(&text(seed), Settings::default()));
    made.next()
        .map(|(_, policy)| policy)
        .expect("most rule sets can be lowered")
}
