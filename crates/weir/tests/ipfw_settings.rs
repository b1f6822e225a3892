//! Settings of ipfw that stand in rule files, and what they change: all commands read them alike.

mod common;

use common::{Folder, Shot, pcapng, udp};

const FILE: &str = "\
# --sysctl net.link.ether.ipfw=1
# --sysctl net.inet.ip.fw.default_to_accept=1
# --sysctl net.inet.ip.fw.autoinc_step=7
add 100 count ip from any to any layer2
add count udp from any to any not layer2
";
const PACKET: &str = "in=eth0 udp 192.0.2.9:1 > 192.0.2.1:53 mac=02:00:00:00:00:01";

#[test]
fn lines_of_files_are_settings_for_all_commands() {
    let folder = Folder::new();
    folder.file("rules", FILE);
    let explained = folder
        .weir(&["explain", "--json", "rules", PACKET])
        .expect(0)
        .json();
    assert_eq!(explained["verdict"], "accept", "{explained}");
    // The frame, then its packet.
    let passes = explained["passes"].as_array().unwrap();
    assert_eq!(passes.len(), 2, "{explained}");
    assert_eq!(passes[0]["frame"], true);
    let acted = |pass: &serde_json::Value| -> Vec<u64> {
        let tried = pass["tried"].as_array().unwrap().iter();
        let acted = tried.filter(|one| one["result"] == "acted");
        acted.map(|one| one["rule"].as_u64().unwrap()).collect()
    };
    assert_eq!(acted(&passes[0]), [100, 65535]);
    assert_eq!(acted(&passes[1]), [107, 65535]);
    // What is said on the command line wins.
    let sysctl = ["--sysctl", "net.inet.ip.fw.default_to_accept=0"];
    let args = [&["explain", "--json", "rules", PACKET][..], &sysctl].concat();
    assert_eq!(folder.weir(&args).expect(0).json()["verdict"], "drop");
    let shot = Shot {
        interface: 0,
        time_ms: 1_700_000_000_000,
        way: 1,
        comment: None,
        bytes: udp(([192, 0, 2, 9], 1), ([192, 0, 2, 1], 53)),
    };
    pcapng(&folder.0.join("capture"), &["eth0"], &[shot]);
    let replayed = folder
        .weir(&["replay", "--json", "rules", "capture"])
        .expect(0);
    assert!(
        replayed.out.contains("\"verdict\":\"accept\""),
        "{}",
        replayed.out
    );
}

#[test]
fn printed_files_keep_them() {
    let folder = Folder::new();
    folder.file("rules", FILE);
    let shown = folder.weir(&["show", "rules"]).expect(0).out;
    for line in FILE.lines().take(3) {
        assert!(shown.contains(line), "{line} in\n{shown}");
    }
    folder.file("again", &shown);
    assert_eq!(folder.weir(&["show", "again"]).expect(0).out, shown);
    let tool = |words: &[&str]| {
        let args = [&["ipfw", "--rules", "rules"][..], words].concat();
        folder.weir(&args).expect(0).out
    };
    assert!(tool(&["list"]).contains("65535 allow ip from any to any"));
    let args = [
        "ipfw", "--rules", "rules", "--write", "add", "count", "tcp", "from", "any", "to", "any",
    ];
    assert_eq!(
        folder.weir(&args).expect(0).out,
        "00114 count tcp from any to any\n"
    );
    let written = std::fs::read_to_string(folder.0.join("rules")).unwrap();
    for line in FILE.lines().take(3) {
        assert!(written.contains(line), "{line} in\n{written}");
    }
}

#[test]
fn check_notes_what_apply_would_refuse() {
    let folder = Folder::new();
    folder.file("rules", &format!("{FILE}add 200 check-state\n"));
    let checked = folder.weir(&["check", "--json", "rules"]).expect(0).json();
    assert_eq!(checked["enforceable"], false, "{checked}");
    let options = ["--sysctl", "net.link.ether.ipfw=0"];
    let args = [&["check", "--json", "rules"][..], &options].concat();
    let checked = folder.weir(&args).expect(0).json();
    assert_eq!(checked["enforceable"], true, "{checked}");
}

#[test]
fn files_end_as_ipfw_would() {
    let folder = Folder::new();
    folder.file("rules", "add 100 allow ip from any to any\n");
    let path = folder.0.join("commands");
    let path = path.to_str().unwrap();
    for (text, code) in [
        ("add 200 count ip from any to any\nadd 300 frobnicate\n", 65),
        ("frobnicate\nadd 300 frobnicate\n", 64),
        ("add 65535 allow ip from any to any\n", 69),
        ("add 200 count ip from any to any\n", 0),
    ] {
        folder.file("commands", text);
        folder
            .weir(&["ipfw", "--rules", "rules", "-q", path])
            .expect(code);
    }
    folder.weir(&["ipfw"]).expect(64);
    folder.weir(&["ipfw", "--rules", "rules"]).expect(64);
    // All or nothing; `-f` goes on behind a line that is wrong.
    let text = "add 200 count ip from any to any\nadd 300 frobnicate\nadd 400 count\n";
    folder.file("commands", text);
    let list = || {
        folder
            .weir(&["ipfw", "--rules", "rules", "list"])
            .expect(0)
            .out
    };
    let before = list();
    folder
        .weir(&["ipfw", "--rules", "rules", "--write", "-q", path])
        .expect(65);
    assert_eq!(list(), before);
    folder
        .weir(&["ipfw", "--rules", "rules", "--write", "-qf", path])
        .expect(65);
    assert_eq!(
        list(),
        "00100 allow ip from any to any\n00200 count ip from any to any\n00400 count //\n\
         65535 deny ip from any to any\n"
    );
}

#[test]
fn explanations_are_in_the_order_of_the_walk() {
    let folder = Folder::new();
    folder.file(
        "rules",
        "table T create type addr\ntable T add 192.0.2.0/24 46\ntable S create type addr\n\
         table S add 192.0.2.0/24 300\nadd 10 count ip from any to any\n\
         add 20 deny tcp from any to any\nadd 30 count ip from any to any\n\
         add 40 setdscp tablearg ip from table(T) to any\nadd 50 deny ip from any to any out\n\
         add 60 skipto tablearg ip from table(S) to any\nadd 70 deny ip from any to any\n\
         add 300 count udp from any to any { in or via any }\nadd 310 allow ip from any to any\n",
    );
    let packet = "in=eth0 udp 192.0.2.9:1 > 192.0.2.1:53";
    let told = folder
        .weir(&["explain", "--json", "rules", packet])
        .expect(0)
        .json();
    let tried = told["passes"][0]["tried"].as_array().unwrap().iter();
    let tried: Vec<(u64, &str, &str)> = tried
        .map(|one| {
            let text = |name: &str| one[name].as_str().unwrap();
            (
                one["rule"].as_u64().unwrap(),
                text("result"),
                text("because"),
            )
        })
        .collect();
    let expected = [
        (10, "acted", "Count"),
        (20, "failed", "`tcp` fails"),
        (30, "acted", "Count"),
        (40, "acted", "SetDscp 46"),
        (50, "failed", "`out` fails"),
        (60, "acted", "SkipTo 300"),
        (300, "failed", "its patterns hold, and it does nothing here"),
        (310, "acted", "Accept"),
    ];
    assert_eq!(tried, expected);
}

#[test]
fn established_asks_for_rst_or_ack_where_that_is_set() {
    let folder = Folder::new();
    let rules = "add 100 allow tcp from any to any established\n";
    folder.file("usual", rules);
    folder.file(
        "strict",
        &format!("# --sysctl weir.established_strict=1\n{rules}"),
    );
    let verdict = |file: &str, flags: &str, more: &[&str]| {
        let packet = format!("in=eth0 tcp 192.0.2.9:1 > 192.0.2.1:22 flags={flags}");
        let args = [&["explain", "--json", file, &packet][..], more].concat();
        let told = folder.weir(&args).expect(0).json();
        told["verdict"].as_str().unwrap().to_owned()
    };
    let given = ["--sysctl", "weir.established_strict=1"];
    for (flags, usual, strict) in [
        ("SYN", "drop", "drop"),
        ("ACK", "accept", "accept"),
        ("RST", "accept", "accept"),
        ("FIN", "accept", "drop"),
        ("NONE", "accept", "drop"),
    ] {
        assert_eq!(verdict("usual", flags, &[]), usual, "{flags}");
        assert_eq!(verdict("strict", flags, &[]), strict, "{flags}");
        assert_eq!(verdict("usual", flags, &given), strict, "{flags}");
    }
    // What the setting changes is a difference, and the kernel's way is told only where it holds.
    let diff = ["diff", "usual", "strict", "--family", "ipv4"];
    let differs = folder.weir(&diff).expect(1).out;
    assert!(differs.contains("newly refused"), "{differs}");
    let told = |file: &str| folder.weir(&["check", file]).expect(0).err;
    assert!(told("usual").contains("weir.established_strict=1"));
    assert!(
        !told("strict").contains("established"),
        "{}",
        told("strict")
    );
    let shown = folder.weir(&["show", "strict"]).expect(0).out;
    assert!(
        shown.starts_with("# --sysctl weir.established_strict=1\n"),
        "{shown}"
    );
}

/// A capture of one frame of Ethernet.
fn ethernet(path: &std::path::Path, inside: &[u8]) {
    frames(path, &[(0, 1, 0x0800, inside)]);
}

/// A capture of frames: seconds, last byte of the sender's address, type, and what they hold.
fn frames(path: &std::path::Path, all: &[(u32, u8, u16, &[u8])]) {
    let mut out = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 0x4_0000, 1] {
        out.extend(word.to_le_bytes());
    }
    for (seconds, from, kind, inside) in all {
        let header = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, *from];
        let frame = [&header[..], &kind.to_be_bytes(), inside].concat();
        let length = frame.len() as u32;
        for word in [1_700_000_000 + seconds, 0, length, length] {
            out.extend(word.to_le_bytes());
        }
        out.extend(frame);
    }
    std::fs::write(path, out).unwrap();
}

#[test]
fn frames_of_a_capture_without_a_packet_are_judged_where_frames_are() {
    let folder = Folder::new();
    let rules = "# --sysctl net.link.ether.ipfw=1\n\
        add 100 skipto 1000 ip from any to any layer2\n\
        add 200 check-state\n\
        add 210 allow udp from any to any 53 keep-state\n\
        add 220 deny ip from any to any\n\
        add 1000 allow ip from any to any MAC any 02:00:00:00:00:01 mac-type 0x0806\n\
        add 1010 deny ip from any to any mac-type 0x0806,0x88cc\n\
        add 1020 allow ip from any to any\n";
    folder.file("rules", rules);
    let query = udp(([192, 0, 2, 9], 1), ([192, 0, 2, 1], 53));
    let answer = udp(([192, 0, 2, 1], 53), ([192, 0, 2, 9], 1));
    let arp = [0; 46];
    let tagged = [&[0, 7, 8, 6][..], &arp].concat();
    frames(
        &folder.0.join("capture"),
        &[
            (0, 1, 0x0800, &query),
            (1, 1, 0x0806, &arp),
            (2, 3, 0x0806, &arp),
            // Behind a VLAN tag, and of another protocol.
            (3, 1, 0x8100, &tagged),
            (4, 1, 0x88cc, &arp),
            // A type of IP, and nothing like it behind.
            (5, 1, 0x0800, &arp),
            (9, 1, 0x0800, &answer),
            // Ten seconds later the state is over, whatever came between.
            (18, 1, 0x0806, &arp),
            (19, 1, 0x0800, &answer),
        ],
    );
    let replay = |more: &[&str]| {
        let args = ["replay", "--dialect", "ipfw", "--in", "eth0", "--json"];
        let run = folder.weir(&[&args[..], more, &["rules", "capture"]].concat());
        run.expect(0)
    };
    let told = |more: &[&str]| -> Vec<(String, u64, usize)> {
        let records = replay(more).records();
        let records = records.iter().map(|one| {
            let verdict = one["verdict"].as_str().or(one["skipped"].as_str());
            let trail = one["trail"].as_array().unwrap();
            let rule = one["rule"].as_u64().unwrap_or(0);
            (verdict.unwrap().to_owned(), rule, trail.len())
        });
        records.collect()
    };
    let one = |verdict: &str, rule, acted| (verdict.to_owned(), rule, acted);
    let on = [
        one("accept", 210, 3),
        one("accept", 1000, 2),
        one("drop", 1010, 2),
        one("accept", 1000, 2),
        one("drop", 1010, 2),
        one("accept", 1020, 2),
        one("accept", 210, 3),
        one("accept", 1000, 2),
        one("drop", 220, 3),
    ];
    assert_eq!(told(&[]), on);
    let off = told(&["--sysctl", "net.link.ether.ipfw=0"]);
    let bare = one("not IP", 0, 0);
    for at in [1, 2, 3, 4, 5, 7] {
        assert_eq!(off[at], bare, "{off:?}");
    }
    let packets = [0, 6, 8].map(|at| off[at].1);
    assert_eq!(packets, [210, 210, 220]);
    // Each counts with what is behind its header.
    let counts = replay(&["--quiet"]).json();
    let of = |rule: u64| {
        let counts = counts.as_array().unwrap();
        let one = counts.iter().find(|one| one["rule"] == rule).unwrap();
        [&one["packets"], &one["bytes"]].map(|number| number.as_u64().unwrap())
    };
    assert_eq!((of(1000), of(1010)), ([3, 138], [2, 92]));
    assert_eq!(of(100)[0], 9);
    let run = folder.weir(&[
        "explain",
        "--dialect",
        "ipfw",
        "--in",
        "eth0",
        "rules",
        "capture",
    ]);
    let frame = "frame type=0x0806 02:00:00:00:00:03 > 02:00:00:00:00:02";
    assert!(run.out.contains(frame), "{run:?}");
}

#[test]
fn a_sent_packet_is_judged_before_its_frame_and_a_received_one_behind_it() {
    let folder = Folder::new();
    let rules = "# --sysctl net.link.ether.ipfw=1\n\
        add 100 skipto 1000 ip from any to any layer2\n\
        add 200 count ip from any to any\n\
        add 300 deny udp from any to any 9 out\n\
        add 310 allow tag 5 ip from any to any\n\
        add 1000 count ip from any to any out tagged 5\n\
        add 1010 deny udp from any to any 7\n\
        add 1020 allow ip from any to any\n";
    folder.file("rules", rules);
    let trail = |way: &str, name: &str| -> (String, Vec<u64>) {
        let args = [
            "replay",
            "--json",
            "--dialect",
            "ipfw",
            way,
            "eth0",
            "rules",
            name,
        ];
        let out = folder.weir(&args).expect(0).out;
        let record: serde_json::Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
        let Some(numbers) = record["trail"].as_array() else {
            panic!("{record}");
        };
        let numbers = numbers.iter();
        let numbers = numbers.map(|number| number.as_u64().unwrap()).collect();
        (record["verdict"].as_str().unwrap().to_owned(), numbers)
    };
    for (name, port) in [("plain", 53), ("packet", 9), ("frame", 7)] {
        let packet = udp(([192, 0, 2, 9], 1), ([192, 0, 2, 1], port));
        ethernet(&folder.0.join(name), &packet);
    }
    let verdict = |verdict: &str, trail: &[u64]| (verdict.to_owned(), trail.to_vec());
    let all = verdict("accept", &[200, 310, 100, 1000, 1020]);
    assert_eq!(trail("--out", "plain"), all);
    assert_eq!(
        trail("--in", "plain"),
        verdict("accept", &[100, 1020, 200, 310])
    );
    // The one that is judged first decides, and the other one is not asked.
    assert_eq!(trail("--out", "packet"), verdict("drop", &[200, 300]));
    assert_eq!(
        trail("--out", "frame"),
        verdict("drop", &[200, 310, 100, 1000, 1010])
    );
    assert_eq!(trail("--in", "frame"), verdict("drop", &[100, 1010]));
    let args = [
        "explain",
        "--json",
        "--dialect",
        "ipfw",
        "--out",
        "eth0",
        "rules",
        "plain",
    ];
    let told = folder.weir(&args).expect(0).json();
    let frames: Vec<bool> = told["passes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pass| pass["frame"] == true)
        .collect();
    assert_eq!(frames, [false, true], "{told}");
}
