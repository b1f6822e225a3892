//! The same policies written in three languages mean the same.
//!
//! `testdata/three` has each policy as IPFilter rules, as ipfw rules, and as iptables-save (and
//! ip6tables-save) text, in the words that people of each language use. Every pair is compared
//! exactly, for every packet there is; nothing is sampled. Packets whose transport header is cut
//! short are left out, since no rules can make the languages agree on them: ipfw drops them before
//! its rules, ip_tables where a rule asks for ports, and IPFilter's rules just don't match them.
//! Which policies differ for that between iptables and IPFilter is compared in a second step.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use weir_policy::compare::{Comparison, Options, compare};
use weir_policy::dialect::{ipf, ipfw, iptables};
use weir_policy::eval::ipf::Tables;
use weir_policy::model::{Family, Policy};
use weir_policy::syntax::{Diagnostic, Sources};

/// Policies whose short packets IPFilter and iptables treat differently: they block ports and pass
/// the rest.
const SHORT_DIFFERS: &[&str] = &[
    "answers-to-ident",
    "dmz",
    "impossible-flags",
    "mail-leaves-by-one-host",
    "negations",
    "no-new-connections-from-outside",
    "port-ranges",
    "two-administrators",
    "windows-noise",
];

/// At least so many policies.
const POLICIES_MIN: usize = 25;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/three")
}

fn sound(name: &str, found: &[Diagnostic]) {
    let errors: Vec<&Diagnostic> = found.iter().filter(|one| one.is_error()).collect();
    assert!(errors.is_empty(), "{name}: {errors:#?}");
}

fn text(name: &str) -> Option<String> {
    fs::read_to_string(folder().join(name)).ok()
}

fn of_iptables(name: &str) -> Policy {
    let mut sources = Sources::new();
    let mut files = Vec::new();
    for (suffix, family) in [("v4", Family::V4), ("v6", Family::V6)] {
        let name = format!("{name}.{suffix}");
        let Some(text) = text(&name) else { continue };
        let id = sources.add(name.as_str(), text.as_str());
        let (file, found) = iptables::parse_as(&text, id, family);
        sound(&name, &found);
        files.push((name, file));
    }
    let inputs: Vec<iptables::Input<'_>> = files
        .iter()
        .map(|(name, file)| iptables::Input::Rules { name, file })
        .collect();
    let (policy, report) = iptables::lower(&inputs, &iptables::LowerOptions::default());
    sound(name, &report.diagnostics);
    policy.unwrap()
}

fn of_ipf(name: &str) -> Policy {
    use ipf::lower::{LowerOptions, lower};
    let name = format!("{name}.ipf");
    let text = text(&name).unwrap();
    let mut sources = Sources::new();
    let id = sources.add(name.as_str(), text.as_str());
    let (file, found) = ipf::parse(&text, id, &ipf::ParseOptions::default());
    sound(&name, &found);
    let (set, found) = ipf::load::RuleSet::of(&file);
    sound(&name, &found);
    let (policy, found) = lower(&set, &Tables::default(), &sources, LowerOptions::default());
    sound(&name, &found);
    policy.unwrap()
}

fn of_ipfw(name: &str) -> Policy {
    use ipfw::lower::{Options, lower};
    let name = format!("{name}.ipfw");
    let text = text(&name).unwrap();
    let mut sources = Sources::new();
    let id = sources.add(name.as_str(), text.as_str());
    let program = ipfw::read(&text, id, &ipfw::NoNames, ipfw::Settings::default());
    sound(&name, &program.diagnostics);
    let (policy, found) = lower(&program.ruleset, &sources, Options::default());
    sound(&name, &found);
    policy.unwrap()
}

/// The policies by name, with the families they are written for.
fn names() -> BTreeMap<String, Vec<Family>> {
    let mut out = BTreeMap::new();
    for entry in fs::read_dir(folder()).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        if let Some(name) = file.strip_suffix(".v4") {
            let mut families = vec![Family::V4];
            if folder().join(format!("{name}.v6")).exists() {
                families.push(Family::V6);
            }
            out.insert(name.to_owned(), families);
        }
    }
    out
}

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
    let differ: Vec<&str> = names
        .keys()
        .map(String::as_str)
        .filter(|name| !every.contains(name))
        .collect();
    assert_eq!(differ, SHORT_DIFFERS);
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
