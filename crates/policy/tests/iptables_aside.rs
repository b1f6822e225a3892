//! Matches on what the kernel knows beside headers, and on bytes: what becomes of their options.

mod lowering;

use lowering::{chain, filter, lower_files};
use weir_policy::dialect::iptables::{LowerOptions, Names};
use weir_policy::model::{
    Aside, ChunkFlags, Cond, Family, HistoryKind, IfPattern, MarkShift, Op, Owner, OwnerRange,
    RangeSet, SetField, Test, TextSearch, WordStep, WordTest,
};

/// Knows one control group.
struct Groups;

impl Names for Groups {
    fn addresses(&self, _: &str, _: Family) -> Result<Vec<std::net::IpAddr>, String> {
        Err("none".into())
    }

    fn control_group(&self, path: &str) -> Option<(u64, u32)> {
        (path == "system.slice/web").then_some((77, 2))
    }
}

/// The tests of the only rule of a chain.
fn tests(chain_name: &str, rule: &str) -> Vec<(bool, Cond)> {
    let text = filter(&format!("-A {chain_name} {rule} -j DROP"));
    let options = LowerOptions {
        names: Some(&Groups),
        ..LowerOptions::default()
    };
    let (policy, report) = lower_files(&[(Family::V4, &text)], &options);
    let policy = policy.unwrap_or_else(|| panic!("{rule}: {:?}", report.diagnostics));
    let pair = |test: &Test| (test.negate, test.cond.clone());
    chain(&policy, chain_name).rules[0]
        .tests
        .iter()
        .map(pair)
        .collect()
}

fn is(chain: &str, rule: &str, expected: &[(bool, Aside)]) {
    let expected: Vec<(bool, Cond)> = expected
        .iter()
        .map(|(negate, aside)| (*negate, Cond::Aside(aside.clone())))
        .collect();
    assert_eq!(tests(chain, rule), expected, "{rule}");
}

#[test]
fn owners_have_groups_beside_the_main_one() {
    let range = OwnerRange { first: 4, last: 27 };
    is(
        "OUTPUT",
        "-m owner --gid-owner 4-27 --suppl-groups",
        &[(false, Aside::Groups(range))],
    );
    // Without a socket the rule doesn't hold, though it is negated.
    is(
        "OUTPUT",
        "-m owner ! --gid-owner 4-27 --suppl-groups",
        &[(false, Aside::Socket), (true, Aside::Groups(range))],
    );
    is(
        "OUTPUT",
        "-m owner ! --socket-exists",
        &[(true, Aside::Socket)],
    );
    let main = tests("OUTPUT", "-m owner ! --gid-owner 4-27");
    assert_eq!(main, [(true, Cond::Owner(Owner::Gid(range)))]);
}

#[test]
fn the_kernels_own_words_are_asked() {
    is("INPUT", "-m cpu ! --cpu 3", &[(true, Aside::Cpu(3))]);
    is(
        "FORWARD",
        "-m devgroup --src-group 0x1f/0xf ! --dst-group 2",
        &[
            (
                false,
                Aside::DeviceGroup {
                    out: false,
                    value: 15,
                    mask: 15,
                },
            ),
            (
                true,
                Aside::DeviceGroup {
                    out: true,
                    value: 2,
                    mask: u32::MAX,
                },
            ),
        ],
    );
    is(
        "INPUT",
        "-m cgroup ! --cgroup 1048577",
        &[(true, Aside::Class(0x0010_0001))],
    );
    is(
        "INPUT",
        "-m cgroup --path system.slice/web",
        &[(false, Aside::Group { id: 77, level: 2 })],
    );
    let port = |out, name: Option<&str>, prefix| Aside::Port {
        out,
        name: name.map(|name| IfPattern {
            name: name.into(),
            prefix,
        }),
    };
    is(
        "FORWARD",
        "-m physdev --physdev-is-in --physdev-in tap+ ! --physdev-out tap1 --physdev-is-bridged",
        &[
            (false, port(false, None, false)),
            (false, port(false, Some("tap"), true)),
            (true, port(true, Some("tap1"), false)),
            (false, port(true, None, false)),
        ],
    );
}

#[test]
fn a_control_group_that_is_not_there_is_an_error() {
    let text = filter("-A INPUT -m cgroup --path gone -j DROP");
    let options = LowerOptions {
        names: Some(&Groups),
        ..LowerOptions::default()
    };
    let (policy, report) = lower_files(&[(Family::V4, &text)], &options);
    assert!(policy.is_none());
    assert_eq!(report.diagnostics[0].code, "unknown-name");
}

#[test]
fn bytes_are_looked_for() {
    is(
        "INPUT",
        "-m string ! --hex-string \"|0d0a|Host\" --algo kmp --from 20 --icase",
        &[(
            true,
            Aside::Text(TextSearch {
                pattern: b"\r\nHost".to_vec(),
                ignore_case: true,
                from: 20,
                to: 65_535,
            }),
        )],
    );
    let word = |start, steps, ranges| WordTest {
        start,
        steps,
        ranges,
    };
    is(
        "INPUT",
        "-m u32 --u32 \"6&0xff=1,5:7&&0>>22&0x3c@2<<8=0:9\"",
        &[(
            false,
            Aside::Words(vec![
                word(6, vec![WordStep::And(255)], vec![(1, 1), (5, 7)]),
                word(
                    0,
                    vec![
                        WordStep::Right(22),
                        WordStep::And(0x3c),
                        WordStep::At(2),
                        WordStep::Left(8),
                    ],
                    vec![(0, 9)],
                ),
            ]),
        )],
    );
}

#[test]
fn chunks_are_looked_at_behind_ports() {
    let row = |kind, mask, value| ChunkFlags { kind, mask, value };
    let chunks = Cond::SctpChunks {
        kind: 2,
        types: [1 | 1 << 6 | 1 << 3, 0, 0, 0],
        flags: vec![row(0, 3, 2), row(6, 1, 0)],
    };
    let rule = "-p sctp -m sctp --chunk-types only DATA:Be,ABORT:t,SACK --dport 9";
    let found = tests("INPUT", rule);
    assert_eq!(
        found[1..],
        [(false, Cond::DstPort(RangeSet::one(9))), (false, chunks)]
    );
}

#[test]
fn ipv6_headers_are_these_alone_or_these_among_others() {
    let cases = [
        ("--header hop-by-hop,protocol", false, 0x81, 0xff),
        ("! --header ipv6-nonxt", true, 0x40, 0xff),
        ("--header ipv6-frag,ah --soft", false, 0x18, 0x18),
        ("! --header esp,ipv6-opts,ipv6-route --soft", false, 0, 0x26),
    ];
    for (words, negate, value, mask) in cases {
        let text = filter(&format!("-A INPUT -m ipv6header {words} -j DROP"));
        let (policy, report) = lower_files(&[(Family::V6, &text)], &LowerOptions::default());
        let policy = policy.unwrap_or_else(|| panic!("{words}: {:?}", report.diagnostics));
        let cond = Cond::Aside(Aside::Headers { value, mask });
        let rule = &chain(&policy, "INPUT").rules[0];
        assert_eq!(rule.tests, [Test { negate, cond }], "{words}");
    }
}

#[test]
fn marks_are_shifted_on_their_way() {
    let text = "*mangle\n:INPUT ACCEPT [0:0]\n\
        -A INPUT -j CONNMARK --set-xmark 1/0xf --left-shift-mark 3\n\
        -A INPUT -j CONNMARK --restore-mark --nfmask 1 --ctmask 2 --right-shift-mark 31\nCOMMIT\n";
    let (policy, report) = lower_files(&[(Family::V4, text)], &LowerOptions::default());
    let policy = policy.unwrap_or_else(|| panic!("{:?}", report.diagnostics));
    let shift = |right, bits| MarkShift { right, bits };
    let ops: Vec<_> = chain(&policy, "INPUT")
        .rules
        .iter()
        .map(|r| r.ops.clone())
        .collect();
    let set = Op::SetConnmark {
        value: 1,
        mask: 15,
        shift: shift(false, 3),
    };
    let restore = Op::RestoreConnmark {
        nf_mask: 1,
        ct_mask: 2,
        shift: shift(true, 31),
    };
    assert_eq!(ops, [[set], [restore]]);
}

#[test]
fn rates_may_be_measured_over_a_time() {
    let rule = |rate: &str| {
        let words = "--hashlimit-mode srcip --hashlimit-name x --hashlimit-rate-match";
        let rule = format!("-A INPUT -m hashlimit --hashlimit-above {rate} {words}");
        let text = filter(&format!("{rule} --hashlimit-rate-interval 4 -j DROP"));
        lower_files(&[(Family::V4, &text)], &LowerOptions::default())
    };
    let policy = rule("20/sec").0.expect("packets of a second");
    let HistoryKind::HashLimit(limit) = &policy.histories[0].kind else {
        panic!("{:?}", policy.histories)
    };
    let numbers = (limit.sampled, limit.per_second(), limit.burst, limit.above);
    assert_eq!(numbers, (Some(4), 20, 5, true));
    for refused in ["20/min", "20kb/s"] {
        let (policy, report) = rule(refused);
        assert!(policy.is_none(), "{refused}");
        let message = &report.diagnostics[0].message;
        assert!(message.contains("--hashlimit-rate-match"), "{message}");
    }
}

#[test]
fn what_is_taken_out_of_a_set_is_a_set_of_its_own() {
    let text = filter(
        "-A INPUT -m set --match-set both src,dst --return-nomatch -j DROP\n\
         -A INPUT -m set --match-set two src,dst --return-nomatch -j DROP",
    );
    let (policy, report) = lower_files(&[(Family::V4, &text)], &LowerOptions::default());
    let policy = policy.unwrap_or_else(|| panic!("{:?}", report.diagnostics));
    let set = |rule: usize| {
        let Cond::Set { set, fields } = &chain(&policy, "INPUT").rules[rule].tests[0].cond else {
            panic!()
        };
        assert_eq!(fields[..], [SetField::Src, SetField::Dst]);
        &policy.sets[set.0 as usize]
    };
    assert_eq!(set(0).name, "both nomatch");
    let of = |name: &str| policy.sets.iter().find(|set| set.name == name);
    let (one, taken) = (of("one").unwrap(), of("one nomatch").unwrap());
    let senses = |set: &weir_policy::model::NamedSet| {
        let entries = set.entries.iter();
        entries.map(|entry| entry.nomatch).collect::<Vec<_>>()
    };
    assert_eq!(
        (senses(one), senses(taken)),
        (vec![false, true], vec![true, false])
    );
    // A type without networks has no such entries, and the option no effect.
    assert_eq!(set(1).name, "two");
}
