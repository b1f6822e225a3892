//! Random sets in the words of `ipset save`.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::IpAddr;

use super::{Maker, Members};

impl Maker {
    /// One to four sets, the last of them perhaps a list of two others.
    pub(super) fn make_sets(&mut self) -> Option<String> {
        let mut out = String::new();
        for at in 0..self.rng.usize(1..4) {
            let name = format!("s{at}");
            if self.chance(20) {
                self.ports_set(&mut out, &name);
            } else {
                self.address_set(&mut out, &name);
            }
        }
        if self.chance(30) {
            let (first, members) = self.sets[0].clone();
            let second = self.sets[1..].iter().find(|set| set.1 == members).cloned();
            let _ = writeln!(out, "create list list:set size 8\nadd list {first}");
            if let Some((second, _)) = second {
                let _ = writeln!(out, "add list {second}");
            }
            self.sets.push(("list".to_owned(), members));
        }
        Some(out)
    }

    fn ports_set(&mut self, out: &mut String, name: &str) {
        let _ = writeln!(out, "create {name} bitmap:port range 0-65535");
        let ports: BTreeSet<u16> = (0..4).map(|_| self.port()).collect();
        for port in ports {
            let _ = writeln!(out, "add {name} {port}");
        }
        self.sets.push((name.to_owned(), Members::Ports));
    }

    fn address_set(&mut self, out: &mut String, name: &str) {
        let kind = self.pick(&["hash:ip", "hash:net", "hash:ip,port", "hash:net,port"]);
        let family = if self.v6 { "inet6" } else { "inet" };
        let _ = writeln!(
            out,
            "create {name} {kind} family {family} hashsize 1024 maxelem 65536"
        );
        let mut seen = BTreeSet::new();
        for _ in 0..self.rng.u8(1..7) {
            let mut member = self.pick(self.addresses()).to_owned();
            if kind.contains("net") {
                member = self.network_of(&member);
            }
            if kind.ends_with("port") {
                let (proto, port) = (self.pick(&["tcp", "udp"]), self.port());
                let _ = write!(member, ",{proto}:{port}");
            }
            if !seen.insert(member.clone()) {
                continue;
            }
            let exception = kind == "hash:net" && self.chance(25);
            let nomatch = if exception { " nomatch" } else { "" };
            let _ = writeln!(out, "add {name} {member}{nomatch}");
        }
        let members = if kind.ends_with("port") {
            Members::AddressesAndPorts
        } else {
            Members::Addresses
        };
        self.sets.push((name.to_owned(), members));
    }

    /// A network around an address, its host bits cleared: two spellings of one are no two members.
    fn network_of(&mut self, address: &str) -> String {
        match address.parse().expect("an address of the pool") {
            IpAddr::V4(address) => {
                let length = self.pick_of(&[32, 24, 16, 31, 30, 8]);
                let bits = u32::from(address) & u32::MAX.checked_shl(32 - length).unwrap_or(0);
                format!("{}/{length}", std::net::Ipv4Addr::from(bits))
            }
            IpAddr::V6(address) => {
                let length = self.pick_of(&[128, 64, 32, 127, 126]);
                let bits = u128::from(address) & u128::MAX.checked_shl(128 - length).unwrap_or(0);
                format!("{}/{length}", std::net::Ipv6Addr::from(bits))
            }
        }
    }
}
