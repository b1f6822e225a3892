//! Host names in rules: asked once, answered the same ever after.
//!
//! In: names. Out: sorted addresses, from earlier answers where there are any, else from the
//! system's resolver. The answers are kept with an applied policy, so that reading its texts again
//! gives the same rules.

use std::cell::RefCell;
use std::net::{IpAddr, ToSocketAddrs};

/// Names and their addresses.
#[derive(Debug, Default)]
pub struct Hosts {
    known: RefCell<Vec<(String, Vec<IpAddr>)>>,
    /// Whether only known names are answered.
    closed: bool,
}

impl Hosts {
    /// Asks the system's resolver.
    pub fn asking() -> Self {
        Hosts::default()
    }

    /// Answers as before, and nothing else.
    pub fn known(answers: &[(String, Vec<IpAddr>)]) -> Self {
        Hosts {
            known: RefCell::new(answers.to_vec()),
            closed: true,
        }
    }

    /// The addresses of a name, sorted; empty when it has none.
    pub fn addresses(&self, name: &str) -> Vec<IpAddr> {
        if let Some((_, addresses)) = self.known.borrow().iter().find(|k| k.0 == name) {
            return addresses.clone();
        }
        if self.closed {
            return Vec::new();
        }
        let mut addresses: Vec<IpAddr> = match (name, 0).to_socket_addrs() {
            Ok(found) => found.map(|address| address.ip()).collect(),
            Err(_) => Vec::new(),
        };
        addresses.sort_unstable();
        addresses.dedup();
        let answer = (name.to_owned(), addresses.clone());
        self.known.borrow_mut().push(answer);
        addresses
    }

    /// All answers so far.
    pub fn into_answers(self) -> Vec<(String, Vec<IpAddr>)> {
        self.known.into_inner()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_repeat() {
        let hosts = Hosts::asking();
        let first = hosts.addresses("localhost");
        assert!(!first.is_empty(), "localhost has an address");
        assert!(first.is_sorted());
        let answers = hosts.into_answers();
        let again = Hosts::known(&answers);
        assert_eq!(again.addresses("localhost"), first);
        assert_eq!(again.addresses("never.asked.example"), Vec::<IpAddr>::new());
        assert_eq!(again.into_answers(), answers);
    }
}
