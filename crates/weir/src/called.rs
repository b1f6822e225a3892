//! The program under the name of a tool that it stands for: a link called `ipf` is `weir ipf`.
//!
//! In: the words that it was called with. Out: the same words as `weir` takes them. Only the last
//! part of the path counts, so a link may stand anywhere; every other name is `weir` itself.

use std::ffi::OsString;
use std::path::Path;

/// The tools, each the name of a command. `scripts/install.sh --tools` makes links for them.
pub const TOOLS: [&str; 10] = [
    "ipf",
    "ipfstat",
    "ipftest",
    "ipmon",
    "ipnat",
    "ippool",
    "ipfw",
    "iptables",
    "ip6tables",
    "ipset",
];

/// The words of the command line, with the command that the program's own name stands for.
pub fn arguments() -> Vec<OsString> {
    of(std::env::args_os())
}

fn of(mut words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let Some(own) = words.next() else {
        return Vec::new();
    };
    let name = Path::new(&own).file_name().and_then(|name| name.to_str());
    let tool = TOOLS.into_iter().find(|tool| Some(*tool) == name);
    let command = tool.map(|tool| [OsString::from("weir"), OsString::from(tool)]);
    match command {
        Some(command) => command.into_iter().chain(words).collect(),
        None => std::iter::once(own).chain(words).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn words(line: &str) -> Vec<OsString> {
        of(line.split(' ').map(OsString::from))
    }

    #[test]
    fn a_tool_s_name_is_its_command() {
        let is = |line: &str, wanted: &str| {
            let wanted: Vec<OsString> = wanted.split(' ').map(OsString::from).collect();
            assert_eq!(words(line), wanted);
        };
        is("/usr/local/sbin/ipf -nvf x", "weir ipf -nvf x");
        is("ipfstat", "weir ipfstat");
        is("./weir ipf -nvf x", "./weir ipf -nvf x");
        is("weir-next check x", "weir-next check x");
        is("/opt/ipf/weir status", "/opt/ipf/weir status");
    }

    #[test]
    fn every_tool_is_a_command() {
        let weir = crate::cli::Cli::command();
        for tool in TOOLS {
            assert!(weir.find_subcommand(tool).is_some(), "{tool}");
        }
    }
}
