//! `weir convert`: what it writes, what it says of constructs without a counterpart, exit statuses.

mod common;

use common::Folder;

const HOST: &str = "*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
# loopback
-A INPUT -i lo -j ACCEPT
-A INPUT -s 192.0.2.0/24 -p tcp -m tcp --dport 22 -j ACCEPT
-A INPUT -p tcp -m multiport --dports 80,443 -j ACCEPT
COMMIT
";

#[test]
fn what_would_differ_is_told_by_a_packet_in_words() {
    let folder = Folder::new();
    folder.file(
        "reset.ipf",
        "block return-rst out quick on eth0 proto tcp from any to any port = 113\npass out all\n",
    );
    let run = folder
        .weir(&["convert", "reset.ipf", "--to", "ipfw"])
        .expect(3);
    let example = "for example hook=OUTPUT out=eth0 tcp 192.0.2.1:40000 > 198.51.100.7:113 syn";
    assert!(run.err.contains(example), "{}", run.err);
}

#[test]
fn resets_that_nobody_gets_make_no_difference() {
    let folder = Folder::new();
    let reset = "-A INPUT -p tcp -j REJECT --reject-with tcp-reset\nCOMMIT\n";
    folder.file("reset.v4", &HOST.replace("COMMIT\n", reset));
    let run = folder
        .weir(&["convert", "reset.v4", "--to", "ipfw", "--host"])
        .expect(0);
    let line = "add 00500 reset tcp from any to any in\n";
    assert!(run.out.contains(line), "{}", run.out);
}

#[test]
fn a_host_becomes_a_list_with_its_comments_and_its_proof() {
    let folder = Folder::new();
    folder.file("host.v4", HOST);
    let run = folder
        .weir(&["convert", "host.v4", "--to", "ipfw", "--host"])
        .expect(0);
    for line in [
        "# loopback",
        "# from host.v4:6",
        "add 00200 allow ip from any to any in recv lo",
        "# from host.v4:7",
        "add 00300 allow tcp from 192.0.2.0/24 to any 22 in",
        "add 00400 allow tcp from any to any 80,443 in",
        "add 00500 deny ip from any to any in",
        "add 00600 allow ip from any to any out",
    ] {
        assert!(
            run.out.lines().any(|one| one == line),
            "{line}: {}",
            run.out
        );
    }
    assert!(run.err.contains("proved: every IPv4 packet"), "{}", run.err);
    // What was written reads back, and is the same.
    folder.file("host.ipfw", &run.out);
    let diff = [
        "diff",
        "host.v4",
        "host.ipfw",
        "--family",
        "ipv4",
        "--whole-headers",
        "--no-forwarding",
    ];
    folder.weir(&diff).expect(0);
}

#[test]
fn every_construct_without_a_counterpart_is_named_with_its_place() {
    let folder = Folder::new();
    let rules = HOST.replace(
        "COMMIT",
        "-A INPUT -m limit --limit 5/sec -j ACCEPT\n\
         -A INPUT -m mark --mark 0x1 -j ACCEPT\n\
         -A INPUT -m conntrack --ctstate INVALID -j DROP\n\
         -A OUTPUT -p udp -j NFLOG --nflog-group 3\n\
         COMMIT",
    );
    folder.file("host.v4", &rules);
    let run = folder
        .weir(&["convert", "host.v4", "--to", "ipf", "-o", "host.ipf"])
        .expect(3);
    for (place, words) in [
        ("host.v4:9:10", "-m limit"),
        ("host.v4:10:18", "--mark"),
        ("host.v4:11:23", "--ctstate"),
        ("host.v4:12:", "NFLOG"),
    ] {
        assert!(run.err.contains(place), "{place}: {}", run.err);
        let carets = "^".repeat(words.len());
        assert!(run.err.contains(&carets), "{words}: {}", run.err);
    }
    assert!(run.err.contains("--states=tracked"), "{}", run.err);
    assert!(!folder.0.join("host.ipf").exists(), "nothing is written");
}

#[test]
fn a_last_match_in_the_way_of_a_state_is_not_blamed() {
    let folder = Folder::new();
    let rules = "block in all\npass in quick proto tcp from any to any flags S keep state\n";
    folder.file("state.ipf", rules);
    let run = folder
        .weir(&["convert", "state.ipf", "--to", "ipfw"])
        .expect(3);
    assert!(run.err.contains("state.ipf:2:"), "{}", run.err);
    assert!(!run.err.contains("state.ipf:1:"), "{}", run.err);
    assert!(run.err.contains("1 construct can't"), "{}", run.err);
}

#[test]
fn forwarding_that_differs_is_refused_and_left_out_on_request() {
    let folder = Folder::new();
    let gateway = HOST.replace(":FORWARD DROP", ":FORWARD ACCEPT");
    folder.file("gateway.v4", &gateway);
    let run = folder
        .weir(&["convert", "gateway.v4", "--to", "ipf"])
        .expect(3);
    assert!(
        run.err.contains("gateway.v4:3:") && run.err.contains("--host"),
        "{}",
        run.err
    );
    let run = folder
        .weir(&["convert", "gateway.v4", "--to", "ipf", "--host"])
        .expect(0);
    assert!(
        run.err.contains("forwarded packets were not compared"),
        "{}",
        run.err
    );
}

#[test]
fn states_are_left_to_the_result_only_where_all_of_them_pass() {
    let folder = Folder::new();
    let go_on = "-A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT\n";
    let tracked = HOST.replace("# loopback\n", go_on);
    folder.file("tracked.v4", &tracked);
    folder
        .weir(&["convert", "tracked.v4", "--to", "ipf", "--host"])
        .expect(3);
    let wanted = [
        "convert",
        "tracked.v4",
        "--to",
        "ipf",
        "--host",
        "--states=tracked",
    ];
    let run = folder.weir(&wanted).expect(0);
    let kept = "pass in quick proto tcp from 192.0.2.0/24 to any port = 22 keep state";
    assert!(run.out.lines().any(|line| line == kept), "{}", run.out);
    // A rule in front refuses some of them: their packets would pass now.
    let refuses = tracked.replace(
        go_on,
        &format!("-A INPUT -s 203.0.113.0/24 -j DROP\n{go_on}"),
    );
    folder.file("refuses.v4", &refuses);
    let wanted = [
        "convert",
        "refuses.v4",
        "--to",
        "ipf",
        "--host",
        "--states=tracked",
    ];
    let run = folder.weir(&wanted).expect(3);
    assert!(run.err.contains("refuses.v4:5:"), "{}", run.err);
    // And a pass without a state, whose answers other rules judge.
    folder.file("half.ipf", "block in all\npass out all\npass in quick proto tcp from any to any port = 22 keep state\n");
    let wanted = [
        "convert",
        "half.ipf",
        "--to",
        "iptables",
        "--family",
        "ipv4",
        "--states=tracked",
    ];
    let run = folder.weir(&wanted).expect(3);
    assert!(run.err.contains("half.ipf:2:"), "{}", run.err);
}

#[test]
fn dynamic_rules_of_ipfw_are_left_to_tracking_and_made_of_it() {
    let folder = Folder::new();
    let rules = "add 100 check-state\n\
                 add 200 allow tcp from any to any 22 in setup keep-state\n\
                 add 300 allow udp from any to any 53 out keep-state\n";
    folder.file("host.ipfw", rules);
    let convert = |file: &str, to: &str| {
        let wanted = ["convert", file, "--to", to, "--family", "ipv4", "--host"];
        folder.weir(&[&wanted[..], &["--states=tracked"]].concat())
    };
    let run = convert("host.ipfw", "iptables").expect(0);
    let go_on = "-A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT";
    assert!(run.out.lines().any(|line| line == go_on), "{}", run.out);
    folder.file("host.v4", &run.out);
    let run = convert("host.ipfw", "ipf").expect(0);
    let kept = "pass in quick proto tcp from any to any port = 22 flags S/SA keep state";
    assert!(run.out.lines().any(|line| line == kept), "{}", run.out);
    folder.file("host.ipf", &run.out);
    for file in ["host.v4", "host.ipf"] {
        let run = convert(file, "ipfw").expect(0);
        assert!(run.out.contains("check-state\n"), "{}", run.out);
        assert!(run.out.contains(" 53 out keep-state\n"), "{}", run.out);
    }
    // What tracking can't do is named, where it stands.
    let whole = "udp from any to any 53 out keep-state";
    for (from, to, line, word) in [
        ("setup keep-state", "setup limit src-addr 2", 2, "limit"),
        ("add 300 allow", "add 300 deny", 3, "keep-state"),
        (
            "add 300 allow udp",
            "add 300 allow log udp",
            3,
            "keep-state",
        ),
        (
            whole,
            "udp from any to any 53 out keep-state defer-action",
            3,
            "keep-state",
        ),
        (
            "add 100",
            "add 50 deny ip from 10.0.0.0/8 to any\nadd 100",
            1,
            "50",
        ),
        (whole, "udp from any to any 53 out", 3, "300"),
    ] {
        let bad = rules.replace(from, to);
        assert_ne!(bad, rules);
        folder.file("bad.ipfw", &bad);
        let run = convert("bad.ipfw", "iptables").expect(3);
        let column = bad.lines().nth(line - 1).and_then(|text| text.find(word));
        let place = format!("bad.ipfw:{line}:{}\n", column.unwrap() + 1);
        assert!(run.err.contains(&place), "{place}: {}", run.err);
    }
    // Without leave to do so, each of them is.
    let run = folder
        .weir(&["convert", "host.ipfw", "--to", "ipf"])
        .expect(3);
    for place in ["host.ipfw:1:", "host.ipfw:2:", "host.ipfw:3:"] {
        assert!(run.err.contains(place), "{place}: {}", run.err);
    }
}

#[test]
fn several_files_need_a_name() {
    let folder = Folder::new();
    let mut rules = "table bad create type addr\n".to_owned();
    for number in 0..40 {
        rules += &format!("table bad add 10.{number}.0.0/24\n");
    }
    rules += "add 100 deny ip from table(bad) to any in\nadd 200 allow ip from any to any\n";
    folder.file("bad.ipfw", &rules);
    let wanted = ["convert", "bad.ipfw", "--to", "iptables"];
    let run = folder.weir(&wanted).expect(2);
    assert!(run.err.contains("several files"), "{}", run.err);
    let run = folder
        .weir(&[&wanted[..], &["-o", "bad"]].concat())
        .expect(0);
    assert!(run.out.is_empty(), "{}", run.out);
    for name in ["bad.v4", "bad.v6", "bad.ipset"] {
        assert!(run.err.contains(&format!("wrote {name}")), "{}", run.err);
    }
    folder
        .weir(&["check", "bad.v4", "bad.v6", "bad.ipset"])
        .expect(0);
    let run = folder
        .weir(&[&wanted[..], &["--json"]].concat())
        .expect(0)
        .json();
    assert_eq!(run["files"].as_array().map(Vec::len), Some(3), "{run}");
    assert!(
        run["proof"][0].as_str().unwrap().starts_with("proved:"),
        "{run}"
    );
    let pools = folder.weir(&[
        "convert", "bad.ipfw", "--to", "ipf", "--family", "ipv4", "-o", "bad.ipf",
    ]);
    pools.expect(0);
    folder
        .weir(&["check", "bad.ipf", "bad.ipf.pools"])
        .expect(0);
}

#[test]
fn what_is_no_other_language_is_wrong_usage() {
    let folder = Folder::new();
    folder.file("host.v4", HOST);
    let run = folder
        .weir(&["convert", "host.v4", "--to", "iptables"])
        .expect(2);
    assert!(run.err.contains("already"), "{}", run.err);
    folder.file(
        "nat.v4",
        &format!(
            "*nat\n:POSTROUTING ACCEPT [0:0]\n-A POSTROUTING -o eth0 -j MASQUERADE\nCOMMIT\n{HOST}"
        ),
    );
    let run = folder.weir(&["convert", "nat.v4", "--to", "ipf"]).expect(3);
    assert!(run.err.contains("nat.v4:3:"), "{}", run.err);
}

#[test]
fn denied_tests_of_headers_leave_later_fragments_alone() {
    let folder = Folder::new();
    for (test, ipfw, ipf) in [
        (
            "-p tcp -m tcp ! --syn",
            "allow tcp from any to any in not tcpflags !fin,syn,!rst,!ack not frag\n",
            "skip 1 in proto tcp from any to any flags S/FSRA\n\
             pass in quick proto tcp from any to any with not frag-body\n",
        ),
        (
            "-p tcp -m tcp ! --dport 80",
            "allow tcp from any to any not 80 in not frag\n",
            "pass in quick proto tcp from any to any port != 80\n",
        ),
        (
            "-p icmp -m icmp ! --icmp-type 5",
            "allow icmp from any to any in not icmptypes 5 not frag\n",
            "pass in quick proto icmp from any to any with not frag-body\n",
        ),
    ] {
        let rule = format!("-A INPUT {test} -j ACCEPT\nCOMMIT\n");
        folder.file("denied.v4", &HOST.replace("COMMIT\n", &rule));
        for (language, line) in [("ipfw", ipfw), ("ipf", ipf)] {
            let args = ["convert", "denied.v4", "--to", language, "--host"];
            let run = folder.weir(&args).expect(0);
            assert!(run.out.contains(line), "{}", run.out);
        }
    }
}

#[test]
fn answers_without_a_counterpart_are_told_in_words() {
    let folder = Folder::new();
    let reject = "-A OUTPUT -p tcp -j REJECT --reject-with icmp-admin-prohibited\nCOMMIT\n";
    folder.file("reject.v4", &HOST.replace("COMMIT\n", reject));
    let args = ["convert", "reject.v4", "--to", "ipf", "--host"];
    let run = folder.weir(&args).expect(3);
    let words = "an answer of ICMP unreachable, code 13, can't be said in ipf";
    assert!(run.err.contains(words), "{}", run.err);
}
