//! What the user says of the host: its addresses, routes and settings.
//!
//! In: options. Out: a [`Host`] and [`Settings`].

use crate::exit::{Exit, failure};
use std::net::IpAddr;
use weir_policy::dialect::ipfw::Settings;
use weir_policy::eval::ipfw::{Host, HostAddress, Route};
use weir_policy::model::Family;

/// Options for rules of ipfw; other languages have no use for them.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct FactArgs {
    /// For ipfw: a route of the host; `reject` as interface refuses.
    #[arg(long, value_name = "PREFIX/LENGTH=IF")]
    pub route: Vec<String>,
    /// For ipfw: a setting such as net.inet.ip.fw.one_pass=0.
    #[arg(long, value_name = "NAME=VALUE")]
    pub sysctl: Vec<String>,
}

fn wrong(text: &str, form: &str) -> anyhow::Error {
    failure(Exit::Usage, format!("`{text}` is not {form}"))
}

fn parts(address: IpAddr) -> (Family, u128, u8) {
    match address {
        IpAddr::V4(four) => (Family::V4, u128::from(u32::from(four)), 32),
        IpAddr::V6(six) => (Family::V6, u128::from(six), 128),
    }
}

fn prefix(text: &str) -> Option<(Family, u128, u8)> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let (family, address, width) = parts(address.parse().ok()?);
    let length = match length {
        None => width,
        Some(length) => length.parse().ok().filter(|length| *length <= width)?,
    };
    Some((family, address, length))
}

impl FactArgs {
    /// The settings: FreeBSD's, changed by the options.
    pub fn settings(&self) -> anyhow::Result<Settings> {
        self.settings_over(Settings::default())
    }

    /// Settings that a file gives, changed by the options.
    pub fn settings_over(&self, mut settings: Settings) -> anyhow::Result<Settings> {
        for text in &self.sysctl {
            let form = "NAME=VALUE with a known name";
            let (name, value) = text.split_once('=').ok_or_else(|| wrong(text, form))?;
            let value = value.parse().map_err(|_| wrong(text, form))?;
            if !settings.set(name, value) {
                return Err(wrong(text, form));
            }
        }
        Ok(settings)
    }

    /// The host, with addresses as `--local` gives them: `[IF=]ADDRESS[/LENGTH]`.
    pub fn host(&self, local: &[String]) -> anyhow::Result<Host> {
        let mut host = Host::default();
        for text in local {
            let (interface, address) = text.split_once('=').unwrap_or(("", text));
            let Some((family, address, length)) = prefix(address) else {
                return Err(wrong(text, "[IF=]ADDRESS[/LENGTH]"));
            };
            host.addresses.push(HostAddress {
                interface: interface.to_owned(),
                family,
                address,
                length,
            });
        }
        for text in &self.route {
            let form = "PREFIX/LENGTH=IF";
            let (network, interface) = text.split_once('=').ok_or_else(|| wrong(text, form))?;
            let (family, prefix, length) = match network {
                "default" => (Family::V4, 0, 0),
                "default6" => (Family::V6, 0, 0),
                network => prefix(network).ok_or_else(|| wrong(text, form))?,
            };
            host.routes.push(Route {
                family,
                prefix,
                length,
                interface: interface.to_owned(),
                refused: interface == "reject",
            });
        }
        Ok(host)
    }
}
