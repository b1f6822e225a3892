//! What can be typed: the commands, their help, and nothing else.
//!
//! In: nothing. Out: clap's definition of the program, which also makes the completions and the man
//! pages. Each command's options live with the command in `cmd`.

use crate::cmd;
use clap::{Parser, Subcommand};

/// Check, explain, replay and enforce packet filter rules.
#[derive(Debug, Parser)]
#[command(
    name = "weir",
    version,
    about = "Check, explain, replay and enforce packet filter rules",
    long_about = "weir takes rules as people have them (iptables-save, ip6tables-save and ipset \
                  save files), compiles them into one classifier whose cost per packet does not \
                  grow with the number of rules, and enforces it in the Linux kernel.",
    after_long_help = "Exit status: 0 done; 1 a negative answer; 2 wrong usage or input that can't \
                       be read; 3 constructs that weir can't honour; 4 the kernel or a missing \
                       permission.\n\nEnvironment: NO_COLOR turns colours off.",
    propagate_version = true,
    arg_required_else_help = true
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Read and compile rule files, and report everything wrong with them; needs no privilege.
    Check(cmd::check::Args),
    /// Print rule files, or the policy that is enforced, in canonical form.
    Show(cmd::show::Args),
    /// Tell what happens to a packet, rule by rule; needs no privilege.
    Explain(cmd::explain::Args),
    /// Run a capture through the compiled policy; needs no privilege.
    Replay(cmd::replay::Args),
    /// Tell what a change of rules changes, for every packet there is; needs no privilege.
    Diff(cmd::diff::Args),
    /// Say rules in another language, proved to mean the same; needs no privilege.
    Convert(cmd::convert::Args),
    /// Run packets through IPFilter rules, as IPFilter's ipftest does; needs no privilege.
    Ipftest(cmd::ipftest::Args),
    /// Run a firewall script of FreeBSD and record the rules that it makes; needs no privilege.
    IpfwRecord(crate::ipfw::record::Args),
    /// Carry out a command of ipfw on a saved rule set; needs no privilege.
    Ipfw(crate::ipfw::tool::Args),
    /// Change one rule of what is enforced, in iptables' words: -I INPUT 3 -s 192.0.2.1 -j DROP.
    #[command(disable_help_flag = true)]
    Iptables(crate::live::iptables::Args),
    /// The same for IPv6.
    #[command(disable_help_flag = true)]
    Ip6tables(crate::live::iptables::Args),
    /// Change, test or list the sets of what is enforced, in ipset's words.
    #[command(visible_alias = "ipset", disable_help_flag = true)]
    Set(crate::live::ipset::Args),
    /// Change the enforced IPFilter rules, or read and print rules, as IPFilter's ipf does.
    #[command(disable_version_flag = true)]
    Ipf(cmd::ipf::Args),
    /// Print the enforced IPFilter lists or those of files, as IPFilter's ipfstat does.
    #[command(disable_help_flag = true)]
    Ipfstat(cmd::ipfstat::Args),
    /// Print what enforced IPFilter rules log, as IPFilter's ipmon does.
    Ipmon(cmd::ipmon::Args),
    /// Read and print IPFilter's translation rules; they are never applied.
    Ipnat(cmd::ipnat::Args),
    /// Load, list and change address tables of the enforced rules, as IPFilter's ippool does.
    Ippool(cmd::ippool::Args),
    /// Enforce rule files in the kernel, all at once or not at all.
    Apply(cmd::apply::Args),
    /// Keep a policy that was applied with --confirm.
    Confirm(cmd::confirm::Args),
    /// Tell what is enforced, and how it is doing.
    Status(cmd::status::Args),
    /// Print the packet and byte counters of the enforced policy.
    Counters(cmd::counters::Args),
    /// List the connections in weir's flow table.
    Flows(cmd::flows::Args),
    /// Follow the records of LOG and NFLOG rules.
    Log(cmd::log::Args),
    /// Stop enforcing, and leave nothing behind.
    Unload(cmd::unload::Args),
    /// Measure the classifier, and make rule sets to measure it with; needs no privilege.
    Bench(cmd::bench::Args),
    /// Answer rejected packets and watch over a trial; started by apply.
    #[command(hide = true)]
    Agent(cmd::agent::Args),
    /// Print a completion script for a shell.
    Completions(cmd::completions::Args),
    /// Write the manual pages to a folder.
    #[command(hide = true)]
    Man(cmd::man::Args),
}

impl Command {
    /// Whether JSON was asked for.
    pub fn json(&self) -> bool {
        match self {
            Command::Check(args) => args.json,
            Command::Show(args) => args.json,
            Command::Explain(args) => args.json,
            Command::Replay(args) => args.json,
            Command::Diff(args) => args.json,
            Command::Convert(args) => args.json,
            Command::Apply(args) => args.json,
            Command::Confirm(args) => args.json,
            Command::Status(args) => args.json,
            Command::Counters(args) => args.json,
            Command::Flows(args) => args.json,
            Command::Log(args) => args.json,
            Command::Unload(args) => args.json,
            Command::IpfwRecord(args) => args.json,
            Command::Set(args) => args.json,
            Command::Iptables(args) | Command::Ip6tables(args) => args.json,
            Command::Ipfw(_) => false,
            Command::Ipftest(_) | Command::Ipf(_) | Command::Ipfstat(_) => false,
            Command::Ipmon(_) | Command::Ipnat(_) | Command::Ippool(_) => false,
            Command::Bench(args) => args.json(),
            Command::Agent(_) | Command::Completions(_) | Command::Man(_) => false,
        }
    }
}
