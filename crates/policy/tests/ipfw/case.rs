//! Cases of the vectors of ipfw, read from their files.
//!
//! In: `testdata/vectors/ipfw/*.txt`, in the format that its README tells. Out: [`Case`]s.

use std::net::IpAddr;
use std::path::Path;
use weir_policy::dialect::ipfw::{Names, Settings};
use weir_policy::eval::ipfw::{Host, HostAddress, Route};
use weir_policy::model::Family;

/// Names of the vectors' host.
pub struct Known;

impl Names for Known {
    fn user(&self, name: &str) -> Option<u32> {
        (name == "www").then_some(80)
    }
    fn group(&self, name: &str) -> Option<u32> {
        (name == "wheel").then_some(0)
    }
}

/// One case: what leads to the first packet, then the lines to check.
#[derive(Clone, Default)]
pub struct Case {
    pub name: String,
    pub place: String,
    pub settings: Settings,
    pub host: Host,
    pub commands: String,
    pub checks: Vec<(String, String)>,
}

fn prefix(text: &str) -> (Family, u128, u8) {
    let (address, length) = text.split_once('/').unwrap();
    let length = length.parse().unwrap();
    match address.parse().unwrap() {
        IpAddr::V4(four) => (Family::V4, u128::from(u32::from(four)), length),
        IpAddr::V6(six) => (Family::V6, u128::from(six), length),
    }
}

fn cases(name: &str, text: &str) -> Vec<Case> {
    let mut all: Vec<Case> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let place = format!("{name}:{}", index + 1);
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word.is_empty() || word.starts_with('#') {
            continue;
        }
        if word == "case" {
            all.push(Case {
                name: rest.to_owned(),
                place,
                ..Case::default()
            });
            continue;
        }
        let case = all.last_mut().unwrap_or_else(|| panic!("{place}: no case"));
        match word {
            "ipfw" => {
                case.commands.push_str(rest);
                case.commands.push('\n');
            }
            "sysctl" => {
                let (setting, value) = rest.split_once(' ').unwrap();
                assert!(
                    case.settings.set(setting, value.parse().unwrap()),
                    "{place}"
                );
            }
            "host" => {
                let (interface, network) = rest.split_once(' ').unwrap();
                let (family, address, length) = prefix(network);
                case.host.addresses.push(HostAddress {
                    interface: interface.to_owned(),
                    family,
                    address,
                    length,
                });
            }
            "route" => {
                let (network, interface) = rest.split_once(' ').unwrap();
                let (family, prefix, length) = prefix(network);
                case.host.routes.push(Route {
                    family,
                    prefix,
                    length,
                    interface: interface.to_owned(),
                    refused: interface == "reject",
                });
            }
            _ => case.checks.push((place, line.to_owned())),
        }
    }
    all
}

/// All cases, in the order of the files.
pub fn all_cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/vectors/ipfw");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.ends_with("README.txt") && !path.ends_with("refused.txt"))
        .collect();
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        all.extend(cases(&name, &text));
    }
    all
}
