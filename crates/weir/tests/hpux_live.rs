//! HP-UX's limits of connections, addresses of interfaces and records of states on enforced rules:
//! what connections meet, what `ipfstat -L`, `-vL`, `-r` and `ipmon -o S` print.

mod common;

use common::{Folder, Namespace, Run, command};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A program that runs beside the test, stopped with it.
struct Beside(Child);

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn beside(netns: &Namespace, line: &str) -> Beside {
    let child = std::process::Command::new("ip")
        .args(["netns", "exec", &netns.0, "bash", "-c"])
        .arg(format!("exec {line}"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    Beside(child)
}

/// Reads records of states.
fn ipmon(folder: &Folder, args: &[&str]) -> Beside {
    let args = [&["ipmon", "-o", "S", "--seconds", "30"], args].concat();
    let monitor = command(&folder.0, &args).stdout(Stdio::piped()).spawn();
    Beside(monitor.unwrap())
}

/// Whether a connection can be made.
fn connects(netns: &Namespace, port: u16) -> bool {
    let line = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    netns.run(&["timeout", "3", "bash", "-c", &line]).code == Some(0)
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_connection_above_its_limit_is_reset_and_told() {
    if weir_plane::kernel_or_skip("a_connection_above_its_limit").is_none() {
        return;
    }
    let (folder, netns) = (Folder::new(), Namespace::with_loopback("hpux"));
    let name = netns.0.as_str();
    let _server = beside(
        &netns,
        "socat TCP-LISTEN:8080,fork,reuseaddr,bind=127.0.0.1 EXEC:cat",
    );
    eventually("the server listens", || connects(&netns, 8080));
    folder.file(
        "ipf.conf",
        "pass return-rst in log limit quick on lo proto tcp from any to any port = 8080 \
         keep limit 1\npass in from any to any\npass out from any to any\n",
    );
    folder
        .weir(&["apply", "--dialect", "hpux", "--netns", name, "ipf.conf"])
        .expect(0);
    let stat = |args: &[&str]| folder.weir(&[&["ipfstat", "--netns", name], args].concat());
    assert!(stat(&["-L"]).expect(0).out.contains("Total 0\n"));

    // One connection is held; those beside it are answered with a reset.
    let _held = beside(&netns, "socat -u TCP:127.0.0.1:8080 -");
    eventually("the limit counts", || {
        stat(&["-L"]).out.contains("Unknown IP 1\n")
    });
    let mut monitor = ipmon(&folder, &["--netns", name, "--count", "2"]);
    eventually("records are read", || {
        assert!(!connects(&netns, 8080), "above the limit");
        monitor.0.try_wait().unwrap().is_some()
    });
    let mut out = String::new();
    std::io::Read::read_to_string(&mut monitor.0.stdout.take().unwrap(), &mut out).unwrap();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 2, "{out}");
    for line in &lines {
        assert!(line.contains(" lo 127.0.0.1,"), "{out}");
        assert!(
            line.contains(
                " -> 127.0.0.1,8080 PR tcp -S keep limit Type 8 Configured 1 Current 1 Exceeded "
            ) && line.ends_with(" Freq 1 IN"),
            "{out}"
        );
    }
    let each = stat(&["-vL"]).expect(0).out;
    let line = each.lines().nth(1).unwrap();
    assert!(
        line.starts_with("U @0:1 127.0.0.1 * 127.0.0.1 8080 1 1 ("),
        "{each}"
    );
    let rule = stat(&["-r", "0:1"]).expect(0).out;
    assert!(
        rule.starts_with(
            "Limit Type Unknown IP\nGroup:Rule Number @0:1\nConfigured Limit 1\n\
             Current connections 1\nLimit Exceeded (#times) "
        ),
        "{rule}"
    );
    stat(&["-r", "0:2"]).expect(1);
    // A changed limit counts on: the held connection is one of two.
    folder.file(
        "more",
        "pass return-rst in log limit quick on lo proto tcp from any to any port = 8080 \
         keep limit 2\npass in from any to any\npass out from any to any\n",
    );
    folder
        .weir(&["apply", "--dialect", "hpux", "--netns", name, "more"])
        .expect(0);
    assert!(connects(&netns, 8080));
    let each = stat(&["-vL"]).expect(0).out;
    assert!(each.contains("127.0.0.1 8080 2 2 ("), "{each}");
}

#[test]
fn summaries_of_limits_that_many_share_name_what_the_rule_names() {
    if weir_plane::kernel_or_skip("summaries_of_limits").is_none() {
        return;
    }
    let (folder, netns) = (Folder::new(), Namespace::with_loopback("hpsum"));
    let name = netns.0.as_str();
    let listen = |port: u16| {
        let line = format!("socat TCP-LISTEN:{port},fork,reuseaddr,bind=127.0.0.1 EXEC:cat");
        beside(&netns, &line)
    };
    let _servers = [listen(8081), listen(8082)];
    eventually("the servers listen", || {
        connects(&netns, 8081) && connects(&netns, 8082)
    });
    folder.file(
        "ipf.conf",
        "pass return-rst in log limit quick on lo proto tcp from 127.0.0.0-127.0.0.9 to any \
         port = 8081 keep limit 1 cumulative\n\
         pass return-rst in quick on lo proto tcp from any to any port = 8082 keep limit 1\n",
    );
    folder
        .weir(&["apply", "--dialect", "hpux", "--netns", name, "ipf.conf"])
        .expect(0);
    let report = || folder.weir(&["ipmon", "-r", "--netns", name]).expect(0).out;
    let _held = [8081, 8082].map(|port| {
        let line = format!("socat -u TCP:127.0.0.1:{port} -");
        beside(&netns, &line)
    });
    eventually("the limits count", || {
        let listed = folder.weir(&["ipfstat", "-L", "--netns", name]).out;
        listed.contains("Total 2\n")
    });
    // As long as nobody came above a limit there is nothing to say.
    assert_eq!(report(), "");
    for port in [8081, 8082, 8082] {
        assert!(!connects(&netns, port), "above the limit");
    }
    let lines = report();
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    let has = |text: &str| lines.iter().any(|line| line.contains(text));
    assert!(
        has(
            " LIMIT LOG 127.0.0.0-127.0.0.9,* -> 0.0.0.0,8081 PR tcp Type 4 Configured 1 \
             Current 1 Exceeded 1 @0:1 First Time "
        ),
        "{lines:?}"
    );
    assert!(
        has(
            " LIMIT LOG 127.0.0.1,* -> 127.0.0.1,8082 PR tcp Type 8 Configured 1 Current 1 \
             Exceeded 2 @0:2 First Time "
        ),
        "{lines:?}"
    );
    assert_eq!(report(), "", "they begin anew");
    let each = folder.weir(&["ipfstat", "-vL", "--netns", name]).out;
    let line = "C @0:1 127.0.0.0-127.0.0.9 * 0.0.0.0 8081 1 1 (0)\n";
    assert!(each.contains(line), "{each}");
    // Switched off, nobody is counted.
    let limits = |word: &str| {
        folder
            .weir(&["ipf", "--netns", name, "-m", word])
            .expect(0)
            .out
    };
    assert_eq!(limits("q"), "dca\tcurrent 1\n");
    assert_eq!(limits("d"), "");
    assert!(connects(&netns, 8081) && connects(&netns, 8082));
    assert_eq!(limits("t"), "");
    assert_eq!(limits("q"), "dca\tcurrent 1\n");
    assert!(!connects(&netns, 8081), "above the limit again");
}

#[test]
fn states_are_recorded_and_interfaces_have_addresses() {
    if weir_plane::kernel_or_skip("states_are_recorded").is_none() {
        return;
    }
    let (folder, netns) = (Folder::new(), Namespace::with_loopback("ipfs"));
    let name = netns.0.as_str();
    // The interface's own address: 127.0.0.1, and no other of its network.
    folder.file(
        "r",
        "block in quick on lo proto udp from any to !lo/32\n\
         pass in quick on lo proto udp from any to lo/32 port = 53 keep state (age 1)\n\
         pass out quick on lo proto udp from any to lo/network\n",
    );
    folder.weir(&["apply", "--netns", name, "r"]).expect(0);
    let mut monitor = ipmon(&folder, &["--netns", name, "-B", "saved", "--count", "2"]);
    let send = |address: &str| {
        let line = format!("exec 3<>/dev/udp/{address}/53 && echo >&3");
        netns.run(&["bash", "-c", &line]);
    };
    let hits = || folder.weir(&["ipfstat", "-ih", "--netns", name]).out;
    // Until it listens nothing is recorded; one state at a time, each with its end.
    eventually("records are read", || {
        send("127.0.0.1");
        std::thread::sleep(Duration::from_millis(1500));
        monitor.0.try_wait().unwrap().is_some()
    });
    let mut out = String::new();
    std::io::Read::read_to_string(&mut monitor.0.stdout.take().unwrap(), &mut out).unwrap();
    let has = |what: &str| {
        let found = out.lines().find(|line| line.contains(what));
        found.unwrap_or_else(|| panic!("{what}: {out}"))
    };
    assert!(has("STATE:NEW 127.0.0.1,").ends_with(" -> 127.0.0.1,53 PR udp"));
    // Nobody listens there: what goes back is an error about it.
    let end = has("STATE:EXPIRE 127.0.0.1,");
    assert!(
        end.contains(
            " -> 127.0.0.1,53 PR udp Forward: Pkts in 1 Bytes in 29 Pkts out 0 Bytes out 0 \
             Backward: Pkts in "
        ),
        "{out}"
    );
    assert_eq!(folder.weir(&["ipmon", "-af", "saved"]).expect(0).out, out);
    assert_eq!(
        folder
            .weir(&["ipmon", "-o", "I", "-f", "saved"])
            .expect(0)
            .out,
        ""
    );
    assert!(hits().starts_with("0 block in quick on lo"), "{}", hits());
    send("127.0.0.2");
    assert!(hits().starts_with("1 block in quick on lo"), "{}", hits());
    // Asked again, the interface has one address more; hits stay.
    let more = ["ip", "address", "add", "127.0.0.2/8", "dev", "lo"];
    netns.run(&more).expect(0);
    folder.weir(&["ipf", "-y", "--netns", name]).expect(0);
    send("127.0.0.2");
    assert!(hits().starts_with("1 block in quick on lo"), "{}", hits());
}

/// The program with rules on its standard input.
fn fed(folder: &Folder, args: &[&str], input: &str) -> Run {
    folder.file("fed", input);
    folder.weir(&[args, &["-f", "fed"]].concat())
}

#[test]
fn the_lists_of_both_families_are_kept_apart() {
    if weir_plane::kernel_or_skip("the_lists_of_both_families").is_none() {
        return;
    }
    let (folder, netns) = (Folder::new(), Namespace::with_loopback("hpsix"));
    let name = netns.0.as_str();
    let passes = |address: &str| {
        let run = netns.run(&["ping", "-n", "-c", "1", "-W", "1", address]);
        run.code == Some(0)
    };
    // What IPv4 and IPv6 may do: a pair.
    let both = || (passes("127.0.0.1"), passes("::1"));
    let hpux = ["ipf", "--dialect", "hpux", "--netns", name];
    let ipf = |args: &[&str]| folder.weir(&[&hpux, args].concat()).expect(0);
    let stat = |args: &[&str]| {
        let args = [&["ipfstat", "--netns", name], args].concat();
        folder.weir(&args).expect(0).out
    };
    // A rule without addresses is of the family of its file.
    fed(
        &folder,
        &[&hpux, &["-6", "-Fa"][..]].concat(),
        "block in all\n",
    )
    .expect(0);
    assert_eq!(both(), (true, false));
    let four = "pass in proto tcp from any to any\n";
    fed(&folder, &[&hpux, &["-Fa"][..]].concat(), four).expect(0);
    folder.file(
        "p",
        "table role = ipf type = tree number = 1 { 10.0.0.0/8; };\n",
    );
    for change in [
        &["-Z"][..],
        &["-s", "-I"],
        &["-s"],
        &["-y"],
        &["-T", "min_ttl=4"],
    ] {
        ipf(change);
        if change != ["-s", "-I"] {
            assert_eq!(both(), (true, false), "{change:?}");
        }
    }
    folder
        .weir(&["ippool", "--netns", name, "-f", "p"])
        .expect(0);
    assert_eq!(both(), (true, false));
    assert_eq!(stat(&["-i"]), four);
    assert_eq!(stat(&["-6", "-i"]), "block in all\n");
    assert_eq!(stat(&["-6", "-in"]), "@0:1 block in all\n");

    // The same words in both files: each is removed and flushed alone.
    folder.file("ipf.conf", "block in all\n");
    folder.file("ipf6.conf", "block in all\n");
    let apply = ["apply", "--dialect", "hpux", "--netns", name];
    let apply = || {
        let files = ["ipf.conf", "ipf6.conf"];
        folder.weir(&[&apply[..], &files].concat()).expect(0)
    };
    apply();
    assert_eq!(both(), (false, false));
    fed(&folder, &[&hpux, &["-r"][..]].concat(), "block in all\n").expect(0);
    assert_eq!(both(), (true, false));
    apply();
    ipf(&["-6", "-Fa"]);
    assert_eq!(both(), (false, true));
    // A file of any name; what is kept with it is of its family too.
    folder.file("rules", "block in all\n");
    let other = ["apply", "--dialect", "hpux", "-6", "--netns", name, "rules"];
    folder.weir(&other).expect(0);
    ipf(&["-Z"]);
    assert_eq!(both(), (true, false));
}

#[test]
fn families_of_texts_are_said_and_printed() {
    let folder = Folder::new();
    folder.file("ipf.conf", "block in all\n");
    folder.file("ipf6.conf", "block in all\npass in proto tcp all\n");
    let show = |files: &[&str]| {
        let args = [&["show", "--dialect", "hpux"], files].concat();
        folder.weir(&args).expect(0).out
    };
    let shown = show(&["ipf.conf", "ipf6.conf"]);
    let six = "# --family ipv6\nblock in all\npass in proto tcp from any to any\n";
    assert_eq!(shown, format!("# --family ipv4\nblock in all\n{six}"));
    folder.file("shown", &shown);
    assert_eq!(show(&["shown"]), shown);
    assert_eq!(show(&["ipf.conf"]), "block in all\n");

    let rule = "pass in proto ipv6-icmp all icmpv6-type 128\npass in from 2001:db8::1 to any\n";
    folder.file("odd", rule);
    let check = |args: &[&str]| folder.weir(&[&["check", "--dialect", "hpux"], args].concat());
    let wrong = check(&["odd"]).expect(1).err;
    assert!(wrong.contains("give it with -6"), "{wrong}");
    check(&["-6", "odd"]).expect(0);
    folder.file("marked", &format!("# --family ipv6\n{rule}"));
    check(&["marked"]).expect(0);
    folder.file("marked", "# --family ipv5\npass in all\n");
    assert!(check(&["marked"]).expect(1).err.contains("marked:1:12"));
    folder.file("v4", "*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n");
    folder.weir(&["check", "-6", "v4"]).expect(2);
}
