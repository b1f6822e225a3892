//! The same policies written in three languages mean the same.
//!
//! `testdata/three` has each policy as IPFilter rules, as ipfw rules, and as iptables-save (and
//! ip6tables-save) text, in the words that people of each language use. Every pair is compared
//! exactly, for every packet there is; nothing is sampled. Packets whose transport header is cut
//! short are left out, since no rules can make the languages agree on them: ipfw and IPFilter drop
//! them before their rules, each of other protocols, ip_tables where a rule asks for ports. Which
//! policies are the same for them too in iptables and IPFilter is compared in a second step.

mod three;

use three::{Case, names};
use weir_policy::compare::{Comparison, Options, compare};
use weir_policy::convert::Language;
use weir_policy::model::{Family, Policy};

fn of_iptables(name: &str) -> Policy {
    Case::read(name, Language::Iptables).policy
}

fn of_ipf(name: &str) -> Policy {
    Case::read(name, Language::Ipf).policy
}

fn of_ipfw(name: &str) -> Policy {
    Case::read(name, Language::Ipfw).policy
}

/// Policies whose short packets IPFilter and iptables treat alike: iptables' rules drop them, too,
/// and so segments whose TCP options are cut short, which iptables' rules for ports let pass.
const SHORT_ALIKE: &[&str] = &["nothing-gets-through"];

/// At least so many policies.
const POLICIES_MIN: usize = 25;

fn told(found: &Comparison) -> String {
    let mut out = String::new();
    for journey in &found.journeys {
        for one in journey.differences.iter().take(4) {
            out += &format!(
                "  {:?} {:?}: {:?} by {:?} here, {:?} by {:?} there: {:?}\n",
                journey.family,
                journey.path,
                one.old.verdict,
                one.old.by,
                one.new.verdict,
                one.new.by,
                one.packet
            );
        }
    }
    out
}

#[test]
fn every_policy_means_the_same_in_three_languages() {
    let names = names();
    assert!(names.len() >= POLICIES_MIN, "{}", names.len());
    let (mut wrong, mut pairs, mut every) = (String::new(), 0, Vec::new());
    for (name, families) in &names {
        let policies = [of_iptables(name), of_ipf(name), of_ipfw(name)];
        let mut all = true;
        for (a, b, pair) in [
            (0, 1, "iptables, ipf"),
            (1, 2, "ipf, ipfw"),
            (2, 0, "ipfw, iptables"),
        ] {
            let options = Options {
                families: families.clone(),
                whole_headers: true,
                ..Options::default()
            };
            let found = compare(&policies[a], &policies[b], &options).unwrap();
            assert!(!found.journeys.is_empty(), "{name}: {pair}");
            pairs += 1;
            if !found.same() {
                wrong += &format!("{name}: {pair}\n{}", told(&found));
            }
            if (a, b) == (0, 1) {
                let short = Options {
                    whole_headers: false,
                    ..options
                };
                all = compare(&policies[a], &policies[b], &short).unwrap().same();
            }
        }
        if all {
            every.push(name.as_str());
        }
    }
    println!(
        "{} policies, {pairs} pairs; cut short too: {}",
        names.len(),
        every.len()
    );
    assert!(wrong.is_empty(), "{wrong}");
    assert_eq!(every, SHORT_ALIKE);
}

#[test]
fn different_policies_are_told_apart() {
    let names: Vec<String> = names().into_keys().collect();
    for (at, name) in names.iter().enumerate() {
        let other = &names[(at + 1) % names.len()];
        let options = Options {
            families: vec![Family::V4],
            whole_headers: true,
            listed: 20,
            ..Options::default()
        };
        let found = compare(&of_ipf(name), &of_ipfw(other), &options).unwrap();
        assert!(!found.same(), "{name}, {other}");
        let differences = found
            .journeys
            .iter()
            .flat_map(|journey| &journey.differences);
        for difference in differences {
            assert!(difference.confirmed, "{name}, {other}: {difference:#?}");
        }
    }
}
