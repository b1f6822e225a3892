//! Random rule sets of ipfw's dynamic rules, changes of them, and conversations.

use fastrand::Rng;
use std::fmt::Write;
use weir_policy::eval::{Evaluator, Path};
use weir_policy::model::{
    Facts, Family, Fragment, Hook, Packet, PacketType, Policy, Transport, Verdict,
};

const NAMES: [&str; 4] = ["", " :a", " :b", ""];

fn state(rng: &mut Rng) -> String {
    let name = NAMES[rng.usize(..NAMES.len())];
    let limit = ["src-addr", "dst-addr", "src-addr dst-port"][rng.usize(..3)];
    let most = rng.u8(1..3);
    match rng.u8(..12) {
        0..4 => String::new(),
        4..8 => format!(" keep-state{name}"),
        8 => format!(" record-state{name}"),
        9 => format!(" limit {limit} {most}{name}"),
        10 => format!(" set-limit {limit} {most}{name}"),
        _ => format!(" keep-state{name} defer-action"),
    }
}

/// A rule without its number.
fn rule(rng: &mut Rng, number: usize, rules: usize) -> String {
    if rng.u8(..5) == 0 {
        return format!(
            "check-state{}",
            [NAMES[0], NAMES[1], NAMES[2], " :any"][rng.usize(..4)]
        );
    }
    let action = match rng.u8(..14) {
        0..5 => "allow".to_owned(),
        5..8 => "deny".to_owned(),
        8..10 => "count".to_owned(),
        10 => "allow log".to_owned(),
        11 => "reset".to_owned(),
        12 => "setdscp 10".to_owned(),
        _ => format!("skipto {}", rng.usize(number + 1..rules + 2) * 10),
    };
    let proto = ["ip", "tcp", "udp", "tcp"][rng.usize(..4)];
    let hosts = ["any", "10.0.0.1", "10.0.0.0/31", "any"];
    let (from, to) = (hosts[rng.usize(..4)], hosts[rng.usize(..4)]);
    let port = match (proto, rng.u8(..3)) {
        ("ip", _) | (_, 0) => "",
        (_, 1) => " 22",
        _ => " 22,53",
    };
    let pass = ["", "", " in", " out"][rng.usize(..4)];
    let setup = if proto == "tcp" && rng.bool() {
        " setup"
    } else {
        ""
    };
    format!(
        "{action} {proto} from {from} to {to}{port}{pass}{setup}{}",
        state(rng)
    )
}

pub fn numbered(rules: &[String]) -> String {
    let mut out = String::new();
    for (at, rule) in rules.iter().enumerate() {
        let _ = writeln!(out, "add {} {rule}", (at + 1) * 10);
    }
    out
}

pub fn rules(rng: &mut Rng) -> Vec<String> {
    let many = rng.usize(3..9);
    let mut out: Vec<String> = (0..many).map(|at| rule(rng, at + 1, many)).collect();
    if rng.bool() {
        out.push("allow ip from any to any".to_owned());
    }
    out
}

/// A change that may or may not mean something.
pub fn mutated(rules: &[String], rng: &mut Rng) -> Vec<String> {
    let mut out = rules.to_vec();
    let at = rng.usize(..out.len());
    let words = [
        (" keep-state", " record-state"),
        (" record-state", " keep-state"),
        ("limit src-addr 1", "limit src-addr 2"),
        (" :a", " :b"),
        (" :b", " :any"),
        (" setup", ""),
        ("allow tcp", "allow log tcp"),
        ("allow tcp", "deny tcp"),
        ("allow udp", "allow log udp"),
        ("count", "allow"),
        ("22,53", "53,22"),
        ("22,53", "22"),
        (" defer-action", ""),
        ("10.0.0.0/31", "{ 10.0.0.0 or 10.0.0.1 }"),
        (" in", ""),
    ];
    match rng.u8(..8) {
        0 => out[at] = "count ip from any to any".to_owned(),
        1 if at + 1 < out.len() => out.swap(at, at + 1),
        2 if !out[at].contains("skipto") => {
            let copy = out[at].clone();
            out.insert(at, copy);
        }
        3 => out[at] = rule(rng, at + 1, rules.len()),
        4 => out.insert(at, "check-state".to_owned()),
        _ => {
            let start = rng.usize(..words.len());
            let order = (0..words.len()).map(|next| words[(start + next) % words.len()]);
            for (from, to) in order {
                let keeps = to != " :any" || out[at].starts_with("check-state");
                if out[at].contains(from) && keeps {
                    out[at] = out[at].replacen(from, to, 1);
                    break;
                }
            }
        }
    }
    out
}

pub fn packet(rng: &mut Rng) -> (Packet, Path) {
    packet_at(rng, 0)
}

/// A packet, or at depth 1 one that an error quotes.
fn packet_at(rng: &mut Rng, depth: u8) -> (Packet, Path) {
    let hosts = [0x0a00_0000u128, 0x0a00_0001, 0x0a00_0002];
    let (client, server) = (hosts[rng.usize(..3)], hosts[rng.usize(..3)]);
    let ports = (1000 + rng.u16(..2), [22, 53][rng.usize(..2)]);
    let back = rng.u8(..3) == 0;
    let (src, dst) = if back {
        (server, client)
    } else {
        (client, server)
    };
    let (src_port, dst_port) = if back { (ports.1, ports.0) } else { ports };
    let (proto, transport) = match rng.u8(..5) {
        0..3 => {
            let flags = match (back, rng.u8(..5)) {
                (false, 0..2) => 2,
                (true, 0..2) => 18,
                (_, 4) => 4,
                _ => 16,
            };
            let tcp = Transport::Tcp {
                src_port,
                dst_port,
                flags,
                sequence: 1,
                acknowledgement: u32::from(back) + 1,
                window: 1000,
                options: Vec::new(),
                payload: 0,
                malformed: false,
            };
            (6, tcp)
        }
        3 => (17, Transport::Udp { src_port, dst_port }),
        _ => {
            let kind = [8, 3, 3, 3][rng.usize(..4)];
            let about = (kind == 3 && depth == 0).then(|| Box::new(packet_at(rng, 1).0));
            let icmp = Transport::Icmp {
                kind,
                code: 0,
                id: 1,
                about,
            };
            (1, icmp)
        }
    };
    let path = [Path::Input, Path::Forward, Path::Output][rng.usize(..3)];
    let packet = Packet {
        family: Family::V4,
        hook: Hook::Prerouting,
        in_iface: "eth0".to_owned(),
        out_iface: "eth1".to_owned(),
        src,
        dst,
        proto,
        length: 60,
        ttl: 64,
        tos: 0,
        fragment: Fragment::Whole,
        transport,
        routing: None,
        mark: 0,
        mac: None,
        packet_type: PacketType::Unicast,
        owner: None,
        handling: 0,
        aside: Facts::default(),
    };
    (packet, path)
}

/// What becomes of a packet: verdict, and TOS of what passes.
fn becomes(evaluator: &mut Evaluator<'_>, packet: &Packet, path: Path, now: u64) -> (Verdict, u8) {
    let judged = evaluator.travel(packet, path, now);
    let last = judged.last().map(|(_, judgement)| judgement);
    let verdict = last.map_or(Verdict::Accept, |one| one.verdict);
    match verdict {
        Verdict::Accept => (verdict, last.map_or(0, |one| one.tos)),
        refused => (refused, 0),
    }
}

/// The first packet of some conversations that is treated differently.
pub fn first_difference(
    old: &Policy,
    new: &Policy,
    rng: &mut Rng,
    packets: usize,
) -> Option<String> {
    let mut both = [Evaluator::new(old, 0), Evaluator::new(new, 0)];
    let mut now = 0;
    for at in 0..packets {
        now += [0, 100, 1000, 7000][rng.usize(..4)];
        let (packet, path) = packet(rng);
        let [a, b] = [0, 1].map(|side: usize| becomes(&mut both[side], &packet, path, now));
        if a != b {
            return Some(format!(
                "packet {at} at {now} ms, {path:?}: {a:?} {b:?} {packet:?}"
            ));
        }
    }
    None
}
