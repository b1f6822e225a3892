//! Matches on what the kernel knows beside headers, and on bytes: what becomes of their options.

mod lowering;

use lowering::{chain, filter, lower_files};
use weir_policy::dialect::iptables::{LowerOptions, Names};
use weir_policy::model::{
    Aside, Cond, Family, IfPattern, Owner, OwnerRange, Test, TextSearch, WordStep, WordTest,
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
