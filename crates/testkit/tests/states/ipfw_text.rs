//! Random rule sets of ipfw that note flows, with names, limits, deferred actions, jumps and calls.
//!
//! In: random numbers. Out: text in ipfw's own words, settings of states.

use fastrand::Rng;
use std::fmt::Write as _;
use weir_policy::dialect::ipfw::Settings;

fn one<'t>(rng: &mut Rng, words: &[&'t str]) -> &'t str {
    words[rng.usize(..words.len())]
}

const NAMES: &[&str] = &["", "", "", "", " :web", " :mail"];
const ACTIONS: &[&str] = &[
    "allow", "allow", "allow", "allow", "deny", "reset", "reject", "count", "skipto",
];

fn state(rng: &mut Rng) -> String {
    let name = one(rng, NAMES);
    let mask = one(
        rng,
        &[
            "src-addr",
            "src-addr",
            "dst-addr",
            "src-addr src-port",
            "src-addr dst-addr",
            "dst-port",
            "src-addr src-port dst-addr dst-port",
        ],
    );
    let count = [1, 1, 2, 3, 10][rng.usize(..5)];
    match rng.u8(..20) {
        0..=9 => format!(" keep-state{name}"),
        10..=13 => format!(" limit {mask} {count}{name}"),
        14 | 15 => format!(" record-state{name}"),
        16 => format!(" set-limit {mask} {count}{name}"),
        17 => format!(" record-state{name} defer-action"),
        18 => format!(" keep-state{name} defer-action"),
        _ => format!(" not keep-state{name}"),
    }
}

/// Where the first and the second called range begin.
const RANGES: [u32; 2] = [6000, 7000];

/// A call or a return, as the place allows: calls lead on only.
fn called(rng: &mut Rng, number: u32) -> String {
    let first = RANGES.iter().position(|from| number < *from);
    match (first, rng.u8(..8)) {
        (None, _) | (Some(1), 0..=3) => "return".to_owned(),
        (Some(0), 0) => "return".to_owned(),
        (Some(0), 1) => "call tablearg".to_owned(),
        (Some(first), _) => format!("call {}", RANGES[rng.usize(first..RANGES.len())]),
    }
}

fn rule(rng: &mut Rng, number: u32) -> String {
    let set = one(rng, &["", "", "", "", "set 1 "]);
    let log = one(rng, &["", "", "", "", "", "", " log", " log logamount 4"]);
    let tag = one(rng, &["", "", "", "", "", "", "", " tag 5", " untag 5"]);
    if rng.u8(..7) == 0 {
        let mut name = one(rng, &["", "", " :web", " :any", " :mail"]);
        if !(log.is_empty() && tag.is_empty()) && name.is_empty() {
            // Without a name the next word would be taken as one.
            name = " :default";
        }
        return format!("add {number} {set}check-state{name}{log}{tag}\n");
    }
    let mut action = one(rng, ACTIONS).to_owned();
    if action == "skipto" {
        action = format!("skipto {}", number + rng.u32(1..500));
    }
    if rng.u8(..30) == 0 {
        action = "tcp-setmss 1000".to_owned();
    }
    let has_state = rng.u8(..3) > 0;
    if rng.u8(..6) == 0 {
        action = called(rng, number);
    }
    let proto = one(
        rng,
        &["ip", "ip", "tcp", "tcp", "udp", "icmp", "{ tcp or udp }"],
    );
    let from = one(
        rng,
        &[
            "any",
            "any",
            "any",
            "10.1.0.0/16",
            "10.1.2.3",
            "{ 10.1.2.3 or any }",
            "not 10.1.2.4",
        ],
    );
    let to = one(rng, &["any", "any", "any 80", "any 22,53", "10.1.2.0/24"]);
    let option = one(
        rng,
        &[
            "",
            "",
            "",
            " in",
            " out",
            " setup",
            " established",
            " via eth0",
            " tagged 5",
            " frag",
        ],
    );
    let mut state = if has_state { state(rng) } else { String::new() };
    let (mut action, mut from) = (action, from.to_owned());
    if action == "call tablearg" {
        from = "table(U)".to_owned();
    } else if has_state && rng.u8(..5) == 0 {
        from = "table(T)".to_owned();
        match rng.u8(..4) {
            0 => action = "skipto tablearg".to_owned(),
            1 => action = "setdscp tablearg".to_owned(),
            2 => state = " limit src-addr tablearg".to_owned(),
            _ => state = " set-limit dst-addr tablearg :web".to_owned(),
        }
    }
    format!("add {number} {set}{action}{log}{tag} {proto} from {from} to {to}{option}{state}\n")
}

/// A rule set as text.
pub fn text(rng: &mut Rng) -> String {
    let mut out = "table T create type addr valtype skipto,dscp,limit\n\
                   table T add 10.1.0.0/16 300,10,2 10.1.2.0/26 500,12,1 10.1.2.4 0,0,3\n\
                   table T add 2001:db8:1::/48 400,46,2\n\
                   table U create type addr\n\
                   table U add 10.1.0.0/16 6000 10.1.2.0/26 7000 2001:db8:1::/48 7000\n"
        .to_owned();
    if rng.bool() {
        out += "add 50 check-state\n";
    }
    let mut number = 100;
    for _ in 0..rng.usize(1..10) {
        number += rng.u32(0..3) * 100;
        out += &rule(rng, number);
    }
    out += one(rng, &["", "add 5000 allow ip from any to any\n"]);
    if out.contains("call ") {
        out += "add 5900 deny ip from any to any\n";
        for from in RANGES {
            for number in 0..rng.u32(1..4) {
                out += &rule(rng, from + number * 100);
            }
            writeln!(out, "add {} return ip from any to any", from + 900).expect("a string");
        }
    }
    out += one(rng, &["", "", "", "set disable 1\n"]);
    out
}

/// Settings of states.
pub fn settings(rng: &mut Rng) -> Settings {
    let mut out = Settings {
        dyn_max: [3, 8, 1000][rng.usize(..3)],
        dyn_parent_max: [2, 100][rng.usize(..2)],
        dyn_icmp_errors: rng.bool(),
        ..Settings::default()
    };
    if rng.bool() {
        out.set("net.inet.ip.fw.dyn_ack_lifetime", 40);
        out.set("net.inet.ip.fw.dyn_udp_lifetime", 3);
        out.set("net.inet.ip.fw.dyn_rst_lifetime", 2);
    }
    out
}
