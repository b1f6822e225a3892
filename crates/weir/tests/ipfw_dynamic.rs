//! Rules of ipfw that keep states, in the kernel: real conversations with a host and through a
//! gateway, limits, states that outlive a change of other rules and end with their own.

mod common;

use common::ipfw::{apply, counted, ipfw};
use common::{
    Background, Folder, Namespace, client_and_host, client_gateway_server, echoing, kernel, until,
};

/// Whether something said on a new connection is said back.
fn talks(from: &Namespace, to: &str, port: u16) -> bool {
    let script = format!(
        "exec 3<>/dev/tcp/{to}/{port}; echo word >&3; read -t 1 said <&3; test \"$said\" = word"
    );
    from.run(&["timeout", "2", "bash", "-c", &script]).code == Some(0)
}

const HOST: &str = "\
add 100 check-state
add 110 allow tcp from any to me 2022 in setup keep-state
add 120 allow tcp from any to me 2023 in setup limit src-addr 2
add 130 count log tcp from any to me 2024 in setup keep-state :web
add 140 allow tcp from any to me 2024 in
add 150 allow tcp from me 2024 to any out
add 160 allow udp from any to me 9 in keep-state :web
add 300 deny ip from any to any
";

/// A client, and a host that has [`HOST`] in force.
fn enforced(label: &str) -> (Namespace, Namespace, Folder) {
    let [client, host] = client_and_host(label, "10.77.0");
    let folder = Folder::new();
    apply(&folder, &host, HOST);
    (client, host, folder)
}

/// A conversation that says a word, and again each time it is told to.
const SPEAKER: &str = r#"
exec 3<>/dev/tcp/10.77.0.2/2022
for round in 1 2 3; do
  until test -e say$round; do sleep 0.02; done
  echo word >&3; said=
  read -t 1 said <&3
  test "$said" = word && echo yes > said$round.tmp || echo no > said$round.tmp
  mv said$round.tmp said$round
done
"#;

#[test]
fn conversations_with_a_host_are_let_in_by_their_states() {
    if !kernel("conversations_with_a_host_are_let_in_by_their_states") {
        return;
    }
    let (client, host, folder) = enforced("dynamic");
    let _listeners: Vec<Background> = [2022, 2023, 2024, 2025].map(|p| echoing(&host, p)).into();
    assert!(!talks(&client, "10.77.0.2", 2025));
    assert!(talks(&client, "10.77.0.2", 2024));
    assert!(talks(&client, "10.77.0.2", 2022));
    // Opening, both ways of the word, the ends: all counted at the rule that noted the flow.
    assert!(counted(&folder, &host, 110) >= 6);
    assert_eq!(counted(&folder, &host, 100), 0);
    limit(&client);
    let listed = ipfw(&folder, &host, "-d list");
    assert!(listed.contains("## Dynamic rules ("), "{listed}");
    assert!(
        listed.contains("\n00120 PARENT 2 tcp 10.77.0.1 0 <-> 0.0.0.0 0 :default\n"),
        "{listed}"
    );
    assert!(listed.contains("\n00120 LIMIT tcp 10.77.0.1 "), "{listed}");
    // Said to nobody, so that it is over when its time is.
    client
        .run(&["bash", "-c", "echo > /dev/udp/10.77.0.2/9"])
        .expect(0);
    let listed = ipfw(&folder, &host, "-d list");
    assert!(listed.contains("\n00160 STATE udp 10.77.0.1 "), "{listed}");
    assert!(listed.contains(" <-> 10.77.0.2 9 :web\n"), "{listed}");
    let only = ipfw(&folder, &host, "-D show");
    assert!(only.starts_with("## Dynamic rules ("), "{only}");
    let status = folder.weir(&["status", "--json", "--netns", &host.0]);
    assert!(status.expect(0).json()["states"]["made"].as_u64() >= Some(5));
}

/// Two sessions at once are let in, a third one is not.
fn limit(client: &Namespace) {
    let third = "timeout 1 bash -c 'exec 5<>/dev/tcp/10.77.0.2/2023'; echo third $?";
    let script = format!(
        "exec 3<>/dev/tcp/10.77.0.2/2023; exec 4<>/dev/tcp/10.77.0.2/2023; \
         echo one >&3; echo two >&4; read -t 1 a <&3; read -t 1 b <&4; echo $a $b; {third}"
    );
    let run = client.run(&["timeout", "10", "bash", "-c", &script]);
    assert_eq!(run.out, "one two\nthird 124\n", "{run:?}");
}

#[test]
fn states_outlive_other_rules_and_end_with_their_own() {
    if !kernel("states_outlive_other_rules_and_end_with_their_own") {
        return;
    }
    let (client, host, folder) = enforced("dynamico");
    let _listener = echoing(&host, 2022);
    let inside = format!("cd {} && {SPEAKER}", folder.0.display());
    let _speaker = client.start(&["bash", "-c", &inside]);
    let says = |round: u32| {
        folder.file(&format!("say{round}"), "");
        let said = folder.0.join(format!("said{round}"));
        until("a word", 20, || said.exists());
        std::fs::read_to_string(said).unwrap().trim() == "yes"
    };
    assert!(says(1));
    let before = counted(&folder, &host, 110);
    ipfw(&folder, &host, "add 105 count tcp from any to any");
    ipfw(&folder, &host, "set disable 7");
    assert!(says(2), "another rule was added");
    assert!(counted(&folder, &host, 110) > before);
    ipfw(&folder, &host, "delete 110");
    ipfw(
        &folder,
        &host,
        "add 110 allow tcp from any to me 2022 in setup keep-state",
    );
    assert!(!says(3), "the rule went, its states with it");
}

#[test]
fn a_gateway_lets_answers_through_by_states() {
    if !kernel("a_gateway_lets_answers_through_by_states") {
        return;
    }
    let [client, gateway, server] = client_gateway_server("dynamicg", 76);
    let folder = Folder::new();
    let rules = "add 100 check-state\n\
        add 110 allow tcp from 10.76.1.0/24 to any setup keep-state\n\
        add 120 allow icmp from 10.76.1.0/24 to any icmptypes 8 in recv inside0 keep-state\n\
        add 200 deny ip from any to any\n";
    folder.file("gateway.ipfw", rules);
    folder
        .weir(&["apply", "--netns", &gateway.0, "gateway.ipfw"])
        .expect(0);
    let _listeners = [echoing(&server, 2022), echoing(&client, 2022)];
    assert!(talks(&client, "10.76.2.1", 2022));
    assert!(!talks(&server, "10.76.1.1", 2022));
    let ping = [
        "ping",
        "-n",
        "-q",
        "-c",
        "2",
        "-i",
        "0.1",
        "-W",
        "1",
        "10.76.2.1",
    ];
    assert_eq!(client.run(&ping).code, Some(0));
    // Two queries and two answers, each in and out.
    assert_eq!(counted(&folder, &gateway, 120), 8);
}

const CALLING: &str = "\
add 100 check-state :default log
add 110 call 1000 tcp from any to me 2022 in setup keep-state
add 120 allow tcp from any to me 2022 in
add 130 allow tcp from me 2022 to any out
add 300 deny ip from any to any
add 1000 count ip from any to any in
add 1010 count ip from any to any out
add 1020 return ip from any to any
add 1030 deny ip from any to any
";

#[test]
fn packets_of_a_state_are_called_wherever_it_is_found() {
    if !kernel("packets_of_a_state_are_called_wherever_it_is_found") {
        return;
    }
    let (client, host, folder) = enforced("dynamicc");
    folder.file("calling.ipfw", CALLING);
    folder
        .weir(&["apply", "--netns", &host.0, "calling.ipfw"])
        .expect(0);
    let _listeners = [echoing(&host, 2022), echoing(&host, 2023)];
    let hello = "exec 3<>/dev/tcp/10.77.0.2/2022; echo word >&3; cat <&3";
    let speaker = client.start(&["timeout", "20", "bash", "-c", hello]);
    // Opening, the word, and what is said back.
    until("a word and its answer", 20, || {
        counted(&folder, &host, 110) >= 5
    });
    let listed = ipfw(&folder, &host, "-d list");
    assert!(listed.contains("\n00110 STATE tcp 10.77.0.1 "), "{listed}");
    assert!(
        listed.starts_with("00100 check-state :default log\n"),
        "{listed}"
    );
    drop(speaker);
    assert!(talks(&client, "10.77.0.2", 2022));
    assert!(!talks(&client, "10.77.0.2", 2023));
    let of = |rule| counted(&folder, &host, rule);
    // Opening, both ways of the word, the ends: each was called and came back.
    assert!(of(110) >= 6);
    assert_eq!(of(110), of(1020));
    assert_eq!(of(110), of(1000) + of(1010));
    assert_eq!(of(110), of(120) + of(130));
    assert!(of(1010) >= 2 && of(300) >= 1);
    assert_eq!((of(100), of(1030)), (0, 0));
}

#[test]
fn errors_about_packets_of_a_state_reach_who_sent_them() {
    if !kernel("errors_about_packets_of_a_state_reach_who_sent_them") {
        return;
    }
    let [client, _host] = client_and_host("ipfwerri", "10.77.0");
    let folder = Folder::new();
    let rules = "add 100 check-state\nadd 200 deny icmp from any to any\n\
        add 300 allow udp from me to any 9 out keep-state\nadd 400 deny ip from any to any\n";
    folder.file("rules", rules);
    let apply = |more: &[&str]| {
        let args = [&["apply", "--netns", &client.0, "rules"][..], more].concat();
        folder.weir(&args).expect(0);
    };
    // Nobody listens there: the second word meets the error about the first one.
    let script = "exec 3<>/dev/udp/10.77.0.2/9; echo a >&3; sleep 0.3; echo b >&3";
    let is_told = || client.run(&["bash", "-c", script]).err.contains("refused");
    apply(&[]);
    assert!(!is_told());
    assert!(counted(&folder, &client, 200) >= 1);
    apply(&["--sysctl", "weir.dyn_icmp_errors=1"]);
    assert!(is_told());
    // It counts where the flow was noted: a word, an error, and the other word.
    assert_eq!(counted(&folder, &client, 200), 0);
    assert!(counted(&folder, &client, 300) >= 2);
    // A change of rules keeps the setting.
    ipfw(&folder, &client, "add 150 count ip from any to any");
    assert!(is_told());
    assert_eq!(counted(&folder, &client, 200), 0);
}
