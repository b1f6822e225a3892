//! Random conditions on the transport header.

use super::Maker;

impl Maker {
    /// A protocol with conditions on its header, or nothing.
    pub(super) fn transport(&mut self) -> String {
        match self.rng.u8(..20) {
            0..=6 => self.tcp(),
            7..=11 => self.udp(),
            12..=14 => self.icmp(),
            15 => self.portless(),
            _ => String::new(),
        }
    }

    fn ports(&mut self, option: &str) -> String {
        let (first, last) = self.two_ports();
        let range = match self.rng.u8(..10) {
            0..=4 => first.to_string(),
            5..=7 => format!("{first}:{last}"),
            8 => format!(":{last}"),
            _ => format!("{first}:"),
        };
        self.negated(&format!("{option} {range}"))
    }

    fn several_ports(&mut self) -> String {
        let option = self.pick(&["--dports", "--sports", "--ports"]);
        let mut list = vec![self.port().to_string()];
        for _ in 0..self.rng.u8(..4) {
            let (first, last) = self.two_ports();
            list.push(if first < last && self.chance(30) {
                format!("{first}:{last}")
            } else {
                first.to_string()
            });
        }
        let words = self.negated(&format!("{option} {}", list.join(",")));
        format!("-m multiport {words}")
    }

    fn tcp(&mut self) -> String {
        const FLAGS: [&str; 6] = ["SYN", "ACK", "FIN", "RST", "URG", "PSH"];
        match self.rng.u8(..10) {
            0..=4 => {}
            5..=6 => return format!("-p tcp {}", self.several_ports()),
            7 => {
                let size = self.pick(&["1000", "1:1000", "1000:1400", "1400", "1460:65535"]);
                let words = self.negated(&format!("--mss {size}"));
                return format!("-p tcp -m tcpmss {words}");
            }
            _ => return "-p tcp".to_owned(),
        }
        let mut words = vec!["-p tcp -m tcp".to_owned(), self.ports("--dport")];
        if self.chance(25) {
            words.push(self.ports("--sport"));
        }
        if self.chance(30) {
            let count = self.rng.usize(1..=FLAGS.len());
            let mask = self.rng.choose_multiple(FLAGS.iter().copied(), count);
            let mut set = mask.clone();
            set.retain(|_| self.rng.bool());
            let set = if set.is_empty() {
                "NONE".to_owned()
            } else {
                set.join(",")
            };
            words.push(self.negated(&format!("--tcp-flags {} {set}", mask.join(","))));
        }
        if self.chance(12) {
            let option = self.pick(&["2", "5", "8", "3"]);
            words.push(self.negated(&format!("--tcp-option {option}")));
        }
        words.join(" ")
    }

    fn udp(&mut self) -> String {
        match self.rng.u8(..10) {
            0..=4 => format!("-p udp -m udp {}", self.ports("--dport")),
            5..=7 => format!("-p udp {}", self.several_ports()),
            _ => self.pick(&["-p udp", "-p 17"]).to_owned(),
        }
    }

    fn icmp(&mut self) -> String {
        if self.v6 {
            let kind = self.pick(&["echo-request", "129", "1", "1/3", "2", "3/0", "4/1"]);
            let words = self.negated(&format!("--icmpv6-type {kind}"));
            return format!("-p ipv6-icmp -m icmp6 {words}");
        }
        let kind = self.pick(&[
            "8", "0", "3", "3/1", "3/3", "any", "11", "5/1", "12/0", "13",
        ]);
        let words = self.negated(&format!("--icmp-type {kind}"));
        format!("-p icmp -m icmp {words}")
    }

    fn portless(&mut self) -> String {
        match self.rng.u8(..4) {
            0 => {
                let numbers = self.pick(&["256", "100:300", "0:255"]);
                let words = self.negated(&format!("--espspi {numbers}"));
                format!("-p esp -m esp {words}")
            }
            1 if !self.v6 => {
                let numbers = self.pick(&["256", "1:255"]);
                let words = self.negated(&format!("--ahspi {numbers}"));
                format!("-p ah -m ah {words}")
            }
            _ => self
                .pick(&["-p esp", "-p gre", "! -p tcp", "! -p udp", "-p 99"])
                .to_owned(),
        }
    }
}
