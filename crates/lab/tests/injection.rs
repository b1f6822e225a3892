//! The live-frame injector against real peers: what arrives, what is dropped, what is cleaned up.
//!
//! Needs root; see `generators.rs` for what happens without it.

use std::path::Path;

use weir_lab::contender::{Contender, Loader};
use weir_lab::inject::{Fate, Injector, delivered, push_trace};
use weir_lab::netns::Namespace;
use weir_lab::rules::{Last, Ports, RuleSet, Shape};
use weir_lab::space::Family;
use weir_lab::trace::Trace;

fn root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        assert!(
            std::env::var_os("WEIR_REQUIRE_KERNEL").is_none(),
            "this test needs root"
        );
        eprintln!("SKIPPED: injecting needs root");
    }
    root
}

#[test]
fn every_packet_of_a_trace_reaches_its_transport() {
    if !root() {
        return;
    }
    for family in [Family::V4, Family::V6] {
        let namespace = Namespace::receiver("push").expect("a namespace");
        let trace = Trace::tcp(family, 1_000, 5);
        assert_eq!(
            push_trace(&namespace, &trace, 3).expect("pushed"),
            3_000,
            "{family}"
        );
        assert_eq!(delivered(&namespace).expect("counted"), 3_000, "{family}");
        let mut injector = Injector::new(&trace).expect("loaded");
        injector.run(&namespace, 500, Fate::Drop).expect("dropped");
        assert_eq!(
            delivered(&namespace).expect("counted"),
            3_000,
            "{family}: the floor leaks"
        );
    }
}

#[test]
fn the_trace_carries_the_headers_it_says() {
    if !root() {
        return;
    }
    // A rule on one header of the trace must take exactly that packet out, IPv4 and IPv6.
    for family in [Family::V4, Family::V6] {
        let trace = Trace::tcp(family, 256, 6);
        let victim = trace.headers[100];
        let mut set = RuleSet::generate(Shape::LinearWorst, 1, 1, family);
        let host = |address| {
            let prefix = weir_lab::space::Prefix {
                base: address,
                length: family.width(),
            };
            weir_lab::rules::Addresses::Prefix(prefix)
        };
        set.rules[0].source = host(victim.source);
        set.rules[0].destination = host(victim.destination);
        set.rules[0].source_ports = Some(Ports::one(victim.source_port));
        set.rules[0].destination_ports = Some(Ports::one(victim.destination_port));
        for contender in [
            Contender::Legacy,
            Contender::IptablesNft,
            Contender::NftRules,
        ] {
            let loaded = Loader::default()
                .load(contender, &set)
                .expect("a namespace");
            let loaded = loaded.expect("one rule is not refused");
            let arrived = push_trace(&loaded.namespace, &trace, 2).expect("pushed");
            assert_eq!(arrived, 2 * 255, "{contender} {family}");
        }
    }
}

#[test]
fn a_last_rule_that_drops_lets_nothing_through() {
    if !root() {
        return;
    }
    let trace = Trace::tcp(Family::V4, 100, 7);
    let mut set = RuleSet::generate(Shape::Stateful, 10, 1, Family::V4);
    set.last = Last::Drop;
    for contender in [Contender::Legacy, Contender::NftRules, Contender::NftMap] {
        let loaded = Loader::default()
            .load(contender, &set)
            .expect("a namespace");
        let loaded = loaded.expect("ten rules are not refused");
        assert_eq!(
            push_trace(&loaded.namespace, &trace, 1).expect("pushed"),
            0,
            "{contender}"
        );
    }
}

#[test]
fn namespaces_go_with_their_values() {
    if !root() {
        return;
    }
    let path = {
        let namespace = Namespace::empty("gone").expect("a namespace");
        let path = Path::new("/run/netns").join(&namespace.name);
        assert!(path.exists());
        path
    };
    assert!(!path.exists());
    // Also when a panic unwinds past them.
    let result = std::panic::catch_unwind(|| {
        let namespace = Namespace::empty("panic").expect("a namespace");
        std::panic::panic_any(namespace.name.clone());
    });
    let name = result
        .expect_err("it panicked")
        .downcast::<String>()
        .expect("the name");
    assert!(!Path::new("/run/netns").join(*name).exists());
}

#[test]
fn packets_go_into_a_namespace_of_somebody_else() {
    if !root() {
        return;
    }
    let theirs = Namespace::receiver("theirs").expect("a namespace");
    let opened = Namespace::open(&theirs.name, "v0").expect("opened");
    assert_eq!(opened.interface, theirs.interface);
    assert_eq!(opened.hardware_address, theirs.hardware_address);
    let trace = Trace::tcp(Family::V4, 300, 8).to_address(0xc000_0201);
    assert_eq!(push_trace(&opened, &trace, 2).expect("pushed"), 600);
    drop(opened);
    assert!(
        Path::new("/run/netns").join(&theirs.name).exists(),
        "an opened namespace must stay"
    );
    assert!(Namespace::open(&theirs.name, "v7").is_err());
    assert!(Namespace::open("wtlab-there-is-none", "v0").is_err());
}

#[test]
fn a_program_is_quick_and_its_time_is_known() {
    if !root() {
        return;
    }
    let alone = weir_lab::hook::time_alone().expect("the program runs");
    assert!(
        (1.0..1_000.0).contains(&alone),
        "{alone} ns for a program that does nothing"
    );
    let set = RuleSet::generate(Shape::Exp, 0, 1, Family::V4);
    let loader = Loader::default();
    let mut injector = Injector::new(&Trace::tcp(Family::V4, 100, 9)).expect("loaded");
    let hook = loader
        .load(Contender::Hook, &set)
        .expect("a namespace")
        .expect("attached");
    let inside = weir_lab::programs::time_per_packet(&hook, &mut injector, 1_003);
    let inside = inside
        .expect("measured")
        .expect("the program saw every packet");
    assert!(
        (1.0..100_000.0).contains(&inside),
        "{inside} ns inside a program"
    );
    let bare = loader
        .load(Contender::None, &set)
        .expect("a namespace")
        .expect("nothing to load");
    let inside = weir_lab::programs::time_per_packet(&bare, &mut injector, 1_009);
    assert_eq!(
        inside.expect("measured"),
        None,
        "there is no program on a bare path"
    );
}
