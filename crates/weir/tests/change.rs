//! Commands of iptables and ipset on what is enforced: packets are judged by the changed rules,
//! rules that stay keep their counters, and what can't be done is answered as the originals do.

mod common;

use common::{Folder, Namespace, Run, packets, reached, until};

/// A namespace with its loopback up and a policy in force; `None`: no kernel tests, said loudly.
fn enforced(test: &str, label: &str) -> Option<(Folder, Namespace)> {
    weir_plane::kernel_or_skip(test)?;
    let (folder, netns) = (Folder::new(), Namespace::with_loopback(label));
    folder.file("rules.v4", RULES);
    folder.file("sets", SETS);
    let args = ["apply", "--netns", &netns.0, "sets", "rules.v4"];
    folder.weir(&args).expect(0);
    Some((folder, netns))
}

const SETS: &str = "\
create bad hash:ip family inet hashsize 1024 maxelem 65536 timeout 0
create nets hash:net family inet hashsize 1024 maxelem 65536
add bad 127.0.0.9
add bad 127.0.0.10 timeout 8
";

const RULES: &str = "\
*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:web - [0:0]
-A INPUT -m set --match-set bad dst -j DROP
-A INPUT -d 127.0.0.5,127.0.0.6 -p icmp -j ACCEPT
-A INPUT -m set --match-set nets dst -j web
-A web -p icmp -j DROP
COMMIT
";

fn tool(folder: &Folder, netns: &Namespace, tool: &str, words: &str) -> Run {
    let mut args = vec![tool, "--netns", &netns.0];
    args.extend(words.split(' '));
    folder.weir(&args)
}

#[test]
fn rules_are_put_in_taken_out_and_replaced() {
    let Some((folder, netns)) = enforced("rules_are_put_in_taken_out_and_replaced", "iptc") else {
        return;
    };
    let iptables = |words: &str| tool(&folder, &netns, "iptables", words);
    assert!(reached(&netns, "127.0.0.5") && reached(&netns, "127.0.0.6"));
    assert!(reached(&netns, "127.0.0.6"));
    // Requests only: the answers go to the address that asked.
    let before = packets(&folder, &netns);
    assert_eq!(before[&("INPUT".to_owned(), 3)], 2, "{before:?}");
    iptables("-I INPUT 2 -d 127.0.0.5/32 -p icmp -j DROP").expect(0);
    assert!(!reached(&netns, "127.0.0.5") && reached(&netns, "127.0.0.6"));
    // Lines of the changed text are not taken for lines of the file.
    let status = folder.weir(&["status", "--netns", &netns.0]).expect(0);
    assert!(status.out.contains("changed:rules.v4"), "{status:?}");
    // Rules of one line are two; the third and fourth go on counting where they were.
    let now = packets(&folder, &netns);
    let count = |number: u64| now[&("INPUT".to_owned(), number)];
    assert_eq!((count(2), count(3), count(4)), (1, 1, 3), "{now:?}");
    let listed = iptables("-S INPUT").expect(0).out;
    let rules: Vec<&str> = listed.lines().collect();
    assert_eq!(rules[0], "-P INPUT ACCEPT");
    assert_eq!(rules[2], "-A INPUT -d 127.0.0.5/32 -p icmp -j DROP");
    assert_eq!(rules[3], "-A INPUT -d 127.0.0.5/32 -p icmp -j ACCEPT");

    iptables("-C INPUT -p icmp -j DROP -d 127.0.0.5").expect(0);
    iptables("-D INPUT -d 127.0.0.5 -p icmp -j DROP").expect(0);
    assert!(reached(&netns, "127.0.0.5"));
    iptables("-R INPUT 3 -d 127.0.0.6 -j DROP").expect(0);
    assert!(!reached(&netns, "127.0.0.6"));
    iptables("-D INPUT 3").expect(0);
    assert!(reached(&netns, "127.0.0.6"));
    iptables("-N more").expect(0);
    iptables("-A more -d 127.0.0.6 -j DROP").expect(0);
    iptables("--append INPUT --jump more").expect(0);
    assert!(!reached(&netns, "127.0.0.6"));
    iptables("-P INPUT DROP").expect(0);
    assert!(!reached(&netns, "127.0.0.1") && !reached(&netns, "127.0.0.5"));
    tool(&folder, &netns, "ip6tables", "-P INPUT DROP").expect(0);
    assert!(!reached(&netns, "::1"));
    tool(&folder, &netns, "ip6tables", "-A INPUT -s ::1 -j ACCEPT").expect(0);
    assert!(reached(&netns, "::1"));
    // What is shown is what is enforced, and can be applied again.
    let shown = folder.weir(&["show", "--netns", &netns.0]).expect(0).out;
    assert!(shown.contains("-A more -d 127.0.0.6/32 -j DROP"), "{shown}");
    folder.weir(&["unload", "--netns", &netns.0]).expect(0);
}

#[test]
fn what_iptables_refuses_changes_nothing() {
    let name = "what_iptables_refuses_changes_nothing";
    let Some((folder, netns)) = enforced(name, "iptr") else {
        return;
    };
    let iptables = |words: &str| tool(&folder, &netns, "iptables", words);
    let before = folder.weir(&["show", "--netns", &netns.0]).expect(0).out;
    let says = |words: &str, exit: i32, text: &str| {
        let run = iptables(words).expect(exit);
        assert!(run.err.contains(text), "{words}: {run:?}");
    };
    says("-D INPUT 9", 1, "iptables: Index of deletion too big.");
    says(
        "-I INPUT 9 -j DROP",
        1,
        "iptables: Index of insertion too big.",
    );
    says(
        "-R INPUT 9 -j DROP",
        1,
        "iptables: Index of replacement too big.",
    );
    let none = "iptables: Bad rule (does a matching rule exist in that chain?).";
    says("-D INPUT -j DROP", 1, none);
    says("-C INPUT -j DROP", 1, none);
    says(
        "-A none -j DROP",
        1,
        "iptables: No chain/target/match by that name.",
    );
    says("-N web", 1, "iptables: Chain already exists.");
    says("-X web", 1, "iptables: Directory not empty.");
    says("-X INPUT", 1, "iptables: Bad built-in chain name.");
    says("-t foo -F", 3, "iptables: table 'foo' does not exist");
    says("-A INPUT --foo", 2, "unknown option");
    says("-A INPUT -j NOWHERE", 2, "NOWHERE");
    says("-A INPUT -p tcp --dport 70000", 2, "70000");
    says("-L", 2, "weir show --counters");
    says("-t nat -A POSTROUTING -j MASQUERADE", 3, "the kernel's own");
    let after = folder.weir(&["show", "--netns", &netns.0]).expect(0).out;
    assert_eq!(before, after);
    folder.weir(&["unload", "--netns", &netns.0]).expect(0);
}

#[test]
fn members_of_sets_come_and_go() {
    let Some((folder, netns)) = enforced("members_of_sets_come_and_go", "ipsc") else {
        return;
    };
    let set = |words: &str| tool(&folder, &netns, "set", words);
    assert!(!reached(&netns, "127.0.0.9") && !reached(&netns, "127.0.0.10"));
    assert!(reached(&netns, "127.0.0.11"));
    set("add bad 127.0.0.11").expect(0);
    assert!(!reached(&netns, "127.0.0.11"));
    let run = set("add bad 127.0.0.11").expect(1);
    let text = "Element cannot be added to the set: it's already added";
    assert!(run.err.contains(text), "{run:?}");
    set("add bad 127.0.0.11 timeout 600 -exist").expect(0);
    let run = set("test bad 127.0.0.11").expect(0);
    assert_eq!(run.err, "Warning: 127.0.0.11 is in set bad.\n");
    set("del bad 127.0.0.11").expect(0);
    assert!(reached(&netns, "127.0.0.11"));
    set("del bad 127.0.0.11").expect(1);
    set("del bad 127.0.0.11 -exist").expect(0);
    let run = set("test bad 127.0.0.11").expect(1);
    assert_eq!(run.err, "127.0.0.11 is NOT in set bad.\n");

    // A range is its addresses, and a jump behind a set of networks is one too.
    set("add bad 127.0.1.1-127.0.1.3").expect(0);
    set("del bad 127.0.1.2").expect(0);
    assert!(!reached(&netns, "127.0.1.1") && reached(&netns, "127.0.1.2"));
    set("add nets 127.1.0.0/16").expect(0);
    set("add nets 127.1.2.0/24 nomatch").expect(0);
    assert!(!reached(&netns, "127.1.3.1") && reached(&netns, "127.1.2.1"));
    set("test nets 127.1.3.9").expect(0);
    set("test nets 127.1.2.9").expect(1);

    // Lifetimes go on over changes, and end.
    until("the first is let go", 30, || reached(&netns, "127.0.0.10"));
    set("add bad 127.0.0.12 timeout 8").expect(0);
    let listed = set("list bad").expect(0).out;
    let left = listed.split_once("127.0.0.12 timeout ");
    let left = left.and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
    assert!((1..=8).contains(&left.unwrap_or(0)), "{listed}");
    assert!(!listed.contains("127.0.0.10"), "{listed}");
    assert!(!reached(&netns, "127.0.0.12"));
    until("the second is let go", 30, || reached(&netns, "127.0.0.12"));
    assert!(!reached(&netns, "127.0.0.9"));
    folder.weir(&["unload", "--netns", &netns.0]).expect(0);
}

#[test]
fn what_ipset_refuses_changes_nothing() {
    let Some((folder, netns)) = enforced("what_ipset_refuses_changes_nothing", "ipsr") else {
        return;
    };
    let set = |words: &str| tool(&folder, &netns, "ipset", words);
    let says = |words: &str, exit: i32, text: &str| {
        let run = set(words).expect(exit);
        assert!(run.err.contains(text), "{words}: {run:?}");
    };
    says(
        "add none 1.1.1.1",
        1,
        "The set with the given name does not exist",
    );
    says("add bad foo", 1, "foo");
    says(
        "del bad",
        2,
        "Missing second mandatory argument to command del",
    );
    says("add", 2, "Missing mandatory argument to command add");
    says("foo", 2, "No command specified: unknown argument foo");
    says("list bad more", 2, "Unknown argument more");
    let late = "Timeout cannot be used: set was created without timeout support";
    says("add nets 10.0.0.0/8 timeout 9", 1, late);
    says(
        "create bad hash:ip",
        1,
        "set with the same name already exists",
    );
    // Rules ask about it.
    assert_ne!(set("destroy bad").code, Some(0));
    set("create fresh hash:ip").expect(0);
    set("destroy fresh").expect(0);
    assert_eq!(set("list -n").expect(0).out, "bad\nnets\n");
    folder.weir(&["unload", "--netns", &netns.0]).expect(0);
}
