//! Changes of single rules through the agent of a namespace: they are made in place and say so,
//! rules that stay keep their counters, rules in front of the one for established flows come in
//! place too, and what a killed agent leaves is the old policy or the new one. Needs root; see
//! `WEIR_REQUIRE_KERNEL`.

mod common;

use common::{Folder, Namespace, Run, packets, reached};
use serde_json::Value;
use std::io::{BufRead, Write};

/// Rules of which one in the middle jumps, and enough of them to tell numbers apart.
fn rules() -> String {
    let mut text = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n\
                    :web - [0:0]\n-A INPUT -d 127.0.0.4/32 -p icmp -j web\n"
        .to_owned();
    for number in 0..40 {
        text += &format!("-A INPUT -d 127.1.0.{number}/32 -p icmp -j ACCEPT\n");
    }
    text + "-A web -p icmp -j DROP\nCOMMIT\n"
}

/// A namespace with its loopback up and rules in force; `None`: no kernel tests, said loudly.
fn enforced(test: &str, label: &str) -> Option<(Folder, Namespace)> {
    weir_plane::kernel_or_skip(test)?;
    let (folder, netns) = (Folder::new(), Namespace::with_loopback(label));
    folder.file("rules.v4", &rules());
    let args = ["apply", "--netns", &netns.0, "rules.v4"];
    folder.weir(&args).expect(0);
    Some((folder, netns))
}

fn tool(folder: &Folder, netns: &Namespace, words: &str) -> Run {
    let mut args = vec!["iptables", "--json", "--netns", &netns.0];
    args.extend(words.split(' '));
    folder.weir(&args)
}

/// Carries a command out and gives the way that it took.
fn way(folder: &Folder, netns: &Namespace, words: &str) -> (String, Value) {
    let answer = tool(folder, netns, words).expect(0).json();
    assert!(answer["microseconds"].as_f64().is_some(), "{answer}");
    let way = answer["way"].as_str().expect("a way").to_owned();
    (way, answer["why"].clone())
}

fn show(folder: &Folder, netns: &Namespace) -> String {
    folder.weir(&["show", "--netns", &netns.0]).expect(0).out
}

/// The number of the policy in force.
fn generation(folder: &Folder, netns: &Namespace) -> u64 {
    let args = ["status", "--json", "--netns", &netns.0];
    let status = folder.weir(&args).expect(0).json();
    status["generation"].as_u64().expect("a policy")
}

/// The process number of the agent.
fn agent(netns: &Namespace) -> i32 {
    let namespace = netns.run(&["readlink", "/proc/self/ns/net"]).out;
    let inode = namespace
        .trim()
        .trim_start_matches("net:[")
        .trim_end_matches(']');
    let folders = std::fs::read_dir("/run/weir").expect("state");
    let own = folders.flatten().find(|one| {
        one.file_name()
            .to_string_lossy()
            .ends_with(&format!("-{inode}"))
    });
    let record = std::fs::read(own.expect("a folder").path().join("agent.json"));
    let record: Value = serde_json::from_slice(&record.expect("an agent")).expect("a record");
    record["pid"].as_i64().expect("a number") as i32
}

#[test]
fn single_rules_change_in_place() {
    let Some((folder, netns)) = enforced("single_rules_change_in_place", "inpl") else {
        return;
    };
    assert!(reached(&netns, "127.1.0.7") && reached(&netns, "127.1.0.7"));
    assert!(!reached(&netns, "127.0.0.4"));
    let before = packets(&folder, &netns);
    assert_eq!(before[&("INPUT".to_owned(), 9)], 2, "{before:?}");
    let number = generation(&folder, &netns);
    // The first one takes the policy up.
    let (first, why) = way(&folder, &netns, "-I INPUT 3 -d 127.1.0.7 -p icmp -j DROP");
    assert_eq!(
        (first.as_str(), why.is_string()),
        ("rebuilt", true),
        "{why}"
    );
    assert!(!reached(&netns, "127.1.0.7") && reached(&netns, "127.1.0.8"));
    let mut in_place = 0;
    for (words, to, is_reached) in [
        (
            "-R INPUT 3 -d 127.1.0.8 -p icmp -j DROP",
            "127.1.0.8",
            false,
        ),
        (
            "-I INPUT 1 -d 127.1.0.8 -p icmp -j ACCEPT",
            "127.1.0.8",
            true,
        ),
        (
            "-D INPUT -p icmp -d 127.1.0.8 -j ACCEPT",
            "127.1.0.8",
            false,
        ),
        ("-D INPUT 3", "127.1.0.8", true),
        ("-A INPUT -d 127.1.1.1 -j DROP", "127.1.1.1", false),
    ] {
        let (taken, why) = way(&folder, &netns, words);
        if taken == "in place" {
            in_place += 1;
        } else {
            // Beside a replaced rule, so that a build makes room.
            assert_eq!(
                why, "no free position among rules that share packets with it",
                "{words}"
            );
        }
        assert_eq!(reached(&netns, to), is_reached, "{words}");
    }
    assert!(in_place >= 3, "{in_place} of 5");
    assert_eq!(
        generation(&folder, &netns),
        number,
        "no other policy was applied"
    );
    // Rules that stayed count on, those that came count from nothing.
    let now = packets(&folder, &netns);
    let count = |number: u64| now[&("INPUT".to_owned(), number)];
    assert_eq!(count(1), before[&("INPUT".to_owned(), 1)], "{now:?}");
    let text = show(&folder, &netns);
    let listed: Vec<&str> = text.lines().filter(|l| l.starts_with("-A INPUT")).collect();
    let at = listed.iter().position(|line| line.contains("127.1.0.7/32"));
    assert_eq!(count(at.expect("it is listed") as u64 + 1), 2, "{now:?}");
    assert_eq!(count(listed.len() as u64), 1, "{now:?}\n{text}");
    assert!(
        listed.last().expect("rules").contains("127.1.1.1/32"),
        "{text}"
    );
    // What can't be told is what iptables says.
    let none = tool(&folder, &netns, "-D INPUT -j DROP").expect(1);
    assert!(none.err.contains("Bad rule"), "{none:?}");
    let beyond = tool(&folder, &netns, "-I INPUT 99 -j DROP").expect(1);
    assert!(
        beyond.err.contains("Index of insertion too big."),
        "{beyond:?}"
    );
    assert_eq!(show(&folder, &netns), text);
    // `diff` compares with what is enforced.
    folder.file("same", &text);
    folder
        .weir(&["diff", "--netns", &netns.0, "same"])
        .expect(0);
    folder.weir(&["unload", "--netns", &netns.0]).expect(0);
}

/// Carries a command of ipset out and gives the way that it took.
fn set_way(folder: &Folder, netns: &Namespace, words: &str) -> (String, Value) {
    let mut args = vec!["set", "--json", "--netns", &netns.0];
    args.extend(words.split(' '));
    let answer = folder.weir(&args).expect(0).json();
    let way = answer["way"].as_str().expect("a way").to_owned();
    (way, answer["why"].clone())
}

#[test]
fn members_of_sets_change_in_place() {
    let Some((folder, netns)) = enforced("members_of_sets_change_in_place", "inps") else {
        return;
    };
    folder.file(
        "sets",
        "create bad hash:ip family inet\nadd bad 127.3.0.1\nadd bad 127.3.0.9\n\
         create nets hash:net family inet\nadd nets 127.4.0.0/24\n",
    );
    // Two rules of one chain that decide, one of another hook, and one that only counts.
    folder.file(
        "set-rules.v4",
        "*filter\n:INPUT ACCEPT\n:FORWARD ACCEPT\n:OUTPUT ACCEPT\n\
         -A INPUT -p icmp -m set --match-set bad dst -j DROP\n\
         -A INPUT -m set --match-set bad dst -j DROP\n\
         -A FORWARD -m set --match-set bad src -j DROP\n\
         -A INPUT -p icmp -m set --match-set nets dst -j DROP\nCOMMIT\n",
    );
    let args = ["apply", "--netns", &netns.0, "sets", "set-rules.v4"];
    folder.weir(&args).expect(0);
    assert!(!reached(&netns, "127.3.0.1") && reached(&netns, "127.3.0.2"));
    assert_eq!(set_way(&folder, &netns, "add bad 127.3.0.5").0, "rebuilt");
    for (words, to, is_reached) in [
        ("add bad 127.3.0.2", "127.3.0.2", false),
        ("add bad 127.3.0.3", "127.3.0.3", false),
        ("del bad 127.3.0.2", "127.3.0.2", true),
        ("del bad 127.3.0.1", "127.3.0.1", true),
        ("add bad 127.3.0.1", "127.3.0.1", false),
        ("add nets 127.5.0.0/16", "127.5.7.7", false),
        ("del nets 127.4.0.0/24", "127.4.0.1", true),
    ] {
        let (taken, why) = set_way(&folder, &netns, words);
        assert_eq!(taken, "in place", "{words}: {why}");
        assert_eq!(reached(&netns, to), is_reached, "{words}");
        assert!(!reached(&netns, "127.3.0.9") && !reached(&netns, "127.3.0.5"));
    }
    assert!(!reached(&netns, "127.3.0.3") && !reached(&netns, "127.3.0.1"));
    // What has no terms yet, or no longer, or a lifetime, takes another image.
    let (taken, why) = set_way(&folder, &netns, "del nets 127.5.0.0/16");
    assert_eq!((taken.as_str(), why.is_string()), ("rebuilt", true));
    assert!(reached(&netns, "127.5.7.7"));
    let again = ["set", "--netns", &netns.0, "add", "bad", "127.3.0.1"];
    let said = folder.weir(&again).expect(1);
    assert!(said.err.contains("it's already added"), "{said:?}");
    // Rules and members take turns in the journal.
    way(&folder, &netns, "-I INPUT 1 -d 127.3.0.9 -j ACCEPT");
    assert!(reached(&netns, "127.3.0.9"));
    let text = show(&folder, &netns);
    assert!(
        text.contains("add bad 127.3.0.3") && !text.contains("127.5.0.0"),
        "{text}"
    );
    folder.weir(&["unload", "--netns", &netns.0]).expect(0);
}

#[test]
fn what_cannot_be_done_in_place_is_done_as_a_whole() {
    let name = "what_cannot_be_done_in_place_is_done_as_a_whole";
    let Some((folder, netns)) = enforced(name, "inpw") else {
        return;
    };
    way(&folder, &netns, "-A INPUT -d 127.1.1.1 -j DROP");
    assert_eq!(
        way(&folder, &netns, "-A INPUT -d 127.1.1.2 -j DROP").0,
        "in place"
    );
    for (words, to, is_reached) in [
        ("-A web -d 127.0.0.4 -j DROP", "127.0.0.4", false),
        (
            "-I INPUT 1 -d 127.1.0.3,127.1.0.5 -j DROP",
            "127.1.0.5",
            false,
        ),
        (
            "-I INPUT 1 -d 127.1.0.5 -m limit --limit 1/day -j ACCEPT",
            "127.1.0.5",
            true,
        ),
        ("-I INPUT 1 -d 127.1.0.9 -j web", "127.1.0.9", false),
        (
            "-I INPUT 1 -m conntrack --ctstate INVALID -j DROP",
            "127.1.0.8",
            true,
        ),
        ("-I INPUT 1 -d 127.1.0.10 -j LOG", "127.1.0.10", true),
        ("-P FORWARD ACCEPT", "127.5.0.1", true),
        ("-N other", "127.1.0.10", true),
        ("-A FORWARD -j ACCEPT", "127.1.0.10", true),
        (
            "-t mangle -A PREROUTING -d 127.1.0.10 -j DROP",
            "127.1.0.10",
            false,
        ),
    ] {
        let (taken, why) = way(&folder, &netns, words);
        assert_eq!(
            (taken.as_str(), why.is_string()),
            ("rebuilt", true),
            "{words}"
        );
        assert_eq!(reached(&netns, to), is_reached, "{words}: {why}");
    }
    // And behind it, in place again.
    way(&folder, &netns, "-A INPUT -d 127.6.0.1 -j ACCEPT");
    let (taken, why) = way(&folder, &netns, "-A INPUT -d 127.5.0.1 -j DROP");
    assert_eq!(taken, "in place", "{why}");
    assert!(!reached(&netns, "127.5.0.1"));
    folder.weir(&["unload", "--netns", &netns.0]).expect(0);
}

#[test]
fn trials_begin_from_and_return_to_the_changed_policy() {
    let name = "trials_begin_from_and_return_to_the_changed_policy";
    let Some((folder, netns)) = enforced(name, "inpt") else {
        return;
    };
    for to in ["127.1.1.1", "127.1.1.2"] {
        way(&folder, &netns, &format!("-A INPUT -d {to} -j DROP"));
    }
    let text = show(&folder, &netns);
    folder.file("open", "*filter\n:INPUT ACCEPT\nCOMMIT\n");
    let args = ["apply", "--netns", &netns.0, "--confirm", "1", "open"];
    folder.weir(&args).expect(0);
    assert!(reached(&netns, "127.1.1.2"));
    tool(&folder, &netns, "-A INPUT -d 127.1.1.2 -j DROP").expect(1);
    std::thread::sleep(std::time::Duration::from_millis(2500));
    assert!(!reached(&netns, "127.1.1.1") && !reached(&netns, "127.1.1.2"));
    assert_eq!(show(&folder, &netns), text);
    // The policy that came back changes on.
    way(&folder, &netns, "-D INPUT -d 127.1.1.1 -j DROP");
    let (taken, why) = way(&folder, &netns, "-I INPUT 1 -d 127.1.1.3 -j DROP");
    assert_eq!(taken, "in place", "{why}");
    assert!(reached(&netns, "127.1.1.1") && !reached(&netns, "127.1.1.3"));
    folder.weir(&["unload", "--netns", &netns.0]).expect(0);
}

#[test]
fn a_killed_agent_leaves_the_old_rules_or_the_new() {
    let name = "a_killed_agent_leaves_the_old_rules_or_the_new";
    let Some((folder, netns)) = enforced(name, "inpk") else {
        return;
    };
    let mut expected = show(&folder, &netns)
        .lines()
        .filter(|l| l.starts_with("-A"))
        .count();
    for round in 0..12u64 {
        let first = format!("-I INPUT 1 -d 127.2.{round}.1 -p icmp -j DROP");
        way(&folder, &netns, &first);
        let pid = agent(&netns);
        let second = format!("-I INPUT 1 -d 127.2.{round}.2 -p icmp -j DROP");
        let mut args = vec!["iptables", "--json", "--netns", &netns.0];
        args.extend(second.split(' '));
        let child = common::command(&folder.0, &args)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("it starts");
        std::thread::sleep(std::time::Duration::from_micros(400 * round));
        let kill = std::process::Command::new("kill")
            .args(["-9", &pid.to_string()])
            .status();
        assert!(kill.expect("kill").success());
        let run = child.wait_with_output().expect("it ends");
        let text = show(&folder, &netns);
        let rules = text.lines().filter(|l| l.starts_with("-A")).count();
        let is_there = text.contains(&format!("127.2.{round}.2/32"));
        assert!(text.contains(&format!("127.2.{round}.1/32")), "{text}");
        assert_eq!(rules, expected + 1 + usize::from(is_there), "{text}");
        if run.status.success() {
            assert!(is_there, "what was answered is there");
        }
        // The next command finishes what was begun: packets and texts agree.
        let third = format!("-I INPUT 1 -d 127.2.{round}.3 -p icmp -j DROP");
        way(&folder, &netns, &third);
        assert!(!reached(&netns, &format!("127.2.{round}.1")));
        assert!(!reached(&netns, &format!("127.2.{round}.3")));
        assert_eq!(!reached(&netns, &format!("127.2.{round}.2")), is_there);
        let counted = packets(&folder, &netns);
        assert_eq!(counted[&("INPUT".to_owned(), 1)], 1, "{counted:?}");
        expected = rules + 1;
    }
    folder.weir(&["unload", "--netns", &netns.0]).expect(0);
    let left = std::fs::read_dir("/run/weir").map_or(0, |all| {
        let inode = netns.run(&["readlink", "/proc/self/ns/net"]).out;
        let inode = inode
            .trim()
            .trim_start_matches("net:[")
            .trim_end_matches(']')
            .to_owned();
        all.flatten()
            .filter(|one| one.file_name().to_string_lossy().ends_with(&inode))
            .count()
    });
    assert_eq!(left, 0, "nothing is left");
}

#[test]
fn rules_in_front_of_the_rule_for_established_flows_change_in_place() {
    let name = "rules_in_front_of_the_rule_for_established_flows_change_in_place";
    let Some((folder, netns)) = enforced(name, "inpe") else {
        return;
    };
    folder.file(
        "stateful.v4",
        "*filter\n:INPUT DROP\n:FORWARD DROP\n:OUTPUT ACCEPT\n\
         -A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT\n\
         -A INPUT -p icmp -j ACCEPT\n-A INPUT -p tcp -m tcp --dport 7001 -j ACCEPT\nCOMMIT\n",
    );
    let args = ["apply", "--netns", &netns.0, "stateful.v4"];
    folder.weir(&args).expect(0);
    way(&folder, &netns, "-A INPUT -p tcp --dport 7002 -j ACCEPT");
    for (words, is_reached) in [
        ("-I INPUT 1 -p icmp -d 127.0.0.5 -j DROP", false),
        ("-I INPUT 1 -p icmp -j ACCEPT", true),
        ("-D INPUT 1", false),
        ("-D INPUT 1", true),
    ] {
        let (taken, why) = way(&folder, &netns, words);
        assert_eq!(taken, "in place", "{words}: {why}");
        assert_eq!(reached(&netns, "127.0.0.5"), is_reached, "{words}");
    }
    // What a flow remembers is judged anew: a conversation stops at once, and goes on when it may.
    let mut talk = Conversation::begin(&netns, 7001);
    assert!(talk.is_answered("one", 10_000));
    assert!(talk.is_answered("two", 10_000));
    let established = "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT";
    for (stop, go) in [
        ("-D INPUT 1", &*format!("-I INPUT 1 {established}")),
        (
            "-R INPUT 1 -p tcp -m tcp --dport 9 -j ACCEPT",
            &format!("-R INPUT 1 {established}"),
        ),
        (
            "-I INPUT 1 -p tcp -m tcp --dport 7001 -j DROP",
            "-D INPUT 1",
        ),
        (
            "-I INPUT 1 -p tcp -m tcp --sport 7001 -j DROP",
            "-D INPUT 1",
        ),
    ] {
        let (taken, why) = way(&folder, &netns, stop);
        assert_eq!(taken, "in place", "{stop}: {why}");
        assert!(!talk.is_answered(stop, 700), "{stop}");
        way(&folder, &netns, go);
        // What was said meanwhile is sent again.
        assert!(talk.is_heard(30_000), "{go}");
        assert!(talk.is_answered(go, 30_000), "{go}");
    }
    drop(talk);
    folder.weir(&["unload", "--netns", &netns.0]).expect(0);
}

/// A TCP conversation over the loopback with a partner that says everything back.
struct Conversation {
    children: Vec<std::process::Child>,
    say: Option<std::process::ChildStdin>,
    heard: std::sync::mpsc::Receiver<String>,
}

impl Conversation {
    fn begin(netns: &Namespace, port: u16) -> Self {
        let start = |words: &str| {
            let child = std::process::Command::new("ip")
                .args(["netns", "exec", &netns.0, "timeout", "120", "socat"])
                .args(words.split(' '))
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .spawn();
            child.expect("it starts")
        };
        let partner = start(&format!("TCP-LISTEN:{port},reuseaddr EXEC:cat"));
        let mut own = start(&format!("- TCP:127.0.0.1:{port},retry=50,interval=0.1"));
        let say = own.stdin.take();
        let lines = std::io::BufReader::new(own.stdout.take().expect("a pipe")).lines();
        let (to, heard) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            lines
                .map_while(Result::ok)
                .try_for_each(|line| to.send(line))
        });
        Conversation {
            children: vec![own, partner],
            say,
            heard,
        }
    }

    /// Whether a line comes back within so many milliseconds.
    fn is_answered(&mut self, line: &str, within: u64) -> bool {
        let say = self.say.as_mut().expect("it is open");
        writeln!(say, "{line}").expect("it listens");
        self.is_heard(within)
    }

    fn is_heard(&self, within: u64) -> bool {
        let within = std::time::Duration::from_millis(within);
        self.heard.recv_timeout(within).is_ok()
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        // The end of input ends both.
        self.say = None;
        for child in &mut self.children {
            let _ = child.wait();
        }
    }
}
