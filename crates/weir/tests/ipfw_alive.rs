//! Keep-alives of ipfw's TCP states: idle conversations stay while both ends live, and end with a
//! dead end, by a reset, with the setting off, and without an agent. Lifetimes are short here, so
//! that a state is about to end from the beginning.

mod common;

use common::ipfw::{self, counted, ipfw};
use common::{
    Background, Folder, Namespace, cable6, client_and_host, client_gateway_server, echoing, ip,
    kernel, until,
};
use std::process::Command;
use std::time::Duration;

/// Longer than the five seconds between two questions, with time for a busy machine.
const LIFETIME: u64 = 9;

/// A conversation that says a word each time a file appears, and whether it came back.
struct Speaker<'f> {
    folder: &'f Folder,
    label: &'static str,
    _child: Background,
}

impl<'f> Speaker<'f> {
    fn new(folder: &'f Folder, label: &'static str, from: &Namespace, to: &str) -> Self {
        let script = format!(
            "cd {}; exec 3<>/dev/tcp/{to}/2022; for round in 1 2 3; do \
             until test -e {label}-say$round; do sleep 0.02; done; \
             echo word >&3; said=; read -t 1 said <&3; \
             test \"$said\" = word && echo yes > {label}.tmp || echo no > {label}.tmp; \
             mv {label}.tmp {label}-said$round; done; sleep 100",
            folder.0.display()
        );
        let child = from.start(&["bash", "-c", &script]);
        Speaker {
            folder,
            label,
            _child: child,
        }
    }

    fn says(&self, round: u32) -> bool {
        self.folder.file(&format!("{}-say{round}", self.label), "");
        let said = self.folder.0.join(format!("{}-said{round}", self.label));
        until("a word", 20, || said.exists());
        std::fs::read_to_string(said).unwrap().trim() == "yes"
    }
}

fn apply(folder: &Folder, netns: &Namespace, rules: &str) {
    let lifetime = format!("# --sysctl net.inet.ip.fw.dyn_ack_lifetime={LIFETIME}\n");
    ipfw::apply(folder, netns, &[&lifetime, rules].concat());
}

/// How many TCP states there are.
fn states(folder: &Folder, netns: &Namespace) -> usize {
    let listed = ipfw(folder, netns, "-d list");
    listed.matches(" STATE tcp ").count()
}

fn idle() {
    std::thread::sleep(Duration::from_secs(2 * LIFETIME + 2));
}

#[test]
fn idle_conversations_through_a_gateway_stay_while_they_are_asked() {
    if !kernel("idle_conversations_through_a_gateway_stay_while_they_are_asked") {
        return;
    }
    let [client, gateway, server] = client_gateway_server("alive", 84);
    for (netns, name, address) in [
        (&client, "veth0", "fd84:1::1/64"),
        (&gateway, "inside0", "fd84:1::2/64"),
        (&gateway, "outside0", "fd84:2::2/64"),
        (&server, "veth0", "fd84:2::1/64"),
    ] {
        ip(&format!(
            "-n {} addr add {address} dev {name} nodad",
            netns.0
        ));
    }
    for (netns, side) in [(&client, 1), (&server, 2)] {
        let netns = &netns.0;
        ip(&format!(
            "-n {netns} -6 route add default via fd84:{side}::2"
        ));
    }
    let forward = ["sysctl", "-qw", "net.ipv6.conf.all.forwarding=1"];
    gateway.run(&forward).expect(0);
    let folder = Folder::new();
    apply(
        &folder,
        &gateway,
        "add 90 count tcp from any to any out not recv inside0 not recv outside0\n\
         add 100 check-state\n\
         add 110 allow tcp from any to any 2022 in recv inside0 setup keep-state\n\
         add 120 allow ipv6-icmp from any to any icmp6types 133,134,135,136,137\n\
         add 200 deny tcp from any to any\n",
    );
    let _listener = echoing(&server, 2022);
    let four = Speaker::new(&folder, "four", &client, "10.84.2.1");
    let six = Speaker::new(&folder, "six", &client, "fd84:2::1");
    assert!(four.says(1) && six.says(1));
    assert_eq!(states(&folder, &gateway), 2);
    let before = counted(&folder, &gateway, 110);
    idle();
    assert_eq!(states(&folder, &gateway), 2);
    // Of each question the answer passes, in and out, and nothing is denied. Both conversations
    // were asked at least twice, and no more than every five seconds.
    let answers = counted(&folder, &gateway, 110) - before;
    assert!((2 * 2 * 2..=2 * 2 * 5).contains(&answers), "{answers}");
    assert_eq!(counted(&folder, &gateway, 200), 0);
    // No rule has met what the gateway itself sends.
    assert_eq!(counted(&folder, &gateway, 90), 0);
    assert!(four.says(2) && six.says(2));
    // Off, they end when their time is up.
    ipfw(&folder, &gateway, "disable dyn_keepalive");
    until("states are gone", 2 * LIFETIME, || {
        states(&folder, &gateway) == 0
    });
    assert!(!four.says(3) && !six.says(3));
    assert!(counted(&folder, &gateway, 200) > 0);
}

/// A client and a host that lets nothing pass but port 2022, on `lo` neither.
fn enforced(label: &str) -> (Namespace, Namespace, Folder) {
    let [client, host] = client_and_host(label, "10.85.0");
    cable6([&client, &host], "veth0", "fd85");
    let folder = Folder::new();
    apply(
        &folder,
        &host,
        "add 90 count tcp from any to any via lo\n\
         add 100 check-state\n\
         add 110 allow tcp from any to me 2022 in setup keep-state\n\
         add 120 allow ipv6-icmp from any to any icmp6types 133,134,135,136,137\n\
         add 200 deny tcp from any to any\n",
    );
    (client, host, folder)
}

#[test]
fn a_host_asks_itself_and_a_dead_peer_s_state_ends() {
    if !kernel("a_host_asks_itself_and_a_dead_peer_s_state_ends") {
        return;
    }
    let (client, host, folder) = enforced("alivel");
    let _listener = echoing(&host, 2022);
    let four = Speaker::new(&folder, "four", &client, "10.85.0.2");
    let six = Speaker::new(&folder, "six", &client, "fd85::2");
    assert!(four.says(1) && six.says(1));
    idle();
    assert_eq!(states(&folder, &host), 2);
    // The questions to the host itself leave and come in by `lo`, and meet no rule there.
    assert_eq!(counted(&folder, &host, 90), 0);
    assert_eq!(counted(&folder, &host, 200), 0);
    assert!(four.says(2) && six.says(2));
    let status = folder.weir(&["status", "--json", "--netns", &host.0]);
    let status = status.expect(0).json();
    assert_eq!(status["keep_alives"], true, "{status}");
    // The client is dead. The host goes on answering, which is not enough.
    ip(&format!("-n {} addr flush dev veth0", client.0));
    until("states are gone", 3 * LIFETIME, || {
        states(&folder, &host) == 0
    });
    assert_eq!(counted(&folder, &host, 200), 0);
    // Without its agent it asks nobody, and says so.
    let agent = status["agent"].as_i64().unwrap().to_string();
    let killed = Command::new("kill").args(["-9", &agent]).status();
    assert!(killed.unwrap().success());
    let told = || folder.weir(&["status", "--json", "--netns", &host.0]);
    until("the agent is gone", 5, || {
        told().expect(0).json()["keep_alives"] == false
    });
    let text = folder.weir(&["status", "--netns", &host.0]).expect(0).out;
    assert!(text.contains("\nkeep-alives: none are sent; "), "{text}");
}

#[test]
fn a_peer_that_forgot_the_conversation_resets_it() {
    if !kernel("a_peer_that_forgot_the_conversation_resets_it") {
        return;
    }
    let (client, host, folder) = enforced("aliver");
    let _listener = echoing(&host, 2022);
    let to = "TCP:10.85.0.2:2022,linger=0";
    let mut talker = client.start(&["socat", "-", to]);
    let open = "ss -Htn state established sport = :2022 | grep -q .";
    let is_open = || host.run(&["sh", "-c", open]).code == Some(0);
    until("a conversation", 10, is_open);
    assert_eq!(states(&folder, &host), 1);
    // Its end is not heard of: `linger=0` sends a reset, once, while the cable is out.
    ip(&format!("-n {} link set veth0 down", client.0));
    let _ = talker.0.kill();
    let _ = talker.0.wait();
    let gone = "! ss -Htan dport = :2022 | grep -q .";
    until("the client forgot", 5, || {
        client.run(&["sh", "-c", gone]).code == Some(0)
    });
    ip(&format!("-n {} link set veth0 up", client.0));
    assert!(is_open());
    until("a reset", LIFETIME, || !is_open());
    until("the state is gone", 3, || states(&folder, &host) == 0);
}
