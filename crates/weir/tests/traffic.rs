//! Real packets between two namespaces: what the commands say of them afterwards is what happened.

mod common;

use common::{Background, Folder, Namespace, client_and_host, command, counters};
use std::process::{Child, Stdio};
use std::time::Duration;

const RULES: &str = "\
*filter
:INPUT DROP [0:0]
:OUTPUT ACCEPT [0:0]
-A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT
-A INPUT -p icmp -m icmp --icmp-type echo-request -j ACCEPT
-A INPUT -p tcp -m tcp --dport 7000 --syn -j LOG --log-prefix \"try: \" --log-tcp-sequence
-A INPUT -p tcp -m tcp --dport 7000 -j ACCEPT
-A INPUT -p tcp -j REJECT --reject-with tcp-reset
-A OUTPUT -p udp -m udp --dport 9 -j NFLOG --nflog-group 3 --nflog-prefix \"out\"
COMMIT
";

fn listen(host: &Namespace, port: &str) -> Background {
    let listen = format!("TCP-LISTEN:{port},reuseaddr");
    let started = host.start(&["timeout", "20", "socat", "-u", &listen, "-"]);
    std::thread::sleep(Duration::from_millis(500));
    started
}

/// The counters as (line, packets) of one table.
fn counted(folder: &Folder, netns: &str) -> Vec<(u64, u64, u64)> {
    let number = |line: &serde_json::Value, key: &str| line[key].as_u64().unwrap();
    counters(folder, netns)
        .iter()
        .map(|line| {
            (
                number(line, "line"),
                number(line, "packets"),
                number(line, "bytes"),
            )
        })
        .collect()
}

fn count(counters: &[(u64, u64, u64)], line: u64) -> (u64, u64) {
    let found = counters.iter().find(|counter| counter.0 == line);
    found.map_or((0, 0), |counter| (counter.1, counter.2))
}

fn check_counters(folder: &Folder, netns: &str) {
    let counters = counted(folder, netns);
    assert_eq!(
        count(&counters, 5),
        (1, 84),
        "the second echo request is ESTABLISHED"
    );
    assert_eq!(count(&counters, 6).0, 1, "one SYN was logged: {counters:?}");
    assert_eq!(
        count(&counters, 7).0,
        1,
        "one SYN was accepted: {counters:?}"
    );
    assert_eq!(
        count(&counters, 8).0,
        1,
        "one SYN was rejected: {counters:?}"
    );
    assert_eq!(
        count(&counters, 9),
        (1, 30),
        "one datagram went out: {counters:?}"
    );
}

fn check_flows(folder: &Folder, netns: &str) {
    let flows = folder
        .weir(&["flows", "--json", "--netns", netns])
        .expect(0)
        .records();
    let tcp = flows
        .iter()
        .find(|flow| flow["proto"] == "tcp")
        .expect("the TCP flow is listed");
    assert_eq!(
        (&tcp["src_ip"], &tcp["dest_port"]),
        (&"10.77.0.1".into(), &7000.into())
    );
    assert_eq!(
        (&tcp["answered"], &tcp["assured"]),
        (&true.into(), &true.into())
    );
    let only = folder
        .weir(&["flows", "--json", "--proto", "icmp", "--netns", netns])
        .expect(0);
    assert_eq!(only.records().len(), 1, "{only:?}");
}

fn check_log(log: Child) {
    let output = log.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    let records: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(records.len(), 2, "{text}");
    assert_eq!(records[0]["weir"]["rule"], "rules.v4:6");
    assert_eq!(
        (&records[0]["proto"], &records[0]["dest_port"]),
        (&"tcp".into(), &7000.into())
    );
    let line = records[0]["weir"]["text"].as_str().unwrap();
    assert!(line.starts_with("try: IN=veth0 OUT= MAC="), "{line}");
    assert!(line.contains(" SEQ=") && line.contains(" SYN "), "{line}");
    assert_eq!(
        (&records[1]["weir"]["kind"], &records[1]["weir"]["group"]),
        (&"nflog".into(), &3.into())
    );
}

#[test]
fn counters_flows_and_log_tell_what_happened() {
    if weir_plane::kernel_or_skip("counters_flows_and_log").is_none() {
        return;
    }
    let [client, host] = client_and_host("say", "10.77.0");
    let (folder, netns) = (Folder::new(), host.0.as_str());
    folder.file("rules.v4", RULES);
    folder
        .weir(&["apply", "--netns", netns, "rules.v4"])
        .expect(0);
    let log = command(
        &folder.0,
        &[
            "log",
            "--json",
            "--netns",
            netns,
            "--count",
            "2",
            "--seconds",
            "30",
        ],
    )
    .stdout(Stdio::piped())
    .spawn()
    .unwrap();
    std::thread::sleep(Duration::from_millis(500));

    client
        .run(&["ping", "-c", "2", "-i", "0.2", "-W", "5", "10.77.0.2"])
        .expect(0);
    let server = listen(&host, "7000");
    let talk = "(echo hello; sleep 1) | timeout 10 socat - TCP:10.77.0.2:7000";
    client.run(&["sh", "-c", talk]);
    let refused = client.run(&["timeout", "10", "socat", "-", "TCP:10.77.0.2:7001"]);
    assert!(
        refused.err.contains("refused"),
        "a reset must come back: {refused:?}"
    );
    host.run(&[
        "sh",
        "-c",
        "echo x | timeout 5 socat -t 1 - UDP:10.77.0.1:9",
    ]);
    drop(server);

    check_counters(&folder, netns);
    check_flows(&folder, netns);
    check_log(log);
}

#[test]
fn a_reader_of_the_log_that_is_killed_leaves_the_policy_alone() {
    if weir_plane::kernel_or_skip("a_reader_of_the_log_that_is_killed").is_none() {
        return;
    }
    let [client, host] = client_and_host("kil", "10.77.0");
    let (folder, netns) = (Folder::new(), host.0.as_str());
    folder.file("rules.v4", RULES);
    folder
        .weir(&["apply", "--netns", netns, "rules.v4"])
        .expect(0);
    for _ in 0..3 {
        let mut log = command(&folder.0, &["log", "--netns", netns])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(300));
        // While one reads, a second is told so.
        let second = folder
            .weir(&["log", "--netns", netns, "--seconds", "1"])
            .expect(4);
        assert!(second.err.contains("another"), "{}", second.err);
        log.kill().unwrap();
        log.wait().unwrap();
    }
    client
        .run(&["ping", "-c", "1", "-W", "5", "10.77.0.2"])
        .expect(0);
    folder
        .weir(&["log", "--netns", netns, "--seconds", "1"])
        .expect(0);
    assert_eq!(count(&counted(&folder, netns), 5).0, 1);
}

#[test]
fn confirmations_killed_at_any_moment_leave_the_old_or_the_new_policy() {
    if weir_plane::kernel_or_skip("confirmations_killed_at_any_moment").is_none() {
        return;
    }
    let [client, host] = client_and_host("con", "10.77.0");
    let (folder, netns) = (Folder::new(), host.0.as_str());
    folder.file("rules.v4", RULES);
    folder.file("shut.v4", "*filter\n:INPUT DROP [0:0]\nCOMMIT\n");
    folder
        .weir(&["apply", "--netns", netns, "rules.v4"])
        .expect(0);
    folder
        .weir(&["apply", "--netns", netns, "--confirm", "60", "shut.v4"])
        .expect(0);
    for round in 0..10u64 {
        let mut confirm = command(&folder.0, &["confirm", "--netns", netns])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(700 * round));
        let _ = confirm.kill();
        confirm.wait().unwrap();
        let status = folder
            .weir(&["status", "--json", "--netns", netns])
            .expect(0)
            .json();
        assert_eq!(status["files"][0], "shut.v4");
    }
    let ping = client.run(&["ping", "-c", "1", "-W", "1", "10.77.0.2"]);
    assert_eq!(ping.code, Some(1), "the policy drops everything");
    folder.weir(&["unload", "--netns", netns]).expect(0);
    client
        .run(&["ping", "-c", "1", "-W", "5", "10.77.0.2"])
        .expect(0);
}
