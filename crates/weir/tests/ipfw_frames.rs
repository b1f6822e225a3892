//! ipfw's pass of the link layer in the kernel (`net.link.ether.ipfw=1`): real frames with the
//! right and with another hardware address, ARP, VLAN tags, forwarded packets; what one pass leaves
//! to the next. The counters say which rules the frames met.

mod common;

use common::ipfw::{apply, packets};
use common::{Folder, Namespace, client_and_host, client_gateway_server, ip, kernel};

const ON: &str = "# --sysctl net.link.ether.ipfw=1\n";
const CLIENT: &str = "02:00:00:00:00:01";
const HOST: &str = "02:00:00:00:00:02";

/// Requests, so many at once; whether all are answered.
fn ping(from: &Namespace, to: &str, count: &str) -> bool {
    let words = [
        "ping", "-n", "-q", "-i", "0.02", "-W", "0.5", "-c", count, to,
    ];
    from.run(&words).code == Some(0)
}

fn set_mac(netns: &Namespace, mac: &str) {
    ip(&format!("-n {} link set veth0 address {mac}", netns.0));
}

fn forget_neighbours(netns: &Namespace) {
    ip(&format!("-n {} neigh flush all", netns.0));
}

/// A client and a host with known hardware addresses.
fn pair(label: &str) -> [Namespace; 2] {
    let [client, host] = client_and_host(label, "10.84.0");
    set_mac(&client, CLIENT);
    set_mac(&host, HOST);
    [client, host]
}

#[test]
fn frames_meet_the_list_before_and_behind_their_packets() {
    if !kernel("frames_meet_the_list_before_and_behind_their_packets") {
        return;
    }
    let [client, host] = pair("ipfwfr");
    let folder = Folder::new();
    let rules = format!(
        "{ON}\
         add 100 skipto 1000 ip from any to any layer2\n\
         add 200 count icmp from any to any icmptypes 8 in tagged 7 dscp ef\n\
         add 210 count tag 8 icmp from any to any icmptypes 0 out\n\
         add 220 setdscp cs1 icmp from any to any icmptypes 0 out\n\
         add 300 allow ip from any to any\n\
         add 1000 deny ip from any to any MAC any 02:00:00:00:00:09 in\n\
         add 1010 count ip from any to any mac-type 0x0806\n\
         add 1020 count ip4 from any to any MAC {HOST} {CLIENT} in recv veth0\n\
         add 1030 count tag 7 icmp from any to any icmptypes 8 in\n\
         add 1040 setdscp ef icmp from any to any icmptypes 8 in\n\
         add 1050 count icmp from any to any MAC {CLIENT} {HOST} out xmit veth0 tagged 8 dscp cs1\n\
         add 1060 reset tcp from any to any 23 in\n\
         add 1070 count ip from any to any via lo\n\
         add 1100 allow ip from any to any\n"
    );
    apply(&folder, &host, &rules);
    assert!(ping(&client, "10.84.0.2", "3"));
    let now = packets(&folder, &host);
    for rule in [200, 210, 220, 1020, 1030, 1040, 1050] {
        assert_eq!(now[&rule], 3, "{rule}: {now:?}");
    }
    // A question and its answer, at least of the one side.
    assert!(now[&1010] >= 2 && now[&1000] == 0, "{now:?}");
    assert_eq!(now[&100], now[&1100], "every frame goes to 1000: {now:?}");
    // The loopback interface has no frames.
    assert!(ping(&host, "127.0.0.1", "2"));
    let later = packets(&folder, &host);
    assert_eq!((later[&1070], later[&1020]), (0, 3), "{later:?}");
    // A frame's reset is answered.
    let script = "exec 3<>/dev/tcp/10.84.0.2/23";
    let run = client.run(&["timeout", "3", "bash", "-c", script]);
    assert!(run.err.contains("refused"), "{run:?}");
    assert_eq!(packets(&folder, &host)[&1060], 1);
    // Another hardware address: neither its questions nor its packets pass.
    set_mac(&client, "02:00:00:00:00:09");
    forget_neighbours(&client);
    assert!(!ping(&client, "10.84.0.2", "1"));
    let end = packets(&folder, &host);
    assert!(end[&1000] >= 1 && end[&1020] >= 3, "{end:?}");
    assert_eq!(end[&200], 3, "what is denied has no second pass: {end:?}");
    set_mac(&client, CLIENT);
    assert!(ping(&client, "10.84.0.2", "1"));
}

#[test]
fn arp_is_denied_and_let_through_again() {
    if !kernel("arp_is_denied_and_let_through_again") {
        return;
    }
    let [client, host] = pair("ipfwar");
    let folder = Folder::new();
    let allow = "add 200 allow ip from any to any\n";
    let arp = format!("{ON}add 100 deny ip from any to any mac-type 0x0806 in\n{allow}");
    // Without the setting the rule asks about nothing that there is.
    apply(&folder, &host, arp.strip_prefix(ON).unwrap());
    assert!(ping(&client, "10.84.0.2", "1"));
    assert_eq!(packets(&folder, &host)[&100], 0);
    apply(&folder, &host, &arp);
    forget_neighbours(&client);
    forget_neighbours(&host);
    assert!(!ping(&client, "10.84.0.2", "1"));
    let now = packets(&folder, &host);
    assert!(now[&100] >= 1, "{now:?}");
    // Who is asked for nothing may be known already.
    let known = format!("neigh replace 10.84.0.2 lladdr {HOST} dev veth0");
    ip(&format!("-n {} {known}", client.0));
    let known = format!("neigh replace 10.84.0.1 lladdr {CLIENT} dev veth0");
    ip(&format!("-n {} {known}", host.0));
    assert!(ping(&client, "10.84.0.2", "1"));
    for netns in [&client, &host] {
        let other = if netns.0 == client.0 { 2 } else { 1 };
        ip(&format!(
            "-n {} neigh del 10.84.0.{other} dev veth0",
            netns.0
        ));
    }
    apply(&folder, &host, allow);
    assert!(ping(&client, "10.84.0.2", "1"));
}

#[test]
fn what_the_packets_pass_leaves_is_there_on_the_frames_pass() {
    if !kernel("what_the_packets_pass_leaves_is_there_on_the_frames_pass") {
        return;
    }
    let [client, host] = pair("ipfwmk");
    let folder = Folder::new();
    // The programs for frames come first, those that set marks behind the hooks later.
    let frames = "add 300 count ip from any to any layer2 out mark 5\n\
                  add 400 allow ip from any to any\n";
    apply(&folder, &host, &format!("{ON}{frames}"));
    assert!(ping(&client, "10.84.0.2", "1"));
    assert_eq!(packets(&folder, &host)[&300], 0);
    let marks = "add 100 setmark 5 icmp from any to any not layer2 out\n";
    apply(&folder, &host, &format!("{ON}{marks}{frames}"));
    assert!(ping(&client, "10.84.0.2", "2"));
    let now = packets(&folder, &host);
    assert_eq!((now[&100], now[&300]), (2, 2), "{now:?}");
}

#[test]
fn frames_without_a_packet_pass_over_looks_for_states() {
    if !kernel("frames_without_a_packet_pass_over_looks_for_states") {
        return;
    }
    let [client, host] = pair("ipfwbl");
    let folder = Folder::new();
    let rules = format!(
        "{ON}\
         add 50 skipto 1000 ip4 from any to any layer2\n\
         add 60 skipto 1000 ip6 from any to any layer2\n\
         add 100 check-state\n\
         add 110 allow icmp from any to any icmptypes 8 keep-state\n\
         add 120 deny icmp from any to any\n\
         add 130 count ip from any to any mac-type 0x0806\n\
         add 1000 allow ip from any to any\n"
    );
    apply(&folder, &host, &rules);
    forget_neighbours(&client);
    assert!(ping(&client, "10.84.0.2", "2"));
    let now = packets(&folder, &host);
    // Questions and answers, all by the state's rule.
    assert_eq!((now[&110], now[&120]), (4, 0), "{now:?}");
    assert!(now[&50] >= 4 && now[&130] >= 2, "{now:?}");
}

#[test]
fn forwarded_packets_make_four_passes() {
    if !kernel("forwarded_packets_make_four_passes") {
        return;
    }
    let [client, gateway, _server] = client_gateway_server("ipfwfw", 85);
    let folder = Folder::new();
    let rules = format!(
        "{ON}\
         add 100 count icmp from any to any icmptypes 8 layer2 in recv inside0\n\
         add 110 count icmp from any to any icmptypes 8 not layer2 in recv inside0\n\
         add 120 count icmp from any to any icmptypes 8 not layer2 out recv inside0 xmit outside0\n\
         add 130 count icmp from any to any icmptypes 8 layer2 out recv inside0 xmit outside0\n\
         add 140 count icmp from any to any icmptypes 8 layer2 out not recv *\n\
         add 150 count icmp from any to any icmptypes 8\n\
         add 160 count ip from any to any not ip6 not verrevpath\n\
         add 170 count ip from any to any not mac-type 0x0800,0x86dd layer2 in\n\
         add 200 allow ip from any to any\n"
    );
    apply(&folder, &gateway, &rules);
    assert!(ping(&client, "10.85.2.1", "2"));
    let now = packets(&folder, &gateway);
    for rule in [100, 110, 120, 130] {
        assert_eq!(now[&rule], 2, "{rule}: {now:?}");
    }
    assert_eq!((now[&140], now[&150]), (0, 8), "{now:?}");
    // ARP's received frames have no source; that of packets has its way back, on either pass.
    assert!(now[&160] >= 1 && now[&160] == now[&170], "{now:?}");
    // What the gateway itself sends was received by no interface.
    assert!(ping(&gateway, "10.85.2.1", "1"));
    assert_eq!(packets(&folder, &gateway)[&140], 1);
}

#[test]
fn frames_are_logged_as_the_original_does() {
    if !kernel("frames_are_logged_as_the_original_does") {
        return;
    }
    let [client, host] = pair("ipfwlg");
    let folder = Folder::new();
    let rules = format!(
        "{ON}\
         add 100 count log ip from any to any mac-type 0x88cc in\n\
         add 110 count log icmp from any to any icmptypes 0 layer2 out\n\
         add 200 allow ip from any to any\n"
    );
    apply(&folder, &host, &rules);
    let args = ["log", "--netns", &host.0, "--count", "2", "--seconds", "20"];
    let follower = common::command(&folder.0, &args)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let frame = format!("02000000000202000000000188cc{}", "00".repeat(46));
    send(&client, &frame);
    assert!(ping(&client, "10.84.0.2", "1"));
    let said = String::from_utf8(follower.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(
        said,
        "ipfw: 100 Count MAC in via veth0\n\
         ipfw: 110 Count ICMP:0.0 10.84.0.2 10.84.0.1 out via veth0\n"
    );
}

/// Sends bytes as a frame.
fn send(from: &Namespace, frame: &str) {
    const PROGRAM: &str = "socket(S, 17, 3, 0x0300) or die $!; \
        open(N, \"/sys/class/net/veth0/ifindex\") or die $!; \
        send(S, pack(\"H*\", $ARGV[0]), 0, \
             pack(\"SnlSCCa8\", 17, 3, 0 + <N>, 0, 0, 6, \"\")) or die $!";
    from.run(&["perl", "-e", PROGRAM, frame]).expect(0);
}

#[test]
fn tags_of_vlans_are_passed_over() {
    if !kernel("tags_of_vlans_are_passed_over") {
        return;
    }
    let [client, host] = pair("ipfwvl");
    let folder = Folder::new();
    let rules = format!(
        "{ON}\
         add 100 count ip from any to any mac-type 0x0806 MAC {HOST} 02:00:00:00:00:07\n\
         add 110 count ip from any to any mac-type 0x88cc MAC {HOST} 02:00:00:00:00:07\n\
         add 120 count udp from 192.0.2.1 1000 to any 2000 MAC {HOST} 02:00:00:00:00:07\n\
         add 130 count ip from any to any mac-type 0x8100,0x88a8\n\
         add 200 allow ip from any to any\n"
    );
    apply(&folder, &client, &rules);
    apply(&folder, &host, &rules);
    let addresses = "020000000002020000000007";
    let packet = "4500001c00000000401100005c5c5c5c0a54000203e807d000080000";
    let packet = packet.replace("5c5c5c5c", "c0000201");
    let filling = "00".repeat(46);
    send(&client, &format!("{addresses}810000050806{filling}"));
    send(
        &client,
        &format!("{addresses}88a800058100000688cc{filling}"),
    );
    send(
        &client,
        &format!("{addresses}810000050800{packet}{filling}"),
    );
    send(
        &client,
        &format!("{addresses}88a80005810000060800{packet}{filling}"),
    );
    send(&client, &format!("{addresses}0800{packet}{filling}"));
    for netns in [&client, &host] {
        let now = packets(&folder, netns);
        let told = [100, 110, 120, 130].map(|rule| now[&rule]);
        assert_eq!(told, [1, 1, 3, 0], "{}: {now:?}", netns.0);
    }
}

#[test]
fn what_is_not_done_for_frames_is_refused_at_the_word() {
    let folder = Folder::new();
    let check = |rules: &str| {
        folder.file("rules.ipfw", rules);
        let setting = "net.link.ether.ipfw=1";
        folder.weir(&["check", "--sysctl", setting, "rules.ipfw"])
    };
    const AROUND: &str = "add 50 skipto 1000 ip from any to any layer2\n";
    let look = "a look at states, which frames come to, is not enforced";
    let note = "a state that a frame makes is not enforced";
    let pipe = "a pipe or queue that frames take is not enforced";
    for (rule, column, what) in [
        ("add 100 check-state", 9, look),
        // They are looked up whatever the rule asks.
        (
            "add 100 allow tcp from any to any not layer2 keep-state",
            46,
            look,
        ),
        (
            "add 100 allow tcp from any to any not layer2 record-state",
            0,
            "",
        ),
        ("add 100 count tcp from any to any record-state", 35, note),
        ("add 100 pipe 1 tcp from any to any", 9, pipe),
        ("add 100 pipe 1 tcp from any to any not layer2", 0, ""),
    ] {
        let rules = |before: &str| {
            format!("pipe 1 config bw 1Mbit/s\n{before}{rule}\nadd 200 deny ip from any to any\n")
        };
        let run = check(&rules(""));
        if what.is_empty() {
            assert_eq!((run.code, &*run.err), (Some(0), ""), "{rule}");
            continue;
        }
        let place = format!("rules.ipfw:2:{column}");
        assert!(
            run.err.contains(what) && run.err.contains(&place),
            "{run:?}"
        );
        assert!(run.out.contains("apply would refuse them"), "{run:?}");
        // Frames that go another way never come there.
        let run = check(&rules(AROUND));
        assert_eq!((run.code, &*run.err), (Some(0), ""), "{rule}");
    }
    // A frame without a packet has no flow that could be looked up, only one that can't be noted.
    let rest = "pipe 1 config bw 1Mbit/s\n\
                add 90 skipto 1000 ip from any to any layer2 not mac-type 0x0806\n\
                add 100 check-state\nadd 110 pipe 1 udp from any to any\n";
    let run = check(rest);
    assert_eq!((run.code, &*run.err), (Some(0), ""));
    // All that holds packets has one of these types.
    let run = check(&rest.replace("not mac-type 0x0806", "mac-type 0x86dd,0x0800"));
    assert_eq!((run.code, &*run.err), (Some(0), ""));
    let run = check(&rest.replace("not mac-type 0x0806", "mac-type 0x0800"));
    assert!(run.err.contains(look), "{run:?}");
    let bare = "add 10 skipto 1000 ip4 from any to any layer2\n\
                add 20 skipto 1000 ip6 from any to any layer2\n\
                add 100 check-state\nadd 110 allow tcp from any to any setup keep-state\n";
    let run = check(bare);
    assert_eq!((run.code, &*run.err), (Some(0), ""));
    for (rule, column, what) in [
        ("add 120 allow ip from any to any keep-state", 34, note),
        ("add 120 check-state :default log", 9, look),
    ] {
        let run = check(&format!("{bare}{rule}\n"));
        let place = format!("rules.ipfw:5:{column}");
        assert!(
            run.err.contains(what) && run.err.contains(&place),
            "{run:?}"
        );
    }
    // What compares and converts rules doesn't know frames.
    let rules = folder.file(
        "rules.ipfw",
        &format!("{ON}add 100 allow ip from any to any\n"),
    );
    for args in [
        vec!["diff", &rules, &rules],
        vec!["convert", &rules, "--to", "iptables", "--family", "ipv4"],
    ] {
        let run = folder.weir(&args).expect(3);
        assert!(
            run.err.contains("what becomes of frames can't be"),
            "{run:?}"
        );
    }
}
