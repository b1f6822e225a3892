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
