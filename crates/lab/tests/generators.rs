//! The rule-set generators: right size, repeatable, never matching the traffic, readable by peers.
//!
//! The peers' own parsers are asked in a namespace of ours. That needs root; without it those tests
//! say so and stop, and with `WEIR_REQUIRE_KERNEL` set they fail instead.

use std::collections::HashSet;
use std::process::Command;

use weir_lab::contender::{Contender, Loader};
use weir_lab::netns::Namespace;
use weir_lab::rules::{Last, RuleSet, Shape, ipset, iptables, nft};
use weir_lab::space::Family;
use weir_lab::trace::Trace;

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

fn root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        assert!(
            std::env::var_os("WEIR_REQUIRE_KERNEL").is_none(),
            "this test needs root"
        );
        eprintln!("SKIPPED: asking the peers needs root");
    }
    root
}

#[test]
fn every_shape_has_its_size_and_one_last_rule() {
    for shape in Shape::ALL {
        for count in [0, 1, 25, 1_000] {
            let set = RuleSet::generate(shape, count, 1, Family::V4);
            assert_eq!(set.rules.len(), count, "{shape}");
            let text = iptables::text(&set);
            let drops = text
                .lines()
                .filter(|line| line.ends_with("-j DROP"))
                .count();
            assert_eq!(drops, count, "{shape}");
            assert!(text.ends_with("-A INPUT -j ACCEPT\nCOMMIT\n"), "{shape}");
        }
    }
    let mut set = RuleSet::generate(Shape::Stateful, 5, 1, Family::V4);
    set.last = Last::Drop;
    let text = iptables::text(&set);
    assert!(text.contains("\n-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n"));
    assert_eq!(text.matches("--ctstate NEW -j DROP").count(), 5);
    assert!(text.ends_with("-A INPUT -j DROP\nCOMMIT\n"));
}

#[test]
fn the_same_seed_gives_the_same_text() {
    for shape in Shape::ALL {
        for family in FAMILIES {
            let text = |seed| iptables::text(&RuleSet::generate(shape, 500, seed, family));
            assert_eq!(text(7), text(7), "{shape} {family}");
            let fixed = [Shape::Exp, Shape::Cheap, Shape::HipacWorst].contains(&shape);
            let rules = |seed| RuleSet::generate(shape, 500, seed, family).rules;
            assert_eq!(rules(7) == rules(8), fixed, "{shape} {family}");
        }
    }
}

#[test]
fn only_the_two_lists_of_ipfw_repeat_rules() {
    for shape in Shape::ALL {
        for family in FAMILIES {
            let set = RuleSet::generate(shape, 25_600, 1, family);
            let distinct: HashSet<_> = set.rules.iter().collect();
            let expected = match shape {
                Shape::Exp | Shape::Cheap => 1,
                _ => 25_600,
            };
            assert_eq!(distinct.len(), expected, "{shape} {family}");
        }
    }
}

#[test]
fn no_rule_matches_the_traffic() {
    for family in FAMILIES {
        let trace = Trace::tcp(family, 400, 1);
        let flows = Trace::udp_flows(family, 400, 1);
        for shape in Shape::ALL {
            let set = RuleSet::generate(shape, 2_000, 1, family);
            for header in &trace.headers {
                let hit = set.rules.iter().find(|rule| rule.matches(header));
                assert_eq!(hit, None, "{shape} {family} drops {header:?}");
            }
        }
        let set = RuleSet::generate(Shape::Stateful, 2_000, 1, family);
        for header in &flows.headers {
            assert!(
                !set.rules.iter().any(|rule| rule.matches(header)),
                "{header:?}"
            );
        }
    }
}

#[test]
fn hostile_families_have_the_shape_they_claim() {
    use weir_lab::rules::{Addresses, Rule};
    let rules = |shape| RuleSet::generate(shape, 1_200, 1, Family::V4).rules;
    let lengths = |rule: &Rule| match (rule.source, rule.destination) {
        (Addresses::Prefix(source), Addresses::Prefix(destination)) => (
            source.length,
            destination.length,
            rule.source_ports.is_some(),
        ),
        other => panic!("prefixes expected, not {other:?}"),
    };
    let tuples: HashSet<_> = rules(Shape::TupleWorst).iter().map(lengths).collect();
    assert!(tuples.len() >= 400, "only {} tuples", tuples.len());
    // A rule that misses a packet in one field only lies right beside the traffic.
    let trace = Trace::tcp(Family::V4, 200, 1);
    for shape in [
        Shape::Mix,
        Shape::Cross,
        Shape::Stair,
        Shape::Wide,
        Shape::HipacWorst,
    ] {
        let near = rules(shape).into_iter().filter(|rule| {
            let open = Rule {
                source_ports: None,
                destination_ports: None,
                ..*rule
            };
            trace.headers.iter().any(|header| open.matches(header))
        });
        let near = near.count();
        assert!(
            near >= 300,
            "{shape}: only {near} rules match traffic but for their ports"
        );
    }
}

#[test]
fn the_peers_read_every_shape() {
    if !root() {
        return;
    }
    let namespace = Namespace::empty("read").expect("a namespace");
    for shape in Shape::ALL {
        for family in FAMILIES {
            let set = RuleSet::generate(shape, 200, 1, family);
            let text = iptables::text(&set);
            let six = if family == Family::V6 { "6" } else { "" };
            for kind in ["legacy", "nft"] {
                let program = format!("ip{six}tables-{kind}-restore");
                let mut command = Command::new(&program);
                command.arg("--test");
                let result = namespace.run(&mut command, Some(text.as_bytes()));
                result.unwrap_or_else(|error| panic!("{shape} {family}: {error:#}"));
            }
            let nft = nft::rules(&set);
            let result = namespace.run(
                Command::new("nft").args(["-c", "-f", "-"]),
                Some(nft.as_bytes()),
            );
            result.unwrap_or_else(|error| panic!("{shape} {family}: {error:#}"));
        }
    }
}

#[test]
fn best_forms_load_where_they_can_and_say_why_where_not() {
    if !root() {
        return;
    }
    let loader = Loader::default();
    for family in FAMILIES {
        for shape in [Shape::Exp, Shape::Cheap, Shape::Real, Shape::Stateful] {
            let set = RuleSet::generate(shape, 200, 1, family);
            for contender in [Contender::NftMap, Contender::Ipset] {
                let loaded = loader.load(contender, &set).expect("a namespace");
                loaded.unwrap_or_else(|refused| {
                    panic!("{contender} {shape} {family}: {}", refused.reason)
                });
            }
        }
        let set = RuleSet::generate(Shape::Mix, 200, 1, family);
        assert!(
            loader
                .load(Contender::NftMap, &set)
                .expect("a namespace")
                .is_ok()
        );
        assert!(
            ipset::text(&set).is_err(),
            "a set without destinations would drop traffic"
        );
        let set = RuleSet::generate(Shape::HipacWorst, 200, 1, family);
        let refused = loader.load(Contender::NftMap, &set).expect("a namespace");
        assert!(
            refused.is_err(),
            "overlapping elements are more than nft's intervals hold"
        );
        assert!(ipset::text(&set).is_err());
    }
}
