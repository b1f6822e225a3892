//! Random traffic scripts for the laboratory of [`crate::traffic`].

use std::fmt::Write;

use super::Maker;

/// Who speaks to whom. Not over loopback, where weir looks at a packet twice (docs/iptables.md).
const PAIRS: [(&str, &str); 8] = [
    ("client", "gw"),
    ("client", "server"),
    ("server", "client"),
    ("gw", "client"),
    ("gw", "server"),
    ("server", "gw"),
    ("client.5", "gw"),
    ("client", "server.9"),
];

impl Maker {
    /// A script of 35 to 60 steps, some of them twice so that states come about.
    pub(super) fn traffic(&mut self) -> String {
        let mut out = String::new();
        for _ in 0..self.rng.u8(35..60) {
            let (step, again) = self.step();
            let _ = writeln!(out, "{step}");
            if again && self.chance(30) {
                let _ = writeln!(out, "{step}");
            }
        }
        out
    }

    fn step(&mut self) -> (String, bool) {
        let six = if self.v6 { "6" } else { "" };
        let (from, to) = self.pick_of(&PAIRS);
        let kind = self.rng.u8(..100);
        if kind < 6 {
            return (self.conversation(six), false);
        }
        let (mut step, again) = match kind {
            6..45 => (self.segment(six, from, to), true),
            45..75 => self.datagram(six, from, to),
            75..90 => (self.message(six, from, to), false),
            _ => (self.other(six, from, to), false),
        };
        if self.chance(15) {
            let _ = write!(step, " ttl {}", self.pick_of(&[64, 9, 63, 128]));
        }
        if self.chance(12) {
            let _ = write!(step, " tos {}", self.pick_of(&[16, 184, 40]));
        }
        if from == "gw" && self.chance(30) {
            step += " as 33:33";
        }
        if self.chance(4) {
            step += if self.v6 {
                self.pick(&[" hop-by-hop", " destination", " routing"])
            } else {
                " options"
            };
        }
        if self.chance(10) {
            step += " times 2";
        }
        (step, again)
    }

    fn conversation(&mut self, six: &str) -> String {
        let proto = self.pick(&["tcp", "udp"]);
        let (from, to) = self.pick_of(&PAIRS[..6]);
        let port = self.pick_of(&[22, 80, 53, 8080, 2000]);
        let times = self.rng.u8(1..3);
        format!("{proto}{six} {from}->{to}:{port} talk {times}")
    }

    /// Both ends with ports; the near one often left to the script.
    fn ends(&mut self, from: &str, to: &str) -> String {
        let near = if self.chance(30) {
            format!(":{}", self.port())
        } else {
            String::new()
        };
        format!("{from}{near}->{to}:{}", self.port())
    }

    fn segment(&mut self, six: &str, from: &str, to: &str) -> String {
        let flags = self.pick(&[
            "syn",
            "syn",
            "syn",
            "ack",
            "fin",
            "rst",
            "null",
            "xmas",
            "flags SA",
            "flags FA",
            "flags PA",
            "flags SR",
            "flags SFRPAU",
            "syn mss 1000",
            "syn mss 1400",
            "syn option 5",
            "rstack",
        ]);
        let ends = self.ends(from, to);
        let data = if self.chance(10) { " len 20" } else { "" };
        format!("tcp{six} {ends} {flags}{data}")
    }

    fn datagram(&mut self, six: &str, from: &str, to: &str) -> (String, bool) {
        let ends = self.ends(from, to);
        let length = self.pick_of(&[0, 1, 20, 36, 100]);
        (format!("udp{six} {ends} len {length}"), true)
    }

    fn message(&mut self, six: &str, from: &str, to: &str) -> String {
        let errors: [&str; 4] = if self.v6 {
            ["1/3", "1/4", "2/0", "3/0"]
        } else {
            ["3/1", "3/3", "11/0", "3/4"]
        };
        let queries: [u8; 4] = if self.v6 {
            [1, 2, 4, 130]
        } else {
            [13, 5, 11, 3]
        };
        match self.rng.u8(..4) {
            0..=1 => format!("icmp{six} {from}->{to} {}", self.pick(&["echo", "reply"])),
            2 => {
                let kind = self.pick_of(&queries);
                format!(
                    "icmp{six} {from}->{to} type {kind} code {}",
                    self.rng.u8(..2)
                )
            }
            // An error forged on the gateway itself is RELATED for weir (docs/iptables.md).
            _ if from == "gw" => format!("icmp{six} {from}->{to} echo"),
            _ => {
                let error = self.pick(&errors);
                let (theirs, ours) = (self.port(), self.port());
                format!(
                    "icmp{six} {from}->{to} error {error} about udp{six} {to}:{theirs}->{from}:{ours}"
                )
            }
        }
    }

    fn other(&mut self, six: &str, from: &str, to: &str) -> String {
        // AH over IPv6 has a flow only for weir, SCTP handshakes only for Linux.
        let kinds: &[&str] = if self.v6 {
            &["esp", "gre", "esp spi"]
        } else {
            &["esp", "gre", "esp spi", "ah"]
        };
        match self.pick(kinds) {
            "esp spi" => format!("esp{six} {from}->{to} spi 300"),
            proto => format!("{proto}{six} {from}->{to}"),
        }
    }
}
