//! Against the original: every rule file of `testdata/configs/iptables` sees the same packets
//! once under iptables-legacy and once under weir; packets delivered, answers, and per-rule
//! packet and byte counters must be equal.
//!
//! Before that is worth anything, the laboratory itself is put to the test: two iptables runs of
//! one case must agree exactly, and a rule changed on purpose must be noticed.
//!
//! Needs root and network namespaces; without, it says so and passes, unless
//! `WEIR_REQUIRE_KERNEL=1`. `WEIR_BIN` names the weir program, `WEIR_CORPUS` another folder of
//! cases, `WEIR_CASES` (comma-separated stems) picks cases, `WEIR_RANDOM=FIRST,COUNT` other random
//! ones; `WEIR_VERBOSE=1` prints what arrived at each step.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result};
use weir_policy::model::Policy;
use weir_testkit::compare::case::{self, Case};
use weir_testkit::compare::engine::{self, Engine, Reading, Run};
use weir_testkit::compare::model::{self, Follower};
use weir_testkit::compare::report;
use weir_testkit::compare::tap::Asked;
use weir_testkit::sys;

/// A case that goes wrong altogether need not be told to its end.
const LINES_PER_CASE: usize = 60;

/// One laboratory at a time: the machine is small and the tools of the original share a lock.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The corpus, or the folder that `WEIR_CORPUS` names.
fn folder() -> PathBuf {
    if let Some(other) = std::env::var_os("WEIR_CORPUS") {
        return other.into();
    }
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/configs/iptables")
}

/// All cases, or those named in `WEIR_CASES`.
fn cases() -> Vec<Case> {
    let mut cases = case::find(&folder()).expect("the corpus must be readable");
    if let Ok(names) = std::env::var("WEIR_CASES") {
        cases.retain(|case| names.split(',').any(|name| name == case.name));
    }
    cases
}

/// The case of packets that weir is meant to judge otherwise than Linux; its script says why.
const BEYOND_WEIR: &str = "beyond-weir";

/// Cases of rules that ask routing, and what the kernel knows of sockets.
const UNTOLD: [&str; 2] = ["way-back", "aside"];

/// Whether namespaces can be made here; if not, that is said, or is a failure where demanded.
fn kernel_is_ours(test: &str) -> bool {
    if sys::is_root() && Path::new("/proc/self/ns/net").exists() {
        return true;
    }
    assert!(
        std::env::var("WEIR_REQUIRE_KERNEL").as_deref() != Ok("1"),
        "{test}: needs root, and WEIR_REQUIRE_KERNEL=1 forbids skipping"
    );
    eprintln!("SKIPPED {test}: needs root for network namespaces; nothing was compared");
    false
}

fn verbose(run: &Run) {
    if std::env::var("WEIR_VERBOSE").as_deref() != Ok("1") {
        return;
    }
    for record in &run.records {
        println!("{}: {} => {:?}", record.line, record.text, record.outcome);
        record
            .arrived
            .iter()
            .for_each(|text| println!("    {text}"));
    }
    for (key, count) in &run.counters {
        println!(
            "    [{}:{}] {} {}",
            count.packets, count.bytes, key.table, count.rule
        );
    }
}

/// Compares two engines on a case; on a difference once more with counters after every step, so
/// that the report names the step.
fn compare(case: &Case, left: &Engine, right: &Engine) -> Result<Vec<String>> {
    let names = (left.name(), right.name());
    let first = engine::run(case, left, None, Reading::AtEnd)?;
    verbose(&first);
    let second = engine::run(case, right, Some(&first), Reading::AtEnd)?;
    let found = report::differences(case, &first, &second, names);
    if found.is_empty() {
        return Ok(found);
    }
    let first = engine::run(case, left, None, Reading::AfterEveryStep)?;
    let second = engine::run(case, right, Some(&first), Reading::AfterEveryStep)?;
    let again = report::differences(case, &first, &second, names);
    // A difference that does not come back is still a difference.
    Ok(if again.is_empty() { found } else { again })
}

/// The differences of a case that come again when it is run again. How many bare acknowledgements a
/// TCP conversation has is a matter of time: on a busy machine iptables differs from itself.
fn steadily(
    case: &Case,
    mut tried: impl FnMut(&Case) -> Result<Vec<String>>,
) -> Result<Vec<String>> {
    let mut differences = tried(case)?;
    if !differences.is_empty() {
        let again = tried(case)?;
        println!("AGAIN   {}: {}", case.name, differences.join("\n"));
        differences.retain(|line| again.contains(line));
    }
    Ok(differences)
}

fn compare_all(right: &Engine, cases: &[Case]) -> Vec<String> {
    let mut found = Vec::new();
    let (mut same, mut steps, start) = (0, 0, Instant::now());
    for case in cases {
        match steadily(case, |case| compare(case, &Engine::Iptables, right)) {
            Ok(differences) if differences.is_empty() => {
                same += 1;
                steps += case.steps.len();
            }
            Ok(differences) => {
                println!("DIFFERS {}", case.name);
                let more = differences.len().saturating_sub(LINES_PER_CASE);
                found.extend(differences.into_iter().take(LINES_PER_CASE));
                if more > 0 {
                    found.push(format!("{}: {more} more lines", case.name));
                }
            }
            Err(error) => {
                println!("FAILED  {}", case.name);
                found.push(format!("{}: {error:#}", case.name));
            }
        }
    }
    println!(
        "iptables against {}: {same} of {} cases equal, {steps} traffic steps in those, {:.1} s",
        right.name(),
        cases.len(),
        start.elapsed().as_secs_f32()
    );
    found
}

fn lock() -> std::sync::MutexGuard<'static, ()> {
    let guard = ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    sys::pin_to_cpu(0).expect("pin the test to a CPU");
    guard
}

#[test]
fn corpus_is_large_enough() {
    if std::env::var_os("WEIR_CASES").is_none() {
        let files: usize = cases().iter().map(|case| case.rules.len()).sum();
        assert!(files >= 40, "only {files} rule files");
    }
}

#[test]
fn iptables_agrees_with_itself() {
    if !kernel_is_ours("iptables_agrees_with_itself") {
        return;
    }
    let _guard = lock();
    let found = compare_all(&Engine::Iptables, &cases());
    assert!(
        found.is_empty(),
        "the laboratory is not deterministic:\n{}",
        found.join("\n")
    );
}

#[test]
fn every_rule_of_the_corpus_does_something() {
    if !kernel_is_ours("every_rule_of_the_corpus_does_something") {
        return;
    }
    let _guard = lock();
    let (mut rules, mut idle) = (0, Vec::new());
    for case in &cases() {
        let run = engine::run(case, &Engine::Iptables, None, Reading::AtEnd)
            .unwrap_or_else(|error| panic!("{}: {error:#}", case.name));
        for (key, count) in run.counters.iter().filter(|(key, _)| key.index > 0) {
            rules += 1;
            if count.packets == 0 {
                idle.push(format!("{} {} {}", case.name, key.table, count.rule));
            }
        }
    }
    println!("{rules} rules, {} of them never matched", idle.len());
    if std::env::var("WEIR_VERBOSE").as_deref() == Ok("1") {
        println!("{}", idle.join("\n"));
    }
    assert!(
        idle.len() * 3 <= rules,
        "a third of the rules is never matched by any packet"
    );
}

#[test]
fn changed_rule_is_noticed() {
    if !kernel_is_ours("changed_rule_is_noticed") {
        return;
    }
    let _guard = lock();
    let mut tried = 0;
    for case in &cases() {
        let Some(changed) = with_one_rule_changed(case) else {
            continue;
        };
        let right = engine::run(case, &Engine::Iptables, None, Reading::AtEnd).expect("run");
        let wrong = engine::run(&changed, &Engine::Iptables, None, Reading::AtEnd).expect("run");
        let found = report::differences(case, &right, &wrong, ("right", "wrong"));
        assert!(
            !found.is_empty(),
            "{}: the changed rule went unnoticed",
            case.name
        );
        tried += 1;
        if tried == 5 {
            break;
        }
    }
    assert!(tried > 0, "no case has a rule to change");
}

/// The case with the first matched `-p tcp ... ACCEPT` rule of its first file turned into DROP.
fn with_one_rule_changed(case: &Case) -> Option<Case> {
    let run = engine::run(case, &Engine::Iptables, None, Reading::AtEnd)
        .context(case.name.clone())
        .expect("run");
    let matched: Vec<&str> = run
        .counters
        .values()
        .filter(|count| count.packets > 0 && count.rule.contains("-p tcp"))
        .map(|count| count.rule.as_str())
        .collect();
    let mut changed = case.clone();
    let text = &mut changed.rules[0].text;
    let line = text
        .lines()
        .find(|line| line.ends_with("-j ACCEPT") && matched.contains(line))?
        .to_owned();
    *text = text.replacen(&line, &line.replace("-j ACCEPT", "-j DROP"), 1);
    Some(changed)
}

#[test]
fn tap_changes_nothing() {
    if !kernel_is_ours("tap_changes_nothing") {
        return;
    }
    let _guard = lock();
    let (mut found, mut seen) = (Vec::new(), 0);
    for case in &cases() {
        let differences = steadily(case, |case| {
            let plain = engine::run(case, &Engine::Iptables, None, Reading::AtEnd)?;
            let observed = engine::observe(case, Asked::Packet)?;
            seen += observed.sightings.len();
            let names = ("plain", "tapped");
            Ok(report::differences(case, &plain, &observed.run, names))
        });
        found.extend(differences.expect("run with a tap"));
    }
    println!("{seen} packets seen at hooks");
    assert!(
        found.is_empty(),
        "the tap changes what it watches:\n{}",
        found.join("\n")
    );
}

/// Where weir's tracking is meant to differ from the kernel's, and why.
fn known_difference(remark: &str) -> Option<&'static str> {
    const REASONS: &[(&str, &str)] = &[
        ("BAD-CHECKSUM", "transport checksums are not verified"),
        ("protocol 132 ", "SCTP has no handshake states"),
        (
            "protocol 136 ",
            "Linux 6.18 checks UDP-Lite as if it were UDP",
        ),
        (
            "protocol 47 20 bytes 20:783b3501",
            "GRE version 1 has no call ids",
        ),
        (
            "protocol 59 0 bytes",
            "IPv6 without a next header is a flow",
        ),
        (
            "protocol 51 44 bytes",
            "AH over IPv6 is a protocol, no header to skip",
        ),
    ];
    REASONS
        .iter()
        .find(|(sign, _)| remark.contains(sign))
        .map(|(_, reason)| *reason)
}

/// The evaluator's connection tracking sees every packet of every script as the kernel's does.
#[test]
fn tracking_agrees_with_the_kernel() {
    if !kernel_is_ours("tracking_agrees_with_the_kernel") {
        return;
    }
    let _guard = lock();
    let (mut found, mut seen, policy) = (Vec::new(), 0, Policy::default());
    let mut known: BTreeMap<&str, u32> = BTreeMap::new();
    for case in &cases() {
        let mut open = case.clone();
        open.rules.iter_mut().for_each(|file| file.text.clear());
        let observed = engine::observe(&open, Asked::PacketAndState).expect("run with a tap");
        let mut follower = Follower::new(&policy, 0);
        for (step, now_ms, sighting) in &observed.sightings {
            seen += usize::from(sighting.state.is_some());
            follower.follow(sighting, *now_ms);
            let line = case.steps.get(*step).map_or(0, |step| step.line);
            let place = format!("{}.traffic:{line}: ", case.name);
            for remark in follower.remarks.drain(..) {
                match known_difference(&remark) {
                    Some(reason) => *known.entry(reason).or_insert(0) += 1,
                    None => found.push(place.clone() + &remark),
                }
            }
        }
    }
    println!("{seen} packets with a state; known to differ: {known:#?}");
    assert!(seen > 0, "nothing was seen");
    assert!(
        found.is_empty(),
        "{} differ:\n{}",
        found.len(),
        found.join("\n")
    );
}

/// The evaluator, which defines what rules mean, counts what the kernel's iptables counts when it
/// is shown the same packets at the same hooks.
#[test]
fn evaluator_agrees_with_iptables() {
    if !kernel_is_ours("evaluator_agrees_with_iptables") {
        return;
    }
    let _guard = lock();
    let (mut found, mut seen, mut same) = (Vec::new(), 0, 0);
    // The evaluator does not translate addresses, so it cannot follow packets through nat.
    let mut cases = cases();
    // Nor is it told of ways back to sources, or of sockets without an owner.
    cases.retain(|case| !case.has_nat && case.name != BEYOND_WEIR);
    cases.retain(|case| !UNTOLD.contains(&case.name.as_str()));
    for case in &cases {
        let policy = match model::policy_of(case) {
            Ok(policy) => policy,
            Err(error) => {
                found.push(format!("{}: not lowered: {error}", case.name));
                continue;
            }
        };
        let observed = engine::observe(case, Asked::Packet).expect("run with a tap");
        seen += observed.sightings.len();
        let (run, remarks) = model::evaluate(case, &policy, &observed).expect("compile");
        let differences = report::differences(case, &observed.run, &run, ("iptables", "evaluator"));
        same += usize::from(differences.is_empty());
        found.extend(remarks);
        found.extend(differences);
    }
    println!(
        "{same} of {} cases equal, {seen} packets at hooks",
        cases.len()
    );
    assert!(
        found.is_empty(),
        "the evaluator differs:\n{}",
        found.join("\n")
    );
}

#[test]
fn weir_agrees_with_iptables() {
    if !kernel_is_ours("weir_agrees_with_iptables") {
        return;
    }
    let _guard = lock();
    let weir = engine::find_weir().expect("the weir program must be built first");
    let mut cases = cases();
    cases.retain(|case| case.name != BEYOND_WEIR);
    let found = compare_all(&Engine::Weir(weir, &[]), &cases);
    assert!(
        found.is_empty(),
        "weir differs from iptables:\n{}",
        found.join("\n")
    );
}

/// Dropping ahead of netfilter changes neither what arrives nor what counts: the cases that drop at
/// PREROUTING, and the others that have rules there.
#[test]
fn early_drop_agrees_with_iptables() {
    if !kernel_is_ours("early_drop_agrees_with_iptables") {
        return;
    }
    let _guard = lock();
    let weir = engine::find_weir().expect("the weir program must be built first");
    let mut cases = cases();
    let early = |case: &Case| {
        let mut lines = case.rules.iter().flat_map(|file| file.text.lines());
        let has_nat = case.has_nat;
        lines.any(|line| line.starts_with("-A PREROUTING") && (!has_nat || line.contains("DROP")))
    };
    cases.retain(|case| case.name != BEYOND_WEIR && early(case));
    let mut found = Vec::new();
    for options in [&["--early-drop=tcx"], &["--early-drop=xdp"]] {
        found.extend(compare_all(&Engine::Weir(weir.clone(), options), &cases));
    }
    assert!(
        found.is_empty(),
        "weir with early drop differs from iptables:\n{}",
        found.join("\n")
    );
}

/// How many random cases are tried; `WEIR_RANDOM=FIRST,COUNT` tries others.
const RANDOM_CASES: (u64, u64) = (1, 24);

/// Random rule files and random traffic: what the corpus has not thought of.
#[test]
fn weir_agrees_with_iptables_on_random_files() {
    if !kernel_is_ours("weir_agrees_with_iptables_on_random_files") {
        return;
    }
    let _guard = lock();
    let asked = std::env::var("WEIR_RANDOM").ok();
    let asked = asked.as_deref().and_then(|text| text.split_once(','));
    let number = |text: &str| text.parse().expect("WEIR_RANDOM=FIRST,COUNT");
    let (first, count) = asked.map_or(RANDOM_CASES, |(a, b)| (number(a), number(b)));
    let folder = std::env::temp_dir().join(format!("weir-random-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the cases");
    for seed in first..first + count {
        let made = weir_testkit::random::saved::saved(seed);
        let write = |kind: &str, text: &str| {
            let path = folder.join(format!("random-{seed}.{kind}"));
            std::fs::write(path, text).expect("write a case");
        };
        write(if made.v6 { "v6" } else { "v4" }, &made.rules);
        made.sets.iter().for_each(|text| write("ipset", text));
        write("traffic", &made.traffic);
    }
    let weir = engine::find_weir().expect("the weir program must be built first");
    let cases = case::find(&folder).expect("the cases just written");
    let found = compare_all(&Engine::Weir(weir, &[]), &cases);
    assert!(
        found.is_empty(),
        "weir differs from iptables on cases in {}:\n{}",
        folder.display(),
        found.join("\n")
    );
    std::fs::remove_dir_all(&folder).expect("take the cases away");
}
