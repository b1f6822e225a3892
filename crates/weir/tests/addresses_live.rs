//! Rules that stand for addresses of interfaces follow these while they are enforced, and rules
//! that stay count on while others change.

mod common;

use common::ipfw::{counted, ipfw};
use common::{Folder, Namespace, ip, kernel, reached, until};

/// A namespace with the interfaces d0, which has 10.8.0.1, and d1, which has 10.8.0.2.
fn two_interfaces(label: &str) -> Namespace {
    let netns = Namespace::with_loopback(label);
    let own = |words: &str| ip(&format!("-n {} {words}", netns.0));
    own("link add d0 type veth peer name d1");
    for (name, address) in [("d0", "10.8.0.1/24"), ("d1", "10.8.0.2/24")] {
        own(&format!("addr add {address} dev {name}"));
        own(&format!("link set {name} up"));
    }
    netns
}

/// Lets an address go from one interface to another.
fn moved(netns: &Namespace, address: &str, from: &str, to: &str) {
    for (verb, device) in [("del", from), ("add", to)] {
        ip(&format!(
            "-n {} addr {verb} {address} dev {device}",
            netns.0
        ));
    }
}

#[test]
fn addresses_of_interfaces_are_followed() {
    if !kernel("addresses_of_interfaces_are_followed") {
        return;
    }
    let (folder, netns) = (Folder::new(), two_interfaces("follow"));
    let name = netns.0.as_str();
    folder.file(
        "r",
        "pass in all\npass out all\nblock in quick on lo from any to d0/32\n\
         count in proto icmp from any to d1/network\n",
    );
    folder
        .weir(&["apply", "--dialect", "ipf", "--netns", name, "r"])
        .expect(0);
    let status = || folder.weir(&["status", "--json", "--netns", name]).json();
    let hits = || folder.weir(&["ipfstat", "-ioh", "--netns", name]).expect(0);
    assert!(!reached(&netns, "10.8.0.1") && reached(&netns, "10.8.0.2"));
    let (first, before) = (status(), hits().out);
    moved(&netns, "10.8.0.2/24", "d1", "d0");
    until("10.8.0.2 is d0's", 20, || !reached(&netns, "10.8.0.2"));
    // Its rules have counted on: the echo requests that came before are still there.
    let blocked = |text: &str| -> u64 {
        let line = text.lines().find(|line| line.contains("block in")).unwrap();
        line.split(' ').next().unwrap().parse().unwrap()
    };
    assert!(blocked(&hits().out) > blocked(&before), "{before}");
    assert_ne!(status()["generation"], first["generation"]);
    assert_eq!(status()["sources"], first["sources"]);

    moved(&netns, "10.8.0.1/24", "d0", "d1");
    until("10.8.0.1 is d1's", 20, || reached(&netns, "10.8.0.1"));
    assert!(!reached(&netns, "10.8.0.2"));
    let now = status()["generation"].clone();
    // Addresses that no rule asks for leave everything as it is.
    ip(&format!("-n {} addr add 10.9.0.1/24 dev lo", netns.0));
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert_eq!(status()["generation"], now);
}

#[test]
fn a_trial_goes_on_and_ends_with_the_addresses_of_then() {
    if !kernel("a_trial_goes_on_and_ends_with_the_addresses_of_then") {
        return;
    }
    let (folder, netns) = (Folder::new(), two_interfaces("tried"));
    let name = netns.0.as_str();
    folder.file("old", "pass in all\nblock in on lo from any to d0/32\n");
    folder.file("new", "pass in all\nblock in on lo from any to (d1)\n");
    let apply = |args: &[&str]| {
        let all = [&["apply", "--dialect", "ipf", "--netns", name], args].concat();
        folder.weir(&all).expect(0);
    };
    let status = || folder.weir(&["status", "--json", "--netns", name]).json();
    apply(&["old"]);
    apply(&["--confirm", "12", "new"]);
    assert!(reached(&netns, "10.8.0.1") && !reached(&netns, "10.8.0.2"));
    moved(&netns, "10.8.0.1/24", "d0", "d1");
    until("10.8.0.1 is d1's", 10, || !reached(&netns, "10.8.0.1"));
    let left = status()["trial_seconds_left"].as_u64();
    assert!(left.is_some_and(|left| left <= 12), "{left:?}");
    let refused = folder.weir(&["ipf", "--netns", name, "-Fa"]).expect(1);
    assert!(refused.err.contains("is on trial"), "{refused:?}");
    until("the trial is over", 30, || {
        status()["trial_seconds_left"].is_null()
    });
    until("the old rules are back", 10, || reached(&netns, "10.8.0.2"));
    // d0 has no address now.
    until("with the addresses of now", 10, || {
        reached(&netns, "10.8.0.1")
    });
    moved(&netns, "10.8.0.2/24", "d1", "d0");
    until("10.8.0.2 is d0's", 10, || !reached(&netns, "10.8.0.2"));
}

#[test]
fn an_interface_is_known_by_the_address_that_it_has() {
    if !kernel("an_interface_is_known_by_the_address_that_it_has") {
        return;
    }
    let (folder, netns) = (Folder::new(), two_interfaces("owners"));
    folder.file(
        "rules",
        "add 100 deny icmp from any to any via 10.8.0.5\nadd 200 allow ip from any to any\n",
    );
    let name = netns.0.as_str();
    folder.weir(&["apply", "--netns", name, "rules"]).expect(0);
    assert!(reached(&netns, "10.8.0.1"));
    ip(&format!("-n {} addr add 10.8.0.5/32 dev lo", netns.0));
    until("lo has 10.8.0.5", 20, || !reached(&netns, "10.8.0.1"));
    assert!(counted(&folder, &netns, 100) > 0);
    // A rule that comes later knows the addresses of then, and stays known by them.
    ipfw(
        &folder,
        &netns,
        "add 50 count ip from any to any via 10.8.0.6",
    );
    ip(&format!("-n {} addr add 10.8.0.6/32 dev lo", netns.0));
    until("lo has 10.8.0.6", 20, || {
        reached(&netns, "10.8.0.1");
        counted(&folder, &netns, 50) > 0
    });
}

/// Sends so many datagrams to the host itself, one after the other.
const SENT: u64 = 150_000;

fn sending(netns: &Namespace) -> common::Background {
    let line = format!(
        "exec 3<>/dev/udp/127.0.0.1/9999; for ((i = 0; i < {SENT}; i++)); do echo >&3; done"
    );
    netns.start(&["bash", "-c", &line])
}

#[test]
fn no_packet_is_missed_while_lists_change() {
    if !kernel("no_packet_is_missed_while_lists_change") {
        return;
    }
    let (folder, netns) = (Folder::new(), two_interfaces("counts"));
    let name = netns.0.as_str();
    folder.file(
        "r",
        "pass in quick on lo proto udp from any to any port = 9999\nblock in all\n",
    );
    folder.file("more", "pass in quick on d0 proto tcp from any to any\n");
    let ipf = |args: &[&str]| {
        folder
            .weir(&[&["ipf", "--netns", name], args].concat())
            .expect(0)
    };
    ipf(&["-f", "r"]);
    let mut sender = sending(&netns);
    let mut changes = 0;
    while sender.0.try_wait().unwrap().is_none() {
        ipf(&["-f", "more"]);
        ipf(&["-rf", "more"]);
        changes += 2;
    }
    assert!(changes >= 4, "too fast to tell anything");
    let listed = folder.weir(&["ipfstat", "-ih", "--netns", name]).expect(0);
    let first = listed.out.lines().next().unwrap();
    assert!(first.starts_with(&format!("{SENT} ")), "{changes}: {first}");
}

#[test]
fn no_packet_is_missed_while_numbered_rules_change() {
    if !kernel("no_packet_is_missed_while_numbered_rules_change") {
        return;
    }
    let (folder, netns) = (Folder::new(), two_interfaces("numbers"));
    folder.file(
        "rules",
        "add 100 allow udp from any to any 9999 in\nadd 200 deny icmp from any to any\n\
         add 300 allow ip from any to any\n",
    );
    let name = netns.0.as_str();
    folder.weir(&["apply", "--netns", name, "rules"]).expect(0);
    let mut sender = sending(&netns);
    let mut changes = 0;
    while sender.0.try_wait().unwrap().is_none() {
        ipfw(&folder, &netns, "add 50 count tcp from any to any");
        ipfw(&folder, &netns, "delete 50");
        changes += 2;
    }
    assert!(changes >= 4, "too fast to tell anything");
    assert_eq!(counted(&folder, &netns, 100), SENT, "{changes}");
}

#[test]
fn states_go_on_as_those_of_rules_that_stay() {
    if !kernel("states_go_on_as_those_of_rules_that_stay") {
        return;
    }
    let (folder, netns) = (Folder::new(), two_interfaces("stay"));
    let name = netns.0.as_str();
    folder.file(
        "r",
        "pass out quick on lo proto udp from any to any port = 9999 keep state (limit 1)\n",
    );
    folder.file("more", "@0 pass in quick on d0 proto tcp all keep state\n");
    let ipf = |args: &[&str]| {
        folder
            .weir(&[&["ipf", "--netns", name], args].concat())
            .expect(0)
    };
    let stat = |args: &[&str]| {
        folder
            .weir(&[&["ipfstat", "--netns", name], args].concat())
            .expect(0)
    };
    let active = || stat(&["-s"]).out.lines().next().unwrap().to_owned();
    let rule = "pass out quick on lo proto udp from any to any port = 9999 keep state (limit 1)";
    let of_rule = || stat(&["-ovh"]).out;
    let send = || netns.run(&["bash", "-c", "echo > /dev/udp/127.0.0.1/9999"]);
    ipf(&["-f", "r"]);
    send();
    assert_eq!(of_rule(), format!("1 {rule} # count 1\n"));
    assert_eq!(active(), "1\tactive entries");
    ipf(&["-f", "more"]);
    assert_eq!(of_rule(), format!("1 {rule} # count 1\n"));
    // There is no more room for a state of this rule.
    send();
    assert_eq!(active(), "1\tactive entries");
    // Flushed rules are others, whatever they say.
    ipf(&["-Fa", "-f", "r"]);
    assert_eq!(of_rule(), format!("0 {rule} # count 0\n"));
    send();
    assert_eq!(active(), "2\tactive entries");
    assert_eq!(of_rule(), format!("1 {rule} # count 1\n"));
}
