//! Names in rules, of hosts, users, groups and control groups: asked once, answered the same ever
//! after.
//!
//! In: names. Out: sorted addresses from the system's resolver, numbers from /etc/passwd and
//! /etc/group. The answers are kept with an applied policy, so that reading its texts again gives
//! the same rules.

use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::net::{IpAddr, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
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
}

/// Who answers.
#[derive(Debug, Default)]
pub struct Hosts {
    answers: RefCell<Answers>,
    /// Whether only known names are answered.
    closed: bool,
}

impl Hosts {
    /// Asks the system.
    pub fn asking() -> Self {
        Hosts::default()
    }

    /// Answers as before, and nothing else.
    pub fn known(answers: &Answers) -> Self {
        Hosts {
            answers: RefCell::new(answers.clone()),
            closed: true,
        }
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
}
