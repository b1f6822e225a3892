//! Answers of rejected packets on their way out, under lists that let nothing out: IPFilter sends
//! all of them past its rules, ipfw its resets, iptables none. Real connections between two
//! namespaces.

mod common;

use common::{
    Folder, Namespace, cable6, client_and_host, client_gateway_server, ip, kernel, tried,
};

/// What becomes of a connection, or of a datagram and the next one.
fn sent(from: &Namespace, protocol: &str, to: &str, port: u16) -> &'static str {
    let script = match protocol {
        "tcp" => format!("exec 3<>/dev/tcp/{to}/{port}"),
        _ => format!("exec 3<>/dev/udp/{to}/{port}; echo >&3; sleep 0.3; echo >&3; exec sleep 5"),
    };
    tried(from, &format!("trap '' PIPE; set -e; {script}"))
}

/// Tries at a host with these rules: protocol, address (`4` or `6`), port, what is seen.
fn run(label: &str, dialect: &str, rules: &str, tries: &[(&str, u8, u16, &str)]) {
    let [client, host] = client_and_host(label, "10.79.0");
    cable6([&client, &host], "veth0", "fd79");
    let folder = Folder::new();
    folder.file("rules", rules);
    folder
        .weir(&["apply", "--dialect", dialect, "--netns", &host.0, "rules"])
        .expect(0);
    for (protocol, family, port, wanted) in tries {
        let to = ["10.79.0.2", "fd79::2"][usize::from(*family == 6)];
        let seen = sent(&client, protocol, to, *port);
        assert_eq!(seen, *wanted, "{dialect}: {protocol} to {to} {port}");
    }
}

#[test]
fn answers_of_ipf_leave_past_its_lists() {
    if !kernel("answers_of_ipf_leave_past_its_lists") {
        return;
    }
    let rules = "\
block in all
block out all
pass in quick inet6 proto ipv6-icmp from any to any
pass out quick inet6 proto ipv6-icmp from any to any icmp-type 135
pass out quick inet6 proto ipv6-icmp from any to any icmp-type 136
block return-rst in quick proto tcp from any to any port = 113
block return-icmp(port-unr) in quick inet proto udp from any to any port = 114
block return-icmp-as-dest(port-unr) in quick inet proto udp from any to any port = 116
";
    run(
        "ansi",
        "ipf",
        rules,
        &[
            ("tcp", 4, 113, "refused"),
            ("tcp", 6, 113, "refused"),
            ("udp", 4, 114, "refused"),
            ("udp", 4, 116, "refused"),
            ("tcp", 4, 115, "silent"),
        ],
    );
}

#[test]
fn resets_of_ipfw_leave_past_its_rules_and_icmp_does_not() {
    if !kernel("resets_of_ipfw_leave_past_its_rules_and_icmp_does_not") {
        return;
    }
    let rules = "\
add 90 allow ipv6-icmp from any to any icmp6types 135,136
add 100 reset tcp from any to me 113 in
add 101 reset6 tcp from any to me6 113 in
add 110 unreach port udp from any to me 114 in
";
    let tries = [
        ("tcp", 4, 113, "refused"),
        ("tcp", 6, 113, "refused"),
        ("udp", 4, 114, "silent"),
        ("tcp", 4, 115, "silent"),
    ];
    run("answ", "ipfw", rules, &tries);
    let rules = format!("{rules}add 120 allow icmp from me to any out\n");
    run("answ", "ipfw", &rules, &[("udp", 4, 114, "refused")]);
}

#[test]
fn answers_of_iptables_are_packets_of_the_host() {
    if !kernel("answers_of_iptables_are_packets_of_the_host") {
        return;
    }
    let rules = "\
*filter
:INPUT ACCEPT [0:0]
:OUTPUT DROP [0:0]
-A INPUT -p tcp -m tcp --dport 113 -j REJECT --reject-with tcp-reset
COMMIT
";
    run("anst", "iptables", rules, &[("tcp", 4, 113, "silent")]);
    let rules = rules.replace(
        "COMMIT",
        "-A OUTPUT -p tcp -m tcp --sport 113 -j ACCEPT\nCOMMIT",
    );
    run("anst", "iptables", &rules, &[("tcp", 4, 113, "refused")]);
}

/// The original returns an error to the program that sends; a reset says so on Linux. It passes the
/// lists on its way in, and what is forwarded isn't answered.
#[test]
fn programs_whose_connections_the_out_list_of_ipf_blocks_are_told() {
    if !kernel("programs_whose_connections_the_out_list_of_ipf_blocks_are_told") {
        return;
    }
    let [client, gateway, server] = client_gateway_server("ansO", 78);
    for (netns, device, end) in [(&gateway, "outside0", 2), (&server, "veth0", 1)] {
        let address = format!("fd78::{end}/64 dev {device} nodad");
        ip(&format!("-n {} addr add {address}", netns.0));
    }
    let folder = Folder::new();
    folder.file(
        "rules",
        "\
block in all
block out all
pass in quick on inside0 inet all
pass in quick inet6 proto ipv6-icmp from any to any
pass out quick inet6 proto ipv6-icmp from any to any
block return-rst out quick proto tcp from any to any port = 113
block return-rst out quick proto tcp/udp from any to any port = 114 keep state
block return-icmp out quick inet proto tcp from any to any port = 116
",
    );
    folder
        .weir(&["apply", "--dialect", "ipf", "--netns", &gateway.0, "rules"])
        .expect(0);
    for (from, to, port, wanted) in [
        (&gateway, "10.78.2.1", 113, "refused"),
        (&gateway, "fd78::1", 113, "refused"),
        (&gateway, "10.78.2.1", 114, "refused"),
        (&gateway, "10.78.2.1", 115, "silent"),
        (&gateway, "10.78.2.1", 116, "silent"),
        (&client, "10.78.2.1", 113, "silent"),
    ] {
        assert_eq!(sent(from, "tcp", to, port), wanted, "{to} {port}");
    }
}
