//! Transcripts: what the program prints and how it exits, without any privilege.

mod common;

use common::{Folder, command};
use std::io::Read;
use std::process::Stdio;

const GATE: &str = "\
*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
:ssh - [0:0]
-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A INPUT -i lo -j ACCEPT
-A INPUT -p tcp -m tcp --dport 22 -j ssh
-A INPUT -s 10.0.0.0/8 -j REJECT --reject-with icmp-admin-prohibited
-A ssh -s 192.0.2.0/24 -j ACCEPT
-A ssh -j LOG --log-prefix \"ssh: \"
COMMIT
*mangle
:PREROUTING ACCEPT [0:0]
-A PREROUTING -i lan+ -j MARK --set-xmark 0x7/0xffffffff
COMMIT
";

const NAT: &str = "\
*nat
:PREROUTING ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
-A POSTROUTING -o wan0 -j MASQUERADE
-A PREROUTING -i wan0 -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.0.0.2
COMMIT
";

#[test]
fn check_says_what_a_good_file_comes_to() {
    let folder = Folder::new();
    folder.file("rules.v4", &format!("{GATE}{NAT}"));
    let run = folder.weir(&["check", "rules.v4"]).expect(0);
    assert!(
        run.out.contains("ipv4 filter: 6 rules in 4 chains"),
        "{}",
        run.out
    );
    assert!(
        run.out.contains("ipv4 nat: 2 rules not enforced"),
        "{}",
        run.out
    );
    assert!(run.out.ends_with("ok\n"), "{}", run.out);
    let json = folder.weir(&["check", "--json", "rules.v4"]).expect(0);
    assert!(json.out.starts_with("{\n  \"schema\": 1,"), "{}", json.out);
    let json = json.json();
    assert_eq!(json["ok"], true);
    assert_eq!(json["not_enforced"][0]["rules"], 2);
    let cost = folder.weir(&["check", "--cost", "rules.v4"]).expect(0);
    assert!(cost.out.contains("worst loads"), "{}", cost.out);
}

#[test]
fn check_notes_where_related_means_less_than_in_the_kernel() {
    let folder = Folder::new();
    let text = "*filter\n:INPUT DROP [0:0]\n\
                -A INPUT -m state --state RELATED,ESTABLISHED -j ACCEPT\n\
                -A INPUT -p tcp --dport 21 -j ACCEPT\nCOMMIT\n";
    folder.file("rules.v4", text);
    let run = folder.weir(&["check", "rules.v4"]).expect(0);
    assert!(
        run.err.contains("data connections of FTP (line 4) are NEW"),
        "{}",
        run.err
    );
    assert!(run.err.contains("rules.v4:3"), "{}", run.err);
    folder.file("plain.v4", &text.replace("RELATED,", ""));
    assert_eq!(folder.weir(&["check", "plain.v4"]).expect(0).err, "");
}

#[test]
fn faulty_lines_are_all_told_with_their_place() {
    let folder = Folder::new();
    let text = "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -p tcp --dport 99999 -j ACCEPT\n\
                -A INPUT -s 10.0.0.0/33 -j DROP\nCOMMIT\n";
    folder.file("rules.v4", text);
    let run = folder.weir(&["check", "rules.v4"]).expect(1);
    assert!(run.err.contains("rules.v4:3:25"), "{}", run.err);
    assert!(run.err.contains("rules.v4:4:13"), "{}", run.err);
    assert!(run.out.contains("2 errors"), "{}", run.out);
    let json = folder
        .weir(&["check", "--json", "rules.v4"])
        .expect(1)
        .json();
    assert_eq!(json["ok"], false);
    let lines: Vec<_> = json["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["line"].as_u64())
        .collect();
    assert_eq!(lines, [Some(3), Some(4)]);
    // Commands that need a policy stop there, as with any input that can't be read.
    folder.weir(&["apply", "--dry-run", "rules.v4"]).expect(2);
    folder
        .weir(&["explain", "rules.v4", "udp 1.1.1.1 > 2.2.2.2:53"])
        .expect(2);
}

#[test]
fn what_cannot_be_honoured_has_an_exit_code_of_its_own() {
    let folder = Folder::new();
    let text = "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -m helper --helper x -j ACCEPT\n\
                COMMIT\n";
    folder.file("rules.v4", text);
    let run = folder.weir(&["check", "rules.v4"]).expect(3);
    assert!(run.err.contains("rules.v4:3:"), "{}", run.err);
    folder.weir(&["apply", "--dry-run", "rules.v4"]).expect(3);
    let run = folder
        .weir(&["check", "--allow-unsupported", "rules.v4"])
        .expect(0);
    assert!(run.err.contains("rules.v4:3:"), "{}", run.err);
}

#[test]
fn usage_and_unreadable_files_exit_with_two() {
    let folder = Folder::new();
    let run = folder.weir(&["check", "missing.v4"]).expect(2);
    assert!(run.err.contains("can't read missing.v4"), "{}", run.err);
    let json = folder
        .weir(&["check", "--json", "missing.v4"])
        .expect(2)
        .json();
    assert_eq!((&json["schema"], &json["exit"]), (&1.into(), &2.into()));
    folder.weir(&["check"]).expect(2);
    folder.weir(&["nonsense"]).expect(2);
    folder.file("what", "hello there\n");
    let run = folder.weir(&["check", "what"]).expect(2);
    assert!(run.err.contains("--dialect"), "{}", run.err);
    std::fs::write(folder.0.join("bytes"), b"*filter\n\xff\xfe\n").unwrap();
    let run = folder.weir(&["check", "bytes"]).expect(2);
    assert!(run.err.contains("bytes:2"), "{}", run.err);
}

#[test]
fn show_prints_back_what_reads_as_the_same() {
    let folder = Folder::new();
    folder.file("rules.v4", &format!("{GATE}{NAT}"));
    let first = folder.weir(&["show", "rules.v4"]).expect(0);
    folder.file("again.v4", &first.out);
    let second = folder.weir(&["show", "again.v4"]).expect(0);
    assert_eq!(first.out, second.out);
    assert!(
        first.out.contains("-A ssh -j LOG --log-prefix \"ssh: \""),
        "{}",
        first.out
    );
    let json = folder
        .weir(&["show", "--json", "rules.v4"])
        .expect(0)
        .json();
    assert_eq!(json["files"][0]["family"], "ipv4");
    assert_eq!(json["files"][0]["text"], first.out.as_str());
}

#[test]
fn explain_goes_through_every_rule() {
    let folder = Folder::new();
    folder.file("rules.v4", GATE);
    let packet = "in=lan0 tcp 192.0.2.9:4242 > 198.51.100.7:22";
    let run = folder.weir(&["explain", "rules.v4", packet]).expect(0);
    for part in [
        "rules.v4:6",
        "no: state ESTABLISHED,RELATED; it is NEW",
        "rules.v4:7",
        "no: received on lo; it is lan0",
        "matched: into ssh",
        "verdict ACCEPT: decided by rules.v4:10 (ssh 1), mark 0x7",
    ] {
        assert!(run.out.contains(part), "{part}\n{}", run.out);
    }
    assert!(
        !run.out.contains("rules.v4:9 "),
        "rules after the verdict are not tried"
    );
    // The packet may stand as words of its own.
    let mut words = vec!["explain", "rules.v4"];
    words.extend(packet.split(' '));
    assert_eq!(folder.weir(&words).expect(0).out, run.out);
}

#[test]
fn explain_in_json_has_verdict_rule_and_mark() {
    let folder = Folder::new();
    folder.file("rules.v4", GATE);
    let explain = |packet: &str| {
        folder
            .weir(&["explain", "--json", "rules.v4", packet])
            .expect(0)
            .json()
    };
    let refused = explain("in=wan0 udp 10.1.2.3 > 198.51.100.7:53");
    assert_eq!(refused["schema"], 1);
    assert_eq!(refused["verdict"], "reject");
    assert_eq!(refused["rule"], "rules.v4:9");
    assert_eq!(refused["mark"], 0);
    let logged = explain("in=wan0 tcp 203.0.113.1 > 198.51.100.7:22");
    assert_eq!(
        (&logged["verdict"], &logged["rule"]),
        (&"drop".into(), &"rules.v4:2".into())
    );
    assert_eq!(logged["hooks"][1]["operations"][0], "logs \"ssh: \"");
    let known = explain("in=wan0 tcp 203.0.113.1 > 198.51.100.7:22 state=ESTABLISHED");
    assert_eq!(
        (&known["verdict"], &known["rule"]),
        (&"accept".into(), &"rules.v4:6".into())
    );
    let dropped = "in=wan0 udp 203.0.113.1 > 198.51.100.7:53";
    folder
        .weir(&["explain", "--exit-verdict", "rules.v4", dropped])
        .expect(1);
    let routed = explain("in=lan0 out=wan0 udp 203.0.113.1 > 198.51.100.7:53");
    assert_eq!(
        (&routed["rule"], &routed["mark"]),
        (&"rules.v4:3".into(), &7.into())
    );
}

#[test]
fn a_wrong_packet_is_told_where_it_is_wrong() {
    let folder = Folder::new();
    folder.file("rules.v4", GATE);
    let run = folder.weir(&[
        "explain",
        "rules.v4",
        "tcp 1.1.1.1:1 > 2.2.2.2:2 hook=INPTU",
    ]);
    let run = run.expect(2);
    assert!(run.err.contains("^^^^^"), "{}", run.err);
    assert!(run.err.contains("did you mean `INPUT`?"), "{}", run.err);
}

#[test]
fn apply_with_dry_run_needs_no_privilege() {
    let folder = Folder::new();
    folder.file("rules.v4", &format!("{GATE}{NAT}"));
    let run = folder.weir(&["apply", "--dry-run", "rules.v4"]).expect(0);
    assert!(
        run.out.starts_with("not applied (dry run): 7 rules"),
        "{}",
        run.out
    );
    assert!(
        run.out.contains("the kernel's nat table is left alone"),
        "{}",
        run.out
    );
    let json = folder
        .weir(&["apply", "--dry-run", "--json", "rules.v4"])
        .expect(0)
        .json();
    assert_eq!(
        (&json["applied"], &json["nat_rules_not_enforced"]),
        (&false.into(), &2.into())
    );
    folder
        .weir(&["apply", "--dry-run", "--confirm", "9", "rules.v4"])
        .expect(2);
}

#[test]
fn a_policy_that_would_cut_the_ssh_session_is_told() {
    let folder = Folder::new();
    let open = "-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT\n";
    let text =
        |rules: &str| format!("*filter\n:INPUT DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n{rules}COMMIT\n");
    folder.file("shut.v4", &text(""));
    folder.file("open.v4", &text(open));
    let warned = |file: &str| {
        let output = command(&folder.0, &["apply", "--dry-run", file])
            .env("SSH_CONNECTION", "192.0.2.9 51000 198.51.100.1 22")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("would cut your ssh session")
    };
    assert!(warned("shut.v4"));
    assert!(!warned("open.v4"));
}

#[test]
fn completions_and_manual_pages_come_from_the_same_definitions() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish"] {
        let run = folder.weir(&["completions", shell]).expect(0);
        assert!(run.out.contains("explain"), "{shell}");
    }
    folder.weir(&["man", "pages"]).expect(0);
    let page = std::fs::read_to_string(folder.0.join("pages/weir-apply.1")).unwrap();
    assert!(page.contains("confirm"), "{page}");
    assert!(folder.0.join("pages/weir.1").exists());
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let folder = Folder::new();
    folder.file("rules.v4", GATE);
    let many = vec!["rules.v4"; 400].join(" ");
    let mut args = vec!["show"];
    args.extend(many.split(' '));
    let mut child = command(&folder.0, &args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut err = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut err)
        .unwrap();
    assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""));
}

#[test]
fn several_files_are_one_policy() {
    let folder = Folder::new();
    folder.file(
        "a.v4",
        "*filter\n:INPUT ACCEPT [0:0]\n:late - [0:0]\n-A INPUT -j late\nCOMMIT\n",
    );
    folder.file(
        "b.v6",
        "*filter\n:INPUT DROP [0:0]\n-A INPUT -p tcp --dport 22 -j ACCEPT\nCOMMIT\n",
    );
    let run = folder
        .weir(&["check", "--json", "a.v4", "b.v6"])
        .expect(0)
        .json();
    let families: Vec<_> = run["tables"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["family"].clone())
        .collect();
    assert_eq!(families, ["ipv4", "ipv6"]);
    let v6 = folder.weir(&[
        "explain",
        "--json",
        "a.v4",
        "b.v6",
        "tcp [::1]:9 > [::2]:22",
    ]);
    assert_eq!(v6.expect(0).json()["rule"], "b.v6:3");
}

#[test]
fn what_is_shown_as_json_has_one_shape_in_all_languages() {
    let folder = Folder::new();
    for (dialect, text) in [
        ("iptables", GATE),
        ("ipf", "block in all\n"),
        ("hpux", "block in all\n"),
        ("ipfw", "00100 allow ip from any to any\n"),
    ] {
        folder.file("rules", text);
        let run = folder.weir(&["show", "--json", "--dialect", dialect, "rules"]);
        let json = run.expect(0).json();
        let file = &json["files"][0];
        assert_eq!(json["schema"], 1, "{dialect}: {json}");
        assert_eq!(file["dialect"], dialect, "{json}");
        assert_eq!(file["name"], "rules", "{json}");
        assert_eq!(file["text"], text, "{json}");
        assert_eq!(file["lines"][0], text.lines().next().unwrap(), "{json}");
    }
}
