//! The commands, one file each: `Args`, and `run(args, out)` that gives an exit code.

pub mod agent;
pub mod apply;
pub mod bench;
mod capturing;
pub mod check;
pub mod completions;
pub mod confirm;
pub mod convert;
pub mod counters;
pub mod diff;
pub mod explain;
pub mod flows;
pub mod ipf;
pub mod ipfstat;
pub mod ipftest;
pub mod ipmon;
pub mod ipnat;
pub mod ippool;
pub mod log;
pub mod man;
pub mod replay;
pub mod show;
pub mod status;
pub mod unload;

pub use capturing::packet_of;

use crate::cli::Command;
use crate::exit::Exit;
use crate::output::Output;
use weir_policy::model::Family;

/// Runs a command.
pub fn run(command: Command, out: &mut Output) -> anyhow::Result<Exit> {
    match command {
        Command::Check(args) => check::run(&args, out),
        Command::Show(args) => show::run(&args, out),
        Command::Explain(args) => explain::run(&args, out),
        Command::Ipftest(args) => ipftest::run(&args, out),
        Command::IpfwRecord(args) => crate::ipfw::record::run(&args, out),
        Command::Ipfw(args) => crate::ipfw::tool::run(&args, out),
        Command::Iptables(args) => crate::live::iptables::run(&args, Family::V4, out),
        Command::Ip6tables(args) => crate::live::iptables::run(&args, Family::V6, out),
        Command::Set(args) => crate::live::ipset::run(&args, out),
        Command::Ipf(args) => ipf::run(&args, out),
        Command::Ipfstat(args) => ipfstat::run(&args, out),
        Command::Ipmon(args) => ipmon::run(&args, out),
        Command::Ipnat(args) => ipnat::run(&args, out),
        Command::Ippool(args) => ippool::run(&args, out),
        Command::Replay(args) => replay::run(&args, out),
        Command::Diff(args) => diff::run(&args, out),
        Command::Convert(args) => convert::run(&args, out),
        Command::Apply(args) => apply::run(&args, out),
        Command::Confirm(args) => confirm::run(&args, out),
        Command::Status(args) => status::run(&args, out),
        Command::Counters(args) => counters::run(&args, out),
        Command::Flows(args) => flows::run(&args, out),
        Command::Log(args) => log::run(&args, out),
        Command::Unload(args) => unload::run(&args, out),
        Command::Bench(args) => bench::run(&args, out),
        Command::Agent(args) => agent::run(&args),
        Command::Completions(args) => completions::run(&args, out),
        Command::Man(args) => man::run(&args, out),
    }
}
