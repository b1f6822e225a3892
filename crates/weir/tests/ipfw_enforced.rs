//! Rules of ipfw in the kernel: real packets through a host and through a gateway, and ipfw's own
//! commands on what is enforced. The counters say which rules the packets met, and how often.

mod common;

use common::{
    Folder, Namespace, Run, cable6, client_and_host, client_gateway_server, counters, ip, kernel,
    tried,
};
use std::collections::BTreeMap;

/// Packets and bytes by rule number.
fn counted(folder: &Folder, netns: &Namespace) -> BTreeMap<u64, (u64, u64)> {
    let lines = counters(folder, &netns.0);
    let line = |line: &serde_json::Value| {
        assert_eq!(
            (&line["chain"], &line["family"]),
            (&"ipfw".into(), &"both".into())
        );
        let number = |key: &str| line[key].as_u64().unwrap();
        (number("index"), (number("packets"), number("bytes")))
    };
    lines.iter().map(line).collect()
}

fn packets(folder: &Folder, netns: &Namespace, rule: u64) -> u64 {
    counted(folder, netns)[&rule].0
}

fn ping(from: &Namespace, to: &str, count: &str) -> bool {
    let run = from.run(&["ping", "-n", "-q", "-c", count, "-i", "0.02", "-W", "1", to]);
    run.code == Some(0)
}

fn connect(from: &Namespace, to: &str, port: u16) -> &'static str {
    tried(from, &format!("exec 3<>/dev/tcp/{to}/{port}"))
}

const HOST: &str = "\
table bad create type addr
table bad add 10.78.0.0/24 7 10.78.0.1/32 9
table steps create type addr
table steps add 10.78.0.0/24 400 10.78.0.1/32 600
add 100 allow ip from any to any via lo
add 200 deny ip from table(bad,7) to any in
add 300 count ip4 from any to any in recv veth0
add 310 count ip4 from any to any out xmit veth0
add 320 skipto tablearg tcp from table(steps) to me
add 400 unreach port udp from any to me 9 in
add 500 deny icmp from any to any in icmptypes 8 iplen 200-2000
add 505 allow ip4 from any to any
add 510 allow ip from any to any
add 600 count tcp from any to any 23
add 610 reset tcp from any to me 23 in
add 620 allow ip from any to any
";

#[test]
fn a_host_is_filtered_in_both_directions() {
    if !kernel("a_host_is_filtered_in_both_directions") {
        return;
    }
    let [client, host] = client_and_host("ipfw", "10.78.0");
    ip(&format!("-n {} addr add 10.78.0.3/24 dev veth0", client.0));
    let folder = Folder::new();
    folder.file("host.ipfw", HOST);
    folder
        .weir(&["apply", "--netns", &host.0, "host.ipfw"])
        .expect(0);
    // The longest prefix of the sender's address gives 9, so rule 200 doesn't mean it.
    assert!(ping(&client, "10.78.0.2", "3"));
    let now = counted(&folder, &host);
    assert_eq!(
        (now[&300].0, now[&310].0, now[&505].0),
        (3, 3, 6),
        "{now:?}"
    );
    let big = client.run(&[
        "ping",
        "-n",
        "-q",
        "-c",
        "1",
        "-s",
        "500",
        "-W",
        "1",
        "10.78.0.2",
    ]);
    assert_eq!(big.code, Some(1), "{big:?}");
    assert_eq!(packets(&folder, &host, 500), 1);
    // By way of rule 320's table to 600; a reset comes back, and leaves by the rules too.
    assert_eq!(connect(&client, "10.78.0.2", 23), "refused");
    let now = counted(&folder, &host);
    assert_eq!(
        (now[&320].0, now[&600].0, now[&610].0),
        (1, 1, 1),
        "{now:?}"
    );
    assert_eq!(connect(&client, "10.78.0.2", 24), "refused");
    let from_three = [
        "ping",
        "-n",
        "-q",
        "-c",
        "1",
        "-W",
        "1",
        "-I",
        "10.78.0.3",
        "10.78.0.2",
    ];
    assert_eq!(client.run(&from_three).code, Some(1));
    assert_eq!(packets(&folder, &host, 200), 1);
    folder.weir(&["unload", "--netns", &host.0]).expect(0);
    assert_eq!(client.run(&from_three).code, Some(0));
}

#[test]
fn fields_of_headers_are_those_of_real_packets() {
    if !kernel("fields_of_headers_are_those_of_real_packets") {
        return;
    }
    let [client, host] = client_and_host("ipfwf", "10.81.0");
    cable6([&client, &host], "veth0", "2001:db8:81");
    let folder = Folder::new();
    folder.file(
        "fields.ipfw",
        "\
add 100 count icmp from any to any icmptypes 8 in frag df
add 110 count icmp from any to any icmptypes 8 in not frag df
add 120 count icmp from any to any icmptypes 8 in ipoptions rr
add 130 count icmp from any to any icmptypes 8 in not ipid 0-65535
add 140 count ip6 from any to any icmp6types 128 in flow-id 0x12345
add 150 count tcp from any to any 24 in setup tcpack 0 tcpdatalen 0 not tcpwin 0
add 160 count tcp from any 24 to any out tcpseq 0 tcpwin 0
add 200 allow ip from any to any
",
    );
    folder
        .weir(&["apply", "--netns", &host.0, "fields.ipfw"])
        .expect(0);
    let ask = |more: &str| {
        let words = format!("ping -n -q -c 2 -i 0.02 -W 1 {more}");
        let words: Vec<&str> = words.split(' ').collect();
        client.run(&words).code
    };
    // With data that is long enough to be left in pieces.
    assert_eq!(ask("-s 1400 -M do 10.81.0.2"), Some(0));
    assert_eq!(ask("-s 1400 -M dont 10.81.0.2"), Some(0));
    assert_eq!(ask("-R -M dont 10.81.0.2"), Some(0));
    assert_eq!(ask("-6 -F 0x12345 2001:db8:81::2"), Some(0));
    assert_eq!(ask("-6 2001:db8:81::2"), Some(0));
    assert_eq!(connect(&client, "10.81.0.2", 24), "refused");
    let now = counted(&folder, &host);
    let of = |rule: u64| now[&rule].0;
    assert_eq!(
        [100, 110, 120, 130, 140, 150, 160].map(of),
        [2, 4, 2, 0, 2, 1, 1],
        "{now:?}"
    );
}

#[test]
fn a_gateway_meets_each_packet_twice() {
    if !kernel("a_gateway_meets_each_packet_twice") {
        return;
    }
    let [client, gateway, _server] = client_gateway_server("ipfwg", 79);
    let rules = "\
        add 100 count ip4 from any to any\n\
        add 110 count ip4 from any to any in recv inside0\n\
        add 120 count ip4 from any to any out recv inside0 xmit outside0\n\
        add 130 count ip4 from any to any out via inside0\n\
        add 140 count tag 5 icmp from 10.79.1.0/24 to any in\n\
        add 150 count ip4 from any to any out tagged 5\n\
        add 160 count ip from any to me\n\
        add 200 deny tcp from any to any 23 out xmit outside0\n\
        add 300 setdscp ef udp from any to any 9 in\n\
        add 310 count udp from any to any out dscp ef\n\
        add 400 allow ip4 from any to any\n\
        add 410 allow ip from any to any\n";
    let folder = Folder::new();
    folder.file("gateway.ipfw", rules);
    folder
        .weir(&["apply", "--netns", &gateway.0, "gateway.ipfw"])
        .expect(0);
    assert!(ping(&client, "10.79.2.1", "4"));
    let now = counted(&folder, &gateway);
    // Four out, four back, each once in and once out.
    assert_eq!(now[&100], (16, 16 * 84), "{now:?}");
    let of = |rule: u64| now[&rule].0;
    assert_eq!((of(110), of(120), of(130)), (4, 4, 4), "{now:?}");
    assert_eq!(
        (of(140), of(150), of(160), of(400)),
        (4, 4, 0, 16),
        "{now:?}"
    );
    // What only the output pass refuses was let in.
    assert_eq!(connect(&client, "10.79.2.1", 23), "silent");
    let now = counted(&folder, &gateway);
    assert!(now[&200].0 >= 1 && now[&400].0 >= 17, "{now:?}");
    client
        .run(&["bash", "-c", "echo > /dev/udp/10.79.2.1/9"])
        .expect(0);
    let now = counted(&folder, &gateway);
    assert_eq!((now[&300].0, now[&310].0), (1, 1), "{now:?}");
}

#[test]
fn lines_are_logged_as_ipfw_writes_them() {
    if !kernel("lines_are_logged_as_ipfw_writes_them") {
        return;
    }
    let host = Namespace::with_loopback("ipfwlog");
    let folder = Folder::new();
    let rules = "add 100 deny log logamount 2 tcp from any to me 23 in\n\
        add 150 count log icmp from any to any out icmptypes 8\n\
        add 160 check-state :default log logamount 1\n\
        add 200 allow ip from any to any\n";
    folder.file("rules", rules);
    folder
        .weir(&["apply", "--netns", &host.0, "rules"])
        .expect(0);
    let args = ["log", "--netns", &host.0, "--count", "6", "--seconds", "20"];
    let follower = common::command(&folder.0, &args)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    for _ in 0..3 {
        assert_eq!(connect(&host, "127.0.0.1", 23), "silent");
    }
    assert!(ping(&host, "127.0.0.1", "1"));
    let said = String::from_utf8(follower.wait_with_output().unwrap().stdout).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 6, "{said}");
    let first = "ipfw: 160 CheckState TCP 127.0.0.1:";
    assert!(lines[0].starts_with(first), "{said}");
    assert!(lines[0].ends_with(" 127.0.0.1:23 out via lo"), "{said}");
    assert_eq!(lines[1], "ipfw: limit 1 reached on entry 160");
    let denied = |line: &str| {
        line.starts_with("ipfw: 100 Deny TCP 127.0.0.1:")
            && line.ends_with(" 127.0.0.1:23 in via lo")
    };
    assert!(denied(lines[2]) && denied(lines[3]), "{said}");
    assert_eq!(lines[4], "ipfw: limit 2 reached on entry 100");
    assert_eq!(
        lines[5],
        "ipfw: 150 Count ICMP:8.0 127.0.0.1 127.0.0.1 out via lo"
    );
    let before = packets(&folder, &host, 100);
    assert!(before >= 3);
    let said = ipfw(&folder, &host, "resetlog 100").expect(0).out;
    assert_eq!(said, "Entry 100 logging count reset.\n");
    let args = ["log", "--netns", &host.0, "--count", "3", "--seconds", "10"];
    let follower = common::command(&folder.0, &args)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(connect(&host, "127.0.0.1", 23), "silent");
    let said = String::from_utf8(follower.wait_with_output().unwrap().stdout).unwrap();
    assert!(said.contains("ipfw: 100 Deny TCP 127.0.0.1:"), "{said}");
    // What was counted stays.
    assert!(packets(&folder, &host, 100) > before);
}

#[test]
fn a_sender_learns_the_mtu_that_a_rule_tells() {
    if !kernel("a_sender_learns_the_mtu_that_a_rule_tells") {
        return;
    }
    let [client, gateway, _server] = client_gateway_server("ipfwmtu", 79);
    let folder = Folder::new();
    let rules = "add 100 unreach needfrag 1333 ip from any to any in recv inside0 iplen 1334-65535\n\
        add 200 allow ip from any to any\n";
    folder.file("rules", rules);
    folder
        .weir(&["apply", "--netns", &gateway.0, "rules"])
        .expect(0);
    let sends = |size: &str| {
        let args = ["ping", "-n", "-c", "1", "-W", "1", "-M", "do", "-s", size];
        client.run(&[&args[..], &["10.79.2.1"]].concat())
    };
    let route = || client.run(&["ip", "route", "get", "10.79.2.1"]).out;
    assert_eq!(sends("1305").code, Some(0), "1333 bytes");
    assert!(!route().contains("mtu"), "{}", route());
    let said = sends("1306");
    assert_ne!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains("From 10.79.1.2 "), "{said:?}");
    assert!(route().contains(" mtu 1333"), "{}", route());
    // The client's own kernel knows now what is too long.
    assert_ne!(sends("1306").code, Some(0));
    assert_eq!(packets(&folder, &gateway, 100), 1);
    assert_eq!(sends("1305").code, Some(0));
}

fn ipfw(folder: &Folder, netns: &Namespace, command: &str) -> Run {
    let mut args = vec!["ipfw", "--netns", &netns.0];
    args.extend(command.split(' '));
    folder.weir(&args)
}

#[test]
fn commands_of_ipfw_act_on_what_is_enforced() {
    if !kernel("commands_of_ipfw_act_on_what_is_enforced") {
        return;
    }
    let host = Namespace::with_loopback("ipfwlive");
    let folder = Folder::new();
    ipfw(&folder, &host, "list").expect(1);
    folder.file(
        "rules",
        "add 100 count icmp from any to any\nadd 200 allow ip from any to any\n",
    );
    folder
        .weir(&["apply", "--netns", &host.0, "rules"])
        .expect(0);
    assert!(ping(&host, "127.0.0.1", "2"));
    let listed = ipfw(&folder, &host, "-a list").expect(0).out;
    let expected = "\
        00100 8 672 count icmp from any to any\n\
        00200 8 672 allow ip from any to any\n\
        65535 0   0 deny ip from any to any\n";
    assert_eq!(listed, expected);
    // The counters of rules that stay are kept, whatever comes between.
    let said = ipfw(
        &folder,
        &host,
        "add 150 deny icmp from any to any icmptypes 8",
    )
    .expect(0);
    assert_eq!(said.out, "00150 deny icmp from any to any icmptypes 8\n");
    assert!(!ping(&host, "127.0.0.1", "1"));
    let now = counted(&folder, &host);
    assert_eq!(
        (now[&100].0, now[&150].0, now[&200].0),
        (9, 1, 8),
        "{now:?}"
    );
    ipfw(&folder, &host, "set move rule 150 to 4").expect(0);
    ipfw(&folder, &host, "set disable 4").expect(0);
    assert_eq!(
        ipfw(&folder, &host, "set show")
            .expect(0)
            .out
            .matches("disable 4")
            .count(),
        1
    );
    assert!(ping(&host, "127.0.0.1", "1"));
    ipfw(&folder, &host, "set swap 4 5").expect(0);
    assert!(!ping(&host, "127.0.0.1", "1"), "set 5 is on");
    assert_eq!(
        ipfw(&folder, &host, "zero 100").expect(0).out,
        "Entry 100 cleared.\n"
    );
    assert_eq!(counted(&folder, &host)[&100], (0, 0));
    assert_eq!(ipfw(&folder, &host, "delete 150").expect(0).code, Some(0));
    ipfw(&folder, &host, "table peers create type addr").expect(0);
    let said = ipfw(&folder, &host, "table peers add 127.0.0.0/8 9").expect(0);
    assert_eq!(said.out, "added: 127.0.0.0/8 9\n");
    ipfw(
        &folder,
        &host,
        "add 160 unreach host icmp from table(peers,9) to any in",
    )
    .expect(0);
    assert!(!ping(&host, "127.0.0.1", "1"));
    ipfw(&folder, &host, "table peers delete 127.0.0.0/8").expect(0);
    assert!(ping(&host, "127.0.0.1", "1"));
    assert!(ping(&host, "127.0.0.1", "1"));
    let said = ipfw(&folder, &host, "resetlog 50-120").expect(0).out;
    assert_eq!(said, "Entry 100 logging count reset.\n");
    assert_ne!(counted(&folder, &host)[&100], (0, 0));
    let said = ipfw(&folder, &host, "zero 50-120").expect(0).out;
    assert_eq!(said, "Entry 100 cleared.\n");
    assert_eq!(counted(&folder, &host)[&100], (0, 0));
    assert!(ping(&host, "127.0.0.1", "1"));
    ipfw(&folder, &host, "zero set 9").expect(0);
    assert_ne!(counted(&folder, &host)[&100], (0, 0));
    ipfw(&folder, &host, "zero set 0").expect(0);
    assert_eq!(counted(&folder, &host)[&100], (0, 0));
    folder.weir(&["unload", "--netns", &host.0]).expect(0);
    assert!(ping(&host, "127.0.0.1", "1"));
}

/// The seconds since 1970.
fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap().as_secs()
}

#[test]
fn listings_tell_when_rules_last_matched() {
    if !kernel("listings_tell_when_rules_last_matched") {
        return;
    }
    let host = Namespace::with_loopback("ipfwtime");
    let folder = Folder::new();
    folder.file(
        "rules",
        "add 100 count icmp from any to any\nadd 150 skipto 300 icmp from any to any in\n\
         add 200 deny udp from any to any 9\nadd 300 allow ip from any to any keep-state\n",
    );
    let before = now();
    folder
        .weir(&["apply", "--netns", &host.0, "rules"])
        .expect(0);
    let times = || -> std::collections::BTreeMap<u32, u64> {
        let out = ipfw(&folder, &host, "-T list").expect(0).out;
        let words = out.lines().map(|line| line.split_whitespace());
        words
            .map(|mut words| (words.next().unwrap(), words.next().unwrap()))
            .map(|(rule, time)| (rule.parse().unwrap(), time.parse().unwrap()))
            .collect()
    };
    let unmatched = [(100, 0), (150, 0), (200, 0), (300, 0), (65_535, 0)];
    assert_eq!(times(), unmatched.into());
    std::thread::sleep(std::time::Duration::from_millis(2_100));
    let sent = now();
    assert!(sent > before + 1);
    assert!(ping(&host, "127.0.0.1", "1"));
    let first = times();
    assert_eq!((first[&200], first[&65_535]), (0, 0), "{first:?}");
    for rule in [100, 150, 300] {
        assert!(
            (sent - 2..=now()).contains(&first[&rule]),
            "{first:?} {sent}"
        );
    }
    let dates = ipfw(&folder, &host, "-t list 100 200").expect(0).out;
    let lines: Vec<&str> = dates.lines().collect();
    assert_eq!(
        lines[1],
        format!("00200 {:24}deny udp from any to any 9", "")
    );
    let date = lines[0].strip_prefix("00100 ").unwrap();
    assert_eq!(&date[24..], " count icmp from any to any", "{dates}");
    let told = host.run(&["date", "-ud", &date[..24], "+%s"]).out;
    let told: u64 = told.trim().parse().unwrap();
    assert!(told.abs_diff(first[&100]) <= 1, "{dates} {first:?}");
    // They stay when rules change, and go when rules are zeroed; a later match is told.
    std::thread::sleep(std::time::Duration::from_millis(2_100));
    ipfw(&folder, &host, "add 120 count ip from any to any out").expect(0);
    ipfw(&folder, &host, "zero 150").expect(0);
    let kept = times();
    assert!(kept[&100].abs_diff(first[&100]) <= 1, "{kept:?} {first:?}");
    assert_eq!((kept[&120], kept[&150]), (0, 0), "{kept:?}");
    assert!(ping(&host, "127.0.0.1", "1"));
    let later = times();
    assert!(
        later[&100] > first[&100] && later[&120] > first[&100],
        "{later:?}"
    );
}

#[test]
fn commands_that_fail_change_nothing() {
    if !kernel("commands_that_fail_change_nothing") {
        return;
    }
    let host = Namespace::with_loopback("ipfwfail");
    let folder = Folder::new();
    folder.file(
        "rules",
        "table peers create type addr\nadd 200 allow ip from any to any\n",
    );
    folder
        .weir(&["apply", "--netns", &host.0, "rules"])
        .expect(0);
    // What is wrong, what the kernel of the original refuses, and what can't be enforced.
    assert_eq!(ipfw(&folder, &host, "zero 9999").code, Some(69));
    assert_eq!(
        ipfw(&folder, &host, "add allow ip frm any to any").code,
        Some(64)
    );
    let refused = ipfw(&folder, &host, "add 170 deny tcp from any to any in uid 0").expect(3);
    assert!(refused.err.contains("is not enforced") && refused.out.is_empty());
    let refused = ipfw(&folder, &host, "add 170 divert 8668 ip from any to any").expect(3);
    assert!(refused.err.contains("as they were"), "{refused:?}");
    assert!(!counted(&folder, &host).contains_key(&170));
    // A file of commands, all or nothing.
    let path = folder.0.join("more");
    folder.file(
        "more",
        "add 300 count ip from any to any\nadd 310 frobnicate\n",
    );
    ipfw(&folder, &host, path.to_str().unwrap()).expect(65);
    assert!(!counted(&folder, &host).contains_key(&300));
    folder.file(
        "more",
        "add 300 count ip from any to any\ntable peers add 10.0.0.0/8 1\n",
    );
    ipfw(&folder, &host, path.to_str().unwrap()).expect(0);
    assert!(counted(&folder, &host).contains_key(&300));
    // The texts that are kept say the same, so another process and `show` know it.
    let shown = folder.weir(&["show", "--netns", &host.0]).expect(0).out;
    assert!(shown.contains("table peers add 10.0.0.0/8 1"), "{shown}");
    assert_eq!(
        ipfw(&folder, &host, "-f flush").expect(0).out,
        "Flushed all rules.\n"
    );
    assert!(!ping(&host, "127.0.0.1", "1"));
    assert_eq!(
        ipfw(&folder, &host, "list").expect(0).out,
        "65535 deny ip from any to any\n"
    );
    folder.weir(&["unload", "--netns", &host.0]).expect(0);
    assert!(ping(&host, "127.0.0.1", "1"));
}

#[test]
fn a_recorded_script_is_enforced_with_its_settings() {
    if !kernel("a_recorded_script_is_enforced_with_its_settings") {
        return;
    }
    let host = Namespace::with_loopback("ipfwscript");
    let folder = Folder::new();
    let script = "#!/bin/sh\nfwcmd='/sbin/ipfw -q'\n${fwcmd} -f flush\n\
        sysctl net.inet.ip.fw.autoinc_step=10 >/dev/null\n\
        for port in 22 80; do ${fwcmd} add deny tcp from any to me ${port} in; done\n\
        ${fwcmd} add allow ip from any to any\n";
    folder.file("fw.sh", script);
    let run = folder
        .weir(&["apply", "--netns", &host.0, "fw.sh"])
        .expect(2);
    assert!(run.err.contains("weir ipfw-record fw.sh"), "{run:?}");
    let recorded = folder.weir(&["ipfw-record", "fw.sh"]).expect(0).out;
    folder.file("rules", &recorded);
    folder
        .weir(&["apply", "--netns", &host.0, "rules"])
        .expect(0);
    assert_eq!(connect(&host, "127.0.0.1", 22), "silent");
    assert_eq!(connect(&host, "127.0.0.1", 23), "refused");
    let listed = ipfw(&folder, &host, "list").expect(0).out;
    assert!(
        listed.starts_with("00010 deny tcp from any to me 22 in\n"),
        "{listed}"
    );
    // The step of the script's sysctl counts for what is added later, too.
    let said = ipfw(&folder, &host, "add count ip from any to any")
        .expect(0)
        .out;
    assert_eq!(said, "00040 count ip from any to any\n");
    let accept = [
        "apply",
        "--netns",
        &host.0,
        "--sysctl",
        "net.inet.ip.fw.default_to_accept=1",
    ];
    folder.file("empty", "add 100 deny udp from any to any\n");
    let name = "net.inet6.ip6.fw.permit_single_frag6";
    let setting = format!("{name}=0");
    let args = ["apply", "--netns", &host.0, "--sysctl", &setting, "empty"];
    let refused = folder.weir(&args).expect(3);
    assert!(refused.err.contains(name), "{refused:?}");
    folder.weir(&[&accept[..], &["empty"]].concat()).expect(0);
    let listed = ipfw(&folder, &host, "list").expect(0).out;
    assert!(
        listed.ends_with("65535 allow ip from any to any\n"),
        "{listed}"
    );
    assert!(ping(&host, "127.0.0.1", "1"));
}
