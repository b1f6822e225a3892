//! Names for addresses and ports in log lines (`ipmon -n`).
//!
//! In: a line and its record. Out: the line with the names of /etc/hosts and /etc/services. Nobody
//! else is asked: a log that waits for a name server would lose records.

use weir_policy::eval::ipf::log::Record;

/// Names of addresses and ports, as files on this machine have them.
pub struct Names {
    hosts: Vec<(String, String)>,
    services: Vec<(String, String)>,
}

impl Names {
    /// The files' rows, if they are wanted.
    pub fn of(wanted: bool) -> Self {
        let rows = |path: &str| -> Vec<(String, String)> {
            let text = match wanted {
                true => std::fs::read_to_string(path).unwrap_or_default(),
                false => String::new(),
            };
            let pair = |line: &str| {
                let line = line.split('#').next()?;
                let mut words = line.split_whitespace();
                Some((words.next()?.to_owned(), words.next()?.to_owned()))
            };
            text.lines().filter_map(pair).collect()
        };
        Names {
            // address name; name port/protocol
            hosts: rows("/etc/hosts"),
            services: rows("/etc/services"),
        }
    }

    fn host(&self, address: &str) -> String {
        let row = self.hosts.iter().find(|row| row.0 == address);
        row.map_or(address, |row| &row.1).to_owned()
    }

    fn end(&self, end: &str, protocol: &str) -> String {
        match end.split_once(',') {
            None => self.host(end),
            Some((address, port)) => {
                let wanted = format!("{port}/{protocol}");
                let row = self.services.iter().find(|row| row.1 == wanted);
                let port = row.map_or(port, |row| &row.0);
                format!("{},{port}", self.host(address))
            }
        }
    }

    /// The line with names for both ends: `SRC -> DST PR PROTOCOL`.
    pub fn put(&self, line: String, record: &Record) -> String {
        if self.hosts.is_empty() && self.services.is_empty() {
            return line;
        }
        let words: Vec<&str> = line.split(' ').collect();
        let Some(arrow) = words.iter().position(|word| *word == "->") else {
            return line;
        };
        let protocol = match record.packet.proto {
            6 => "tcp",
            17 => "udp",
            _ => "",
        };
        let named =
            words
                .iter()
                .enumerate()
                .map(|(at, word)| match at + 1 == arrow || at == arrow + 1 {
                    true => self.end(word, protocol),
                    false => (*word).to_owned(),
                });
        named.collect::<Vec<String>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_engine::packet::ipf::{LinkClass, ipf_packet};
    use weir_policy::eval::ipf::log::{Act, Style};

    fn record() -> Record {
        let mut bytes = vec![
            0x45, 0, 0, 40, 0, 7, 0, 0, 63, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        bytes.extend([
            4, 0, 0, 80, 0, 0, 0, 9, 0, 0, 0, 8, 0x50, 2, 16, 0, 0, 0, 0, 0,
        ]);
        let packet = ipf_packet(&bytes, false, "e0", LinkClass::default());
        Record {
            time_ms: 0,
            attributes: 0,
            packet,
            group: None,
            rule: None,
            act: Act::Block,
            keep_state: false,
            keep_frags: false,
            tag: None,
            level: None,
            reason: None,
        }
    }

    #[test]
    fn names_take_the_place_of_numbers() {
        let row = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let names = Names {
            hosts: vec![row("10.0.0.2", "server")],
            services: vec![row("www", "80/tcp")],
        };
        let record = record();
        let line = names.put(record.line(Style::default()), &record);
        assert!(
            line.contains(" 10.0.0.1,1024 -> server,www PR tcp "),
            "{line}"
        );
        let none = Names::of(false);
        assert!(none.put(line.clone(), &record) == line);
    }
}
