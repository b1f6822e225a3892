//! Inputs that can be read only once: every command reads rules and captures from standard input
//! and from named pipes as it reads files, and texts without rules are never enforced.

mod common;

use common::{Folder, Run, Shot, command, pcapng, tcp};
use std::io::Write;
use std::process::Stdio;

const IPTABLES: &str =
    "*filter\n:INPUT DROP [0:0]\n-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT\nCOMMIT\n";
const IPF: &str = "block in all\npass in quick proto tcp from any to any port = 22\n";
const IPFW: &str = "add 100 allow tcp from any to any 22\nadd 200 deny ip from any to any\n";
const SYN: &str = "in=eth0 tcp 192.0.2.7:4242 > 192.0.2.1:22 syn";

/// Runs the program with something on its standard input.
fn fed(folder: &Folder, args: &[&str], input: &[u8]) -> Run {
    let mut child = command(&folder.0, args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    Run {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Whether the first verdict lets a packet through, in the words of the rules' language.
fn lets_through(run: &Run) -> bool {
    let mut values = serde_json::Deserializer::from_str(&run.out).into_iter::<serde_json::Value>();
    let verdict = &values.next().unwrap().unwrap()["verdict"];
    ["accept", "pass", "allow"]
        .iter()
        .any(|word| verdict == word)
}

/// A capture of one connection request to port 22.
fn capture(folder: &Folder) -> Vec<u8> {
    let path = folder.0.join("syn.pcapng");
    let bytes = tcp(([192, 0, 2, 7], 4242), ([192, 0, 2, 1], 22), 2, (1, 0));
    let shot = Shot {
        interface: 0,
        time_ms: 1_000,
        way: 1,
        comment: None,
        bytes,
    };
    pcapng(&path, &["eth0"], &[shot]);
    std::fs::read(path).unwrap()
}

#[test]
fn the_language_of_standard_input_is_told_as_that_of_files() {
    let folder = Folder::new();
    let shown = [
        (IPTABLES, "-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT"),
        (IPF, "pass in quick proto tcp from any to any port = 22"),
        (IPFW, "00100 allow tcp from any to any 22"),
    ];
    for (text, rule) in shown {
        fed(&folder, &["check", "-"], text.as_bytes()).expect(0);
        let show = fed(&folder, &["show", "-"], text.as_bytes()).expect(0);
        assert!(show.out.contains(rule), "{show:#?}");
        let explain = ["explain", "--json", "-", SYN];
        let explain = fed(&folder, &explain, text.as_bytes()).expect(0);
        assert!(lets_through(&explain), "{explain:#?}");
    }
}

#[test]
fn named_pipes_are_read_once_and_whole() {
    let folder = Folder::new();
    let rules = folder.0.join("rules");
    let made = std::process::Command::new("mkfifo").arg(&rules).status();
    assert!(made.unwrap().success());
    for text in [IPTABLES, IPF, IPFW] {
        let writer = std::thread::spawn({
            let rules = rules.clone();
            move || std::fs::write(rules, text).unwrap()
        });
        let show = folder.weir(&["show", "rules"]).expect(0);
        writer.join().unwrap();
        assert!(show.out.contains("22"), "{show:#?}");
    }
}

#[test]
fn captures_come_from_standard_input_too() {
    let folder = Folder::new();
    let bytes = capture(&folder);
    for (name, text) in [("a.rules", IPTABLES), ("b.conf", IPF), ("c.ipfw", IPFW)] {
        folder.file(name, text);
        let replay = fed(&folder, &["replay", "--json", name, "-"], &bytes).expect(0);
        assert!(lets_through(&replay), "{replay:#?}");
        let explain = fed(&folder, &["explain", "--json", name, "-"], &bytes).expect(0);
        assert!(lets_through(&explain), "{explain:#?}");
    }
}

#[test]
fn texts_without_rules_are_never_enforced() {
    let folder = Folder::new();
    folder.file("nothing", "# the command that made this failed\n\n");
    folder.file("rules", IPTABLES);
    let refused = folder.weir(&["apply", "--dry-run", "nothing"]).expect(2);
    assert!(refused.err.contains("no rules in nothing"), "{refused:#?}");
    assert!(refused.err.contains("weir unload"), "{refused:#?}");
    let beside = folder.weir(&["apply", "--dry-run", "rules", "nothing"]);
    let beside = beside.expect(0);
    assert!(beside.err.contains("nothing is empty"), "{beside:#?}");
}
