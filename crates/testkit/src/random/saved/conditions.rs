//! Random conditions of a rule: addresses, interfaces, and extension matches.

use super::{Maker, Members, Place};

impl Maker {
    /// The conditions of a rule, each as its words.
    pub(super) fn conditions(&mut self, place: Place) -> Vec<String> {
        let mut out = Vec::new();
        for option in ["-s", "-d"] {
            if self.chance(35) {
                out.push(self.network(option));
            }
        }
        if self.chance(25) {
            self.interfaces(place, &mut out);
        }
        let transport = self.transport();
        out.extend((!transport.is_empty()).then_some(transport));
        if !self.v6 && self.chance(5) {
            out.push(self.pick(&["-f", "! -f"]).to_owned());
        }
        for _ in 0..self.pick_of(&[0, 0, 0, 1, 1, 2]) {
            let words = if self.chance(30) {
                self.remembered(place)
            } else {
                self.plain(place)
            };
            out.extend((!words.is_empty()).then_some(words));
        }
        out
    }

    fn network(&mut self, option: &str) -> String {
        let address = self.pick(self.addresses());
        if !self.v6 && self.chance(8) {
            let mask = self.pick(&["255.0.255.0", "255.255.0.255", "0.0.0.255"]);
            return self.negated(&format!("{option} {address}/{mask}"));
        }
        let lengths: &[u8] = if self.v6 {
            &[128, 128, 64, 32, 126, 0, 16, 127]
        } else {
            &[32, 32, 24, 16, 31, 30, 8, 0, 25]
        };
        let length = self.pick_of(lengths);
        self.negated(&format!("{option} {address}/{length}"))
    }

    fn interfaces(&mut self, place: Place, out: &mut Vec<String>) {
        const NAMES: [&str; 4] = ["eth0", "eth1", "lo", "eth+"];
        let hook = place.hook.unwrap_or_default();
        if matches!(hook, "PREROUTING" | "INPUT" | "FORWARD") {
            let name = self.pick(&NAMES);
            out.push(self.negated(&format!("-i {name}")));
        }
        if matches!(hook, "FORWARD" | "OUTPUT" | "POSTROUTING") && self.chance(60) {
            let name = self.pick(&NAMES);
            out.push(self.negated(&format!("-o {name}")));
        }
    }

    /// Conditions on the packet and its connection alone.
    fn plain(&mut self, place: Place) -> String {
        let tracked = place.table != "raw";
        match self.rng.u8(..14) {
            12 => self.text(),
            13 => self.word(),
            0..=2 if tracked => self.state(),
            3 => {
                let length = self.pick(&["0:64", "40", "28:60", "100:", "20:40"]);
                format!("-m length {}", self.negated(&format!("--length {length}")))
            }
            4 => {
                let name = if self.v6 { "hl" } else { "ttl" };
                let how = self.pick(&["eq 64", "lt 10", "gt 63", "eq 63"]);
                format!("-m {name} --{name}-{how}")
            }
            5 => {
                let value = self.pick(&["--dscp 0x00", "--dscp 46", "--dscp-class AF11"]);
                format!("-m dscp {}", self.negated(value))
            }
            6 => {
                let value = self.pick(&["0x10", "0x10/0x3f", "0x00/0xff", "0xb8/0xfc"]);
                format!("-m tos {}", self.negated(&format!("--tos {value}")))
            }
            7 => {
                let value = self.pick(&["0x1", "0x10/0xf0", "0x0", "0x3/0x3"]);
                let name = if tracked && self.chance(30) {
                    "connmark"
                } else {
                    "mark"
                };
                format!("-m {name} {}", self.negated(&format!("--mark {value}")))
            }
            8 => {
                let end = self.pick(&["src", "dst"]);
                let range = if self.v6 {
                    "fd77:1::1-fd77:2::1"
                } else {
                    "10.77.1.2-10.77.2.1"
                };
                format!(
                    "-m iprange {}",
                    self.negated(&format!("--{end}-range {range}"))
                )
            }
            9 => self.address_type(),
            10 if matches!(place.hook, Some("PREROUTING" | "INPUT" | "FORWARD")) => {
                let kind = self.pick(&["unicast", "broadcast", "multicast"]);
                format!("-m pkttype {}", self.negated(&format!("--pkt-type {kind}")))
            }
            11 if place.hook == Some("PREROUTING") => {
                // Marks that rules have set so far are another matter (docs/iptables.md).
                let ways = ["", "--loose", "--invert", "--loose --invert", "--validmark"];
                let many = if tracked { 4 } else { 5 };
                format!("-m rpfilter {}", self.pick(&ways[..many]))
            }
            _ if tracked => self.connection(),
            _ => String::new(),
        }
    }

    /// Bytes that headers and payloads have, which count up from 0 or are letters.
    fn text(&mut self) -> String {
        let text = self.pick(&[
            "--hex-string \"|0a0b0c|\"",
            "--hex-string \"|0001|\"",
            "--string qqq",
            "--string AAA --icase",
            "--hex-string \"|4011|\"",
        ]);
        let bounds = self.pick(&["", "", " --from 20 --to 40", " --to 30", " --from 48"]);
        let algorithm = self.pick(&["bm", "kmp"]);
        let words = self.negated(text);
        format!("-m string {words} --algo {algorithm}{bounds}")
    }

    /// Words of headers.
    fn word(&mut self) -> String {
        let words = self.pick(&[
            "6&0xff=6,17",
            "0>>22&0x3c@0&0xffff=0:1023",
            "4&0x3fff=0",
            "36>>16=1:0xffff",
            "0>>28=4&&8>>24=60:64",
            "200=0:0xffffffff",
        ]);
        format!("-m u32 {}", self.negated(&format!("--u32 \"{words}\"")))
    }

    fn state(&mut self) -> String {
        const STATES: [&str; 5] = ["NEW", "ESTABLISHED", "RELATED", "INVALID", "UNTRACKED"];
        let count = self.rng.usize(1..4);
        let chosen = self
            .rng
            .choose_multiple(STATES.iter().copied(), count)
            .join(",");
        format!(
            "-m conntrack {}",
            self.negated(&format!("--ctstate {chosen}"))
        )
    }

    fn connection(&mut self) -> String {
        let words = match self.rng.u8(..4) {
            0 => {
                let number = self.pick(&["6", "17", "1"]);
                self.negated(&format!("--ctproto {number}"))
            }
            1 => format!("--ctdir {}", self.pick(&["ORIGINAL", "REPLY"])),
            2 => {
                let port = self.port();
                self.negated(&format!("--ctorigdstport {port}"))
            }
            _ => {
                let status = self.pick(&["SEEN_REPLY", "ASSURED", "CONFIRMED", "NONE"]);
                self.negated(&format!("--ctstatus {status}"))
            }
        };
        // ICMP errors that the gateway makes have no flow for weir (docs/iptables.md).
        format!("-m conntrack {words} -m conntrack ! --ctstate RELATED")
    }

    fn address_type(&mut self) -> String {
        let kinds: &[&str] = if self.v6 {
            &["LOCAL", "UNICAST", "MULTICAST", "LOCAL,UNICAST"]
        } else {
            &[
                "LOCAL",
                "UNICAST",
                "BROADCAST",
                "BROADCAST,LOCAL",
                "MULTICAST",
            ]
        };
        let (end, kind) = (self.pick(&["src", "dst"]), self.pick(kinds));
        format!(
            "-m addrtype {}",
            self.negated(&format!("--{end}-type {kind}"))
        )
    }

    /// Conditions on what happened before, on sets, on sockets.
    fn remembered(&mut self, place: Place) -> String {
        let hook = place.hook.unwrap_or_default();
        match self.rng.u8(..11) {
            0..=3 if !self.sets.is_empty() => self.in_set(),
            4..=5 => self.rate(),
            6 if matches!(hook, "OUTPUT" | "POSTROUTING") => {
                // weir's own answers belong to user 0 (docs/iptables.md).
                format!(
                    "-m owner {}",
                    self.pick(&[
                        "--uid-owner 33",
                        "--gid-owner 1-40",
                        "--gid-owner 43-53 --suppl-groups",
                        "! --gid-owner 43 --suppl-groups",
                    ])
                )
            }
            9 => {
                let bytes = self.pick(&["0", "100", "500", "3000"]);
                format!("-m quota {}", self.negated(&format!("--quota {bytes}")))
            }
            7 => {
                let every = self.rng.u8(2..5);
                let words = self.negated(&format!("--every {every} --packet 0"));
                format!("-m statistic --mode nth {words}")
            }
            8 => {
                let burst = self.rng.u8(1..5);
                format!("-m limit --limit 1/hour --limit-burst {burst}")
            }
            _ => {
                let what = self.pick(&[
                    "--set",
                    "--rcheck",
                    "--update",
                    "--rcheck --seconds 600 --hitcount 2",
                    "--remove",
                    "! --rcheck",
                ]);
                let (name, end) = (self.pick(&["a", "b"]), self.pick(&["rsource", "rdest"]));
                format!("-m recent {what} --name {name} --{end}")
            }
        }
    }

    fn in_set(&mut self) -> String {
        let at = self.rng.usize(..self.sets.len());
        let (name, members) = self.sets[at].clone();
        let ends = if members == Members::AddressesAndPorts {
            self.pick(&["src,src", "dst,dst", "src,dst", "dst,src"])
        } else {
            self.pick(&["src", "dst"])
        };
        format!(
            "-m set {}",
            self.negated(&format!("--match-set {name} {ends}"))
        )
    }

    fn rate(&mut self) -> String {
        self.rates += 1;
        let mode = self.pick(&["srcip", "dstip", "srcip,dstport", "dstport", "srcip,dstip"]);
        let (way, rate) = (self.pick(&["upto", "above"]), self.rng.u8(1..4));
        let (burst, name) = (self.rng.u8(1..5), self.rates);
        format!(
            "-m hashlimit --hashlimit-{way} {rate}/hour --hashlimit-burst {burst} \
             --hashlimit-mode {mode} --hashlimit-name h{name}"
        )
    }
}
