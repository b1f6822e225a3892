//! Random texts of three languages as their languages read them and as policies.
//!
//! The texts keep to what has a counterpart more often than the generators of whole languages do,
//! so that much converts; now and then something stands in them that no other language has.

use fastrand::Rng;
use std::fmt::Write;
use weir_policy::convert::{Kind, Language};
use weir_policy::dialect::ipf::load::RuleSet;
use weir_policy::dialect::ipfw::{NoNames, Ruleset, Settings};
use weir_policy::dialect::{ipf, ipfw, ipset, iptables};
use weir_policy::eval::ipf::Tables;
use weir_policy::model::{Family, Policy};
use weir_policy::syntax::{Diagnostic, Sources};

/// Rules as their own language's evaluator takes them.
pub enum Rules {
    /// IPFilter's lists and tables.
    Ipf(RuleSet, Tables),
    /// ipfw's list.
    Ipfw(Ruleset),
    /// The policy is all there is.
    Iptables,
}

/// A rule set.
pub struct Texts {
    /// Its language.
    pub language: Language,
    /// As its language reads it.
    pub rules: Rules,
    /// As a policy.
    pub policy: Policy,
    /// The texts.
    pub sources: Sources,
    /// Families that it speaks about.
    pub families: Vec<Family>,
    texts: Vec<String>,
}

impl Texts {
    /// For messages.
    pub fn shown(&self) -> String {
        self.texts.join("----\n")
    }
}

fn wrong(found: &[Diagnostic]) -> bool {
    found.iter().any(Diagnostic::is_error)
}

/// Reads texts; `None` where they are no sound rules.
pub fn read(language: Language, files: Vec<(Kind, String)>, families: &[Family]) -> Option<Texts> {
    let mut sources = Sources::new();
    let (rules, policy) = match language {
        Language::Iptables => (Rules::Iptables, of_iptables(&files, &mut sources)?),
        Language::Ipf => of_ipf(&files, &mut sources)?,
        Language::Ipfw => of_ipfw(&files[0].1, &mut sources)?,
    };
    Some(Texts {
        language,
        rules,
        policy,
        sources,
        families: families.to_vec(),
        texts: files.into_iter().map(|file| file.1).collect(),
    })
}

fn of_iptables(files: &[(Kind, String)], sources: &mut Sources) -> Option<Policy> {
    enum File {
        Rules(iptables::File),
        Sets(ipset::File),
    }
    let mut parsed = Vec::new();
    for (kind, text) in files {
        let family = match kind {
            Kind::Rules(Some(family)) => *family,
            _ => Family::V4,
        };
        let id = sources.add("rules", text.as_str());
        let (file, found) = match kind {
            Kind::Sets => {
                let (file, found) = ipset::parse(text, id);
                (File::Sets(file), found)
            }
            _ => {
                let (file, found) = iptables::parse_as(text, id, family);
                (File::Rules(file), found)
            }
        };
        if wrong(&found) {
            return None;
        }
        parsed.push(file);
    }
    let inputs: Vec<iptables::Input<'_>> = parsed
        .iter()
        .map(|file| match file {
            File::Rules(file) => iptables::Input::Rules {
                name: "rules",
                file,
            },
            File::Sets(file) => iptables::Input::Sets { name: "sets", file },
        })
        .collect();
    let (policy, _) = iptables::lower(&inputs, &iptables::LowerOptions::default());
    policy
}

fn of_ipf(files: &[(Kind, String)], sources: &mut Sources) -> Option<(Rules, Policy)> {
    use ipf::lower::{LowerOptions, lower};
    let mut tables = Tables::default();
    for (_, text) in files.iter().filter(|file| file.0 == Kind::Pools) {
        let id = sources.add("pools", text.as_str());
        let (pools, found) = ipf::pool::parse(text, id);
        if wrong(&found) {
            return None;
        }
        for table in &pools.tables {
            if let Some((kind, name)) = table.lookup() {
                tables.add(kind, &name, &table.entries());
            }
        }
    }
    let text = files[0].1.as_str();
    let id = sources.add("rules", text);
    let (file, found) = ipf::parse(text, id, &ipf::ParseOptions::default());
    if wrong(&found) {
        return None;
    }
    let (set, found) = RuleSet::of(&file);
    if wrong(&found) {
        return None;
    }
    let (policy, _) = lower(&set, &tables, sources, LowerOptions::default());
    Some((Rules::Ipf(set, tables), policy?))
}

fn of_ipfw(text: &str, sources: &mut Sources) -> Option<(Rules, Policy)> {
    use ipfw::lower::{Options, lower};
    let id = sources.add("rules", text);
    let program = ipfw::read(text, id, &NoNames, Settings::default());
    if wrong(&program.diagnostics) {
        return None;
    }
    let (policy, _) = lower(&program.ruleset, sources, Options::default());
    Some((Rules::Ipfw(program.ruleset), policy?))
}

/// A random rule set of a language.
pub fn random(language: Language, seed: u64) -> Option<Texts> {
    let mut rng = Rng::with_seed(seed * 3 + language as u64);
    let both = vec![Family::V4, Family::V6];
    match language {
        Language::Ipfw if seed.is_multiple_of(4) => {
            let text = weir_testkit::random::ipfw::text(seed);
            read(language, vec![(Kind::Rules(None), text)], &both)
        }
        Language::Ipfw => read(
            language,
            vec![(Kind::Rules(None), ipfw_text(&mut rng))],
            &both,
        ),
        Language::Ipf => read(
            language,
            vec![(Kind::Rules(None), ipf_text(&mut rng))],
            &both,
        ),
        Language::Iptables => iptables_texts(&mut rng),
    }
}

fn one<'t>(rng: &mut Rng, words: &[&'t str]) -> &'t str {
    words[rng.usize(..words.len())]
}

const NETS: [&[&str]; 2] = [
    &[
        "10.0.0.0/8",
        "10.1.0.0/16",
        "10.1.2.3",
        "10.1.2.0/24",
        "192.168.0.0/16",
        "192.168.0.1",
    ],
    &["2001:db8::/32", "2001:db8:0:1::/64", "2001:db8::1"],
];

fn ipf_matching(rng: &mut Rng) -> String {
    if rng.u8(..6) == 0 {
        return "all".to_owned();
    }
    let proto = one(
        rng,
        &[
            "",
            "",
            "proto tcp ",
            "proto udp ",
            "proto tcp/udp ",
            "proto icmp ",
            "proto 47 ",
        ],
    );
    let nets = NETS[usize::from(!proto.contains("icmp") && rng.u8(..4) == 0)];
    let mut side = |ports: bool| {
        let not = one(rng, &["", "", "!"]);
        let net = match rng.u8(..3) {
            0 => "any".to_owned(),
            _ => format!("{not}{}", one(rng, nets)),
        };
        let port = match ports && rng.u8(..2) == 0 {
            true => one(
                rng,
                &[
                    " port = 80",
                    " port != 53",
                    " port < 1024",
                    " port 22:25",
                    " port 20 <> 30",
                ],
            ),
            false => "",
        };
        format!("{net}{port}")
    };
    let ports = proto.contains("tcp") || proto.contains("udp");
    let (from, to) = (side(ports), side(ports));
    let tail = match proto {
        "proto tcp " => one(rng, &["", "", " flags S/SA", " flags /A", " flags A/A"]),
        "proto icmp " => one(rng, &["", "", " icmp-type echo", " icmp-type unreach"]),
        _ => "",
    };
    let with = match rng.u8(..12) {
        0 => " with frag-body",
        1 => " with not frag-body",
        _ => "",
    };
    format!("{proto}from {from} to {to}{tail}{with}")
}

fn ipf_text(rng: &mut Rng) -> String {
    let mut out = String::new();
    let quick_only = rng.u8(..3) == 0;
    for number in 0..rng.usize(1..14) {
        let direction = one(rng, &["in", "in", "out"]);
        let answer = direction == "in" && rng.u8(..8) == 0;
        let (action, skips) = match rng.u8(..14) {
            0 => ("skip 2", true),
            _ if answer => (one(rng, &["block return-rst", "block return-icmp"]), false),
            n if n < 7 => ("pass", false),
            _ => ("block", false),
        };
        let log = if !skips && rng.u8(..10) == 0 {
            " log"
        } else {
            ""
        };
        let quick = if !skips && (quick_only || rng.u8(..2) == 0) {
            " quick"
        } else {
            ""
        };
        let on = one(rng, &["", "", "", " on eth0", " on eth1"]);
        let matching = ipf_matching(rng);
        let head = match !skips && !answer && rng.u8(..6) == 0 {
            true => format!(" head {direction}{}", number % 3),
            false => String::new(),
        };
        let group = match head.is_empty() && !skips && rng.u8(..4) == 0 {
            true => format!(" group {direction}{}", rng.u8(..3)),
            false => String::new(),
        };
        let _ = writeln!(
            out,
            "{action} {direction}{log}{quick}{on} {matching}{head}{group}"
        );
    }
    out
}

fn ipfw_side(rng: &mut Rng, family: usize, ports: bool) -> String {
    let not = one(rng, &["", "", "not "]);
    let net = match rng.u8(..5) {
        0 | 1 => "any".to_owned(),
        2 if family == 0 => format!("{not}10.1.2.3,10.1.2.9,192.168.0.0/24"),
        3 if family == 0 => format!("{not}table(nets)"),
        _ => format!("{not}{}", one(rng, NETS[family])),
    };
    let port = match ports && rng.u8(..2) == 0 {
        true => one(rng, &[" 80", " 1-1023", " 22,53,80-90", " not 53"]),
        false => "",
    };
    format!("{net}{port}")
}

fn ipfw_text(rng: &mut Rng) -> String {
    let mut out = "table nets create type addr\ntable nets add 10.1.0.0/16\n\
                   table nets add 192.168.0.7\ntable nets add 10.1.2.128/25\n"
        .to_owned();
    let count = rng.usize(2..14);
    for number in 1..=count {
        let skip = format!("skipto {}", rng.usize(number + 1..=count + 2) * 100);
        let action = match rng.u8(..12) {
            0 => &skip,
            1 => "count",
            2 => "reset",
            3 => "unreach port",
            n if n < 8 => "allow",
            _ => "deny",
        };
        let family = usize::from(rng.u8(..5) == 0);
        let proto = match action {
            "reset" => "tcp",
            _ => one(
                rng,
                &["ip", "ip", "tcp", "udp", "{ tcp or udp }", "icmp", "47"],
            ),
        };
        let ports = proto.contains("tcp") || proto == "udp";
        let (from, to) = (ipfw_side(rng, family, ports), ipfw_side(rng, family, ports));
        let pass = one(
            rng,
            &[
                "",
                " in",
                " in",
                " out",
                " in recv eth0",
                " out xmit eth1",
                " in not recv eth1",
            ],
        );
        let option = match (rng.u8(..6), proto) {
            (0, "tcp") => one(
                rng,
                &[
                    " established",
                    " setup",
                    " tcpflags syn,!ack",
                    " not established",
                ],
            ),
            (0, "icmp") => " icmptypes 0,8",
            (1, _) => " frag",
            (2, _) => one(
                rng,
                &[
                    " not frag",
                    " ipttl 1-64",
                    " { recv eth0 or dst-port 80 }",
                    " dscp 8",
                ],
            ),
            _ => "",
        };
        let log = if rng.u8(..12) == 0 && action == "deny" {
            " log"
        } else {
            ""
        };
        let _ = writeln!(
            out,
            "add {} {action}{log} {proto} from {from} to {to}{pass}{option}",
            number * 100
        );
    }
    let end = one(rng, &["allow", "deny"]);
    let _ = writeln!(out, "add 60000 {end} ip from any to any");
    out
}

fn iptables_rule(rng: &mut Rng, family: usize, hook: &str, callable: &[&str]) -> String {
    let mut out = String::new();
    for sign in ["-s", "-d"] {
        if rng.u8(..3) == 0 {
            let not = one(rng, &["", "", "! "]);
            let _ = write!(out, " {not}{sign} {}", one(rng, NETS[family]));
        }
    }
    if family == 0 && rng.u8(..12) == 0 {
        out += " -m iprange --src-range 10.1.2.3-10.1.2.20";
    }
    let sign = if hook == "OUTPUT" { "-o" } else { "-i" };
    if rng.u8(..4) == 0 && hook != "any" {
        let _ = write!(
            out,
            " {}{sign} {}",
            one(rng, &["", "! "]),
            one(rng, &["eth0", "eth1"])
        );
    }
    let icmp = ["icmp", "ipv6-icmp"][family];
    let proto = one(rng, &["", "", "tcp", "tcp", "udp", icmp]);
    if !proto.is_empty() {
        let _ = write!(out, " -p {proto}");
    }
    out += match (proto, rng.u8(..4)) {
        ("tcp" | "udp", 0) => " -m multiport --dports 22,53,80:90",
        ("tcp", 1) => " -m tcp --dport 80",
        ("udp", 1) => " -m udp ! --sport 53",
        ("tcp", 2) => one(
            rng,
            &[
                " -m tcp --tcp-flags SYN,ACK SYN",
                " -m tcp ! --tcp-flags SYN,RST,ACK SYN",
            ],
        ),
        ("icmp", 1) => " -m icmp --icmp-type 8",
        ("ipv6-icmp", 1) => " -m icmp6 --icmpv6-type 128",
        ("", 1) if family == 0 => one(rng, &["", "", " -f", " ! -f", " -m ttl --ttl-lt 5"]),
        _ => "",
    };
    let target = match rng.u8(..12) {
        0 if proto == "tcp" => "-j REJECT --reject-with tcp-reset",
        0 => [
            "-j REJECT --reject-with icmp-port-unreachable",
            "-j REJECT --reject-with icmp6-port-unreachable",
        ][family],
        1 => "-j LOG --log-prefix \"seen \"",
        2 if hook == "any" => "-j RETURN",
        n if n < 6 => "-j ACCEPT",
        n if n < 10 => "-j DROP",
        _ => "",
    };
    if !callable.is_empty() && rng.u8(..4) == 0 {
        let how = one(rng, &["-j", "-j", "-j", "-g"]);
        return format!("{out} {how} {}", one(rng, callable));
    }
    format!("{out} {target}")
}

fn iptables_text(rng: &mut Rng, family: usize, shape: u8) -> String {
    let policy = |rng: &mut Rng| one(rng, &["ACCEPT", "DROP"]).to_owned();
    let (input, output) = (policy(rng), policy(rng));
    let chains = ["web", "lan", "bad"];
    let mut out = format!(
        "*filter\n:INPUT {input} [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT {output} [0:0]\n\
         :web - [0:0]\n:lan - [0:0]\n:bad - [0:0]\n"
    );
    for (at, chain) in chains.iter().enumerate() {
        for _ in 0..rng.usize(..5) {
            let _ = writeln!(
                out,
                "-A {chain}{}",
                iptables_rule(rng, family, "any", &chains[at + 1..])
            );
        }
    }
    for hook in ["INPUT", "OUTPUT"] {
        for _ in 0..rng.usize(..6) {
            let rule = iptables_rule(rng, family, hook, &chains);
            let _ = writeln!(out, "-A {hook}{rule}");
            // Routed packets meet the same, or only what comes in does.
            if shape == 0 && hook == "INPUT" && !rule.ends_with("-j ACCEPT") {
                let _ = writeln!(out, "-A FORWARD{rule}");
            }
        }
    }
    out + "COMMIT\n"
}

fn iptables_texts(rng: &mut Rng) -> Option<Texts> {
    let shape = rng.u8(..3);
    let families: &[Family] = match rng.u8(..3) {
        0 => &[Family::V4, Family::V6],
        1 => &[Family::V6],
        _ => &[Family::V4],
    };
    let texts = families.iter().map(|family| {
        let text = iptables_text(rng, *family as usize, shape);
        (Kind::Rules(Some(*family)), text)
    });
    let texts: Vec<(Kind, String)> = texts.collect();
    read(Language::Iptables, texts, families)
}
