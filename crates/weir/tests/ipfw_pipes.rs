//! Pipes and queues of ipfw in the kernel: real traffic through them, with wide bounds on time;
//! what stands on interfaces, and goes away again; listings; what somebody put on an interface
//! himself.

mod common;

use common::ipfw::{apply, run as ipfw, try_apply};
use common::{Folder, Namespace, client_and_host, client_gateway_server, kernel, until_heard};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The roots of the queueing disciplines of an interface, in tc's words.
fn roots(netns: &Namespace, interface: &str) -> String {
    let shown = netns.run(&["tc", "qdisc", "show", "dev", interface]);
    let lines = shown.expect(0).out;
    lines
        .lines()
        .filter(|line| line.contains(" root "))
        .collect()
}

/// A client and a host with a cable: 10.76.`net`.1 and .2.
fn pair(label: &str, net: u8) -> (Namespace, Namespace, Folder) {
    let [client, host] = client_and_host(label, &format!("10.76.{net}"));
    (client, host, Folder::new())
}

/// A flow of a listing: packets, bytes, dropped packets.
fn flow(listing: &str, source: &str) -> Option<(u64, u64, u64)> {
    let line = listing.lines().find(|line| line.contains(source))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |at: usize| words.get(at)?.parse().ok();
    Some((number(4)?, number(5)?, number(8)?))
}

/// Somebody who takes one conversation on a port, all of it.
fn taking(netns: &Namespace, port: u16) -> Child {
    let listen = format!("TCP-LISTEN:{port},reuseaddr");
    let words = [
        "netns",
        "exec",
        &netns.0,
        "timeout",
        "40",
        "socat",
        "-u",
        &listen,
        "OPEN:/dev/null",
    ];
    let child = Command::new("ip")
        .args(words)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    until_heard(netns, port);
    child
}

/// How long a megabyte takes to somebody's port.
fn megabyte(from: &Namespace, to: &Namespace, address: &str, port: u16) -> Duration {
    let mut taker = taking(to, port);
    let begin = Instant::now();
    let script = format!("head -c 1000000 /dev/zero | timeout 30 socat -u - TCP:{address}:{port}");
    from.run(&["sh", "-c", &script]).expect(0);
    assert!(taker.wait().unwrap().success());
    begin.elapsed()
}

#[test]
fn what_leaves_by_a_pipe_has_its_rate() {
    if !kernel("what_leaves_by_a_pipe_has_its_rate") {
        return;
    }
    let (client, host, folder) = pair("pipeout", 1);
    let rules = "\
pipe 1 config bw 8Mbit/s
add 100 pipe 1 tcp from me to any out xmit veth0
add 200 allow ip from any to any
";
    assert!(!roots(&host, "veth0").contains("htb"));
    apply(&folder, &host, rules);
    assert!(
        roots(&host, "veth0").contains("htb 7e1f:"),
        "{}",
        roots(&host, "veth0")
    );
    // 8 Mbit/s are a megabyte a second; what a queue holds may be ahead of the rate.
    let slow = megabyte(&host, &client, "10.76.1.1", 7001);
    assert!(slow > Duration::from_millis(850), "{slow:?}");
    assert!(slow < Duration::from_secs(12), "{slow:?}");
    let shown = ipfw(&folder, &host, "pipe 1 show").expect(0).out;
    assert!(
        shown.starts_with("00001:   8.000 Mbit/s    0 ms burst 0\n"),
        "{shown}"
    );
    assert!(
        shown.contains(" sched 65537 type FIFO flags 0x0 0 buckets 1 active\n"),
        "{shown}"
    );
    let (_, bytes, _) = flow(&shown, "0.0.0.0/0").unwrap();
    assert!((1_000_000..3_000_000).contains(&bytes), "{shown}");
    let status = folder.weir(&["status", "--netns", &host.0]).expect(0).out;
    assert!(status.contains("shaped: veth0, 1 class, "), "{status}");
    // A change of a pipe in force, whose counts go on.
    ipfw(&folder, &host, "pipe 1 config bw 800Mbit/s").expect(0);
    let shown = ipfw(&folder, &host, "pipe show").expect(0).out;
    assert!(shown.starts_with("00001: 800.000 Mbit/s "), "{shown}");
    assert!(flow(&shown, "0.0.0.0/0").unwrap().1 >= bytes, "{shown}");
    let fast = megabyte(&host, &client, "10.76.1.1", 7002);
    assert!(fast < slow, "{fast:?} {slow:?}");
    // Nothing of ours stays, and what was there is there again.
    folder.weir(&["unload", "--netns", &host.0]).expect(0);
    assert!(!roots(&host, "veth0").contains("htb"));
}

#[test]
fn what_comes_in_by_a_pipe_has_its_rate() {
    if !kernel("what_comes_in_by_a_pipe_has_its_rate") {
        return;
    }
    let (client, host, folder) = pair("pipein", 2);
    let rules = "\
pipe 1 config bw 80Kbit/s queue 5
pipe 2 config bw 80Kbit/s queue 5 mask dst-port 0xffff
add 100 pipe 1 udp from any to me 9 in
add 110 pipe 2 udp from any to me 1000-1001 in
add 200 allow ip from any to any
";
    apply(&folder, &host, rules);
    // Nothing waits on the way in.
    assert!(!roots(&host, "veth0").contains("htb"));
    let begin = Instant::now();
    let script = "p=$(head -c 972 /dev/zero | tr '\\0' x); for port in 9 1000 1001; do \
                  exec 3<>/dev/udp/10.76.2.2/$port; \
                  for i in $(seq 100); do printf %s \"$p\" >&3 || :; done; done";
    client.run(&["bash", "-c", script]).expect(0);
    let shown = ipfw(&folder, &host, "pipe show").expect(0).out;
    let most = 7 + begin.elapsed().as_millis() as u64 / 100;
    for source in ["0.0.0.0/0 ", "0.0.0.0/1000", "0.0.0.0/1001"] {
        let (packets, bytes, dropped) = flow(&shown, source).unwrap();
        // A socket that hears that nobody listens skips a packet.
        assert!((50..=100).contains(&packets), "{source}: {shown}");
        assert_eq!(bytes, packets * 1000, "{source}: {shown}");
        // One on the link and five that wait, and what the link sent meanwhile.
        assert!(
            (6..=most).contains(&(packets - dropped)),
            "{source} {most}: {shown}"
        );
    }
    folder.weir(&["unload", "--netns", &host.0]).expect(0);
}

#[test]
fn packets_go_on_behind_a_pipe_without_one_pass() {
    if !kernel("packets_go_on_behind_a_pipe_without_one_pass") {
        return;
    }
    let [client, gateway, server] = client_gateway_server("pipethrough", 75);
    let folder = Folder::new();
    let rules = "\
disable one_pass
pipe 1 config bw 100Mbit/s
pipe 2 config bw 50Mbit/s
pipe 3 config
add 100 pipe 1 icmp from any to any in recv inside0
add 110 pipe 2 icmp from any to any out xmit outside0
add 120 pipe 3 icmp from any to any
add 200 allow ip from any to any
";
    apply(&folder, &gateway, rules);
    assert!(roots(&gateway, "outside0").contains("htb 7e1f:"));
    assert!(!roots(&gateway, "inside0").contains("htb"));
    let ping = [
        "ping",
        "-n",
        "-q",
        "-c",
        "4",
        "-i",
        "0.02",
        "-W",
        "2",
        "10.75.2.1",
    ];
    client.run(&ping).expect(0);
    let shown = |number: u32| {
        let shown = ipfw(&folder, &gateway, &format!("pipe {number} show"))
            .expect(0)
            .out;
        flow(&shown, "0.0.0.0/0").unwrap().0
    };
    // Questions in and out, answers in and out by the third alone.
    assert_eq!([1, 2, 3].map(shown), [4, 4, 16]);
    drop(server);
}

#[test]
fn queues_share_a_pipe_by_their_weights() {
    if !kernel("queues_share_a_pipe_by_their_weights") {
        return;
    }
    let (client, host, folder) = pair("pipequeue", 3);
    let rules = "\
pipe 5 config bw 8Mbit/s
queue 1 config pipe 5 weight 30
queue 2 config pipe 5 weight 10 queue 20
add 100 queue 1 tcp from any to any 7001 out xmit veth0
add 110 queue 2 tcp from any to any 7002 out xmit veth0
add 200 allow ip from any to any
";
    apply(&folder, &host, rules);
    let mut takers = [7001, 7002].map(|port| taking(&client, port));
    let begin = Instant::now();
    let script = "for port in 7001 7002; do \
                  timeout 3 socat -u OPEN:/dev/zero TCP:10.76.3.1:$port & done; wait";
    host.run(&["sh", "-c", script]);
    let shown = ipfw(&folder, &host, "queue show").expect(0).out;
    let elapsed = begin.elapsed().as_secs_f64();
    for taker in &mut takers {
        let _ = taker.kill();
        let _ = taker.wait();
    }
    let listed: Vec<&str> = shown.split("q0000").collect();
    let [first, second] = [1, 2].map(|at| {
        assert!(listed[at].contains("sched 5 weight"), "{shown}");
        flow(listed[at], "0.0.0.0/0").unwrap().1 as f64
    });
    let share = first / second;
    assert!((2.0..4.5).contains(&share), "{share}: {shown}");
    let most = elapsed * 1e6 * 1.1 + 200_000.0;
    assert!(first + second < most, "{elapsed}: {shown}");
    assert!(first + second > 1e6, "{elapsed}: {shown}");
}

#[test]
fn what_somebody_put_on_an_interface_is_not_touched() {
    if !kernel("what_somebody_put_on_an_interface_is_not_touched") {
        return;
    }
    let (_client, host, folder) = pair("pipeown", 4);
    let words = "qdisc add dev veth0 root handle 1: tbf rate 10mbit burst 10k latency 50ms";
    let tc: Vec<&str> = ["tc"].into_iter().chain(words.split(' ')).collect();
    host.run(&tc).expect(0);
    let plain = "add 200 allow ip from any to any\n";
    let rules = "pipe 1 config bw 8Mbit/s\nadd 100 pipe 1 ip from any to any out\n";
    let before = roots(&host, "veth0");
    let refused = try_apply(&folder, &host, &[rules, plain].concat());
    assert!(refused.code != Some(0), "{refused:?}");
    let says = ["veth0", "tbf 1:", "tc qdisc del dev veth0 root"];
    assert!(
        says.iter().all(|word| refused.err.contains(word)),
        "{refused:?}"
    );
    folder.weir(&["status", "--netns", &host.0]).expect(1);
    // What is in force stays in force.
    apply(&folder, &host, plain);
    assert!(ipfw(&folder, &host, "pipe 1 config bw 1Mbit/s").code == Some(0));
    let refused = ipfw(&folder, &host, "add 100 pipe 1 ip from any to any out");
    assert!(refused.err.contains("tc qdisc del"), "{refused:?}");
    assert!(!ipfw(&folder, &host, "list").expect(0).out.contains("00100"));
    assert_eq!(roots(&host, "veth0"), before);
    // On another interface it is no trouble; and it outlives all processes of weir.
    ipfw(
        &folder,
        &host,
        "add 100 pipe 1 ip from any to any out xmit lo",
    )
    .expect(0);
    assert!(roots(&host, "lo").contains("htb 7e1f:"));
    let status = folder.weir(&["status", "--json", "--netns", &host.0]);
    let agent = status.expect(0).json()["agent"].as_i64().unwrap();
    host.run(&["kill", "-9", &agent.to_string()]).expect(0);
    assert!(roots(&host, "lo").contains("htb 7e1f:"));
    host.run(&["ping", "-n", "-q", "-c", "2", "-i", "0.02", "127.0.0.1"])
        .expect(0);
    let shown = ipfw(&folder, &host, "pipe show").expect(0).out;
    assert_eq!(flow(&shown, "0.0.0.0/0").unwrap().0, 4, "{shown}");
    folder.weir(&["unload", "--netns", &host.0]).expect(0);
    assert!(!roots(&host, "lo").contains("htb"));
    assert_eq!(roots(&host, "veth0"), before);
}

#[test]
fn what_no_pipe_can_do_is_refused_by_name() {
    let folder = Folder::new();
    let cases = [
        (
            "pipe 1 config bw 1Mbit/s delay 50",
            "pipe 1 ip from any to any",
            "`delay`",
        ),
        (
            "pipe 1 config bw 1Mbit/s red 0.002/5/10/0.1",
            "pipe 1 ip from any to any",
            "`red`",
        ),
        (
            "pipe 1 config bw 1Mbit/s codel",
            "pipe 1 ip from any to any",
            "`codel`",
        ),
        (
            "pipe 1 config mask flow-id 0xff",
            "pipe 1 ip from any to any",
            "`mask flow-id`",
        ),
        (
            "pipe 1 config bw 1Mbit/s",
            "queue 1 ip from any to any in",
            "input pass",
        ),
        (
            "pipe 1 config bw 1Mbit/s",
            "queue 1 ip from any to any out",
            "any interface",
        ),
        (
            "pipe 1 config",
            "queue 1 ip from any to any out xmit eth0",
            "without `bw`",
        ),
        (
            "queue 1 config pipe 9",
            "queue 1 ip from any to any out xmit eth0",
            "pipe 9",
        ),
    ];
    for (config, rule, says) in cases {
        let queue = "queue 1 config pipe 1 weight 5\n";
        folder.file("rules", &format!("{queue}{config}\nadd 100 {rule}\n"));
        let run = folder.weir(&["check", "--json", "--dialect", "ipfw", "rules"]);
        assert_eq!(run.json()["enforceable"], false, "{config}");
        let refused = folder.weir(&["apply", "--netns", "no-such-namespace", "rules"]);
        assert_eq!(refused.code, Some(3), "{config}: {refused:?}");
        let place = "rules:3:9";
        assert!(refused.err.contains(says), "{config}: {refused:?}");
        assert!(refused.err.contains(place), "{config}: {refused:?}");
    }
}
