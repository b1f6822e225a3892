//! Early drop: where packets that PREROUTING drops end, and that the same rules count.
//!
//! Needs root and nft, whose chain ahead of all of netfilter tells what still comes there.

mod common;

use common::{Folder, Namespace, client_and_host, counters, ip};

const RULES: &str = "\
*raw
:PREROUTING ACCEPT [0:0]
-A PREROUTING -s 203.0.113.0/24 -p udp -m udp --dport 7000 -j DROP
-A PREROUTING -p udp -m udp --dport 7001 -m limit --limit 1/hour --limit-burst 1 -j DROP
COMMIT
";

/// Counts what comes to netfilter at all, before PREROUTING of weir.
const PROBE: [&str; 4] = [
    "add table ip probe",
    "add chain ip probe ahead { type filter hook prerouting priority -500; }",
    "add rule ip probe ahead udp dport 7000 counter",
    "add rule ip probe ahead udp dport 7001 counter",
];

const DATAGRAMS: u64 = 20;

/// A host and its neighbour, with a probe on the host.
fn pair(label: &str) -> (Namespace, Namespace) {
    let [client, host] = client_and_host(label, "10.78.0");
    let own = "203.0.113.5";
    for words in [
        format!("addr add {own}/32 dev veth0"),
        format!("route replace 10.78.0.2/32 dev veth0 src {own}"),
    ] {
        ip(&format!("-n {} {words}", client.0));
    }
    for words in PROBE {
        host.run(&["nft", words]).expect(0);
    }
    // The neighbour is known before anything is counted.
    let ping = ["ping", "-c", "1", "-W", "2", "-I", "10.78.0.1", "10.78.0.2"];
    client.run(&ping).expect(0);
    (client, host)
}

fn send(client: &Namespace) {
    for port in [7000, 7001] {
        let each = format!("echo -n weir > /dev/udp/10.78.0.2/{port}");
        let script = format!("for i in $(seq {DATAGRAMS}); do {each}; done");
        client.run(&["bash", "-c", &script]).expect(0);
    }
}

/// What the probe has counted, for both ports.
fn arrived(host: &Namespace) -> Vec<u64> {
    let rules = host.run(&["nft", "-j", "list", "chain", "ip", "probe", "ahead"]);
    let list = rules.expect(0).json();
    let rules = list["nftables"].as_array().unwrap().iter();
    let counters = rules.filter_map(|item| item["rule"]["expr"].as_array());
    let counter = counters.flat_map(|parts| parts.iter());
    counter
        .filter_map(|part| part["counter"]["packets"].as_u64())
        .collect()
}

/// Packets and bytes of the rules, by line.
fn counted(folder: &Folder, host: &Namespace) -> Vec<(u64, u64)> {
    let list = counters(folder, &host.0);
    let number = |line: &serde_json::Value, key: &str| line[key].as_u64().unwrap();
    list.iter()
        .filter(|line| number(line, "index") > 0)
        .map(|line| (number(line, "packets"), number(line, "bytes")))
        .collect()
}

#[test]
fn packets_that_are_dropped_early_do_not_come_to_netfilter() {
    let folder = Folder::new();
    let rules = folder.file("early.v4", RULES);
    let (client, host) = pair("early");
    let mut before = arrived(&host);
    assert_eq!(before, [0, 0]);
    // What comes to netfilter: all; what only the limit lets through; that, and what asks a limit.
    for (option, comes) in [
        (None, [DATAGRAMS, DATAGRAMS]),
        (Some("--early-drop=tcx"), [0, DATAGRAMS - 1]),
        (Some("--early-drop=xdp"), [0, DATAGRAMS]),
    ] {
        folder.weir(&["unload", "--netns", &host.0]);
        let mut args = vec!["apply", "--netns", &host.0, &rules];
        args.extend(option);
        folder.weir(&args).expect(0);
        send(&client);
        let now = arrived(&host);
        let new: Vec<u64> = now
            .iter()
            .zip(&before)
            .map(|(now, then)| now - then)
            .collect();
        before = now;
        assert_eq!(new, comes, "{option:?}");
        // 20 bytes of IP, 8 of UDP, 4 of data each.
        assert_eq!(
            counted(&folder, &host),
            [(DATAGRAMS, DATAGRAMS * 32), (1, 32)],
            "{option:?}"
        );
    }
    let status = folder.weir(&["status", "--netns", &host.0]).expect(0);
    assert!(status.out.contains("early drop (XDP): "), "{}", status.out);
    // Without the option it is over.
    folder
        .weir(&["apply", "--netns", &host.0, &rules])
        .expect(0);
    send(&client);
    assert_eq!(arrived(&host)[0] - before[0], DATAGRAMS);
    let status = folder.weir(&["status", "--netns", &host.0]).expect(0);
    assert!(!status.out.contains("XDP"), "{}", status.out);
}

#[test]
fn lists_of_other_languages_are_never_passed_by() {
    let folder = Folder::new();
    let early = folder.file("early.v4", RULES);
    let (client, host) = pair("lists");
    let lists = [
        ("rules.ipf", "block in quick proto udp all\npass in all\n"),
        (
            "rules.ipfw",
            "add 100 deny udp from any to any in\nadd 200 allow ip from any to any\n",
        ),
    ];
    for (name, text) in lists {
        let rules = folder.file(name, text);
        for place in ["tcx", "xdp"] {
            let option = format!("--early-drop={place}");
            let args = ["apply", "--netns", &host.0, &option, &rules];
            let refused = folder.weir(&args).expect(3).err;
            assert!(refused.contains("for rules of iptables"), "{refused}");
        }
        // Behind a policy that dropped early, too.
        let args = ["apply", "--netns", &host.0, "--early-drop=tcx", &early];
        folder.weir(&args).expect(0);
        folder
            .weir(&["apply", "--netns", &host.0, &rules])
            .expect(0);
        send(&client);
        let hits = counted(&folder, &host);
        assert!(hits[0].0 >= DATAGRAMS, "{name}: {hits:?}");
    }
}
