//! `weir diff`: what it says of two files, in which words, with which exit status.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn file(name: &str, text: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("diff");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn diff(old: &Path, new: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .arg("diff")
        .args([old, new])
        .args(more)
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

const HOST: &str = "*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
-A INPUT -i lo -j ACCEPT
-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A INPUT -p tcp -m tcp --dport 22 -s 192.0.2.0/24 -j ACCEPT
-A INPUT -p tcp -m multiport --dports 80,443 -j ACCEPT
-A INPUT -p icmp -m limit --limit 10/sec -j ACCEPT
COMMIT
";

#[test]
fn other_words_for_the_same_are_the_same() {
    let old = file("same-old.v4", HOST);
    let new = HOST
        .replace(
            "-A INPUT -p tcp -m multiport --dports 80,443 -j ACCEPT",
            "-A INPUT -p tcp -m tcp --dport 443 -j ACCEPT\n-A INPUT -p tcp -m tcp --dport 80 -j ACCEPT",
        )
        .replace(
            "-s 192.0.2.0/24 -j ACCEPT",
            "-s 192.0.2.128/25 -j ACCEPT\n-A INPUT -p tcp --dport 22 -s 192.0.2.0/25 -j ACCEPT",
        );
    let new = file("same-new.v4", &new);
    let output = diff(&old, &new, &[]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("same: every packet gets the same"), "{said}");
    assert!(
        said.contains("1 condition on more than the packet"),
        "{said}"
    );
}

#[test]
fn what_differs_is_told_with_both_rules_and_an_example() {
    let old = file("differs-old.v4", HOST);
    let changed = HOST
        .replace("80,443", "80,443,8443")
        .replace("192.0.2.0/24", "192.0.2.0/25");
    let new = file("differs-new.v4", &changed);
    let output = diff(&old, &new, &[]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let lines: Vec<&str> = said.lines().map(str::trim).collect();
    let accepted = lines
        .iter()
        .position(|line| line.starts_with("newly accepted:"))
        .unwrap();
    assert!(lines[accepted].contains("destination port 8443"), "{said}");
    assert!(lines[accepted + 1].contains("old: drop by"), "{said}");
    assert!(
        lines[accepted + 1].contains("differs-old.v4:2 (INPUT policy)"),
        "{said}"
    );
    assert!(
        lines[accepted + 3].contains("differs-new.v4:8 (INPUT 4)"),
        "{said}"
    );
    assert!(
        said.contains("source 192.0.2.128/25, ") || said.contains("source 192.0.2.128/25\n"),
        "{said}"
    );
    assert!(said.contains("different: 1 newly accepted, 1 newly refused, 0 treated otherwise"));
    assert!(!said.contains("not confirmed"), "{said}");
}

#[test]
fn the_example_is_what_explain_reads() {
    let old = file("example-old.v4", HOST);
    let new = file("example-new.v4", &HOST.replace("80,443", "80"));
    let output = diff(&old, &new, &["--json"]);
    assert_eq!(output.status.code(), Some(1));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["schema"], 1);
    assert_eq!(answer["refused"], 1);
    let journeys = answer["journeys"].as_array().unwrap();
    assert_eq!(journeys.len(), 3);
    let difference = &journeys[0]["differences"][0];
    assert_eq!(difference["change"], "refused");
    assert_eq!(difference["confirmed"], true);
    assert_eq!(difference["old"]["verdict"], "accept");
    let packet = difference["example"].as_str().unwrap();
    for (file, wanted) in [(&old, 0), (&new, 1)] {
        let explained = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["explain", "--exit-verdict"])
            .arg(file)
            .arg(packet)
            .output()
            .unwrap();
        assert_eq!(
            explained.status.code(),
            Some(wanted),
            "{}",
            text(&explained)
        );
    }
}

#[test]
fn two_languages_are_compared_by_what_they_mean() {
    let ipf = file(
        "host.ipf",
        "block in all\npass in quick on lo0 all\npass in quick proto tcp from any to any port = 22\n\
         block out quick proto tcp from any to any port = 25\n",
    );
    let same = "*filter
:INPUT DROP [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
-A INPUT -i lo0 -j ACCEPT
-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT
-A FORWARD -p tcp -m tcp --dport 25 -j DROP
-A FORWARD -i lo0 -j ACCEPT
-A FORWARD -p tcp -m tcp --dport 22 -j ACCEPT
-A FORWARD -j DROP
-A OUTPUT -p tcp -m tcp --dport 25 -j DROP
COMMIT
";
    let tables = file("host.v4", same);
    // ip_tables drops a packet whose ports can't be read where a rule asks for them.
    let output = diff(&ipf, &tables, &["--family", "ipv4"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let differing = said.lines().filter(|line| line.contains("newly"));
    for line in differing.filter(|line| !line.starts_with("different")) {
        assert!(line.contains("cut short"), "{said}");
    }
    let other = file("host-other.v4", &same.replace("--dport 25", "--dport 26"));
    let output = diff(&ipf, &other, &["--family", "ipv4"]);
    assert!(
        text(&output).contains("destination port 25"),
        "{}",
        text(&output)
    );
}

#[test]
fn what_cannot_be_read_is_no_difference() {
    let old = file(
        "wrong.v4",
        "*filter\n:INPUT DROP [0:0]\n-A INPUT -p tpc -j ACCEPT\nCOMMIT\n",
    );
    let new = file("right.v4", HOST);
    assert_eq!(diff(&old, &new, &[]).status.code(), Some(2));
    let strange = file(
        "strange.v4",
        "*filter\n:INPUT DROP [0:0]\n-A INPUT -m helper --helper a -j ACCEPT\nCOMMIT\n",
    );
    assert_eq!(diff(&strange, &new, &[]).status.code(), Some(3));
}

#[test]
fn what_asks_of_headers_is_the_same_for_the_same_words() {
    let old = file("headers.ipf", "pass in all\nblock in all with short\n");
    let new = file("no-headers.ipf", "pass in all\nblock in all with frag\n");
    let output = diff(&old, &new, &[]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("/headers.ipf:2") && said.contains("`with`"),
        "{said}"
    );
    assert_eq!(diff(&old, &old, &[]).status.code(), Some(0));
    assert_eq!(diff(&new, &new, &[]).status.code(), Some(0));
}
