//! `weir-lab rules FAMILY N`: writes a generated rule set to standard output.

use std::io::Write;

use anyhow::{Result, anyhow};
use clap::{Args, ValueEnum};

use crate::rules::{Last, RuleSet, Shape, ipf, ipfw, ipset, iptables, nft};
use crate::space::Family;

/// Options of `rules`.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// The family: exp, cheap, real, mix, all-different, hipac-worst, cross, stair, wide,
    /// tuple-worst, linear-worst, stateful or sources
    #[arg(value_name = "FAMILY")]
    shape: Shape,
    /// Number of rules, not counting the last one that accepts
    #[arg(value_name = "N")]
    count: usize,
    /// Seed; the same seed gives the same text
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Address family
    #[arg(long, default_value = "4")]
    family: Version,
    /// Language
    #[arg(long = "as", default_value = "iptables")]
    language: Language,
    /// What the last rule does
    #[arg(long, default_value = "accept")]
    last: LastRule,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Version {
    #[value(name = "4")]
    Four,
    #[value(name = "6")]
    Six,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Language {
    /// An iptables-save file
    Iptables,
    /// nft, rule by rule
    Nft,
    /// A file of ipfw commands
    Ipfw,
    /// An IPFilter file without `quick`
    Ipf,
    /// The same with `quick`
    IpfQuick,
    /// `ipset restore` text, and the iptables rules that use the set as comments
    Ipset,
    /// nft, one set of concatenations
    NftMap,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LastRule {
    Accept,
    Drop,
}

/// Runs the command.
///
/// # Errors
/// When the shape cannot be written in the language, or standard output fails.
pub fn run(options: &Options) -> Result<()> {
    let family = match options.family {
        Version::Four => Family::V4,
        Version::Six => Family::V6,
    };
    let mut set = RuleSet::generate(options.shape, options.count, options.seed, family);
    set.last = match options.last {
        LastRule::Accept => Last::Accept,
        LastRule::Drop => Last::Drop,
    };
    let text = match options.language {
        Language::Iptables => iptables::text(&set),
        Language::Nft => nft::rules(&set),
        Language::NftMap => nft::map(&set)?,
        Language::Ipfw => ipfw::text(&set).map_err(|error| anyhow!(error))?,
        Language::Ipf => ipf::text(&set, false).map_err(|error| anyhow!(error))?,
        Language::IpfQuick => ipf::text(&set, true).map_err(|error| anyhow!(error))?,
        Language::Ipset => {
            let texts = ipset::text(&set)?;
            let rules = texts.rules.lines().map(|line| format!("# {line}\n"));
            texts.sets + &rules.collect::<String>()
        }
    };
    match std::io::stdout().write_all(text.as_bytes()) {
        // A reader that has seen enough is no failure.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}
