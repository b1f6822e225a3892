//! Groups that judge ICMP errors about packets of states (`icmp-head`): random texts in which most
//! states ask one.

use super::talk::Talks;
use super::{Tally, TestRun, learning, lifetimes, one, play};
use fastrand::Rng;
use weir_policy::eval::ipf::Settings;

/// Members of a group that judges ICMP errors, and of one that it leads into.
pub fn members(rng: &mut Rng) -> String {
    let direction = one(rng, &["in", "out"]);
    let mut out = String::new();
    for _ in 0..rng.usize(..6) {
        let action = one(
            rng,
            &["pass", "pass", "block", "block", "log", "nomatch", "skip 1"],
        );
        let skips = action == "skip 1";
        let quick = one(rng, &["", "", " quick"]);
        let quick = if skips { "" } else { quick };
        let on = one(rng, &["", "", "", " on eth0", " on eth1"]);
        let what = one(
            rng,
            &[
                " all",
                " all",
                " proto icmp all",
                " proto icmp all icmp-type unreach",
                " proto icmp from 10.1.0.0/16 to any",
                " from any to 10.1.2.0/24",
                " all with frag",
                " all with lowttl",
            ],
        );
        let group = one(
            rng,
            &[" group e", " group e", " head f group e", " group f"],
        );
        let decides = matches!(action, "pass" | "block");
        let may_keep = quick.is_empty() || !group.contains("head");
        let keep = match decides && may_keep {
            true => one(rng, &["", "", "", " keep state", " pps 1"]),
            false => "",
        };
        let group = match skips && group.contains("head") {
            true => " group e",
            false => group,
        };
        // Words come in this order: what is kept, heads and groups, rates.
        let (keep, rate) = match keep {
            " pps 1" => ("", keep),
            keep => (keep, ""),
        };
        out += &format!("{action} {direction}{quick}{on}{what}{keep}{group}{rate}\n");
    }
    out
}

/// Rules whose states ask groups, some of them for the same packets.
fn text(rng: &mut Rng) -> String {
    let mut out = String::new();
    for _ in 0..rng.usize(1..5) {
        let direction = one(rng, &["in", "out"]);
        let action = one(rng, &["pass", "pass", "pass", "block"]);
        let log = one(rng, &["", "", " log", " log first"]);
        let quick = one(rng, &["", " quick"]);
        let on = one(rng, &["", "", " on eth0", " on eth1"]);
        let what = one(rng, &["all", "all", "proto udp all", "proto tcp all"]);
        let keep = one(
            rng,
            &[
                "",
                " (no-icmp-err)",
                " (icmp-head f)",
                " (icmp-head e)",
                " (icmp-head e)",
                " (icmp-head e, no-icmp-err)",
                " (icmp-head nobody, age 30/5)",
            ],
        );
        out += &format!("{action} {direction}{log}{quick}{on} {what} keep state{keep}\n");
    }
    out += &members(rng);
    out += one(rng, &["", "block in all\nblock out all\n"]);
    out
}

fn compare(what: &str, seeds: u64, kernel: Option<&TestRun>) {
    let (mut tally, mut judged) = (Tally::default(), 0);
    for seed in 0..seeds {
        let mut rng = Rng::with_seed(seed);
        let text = text(&mut rng);
        let settings = Settings {
            // The kernel asks the eight newest states of a conversation.
            state_max: [3, 8][rng.usize(..2)],
            default_block: rng.u8(..4) == 0,
            log_quick_ends: rng.u8(..4) == 0,
            lifetimes: lifetimes(&mut rng),
            ..Settings::default()
        };
        let mut talks = Talks::new(seed);
        let sent = std::iter::repeat_with(|| talks.packet()).take(300);
        if let Some(kernel) = kernel {
            kernel.set_sums_unknown(true);
        }
        let before = tally.judged;
        let what = format!("{what} {seed}");
        assert!(
            play(&what, &text, settings, sent, kernel, &mut tally),
            "{text}"
        );
        judged += u64::from(tally.judged > before);
    }
    println!("{judged} policies: {tally:?}");
    assert!(
        judged * 12 > seeds && tally.judged * 4 > seeds,
        "{judged} policies: {tally:?}"
    );
}

#[test]
fn groups_judge_errors_in_the_model_and_the_image() {
    compare("errors", 1_000, None);
}

#[test]
fn groups_judge_errors_in_the_kernel() {
    let name = "groups_judge_errors_in_the_kernel";
    if let Some(()) = weir_plane::kernel_or_skip(name) {
        compare(name, 300, Some(&learning()));
    }
}
