//! The commands of IPFilter users on enforced rules: lists changed in place, hits that stay, lists
//! that are input again when printed, log lines.

mod common;

use common::{Folder, Namespace, Run, command};
use std::io::Write;
use std::process::Stdio;

const RULES: &str = "block in log on lo all\n\
    pass in quick on lo proto udp from any to any port = 53\n\
    block in log quick on lo proto udp from any to any port = 77\n\
    pass out all\n\
    count in proto udp from any to any\n";

/// The program with something on its standard input.
fn fed(folder: &Folder, args: &[&str], input: &str) -> Run {
    let mut child = command(&folder.0, args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(input.as_bytes()).unwrap();
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    Run {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn send(netns: &Namespace, protocol: &str, port: u16) {
    let line = format!("exec 3<>/dev/{protocol}/127.0.0.1/{port} && echo >&3");
    netns.run(&["bash", "-c", &line]);
}

fn generation(folder: &Folder, netns: &str) -> Option<u64> {
    folder.weir(&["status", "--json", "--netns", netns]).json()["generation"].as_u64()
}

#[test]
fn lists_change_in_place_and_keep_their_hits() {
    if weir_plane::kernel_or_skip("lists_change_in_place_and_keep_their_hits").is_none() {
        return;
    }
    let (folder, netns) = (Folder::new(), Namespace::with_loopback("live"));
    let name = netns.0.as_str();
    folder.file("r", RULES);
    let ipf = |args: &[&str]| folder.weir(&[&["ipf", "--netns", name], args].concat());
    let stat = |args: &[&str]| folder.weir(&[&["ipfstat", "--netns", name], args].concat());

    let none = stat(&["-io"]).expect(0);
    assert_eq!(none.out, "");
    assert!(
        none.err.contains("# empty list for ipfilter(in)"),
        "{none:?}"
    );
    ipf(&["-Fa", "-f", "r"]).expect(0);
    for port in [53, 53, 99] {
        send(&netns, "udp", port);
    }
    send(&netns, "udp", 77);
    let out = "pass out all\n";
    let inbound = "block in log on lo all\n\
        pass in quick on lo proto udp from any to any port = 53\n\
        block in log quick on lo proto udp from any to any port = 77\n";
    assert_eq!(stat(&["-io"]).expect(0).out, format!("{out}{inbound}"));
    let hits = stat(&["-ihn"]).expect(0).out;
    let lines: Vec<&str> = hits.lines().collect();
    assert!(lines[1].starts_with("2 @2 pass in quick on lo"), "{hits}");
    assert!(lines[2].starts_with("1 @3 block in log quick"), "{hits}");
    let account = stat(&["-aih"]).expect(0).out;
    assert_eq!(account, "4 116 count in proto udp from any to any\n");

    // Appended and removed rules leave the hits of the others alone.
    folder.file(
        "more",
        "pass in quick on lo proto udp from any to any port = 99\n",
    );
    ipf(&["-f", "more"]).expect(0);
    let hits = stat(&["-ih"]).expect(0).out;
    assert!(hits.contains("\n2 pass in quick on lo"), "{hits}");
    assert!(hits.ends_with("\n0 pass in quick on lo proto udp from any to any port = 99\n"));
    ipf(&["-rf", "more"]).expect(0);
    ipf(&["-rf", "more"]).expect(1);
    let zeroed = ipf(&["-z", "-f", "r"]).expect(0).out;
    assert!(
        zeroed.contains("hits 2 bytes 58 pass in quick on lo"),
        "{zeroed}"
    );
    let hits = stat(&["-ih"]).expect(0).out;
    assert!(hits.contains("\n0 pass in quick on lo"), "{hits}");
}

#[test]
fn the_inactive_lists_are_swapped_and_printed_lists_are_input() {
    if weir_plane::kernel_or_skip("the_inactive_lists_are_swapped").is_none() {
        return;
    }
    let (folder, netns) = (Folder::new(), Namespace::new("swap"));
    let name = netns.0.as_str();
    folder.file("r", RULES);
    folder.file("other", "block in quick on lo all\n");
    let ipf = |args: &[&str]| folder.weir(&[&["ipf", "--netns", name], args].concat());
    let stat = |args: &[&str]| folder.weir(&[&["ipfstat", "--netns", name], args].concat());
    ipf(&["-f", "r"]).expect(0);
    ipf(&["-I", "-Fa", "-f", "other"]).expect(0);
    assert_eq!(stat(&["-Ii"]).expect(0).out, "block in quick on lo all\n");
    let active = stat(&["-io"]).expect(0).out;
    ipf(&["-s"]).expect(0);
    assert_eq!(stat(&["-i"]).expect(0).out, "block in quick on lo all\n");
    ipf(&["-s"]).expect(0);
    assert_eq!(stat(&["-io"]).expect(0).out, active);

    ipf(&["-D"]).expect(0);
    assert_eq!(stat(&["-io"]).expect(0).out, "");
    ipf(&["-E"]).expect(0);
    assert_eq!(stat(&["-io"]).expect(0).out, active);

    // The lists are input again, and remove themselves; the accounting list stays.
    let before = generation(&folder, name);
    fed(&folder, &["ipf", "--netns", name, "-rf", "-"], &active).expect(0);
    assert!(generation(&folder, name) > before);
    assert_eq!(stat(&["-io"]).expect(0).out, "");
    assert!(
        stat(&["-ai"])
            .expect(0)
            .out
            .starts_with("0 count in proto udp")
    );
    fed(&folder, &["ipf", "--netns", name, "-f", "-"], &active).expect(0);
    assert_eq!(stat(&["-io"]).expect(0).out, active);

    // A wrong rule leaves everything as it is.
    folder.file("wrong", "block in quick on lo from 1.2.3.4/33 to any\n");
    let before = generation(&folder, name);
    let run = ipf(&["-Fa", "-f", "wrong"]).expect(2);
    assert!(run.err.contains("wrong:1:"), "{run:?}");
    assert_eq!(generation(&folder, name), before);
    for refused in [
        &["-l", "pass"][..],
        &["-FS"],
        &["-T", "fr_x=1"],
        &["-P", "-f", "r"],
    ] {
        ipf(refused).expect(3);
    }
    folder.weir(&["unload", "--netns", name]).expect(0);
    folder.file("v4", "*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n");
    folder.weir(&["apply", "--netns", name, "v4"]).expect(0);
    let run = ipf(&["-f", "r"]).expect(3);
    assert!(run.err.contains("not of IPFilter"), "{run:?}");
}

#[test]
fn rules_end_with_their_time_and_tunables_are_kept() {
    if weir_plane::kernel_or_skip("rules_end_with_their_time").is_none() {
        return;
    }
    let (folder, netns) = (Folder::new(), Namespace::with_loopback("ttl"));
    let name = netns.0.as_str();
    let ipf = |args: &[&str]| folder.weir(&[&["ipf", "--netns", name], args].concat());
    let stat = |args: &[&str]| folder.weir(&[&["ipfstat", "--netns", name], args].concat());
    let hits = || stat(&["-ih"]).expect(0).out;
    let short = "block in quick on lo proto udp from any to any port = 77 rule-ttl";
    folder.file("r", &format!("{short} 8\npass in on lo all\n"));
    ipf(&["-f", "r"]).expect(0);
    send(&netns, "udp", 77);
    assert!(hits().starts_with(&format!("1 {short} ")), "{}", hits());
    // What is left of the time stays with the rule, and so do its hits.
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    folder.file("more", "pass in on lo proto tcp all\n");
    ipf(&["-f", "more"]).expect(0);
    let left = hits();
    let left = left.lines().next().and_then(|line| line.rsplit_once(' '));
    let left: u32 = left.expect("a rule").1.parse().expect("seconds");
    assert!((1..8).contains(&left), "{left}");
    assert!(hits().starts_with(&format!("1 {short} ")), "{}", hits());
    std::thread::sleep(std::time::Duration::from_secs(u64::from(left) + 1));
    send(&netns, "udp", 77);
    assert!(hits().starts_with("2 pass in on lo all\n"), "{}", hits());

    let tunables = ipf(&["-T", "list"]).expect(0).out;
    assert!(
        tunables.contains("tcp_idle_timeout\tcurrent 864000\n"),
        "{tunables}"
    );
    ipf(&["-T", "fr_tcpidletimeout=600,fr_udptimeout=20"]).expect(0);
    ipf(&["-rf", "more"]).expect(0);
    let told = ipf(&["-T", "tcp_idle_timeout,udp_timeout"]).expect(0).out;
    assert_eq!(
        told,
        "tcp_idle_timeout\tcurrent 600\nudp_timeout\tcurrent 20\n"
    );
}

#[test]
fn logged_packets_are_printed_as_ipmon_does() {
    if weir_plane::kernel_or_skip("logged_packets_are_printed").is_none() {
        return;
    }
    let (folder, netns) = (Folder::new(), Namespace::with_loopback("mon"));
    let name = netns.0.as_str();
    folder.file("r", RULES);
    folder.weir(&["apply", "--netns", name, "r"]).expect(0);
    send(&netns, "udp", 99);
    send(&netns, "udp", 77);
    let args = [
        "ipmon",
        "--netns",
        name,
        "-B",
        "saved",
        "--count",
        "2",
        "--seconds",
        "20",
    ];
    let run = folder.weir(&args).expect(0);
    let lines: Vec<&str> = run.out.lines().collect();
    // One logged behind the list, where the first rule's block still stands; one by its rule.
    assert!(lines[0].contains(" lo @0:1 b 127.0.0.1,"), "{run:?}");
    assert!(
        lines[0].ends_with(" -> 127.0.0.1,99 PR udp len 20 29 IN"),
        "{run:?}"
    );
    assert!(lines[1].contains(" lo @0:3 b 127.0.0.1,"), "{run:?}");
    assert!(
        lines[1].ends_with(" -> 127.0.0.1,77 PR udp len 20 29 IN"),
        "{run:?}"
    );
    let again = folder.weir(&["ipmon", "-f", "saved"]).expect(0);
    assert_eq!(again.out, run.out);
    let hex = folder.weir(&["ipmon", "-vxf", "saved"]).expect(0).out;
    assert!(hex.contains("\n45 00 00 1d "), "{hex}");
    assert_eq!(
        folder
            .weir(&["ipmon", "-o", "NS", "-f", "saved"])
            .expect(0)
            .out,
        ""
    );
    folder.weir(&["ipmon", "-o", "Z", "-f", "saved"]).expect(2);
}

#[test]
fn kept_states_are_listed_and_counted() {
    if weir_plane::kernel_or_skip("kept_states_are_listed_and_counted").is_none() {
        return;
    }
    let (folder, netns) = (Folder::new(), Namespace::with_loopback("kept"));
    let name = netns.0.as_str();
    let rule = "pass out quick on lo proto udp from any to any port = 99 keep state\n";
    folder.file("r", rule);
    let stat = |args: &[&str]| folder.weir(&[&["ipfstat", "--netns", name], args].concat());
    assert_eq!(stat(&["-sl"]).expect(0).out, "");
    let load = ["ipf", "--netns", name, "-Fa", "-f", "r"];
    folder.weir(&load).expect(0);
    send(&netns, "udp", 99);
    let listed = stat(&["-sl"]).expect(0).out;
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines[0].starts_with("4:udp src:127.0.0.1,"), "{listed}");
    assert!(
        lines[0].contains(" dst:127.0.0.1,99 state:0/0 "),
        "{listed}"
    );
    assert!(
        lines[1].contains("FWD: IN pkts 1 bytes 29 OUT pkts 1 bytes 29"),
        "{listed}"
    );
    assert!(
        listed.contains("\ttag 0 = pass out quick keep state\n"),
        "{listed}"
    );
    assert!(listed.contains("\tinterfaces: in lo[lo],"), "{listed}");
    send(&netns, "udp", 99);
    let verbose = stat(&["-ov"]).expect(0).out;
    assert_eq!(verbose, rule.replace("state\n", "state # count 2\n"));
    let counts = stat(&["-s"]).expect(0).out;
    assert!(
        counts.starts_with("2\tactive entries\n0\tadd bad\n"),
        "{counts}"
    );
    let top = stat(&["-t"]).expect(0).out;
    assert!(
        top.lines().next().unwrap().contains(" - state top "),
        "{top}"
    );
    assert!(
        top.lines().nth(2).unwrap().contains("127.0.0.1,99"),
        "{top}"
    );
}

#[test]
fn states_go_on_under_rules_that_make_none() {
    if weir_plane::kernel_or_skip("states_go_on_under_rules_that_make_none").is_none() {
        return;
    }
    let (folder, netns) = (Folder::new(), Namespace::with_loopback("last"));
    let name = netns.0.as_str();
    folder.file(
        "r",
        "pass out quick on lo proto udp from any to any port = 99 keep state\n",
    );
    folder.file("closed", "block in all\nblock out all\n");
    let stat = |args: &[&str]| folder.weir(&[&["ipfstat", "--netns", name], args].concat());
    let again = || {
        let line = "echo | socat -t 0 - UDP4:127.0.0.1:99,sourceport=5555";
        netns.run(&["bash", "-c", line]);
    };
    folder.weir(&["apply", "--netns", name, "r"]).expect(0);
    again();
    let packets = |count: u32| {
        let listed = stat(&["-sl"]).expect(0).out;
        let counted = format!("FWD: IN pkts {count} bytes");
        assert!(listed.contains(&counted), "{count}: {listed}");
    };
    packets(1);
    // In both ways, and again where the one before has no such rule either.
    folder.weir(&["apply", "--netns", name, "closed"]).expect(0);
    again();
    packets(2);
    let flushed = ["ipf", "--netns", name, "-Fa", "-f", "closed"];
    folder.weir(&flushed).expect(0);
    again();
    packets(3);
    let lists = stat(&["-hio"]).expect(0).out;
    assert_eq!(lists, "0 block out all\n0 block in all\n");
    // What has no state meets the rules.
    netns.run(&[
        "bash",
        "-c",
        "echo | socat -t 0 - UDP4:127.0.0.1:98 || true",
    ]);
    let lists = stat(&["-hio"]).expect(0).out;
    assert_eq!(lists, "1 block out all\n0 block in all\n");
}

#[test]
fn lists_are_changed_while_filtering_is_off() {
    if weir_plane::kernel_or_skip("lists_are_changed_while_filtering_is_off").is_none() {
        return;
    }
    let (folder, netns) = (Folder::new(), Namespace::new("off"));
    let name = netns.0.as_str();
    folder.file("r", "block in all\n");
    folder.file("more", "block in from 1.1.1.1/32 to any\n");
    let ipf = |args: &[&str]| folder.weir(&[&["ipf", "--netns", name], args].concat());
    let list = || {
        folder
            .weir(&["ipfstat", "--netns", name, "-i"])
            .expect(0)
            .out
    };
    ipf(&["-f", "r"]).expect(0);
    ipf(&["-D"]).expect(0);
    let told = ipf(&["-f", "more"]).expect(0).err;
    assert!(told.contains("filtering is off"), "{told}");
    assert_eq!(list(), "", "it stays off");
    ipf(&["-E"]).expect(0);
    let both = "block in all\nblock in inet from 1.1.1.1/32 to any\n";
    assert_eq!(list(), both);
    ipf(&["-D"]).expect(0);
    ipf(&["-Fa", "-f", "more"]).expect(0);
    ipf(&["-D"]).expect(0);
    assert_eq!(list(), "");
    ipf(&["-E"]).expect(0);
    assert_eq!(list(), "block in inet from 1.1.1.1/32 to any\n");
    // What was kept is over once rules are applied.
    ipf(&["-D"]).expect(0);
    folder.weir(&["apply", "--netns", name, "r"]).expect(0);
    ipf(&["-Fa"]).expect(0);
    ipf(&["-f", "r"]).expect(0);
    assert_eq!(list(), "block in all\n");
}

#[test]
fn files_are_found_from_the_folder_that_a_command_began_in() {
    if weir_plane::kernel_or_skip("files_are_found_from_the_folder").is_none() {
        return;
    }
    let (folder, netns) = (Folder::new(), Namespace::new("rel"));
    let name = netns.0.as_str();
    folder.file("r", "block in quick from pool/1 to any\n");
    folder.file("addresses", "192.0.2.1\n");
    let table = "table role = ipf type = tree number = 1 { \"file://addresses\"; };\n";
    folder.file("p", table);
    let inside = |args: &[&str]| {
        let program = env!("CARGO_BIN_EXE_weir");
        let output = std::process::Command::new("ip")
            .args(["netns", "exec", name, program])
            .args(args)
            .current_dir(&folder.0)
            .output()
            .unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{args:?}: {err}");
        String::from_utf8(output.stdout).unwrap()
    };
    inside(&["ippool", "-f", "p"]);
    inside(&["ipf", "-Fa", "-f", "r"]);
    let place = folder.0.join("addresses");
    assert!(inside(&["ippool", "-l"]).contains(place.to_str().unwrap()));
    assert_eq!(
        inside(&["ipfstat", "-i"]),
        "block in quick from pool/1 to any\n"
    );
}
