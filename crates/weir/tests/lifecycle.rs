//! Policies in the kernel, in namespaces of the test's own: apply, trial, confirm, unload, and
//! processes that die in between.

mod common;

use common::{Folder, Namespace, Run, command};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

const OPEN: &str = "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -i lo -j ACCEPT\nCOMMIT\n";
const SHUT: &str = "*filter\n:INPUT DROP [0:0]\n-A INPUT -p tcp -j REJECT\nCOMMIT\n";

/// Whether kernel tests can run; says loudly when not.
fn kernel(test: &str) -> bool {
    weir_plane::kernel_or_skip(test).is_some()
}

fn generation(folder: &Folder, netns: &str) -> Option<u64> {
    let run = folder.weir(&["status", "--json", "--netns", netns]);
    assert!(matches!(run.code, Some(0 | 1)), "{run:?}");
    run.json()["generation"].as_u64()
}

fn files(folder: &Folder, netns: &str) -> String {
    let status = folder
        .weir(&["status", "--json", "--netns", netns])
        .expect(0)
        .json();
    status["files"][0].as_str().unwrap().to_owned()
}

/// Waits for something to become true.
fn within(limit: Duration, mut true_yet: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < limit {
        if true_yet() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

fn two_files() -> Folder {
    let folder = Folder::new();
    folder.file("open.v4", OPEN);
    folder.file("shut.v4", SHUT);
    folder
}

fn apply(folder: &Folder, netns: &str, more: &[&str]) -> Run {
    let mut args = vec!["apply", "--netns", netns];
    args.extend(more);
    folder.weir(&args).expect(0)
}

#[test]
fn ipfilter_rules_are_enforced_by_last_match() {
    if !kernel("ipfilter_rules_are_enforced_by_last_match") {
        return;
    }
    let folder = Folder::new();
    let netns = Namespace::new("ipf");
    let rules = "block in log all\npass in on lo all\npass in on lo proto tcp all head 10\n\
        block return-rst in quick proto tcp from any to any port = 23 group 10\n\
        pass out all\nblock out proto udp from any to any port = 53\n";
    folder.file("ipf.conf", rules);
    folder
        .weir(&["apply", "--netns", &netns.0, "ipf.conf"])
        .expect(0);
    netns.run(&["ip", "link", "set", "lo", "up"]).expect(0);
    for (protocol, port) in [("tcp", 23), ("tcp", 24), ("udp", 53), ("udp", 54)] {
        let send = format!("exec 3<>/dev/{protocol}/127.0.0.1/{port} && echo >&3");
        netns.run(&["bash", "-c", &send]);
    }
    let counters = folder.weir(&["counters", "--rules", "--json", "--netns", &netns.0]);
    let lines = counters.expect(0).json();
    let packets = |line: u64| -> u64 {
        let all = lines["rules"].as_array().or(lines.as_array()).unwrap();
        let of_line = all
            .iter()
            .filter(|rule| rule["line"] == line && rule["index"] != 0);
        let counts: Vec<u64> = of_line
            .map(|rule| rule["packets"].as_u64().unwrap())
            .collect();
        assert_eq!(counts.len(), 1, "line {line} is listed once: {all:?}");
        counts[0]
    };
    assert_eq!(packets(4), 1, "{lines}");
    assert_eq!(packets(6), 1, "{lines}");
    // Out alone goes what line 6 blocks, in alone comes the reset, which leaves past the list.
    assert!(
        packets(1) >= 3 && packets(2) == packets(1) && packets(5) == packets(1),
        "{lines}"
    );
    let refused = "auth in proto tcp from any to any port = 22\n";
    folder.file("auth.conf", refused);
    let run = folder
        .weir(&["apply", "--netns", &netns.0, "auth.conf"])
        .expect(3);
    assert!(run.err.contains("`auth` is not enforced yet"), "{run:?}");
    folder.weir(&["unload", "--netns", &netns.0]).expect(0);
}

/// The namespace's agent, as status tells it.
fn agent(folder: &Folder, netns: &str) -> Option<i64> {
    folder.weir(&["status", "--json", "--netns", netns]).json()["agent"].as_i64()
}

/// Whether a process lives; one that nobody has waited for yet does not.
fn lives(process: i64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

#[test]
fn a_policy_comes_shows_itself_and_goes_without_a_trace() {
    if !kernel("a_policy_comes_shows_itself_and_goes") {
        return;
    }
    let (folder, netns) = (two_files(), Namespace::new("goes"));
    let name = netns.0.as_str();
    folder.weir(&["status", "--netns", name]).expect(1);
    folder.weir(&["counters", "--netns", name]).expect(1);
    let run = apply(&folder, name, &["open.v4"]);
    assert!(
        run.out
            .starts_with(&format!("applied in namespace {name}: 1 rule,")),
        "{}",
        run.out
    );
    let status = folder.weir(&["status", "--netns", name]).expect(0);
    assert!(status.out.contains("from open.v4"), "{}", status.out);
    let shown = folder.weir(&["show", "--netns", name]).expect(0);
    assert!(
        shown.out.contains("-A INPUT -i lo -j ACCEPT"),
        "{}",
        shown.out
    );
    let counters = folder
        .weir(&["counters", "--rules", "--json", "--netns", name])
        .expect(0);
    let lines = counters.json();
    let first = lines[0].as_object().unwrap();
    for key in [
        "family", "table", "chain", "index", "line", "packets", "bytes",
    ] {
        assert!(first.contains_key(key), "{key}: {first:?}");
    }
    assert!(agent(&folder, name).is_some());
    let process = agent(&folder, name).unwrap();
    folder.weir(&["unload", "--netns", name]).expect(0);
    assert!(!lives(process), "the agent is still there");
    folder.weir(&["status", "--netns", name]).expect(1);
    let again = folder.weir(&["unload", "--netns", name]).expect(0);
    assert!(again.out.contains("nothing was loaded"), "{}", again.out);
}

#[test]
fn a_policy_that_does_not_compile_leaves_the_old_one() {
    if !kernel("a_policy_that_does_not_compile") {
        return;
    }
    let (folder, netns) = (two_files(), Namespace::new("keep"));
    apply(&folder, &netns.0, &["open.v4"]);
    folder.file(
        "bad.v4",
        "*filter\n:INPUT DROP [0:0]\n-A INPUT -j NOWHERE\nCOMMIT\n",
    );
    folder
        .weir(&["apply", "--netns", &netns.0, "bad.v4"])
        .expect(2);
    assert_eq!(files(&folder, &netns.0), "open.v4");
    assert_eq!(generation(&folder, &netns.0), Some(1));
}

#[test]
fn a_trial_ends_by_itself_or_by_confirmation() {
    if !kernel("a_trial_ends_by_itself") {
        return;
    }
    let (folder, netns) = (two_files(), Namespace::new("trial"));
    let name = netns.0.as_str();
    apply(&folder, name, &["open.v4"]);
    folder.weir(&["confirm", "--netns", name]).expect(1);
    apply(&folder, name, &["--confirm", "60", "shut.v4"]);
    let status = folder
        .weir(&["status", "--json", "--netns", name])
        .expect(0)
        .json();
    assert!((1..=60).contains(&status["trial_seconds_left"].as_u64().unwrap()));
    folder.weir(&["confirm", "--netns", name]).expect(0);
    assert_eq!(files(&folder, name), "shut.v4");
    apply(&folder, name, &["--confirm", "3", "open.v4"]);
    assert_eq!(files(&folder, name), "open.v4");
    assert!(within(Duration::from_secs(15), || files(&folder, name)
        == "shut.v4"));
    folder.weir(&["confirm", "--netns", name]).expect(1);
    // What comes after a trial that ended gets a number of its own.
    apply(&folder, name, &["open.v4"]);
    assert_eq!(files(&folder, name), "open.v4");
}

#[test]
fn the_first_policy_on_trial_goes_away_wholly() {
    if !kernel("the_first_policy_on_trial") {
        return;
    }
    let (folder, netns) = (two_files(), Namespace::new("first"));
    apply(&folder, &netns.0, &["--confirm", "3", "shut.v4"]);
    assert_eq!(generation(&folder, &netns.0), Some(1));
    assert!(within(Duration::from_secs(15), || generation(
        &folder, &netns.0
    )
    .is_none()));
    assert!(within(Duration::from_secs(15), || agent(&folder, &netns.0)
        .is_none()));
}

#[test]
fn a_second_trial_returns_to_what_was_confirmed() {
    if !kernel("a_second_trial_returns") {
        return;
    }
    let (folder, netns) = (two_files(), Namespace::new("second"));
    folder.file("third.v4", OPEN);
    apply(&folder, &netns.0, &["open.v4"]);
    apply(&folder, &netns.0, &["--confirm", "60", "shut.v4"]);
    apply(&folder, &netns.0, &["--confirm", "3", "third.v4"]);
    assert!(within(Duration::from_secs(15), || files(&folder, &netns.0)
        == "open.v4"));
}

#[test]
fn a_killed_agent_is_replaced_and_its_trial_still_ends() {
    if !kernel("a_killed_agent_is_replaced") {
        return;
    }
    let (folder, netns) = (two_files(), Namespace::new("agent"));
    let name = netns.0.as_str();
    apply(&folder, name, &["open.v4"]);
    apply(&folder, name, &["--confirm", "3", "shut.v4"]);
    let first = agent(&folder, name).unwrap();
    let killed = std::process::Command::new("kill")
        .args(["-9", &first.to_string()])
        .status();
    assert!(killed.unwrap().success());
    std::thread::sleep(Duration::from_millis(3100));
    // Nobody watched, so the next command that looks ends the trial; it can't be confirmed now.
    folder.weir(&["confirm", "--netns", name]).expect(1);
    assert_eq!(files(&folder, name), "open.v4");
    assert_eq!(agent(&folder, name), None);
    apply(&folder, name, &["shut.v4"]);
    let second = agent(&folder, name).unwrap();
    assert_ne!(first, second);
}

#[test]
fn a_namespace_that_loses_its_name_is_let_go() {
    if !kernel("a_namespace_that_loses_its_name") {
        return;
    }
    let (folder, netns) = (two_files(), Namespace::new("name"));
    apply(&folder, &netns.0, &["open.v4"]);
    let process = agent(&folder, &netns.0).unwrap();
    let gone = std::process::Command::new("ip")
        .args(["netns", "del", &netns.0])
        .status()
        .unwrap();
    assert!(gone.success());
    assert!(within(Duration::from_secs(20), || !lives(process)));
}

#[test]
fn commands_killed_at_any_moment_leave_the_old_or_the_new_policy() {
    if !kernel("commands_killed_at_any_moment") {
        return;
    }
    let (folder, netns) = (two_files(), Namespace::new("kill"));
    let name = netns.0.as_str();
    apply(&folder, name, &["open.v4"]);
    let mut seen = [0, 0];
    for round in 0..24u64 {
        let file = if round % 2 == 0 { "shut.v4" } else { "open.v4" };
        let mut child = command(&folder.0, &["apply", "--netns", name, file])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(1500 * round));
        let _ = child.kill();
        child.wait().unwrap();
        match files(&folder, name).as_str() {
            "open.v4" => seen[0] += 1,
            "shut.v4" => seen[1] += 1,
            other => panic!("{other} is enforced"),
        }
    }
    assert_eq!(seen[0] + seen[1], 24);
    // The store is not stuck, and nothing is left over.
    apply(&folder, name, &["shut.v4"]);
    assert_eq!(files(&folder, name), "shut.v4");
    folder.weir(&["unload", "--netns", name]).expect(0);
    folder.weir(&["status", "--netns", name]).expect(1);
}

#[test]
fn commands_work_inside_the_namespace_too() {
    if !kernel("commands_work_inside_the_namespace") {
        return;
    }
    let (folder, netns) = (two_files(), Namespace::new("inside"));
    let file = folder.0.join("open.v4");
    let weir = env!("CARGO_BIN_EXE_weir");
    netns
        .run(&[weir, "apply", file.to_str().unwrap()])
        .expect(0);
    assert_eq!(generation(&folder, &netns.0), Some(1));
    netns.run(&[weir, "status"]).expect(0);
    netns.run(&[weir, "unload"]).expect(0);
    assert_eq!(generation(&folder, &netns.0), None);
}

/// Where nobody may look at the first process, a command whose parents are gone has no ancestor
/// from outside either.
#[test]
fn a_command_that_nobody_waits_for_finds_the_policy() {
    if !kernel("a_command_that_nobody_waits_for_finds_the_policy") {
        return;
    }
    let (folder, netns) = (two_files(), Namespace::new("orphan"));
    apply(&folder, &netns.0, &["open.v4"]).expect(0);
    let said = folder.0.join("said");
    let alone = "(while [ -e /proc/$$ ]; do sleep 0.02; done; \"$1\" status > \"$2.part\" 2>&1; \
                 mv \"$2.part\" \"$2\") </dev/null >/dev/null 2>&1 &";
    let (weir, file) = (env!("CARGO_BIN_EXE_weir"), said.to_str().unwrap());
    netns.run(&["sh", "-c", alone, "sh", weir, file]).expect(0);
    assert!(within(Duration::from_secs(20), || said.exists()));
    let text = std::fs::read_to_string(&said).unwrap();
    assert!(text.contains("enforced: policy 1"), "{text}");
    folder.weir(&["unload", "--netns", &netns.0]).expect(0);
}

const NAT: &str = "*nat\n:PREROUTING ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n\
                   -A POSTROUTING -o wan0 -j MASQUERADE\nCOMMIT\n";

/// A namespace whose kernel has a nat rule of its own.
fn with_old_nat(label: &str) -> (Folder, Namespace) {
    let (folder, netns) = (two_files(), Namespace::new(label));
    folder.file("gate.v4", &format!("{OPEN}{NAT}"));
    folder.file("nat.v4", NAT);
    let add = "iptables -t nat -A POSTROUTING -o old0 -j ACCEPT";
    netns.run(&add.split(' ').collect::<Vec<_>>()).expect(0);
    (folder, netns)
}

fn nat_rules(netns: &Namespace) -> String {
    netns.run(&["iptables-save", "-t", "nat"]).expect(0).out
}

#[test]
fn the_nat_table_goes_to_the_kernel_and_comes_back() {
    if !kernel("the_nat_table_goes_to_the_kernel") {
        return;
    }
    let (folder, netns) = with_old_nat("nat");
    let (name, rules) = (netns.0.as_str(), || nat_rules(&netns));
    let run = apply(&folder, name, &["gate.v4"]);
    assert!(
        run.out.contains("ipv4 nat: 1 rule not enforced"),
        "{}",
        run.out
    );
    assert!(
        rules().contains("old0") && !rules().contains("wan0"),
        "{}",
        rules()
    );
    apply(&folder, name, &["--nat=kernel", "gate.v4"]);
    assert!(rules().contains("-o wan0 -j MASQUERADE"), "{}", rules());
    assert!(!rules().contains("old0"), "{}", rules());
    // The end of a trial takes both back.
    let other = NAT.replace("-j MASQUERADE", "-j SNAT --to-source 1.2.3.4");
    folder.file("other.v4", &format!("{SHUT}{other}"));
    apply(
        &folder,
        name,
        &["--nat=kernel", "--confirm", "3", "other.v4"],
    );
    assert!(rules().contains("1.2.3.4"), "{}", rules());
    assert!(within(Duration::from_secs(15), || files(&folder, name)
        == "gate.v4"));
    assert!(
        within(Duration::from_secs(5), || rules().contains("MASQUERADE")),
        "{}",
        rules()
    );
    folder.weir(&["unload", "--netns", name]).expect(0);
    assert!(
        rules().contains("old0") && !rules().contains("wan0"),
        "{}",
        rules()
    );
}

#[test]
fn a_nat_table_that_is_refused_changes_nothing() {
    if !kernel("a_nat_table_that_is_refused") {
        return;
    }
    let (folder, netns) = with_old_nat("refused");
    let name = netns.0.as_str();
    apply(&folder, name, &["--nat=kernel", "gate.v4"]);
    // A stand-in for iptables-restore refuses at the last moment, for nothing else that it would
    // refuse gets past weir's own check.
    let script = folder.0.join("iptables-restore");
    let text = "#!/bin/sh\ncat > /dev/null\ncase \"$*\" in *--test*) exit 0;; esac\n\
                echo no >&2\nexit 1\n";
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.0.display(), std::env::var("PATH").unwrap());
    let refuse = |nat_file: &str| {
        let args = [
            "apply",
            "--netns",
            name,
            "--nat=kernel",
            "shut.v4",
            nat_file,
        ];
        let output = command(&folder.0, &args)
            .env("PATH", &path)
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, said) = refuse("nat.v4");
    assert_eq!(code, Some(4), "{said}");
    assert!(
        said.contains("iptables-restore refuses the nat table: no"),
        "{said}"
    );
    assert!(nat_rules(&netns).contains("-o wan0 -j MASQUERADE"));
    assert_eq!(files(&folder, name), "gate.v4");
    // One that goes away without reading breaks our pipe to it; that is no success either.
    std::fs::write(&script, "#!/bin/sh\nexit 0\n").unwrap();
    let mut big = NAT.replace("COMMIT\n", "");
    for port in 1..5000 {
        big += &format!("-A POSTROUTING -p tcp -m tcp --dport {port} -j MASQUERADE\n");
    }
    folder.file("big.v4", &format!("{big}COMMIT\n"));
    let (code, said) = refuse("big.v4");
    assert_eq!(code, Some(4), "{said}");
    assert_eq!(files(&folder, name), "gate.v4");
}
