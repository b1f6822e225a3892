//! What `weir ipftest` and its siblings print, to the byte.

mod common;

use common::Folder;
use std::fs;
use std::process::{Command, Stdio};

/// Runs the program in a folder; gives exit code and standard output.
fn weir(folder: &Folder, arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let done = command
        .current_dir(&folder.0)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    (done.status.code().unwrap_or(-1), text)
}

fn folder(rules: &str, packets: &str) -> Folder {
    let folder = Folder::new();
    fs::write(folder.0.join("r"), rules).unwrap();
    fs::write(folder.0.join("i"), packets).unwrap();
    folder
}

fn printed(rules: &str, packets: &str, arguments: &[&str]) -> String {
    let folder = folder(rules, packets);
    let (code, text) = weir(&folder, arguments);
    assert_eq!(code, 0, "{arguments:?}: {text}");
    text
}

const TCP: &str = "in on e0 tcp 10.0.0.1,1024 10.0.0.2,80 SA\n";

#[test]
fn brief_is_a_word_a_line() {
    for arguments in [
        &["ipftest", "-br", "r", "-i", "i"][..],
        &["ipftest", "-b", "-r", "r", "-i", "i", "-F", "text"],
        &["ipftest", "-Rbr", "r", "-ii"],
        &["ipftest", "-b", "-rr", "-F", "TEXT", "-ii"],
    ] {
        assert_eq!(
            printed("pass in all\n", TCP, arguments),
            "pass\n",
            "{arguments:?}"
        );
    }
}

#[test]
fn packets_follow_their_verdict() {
    let text = printed(
        "block return-rst in proto tcp all\n",
        "in on e0 tcp 10.0.0.1,1024 10.0.0.2,80 FSRPAUEC\nout udp 1.2.3.4,5 6.7.8.9,10\n\
         in icmp 1.1.1.1 2.2.2.2 echo opt rr\nin6 on e1 udp 2001:db8::1,5 ::1,6\n",
        &["ipftest", "-r", "r", "-i", "i"],
    );
    let wanted = "block return-rst < e0 ip #0 40(20) 6 10.0.0.1,1024 > 10.0.0.2,80 FSRPAUEC\n\
                  --------------\n\
                  nomatch > anon0 ip #0 28(20) 17 1.2.3.4,5 > 6.7.8.9,10\n\
                  --------------\n\
                  nomatch < anon0 ip #0 60(32) 1 1.1.1.1 > 2.2.2.2\n\
                  --------------\n\
                  nomatch < e1 ip6/0 8 0 17 2001:db8:0:0:0:0:0:1,5 > 0:0:0:0:0:0:0:1,6\n\
                  --------------\n";
    assert_eq!(text, wanted);
}

#[test]
fn fragments_show_their_offset() {
    let hex = "[in,e0]\n4500 001c 0007 0003 4011 0000 0a00 0001 0a00 0002\n0000 0000 0000 0000\n\n";
    let text = printed(
        "pass in all\n",
        hex,
        &["ipftest", "-rr", "-F", "hex", "-i", "i"],
    );
    assert_eq!(
        text,
        "pass < e0 ip #7 28(20) 17 @24 10.0.0.1 > 10.0.0.2\n--------------\n"
    );
}

#[test]
fn hexadecimal_output_has_groups_of_four() {
    let hex = "4500 0018 0000 0000 4084 0000 0a00 0001 0a00 0002 0102 03ff\n\n";
    let text = printed(
        "pass in all\n",
        hex,
        &["ipftest", "-x", "-rr", "-F", "hex", "-i", "i"],
    );
    let wanted = "pass 4500 0018 0000 0000 4084 0000 0a00 0001 0a00 0002 0102 03ff \n\n\
                  --------------\n";
    assert_eq!(text, wanted);
}

#[test]
fn rerouted_packets_come_first() {
    let rules = "pass in on e0 to e1:10.0.0.9 dup-to e2 proto tcp all\n";
    let text = printed(rules, TCP, &["ipftest", "-b", "-rr", "-ii"]);
    let wanted = "> e2 ip #0 40(20) 6 10.0.0.1,1024 > 10.0.0.2,80 SA\n\
                  > e1:10.0.0.9 ip #0 40(20) 6 10.0.0.1,1024 > 10.0.0.2,80 SA\n\
                  pass\n";
    assert_eq!(text, wanted);
}

#[test]
fn lines_that_cannot_be_read_are_left_out() {
    let packets = "# nothing\n\nfoo\nin\nin on\nin tcp 1.1.1.1 2.2.2.2\nin udp 1.1.1.1,1\n\
                   in udp 1.1.1.1,x 2.2.2.2,2\n   \nin 1.1.1.1 2.2.2.2 # fine\n";
    assert_eq!(
        printed("pass in all\n", packets, &["ipftest", "-br", "r", "-ii"]),
        "pass\n"
    );
}

#[test]
fn what_is_not_there_is_refused() {
    let folder = folder("pass in all\n", TCP);
    fs::write(folder.0.join("n"), "map e0 10.0.0.0/8 -> 0/32\n").unwrap();
    for (arguments, code) in [
        (&["ipftest", "-b", "-i", "i"][..], 2),
        (&["ipftest", "-b", "-N", "n", "-i", "i"], 3),
        (&["ipftest", "-br", "r", "-F", "tcpdump", "-i", "i"], 2),
        (&["ipftest", "-br", "r", "-F", "snoop", "-i", "i"], 2),
        (&["ipftest", "-br", "none", "-i", "i"], 2),
        (&["ipftest", "-br", "r", "-i", "none"], 2),
        (&["ipftest", "-br", "r", "-i", "i", "-T", "nosuch=1"], 2),
        (&["ipftest", "-br", "r", "-F", "etherfind", "-i", "i"], 2),
        (&["ipf", "-l", "pass", "-f", "r"], 3),
        (&["ipf", "-FS"], 3),
        (&["ipf"], 2),
        (&["ipnat", "-f", "n"], 3),
        (&["ipnat", "-nf", "n"], 0),
        (&["ipnat", "-CF"], 0),
        (&["ipnat", "-CFf", "n"], 3),
        (&["ipnat"], 2),
        (&["ippool", "-nf", "r"], 2),
        (&["ippool", "-la", "-i", "1.1.1.1"], 2),
        (&["ippool", "-a"], 2),
        (&["ipmon", "-D"], 2),
        (&["ipmon", "-L", "nobody", "-f", "i"], 2),
        (&["check", "n"], 3),
        (&["check", "r"], 0),
    ] {
        let (found, text) = weir(&folder, arguments);
        assert_eq!(found, code, "{arguments:?}: {text}");
    }
}

#[test]
fn rules_are_printed_as_loaded() {
    let rules = "i=\"nosuch0\";\npass in quick on $i proto tcp from { 1.1.1.1, 2.2.2.2 } to any \
                 flags S keep state\nblock in all\nblock in all\n";
    let wanted = "pass in quick on nosuch0(!) inet proto tcp from 1.1.1.1/32 to any flags \
                  S/FSRPAU keep state # count 0\n\
                  pass in quick on nosuch0(!) inet proto tcp from 2.2.2.2/32 to any flags \
                  S/FSRPAU keep state # count 0\nblock in all\nblock in all\n";
    let first = printed(rules, "", &["ipf", "-Rnvf", "r"]);
    assert_eq!(first, wanted);
    // What was printed is read again as it is.
    assert_eq!(printed(&first, "", &["ipf", "-nvf", "r"]), wanted);
}

#[test]
fn lists_are_printed_in_their_order() {
    let rules = "pass in all head 1\n200 block in all\n100 pass in proto udp all\n\
                 block in proto tcp all group 1\npass out all\ncount in all\n";
    let text = printed(rules, "", &["ipfstat", "-ionh", "r"]);
    let wanted = "0 @1 pass out all\n0 @1 pass in all head 1\n\
                  0 @2 100 pass in proto udp from any to any\n0 @3 200 block in all\n\
                  # Group 1\n0 @1 block in proto tcp from any to any group 1\n";
    assert_eq!(text, wanted);
    assert_eq!(
        printed(rules, "", &["ipfstat", "-aih", "r"]),
        "0 0 count in all\n"
    );
}

#[test]
fn hits_are_counted_for_every_match() {
    let rules = "pass in all\nblock in proto tcp all\npass in quick proto tcp all\nblock in all\n";
    let text = printed(rules, TCP, &["ipftest", "-b", "-D", "-rr", "-ii"]);
    let wanted = "pass\nstates:\nlimits:\nrules:\n1 pass in all\n\
                  1 block in proto tcp from any to any\n\
                  1 pass in quick proto tcp from any to any\n0 block in all\n";
    assert_eq!(text, wanted);
}

/// What `-l` saves as `ipmon` prints it, without the date.
fn monitored(rules: &str, packets: &str, more: &[&str], options: &[&str]) -> Vec<String> {
    let folder = folder(rules, packets);
    let mut arguments = vec!["ipftest", "-br", "r", "-ii", "-l", "log"];
    arguments.extend(more);
    let (code, text) = weir(&folder, &arguments);
    assert_eq!(code, 0, "{text}");
    let (code, log) = weir(&folder, &[&["ipmon"], options, &["log"]].concat());
    assert_eq!(code, 0, "{log}");
    let undated = |line: &str| {
        line.split_once(' ')
            .unwrap()
            .1
            .split_once(' ')
            .unwrap()
            .1
            .to_owned()
    };
    log.lines().map(undated).collect()
}

fn logged(rules: &str, packets: &str, more: &[&str]) -> Vec<String> {
    monitored(rules, packets, more, &["-f"])
}

#[test]
fn states_and_bodies_are_logged_too() {
    let rules = "pass in log body quick proto tcp all flags S keep state\n\
                 pass in quick proto udp all keep state (nolog)\nblock in log quick all pps 1\n";
    let packets = "in on e0 tcp 10.0.0.1,1024 10.0.0.2,80 S seq=7\n\
                   in on e0 udp 10.0.0.1,1 10.0.0.2,2\nin on e0 icmp 1.1.1.1 2.2.2.2 echo\n\
                   in on e0 icmp 1.1.1.1 2.2.2.2 echo\nout on e0 tcp 10.0.0.2,80 10.0.0.1,1024 RA \
                   ack=8\n";
    let all = monitored(rules, packets, &[], &["-af"]);
    let wanted = [
        "e0 @0:1 p 10.0.0.1,1024 -> 10.0.0.2,80 PR tcp len 20 40 -S K-S IN",
        "e0 @0:3 b 1.1.1.1 -> 2.2.2.2 PR icmp len 20 48 icmp echo/0 IN",
        "e0 @0:3 b 1.1.1.1 -> 2.2.2.2 PR icmp len 20 48 icmp echo/0 IN reason:pps-rate",
        "e0 @0:1 p 10.0.0.2,80 -> 10.0.0.1,1024 PR tcp len 20 40 -AR K-S OUT",
        "STATE:NEW 10.0.0.1,1024 -> 10.0.0.2,80 PR tcp",
        "STATE:FLUSH 10.0.0.1,1024 -> 10.0.0.2,80 PR tcp Forward: Pkts in 1 Bytes in 40 Pkts out \
         0 Bytes out 0 Backward: Pkts in 0 Bytes in 0 Pkts out 1 Bytes out 40",
    ];
    assert_eq!(all, wanted);
    assert_eq!(monitored(rules, packets, &[], &["-f"]), wanted[..4]);
    assert_eq!(monitored(rules, packets, &[], &["-oS", "-f"]), wanted[4..]);
}

#[test]
fn rules_of_group_0_stand_in_the_list() {
    let rules = "block in all\npass in quick proto udp all group 0\npass in all head 0\n";
    let packets = "in udp 1.1.1.1,1 2.2.2.2,2\nin 1.1.1.1 2.2.2.2\n";
    let text = printed(rules, packets, &["ipftest", "-br", "r", "-ii"]);
    assert_eq!(text, "pass\npass\n");
    let wanted = "block in all\npass in quick proto udp from any to any group 0\n\
                  pass in all head 0\n";
    assert_eq!(printed(rules, "", &["ipf", "-nvf", "r"]), wanted);
}

#[test]
fn translation_rules_are_read_and_exceptions_change_nothing() {
    let folder = folder("pass in all\n", TCP);
    fs::write(folder.0.join("n"), "no map e0 from any to 10.0.0.0/8;\n").unwrap();
    let packet = "< e0 ip #0 40(20) 6 10.0.0.1,1024 > 10.0.0.2,80 SA\n";
    let run = |arguments: &[&str]| weir(&folder, arguments);
    let brief = run(&["ipftest", "-br", "r", "-N", "n", "-ii"]);
    assert_eq!(brief, (0, packet.to_owned()));
    let long = run(&["ipftest", "-r", "r", "-N", "n", "-ii"]);
    assert_eq!(long, (0, format!(" {packet}--------------\n")));
    fs::write(folder.0.join("r"), "block in all\n").unwrap();
    let blocked = run(&["ipftest", "-br", "r", "-N", "n", "-ii"]);
    assert_eq!(blocked, (0, "0\n".to_owned()));
    fs::write(folder.0.join("n"), "map e0 10.0.0.0/8 -> nowhere\n").unwrap();
    assert_eq!(run(&["ipftest", "-br", "r", "-N", "n", "-ii"]).0, 2);
    assert_eq!(run(&["ipnat", "-l"]).0, 0);
}

#[test]
fn captures_of_snoop_are_read() {
    let mut frame = vec![0; 12];
    frame.extend([8, 0]);
    frame.extend([
        0x45, 0, 0, 28, 0, 1, 0, 0, 63, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ]);
    frame.extend([0, 53, 0, 54, 0, 8, 0, 0]);
    let length = frame.len() as u32;
    let mut file = b"snoop\0\0\0\0\0\0\x02\0\0\0\x04".to_vec();
    for field in [length, length, 24 + length, 0, 0, 0] {
        file.extend(field.to_be_bytes());
    }
    file.extend(&frame);
    let folder = folder("pass in all\n", "");
    fs::write(folder.0.join("i"), file).unwrap();
    let run = weir(&folder, &["ipftest", "-Crr", "-Fsnoop", "-ii", "-I", "e9"]);
    let wanted = "pass < e9 ip #1 28(20) 17 10.0.0.1,53 > 10.0.0.2,54\n--------------\n";
    assert_eq!(run, (0, wanted.to_owned()));
}

#[test]
fn unreachable_rules_are_told_of_all_languages() {
    let folder = folder(
        "pass in quick proto tcp all\nblock in proto tcp from 10.0.0.0/8 to any\nblock in all\n\
         pass in all group nobody\n",
        "",
    );
    let (code, text) = weir(&folder, &["check", "--unreachable", "r"]);
    assert_eq!(code, 0, "{text}");
    let never: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("never"))
        .collect();
    let wanted = [
        "never matched: r:2 (in 2): block in inet proto tcp from 10.0.0.0/8 to any",
        "never matched: r:4 (group nobody): pass in all group nobody",
    ];
    assert_eq!(never, wanted, "{text}");
    fs::write(
        folder.0.join("w"),
        "add 100 allow tcp from any to any\nadd 200 deny tcp from 10.0.0.0/8 to any\n",
    )
    .unwrap();
    let (code, text) = weir(&folder, &["check", "--unreachable", "w"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("never matched: w:2 ("), "{text}");
    assert!(!text.contains("never matched: w:1 ("), "{text}");
}

#[test]
fn logged_packets_have_the_monitor_s_text() {
    let rules = "block in log proto tcp all\nlog in proto udp all\n\
                 pass in log quick proto udp all keep state group g\n\
                 pass in all head g\npass in log proto icmp all set-tag(log=7)\n\
                 block in log proto 132 all\n";
    let packets = "in on e0 tcp 10.0.0.1,1024 10.0.0.2,80 SA\nin on e0 udp 10.0.0.1,1 10.0.0.2,2\n\
                   in on e0 icmp 10.0.0.1 10.0.0.2 echo\nin on e0 132 10.0.0.1 10.0.0.2\n";
    let wanted = [
        "e0 @0:2 L 10.0.0.1,1 -> 10.0.0.2,2 PR udp len 20 28 IN",
        "e0 @g:1 p 10.0.0.1,1 -> 10.0.0.2,2 PR udp len 20 28 K-S IN",
        "e0 @0:4 p 10.0.0.1 -> 10.0.0.2 PR icmp len 20 48 icmp echo/0 IN log-tag 7",
        "e0 @0:5 b 10.0.0.1 -> 10.0.0.2 PR sctp len 20 (20) IN",
    ];
    assert_eq!(logged(rules, packets, &[]), wanted);
    let blocked = logged("block in log proto tcp all\n", packets, &[]);
    assert_eq!(
        blocked,
        ["e0 @0:1 b 10.0.0.1,1024 -> 10.0.0.2,80 PR tcp len 20 40 -AS IN"]
    );
}

#[test]
fn limits_write_alerts_and_summaries() {
    let rules = "pass in log limit freq 3 quick proto tcp from any to any port = 80 keep limit 2\n";
    let mut packets = String::new();
    for port in 1..=9 {
        packets += &format!("in on lan0 tcp 10.0.0.1,{port} 10.9.9.9,80 S seq=1\n");
    }
    packets += "in on lan0 tcp 10.0.0.1,1 10.9.9.9,80 R seq=2\n";
    packets += "in on lan0 tcp 10.0.0.1,2 10.9.9.9,80 R seq=2\n";
    let found = logged(rules, &packets, &["--dialect", "hpux"]);
    let alert = |port: u8, exceeded: u8| {
        format!(
            "lan0 10.0.0.1,{port} -> 10.9.9.9,80 PR tcp -S keep limit Type 8 Configured 2 \
             Current 2 Exceeded {exceeded} Freq 3 IN"
        )
    };
    // Connections 3, 6 and 9: the first above the limit, then every third.
    assert_eq!(found[..3], [alert(3, 1), alert(6, 4), alert(9, 7)]);
    assert_eq!(
        found[3],
        "LIMIT LOG 10.0.0.1,* -> 10.9.9.9,80 PR tcp Type 8 Configured 2 Current 0 Exceeded 7 \
         @0:1 First Time 01:46:40.000000"
    );
}

#[test]
fn explain_and_show_tell_the_language() {
    let rules = "block in all\npass in quick on e0 proto tcp from any to any port = 22\n";
    let folder = folder(rules, "");
    let (code, text) = weir(
        &folder,
        &["explain", "r", "in=e0 tcp 1.1.1.1:5 > 2.2.2.2:22 syn"],
    );
    assert_eq!(code, 0);
    assert!(text.contains("pass r:2 < e0 ip #"), "{text}");
    assert!(text.contains("matched r:1: block in all\n"), "{text}");
    let (code, text) = weir(&folder, &["show", "r"]);
    assert_eq!((code, text.as_str()), (0, rules));
    let (code, text) = weir(&folder, &["check", "--json", "r"]);
    assert_eq!(code, 0);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&json["dialect"], &json["rules"]),
        (&"ipf".into(), &2.into())
    );
}

#[test]
fn check_tells_what_apply_refuses_and_what_rules_cost() {
    let folder = folder("auth in all\n", "");
    let (code, text) = weir(&folder, &["check", "r"]);
    assert_eq!(code, 0);
    assert!(text.contains("\napply would refuse them"), "{text}");
    let (code, text) = weir(&folder, &["check", "--json", "r"]);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(code, 0);
    assert_eq!(json["enforceable"], false);
    assert_eq!(json["messages"][0]["severity"], "note");
    assert_eq!(json["messages"][0]["line"], 1);
    assert!(json["image_bytes"].is_null());

    let folder = self::folder(
        "block in quick proto udp all\npass in from any to any\n",
        "",
    );
    let (code, text) = weir(&folder, &["check", "--cost", "r"]);
    assert_eq!(code, 0);
    assert!(text.contains("worst packet: "), "{text}");
    assert!(text.contains("\nipv4    PREROUTING  filter"), "{text}");
    let (_, text) = weir(&folder, &["check", "--json", "r"]);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["enforceable"], true);
    assert!(json["cost"][0]["worst_loads"].as_u64() > Some(0), "{text}");
    // What the last rule proposes, it decides.
    assert_eq!(json["cost"][0]["worst_entries"], 1, "{text}");
}
