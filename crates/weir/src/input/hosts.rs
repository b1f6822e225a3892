//! Names in rules, of hosts, users, groups, control groups and interfaces: asked once, answered the
//! same ever after.
//!
//! In: names. Out: sorted addresses from the system's resolver, numbers from /etc/passwd and
//! /etc/group, addresses of interfaces. The answers are kept with an applied policy, so that
//! reading its texts again gives the same rules. Those about interfaces are asked again by the
//! agent when addresses change.

use serde::{Deserialize, Serialize};
use std::cell::{OnceCell, RefCell};
use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
use weir_plane::Address;
use weir_policy::dialect::iptables::Names;
use weir_policy::model::Family;

/// What names meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// Addresses of hosts, both families.
    pub hosts: Vec<(String, Vec<IpAddr>)>,
    /// Numbers of users.
    pub users: Vec<(String, Option<u32>)>,
    /// Numbers of groups.
    pub groups: Vec<(String, Option<u32>)>,
    /// Numbers and depths of control groups.
    #[serde(default)]
    pub control_groups: Vec<(String, Option<(u64, u32)>)>,
    /// Addresses of interfaces.
    #[serde(default)]
    pub interfaces: Vec<(String, Vec<Own>)>,
    /// Interfaces that have an address.
    #[serde(default)]
    pub owners: Vec<(Ipv4Addr, Vec<String>)>,
    /// Whether states of IPFilter lived when rules that make none were put in force.
    #[serde(default)]
    pub states_live: bool,
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Own {
    /// The address.
    pub address: IpAddr,
    /// Length of its network's prefix; that of a host where nothing says it.
    pub prefix: u8,
    /// The broadcast address.
    pub broadcast: Option<IpAddr>,
    /// The other end, of an interface that has one.
    pub peer: Option<IpAddr>,
}

impl Own {
    fn of(known: &Address) -> Self {
        let ones = |mask| match mask {
            IpAddr::V4(four) => Ipv4Addr::to_bits(four).count_ones() as u8,
            IpAddr::V6(six) => six.to_bits().count_ones() as u8,
        };
        Own {
            address: known.address,
            prefix: known.mask.map_or(u8::MAX, ones),
            broadcast: known.other.filter(|_| !known.peer),
            peer: known.other.filter(|_| known.peer),
        }
    }
}

impl Answers {
    /// Whether rules ask for addresses of interfaces.
    pub fn ask_for_interfaces(&self) -> bool {
        !(self.interfaces.is_empty() && self.owners.is_empty())
    }

    /// The same without those about interfaces, so that they are asked again.
    pub fn without_interfaces(&self) -> Self {
        Answers {
            interfaces: Vec::new(),
            owners: Vec::new(),
            ..self.clone()
        }
    }

    /// The same questions about interfaces, answered as it is now in this namespace.
    pub fn as_it_is_now(&self) -> Self {
        let hosts = Hosts::known(&self.without_interfaces());
        for (name, _) in &self.interfaces {
            hosts.interface(name);
        }
        for (address, _) in &self.owners {
            hosts.owners(*address);
        }
        hosts.into_answers()
    }
}

/// Who answers.
#[derive(Debug, Default)]
pub struct Hosts {
    answers: RefCell<Answers>,
    /// Whether only known names are answered; interfaces are asked for all the same.
    closed: bool,
    /// Whose interfaces; `None`: those of the present namespace.
    netns: Option<String>,
    addresses: OnceCell<Vec<Address>>,
}

impl Hosts {
    /// Asks the system.
    pub fn asking() -> Self {
        Hosts::default()
    }

    /// Asks the system, and a namespace for its interfaces.
    pub fn asking_in(netns: Option<&str>) -> Self {
        Hosts {
            netns: netns.map(str::to_owned),
            ..Hosts::default()
        }
    }

    /// Answers as before, and nothing else.
    pub fn known(answers: &Answers) -> Self {
        Hosts {
            answers: RefCell::new(answers.clone()),
            closed: true,
            ..Hosts::default()
        }
    }

    /// The addresses of an interface; none where there is no such interface.
    pub fn interface(&self, name: &str) -> Vec<Own> {
        let known = |answers: &Answers| {
            let mut all = answers.interfaces.iter();
            all.find(|one| one.0 == name).map(|one| one.1.clone())
        };
        if let Some(known) = known(&self.answers.borrow()) {
            return known;
        }
        let all = self.all().iter().filter(|one| one.interface == name);
        let own: Vec<Own> = all.map(Own::of).collect();
        let mut answers = self.answers.borrow_mut();
        answers.interfaces.push((name.to_owned(), own.clone()));
        own
    }

    /// The interfaces that have an address.
    pub fn owners(&self, address: Ipv4Addr) -> Vec<String> {
        let known = |answers: &Answers| {
            let mut all = answers.owners.iter();
            all.find(|one| one.0 == address).map(|one| one.1.clone())
        };
        if let Some(known) = known(&self.answers.borrow()) {
            return known;
        }
        let all = self.all().iter();
        let own = all.filter(|one| one.address == IpAddr::V4(address));
        let names: Vec<String> = own.map(|one| one.interface.clone()).collect();
        let mut answers = self.answers.borrow_mut();
        answers.owners.push((address, names.clone()));
        names
    }

    fn all(&self) -> &[Address] {
        self.addresses.get_or_init(|| {
            let asked = weir_plane::space::interface_addresses(self.netns.as_deref());
            asked.unwrap_or_default()
        })
    }

    /// Whether states of IPFilter live that rules of before made.
    pub fn states_live(&self) -> bool {
        self.answers.borrow().states_live
    }

    /// All answers so far.
    pub fn into_answers(self) -> Answers {
        self.answers.into_inner()
    }

    /// The answer of before, or that of `ask`.
    fn answer<T: Clone + Default>(
        &self,
        name: &str,
        list: impl Fn(&mut Answers) -> &mut Vec<(String, T)>,
        ask: impl FnOnce() -> T,
    ) -> T {
        if let Some((_, known)) = list(&mut self.answers.borrow_mut())
            .iter()
            .find(|k| k.0 == name)
        {
            return known.clone();
        }
        if self.closed {
            return T::default();
        }
        let answer = ask();
        list(&mut self.answers.borrow_mut()).push((name.to_owned(), answer.clone()));
        answer
    }
}

impl Names for Hosts {
    fn addresses(&self, name: &str, family: Family) -> Result<Vec<IpAddr>, String> {
        let all = self.answer(
            name,
            |answers| &mut answers.hosts,
            || {
                let found = (name, 0).to_socket_addrs();
                let mut addresses: Vec<IpAddr> =
                    found.map_or_else(|_| Vec::new(), |all| all.map(|a| a.ip()).collect());
                addresses.sort_unstable();
                addresses.dedup();
                addresses
            },
        );
        if all.is_empty() {
            return Err(format!("`{name}` has no address"));
        }
        let mut fitting = all;
        fitting.retain(|address| address.is_ipv4() == (family == Family::V4));
        match fitting.is_empty() {
            true => Err(format!("`{name}` has no address of this family")),
            false => Ok(fitting),
        }
    }

    fn user(&self, name: &str) -> Option<u32> {
        self.answer(
            name,
            |answers| &mut answers.users,
            || number_in("/etc/passwd", name),
        )
    }

    fn control_group(&self, path: &str) -> Option<(u64, u32)> {
        self.answer(
            path,
            |answers| &mut answers.control_groups,
            || control_group(path),
        )
    }

    fn group(&self, name: &str) -> Option<u32> {
        self.answer(
            name,
            |answers| &mut answers.groups,
            || number_in("/etc/group", name),
        )
    }
}

/// The number of a control group is that of its directory where cgroup2 is mounted (cgroups(7)).
fn control_group(path: &str) -> Option<(u64, u32)> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let mut fields = mounts.lines().map(|line| line.split(' '));
    let root = fields.find_map(|mut fields| {
        let at = fields.nth(1)?;
        (fields.next() == Some("cgroup2")).then(|| std::path::PathBuf::from(at))
    })?;
    let parts = path.split('/').filter(|part| !part.is_empty());
    let level = u32::try_from(parts.clone().count()).ok()?;
    if parts.clone().any(|part| part == "..") {
        return None;
    }
    let folder = parts.fold(root, |folder, part| folder.join(part));
    let found = std::fs::metadata(folder).ok().filter(|m| m.is_dir())?;
    Some((found.ino(), level))
}

/// The third field of the line of a name (passwd(5), group(5)).
fn number_in(path: &str, name: &str) -> Option<u32> {
    let text = std::fs::read_to_string(path).ok()?;
    let fields = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let found = fields
        .into_iter()
        .find(|fields| fields.first() == Some(&name))?;
    found.get(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_repeat() {
        let hosts = Hosts::asking();
        let first = hosts.addresses("localhost", Family::V4).unwrap();
        assert_eq!(first, ["127.0.0.1".parse::<IpAddr>().unwrap()]);
        assert_eq!(hosts.user("root"), Some(0));
        assert_eq!(hosts.group("root"), Some(0));
        assert_eq!(hosts.user("nobody-has-this-name"), None);
        let answers = hosts.into_answers();
        let again = Hosts::known(&answers);
        assert_eq!(again.addresses("localhost", Family::V4).unwrap(), first);
        assert!(again.addresses("never.asked.example", Family::V4).is_err());
        assert_eq!(again.user("root"), Some(0));
        assert_eq!(again.into_answers(), answers);
    }

    #[test]
    fn interfaces_are_asked_again_on_demand() {
        let hosts = Hosts::asking();
        let localhost = Ipv4Addr::LOCALHOST;
        let own = hosts.interface("lo");
        assert!(
            own.iter()
                .any(|own| own.address == localhost && own.prefix == 8)
        );
        assert_eq!(hosts.owners(localhost), ["lo"]);
        let answers = hosts.into_answers();
        assert!(answers.ask_for_interfaces());
        assert_eq!(answers.as_it_is_now(), answers);
        let mut past = answers.clone();
        past.interfaces[0].1.clear();
        past.owners[0].1.clear();
        let hosts = Hosts::known(&past);
        assert_eq!(hosts.interface("lo"), []);
        assert_eq!(hosts.owners(localhost), Vec::<String>::new());
        assert_eq!(past.as_it_is_now(), answers);
    }
}
