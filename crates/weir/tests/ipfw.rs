//! The ipfw language at the command line: check, show, explain, replay, the recorder, the tool.
//!
//! What rules mean is tested by the vectors of `weir-policy`; here it is whether the program hands
//! them captures, facts and clocks rightly.

mod common;

use common::{Folder, Shot, icmp, pcapng, tcp, udp};

const RULES: &str = "\
add 100 allow ip from any to any via lo0
add 200 check-state
add 300 allow udp from me to any 53 out xmit em0 keep-state
add 400 count log icmp from any to any
add 500 reject icmp from any to any icmptypes 8 in
add 600 allow tcp from any to me 22 in recv em0 setup
add 700 allow tcp from any to any recv em1
";

const HOST: [u8; 4] = [192, 0, 2, 1];
const PEER: [u8; 4] = [198, 51, 100, 7];
const SYN: u8 = 2;
const START: u64 = 1_700_000_000_000;

fn shot(interface: u32, after_ms: u64, way: u32, bytes: Vec<u8>) -> Shot {
    Shot {
        interface,
        time_ms: START + after_ms,
        way,
        comment: None,
        bytes,
    }
}

/// Verdict, rule and trail of each packet.
fn told(records: &[serde_json::Value]) -> Vec<(String, Option<u64>, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or("-").to_owned();
    records
        .iter()
        .map(|one| {
            let rule = one["rule"].as_u64();
            (text(&one["verdict"]), rule, one["trail"].to_string())
        })
        .collect()
}

#[test]
fn captures_meet_the_rules() {
    let folder = Folder::new();
    folder.file("rules", RULES);
    let query = udp((HOST, 999), (PEER, 53));
    let answer = udp((PEER, 53), (HOST, 999));
    let login = tcp((PEER, 5), (HOST, 22), SYN, (1, 0));
    let short = login[..34].to_vec();
    let routed = Shot {
        comment: Some("recv=em1"),
        ..shot(0, 12_002, 2, login.clone())
    };
    let shots = vec![
        shot(0, 0, 1, answer.clone()),
        shot(0, 1, 2, query),
        shot(0, 9_000, 1, answer.clone()),
        shot(0, 12_000, 1, icmp(PEER, HOST, 8, 0, &[])),
        shot(0, 12_001, 1, login.clone()),
        shot(1, 12_001, 2, login),
        routed,
        shot(0, 12_003, 1, short),
        shot(0, 30_000, 1, answer),
    ];
    pcapng(&folder.0.join("capture"), &["em0", "em1"], &shots);
    let facts = ["--local", "em0=192.0.2.1/24"];
    let args = ["replay", "--dialect", "ipfw", "--json", "rules", "capture"];
    let run = folder.weir(&[&args[..], &facts].concat()).expect(0);
    let own = |verdict: &str, rule, trail: &str| (verdict.to_owned(), rule, trail.to_owned());
    let expected = [
        own("drop", Some(65535), "[65535]"),
        own("accept", Some(300), "[300]"),
        own("accept", Some(300), "[300]"),
        own("reject", Some(500), "[400,500]"),
        own("accept", Some(600), "[600]"),
        own("drop", Some(65535), "[65535]"),
        own("accept", Some(700), "[700]"),
        own("drop", None, "[]"),
        own("drop", Some(65535), "[65535]"),
    ];
    let records = run.records();
    assert_eq!(told(&records), expected);
    assert_eq!(records[1]["location"], "rules:3");
    assert_eq!(records[2]["state"], "reverse");
    assert_eq!(
        records[3]["log"][0],
        "ipfw: 400 Count ICMP:8.0 198.51.100.7 192.0.2.1 in via em0"
    );
    // The language is told from the rules too.
    let args = ["replay", "rules", "capture", "--quiet"];
    let run = folder.weir(&[&args[..], &facts].concat()).expect(0);
    let count = "00300    2      56 allow udp from me to any 53 out xmit em0";
    let line = run.out.lines().find(|line| line.starts_with("00300"));
    let words = |text: &str| {
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let line = words(line.unwrap());
    assert_eq!(line[0], words(count)[0]);
    assert_eq!(line[1], "2");
}

#[test]
fn errors_about_packets_of_a_state_pass_where_that_is_set() {
    let folder = Folder::new();
    let rules_text = "add 100 check-state\nadd 200 deny icmp from any to any\n\
        add 300 allow udp from any to any out keep-state\nadd 400 deny ip from any to any\n";
    let setting = "# --sysctl weir.dyn_icmp_errors=1\n";
    folder.file("usual", rules_text);
    folder.file("admits", &format!("{setting}{rules_text}"));
    let open = "add 100 check-state\nadd 200 allow ip from any to any keep-state\n";
    folder.file("open", &format!("{setting}{open}"));
    let query = udp((HOST, 999), (PEER, 53));
    let answer = udp((PEER, 53), (HOST, 999));
    let router = [198, 51, 100, 1];
    let error = |about: &[u8], to| icmp(router, to, 3, 3, about);
    let other = udp((HOST, 998), (PEER, 53));
    let shots = vec![
        shot(0, 0, 2, query.clone()),
        // From somebody on the way, and about what the other end sent.
        shot(0, 5_000, 1, error(&query[..28], HOST)),
        shot(0, 5_001, 2, error(&answer[..28], PEER)),
        // About another flow, cut short, and no error.
        shot(0, 5_002, 1, error(&other[..28], HOST)),
        shot(0, 5_003, 1, error(&query[..24], HOST)),
        shot(0, 5_004, 1, icmp(router, HOST, 8, 0, &query[..28])),
        // The errors refreshed nothing: ten seconds after the query its state is over.
        shot(0, 9_000, 1, error(&query[..28], HOST)),
        shot(0, 10_500, 1, error(&query[..28], HOST)),
    ];
    pcapng(&folder.0.join("capture"), &["em0"], &shots);
    let rules = |file: &str| -> Vec<u64> {
        let args = ["replay", "--dialect", "ipfw", "--json", file, "capture"];
        let records = folder.weir(&args).expect(0).records();
        records
            .iter()
            .map(|one| one["rule"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(rules("usual"), [300, 200, 200, 200, 200, 200, 200, 200]);
    assert_eq!(rules("admits"), [300, 300, 300, 200, 200, 200, 300, 200]);
    let shown = folder.weir(&["show", "admits"]).expect(0).out;
    assert!(shown.starts_with(setting), "{shown}");
    // Errors about packets of states are what differs, and what a conversion keeps.
    let run = folder.weir(&["diff", "usual", "admits", "--no-forwarding"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    let told = "quoting a packet of a state (keep-state :default; its packets: accept)";
    assert!(
        run.out
            .contains("newly accepted: protocol icmp, ICMP type 3-5"),
        "{run:?}"
    );
    assert!(run.out.contains(told), "{run:?}");
    folder.file(
        "same",
        &format!("{setting}{}", rules_text.replace("udp", "17")),
    );
    folder.weir(&["diff", "same", "admits"]).expect(0);
    folder.weir(&["check", "--unreachable", "admits"]).expect(0);
    let tracked = ["--to", "iptables", "--host", "--states=tracked"];
    let run = folder
        .weir(&[&["convert", "open", "--family", "ipv4"][..], &tracked].concat())
        .expect(0);
    assert!(run.out.contains("ESTABLISHED,RELATED"), "{run:?}");
}

#[test]
fn listings_read_back_and_single_commands_are_checked() {
    let folder = Folder::new();
    folder.file("rules", RULES);
    let shown = folder
        .weir(&["show", "--dialect", "ipfw", "rules"])
        .expect(0);
    assert!(
        shown
            .out
            .starts_with("00100 allow ip from any to any via lo0\n")
    );
    folder.file("again", &shown.out);
    let again = folder.weir(&["show", "again"]).expect(0);
    assert_eq!(shown.out, again.out);

    folder.file("one", "add deny tcp from any to any nosuchport\n");
    let bad = folder
        .weir(&["check", "--dialect", "ipfw", "one"])
        .expect(1);
    let all = bad.out + &bad.err;
    assert!(all.contains("one:1:30"), "{all}");
    assert!(all.contains("(ipfw exit status 64)"), "{all}");

    folder.file("divert", "add divert natd ip from any to any via em0\n");
    let bad = folder
        .weir(&["check", "--dialect", "ipfw", "divert"])
        .expect(3);
    assert!((bad.out + &bad.err).contains("divert:1:"));
}

#[test]
fn owners_keep_their_names_and_short_addresses_are_warned_of() {
    let folder = Folder::new();
    let rules = "add 10 allow tcp from me to any out uid root gid 0\n\
                 add 20 allow ip from 10.0.0/24 to 10/8,192.0.2.1\n\
                 add 30 allow ip from 10.0.0 to any\n";
    folder.file("r.ipfw", rules);
    let shown = folder.weir(&["show", "r.ipfw"]).expect(0).out;
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(
        lines[0],
        "00010 allow tcp from me to any out uid root gid 0"
    );
    assert!(lines[2].contains(" from 10.0.0.0 to any"), "{shown}");
    let checked = folder.weir(&["check", "r.ipfw"]).expect(0).err;
    let warned = checked.matches("warning[few-numbers]").count();
    assert_eq!(warned, 2, "{checked}");
    assert!(
        checked.contains("`10` is 0.0.0.10\n --> r.ipfw:2:35"),
        "{checked}"
    );
    assert!(
        checked.contains("`10.0.0` is 10.0.0.0\n --> r.ipfw:3:22"),
        "{checked}"
    );
}

#[test]
fn explanations_name_the_rule() {
    let folder = Folder::new();
    folder.file("rules", RULES);
    let packet = "in=em0 tcp 198.51.100.7:5 > 192.0.2.1:22 syn";
    let local = ["--local", "em0=192.0.2.1/24"];
    let args = ["explain", "--dialect", "ipfw", "rules", packet, "--json"];
    let run = folder.weir(&[&args[..], &local].concat()).expect(0);
    assert_eq!(run.json()["rule"], 600, "{}", run.out);
    assert_eq!(run.json()["verdict"], "accept");
}

const SCRIPT: &str = r#"#!/bin/sh
. /etc/rc.subr
fw="/sbin/ipfw -q"
$fw -f flush
kldstat -q -m ipfw || kldload ipfw
ip=$(ifconfig em0 inet | awk '/inet/ { print $2 }')
sysctl net.inet.ip.fw.dyn_udp_lifetime=20
[ "$(sysctl net.inet.ip.fw | grep lifetime=20 | wc -l)" -eq 0 ] || exit 7
[ "$(sysctl net.inet.ip.fw | grep dyn_udp_lifetime)" = \
    "net.inet.ip.fw.dyn_udp_lifetime: 20" ] || exit 7
[ "$(sysctl -n net.inet.ip.fw. | wc -l)" -ge 15 ] || exit 8
sysctl net.inet.ip.fw 2>/dev/null | grep -q ether && exit 8
sysctl net.fibs=2 weir.established_strict=1
enabled=YES
checkyesno enabled && $fw add 100 allow tcp from $ip to any setup keep-state
for net in 1 2 3; do $fw add deny ip from 10.$net.0.0/16 to any; done
ipfw table T create type addr
ipfw table T add 10.0.0.0/8 7
[ "$(ipfw list | wc -l)" -eq 5 ] || exit 9
[ "$(ipfw table T list)" = "10.0.0.0/8 7" ] || exit 10
[ "$0 $1" = "./fw.sh start" ] || exit 11
ipfw -q /dev/stdin <<EOF
add 900 count ip from any to any // from a text
EOF
ipfw zero 4444 2>/dev/null
[ $? -eq 69 ] || exit 12
"#;

#[test]
fn scripts_are_recorded() {
    let folder = Folder::new();
    folder.file("fw.sh", SCRIPT);
    let unrecorded = folder
        .weir(&["check", "--dialect", "ipfw", "fw.sh"])
        .expect(2);
    assert!(unrecorded.err.contains("weir ipfw-record"));
    // Without a first line that says so, and without the name of the language.
    for (name, text) in [
        (
            "variable",
            "fwcmd=\"/sbin/ipfw -q\"\n$fwcmd add 100 allow ip from any to any\n",
        ),
        (
            "plain",
            "# a list\nipfw -q flush\nipfw add 100 allow ip from any to any\n",
        ),
        ("path", "/sbin/ipfw add 100 allow ip from any to any\n"),
    ] {
        folder.file(name, text);
        for args in [&["check", name][..], &["check", "--dialect", "ipfw", name]] {
            let hint = format!("`weir ipfw-record {name}`");
            assert!(folder.weir(args).expect(2).err.contains(&hint), "{args:?}");
        }
    }
    folder.file(
        "wrong",
        "add 100 alow ip from any to any // not for ipfw at all\n",
    );
    let wrong = folder
        .weir(&["check", "--dialect", "ipfw", "wrong"])
        .expect(1);
    assert!(!wrong.err.contains("ipfw-record"), "{}", wrong.err);
    let local = ["--local", "em0=192.0.2.1/24"];
    let args = ["ipfw-record", "--json"];
    let run = folder.weir(&[&args[..], &local, &["./fw.sh", "start"]].concat());
    let run = run.expect(0);
    let json = run.json();
    assert_eq!(json["status"], 0, "{}", run.err);
    assert_eq!(json["failed"], 0);
    let expected = "\
# --sysctl net.inet.ip.fw.dyn_udp_lifetime=20
# --sysctl weir.established_strict=1
# --sysctl net.fibs=2
table T create type addr
table T add 10.0.0.0/8 7
00100 allow tcp from 192.0.2.1 to any setup keep-state :default
00200 deny ip from 10.1.0.0/16 to any
00300 deny ip from 10.2.0.0/16 to any
00400 deny ip from 10.3.0.0/16 to any
00900 count ip from any to any // from a text
";
    assert_eq!(json["rules"], expected);
    folder.file("rules", expected);
    folder
        .weir(&["check", "--dialect", "ipfw", "rules"])
        .expect(0);
}

#[test]
fn a_wrong_call_gives_no_rules() {
    let folder = Folder::new();
    folder.file(
        "fw.sh",
        "ipfw add allow ip from any\nipfw add 5 pass ip from any to any\n",
    );
    let run = folder.weir(&["ipfw-record", "fw.sh"]).expect(1);
    assert_eq!(run.out, "");
    assert!(run.err.contains("fw.sh: call 1"), "{}", run.err);
    let run = folder
        .weir(&["ipfw-record", "--per-command", "fw.sh"])
        .expect(0);
    assert_eq!(run.out, "00005 allow ip from any to any\n");
    folder.file("slow.sh", "sleep 30\n");
    let run = folder
        .weir(&["ipfw-record", "--timeout", "1", "slow.sh"])
        .expect(1);
    assert!(run.err.contains("ended after 1 s"), "{}", run.err);
}

#[test]
fn the_tool_works_on_a_saved_rule_set() {
    let folder = Folder::new();
    folder.file(
        "rules",
        "00100 5 300 allow udp from any to any\n00200 deny ip from any to any\n",
    );
    let ipfw = |words: &[&str]| folder.weir(&[&["ipfw", "--rules", "rules"], words].concat());
    let run = ipfw(&["-a", "list", "100"]).expect(0);
    assert_eq!(run.out, "00100 5 300 allow udp from any to any\n");
    ipfw(&["zero", "9"]).expect(69);
    ipfw(&["add", "allow", "ip"]).expect(64);
    ipfw(&["zero", "101-199"]).expect(69);
    ipfw(&["zero", "200-100"]).expect(65);
    ipfw(&["zero", "set", "32"]).expect(65);
    ipfw(&["resetlog", "set"]).expect(64);
    let run = ipfw(&["zero", "50-200"]).expect(0);
    assert_eq!(run.out, "Entry 100 cleared.\nEntry 200 cleared.\n");
    let run = ipfw(&["delete", "200"]).expect(0);
    assert!(run.err.contains("--write"));
    assert_eq!(
        ipfw(&["list", "200"]).expect(0).out,
        "00200 deny ip from any to any\n"
    );
    let write = |words: &[&str]| {
        folder
            .weir(&[&["ipfw", "--rules", "rules", "--write"], words].concat())
            .expect(0)
    };
    write(&["delete", "200"]);
    write(&[
        "-q", "add", "150", "set", "3", "count", "ip", "from", "any", "to", "any",
    ]);
    write(&["set", "disable", "3"]);
    let run = ipfw(&["-S", "-a", "list"]).expect(0);
    let expected = "\
00100 5 300 set 0 allow udp from any to any
# DISABLED 00150 0   0 set 3 count ip from any to any
65535 0   0 set 31 deny ip from any to any
";
    assert_eq!(run.out, expected);
    let counted = || ipfw(&["-a", "list", "100"]).expect(0).out;
    assert_eq!(
        write(&["zero", "set", "3", "4"]).out,
        "Accounting cleared.\n"
    );
    assert!(counted().starts_with("00100 5 300 "), "{}", counted());
    assert_eq!(write(&["resetlog", "1-200"]).out.lines().count(), 2);
    assert!(counted().starts_with("00100 5 300 "), "{}", counted());
    write(&["zero", "set", "0"]);
    assert!(counted().starts_with("00100 0 0 "), "{}", counted());
}

#[test]
fn a_command_can_stand_for_a_file_and_what_is_not_enforced_is_told() {
    let folder = Folder::new();
    let command = "add 10 pass tcp from any to me 22,80 setup";
    let run = folder
        .weir(&["show", "--dialect", "ipfw", command])
        .expect(0);
    assert_eq!(run.out, "00010 allow tcp from any to me 22,80 setup\n");
    folder
        .weir(&[
            "check",
            "--dialect",
            "ipfw",
            "add 10 pas ip from any to any",
        ])
        .expect(1);
    folder.file("rules", RULES);
    let enforceable = |file: &str| {
        let run = folder.weir(&["check", "--json", "--dialect", "ipfw", file]);
        run.expect(0).json()["enforceable"].clone()
    };
    assert_eq!(enforceable("rules"), true);
    folder.file(
        "shaped",
        "pipe 1 config bw 1Mbit/s\nadd pipe 1 ip from any to any\n",
    );
    assert_eq!(enforceable("shaped"), true);
    folder.file(
        "shaped",
        "pipe 1 config delay 10\nadd pipe 1 ip from any to any\n",
    );
    assert_eq!(enforceable("shaped"), false);
}

#[test]
fn files_of_commands_go_through_their_preprocessor() {
    let folder = Folder::new();
    folder.file("rules", "add 100 allow ip from any to any\n");
    folder.file("more", "# first\n\nadd NUMBER deny udp from any to any\n");
    let more = folder.0.join("more").display().to_string();
    let fixed = ["ipfw", "--rules", "rules", "--write"];
    let call = |words: &[&str]| folder.weir(&[&fixed[..], words].concat());
    // What stands in front of the file stands for each of its lines.
    let run = call(&["-n", "-p", "sed", "s/NUMBER/50/", &more]).expect(0);
    assert_eq!(run.out, "00050 deny udp from any to any\n");
    call(&["list", "50"]).expect(69);
    let run = call(&["-q", "-p", "sed", "s/NUMBER/50/", &more]).expect(0);
    assert_eq!(run.out, "");
    assert_eq!(
        call(&["list", "50"]).expect(0).out,
        "00050 deny udp from any to any\n"
    );
    let wrong = call(&["-q", &more]);
    assert_ne!(wrong.code, Some(0), "{}", wrong.err);
    assert!(wrong.err.contains("more:3:5"), "{}", wrong.err);
    let failed = call(&["-p", "false", &more]).expect(2);
    assert!(
        failed.err.contains("preprocessor false ended"),
        "{}",
        failed.err
    );
}

#[test]
fn pipes_print_as_commands_that_make_them() {
    let folder = Folder::new();
    // A queue management takes all words behind it, and so do some schedulers.
    for (text, shown) in [
        (
            "sched 1 config pipe 1 type fq_codel quantum 300\nsched 1 config pie target 5\n",
            "sched 1 config type fq_codel quantum 300\nsched 1 config pipe 1 pie target 5\n",
        ),
        (
            "sched 1 config pipe 1 type rr\nsched 1 config codel target 5\n",
            "sched 1 config type rr\nsched 1 config pipe 1 codel target 5\n",
        ),
        (
            "pipe 1 config bw 2MByte/s red 0.1/5/9/0.5\n",
            "pipe 1 config bw 16000000bit/s red 0.1/5/9/0.5\n",
        ),
    ] {
        folder.file("rules", text);
        let args = ["show", "--dialect", "ipfw", "rules"];
        assert_eq!(folder.weir(&args).expect(0).out, shown);
        folder.file("rules", shown);
        assert_eq!(folder.weir(&args).expect(0).out, shown);
    }
}

#[test]
fn what_a_table_refuses_says_what_to_do() {
    let folder = Folder::new();
    folder.file(
        "tables",
        "table t create type addr limit 1\ntable t add 192.0.2.1\n\
         table l create type addr\ntable l lock\n",
    );
    for (command, help) in [
        ("table t add 192.0.2.1", "-q updates entries that exist"),
        ("table t add 192.0.2.2", "table NAME modify limit NUMBER"),
        (
            "table t delete 192.0.2.3",
            "see table NAME list; -q passes over it",
        ),
        ("table l add 192.0.2.1", "table NAME unlock"),
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        let run = folder.weir(&[&["ipfw", "--rules", "tables"], &words[..]].concat());
        let run = run.expect(71);
        assert!(run.err.contains(help), "{command}: {}", run.err);
    }
}

#[test]
fn how_a_recorded_script_ended_is_told() {
    let folder = Folder::new();
    for (end, status, rules) in [
        ("true", 0, true),
        ("false", 1, true),
        ("kill -9 $$", 1, false),
    ] {
        let text = format!("ipfw -q add 100 allow ip from any to any\n{end}\n");
        folder.file("script", &text);
        let run = folder.weir(&["ipfw-record", "script"]).expect(status);
        let given = run.out.contains("00100 allow ip from any to any\n");
        assert_eq!(given, rules, "{end}: {}", run.out);
        let args = ["ipfw-record", "--per-command", "script"];
        let run = folder.weir(&args).expect(0);
        assert!(run.out.contains("00100 allow"), "{end}: {}", run.out);
    }
}

/// Ways of calling ipfw that scripts for FreeBSD and macOS have.
#[test]
fn scripts_call_through_folders_sudo_and_tests_of_freebsd() {
    let folder = Folder::new();
    let text = "bin=/sbin\n$bin/ipfw -q add 10 allow ip from any to any via lo0\n\
                sudo -n ipfw -q add 20 check-state all from any to any\n\
                if [ x\"$1\" == x\"in\" ]; then ipfw -q add 30 deny udp from any to me; fi\n\
                kldstat -q -m dummynet || ipfw -q add 40 count ip from any to any\n";
    folder.file("script", text);
    let run = folder.weir(&["ipfw-record", "script", "in"]).expect(0);
    let expected = "00010 allow ip from any to any via lo0\n00020 check-state :default\n\
                    00030 deny udp from any to me\n00040 count ip from any to any\n";
    assert_eq!(run.out, expected, "{}", run.err);
    assert!(run.err.contains("check-state takes no body"), "{}", run.err);
    assert!(!run.err.contains("kldstat"), "{}", run.err);
}
