//! Random targets: verdicts, chains, marks, header changes.

use super::{Maker, Place};

impl Maker {
    /// The target of a rule with these conditions; empty: it only counts.
    pub(super) fn target(&mut self, conditions: &str, place: Place, callable: &[String]) -> String {
        if !callable.is_empty() && self.chance(22) {
            let at = self.rng.usize(..callable.len());
            return format!("{} {}", self.pick(&["-j", "-j", "-g"]), callable[at]);
        }
        match self.rng.u8(..20) {
            0 => return "-j RETURN".to_owned(),
            1 if place.hook.is_none() => return "-j RETURN".to_owned(),
            2..=3 => return String::new(),
            _ => {}
        }
        match place.table {
            "filter" => self.verdict(conditions, place),
            "mangle" => self.change(place),
            _ => self
                .pick(&[
                    "-j CT --notrack",
                    "-j CT --notrack",
                    "-j NOTRACK",
                    "-j DROP",
                    "-j ACCEPT",
                ])
                .to_owned(),
        }
    }

    fn verdict(&mut self, conditions: &str, place: Place) -> String {
        match self.rng.u8(..10) {
            0..=4 => "-j ACCEPT".to_owned(),
            5..=7 => "-j DROP".to_owned(),
            8 if self.answerable(conditions, place) => self.reject(conditions),
            _ => "-j LOG --log-prefix \"x: \"".to_owned(),
        }
    }

    /// Linux answers only what has a right checksum, and on OUTPUT not what it says itself; weir
    /// doesn't look (docs/iptables.md). So only TCP and UDP are rejected, and not on OUTPUT, where
    /// the answer goes over loopback.
    fn answerable(&self, conditions: &str, place: Place) -> bool {
        let known = ["-p tcp", "-p udp", "-p 17"];
        matches!(place.hook, Some("INPUT" | "FORWARD"))
            && !conditions.contains("! -p")
            && known.iter().any(|proto| conditions.contains(proto))
    }

    fn reject(&mut self, conditions: &str) -> String {
        let kinds: &[&str] = if conditions.contains("-p tcp") && self.rng.bool() {
            &["tcp-reset"]
        } else if self.v6 {
            &[
                "icmp6-port-unreachable",
                "icmp6-adm-prohibited",
                "icmp6-no-route",
            ]
        } else {
            &[
                "icmp-port-unreachable",
                "icmp-host-unreachable",
                "icmp-admin-prohibited",
                "icmp-proto-unreachable",
            ]
        };
        format!("-j REJECT --reject-with {}", self.pick(kinds))
    }

    fn change(&mut self, place: Place) -> String {
        match self.rng.u8(..20) {
            0..=8 => {
                let how = self.pick(&[
                    "--set-xmark 0x1/0xffffffff",
                    "--set-xmark 0x10/0xff",
                    "--or-mark 0x3",
                    "--and-mark 0xf0",
                    "--xor-mark 0x11",
                    "--set-mark 0x2",
                ]);
                format!("-j MARK {how}")
            }
            9..=12 => {
                let how = self.pick(&[
                    "--save-mark",
                    "--restore-mark",
                    "--set-mark 0x1",
                    "--set-xmark 0x2/0x2",
                ]);
                format!("-j CONNMARK {how}")
            }
            13 => "-j DROP".to_owned(),
            // A local receiver sees the old value (docs/iptables.md), so not before routing.
            14..=17 if matches!(place.hook, Some("FORWARD" | "OUTPUT" | "POSTROUTING")) => self
                .pick(&["-j DSCP --set-dscp 0x2e", "-j TOS --set-tos 0x10/0x3f"])
                .to_owned(),
            _ => "-j ACCEPT".to_owned(),
        }
    }
}
