//! Replay against explain: the compiled classifier and the evaluator say the same of whole
//! conversations, and both say what the rules mean.

mod common;

use common::{Folder, Shot, icmp, pcapng, tcp, udp};

const RULES: &str = "\
*mangle
:PREROUTING ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
-A PREROUTING -i lan0 -p udp -j MARK --set-xmark 0x10/0xff
-A POSTROUTING -o wan0 -j MARK --set-xmark 0x200/0xf00
COMMIT
*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A INPUT -m conntrack --ctstate INVALID -j DROP
-A INPUT -p tcp -m tcp --dport 22 --syn -m limit --limit 1/minute --limit-burst 1 -j ACCEPT
-A INPUT -p icmp -m icmp --icmp-type echo-request -j ACCEPT
-A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT
-A FORWARD -i lan0 -o wan0 -m mark --mark 0x10/0xff -j ACCEPT
COMMIT
";

const CLIENT: [u8; 4] = [192, 0, 2, 9];
const OTHER: [u8; 4] = [192, 0, 2, 10];
const HOST: [u8; 4] = [198, 51, 100, 7];
const SYN: u8 = 2;

const RST: u8 = 4;
const ACK: u8 = 16;

fn shot(interface: u32, time_ms: u64, way: u32, bytes: Vec<u8>) -> Shot {
    Shot {
        interface,
        time_ms,
        way,
        comment: None,
        bytes,
    }
}

/// A handshake, a second SYN over the limit and one a minute later, a ping and its answer, an error
/// about a flow and one about nothing, a forwarded query and its answer, a stray answer.
fn conversation() -> Vec<Shot> {
    let (client, host) = ((CLIENT, 4242), (HOST, 22));
    let query = udp((CLIENT, 5000), (OTHER, 53));
    let answer = udp((OTHER, 53), (CLIENT, 5000));
    let about_flow = tcp(host, client, SYN | ACK, (500, 101))[..28].to_vec();
    let about_nothing = udp((HOST, 9), (OTHER, 9))[..28].to_vec();
    let routed = |time, bytes| Shot {
        comment: Some("recv=lan0"),
        ..shot(1, time, 2, bytes)
    };
    let back = |time, bytes| Shot {
        comment: Some("recv=wan0"),
        ..shot(0, time, 2, bytes)
    };
    let start = 1_700_000_000_000;
    vec![
        shot(1, start, 1, tcp(client, host, SYN, (100, 0))),
        shot(1, start + 1, 2, tcp(host, client, SYN | ACK, (500, 101))),
        shot(1, start + 2, 1, tcp(client, host, ACK, (101, 501))),
        shot(1, start + 3, 1, tcp((OTHER, 4242), host, SYN, (1, 0))),
        shot(1, start + 61_000, 1, tcp((OTHER, 4243), host, SYN, (1, 0))),
        shot(1, start + 61_001, 1, icmp(CLIENT, HOST, 8, 0, &[])),
        shot(1, start + 61_002, 2, icmp(HOST, CLIENT, 0, 0, &[])),
        shot(1, start + 61_003, 1, icmp(CLIENT, HOST, 3, 1, &about_flow)),
        shot(
            1,
            start + 61_004,
            1,
            icmp(OTHER, HOST, 3, 1, &about_nothing),
        ),
        routed(start + 61_005, query),
        back(start + 61_006, answer),
        back(start + 61_007, udp((OTHER, 53), (CLIENT, 5999))),
        shot(
            1,
            start + 61_008,
            1,
            tcp((OTHER, 1), (HOST, 1), RST, (1, 0)),
        ),
    ]
}

#[test]
fn the_compiled_classifier_and_the_evaluator_agree_on_conversations() {
    let folder = Folder::new();
    folder.file("rules.v4", RULES);
    pcapng(
        &folder.0.join("talk.pcapng"),
        &["lan0", "wan0"],
        &conversation(),
    );
    let replayed = folder
        .weir(&["replay", "--json", "rules.v4", "talk.pcapng"])
        .expect(0);
    let explained = folder
        .weir(&["explain", "--json", "rules.v4", "talk.pcapng"])
        .expect(0);
    let fields = |value: &serde_json::Value| {
        let text = |key: &str| value[key].as_str().map(str::to_owned);
        (text("verdict"), text("rule"), value["mark"].as_u64())
    };
    let replayed: Vec<_> = replayed.records().iter().map(fields).collect();
    let explained: Vec<_> = explained.records().iter().map(fields).collect();
    assert_eq!(replayed, explained);
    let seen: Vec<_> = replayed
        .iter()
        .map(|(verdict, rule, mark)| {
            (
                verdict.as_deref().unwrap(),
                rule.as_deref().unwrap(),
                mark.unwrap(),
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("accept", "rules.v4:13", 0),
            ("accept", "rules.v4:3", 0x200),
            ("accept", "rules.v4:11", 0),
            ("drop", "rules.v4:8", 0),
            ("accept", "rules.v4:13", 0),
            ("accept", "rules.v4:14", 0),
            ("accept", "rules.v4:3", 0x200),
            ("accept", "rules.v4:11", 0),
            ("drop", "rules.v4:12", 0),
            ("accept", "rules.v4:3", 0x210),
            ("accept", "rules.v4:3", 0),
            ("drop", "rules.v4:9", 0),
            ("drop", "rules.v4:12", 0),
        ]
    );
}

#[test]
fn counters_at_the_end_add_up() {
    let folder = Folder::new();
    folder.file("rules.v4", RULES);
    pcapng(
        &folder.0.join("talk.pcapng"),
        &["lan0", "wan0"],
        &conversation(),
    );
    let run = folder
        .weir(&["replay", "--quiet", "rules.v4", "talk.pcapng"])
        .expect(0);
    let count = |rule: &str| {
        let line = run
            .out
            .lines()
            .find(|line| line.contains(&format!("{rule} ")))
            .unwrap_or("0");
        line.split_whitespace()
            .next()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    assert_eq!(
        (count("rules.v4:13"), count("rules.v4:11")),
        (2, 2),
        "{}",
        run.out
    );
    assert_eq!(
        (count("rules.v4:12"), count("rules.v4:5")),
        (2, 3),
        "{}",
        run.out
    );
}

#[test]
fn counters_as_json_have_the_shape_of_counters() {
    let folder = Folder::new();
    folder.file("rules.v4", RULES);
    pcapng(
        &folder.0.join("talk.pcapng"),
        &["lan0", "wan0"],
        &conversation(),
    );
    let args = ["replay", "--quiet", "--json", "rules.v4", "talk.pcapng"];
    let list = folder.weir(&args).expect(0).json();
    let limit = list
        .as_array()
        .unwrap()
        .iter()
        .find(|line| line["line"] == 13)
        .unwrap();
    assert_eq!(
        (&limit["chain"], &limit["index"]),
        (&"INPUT".into(), &3.into())
    );
    assert_eq!(
        (&limit["packets"], &limit["bytes"]),
        (&2.into(), &80.into())
    );
}

#[test]
fn plain_captures_take_their_way_from_options() {
    use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
    let folder = Folder::new();
    folder.file("rules.v4", RULES);
    let header = PcapHeader {
        datalink: pcap_file::DataLink::RAW,
        ..PcapHeader::default()
    };
    let file = std::fs::File::create(folder.0.join("plain.pcap")).unwrap();
    let mut writer = PcapWriter::with_header(file, header).unwrap();
    let query = udp((CLIENT, 5000), (OTHER, 53));
    let packet = PcapPacket::new(
        std::time::Duration::from_secs(1),
        query.len() as u32,
        &query,
    );
    writer.write_packet(&packet).unwrap();
    drop(writer);
    let replay = |options: &[&str]| {
        let mut args = vec!["replay", "--json", "rules.v4", "plain.pcap"];
        args.extend(options);
        let record = folder.weir(&args).expect(0).records().remove(0);
        (
            record["verdict"].clone(),
            record["hook"].clone(),
            record["mark"].clone(),
        )
    };
    assert_eq!(replay(&[]), ("drop".into(), "INPUT".into(), 0.into()));
    assert_eq!(
        replay(&["--in", "lan0"]),
        ("drop".into(), "INPUT".into(), 16.into())
    );
    let routed = replay(&["--in", "lan0", "--out", "wan0"]);
    assert_eq!(
        routed,
        ("accept".into(), "POSTROUTING".into(), 0x210.into())
    );
    let made_here = replay(&["--hook", "output", "--out", "eth9"]);
    assert_eq!(made_here, ("accept".into(), "POSTROUTING".into(), 0.into()));
    folder
        .weir(&["replay", "--hook", "SIDEWAYS", "rules.v4", "plain.pcap"])
        .expect(2);
}

#[test]
fn frames_without_a_packet_are_told_and_skipped() {
    let folder = Folder::new();
    folder.file("rules.v4", RULES);
    let shots = [
        shot(0, 1, 1, vec![0x00, 1, 2]),
        shot(0, 2, 1, udp((OTHER, 1), (HOST, 2))),
    ];
    pcapng(&folder.0.join("odd.pcapng"), &["lan0"], &shots);
    let records = folder
        .weir(&["replay", "--json", "rules.v4", "odd.pcapng"])
        .expect(0)
        .records();
    assert_eq!(records[0]["skipped"], "not IP");
    assert_eq!(records[0]["verdict"], serde_json::Value::Null);
    assert_eq!(records[1]["verdict"], "drop");
    folder.weir(&["replay", "rules.v4", "rules.v4"]).expect(2);
}
