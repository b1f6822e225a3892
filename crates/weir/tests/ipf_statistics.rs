//! `ipfstat` without options, `-s` and `-sl` on enforced lists: what became of packets, exactly.

mod common;

use common::{Folder, Namespace, kernel, until};
use std::collections::HashMap;

/// A namespace with its loopback up, and rules in force there.
fn applied(label: &str, dialect: &str, rules: &str) -> (Folder, Namespace) {
    let (folder, netns) = (Folder::new(), Namespace::with_loopback(label));
    folder.file("rules", rules);
    let apply = ["apply", "--dialect", dialect, "--netns", &netns.0, "rules"];
    folder.weir(&apply).expect(0);
    (folder, netns)
}

/// Sends datagrams by one socket.
fn send(netns: &Namespace, to: &str, port: u16, packets: usize) {
    let script = format!(
        "exec 3<>/dev/udp/{to}/{port}; for i in $(seq {packets}); do echo >&3; sleep 0.05; done"
    );
    netns.run(&["bash", "-c", &script]);
}

fn stat(folder: &Folder, netns: &Namespace, args: &[&str]) -> String {
    let args = [&["ipfstat", "--netns", &netns.0], args].concat();
    folder.weir(&args).expect(0).out
}

/// `value<TAB>label` by label.
fn labelled(text: &str) -> HashMap<&str, u64> {
    let lines = text.lines().filter_map(|line| line.split_once('\t'));
    let read = |(value, label)| Some((label, str::parse(value).ok()?));
    lines.filter_map(read).collect()
}

#[test]
fn packets_of_stateful_lists_are_told_by_what_became_of_them() {
    if !kernel("packets_of_stateful_lists_are_told") {
        return;
    }
    // The kernel's own answers to what nobody reads are blocked on their way out.
    let (folder, netns) = applied(
        "summary",
        "ipf",
        "pass in quick on lo proto udp from any to any port = 53 keep state (no-icmp-err)\n\
         block in log on lo proto udp from any to any port = 77\n\
         log in on lo proto udp from any to any port = 78\n\
         pass in log on lo proto udp from any to any port = 79\n\
         block return-icmp in quick on lo proto udp from any to any port = 80\n\
         pass in on lo proto udp from any to any port = 81 pps 1\n\
         count in proto udp from any to any port = 79\n\
         pass out on lo proto udp from any to any\n\
         block out quick on lo proto icmp all\n",
    );
    // The second packet belongs to the state of the first, in both directions.
    for (port, packets) in [
        (53, 2),
        (53, 1),
        (77, 1),
        (78, 1),
        (79, 2),
        (80, 1),
        (81, 3),
    ] {
        send(&netns, "127.0.0.1", port, packets);
    }
    let mut text = String::new();
    until("the answer came in", 10, || {
        text = stat(&folder, &netns, &[]);
        labelled(&text)["input packets not matched"] == 2
    });
    let found = labelled(&text);
    for (label, value) in [
        ("input bad packets", 0),
        ("input IPv6 packets", 0),
        // 53: 3, 78, 79: 2, 81, and the answer for 80.
        ("input packets passed", 8),
        // 77, 80, and what of 81 is above the rate.
        ("input packets blocked", 4),
        ("input packets counted", 2),
        ("input packets short", 0),
        ("input packets logged and blocked", 1),
        ("input packets logged and passed", 2),
        ("input packet state kept", 2),
        ("input packet state lost", 0),
        ("input block reason filter-rule", 2),
        ("input block reason pps-rate", 2),
        ("input block reason state_add-fail", 0),
        ("output packets passed", 11),
        // To what was delivered of 53, 78, 79 and 81.
        ("output packets blocked", 7),
        ("output packets not matched", 0),
        ("packets logged", 4),
        ("log failures", 0),
        ("ICMP replies sent", 1),
        ("TCP RSTs sent", 0),
    ] {
        assert_eq!(found.get(label), Some(&value), "{label}: {text}");
    }
    assert!(!text.contains("IPF Ticks"), "{text}");
    assert!(text.ends_with("Packet log flags set:\n\tnone\n"), "{text}");

    // Another policy begins anew.
    let rules = folder.file(
        "other",
        "pass in all\npass out quick proto udp from any to any\n",
    );
    folder
        .weir(&["ipf", "--netns", &netns.0, "-Fa", "-f", &rules])
        .expect(0);
    send(&netns, "127.0.0.1", 77, 1);
    let text = stat(&folder, &netns, &[]);
    // The datagram, and the kernel's answer, which no rule is for on its way out.
    let found = labelled(&text);
    assert_eq!(found["input packets passed"], 2, "{text}");
    assert_eq!(found["output packets passed"], 2, "{text}");
    assert_eq!(found["output packets not matched"], 1, "{text}");
    assert_eq!(found["input packets blocked"], 0, "{text}");
    assert_eq!(found["input packets short"], 0, "{text}");
}

#[test]
fn packets_of_lists_without_states_are_told_in_the_form_of_4_too() {
    if !kernel("packets_of_lists_without_states_are_told") {
        return;
    }
    let (folder, netns) = applied(
        "summary4",
        "hpux",
        "block in log quick on lo proto udp from any to any port = 77\n\
         pass out quick on lo proto udp from any to any port = 77\n\
         block out quick on lo proto udp from any to any port = 78\n\
         pass out from any to any\n",
    );
    for (to, port, packets) in [
        ("127.0.0.1", 77, 2),
        ("127.0.0.1", 78, 1),
        ("127.0.0.1", 79, 1),
        ("::1", 79, 1),
    ] {
        send(&netns, to, port, packets);
    }
    let text = stat(&folder, &netns, &[]);
    // What no rule is for are 79's, and the kernel's answers to them.
    for line in [
        "bad packets:\t\tin 0\tout 0",
        " IPv6 packets:\t\tin 2 out -",
        " input packets:\t\tblocked 2 passed 4 nomatch 4 counted 0 short -",
        "output packets:\t\tblocked 1 passed 6 nomatch 2 counted 0 short -",
        " input packets logged:\tblocked 2 passed 0",
        "output packets logged:\tblocked 0 passed 0",
        " packets logged:\tinput 2 output 0",
        " log failures:\t\tinput 0 output 0",
        "packet state(in):\tkept 0\tlost 0",
        "ICMP replies:\t0\tTCP RSTs sent:\t0",
        "IPF Ticks:\t-",
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line}: {text}");
    }
    // Hits that rules bring along into another policy are of packets before it.
    let more = folder.file(
        "more",
        "block in quick on lo proto udp from any to any port = 1\n",
    );
    let netns_name = netns.0.as_str();
    folder
        .weir(&["ipf", "--netns", netns_name, "-f", &more])
        .expect(0);
    send(&netns, "127.0.0.1", 77, 1);
    let text = stat(&folder, &netns, &[]);
    let line = "output packets:\t\tblocked 0 passed 1 nomatch 0 counted 0 short -\n";
    assert!(text.contains(line), "{text}");
    let hits = stat(&folder, &netns, &["-oh"]);
    assert!(hits.starts_with("3 pass out quick on lo"), "{hits}");

    // Of a direction without a list nothing is known but that nothing is blocked.
    let (folder, netns) = applied("summary0", "hpux", "pass in from any to any\n");
    let text = stat(&folder, &netns, &[]);
    let line = "output packets:\t\tblocked 0 passed - nomatch - counted 0 short -\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn states_are_told_by_what_became_of_them() {
    if !kernel("states_are_told_by_what_became_of_them") {
        return;
    }
    let rules = "pass in quick on lo proto udp from any to any port = 53 keep state (limit 2)\n\
         pass in quick on lo proto tcp from any to any port = 22 flags S keep state\n\
         pass in quick on lo proto icmp all icmp-type echo keep state\n\
         block out quick on lo proto icmp all icmp-type unreach\n";
    for (dialect, six) in [("ipf", false), ("hpux", true)] {
        // HP-UX has no `limit`.
        let rules = if six {
            rules.replace(" (limit 2)", "")
        } else {
            rules.to_owned()
        };
        let (folder, netns) = applied(&format!("states-{dialect}"), dialect, &rules);
        let empty = stat(&folder, &netns, &["-s"]);
        for _ in 0..3 {
            send(&netns, "127.0.0.1", 53, 1);
        }
        netns
            .run(&["ping", "-c", "1", "-W", "1", "127.0.0.1"])
            .expect(0);
        let connect = "exec 3<>/dev/tcp/127.0.0.1/22";
        netns.run(&["timeout", "2", "bash", "-c", connect]);
        let text = stat(&folder, &netns, &["-s"]);
        let bucket = |label: &str| format!(" {label}\n");
        if six {
            assert!(
                empty.starts_with("IP states added:\n\t0 TCP\n\t0 UDP\n"),
                "{empty}"
            );
            for line in [
                "1 TCP",
                "3 UDP",
                "1 ICMP",
                "0 maximum",
                "0 no memory",
                "5 active",
            ] {
                assert!(text.contains(&format!("\t{line}\n")), "{line}: {text}");
            }
        } else {
            let found = labelled(&text);
            for (label, value) in [
                ("active entries", 4),
                ("bucket full", 0),
                ("maximum rule references", 1),
                ("table maximum reached", 0),
                ("no memory", 0),
                ("tcp", 1),
                ("udp", 2),
                ("icmp", 1),
            ] {
                assert_eq!(found.get(label), Some(&value), "{label}: {text}");
            }
            // The echo, out and in again, and its reply; the reset of who doesn't listen.
            assert!(found["check success"] >= 3, "{text}");
            assert!(found["check miss"] >= 4, "{text}");
        }
        assert!(text.contains("State logging disabled\n"), "{text}");
        assert!(text.contains(&bucket("bucket usage")[..]), "{text}");
        let buckets: Vec<&str> = text.lines().rev().take(2).collect();
        assert_eq!(buckets[1], "\t1 maximal length", "{text}");
        assert_eq!(buckets[0], "\t1.000 average length", "{text}");
        let each = stat(&folder, &netns, &["-sl"]);
        assert!(each.contains("\tinterfaces: in lo[lo],"), "{each}");
        let tcp: Vec<&str> = each
            .lines()
            .skip_while(|line| !line.contains(":tcp "))
            .collect();
        let (sequences, windows) = tcp[1].trim().split_once(' ').unwrap();
        assert!(sequences.contains(':') && windows.contains("<<"), "{each}");
    }
}
