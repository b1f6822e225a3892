//! Checksums of transport headers on the wire: what nobody has looked at before netfilter is summed
//! in the kernel, and wrong is `bad`. Right are those of devices and those not yet filled in.

mod common;

use common::{Background, Folder, Namespace, client_and_host, ip, kernel, until};
use std::fs::File;
use std::io::Write;
use weir_engine::packet::checksum::{finish, pseudo, sum};
use weir_testkit::sys;

/// A datagram, not yet behind a network header.
struct Datagram {
    ends: [std::net::IpAddr; 2],
    port: u16,
    bytes: usize,
}

/// What its checksum is.
#[derive(Clone, Copy)]
enum Sum {
    Right,
    Wrong,
    None,
}

const UDP: u8 = 17;

impl Datagram {
    fn new(ends: [&str; 2], port: u16, bytes: usize) -> Self {
        let ends = ends.map(|end| end.parse().expect("an address"));
        Datagram { ends, port, bytes }
    }

    fn written(&self, how: Sum) -> Vec<u8> {
        let length = 8 + self.bytes as u16;
        let mut out: Vec<u8> = [1024, self.port, length, 0]
            .into_iter()
            .flat_map(u16::to_be_bytes)
            .collect();
        out.extend((0..self.bytes).map(|at| (at % 251) as u8));
        let [from, to] = self.ends.map(|end| match end {
            std::net::IpAddr::V4(four) => four.octets().to_vec(),
            std::net::IpAddr::V6(six) => six.octets().to_vec(),
        });
        let right = finish(sum(&out, pseudo(&from, &to, UDP, length.into())));
        let found = match how {
            Sum::Right => right,
            Sum::Wrong => right ^ 0x0100,
            Sum::None => 0,
        };
        out[6..8].copy_from_slice(&found.to_be_bytes());
        out
    }

    /// Sends it by a raw socket, so that its checksum is what it says.
    fn send(&self, from: &Namespace, how: Sum) {
        assert!(self.is_sent(from, how));
    }

    /// Whether it leaves: the socket is told when its own host's rules block it.
    fn is_sent(&self, from: &Namespace, how: Sum) -> bool {
        let to = match self.ends[1] {
            std::net::IpAddr::V4(four) => format!("IP4-SENDTO:{four}:{UDP}"),
            std::net::IpAddr::V6(six) => format!("IP6-SENDTO:[{six}]:{UDP}"),
        };
        is_sent(from, &to, &self.written(how))
    }
}

/// Sends what is behind a network header, and says whether it left.
fn is_sent(from: &Namespace, to: &str, bytes: &[u8]) -> bool {
    let mut started = from.start(&["socat", "-u", "-", to]);
    let mut pipe = started.0.stdin.take().expect("it is open");
    pipe.write_all(bytes).expect("it reads");
    drop(pipe);
    started.0.wait().expect("it ends").success()
}

/// Hits of the rules of a list, in order.
fn hits(folder: &Folder, netns: &Namespace, list: &str) -> Vec<u64> {
    let args = ["ipfstat", "--netns", &netns.0, list];
    let out = folder.weir(&args).expect(0).out;
    let first = |line: &str| line.split(' ').next().and_then(|word| word.parse().ok());
    out.lines().filter_map(first).collect()
}

fn applied(folder: &Folder, netns: &Namespace, rules: &str) {
    folder.file("rules", rules);
    let args = ["ipf", "--netns", &netns.0, "-Fa", "-f", "rules"];
    folder.weir(&args).expect(0);
}

/// Somebody who takes datagrams of a port, in both families.
fn taking(netns: &Namespace, port: u16) -> Background {
    let started = netns.start(&["socat", "-u", &format!("UDP6-RECV:{port}"), "/dev/null"]);
    let heard = format!("ss -Hlun sport = :{port} | grep -q .");
    until("a listener", 20, || {
        netns.run(&["sh", "-c", &heard]).code == Some(0)
    });
    started
}

const RULES: &str = "block in quick proto udp from any to any with bad\n\
    pass in quick proto udp from any to any port = 7000 keep state\n\
    pass in quick proto udp from any to any port = 7001\n\
    pass in all\npass out all\n";

fn expect(folder: &Folder, netns: &Namespace, wanted: [u64; 3], what: &str) {
    let mut found = Vec::new();
    until(what, 10, || {
        found = hits(folder, netns, "-ih");
        found[..3].iter().sum::<u64>() >= wanted.iter().sum()
    });
    assert_eq!(found[..3], wanted, "{what}");
}

#[test]
fn wrong_checksums_are_bad_on_the_wire() {
    if !kernel("wrong_checksums_are_bad_on_the_wire") {
        return;
    }
    let folder = Folder::new();
    let [client, host] = client_and_host("sums", "10.77.1");
    common::cable6([&client, &host], "veth0", "fd77:1");
    applied(&folder, &host, RULES);
    let _taken = [taking(&host, 7000), taking(&host, 7001)];

    let ends = ["10.77.1.1", "10.77.1.2"];
    for bytes in [0, 1, 119, 120, 121, 1001, 1472] {
        let plain = Datagram::new(ends, 7001, bytes);
        for how in [Sum::Right, Sum::Wrong, Sum::None] {
            plain.send(&client, how);
        }
    }
    expect(&folder, &host, [7, 0, 14], "datagrams of all lengths");
    let six = Datagram::new(["fd77:1::1", "fd77:1::2"], 7001, 33);
    six.send(&client, Sum::Wrong);
    six.send(&client, Sum::Right);
    expect(&folder, &host, [8, 0, 15], "IPv6");

    // A state is not made of a bad packet, and one is not of a state.
    let kept = Datagram::new(ends, 7000, 20);
    kept.send(&client, Sum::Wrong);
    kept.send(&client, Sum::Right);
    kept.send(&client, Sum::Wrong);
    kept.send(&client, Sum::Right);
    expect(&folder, &host, [10, 1, 15], "a state");
    let states = folder.weir(&["ipfstat", "--netns", &host.0, "-sl"]);
    let states = states.expect(0).out;
    assert!(states.contains("FWD: IN pkts 2 bytes 96 "), "{states}");

    // A segment that nobody asked for, and what is said of it.
    let logs = "block in log quick proto tcp from any to any with bad\n\
        pass in quick proto tcp from any to any keep state\n\
        block in log quick proto udp from any to any port = 7002\npass in all\npass out all\n";
    applied(&folder, &host, logs);
    let mut syn: Vec<u8> = [1024, 7003, 0, 1, 0, 0, 0x5002, 8192, 0, 0]
        .into_iter()
        .flat_map(u16::to_be_bytes)
        .collect();
    let addresses = ends.map(|end| end.parse::<std::net::Ipv4Addr>().expect("one").octets());
    let right = finish(sum(&syn, pseudo(&addresses[0], &addresses[1], 6, 20)));
    for found in [right, right ^ 1] {
        syn[16..18].copy_from_slice(&found.to_be_bytes());
        let to = format!("IP4-SENDTO:{}:6", ends[1]);
        assert!(is_sent(&client, &to, &syn));
    }
    for how in [Sum::Wrong, Sum::Right] {
        Datagram::new(ends, 7002, 20).send(&client, how);
    }
    expect(&folder, &host, [1, 1, 2], "segments, and what is logged");
    let summary = folder.weir(&["ipfstat", "--netns", &host.0]).expect(0).out;
    assert!(
        summary.contains("1\tinput TCP checksum failures\n"),
        "{summary}"
    );
    let lines = folder.weir(&[
        "ipmon",
        "--netns",
        &host.0,
        "-n",
        "--count",
        "3",
        "--seconds",
        "20",
    ]);
    let lines = lines.expect(0).out;
    let said: Vec<bool> = lines
        .lines()
        .map(|line| line.ends_with(" IN bad"))
        .collect();
    assert_eq!(said, [true, true, false], "{lines}");

    // What a program sends has no checksum yet when it comes over a cable like this one.
    applied(&folder, &host, RULES);
    client.run(&["bash", "-c", "echo >/dev/udp/10.77.1.2/7001"]);
    expect(&folder, &host, [0, 0, 1], "a program's own");
}

#[test]
fn checksums_are_known_behind_tunnels_and_in_pieces() {
    if !kernel("checksums_are_known_behind_tunnels_and_in_pieces") {
        return;
    }
    let folder = Folder::new();
    let [client, host] = client_and_host("tunnel", "10.77.2");
    // Of what comes out of a tunnel that has checksums itself, the kernel knows the sum; so where
    // they are on the wire.
    let inside = File::open(format!("/run/netns/{}", client.0)).expect("a namespace");
    sys::inside(&inside, || sys::disable_offloads("veth0"))
        .expect("a namespace")
        .expect("a cable");
    for (netns, own, other) in [(&client, 1, 2), (&host, 2, 1)] {
        let name = &netns.0;
        ip(&format!(
            "-n {name} link add vx0 type vxlan id 7 local 10.77.2.{own} remote 10.77.2.{other} \
             dstport 4789 udpcsum"
        ));
        ip(&format!("-n {name} addr add 10.77.3.{own}/24 dev vx0"));
        ip(&format!(
            "-n {name} addr add fd77:3::{own}/64 dev vx0 nodad"
        ));
        ip(&format!("-n {name} link set vx0 up"));
    }
    applied(&folder, &host, RULES);
    let _taken = [taking(&host, 7000), taking(&host, 7001)];
    for ends in [["10.77.3.1", "10.77.3.2"], ["fd77:3::1", "fd77:3::2"]] {
        let inner = Datagram::new(ends, 7001, 301);
        inner.send(&client, Sum::Right);
        inner.send(&client, Sum::Wrong);
        inner.send(&client, Sum::Right);
    }
    expect(&folder, &host, [2, 0, 4], "inner datagrams");

    // What is sent in pieces is one packet to the out list, in several parts of memory.
    applied(
        &folder,
        &client,
        "block out quick proto udp from any to any port = 7001 with bad\n\
         pass out quick proto udp from any to any port = 7001 keep state\n\
         pass in all\n",
    );
    let send = "head -c 3999 /dev/urandom >/dev/udp/10.77.2.2/7001";
    client.run(&["bash", "-c", send]);
    assert_eq!(hits(&folder, &client, "-oh")[..2], [0, 1]);
    let raw = Datagram::new(["10.77.2.1", "10.77.2.2"], 7001, 3999);
    for (how, leaves, wanted) in [(Sum::Wrong, false, [1, 1]), (Sum::Right, true, [1, 2])] {
        assert_eq!(raw.is_sent(&client, how), leaves);
        assert_eq!(hits(&folder, &client, "-oh")[..2], wanted);
    }
}
