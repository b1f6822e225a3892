//! What the classifier costs for the lab's rule families: `classifier_cost [FAMILY [COUNT ...]]`.
//!
//! Prints for each family and size the time to compile, bytes of image, terms hashed and left,
//! tables, chunks, and nanoseconds per lookup in user space over 65,536 headers. Before it measures
//! it checks positions against a linear scan of the rules: traffic, and corners of random rules.

use std::time::Instant;
use weir_engine::compile::{Options, compile};
use weir_engine::image::Image;
use weir_engine::image::layout::root_number;
use weir_engine::lookup::{Key, Lookup};
use weir_lab::rules::{Addresses, Header, Ports, Rule, RuleSet, Shape};
use weir_lab::space::Family as LabFamily;
use weir_lab::trace::Trace;
use weir_policy::model::{
    AddrMatch, Chain, ChainId, ChainPolicy, Cond, Counters, CtState, Family, Flow, Hook, Origin,
    Policy, RangeSet, Root, RuleId, SourceId, Table, Test, Verdict,
};

const ORIGIN: Origin = Origin {
    source: SourceId(0),
    line: 1,
    column: 1,
};

fn tests(rule: &Rule, family: LabFamily) -> Vec<Test> {
    let mut out = Vec::new();
    let mut put = |cond| {
        out.push(Test {
            negate: false,
            cond,
        })
    };
    let range = |addresses: Addresses| match addresses {
        Addresses::Any => None,
        Addresses::Prefix(prefix) => Some((prefix.base, prefix.last(family))),
        Addresses::Range(first, last) => Some((first, last)),
    };
    if let Some((first, last)) = range(rule.source) {
        put(Cond::Src(AddrMatch::Ranges(RangeSet::range(first, last))));
    }
    if let Some((first, last)) = range(rule.destination) {
        put(Cond::Dst(AddrMatch::Ranges(RangeSet::range(first, last))));
    }
    if let Some(protocol) = rule.protocol {
        put(Cond::Proto(RangeSet::one(protocol.number())));
    }
    let ports = |ports: Ports| RangeSet::range(ports.first, ports.last);
    if let Some(source) = rule.source_ports {
        put(Cond::SrcPort(ports(source)));
    }
    if let Some(destination) = rule.destination_ports {
        put(Cond::DstPort(ports(destination)));
    }
    if rule.syn {
        put(Cond::TcpFlags {
            mask: 0x17,
            value: 2,
        });
    }
    out
}

fn policy(set: &RuleSet) -> Policy {
    let family = if set.family == LabFamily::V4 {
        Family::V4
    } else {
        Family::V6
    };
    let rule = |(at, rule): (usize, &Rule)| weir_policy::model::Rule {
        id: RuleId(at as u32),
        origin: ORIGIN,
        index: at as u32 + 1,
        tests: tests(rule, set.family),
        ops: vec![],
        flow: Flow::Verdict(Verdict::Drop),
        preset: Counters::default(),
    };
    let last = ChainPolicy {
        id: RuleId(set.rules.len() as u32),
        origin: ORIGIN,
        verdict: Verdict::Accept,
        preset: Counters::default(),
    };
    Policy {
        sources: vec!["lab".into()],
        chains: vec![Chain {
            name: "INPUT".into(),
            family,
            table: Table::Filter,
            rules: set.rules.iter().enumerate().map(rule).collect(),
            policy: Some(last),
        }],
        roots: vec![Root {
            family,
            hook: Hook::Input,
            table: Table::Filter,
            chain: ChainId(0),
        }],
        rule_count: set.rules.len() as u32 + 1,
        ..Policy::default()
    }
}

fn key(header: &Header) -> Key {
    let transport = match header.protocol {
        6 => 3,
        17 => 4,
        132 => 5,
        _ => 7,
    };
    let state = (CtState::New as u8).trailing_zeros() as u8;
    let ports = if transport == 7 {
        [0, 0]
    } else {
        [header.source_port, header.destination_port]
    };
    Key {
        address: [header.source, header.destination],
        port: ports,
        proto: header.protocol,
        kind: weir_engine::image::layout::kind_of(transport, 1, state),
        flags: 16,
        class: [0, 0],
    }
}

/// Headers at the corners of random rules, and one beside.
fn corners(set: &RuleSet, count: usize) -> Vec<Header> {
    let mut random = fastrand::Rng::with_seed(7);
    let width = set.family.width();
    let top = u128::MAX >> (128 - u32::from(width));
    let mut out = Vec::new();
    let traffic = Trace::tcp(set.family, count, 9).headers;
    for header in traffic {
        let mut header = header;
        let rule = &set.rules[random.usize(..set.rules.len())];
        let mut corner = |first: u128, last: u128, top: u128| match random.u8(..8) {
            0 => first.wrapping_sub(1) & top,
            1 => last.wrapping_add(1) & top,
            2 | 3 => first,
            4 | 5 => last,
            _ => first + (last - first) / 2,
        };
        let range = |addresses: Addresses| match addresses {
            Addresses::Any => None,
            Addresses::Prefix(prefix) => Some((prefix.base, prefix.last(set.family))),
            Addresses::Range(first, last) => Some((first, last)),
        };
        if let Some((first, last)) = range(rule.source) {
            header.source = corner(first, last, top);
        }
        if let Some((first, last)) = range(rule.destination) {
            header.destination = corner(first, last, top);
        }
        let mut port = |ports: Option<Ports>, old: u16| {
            ports.map_or(old, |p| {
                corner(p.first.into(), p.last.into(), 0xffff) as u16
            })
        };
        header.source_port = port(rule.source_ports, header.source_port);
        header.destination_port = port(rule.destination_ports, header.destination_port);
        header.protocol = rule.protocol.map_or(6, |p| p.number());
        out.push(header);
    }
    out
}

/// Which rule decides, by a linear scan; the kept entries of the image are fewer, so that the rule
/// and not the position is compared.
fn check(set: &RuleSet, image: &Image, root: u32, headers: &[Header]) -> usize {
    let mut matched = 0;
    for header in headers {
        let portless = !matches!(header.protocol, 6 | 17 | 132);
        let ports = |rule: &Rule| rule.source_ports.is_some() || rule.destination_ports.is_some();
        let holds = |rule: &Rule| rule.matches(header) && !(portless && ports(rule));
        let expected = set.rules.iter().position(holds).unwrap_or(set.rules.len());
        let mut lookup = Lookup::new(image, root, key(header));
        let position = lookup.next(0);
        assert_eq!(position, image.first(root, &key(header)), "{}", set.shape);
        let entry = image.entry(lookup.root(), position);
        assert_eq!(entry.rule as usize, expected, "{}: {header:?}", set.shape);
        matched += usize::from(expected < set.rules.len());
    }
    matched
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let family = arguments
        .first()
        .filter(|a| *a == "v6")
        .map_or(LabFamily::V4, |_| LabFamily::V6);
    let shapes: Vec<Shape> = arguments.iter().filter_map(|a| a.parse().ok()).collect();
    let counts: Vec<usize> = arguments.iter().filter_map(|a| a.parse().ok()).collect();
    let shapes = if shapes.is_empty() {
        Shape::ALL.to_vec()
    } else {
        shapes
    };
    let counts = if counts.is_empty() {
        vec![25, 1000, 25_600, 100_000]
    } else {
        counts
    };
    println!("shape rules compile_ms bytes bytes/rule entries terms hashed tables chunks loads ns");
    for shape in shapes {
        for &count in &counts {
            one(&RuleSet::generate(shape, count, 1, family));
        }
    }
}

fn one(set: &RuleSet) {
    let policy = policy(set);
    let began = Instant::now();
    let compiled = match compile(&policy, &Options::default()) {
        Ok(compiled) => compiled,
        Err(error) => {
            println!("{} {} {error}", set.shape, set.rules.len());
            return;
        }
    };
    let milliseconds = began.elapsed().as_secs_f64() * 1e3;
    let image = Image::from_bytes(&compiled.image).expect("valid");
    let family = policy.roots[0].family;
    let number = root_number(family, Hook::Input, Table::Filter).expect("a root");
    let root = image.header().roots[number];
    let headers = Trace::tcp(set.family, 1 << 16, 3).headers;
    let checks = 20_000_000 / set.rules.len().max(10_000);
    let matched = check(set, &image, root, &corners(set, checks))
        + check(set, &image, root, &headers[..checks]);
    let keys: Vec<Key> = headers.iter().map(key).collect();
    let searcher = image.searcher(root);
    let mut best = f64::MAX;
    let mut sum = 0u64;
    for _ in 0..3 {
        let began = Instant::now();
        for key in &keys {
            sum += u64::from(searcher.first(key));
        }
        best = best.min(began.elapsed().as_secs_f64() * 1e9 / keys.len() as f64);
    }
    let report = &compiled.report.roots[0];
    println!(
        "{} {} {milliseconds:.1} {} {:.0} {} {} {} {} {} {} {best:.1}  ({matched} of {} matched, {sum})",
        set.shape,
        set.rules.len(),
        compiled.image.len(),
        compiled.image.len() as f64 / set.rules.len() as f64,
        report.entries,
        report.terms,
        report.hashed,
        report.tables,
        report.chunks,
        report.worst_loads,
        2 * checks,
    );
}
