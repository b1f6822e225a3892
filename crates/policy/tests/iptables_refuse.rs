//! Lowering: what is refused, what is left out, and what callers answer for.

mod lowering;
mod spellings;

use lowering::{chain, filter, lower_files};
use spellings::SPELLINGS;
use spellings::random::{Random, fill};
use std::net::IpAddr;
use weir_policy::dialect::iptables::ast::table_name;
use weir_policy::dialect::iptables::{LowerOptions, Names, Treatment};
use weir_policy::model::{
    AddrMatch, AddrType, Cond, Family, Flow, HistoryKind, RangeSet, StateMask, Table, Test,
};

fn plain(cond: Cond) -> Test {
    Test {
        negate: false,
        cond,
    }
}

fn net(first: u32, last: u32) -> AddrMatch {
    AddrMatch::Ranges(RangeSet::range(u128::from(first), u128::from(last)))
}

struct Fixed;

impl Names for Fixed {
    fn addresses(&self, name: &str, _: Family) -> Result<Vec<IpAddr>, String> {
        match name {
            "many.example" => Ok(["9.9.9.9", "1.1.1.1", "::1", "9.9.9.9"]
                .map(|a| a.parse().unwrap())
                .into()),
            _ => Err("no such host".to_owned()),
        }
    }

    fn user(&self, name: &str) -> Option<u32> {
        (name == "www-data").then_some(33)
    }
}

#[test]
fn host_names_are_resolved_sorted_recorded_and_refusable() {
    let text = filter("-A INPUT -s many.example -j DROP\n-A INPUT -d many.example/8 -j DROP");
    let files = [(Family::V4, text.as_str())];
    let options = LowerOptions {
        names: Some(&Fixed),
        ..LowerOptions::default()
    };
    let (policy, report) = lower_files(&files, &options);
    let policy = policy.unwrap();
    let rules = &chain(&policy, "INPUT").rules;
    assert_eq!(rules.len(), 4);
    assert_eq!(
        rules[0].tests,
        [plain(Cond::Src(net(0x0101_0101, 0x0101_0101)))]
    );
    assert_eq!(
        rules[1].tests,
        [plain(Cond::Src(net(0x0909_0909, 0x0909_0909)))]
    );
    assert_eq!(
        rules[2].tests,
        [plain(Cond::Dst(net(0x0100_0000, 0x01ff_ffff)))]
    );
    assert_eq!(report.resolved.len(), 1);
    let addresses: Vec<IpAddr> = ["1.1.1.1", "9.9.9.9"].map(|a| a.parse().unwrap()).into();
    assert_eq!(
        (
            report.resolved[0].name.as_str(),
            &report.resolved[0].addresses
        ),
        ("many.example", &addresses)
    );

    let refused = LowerOptions {
        refuse_host_names: true,
        ..options
    };
    let (policy, report) = lower_files(&files, &refused);
    assert!(policy.is_none());
    assert!(
        report
            .diagnostics
            .iter()
            .all(|found| found.code == "host-name")
    );
    assert!(
        lower_files(&files, &LowerOptions::default()).0.is_none(),
        "nobody to ask"
    );
    let unknown = filter("-A INPUT -s nowhere.example -j DROP");
    let (policy, report) = lower_files(&[(Family::V4, &unknown)], &options);
    assert!(policy.is_none() && report.diagnostics[0].message.contains("no such host"));
}

#[test]
fn what_cannot_be_honoured_is_refused_or_left_out_but_never_opens() {
    use Treatment::{LeftOut, Refused};
    const UNKNOWN: &str = "-m helper --helper a";
    for (lines, treatment) in [
        ("-A INPUT {} -j ACCEPT", LeftOut),
        ("-A INPUT {} -j DROP", Refused),
        ("-A INPUT {} -j REJECT", Refused),
        ("-A INPUT {} -j RETURN", Refused),
        ("-A INPUT {}", LeftOut),
        ("-A INPUT {} -j LOG", LeftOut),
        ("-A INPUT {} -j MARK --set-mark 1", Refused),
        ("-A INPUT {} -m recent --set -j ACCEPT", Refused),
        ("-A INPUT {} -j opens", LeftOut),
        ("-A INPUT {} -j closes", Refused),
        ("-A INPUT {} -g opens", Refused),
        ("-A INPUT {} -j deep", Refused),
        ("-A INPUT -j NFQUEUE", Refused),
        ("-A INPUT -j TEE --gateway 1.2.3.4", LeftOut),
        ("-A INPUT -m helper --helper ftp -j ACCEPT", LeftOut),
    ] {
        let rule = lines.replace("{}", UNKNOWN);
        let text = filter(&format!(
            ":opens - [0:0]\n:closes - [0:0]\n:deep - [0:0]\n\
             -A opens -p tcp -j ACCEPT\n-A opens -p udp -j RETURN\n\
             -A opens -j LOG\n-A closes -j ACCEPT\n-A closes -j DROP\n\
             -A deep -j opens\n-A deep -g closes\n{rule}"
        ));
        let files = [(Family::V4, text.as_str())];
        let (policy, report) = lower_files(&files, &LowerOptions::default());
        assert!(
            policy.is_none() && report.has_unsupported() && !report.has_faults(),
            "{rule}"
        );
        assert_eq!(report.affected[0].treatment, Refused);

        let allow = LowerOptions {
            allow_unsupported: true,
            ..LowerOptions::default()
        };
        let (policy, report) = lower_files(&files, &allow);
        assert_eq!(report.affected.len(), 1, "{rule}");
        assert_eq!(report.affected[0].treatment, treatment, "{rule}");
        assert_eq!(policy.is_some(), treatment == LeftOut, "{rule}");
        if let Some(policy) = policy {
            assert!(
                chain(&policy, "INPUT").rules.is_empty(),
                "{rule} is not in the policy"
            );
        }
    }
}

#[test]
fn outside_the_filter_table_accepting_is_not_harmless() {
    let text = "*mangle\n-A INPUT -m helper --helper a -j ACCEPT\n\
        -A INPUT -j MARK --set-mark 1\nCOMMIT\n";
    let allow = LowerOptions {
        allow_unsupported: true,
        ..LowerOptions::default()
    };
    let (policy, report) = lower_files(&[(Family::V4, text)], &allow);
    assert!(policy.is_none());
    assert_eq!(report.affected[0].treatment, Treatment::Refused);
}

#[test]
fn rules_keep_their_numbers_when_one_is_left_out() {
    let text = filter(
        "-A INPUT -p tcp -j ACCEPT\n-A INPUT -m helper --helper a -j ACCEPT\n-A INPUT -j DROP",
    );
    let allow = LowerOptions {
        allow_unsupported: true,
        ..LowerOptions::default()
    };
    let (policy, _) = lower_files(&[(Family::V4, &text)], &allow);
    let policy = policy.unwrap();
    let numbers: Vec<_> = chain(&policy, "INPUT")
        .rules
        .iter()
        .map(|rule| rule.index)
        .collect();
    assert_eq!(numbers, [1, 3]);
}

#[test]
fn states_of_translated_connections_are_the_kernels() {
    for (rule, negate, mask) in [
        ("--ctstate RELATED,ESTABLISHED -j DROP", false, 12),
        (
            "--ctstate RELATED,ESTABLISHED,DNAT -j ACCEPT",
            false,
            12 | 64,
        ),
        ("! --ctstate SNAT -j DROP", true, 32),
        ("--ctstate SNAT,DNAT,INVALID", false, 1 | 32 | 64),
    ] {
        let text = filter(&format!("-A INPUT -m conntrack {rule}"));
        let (policy, report) = lower_files(&[(Family::V4, &text)], &LowerOptions::default());
        assert!(report.diagnostics.is_empty(), "{rule}");
        let cond = Cond::State(StateMask(mask));
        let tests = vec![Test { negate, cond }];
        assert_eq!(
            chain(&policy.unwrap(), "INPUT").rules[0].tests,
            tests,
            "{rule}"
        );
    }
}

#[test]
fn ipsec_is_known_as_far_as_there_is_a_policy_or_none() {
    for (rule, expected) in [
        ("--dir in --pol ipsec", Some((false, false))),
        ("--dir in --pol none", Some((true, false))),
        ("--dir out --pol ipsec", Some((false, true))),
        ("--dir in --pol ipsec --reqid 1", None),
        ("--dir in --pol ipsec --proto esp", None),
    ] {
        let text = filter(&format!("-A FORWARD -m policy {rule} -j ACCEPT"));
        let (policy, _) = lower_files(&[(Family::V4, &text)], &LowerOptions::default());
        let expected = expected.map(|(negate, out)| {
            let cond = Cond::Ipsec { out };
            vec![Test { negate, cond }]
        });
        let tests = policy.map(|policy| chain(&policy, "FORWARD").rules[0].tests.clone());
        assert_eq!(tests, expected, "{rule}");
    }
}

#[test]
fn helpers_and_lines_of_the_other_family_are_said() {
    let text = "*raw\n-A PREROUTING -p tcp --dport 21 -j CT --helper ftp\nCOMMIT\n";
    let (policy, report) = lower_files(&[(Family::V4, text)], &LowerOptions::default());
    assert!(policy.is_some());
    assert_eq!(
        (report.diagnostics[0].code, report.diagnostics[0].is_error()),
        ("helper", false)
    );

    let text = filter("-A INPUT -4 -s 10.0.0.1 -j DROP\n-A INPUT -6 -s 2001:db8::1 -j DROP");
    let (policy, report) = lower_files(&[(Family::V4, &text)], &LowerOptions::default());
    assert_eq!(chain(&policy.unwrap(), "INPUT").rules.len(), 1);
    assert_eq!(report.diagnostics[0].code, "other-family");
    let (policy, _) = lower_files(&[(Family::V6, &text)], &LowerOptions::default());
    assert_eq!(chain(&policy.unwrap(), "INPUT").rules.len(), 1);
}

#[test]
fn users_are_resolved_by_the_caller() {
    let text = filter("-A OUTPUT -m owner --uid-owner www-data -j DROP");
    let options = LowerOptions {
        names: Some(&Fixed),
        ..LowerOptions::default()
    };
    assert!(lower_files(&[(Family::V4, &text)], &options).0.is_some());
    assert!(
        lower_files(&[(Family::V4, &text)], &LowerOptions::default())
            .0
            .is_none()
    );
}

/// Nothing that is read is forgotten: each spelling becomes tests or operations, or is refused by
/// name, or is said to have no effect.
#[test]
fn every_spelling_is_taken_up_or_refused() {
    let mut random = Random(11);
    let (mut taken, mut refused) = (0, 0);
    for spelling in SPELLINGS {
        for family in [Family::V4, Family::V6] {
            if spelling.family.is_some_and(|only| only != family) {
                continue;
            }
            for options in spelling.options {
                let (sign, module, before, chain_name) = (
                    spelling.sign,
                    spelling.module,
                    spelling.before,
                    spelling.chain,
                );
                let options = fill(options, &mut random, family);
                let rule = format!("-A {chain_name} {before} {sign} {module} {options}");
                let text = format!("*{}\n{rule}\nCOMMIT\n", table_name(spelling.table));
                let (policy, report) = lower_files(&[(family, &text)], &LowerOptions::default());
                let Some(policy) = policy else {
                    assert!(
                        report.has_unsupported()
                            || report
                                .diagnostics
                                .iter()
                                .any(|found| found.code == "wrong-hook"),
                        "{rule}: {:?}",
                        report.diagnostics
                    );
                    refused += 1;
                    continue;
                };
                taken += 1;
                if spelling.table == Table::Nat {
                    assert_eq!(report.nat_rules, 1);
                    continue;
                }
                let lowered = &chain(&policy, chain_name).rules[0];
                let basics = before.matches("-p ").count() + before.matches("--syn").count();
                let does = !lowered.ops.is_empty() || lowered.flow != Flow::Next;
                let more = lowered.tests.len() > basics;
                let said = report
                    .diagnostics
                    .iter()
                    .any(|found| matches!(found.code, "no-effect" | "helper"));
                assert!(
                    does || more || said || module == "comment",
                    "{rule} is forgotten"
                );
            }
        }
    }
    assert!(
        taken > 250 && refused > 25,
        "{taken} taken up, {refused} refused"
    );
}

#[test]
fn too_few_directions_are_refused() {
    let text = filter("-A INPUT -m set --match-set two src -j DROP");
    let (policy, report) = lower_files(&[(Family::V4, &text)], &LowerOptions::default());
    assert!(policy.is_none());
    assert_eq!(report.diagnostics[0].code, "too-few-directions");
}

/// The tests of the first rule of PREROUTING of mangle.
fn at_prerouting(family: Family, rule: &str) -> Option<Vec<Test>> {
    let text = format!("*mangle\n-A PREROUTING {rule}\nCOMMIT\n");
    let (policy, _) = lower_files(&[(family, &text)], &LowerOptions::default());
    policy.map(|policy| chain(&policy, "PREROUTING").rules[0].tests.clone())
}

#[test]
fn ways_back_are_asked_of_routing() {
    let back = |loose, marked| Cond::RouteBack { loose, marked };
    let own = plain(Cond::SrcType(vec![AddrType::Local]));
    let either = Cond::Any(vec![plain(back(true, false)), own.clone()]);
    let of_v6 = Cond::Any(vec![plain(back(false, false)), own]);
    for (family, words, negate, expected) in [
        (Family::V4, "", false, Some(back(false, false))),
        (Family::V4, "--loose", false, Some(back(true, false))),
        (
            Family::V6,
            "--validmark --invert",
            true,
            Some(back(false, true)),
        ),
        (Family::V4, "--loose --accept-local", false, Some(either)),
        (Family::V6, "--accept-local", false, Some(of_v6)),
        (Family::V4, "--accept-local", false, None),
    ] {
        let expected = expected.map(|cond| vec![Test { negate, cond }]);
        let found = at_prerouting(family, &format!("-m rpfilter {words} -j DROP"));
        assert_eq!(found, expected, "{words}");
    }
}

#[test]
fn the_kernels_time_zone_has_to_be_known() {
    let text = filter("-A INPUT -m time --timestart 8:00 --timestop 17:00 --kerneltz -j DROP");
    let files = [(Family::V4, text.as_str())];
    assert!(lower_files(&files, &LowerOptions::default()).0.is_none());
    let options = LowerOptions {
        kernel_zone: Some(3600),
        ..LowerOptions::default()
    };
    let (policy, report) = lower_files(&files, &options);
    let HistoryKind::Time(window) = &policy.unwrap().histories[0].kind else {
        panic!()
    };
    assert_eq!((window.offset, window.day_start), (3600, 8 * 3600));
    assert_eq!(report.diagnostics[0].code, "kernel-zone");
}

#[test]
fn sets_of_ethernet_addresses_are_tested_one_by_one() {
    let sets = |rest: &str| {
        format!("create m hash:mac{rest}\nadd m 02:00:5e:00:00:01\nadd m 02:00:5E:00:00:02\n")
    };
    let rules = filter("-A INPUT -m set ! --match-set m src -j DROP");
    let tests = |sets: &str, rules: &str| {
        let files = [(Family::V4, rules)];
        let (policy, report) = lowering::lower_with(&files, sets, &LowerOptions::default());
        policy
            .map(|policy| chain(&policy, "INPUT").rules[0].tests.clone())
            .ok_or_else(|| report.diagnostics[0].message.clone())
    };
    let mac = |last| plain(Cond::Mac([2, 0, 0x5e, 0, 0, last]));
    let expected = Test {
        negate: true,
        cond: Cond::Any(vec![mac(1), mac(2)]),
    };
    assert_eq!(tests(&sets(""), &rules), Ok(vec![expected]));
    let timed = tests(&sets(" timeout 60"), &rules).unwrap_err();
    assert!(timed.contains("a hash:mac with timeouts"), "{timed}");
    let destination = filter("-A INPUT -m set --match-set m dst -j DROP");
    let found = tests(&sets(""), &destination).unwrap_err();
    assert!(found.contains("destination's Ethernet address"), "{found}");
    for (kind, member) in [
        ("hash:ip,mac", "10.0.0.1,02:00:5e:00:00:01"),
        ("hash:ip,mark", "10.0.0.1,0x1"),
        ("hash:net,iface", "10.0.0.0/8,eth0"),
    ] {
        let sets = format!("create m {kind}\nadd m {member}\n");
        let found = tests(
            &sets,
            &filter("-A INPUT -m set --match-set m src,src -j DROP"),
        );
        assert_eq!(
            found,
            Err(format!("a set of type {kind} (`m`) is not supported"))
        );
        assert!(
            tests(&sets, &filter("-A INPUT -j DROP")).is_ok(),
            "nothing uses it"
        );
    }
}
