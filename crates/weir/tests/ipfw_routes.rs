//! `verrevpath`, `antispoof` and `versrcreach` of ipfw, and `with bad-src` of IPFilter, in the
//! kernel: real packets with right and with spoofed sources of both families, on two cables and on
//! the loopback interface, while routes and addresses change. The counters say what the rules took
//! each packet for.

mod common;

use common::{Folder, Namespace, cable, cable6, ip, ipfw, kernel};

/// A client with two cables to a host, whose default routes are by the second one. The client has
/// addresses of everybody.
struct Lab {
    client: Namespace,
    host: Namespace,
    folder: Folder,
}

impl Lab {
    fn new(label: &str) -> Self {
        let [client, host] = ["c", "h"].map(|end| Namespace::new(&[label, end].concat()));
        for (name, net) in [("left0", 82), ("right0", 83)] {
            cable(
                (&client, name, &format!("10.{net}.0.1/24")),
                (&host, name, &format!("10.{net}.0.2/24")),
            );
            cable6([&client, &host], name, &format!("fd{net}"));
            for (end, last) in [(&client, 1), (&host, 2)] {
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
        ipfw::apply(&self.folder, &self.host, rules);
    }

    /// Packets of some rules.
    fn packets<const N: usize>(&self, rules: [u64; N]) -> [u64; N] {
        let all = ipfw::packets(&self.folder, &self.host);
        rules.map(|rule| all[&rule])
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

#[test]
fn sources_are_reached_by_other_routes_than_the_default_one() {
    if !kernel("sources_are_reached_by_other_routes_than_the_default_one") {
        return;
    }
    let lab = Lab::new("ipfwsr");
    ip(&format!(
        "-n {} addr add 100.64.0.9/32 dev lo",
        lab.client.0
    ));
    lab.apply(&rules("versrcreach", ""));
    let check = |expected: &[(&str, &str, &str)]| {
        for (from, to, what) in expected {
            let met = lab.met(from, to);
            let same = met == *what || *what == "passed" && met == "answered";
            assert!(same, "{from} > {to}: {met}, not {what}");
        }
    };
    let far = |what| {
        check(&[
            ("203.0.113.9", "10.83.0.2", what),
            ("203.0.113.9", "10.82.0.2", what),
            ("2001:db8::9", "fd83::2", what),
            ("2001:db8::9", "fd82::2", what),
        ]);
    };
    check(&[
        ("10.82.0.1", "10.82.0.2", "answered"),
        ("fd82::1", "fd82::2", "answered"),
        // Another cable's network, and the host itself.
        ("10.83.0.9", "10.82.0.2", "passed"),
        ("fd83::9", "fd82::2", "passed"),
        ("10.83.0.3", "10.82.0.2", "passed"),
        ("fd83::3", "fd82::2", "passed"),
    ]);
    far("denied");
    let before = lab.packets([110, 210]);
    assert!(lab.ping(&["-I", "left0", "fe80::82:2"]));
    assert_eq!(lab.packets([110, 210]), [before[0], before[1] + 1]);
    let change = |what: &str| ip(&format!("-n {} {what}", lab.host.0));
    change("route add 203.0.113.0/24 via 10.83.0.1");
    change("-6 route add 2001:db8::/32 via fd83::1");
    far("answered");
    // The longest one says it, also where it refuses.
    for kind in ["blackhole", "unreachable", "prohibit"] {
        change(&format!("route add {kind} 203.0.113.8/30"));
        change(&format!("-6 route add {kind} 2001:db8::8/125"));
        far("denied");
        change(&format!("route del {kind} 203.0.113.8/30"));
        change(&format!("-6 route del {kind} 2001:db8::8/125"));
    }
    far("answered");
    change("route del 203.0.113.0/24");
    change("-6 route del 2001:db8::/32");
    far("denied");
    // Halves of the world are no default route, as on FreeBSD.
    check(&[("100.64.0.9", "10.83.0.2", "denied")]);
    change("route add 0.0.0.0/1 via 10.83.0.1");
    check(&[("100.64.0.9", "10.83.0.2", "answered")]);
    far("denied");
    change("route add 128.0.0.0/1 via 10.83.0.1");
    change("-6 route add ::/2 via fd83::1");
    far("answered");
    let [denied, sent] = lab.packets([300, 310]);
    assert!(denied == 0 && sent > 8, "{denied} {sent}");
}

/// Numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// A route of a family of so many bits: the prefix, its length, whether it leads anywhere.
struct Prefix {
    bits: u32,
    address: u128,
    length: u32,
    kind: &'static str,
}

impl Prefix {
    fn random(numbers: &mut Numbers, bits: u32) -> Self {
        let length = match numbers.below(3) {
            0 => 1 + numbers.below(u64::from(bits)) as u32,
            _ => 9 + numbers.below(u64::from(bits) - 8) as u32,
        };
        let kinds = [
            "unicast",
            "unicast",
            "unicast",
            "blackhole",
            "throw",
            "prohibit",
        ];
        Prefix {
            bits,
            address: address(numbers, bits) & Self::mask(bits, length),
            length,
            kind: kinds[numbers.below(6) as usize],
        }
    }

    fn mask(bits: u32, length: u32) -> u128 {
        u128::MAX >> (128 - bits) & !(u128::MAX.checked_shr(128 - bits + length).unwrap_or(0))
    }

    fn covers(&self, other: u128) -> bool {
        other & Self::mask(self.bits, self.length) == self.address
    }

    fn words(&self) -> String {
        let way = match (self.kind, self.bits) {
            ("unicast", 32) => " via 10.83.0.1",
            ("unicast", _) => " via fd83::1",
            _ => "",
        };
        let prefix = written(self.bits, self.address);
        format!(
            "route replace {} {prefix}/{}{way}\n",
            self.kind, self.length
        )
    }
}

fn written(bits: u32, address: u128) -> String {
    match bits {
        32 => std::net::Ipv4Addr::from(address as u32).to_string(),
        _ => std::net::Ipv6Addr::from(address).to_string(),
    }
}

/// Addresses that are near each other, so that routes to them stand one within another.
fn address(numbers: &mut Numbers, bits: u32) -> u128 {
    let first = [5, 100, 130, 203][numbers.below(4) as usize];
    let sparse = numbers.next() & numbers.next() & 0x00ff_ffff;
    match bits {
        32 => first << 24 | u128::from(sparse),
        _ => {
            let low = u128::from(numbers.next() & numbers.next());
            (0x2000 | first) << 112 | u128::from(sparse) << 88 | low
        }
    }
}

/// Sends one request from each address, and says which of them were reached.
fn reached(lab: &Lab, sources: &[String]) -> Vec<bool> {
    let rules: String = (1000..)
        .zip(sources)
        .map(|(number, from)| format!("add {number} count ip from {from} to any in versrcreach\n"))
        .chain(["add 65000 allow ip from any to any\n".to_owned()])
        .collect();
    lab.apply(&rules);
    for part in sources.chunks(40) {
        let pings: String = part
            .iter()
            .map(|from| {
                let to = if from.contains(':') {
                    "fd82::2"
                } else {
                    "10.82.0.2"
                };
                format!("ping -n -q -c 1 -W 0.1 -I {from} {to} & ")
            })
            .collect();
        lab.client
            .run(&["sh", "-c", &format!("({pings} wait) >/dev/null 2>&1")]);
    }
    let all = ipfw::packets(&lab.folder, &lab.host);
    let numbers = 1000..1000 + sources.len() as u64;
    numbers.map(|number| all[&number] > 0).collect()
}

#[test]
fn the_longest_of_many_routes_says_whether_a_source_is_reached() {
    if !kernel("the_longest_of_many_routes_says_whether_a_source_is_reached") {
        return;
    }
    let lab = Lab::new("ipfwsl");
    // Its own, on no other network.
    ip(&format!(
        "-n {} addr add 198.51.100.77/32 dev lo",
        lab.host.0
    ));
    ip(&format!(
        "-n {} addr add fd77::7/128 dev lo nodad",
        lab.host.0
    ));
    let mut numbers = Numbers(7);
    let mut sources = vec!["198.51.100.77".to_owned(), "fd77::7".to_owned()];
    let mut expected = vec![true, true];
    for bits in [32, 128] {
        let mut routes: Vec<Prefix> = Vec::new();
        while routes.len() < 300 {
            let one = Prefix::random(&mut numbers, bits);
            let same = |old: &&Prefix| (old.address, old.length) == (one.address, one.length);
            if routes.iter().find(same).is_none() {
                routes.push(one);
            }
        }
        let family = if bits == 32 { "-4" } else { "-6" };
        let batch: String = routes.iter().map(Prefix::words).collect();
        let file = lab.folder.file(&format!("routes{bits}"), &batch);
        let path = lab.folder.0.join(file);
        ip(&format!(
            "-n {} {family} -batch {}",
            lab.host.0,
            path.display()
        ));
        for number in 0..100 {
            let mut source = address(&mut numbers, bits);
            if number % 2 == 0 {
                let within = &routes[numbers.below(300) as usize];
                let mask = Prefix::mask(bits, within.length);
                source = within.address | source & !mask & Prefix::mask(bits, bits);
            }
            let mut covering: Vec<&Prefix> = routes.iter().filter(|r| r.covers(source)).collect();
            covering.sort_by_key(|route| route.length);
            let from = written(bits, source);
            let first = source >> (bits - 8);
            let sent = if bits == 32 {
                (1..127).contains(&first) || (128..224).contains(&first)
            } else {
                first != 0xff && first != 0 && source >> 118 != 0xfe80 >> 6
            };
            if sent && !sources.contains(&from) {
                expected.push(covering.last().is_some_and(|route| route.kind == "unicast"));
                sources.push(from);
            }
        }
    }
    let own = sources
        .iter()
        .map(|from| format!("addr add {from} dev lo\n"));
    lab.folder.file("own", &own.collect::<String>());
    let path = lab.folder.0.join("own");
    ip(&format!("-n {} -batch {}", lab.client.0, path.display()));
    let both = expected.iter().filter(|one| **one).count();
    assert!((40..160).contains(&both), "{both}");
    for round in ["one table", "two tables"] {
        if round == "two tables" {
            // A rule of policy routing takes the host's own addresses out of the table `main`.
            let rule = "rule add pref 100 from 198.18.0.9 lookup 100";
            ip(&format!("-n {} {rule}", lab.host.0));
        }
        let found = reached(&lab, &sources);
        let wrong: Vec<_> = (0..sources.len())
            .filter(|at| found[*at] != expected[*at])
            .map(|at| (&sources[at], expected[at]))
            .collect();
        assert_eq!(wrong, [], "{round}");
    }
}

#[test]
fn sources_that_ipf_checks_are_bad_where_they_come_by_another_interface() {
    if !kernel("sources_that_ipf_checks_are_bad_where_they_come_by_another_interface") {
        return;
    }
    let lab = Lab::new("ipfbs");
    let apply = |set: &str, keep: &str| {
        let request = |proto: &str, kind: &str, rest: &str| {
            format!("quick proto {proto} from any to any icmp-type {kind}{rest}\n")
        };
        let mut rules = format!("{set}\n");
        for (proto, kind) in [("icmp", "8"), ("ipv6-icmp", "128")] {
            rules += &format!("block in {}", request(proto, kind, " with bad-src"));
            rules += &format!("pass in {}", request(proto, kind, keep));
        }
        rules += "pass in quick all\npass out quick all\n";
        lab.folder.file("rules.ipf", &rules);
        let args = ["apply", "--netns", &lab.host.0, "rules.ipf"];
        lab.folder.weir(&args).expect(0);
    };
    let right = [
        ("10.82.0.1", "10.82.0.2"),
        ("fd82::1", "fd82::2"),
        ("203.0.113.9", "10.83.0.2"),
        ("2001:db8::9", "fd83::2"),
    ];
    let wrong = [("203.0.113.9", "10.82.0.2"), ("2001:db8::9", "fd82::2")];
    let ping = |(from, to): (&str, &str)| lab.ping(&["-I", from, to]);
    // Without the setting no source is bad.
    apply("", "");
    assert!(right.into_iter().chain(wrong).all(ping));
    for keep in ["", " keep state"] {
        apply("set chksrc 1;", keep);
        assert!(right.into_iter().all(ping), "{keep}");
        assert!(!wrong.into_iter().any(ping), "{keep}");
    }
}
