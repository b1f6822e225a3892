//! Address tables of enforced rules, changed with `weir ippool`; and what `set` says, which stays
//! when rules change.

mod common;

use common::{Folder, Namespace, Run};

fn send(netns: &Namespace, address: &str) {
    let line = format!("exec 3<>/dev/udp/{address}/9 && echo >&3");
    netns.run(&["bash", "-c", &line]);
}

#[test]
fn tables_are_loaded_first_and_changed_under_rules() {
    if weir_plane::kernel_or_skip("tables_are_loaded_first_and_changed_under_rules").is_none() {
        return;
    }
    let (folder, netns) = (Folder::new(), Namespace::with_loopback("pool"));
    let name = netns.0.as_str();
    let tool = |tool: &str, args: &[&str]| -> Run {
        folder.weir(&[&[tool, "--netns", name], args].concat())
    };
    folder.file(
        "p",
        "table role = ipf type = tree name = far { 127.0.0.7/32; };\n",
    );
    folder.file(
        "r",
        "block in quick on lo from any to pool/far\npass in all\n",
    );
    let wanted = "table role = ipf type = tree name = far\n\t{ 127.0.0.7/32; };\n";
    // The usual order at boot: tables, then rules that ask for them.
    assert_eq!(tool("ippool", &["-vf", "p"]).expect(0).out, wanted);
    assert_eq!(tool("ippool", &["-l"]).expect(0).out, wanted);
    tool("ipf", &["-Fa", "-f", "r"]).expect(0);
    let hits = || {
        let listed = tool("ipfstat", &["-ih"]).expect(0).out;
        let first = listed.lines().next().unwrap_or_default();
        first.split(' ').next().unwrap_or_default().to_owned()
    };
    send(&netns, "127.0.0.7");
    send(&netns, "127.0.0.8");
    assert_eq!(hits(), "1");
    // One more address: the rule's hits stay.
    tool("ippool", &["-a", "-m", "far", "-i", "127.0.0.8"]).expect(0);
    tool("ippool", &["-a", "-m", "far", "-i", "127.0.0.8"]).expect(1);
    tool("ippool", &["-a", "-m", "near", "-i", "127.0.0.8"]).expect(1);
    tool("ippool", &["-a", "-m", "far", "-i", "127.0.0.800"]).expect(2);
    send(&netns, "127.0.0.8");
    assert_eq!(hits(), "2");
    tool("ippool", &["-r", "-m", "far", "-i", "127.0.0.7/32"]).expect(0);
    send(&netns, "127.0.0.7");
    assert_eq!(hits(), "2");
    let far = tool("ippool", &["-l", "-m", "far"]).expect(0).out;
    assert!(far.ends_with("\t{ 127.0.0.8/32; };\n"), "{far}");
    tool("ippool", &["-A", "-m", "spare", "-t", "hash", "-S", "7"]).expect(0);
    let counts = tool("ippool", &["-s"]).expect(0).out;
    assert_eq!(counts, "Pools:\t1\nNodes:\t1\nHash Tables:\t1\nNodes:\t0\n");
    tool("ippool", &["-R", "-m", "spare"]).expect(0);
    // Without -o the one of role ipf is meant, and no other of its name.
    let twins = ["all", "ipf", "count"].map(|role| {
        format!("table role = {role} type = tree name = twin\n\t{{ 192.0.2.1/32; }};\n")
    });
    folder.file("twins", &twins.concat());
    tool("ippool", &["-f", "twins"]).expect(0);
    tool("ippool", &["-a", "-m", "twin", "-i", "192.0.2.2"]).expect(0);
    tool("ippool", &["-r", "-m", "twin", "-i", "192.0.2.1"]).expect(0);
    let twin = |own: &str| [&twins[0], own, &twins[2]].concat();
    let listed = || tool("ippool", &["-l", "-m", "twin"]).expect(0).out;
    assert_eq!(listed(), twin(&twins[1].replace("2.1", "2.2")));
    tool("ippool", &["-R", "-m", "twin"]).expect(0);
    assert_eq!(listed(), twin(""));
    let run = tool("ippool", &["-a", "-m", "twin", "-i", "192.0.2.3"]).expect(1);
    assert!(run.err.contains("no table twin of role ipf"), "{run:?}");
    let wrong = ["-a", "-m", "twin", "-o", "all", "-i", "192.0.2.1"];
    tool("ippool", &wrong).expect(1);
    tool("ippool", &["-R", "-m", "twin", "-o", "all"]).expect(0);
    assert_eq!(listed(), twins[2]);
    tool("ippool", &["-R", "-m", "twin", "-o", "counts"]).expect(2);
    tool("ippool", &["-F", "-o", "count"]).expect(0);
    // A table that a rule asks for stays.
    let refused = tool("ippool", &["-F"]).expect(2);
    assert!(
        refused.err.contains("there is no table `far`"),
        "{refused:?}"
    );
    assert_eq!(tool("ippool", &["-l"]).expect(0).out, far);
    tool("ipf", &["-Fa"]).expect(0);
    tool("ippool", &["-uf", "p"]).expect(0);
    assert_eq!(tool("ippool", &["-l"]).expect(0).out, "");
}

#[test]
fn settings_stay_when_rules_change() {
    if weir_plane::kernel_or_skip("settings_stay_when_rules_change").is_none() {
        return;
    }
    let (folder, netns) = (Folder::new(), Namespace::with_loopback("tune"));
    let name = netns.0.as_str();
    let ipf = |args: &[&str]| folder.weir(&[&["ipf", "--netns", name], args].concat());
    folder.file(
        "r",
        "set default_pass 1;\npass in quick proto tcp all\npass out all\n",
    );
    folder.file("more", "pass in quick proto icmp all\n");
    folder.weir(&["apply", "--netns", name, "r"]).expect(0);
    let ping = || netns.run(&["ping", "-c", "1", "-W", "1", "127.0.0.1"]).code;
    assert_eq!(ping(), Some(1), "what no rule matches is blocked");
    let value = |name: &str| ipf(&["-T", name]).expect(0).out;
    assert_eq!(value("fr_pass"), "default_pass\tcurrent 1\n");
    ipf(&["-f", "more"]).expect(0);
    assert_eq!(value("default_pass"), "default_pass\tcurrent 1\n");
    assert_eq!(ping(), Some(0));
    ipf(&["-rf", "more"]).expect(0);
    assert_eq!(ping(), Some(1), "still blocked where no rule matches");
    ipf(&["-T", "default_pass=2,min_ttl=9"]).expect(0);
    assert_eq!(ping(), Some(0));
    let all = value("list");
    assert!(
        all.contains("default_pass\tcurrent 2\nmin_ttl\tcurrent 9\n"),
        "{all}"
    );
    ipf(&["-T", "nosuch=1"]).expect(3);
    ipf(&["-T", "min_ttl=x"]).expect(2);
}
