//! `verrevpath` and `antispoof` in the kernel: real packets with right and with spoofed sources of
//! both families, on two cables and on the loopback interface, while routes and addresses change.
//! The counters say what the rules took each packet for.

mod common;

use common::{Folder, Namespace, cable, ip, kernel};

/// A client with two cables to a host, whose default routes are by the second one. The client has
/// addresses of everybody.
struct Lab {
    client: Namespace,
    host: Namespace,
    folder: Folder,
}

impl Lab {
    fn new(label: &str) -> Self {
        let (client, host) = (
            Namespace::new(&[label, "c"].concat()),
            Namespace::new(&[label, "h"].concat()),
        );
        for (name, net) in [("left0", 82), ("right0", 83)] {
            cable(
                (&client, name, &format!("10.{net}.0.1/24")),
                (&host, name, &format!("10.{net}.0.2/24")),
            );
            for (end, last) in [(&client, 1), (&host, 2)] {
                ip(&format!(
                    "-n {} addr add fd{net}::{last}/64 dev {name} nodad",
                    end.0
                ));
                ip(&format!(
                    "-n {} addr add fe80::{net}:{last}/64 dev {name} nodad",
                    end.0
                ));
            }
            for address in [format!("10.{net}.0.3/24"), format!("fd{net}::3/64 nodad")] {
                ip(&format!("-n {} addr add {address} dev {name}", host.0));
            }
        }
        ip(&format!("-n {} route add default via 10.83.0.1", host.0));
        ip(&format!("-n {} -6 route add default via fd83::1", host.0));
        let others = [
            "10.82.0.9",
            "10.83.0.9",
            "10.82.0.3",
            "10.83.0.3",
            "203.0.113.9",
        ];
        let others6 = ["fd82::9", "fd83::9", "fd82::3", "fd83::3", "2001:db8::9"];
        for address in others {
            ip(&format!("-n {} addr add {address}/32 dev lo", client.0));
        }
        for address in others6 {
            ip(&format!(
                "-n {} addr add {address}/128 dev lo nodad",
                client.0
            ));
        }
        let lab = Lab {
            client,
            host,
            folder: Folder::new(),
        };
        // Both ends know each other's hardware addresses from here on.
        for to in ["10.82.0.2", "10.83.0.2", "fd82::2", "fd83::2"] {
            assert!(lab.ping(&[to]), "{to}");
        }
        lab
    }

    /// One request; whether an answer comes.
    fn ping(&self, words: &[&str]) -> bool {
        let all = [&["ping", "-n", "-q", "-c", "1", "-W", "0.5"], words].concat();
        self.client.run(&all).code == Some(0)
    }

    fn apply(&self, rules: &str) {
        self.folder.file("rules.ipfw", rules);
        let args = ["apply", "--netns", &self.host.0, "rules.ipfw"];
        self.folder.weir(&args).expect(0);
    }

    /// Packets of some rules.
    fn packets<const N: usize>(&self, rules: [u64; N]) -> [u64; N] {
        let args = ["counters", "--rules", "--json", "--netns", &self.host.0];
        let lines = self.folder.weir(&args).expect(0).json();
        let lines = lines.as_array().unwrap();
        rules.map(|rule| {
            let line = lines.iter().find(|line| line["index"] == rule);
            line.expect("a rule")["packets"].as_u64().unwrap()
        })
    }

    /// Sends one request from an address to an address, and says which of the rules 100 (denied)
    /// and 200 (counted) took it; for IPv6 110 and 210.
    fn met(&self, from: &str, to: &str) -> &'static str {
        let rules = match from.contains(':') {
            false => [100, 200],
            true => [110, 210],
        };
        let before = self.packets(rules);
        let answered = self.ping(&["-I", from, to]);
        let after = self.packets(rules);
        match (after[0] - before[0], after[1] - before[1], answered) {
            (1, 0, false) => "denied",
            (0, 1, true) => "answered",
            (0, 1, false) => "passed",
            other => panic!("{from} > {to}: {other:?}"),
        }
    }
}

/// Requests alone are asked, so that neighbour discovery and answers go through; no packet that
/// leaves has a false source.
fn rules(asked: &str, more: &str) -> String {
    format!(
        "{more}\
         add 100 deny icmp from any to any icmptypes 8 not {asked} in\n\
         add 110 deny ipv6-icmp from any to any icmp6types 128 not {asked} in\n\
         add 200 count icmp from any to any icmptypes 8 {asked} in\n\
         add 210 count ipv6-icmp from any to any icmp6types 128 {asked} in\n\
         add 300 deny ip from any to any not {asked} out\n\
         add 310 count ip from any to any {asked} out\n\
         add 400 allow ip from any to any\n"
    )
}

/// What `verrevpath` says of requests on both cables.
fn check_paths(lab: &Lab) {
    for (from, to, what) in [
        ("10.82.0.1", "10.82.0.2", "answered"),
        ("fd82::1", "fd82::2", "answered"),
        ("10.83.0.9", "10.83.0.2", "passed"),
        ("203.0.113.9", "10.83.0.2", "answered"),
        ("2001:db8::9", "fd83::2", "answered"),
        // Spoofed: another cable's network, and what is behind the default route.
        ("10.83.0.9", "10.82.0.2", "denied"),
        ("fd83::9", "fd82::2", "denied"),
        ("10.82.0.9", "10.83.0.2", "denied"),
        ("fd82::9", "fd83::2", "denied"),
        ("203.0.113.9", "10.82.0.2", "denied"),
        ("2001:db8::9", "fd82::2", "denied"),
        // The host's own addresses are those of one interface.
        ("10.82.0.3", "10.83.0.2", "denied"),
        ("10.82.0.3", "10.82.0.2", "passed"),
        ("fd82::3", "fd83::2", "denied"),
        ("fd82::3", "fd82::2", "passed"),
    ] {
        let met = lab.met(from, to);
        // Whether an answer finds the client is not the filter's matter.
        let same = met == what || what == "passed" && met == "answered";
        assert!(same, "{from} > {to}: {met}, not {what}");
    }
    // Of a link: by whichever one it came.
    let before = lab.packets([110, 210]);
    assert!(lab.ping(&["-I", "left0", "fe80::82:2"]));
    assert!(lab.ping(&["-I", "right0", "fe80::83:2"]));
    assert_eq!(lab.packets([110, 210]), [before[0], before[1] + 2]);
    let [denied, sent] = lab.packets([300, 310]);
    assert!(denied == 0 && sent > 8, "{denied} {sent}");
}

#[test]
fn sources_come_by_the_interface_that_their_route_leaves_by() {
    if !kernel("sources_come_by_the_interface_that_their_route_leaves_by") {
        return;
    }
    let lab = Lab::new("ipfwrp");
    lab.apply(&rules("verrevpath", ""));
    check_paths(&lab);
    // Routes that come and go are seen at once.
    let route = |what: &str| ip(&format!("-n {} {what}", lab.host.0));
    route("route add 203.0.113.0/24 via 10.82.0.1");
    route("-6 route add 2001:db8::/32 via fd82::1");
    assert_eq!(lab.met("203.0.113.9", "10.82.0.2"), "answered");
    assert_eq!(lab.met("203.0.113.9", "10.83.0.2"), "denied");
    assert_eq!(lab.met("2001:db8::9", "fd82::2"), "answered");
    assert_eq!(lab.met("2001:db8::9", "fd83::2"), "denied");
    route("route del 203.0.113.0/24");
    route("-6 route del 2001:db8::/32");
    route("route add blackhole 203.0.113.0/24");
    route("-6 route add blackhole 2001:db8::/32");
    assert_eq!(lab.met("203.0.113.9", "10.83.0.2"), "denied");
    assert_eq!(lab.met("2001:db8::9", "fd83::2"), "denied");
    route("route del blackhole 203.0.113.0/24");
    route("-6 route del blackhole 2001:db8::/32");
    // The same where the list is run on the way in of the interface, because of its marks.
    lab.apply(&rules(
        "verrevpath",
        "add 50 setmark 7 ip from any to any in\n",
    ));
    check_paths(&lab);
    let unload = ["unload", "--netns", &lab.host.0];
    lab.folder.weir(&unload).expect(0);
    assert!(lab.ping(&["10.82.0.2"]));
}

#[test]
fn the_loopback_interface_has_its_own_sources() {
    if !kernel("the_loopback_interface_has_its_own_sources") {
        return;
    }
    let lab = Lab::new("ipfwlo");
    lab.apply(&rules("verrevpath", ""));
    let ping = |to: &str| {
        let words = ["ping", "-n", "-q", "-c", "1", "-W", "0.5", to];
        lab.host.run(&words).code == Some(0)
    };
    assert!(ping("127.0.0.1") && ping("127.0.0.5") && ping("::1"));
    assert_eq!(lab.packets([100, 200, 110, 210]), [0, 2, 0, 1]);
    // Addresses of other interfaces are not those of `lo`, as on FreeBSD.
    assert!(!ping("10.82.0.2") && !ping("fd82::2"));
    assert_eq!(lab.packets([100, 200, 110, 210]), [1, 2, 1, 1]);
    lab.apply(&rules(
        "verrevpath",
        "add 50 allow ip from any to any via lo\n",
    ));
    assert!(ping("10.82.0.2") && ping("fd82::2"));
}

#[test]
fn neighbours_come_by_the_interface_of_their_network() {
    if !kernel("neighbours_come_by_the_interface_of_their_network") {
        return;
    }
    let lab = Lab::new("ipfwas");
    lab.apply(&rules("antispoof", ""));
    for (from, to, what) in [
        ("10.82.0.1", "10.82.0.2", "answered"),
        ("fd82::1", "fd82::2", "answered"),
        // From far away, by any interface.
        ("203.0.113.9", "10.82.0.2", "answered"),
        ("203.0.113.9", "10.83.0.2", "answered"),
        ("2001:db8::9", "fd82::2", "answered"),
        ("2001:db8::9", "fd83::2", "answered"),
        // Neighbours of the other cable, and the host itself.
        ("10.83.0.9", "10.82.0.2", "denied"),
        ("fd83::9", "fd82::2", "denied"),
        ("10.83.0.3", "10.82.0.2", "denied"),
        ("fd83::3", "fd82::2", "denied"),
    ] {
        assert_eq!(lab.met(from, to), what, "{from} > {to}");
    }
    let change = |what: &str| ip(&format!("-n {} {what}", lab.host.0));
    // A part of a connected network that is routed elsewhere is connected all the same.
    change("route add 10.82.0.0/28 via 10.83.0.1");
    change("-6 route add fd82::/96 via fd83::1");
    assert_eq!(lab.met("10.82.0.9", "10.82.0.2"), "denied");
    assert_eq!(lab.met("fd82::9", "fd82::2"), "denied");
    assert_eq!(lab.met("10.82.0.9", "10.83.0.2"), "answered");
    assert_eq!(lab.met("fd82::9", "fd83::2"), "answered");
    change("route del 10.82.0.0/28");
    change("-6 route del fd82::/96");
    // Addresses that go take their networks along, at once.
    for address in ["10.83.0.3/24", "10.83.0.2/24", "fd83::3/64", "fd83::2/64"] {
        change(&format!("addr del {address} dev right0"));
    }
    assert_ne!(lab.met("10.83.0.9", "10.82.0.2"), "denied");
    assert_ne!(lab.met("fd83::9", "fd82::2"), "denied");
    let [denied, sent] = lab.packets([300, 310]);
    assert!(denied == 0 && sent > 8, "{denied} {sent}");
}
