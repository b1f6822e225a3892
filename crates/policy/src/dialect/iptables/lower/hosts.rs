//! Addresses of `-s` and `-d` as value and mask, host names resolved.

use super::super::value::{Address, Addresses};
use super::{Lowering, Resolved};
use crate::model::{AddrMatch, Family, RangeSet};
use crate::syntax::{Diagnostic, Span};
use std::net::IpAddr;

/// Addresses a with `a & mask == value`; IPv4 in the low 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) value: u128,
    pub(super) mask: u128,
}

/// One or several hosts; the common case needs no memory of its own.
pub(super) enum Hosts {
    One([Option<Host>; 1]),
    Many(Vec<Option<Host>>),
}

impl Hosts {
    pub(super) fn as_slice(&self) -> &[Option<Host>] {
        match self {
            Self::One(one) => one,
            Self::Many(many) => many,
        }
    }
}

/// The mask of all bits of a family.
pub(super) fn all_ones(family: Family) -> u128 {
    match family {
        Family::V4 => u128::from(u32::MAX),
        Family::V6 => u128::MAX,
    }
}

/// The bits of an address; IPv4 in the low 32.
pub(super) fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Value and mask of a written address; `None` for a name.
pub(super) fn host(address: &Address) -> Option<Host> {
    match address {
        Address::V4(address, mask) => {
            let (value, mask) = (u128::from(address.to_bits()), u128::from(mask.to_bits()));
            Some(Host {
                value: value & mask,
                mask,
            })
        }
        Address::V6(address, mask) => {
            let (value, mask) = (address.to_bits(), mask.to_bits());
            Some(Host {
                value: value & mask,
                mask,
            })
        }
        Address::Name(_) => None,
    }
}

impl Host {
    /// As a set of addresses: one range for a prefix, value and mask for anything else.
    pub(super) fn to_match(self, family: Family) -> AddrMatch {
        let free = !self.mask & all_ones(family);
        if free & free.wrapping_add(1) == 0 {
            return AddrMatch::Ranges(RangeSet::range(self.value, self.value | free));
        }
        AddrMatch::Masked {
            value: self.value,
            mask: self.mask,
        }
    }
}

impl Lowering<'_> {
    /// All hosts of an option; `None` when a name has no answer (which was reported).
    pub(super) fn hosts(&mut self, addresses: Option<&Addresses>, family: Family) -> Option<Hosts> {
        let Some(addresses) = addresses else {
            return Some(Hosts::One([None]));
        };
        if addresses.more.is_empty()
            && let Some(host) = host(&addresses.first)
        {
            return Some(Hosts::One([Some(host)]));
        }
        let mut list = Vec::new();
        let mut failed = false;
        for address in addresses.iter() {
            match (host(address), address) {
                (Some(host), _) => list.push(Some(host)),
                (None, Address::Name(name)) => match self.resolve(name, family, addresses.at.0) {
                    Some(hosts) => list.extend(hosts.into_iter().map(Some)),
                    None => failed = true,
                },
                (None, _) => failed = true,
            }
        }
        if addresses.negated && list.len() > 1 {
            let message = "`!` before a name with several addresses";
            let found = Diagnostic::error("stray-negation", addresses.at.0, message);
            self.report
                .diagnostics
                .push(found.help("use `-m set` or several rules"));
            failed = true;
        }
        (!failed && !list.is_empty()).then_some(Hosts::Many(list))
    }

    /// The hosts of `name[/mask]`, each network once, sorted.
    fn resolve(&mut self, text: &str, family: Family, at: Span) -> Option<Vec<Host>> {
        let (name, mask) = match text.split_once('/') {
            Some((name, mask)) => (name, super::super::mask_bits(mask, family).ok()?),
            None => (text, all_ones(family)),
        };
        let key = (family, name.into());
        if !self.host_answers.contains_key(&key) {
            let answer = self.ask(name, family, at);
            self.host_answers.insert(key.clone(), answer);
        }
        let addresses = self.host_answers.get(&key)?.as_ref()?;
        let mut values: Vec<u128> = addresses.iter().map(|address| address & mask).collect();
        values.sort_unstable();
        values.dedup();
        Some(
            values
                .into_iter()
                .map(|value| Host { value, mask })
                .collect(),
        )
    }

    /// Asks for the addresses of a name, and records the answer.
    fn ask(&mut self, name: &str, family: Family, at: Span) -> Option<Vec<u128>> {
        let fault = |message: String| {
            Diagnostic::error("host-name", at, message).help("write the address instead")
        };
        let names = match self.options.names {
            Some(names) if !self.options.refuse_host_names => names,
            _ => {
                let message = format!("the host name `{name}` would have to be resolved");
                self.report.diagnostics.push(fault(message));
                return None;
            }
        };
        let is_of_family = |address: &IpAddr| match family {
            Family::V4 => address.is_ipv4(),
            Family::V6 => address.is_ipv6(),
        };
        let answer = names.addresses(name, family).map(|mut addresses| {
            addresses.retain(is_of_family);
            addresses.sort_unstable();
            addresses.dedup();
            addresses
        });
        match answer {
            Ok(addresses) if !addresses.is_empty() => {
                let values = addresses.iter().map(|&address| bits(address)).collect();
                self.report.resolved.push(Resolved {
                    name: name.to_owned(),
                    family,
                    addresses,
                    at,
                });
                Some(values)
            }
            Ok(_) => {
                let message = format!("the host name `{name}` has no address of this family");
                self.report.diagnostics.push(fault(message));
                None
            }
            Err(reason) => {
                let message = format!("the host name `{name}` cannot be resolved: {reason}");
                self.report.diagnostics.push(fault(message));
                None
            }
        }
    }
}
