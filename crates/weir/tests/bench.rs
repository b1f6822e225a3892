//! `weir bench`: what is generated is classified without a difference, in every family; broken
//! files and traces of other rule sets are refused.

mod common;

use common::Folder;

const FAMILIES: [&str; 31] = [
    "acl1",
    "acl2",
    "acl3",
    "acl4",
    "acl5",
    "fw1",
    "fw2",
    "fw3",
    "fw4",
    "fw5",
    "ipc1",
    "ipc2",
    "acl1-blocks",
    "acl2-blocks",
    "acl3-blocks",
    "acl4-blocks",
    "acl5-blocks",
    "fw1-blocks",
    "fw2-blocks",
    "fw3-blocks",
    "fw4-blocks",
    "fw5-blocks",
    "ipc1-blocks",
    "ipc2-blocks",
    "cross",
    "stair",
    "wide",
    "hipac-worst",
    "weir-worst",
    "weir-loads",
    "weir-bytes",
];

/// Generates into `r` and `t`, classifies, and gives the answer.
fn classified(family: &str, rules: &str, more: &[&str]) -> serde_json::Value {
    let folder = Folder::new();
    let mut args = vec!["bench", "generate", "--family", family, "--rules", rules];
    args.extend([
        "--seed",
        "5",
        "--out",
        "r",
        "--trace",
        "t",
        "--packets",
        "4000",
    ]);
    args.extend(more);
    folder.weir(&args).expect(0);
    let args = [
        "bench", "classify", "--rules", "r", "--trace", "t", "--passes", "1", "--json",
    ];
    folder.weir(&args).expect(0).json()
}

fn check(family: &str, rules: u64, more: &[&str]) {
    let answer = classified(family, &rules.to_string(), more);
    assert_eq!(answer["schema"], 1);
    assert_eq!(answer["rules"], rules, "{family}");
    assert_eq!(answer["packets"], 4000, "{family}");
    assert_eq!(answer["differ"], 0, "{family}: {answer:#}");
    assert_eq!(answer["misplaced"], 0, "{family}");
    assert!(
        answer["worst_loads"]
            .as_u64()
            .is_some_and(|loads| loads > 0),
        "{family}"
    );
    let mixed = more.contains(&"--mix");
    let matched = answer["matched"].as_u64().expect("a number");
    assert_eq!(matched == 4000, !mixed, "{family}: {matched} matched");
    let walkers = answer["walkers"].as_array().expect("walkers");
    let ran: Vec<_> = walkers
        .iter()
        .filter(|walker| walker["available"] == true)
        .collect();
    assert!(
        ran.iter().any(|walker| walker["name"] == "scalar"),
        "{answer:#}"
    );
    for walker in ran {
        assert!(
            walker["compared"].as_u64().is_some_and(|n| n >= 4000),
            "{walker}"
        );
        assert!(
            walker["ns_median"].as_f64().is_some_and(|ns| ns > 0.0),
            "{walker}"
        );
    }
}

#[test]
fn every_family_is_classified_without_a_difference() {
    for family in FAMILIES {
        check(family, 700, &[]);
        check(family, 300, &["--interior"]);
    }
}

#[test]
fn the_lookup_in_the_kernel_is_checked_too() {
    let test = "the_lookup_in_the_kernel_is_checked_too";
    let Some(()) = weir_plane::kernel_or_skip(test) else {
        return;
    };
    for (family, more) in [("acl4", "--mix"), ("fw4", "--interior"), ("ipc1", "--v6")] {
        let answer = classified(family, "900", &[more]);
        let walkers = answer["walkers"].as_array().expect("walkers");
        let found = walkers.iter().find(|walker| walker["name"] == "ebpf");
        let kernel = found.expect("a line for it");
        assert_eq!(kernel["available"], true, "{kernel:#}");
        assert_eq!(
            (&kernel["compared"], &kernel["differ"]),
            (&8000.into(), &0.into())
        );
    }
}

#[test]
fn packets_that_match_little_are_classified_without_a_difference() {
    for family in ["acl2", "fw4", "ipc1", "cross", "stair"] {
        check(family, 1000, &["--mix"]);
    }
}

#[test]
fn six_is_a_family_of_addresses_too() {
    for family in ["acl1", "fw1", "ipc1", "fw1-blocks", "wide", "hipac-worst"] {
        check(family, 500, &["--v6"]);
        check(family, 300, &["--v6", "--interior"]);
    }
}

#[test]
fn the_same_seed_gives_the_same_files() {
    let folder = Folder::new();
    for (seed, out) in [("1", "a"), ("1", "b"), ("2", "c")] {
        let args = [
            "bench", "generate", "--family", "fw3", "--rules", "300", "--seed", seed,
        ];
        folder
            .weir(&[&args[..], &["--out", out]].concat())
            .expect(0);
    }
    let read = |name| std::fs::read_to_string(folder.0.join(name)).unwrap();
    assert_eq!(read("a"), read("b"));
    assert_ne!(read("a"), read("c"));
    assert_eq!(read("a").lines().count(), 300);
}

#[test]
fn what_a_search_finds_can_be_generated() {
    let folder = Folder::new();
    for goal in ["ns", "loads", "bytes", "build"] {
        let args = [
            "bench",
            "search",
            "--goal",
            goal,
            "--rules",
            "60",
            "--seconds",
            "1",
            "--json",
        ];
        let found = folder.weir(&args).expect(0).json();
        assert!(
            found["tried"].as_u64().is_some_and(|tried| tried > 0),
            "{found:#}"
        );
        assert_eq!(found["differ"], 0, "{found:#}");
        let genome = found["worst"][0]["genome"]
            .as_str()
            .expect("a genome")
            .to_owned();
        let args = [
            "bench", "generate", "--genome", &genome, "--rules", "60", "--out", "r",
        ];
        folder.weir(&args).expect(0);
        let text = std::fs::read_to_string(folder.0.join("r")).unwrap();
        assert_eq!(text.lines().count(), 60);
    }
    folder
        .weir(&[
            "bench", "generate", "--genome", "12", "--rules", "1", "--out", "r",
        ])
        .expect(2);
    folder
        .weir(&["bench", "generate", "--rules", "1", "--out", "r"])
        .expect(2);
}

#[test]
fn a_trace_of_another_rule_set_is_noticed() {
    let folder = Folder::new();
    folder.file(
        "r",
        "@10.0.0.0/8\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x06/0xFF\n",
    );
    folder.file("good", "167772161\t1\t5\t80\t6\t0\n");
    folder.file("bad", "167772161\t1\t5\t81\t6\t0\n");
    let classify = |trace| folder.weir(&["bench", "classify", "--rules", "r", "--trace", trace]);
    let good = classify("good").expect(0);
    assert!(
        good.out
            .contains("every answer is that of the linear search"),
        "{}",
        good.out
    );
    let bad = classify("bad").expect(1);
    assert!(
        bad.out.contains("1 packet lies not in the filter"),
        "{}",
        bad.out
    );
}

#[test]
fn flags_are_looked_at_when_asked_for() {
    let folder = Folder::new();
    let rule = |flags| format!("@0.0.0.0/0\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x06/0xFF\t{flags}\n");
    folder.file(
        "r",
        &(rule("0x1000/0x1200") + &rule("0x0200/0x0200") + &rule("0x0000/0x0000")),
    );
    // ACK; SYN; neither: the flags column is `flags << 16 | mask`.
    folder.file(
        "t",
        "1 2 3 4 6 268440064 0\n1 2 3 4 6 33554944 1\n1 2 3 4 6 0 2\n",
    );
    let args = [
        "bench", "classify", "--rules", "r", "--trace", "t", "--passes", "1",
    ];
    let plain = folder.weir(&args).expect(0);
    assert!(
        plain.out.contains("flags of 2 filters not looked at"),
        "{}",
        plain.out
    );
    let flags = folder
        .weir(&[&args[..], &["--flags", "--json"]].concat())
        .expect(0)
        .json();
    assert_eq!(
        (&flags["flags_ignored"], &flags["matched"]),
        (&0.into(), &3.into())
    );
    folder.file("low", &rule("0x0010/0x0010"));
    folder.file("one", "1 2 3 4 6\n");
    let args = [
        "bench", "classify", "--rules", "low", "--trace", "one", "--flags",
    ];
    let low = folder.weir(&args).expect(3);
    assert!(low.err.contains("low byte"), "{}", low.err);
}

#[test]
fn broken_files_are_located_and_end_with_status_two() {
    let folder = Folder::new();
    folder.file(
        "good",
        "@10.0.0.0/8 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xFF\n",
    );
    folder.file("packets", "167772161 1 5 80 6\n");
    let classify =
        |rules, trace| folder.weir(&["bench", "classify", "--rules", rules, "--trace", trace]);
    let broken = [
        "10.0.0.0/8 0.0.0.0/0 0 : 1 0 : 1 0/0\n",
        "@10.0.0.0 0.0.0.0/0 0 : 1 0 : 1 0/0\n",
        "@10.0.0.0/8 0.0.0.0/0 0 : 1 0 : 1\n",
        "@10.0.0.0/8 0.0.0.0/0 2 : 1 0 : 1 0/0\n",
        "@10.0.0.0/8 0.0.0.0/0 0 : 1 0 : 70000 0/0\n",
        "@10.0.0.0/8 0.0.0.0/0 0 : 1 0 : 1 0x06/0x01\n",
        "",
    ];
    for text in broken {
        folder.file("broken", text);
        let run = classify("broken", "packets").expect(2);
        assert!(run.err.contains("broken:1:"), "{text}: {}", run.err);
    }
    for text in ["1 2 3 4\n", "1 2 3 4 500\n", "1 2 3 4 6 1\n", "a b c d e\n"] {
        folder.file("broken", text);
        let run = classify("good", "broken").expect(2);
        assert!(run.err.contains("broken:1:"), "{text}: {}", run.err);
    }
    folder.file("broken", &"x\n".repeat(1000));
    let run = classify("broken", "packets").expect(2);
    assert!(run.err.contains("... and 900 more"), "{}", run.err.len());
    assert!(run.err.contains("broken: 1,000 errors"));
    classify("absent", "packets").expect(2);
    folder
        .weir(&[
            "bench", "generate", "--family", "acl9", "--rules", "1", "--out", "x",
        ])
        .expect(2);
}
