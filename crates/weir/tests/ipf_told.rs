//! What is told of IPFilter files and packets, and what is refused instead of guessed.

mod common;

use common::{Folder, Namespace, Run, Shot, pcapng, tcp, udp};

fn told(rules: &str) -> Run {
    let folder = Folder::new();
    folder.file("r", rules);
    folder.weir(&["check", "r"])
}

#[test]
fn what_versions_take_otherwise_is_told() {
    for (rules, wanted) in [
        (
            "log in quick all\npass in all\n",
            "4.1 ends the evaluation here",
        ),
        (
            "pass in all with opt nop\n",
            "options of four bytes or less",
        ),
        ("pass in on { e0, e1 } all\n", "5.1 reads such a list"),
        (
            "set nosuch 3;\npass in all\n",
            "there is no tunable `nosuch`",
        ),
        (
            "block return-icmp(host-unr) in all\n",
            "to IPv6 packets the answer is port unreachable",
        ),
        (
            "pass in quick proto icmp all icmp-type unreach keep state\npass in all\n",
            "type 3: the rule counts as not matched",
        ),
        (
            "pass in inet6 proto ipv6-icmp all icmp-type 129 keep state\npass in all\n",
            "type 129: they are blocked",
        ),
    ] {
        let run = told(rules).expect(0);
        assert!(
            run.err.contains(wanted) && run.err.contains("warning"),
            "{run:?}"
        );
    }
    for rules in [
        "log in all\npass in all with opt rr\n",
        "set state_size 3;\npass in on e0 all\n",
        "block return-icmp(host-unr) in family inet proto udp all\n",
        "block return-icmp-as-dest(port-unr) in proto udp all\n",
        "pass in quick proto icmp all icmp-type 8 keep state\npass in proto icmp all keep state\n",
    ] {
        let run = told(rules).expect(0);
        assert!(!run.err.contains("warning"), "{run:?}");
    }
    let folder = Folder::new();
    folder.file("r", "set nosuch 3;\npass in all\n");
    for command in [&["show"][..], &["ipf", "-nf"]] {
        let run = folder.weir(&[command, &["r"]].concat()).expect(0);
        assert!(run.err.contains("no tunable `nosuch`"), "{run:?}");
    }
}

#[test]
fn slips_are_told_what_was_meant() {
    for (rules, wanted) in [
        ("pass in proto tcp all flag S\n", "did you mean `flags`?"),
        (
            "pass in proto icmp all icmp-typ 8\n",
            "did you mean `icmp-type`?",
        ),
        ("pass in all; pass in all oops\n", "end the rule before it"),
        ("block in from all to 192.0.2.1\n", "write `any`"),
    ] {
        let run = told(rules).expect(1);
        assert!(run.err.contains(wanted), "{run:?}");
    }
    let folder = Folder::new();
    folder.file("r", "block in from pool/web to any\n");
    let hash = "table role = ipf type = hash name = web { 192.0.2.1; };\n";
    folder.file("p", hash);
    let run = folder.weir(&["check", "p", "r"]).expect(1);
    assert!(run.err.contains("write `hash/web`"), "{run:?}");
}

#[test]
fn scripts_that_call_ipf_are_no_rules() {
    let folder = Folder::new();
    let text = "#!/bin/sh\noif=dc0\ncat > /etc/ipf.rules << EOF\nblock in on $oif all\nEOF\n\
                ipf -Fa -f /etc/ipf.rules\n";
    folder.file("s", text);
    folder.file("t", "echo \"block in all\" | /sbin/ipf -f -\n");
    for name in ["s", "t"] {
        for call in [
            &["check"][..],
            &["check", "--dialect", "ipf"],
            &["ipf", "-nf"],
        ] {
            let run = folder.weir(&[call, &[name]].concat());
            assert!(matches!(run.code, Some(1 | 2)), "{run:?}");
            assert!(run.err.contains("a script that calls ipf"), "{run:?}");
        }
    }
    told("# ipf -Fa -f this file\nblock in all # ipf -y\n").expect(0);
}

#[test]
fn what_cant_be_kept_is_refused_with_its_place() {
    let alias = told("pass in from (e0:1) to any\n").expect(3);
    assert!(alias.err.contains("r:1:18"), "{alias:?}");
    told("pass in from (e0:0) to any\n").expect(0);
    let twice = told("pass in on e0 on e1 all\n").expect(1);
    assert!(twice.err.contains("`on` twice"), "{twice:?}");

    let folder = Folder::new();
    folder.file("r", "block in quick from pool/1 to any\n");
    let table = |entry: &str| format!("table role = ipf type = tree number = 1 {{ {entry}; }};\n");
    for entry in ["http://foo/x", "\"http://foo/x\""] {
        folder.file("p", &table(entry));
        let run = folder.weir(&["check", "p", "r"]).expect(3);
        assert!(
            run.err.contains("p:1:43") && run.err.contains("file:///"),
            "{run:?}"
        );
        folder.weir(&["ippool", "-nf", "p"]).expect(3);
        folder.weir(&["ipftest", "-P", "p", "-r", "r"]).expect(3);
    }
    let missing = folder.weir(&["show", "r"]).expect(2);
    assert!(missing.err.contains("ipftest: with -P"), "{missing:?}");
}

#[test]
fn tables_that_are_missing_are_told_at_their_word() {
    for (rule, place) in [
        ("block in quick from pool/nosuch to any\n", "r:1:21"),
        ("block in quick from any to hash/7\n", "r:1:28"),
        ("block in quick from pool / 7 to any\n", "r:1:1"),
        ("block in quick from pool/12 to pool/1\n", "r:1:32"),
    ] {
        let run = told(rule).expect(1);
        assert!(run.err.contains(place), "{run:?}");
    }
}

#[test]
fn tables_and_rules_printed_together_are_input() {
    let folder = Folder::new();
    folder.file(
        "r",
        "set min_ttl 9;\nblock in quick from pool/1 to any\npass in all\n",
    );
    folder.file(
        "p",
        "table role = ipf type = tree number = 1 { 10.0.0.0/8; !10.1.0.0/16; };\n",
    );
    let shown = folder.weir(&["show", "p", "r"]).expect(0).out;
    folder.file("both", &shown);
    assert_eq!(folder.weir(&["show", "both"]).expect(0).out, shown);
    let checked = folder.weir(&["check", "both"]).expect(0).out;
    assert!(
        checked.contains("2 rules") && checked.contains("1 table"),
        "{checked}"
    );
    folder.file("wrong", &format!("{shown}pass in frm any\n"));
    let line = shown.lines().count() + 1;
    let wrong = folder.weir(&["check", "wrong"]).expect(1).err;
    assert!(wrong.contains(&format!("wrong:{line}:9")), "{wrong}");
}

#[test]
fn interfaces_of_another_system_are_named_and_told() {
    let folder = Folder::new();
    folder.file("r", "block in on lan0 all\npass out on lan0 all\n");
    let named = "block in on lo all\npass out on lo all\n";
    let ipf = folder.weir(&["ipf", "--interface", "lan0=lo", "-nvf", "r"]);
    assert_eq!(ipf.expect(0).out, named);
    let stat = folder.weir(&["ipfstat", "--interface", "lan0=lo", "-i", "r"]);
    assert_eq!(stat.expect(0).out, "block in on lo all\n");
    folder.file("packets", "in on lo udp 1.1.1.1,1 2.2.2.2,2\n");
    let test = ["ipftest", "-b", "-r", "r", "-i", "packets"];
    assert_eq!(folder.weir(&test).expect(0).out, "nomatch\n");
    let test = [&test[..], &["--interface", "lan0=lo"]].concat();
    assert_eq!(folder.weir(&test).expect(0).out, "block\n");

    if weir_plane::kernel_or_skip("interfaces_of_another_system").is_none() {
        return;
    }
    let netns = Namespace::new("names");
    let ipf = ["ipf", "--netns", netns.0.as_str(), "-Fa", "-f", "r"];
    let run = folder.weir(&ipf).expect(0);
    assert!(
        run.err.contains("no interface here is called `lan0`"),
        "{run:?}"
    );
    let named = [&ipf[..], &["--interface", "lan0=lo"]].concat();
    let run = folder.weir(&named).expect(0);
    assert!(!run.err.contains("no interface"), "{run:?}");
    let list = folder.weir(&["ipfstat", "--netns", netns.0.as_str(), "-i"]);
    assert_eq!(list.expect(0).out, "block in on lo all\n");
}

#[test]
fn packets_of_a_capture_are_counted_in_both_forms() {
    let folder = Folder::new();
    folder.file("r", "block in log proto udp all\npass in proto tcp all\n");
    let shot = |bytes| Shot {
        interface: 0,
        time_ms: 1_000,
        way: 1,
        comment: None,
        bytes,
    };
    let ends = (([1, 1, 1, 1], 1), ([2, 2, 2, 2], 2));
    let shots = [
        shot(udp(ends.0, ends.1)),
        shot(tcp(ends.0, ends.1, 2, (1, 0))),
        shot(udp(ends.0, ends.1)),
    ];
    pcapng(&folder.0.join("c"), &["e0"], &shots);
    let stat = |args: &[&str]| {
        let args = [&["ipfstat", "--packets", "c"], args, &["r"]].concat();
        folder.weir(&args).expect(0).out
    };
    let new = stat(&[]);
    let value = |label: &str| {
        let label = format!("\t{label}");
        let line = new.lines().find(|line| line.ends_with(&label));
        let value = line
            .unwrap_or_else(|| panic!("{label}: {new}"))
            .split('\t')
            .next();
        value.unwrap().parse::<u64>().unwrap()
    };
    let (blocked, passed) = (
        value("input packets blocked"),
        value("input packets passed"),
    );
    assert_eq!((blocked, passed), (2, 1), "{new}");
    assert_eq!(value("input block reason filter-rule"), blocked);
    assert_eq!(value("output block reason natv6_in-fail"), 0);
    assert_eq!(value("packets logged"), blocked);
    assert!(
        new.ends_with("0\tIPF Ticks\nPacket log flags set:\n\tnone\n"),
        "{new}"
    );
    let old = stat(&["--old-form"]);
    let line = format!(" input packets:\t\tblocked {blocked} passed {passed} nomatch 0 ");
    assert!(old.contains(&line), "{old}");
    assert!(
        old.contains(&format!(" packets logged:\tinput {blocked} output 0\n")),
        "{old}"
    );
    assert!(old.starts_with("bad packets:\t\tin 0\tout 0\n"), "{old}");
    assert_eq!(stat(&["--dialect", "hpux"]), old);
}

#[test]
fn junk_in_packets_is_told() {
    let folder = Folder::new();
    folder.file("r", "pass in all\nblock in all with bcast\n");
    let test = |format: &str, packets: &str| {
        folder.file("packets", packets);
        folder.weir(&["ipftest", "-b", "-r", "r", "-F", format, "-i", "packets"])
    };
    let right = "in tcp 1.1.1.1,1 2.2.2.2,2 S seq=1 ack=2 opt rr";
    for (junk, word) in [
        ("S zork", "zork"),
        ("S seq=x", "seq=x"),
        ("S ack=1x", "ack=1x"),
    ] {
        let run = test(
            "text",
            &format!("in tcp 1.1.1.1,1 2.2.2.2,2 {junk}\n{right}\n"),
        );
        assert!(run.err.contains(&format!("`{word}`")), "{run:?}");
        // The original judges such a packet.
        assert_eq!(run.expect(0).out, "pass\npass\n");
    }
    assert_eq!(test("text", right).expect(0).out, "pass\n");
    let header = "4500 0014 0000 0000 3f00 7dd8 0101 0101 0202 0202";
    assert_eq!(
        test("hex", &format!("[in,e1] +bcast {header}\n"))
            .expect(0)
            .out,
        "block\n"
    );
    assert_eq!(
        test("hex", &format!("[in,e1]+bcast {header}\n"))
            .expect(0)
            .out,
        "block\n"
    );
    let run = test("hex", &format!("[in,e1] {header} zork\n")).expect(0);
    assert!(run.err.contains("`z`"), "{run:?}");
}

#[test]
fn discovery_is_of_ipv6s_own_icmp() {
    let folder = Folder::new();
    folder.file("ipf6.conf", "block in all\n");
    let convert = [
        "convert",
        "--dialect",
        "hpux",
        "ipf6.conf",
        "--to",
        "iptables",
    ];
    let args = [&convert[..], &["--family", "ipv6", "--host"]].concat();
    let run = folder.weir(&args).expect(0);
    assert!(
        run.out.contains("-p ipv6-icmp -m icmp6 --icmpv6-type 133"),
        "{run:?}"
    );
    assert!(!run.out.contains("-p icmp "), "{run:?}");
}

#[test]
fn ports_without_their_sign_are_told() {
    let wrong = told("block in proto tcp from any port 80 to any\n")
        .expect(1)
        .err;
    assert!(wrong.contains("one port alone is `port = 80`"), "{wrong}");
}

#[test]
fn files_of_hpux_are_known_by_their_words() {
    let folder = Folder::new();
    folder.file(
        "r",
        "pass in quick proto tcp from any to any port = 80 keep limit 1\n",
    );
    folder.file(
        "packets",
        "in tcp 10.0.0.1,1 10.0.0.2,80 S\nin tcp 10.0.0.1,2 10.0.0.2,80 S\n",
    );
    let printed = folder.weir(&["ipf", "-nvf", "r"]).expect(0).out;
    assert_eq!(
        printed,
        "pass in quick proto tcp from any to any port = 80 keep limit 1\n"
    );
    let test = ["ipftest", "-b", "-r", "r", "-i", "packets"];
    assert_eq!(folder.weir(&test).expect(0).out, "pass\nblock\n");
    // Said otherwise, they are none.
    folder
        .weir(&["ipf", "--dialect", "ipf", "-nvf", "r"])
        .expect(2);
}

#[test]
fn tables_of_translation_are_none_of_the_filters() {
    let folder = Folder::new();
    let table =
        |role: &str| format!("table role = {role} type = tree number = 1 {{ 10.0.0.0/8; }};\n");
    folder.file("r", "pass in all\nblock in quick from pool/1 to any\n");
    folder.file("packet", "in tcp 10.1.1.1,9 1.1.1.1,22 S\n");
    let test = ["ipftest", "-b", "-P", "p", "-r", "r", "-i", "packet"];
    for role in ["ipf", "all"] {
        folder.file("p", &table(role));
        folder.weir(&["check", "p", "r"]).expect(0);
        assert_eq!(folder.weir(&test).expect(0).out, "block\n", "{role}");
    }
    for role in ["nat", "auth", "count"] {
        folder.file("p", &table(role));
        for (command, code) in [(&["check", "p", "r"][..], 1), (&test, 2)] {
            let err = folder.weir(command).expect(code).err;
            assert!(err.contains(" --> r:2:21\n"), "{err}");
            assert!(err.contains(&format!("that of `role = {role}` is not for filter rules")));
        }
    }
    // Of two of one number, the filter's own is asked.
    let other = table("nat").replace("10.", "11.");
    folder.file("p", &format!("{}{other}", table("ipf")));
    assert_eq!(folder.weir(&test).expect(0).out, "block\n");
}

#[test]
fn programs_are_printed_and_not_run() {
    let folder = Folder::new();
    folder.file(
        "r",
        "pass  in quick on e0 bpf-v4 {  \"6 0 0 96\" } keep state\nblock in bpf-v6 {\"ip6\"}\n",
    );
    let shown = folder.weir(&["show", "r"]).expect(0);
    let canonical = "pass in quick on e0 inet bpf-v4 { \"6 0 0 96\" } keep state\n\
         block in inet6 bpf-v6 { \"ip6\" }\n";
    assert_eq!(shown.out, canonical);
    assert!(
        shown.err.contains("warning") && shown.err.contains("programs are not run"),
        "{shown:?}"
    );
    folder.file("again", canonical);
    assert_eq!(folder.weir(&["show", "again"]).expect(0).out, canonical);
    folder.weir(&["check", "r"]).expect(3);
}
