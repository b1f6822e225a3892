//! `weir ipfstat -io`: the enforced lists, or those of rule files, with the options of IPFilter's
//! `ipfstat`.
//!
//! In: the kernel's policy and its counters, or rule files (and pool files). Out: the lists as
//! packets meet them, groups behind them. Hits of files are those of `--packets`, a capture that is
//! run through the rules first, or 0.

use crate::capture::Capture;
use crate::exit::{Exit, failure};
use crate::input::interface_pair;
use crate::ipf::files::{Reading, Rules};
use crate::ipf::live::Live;
use crate::ipf::statistics::{self, Blocked};
use crate::ipf::{limits, states};
use crate::output::Output;
use std::collections::HashMap;
use std::path::PathBuf;
use weir_engine::packet::ipf::{LinkClass, ipf_packet};
use weir_policy::dialect::ipf::ast::Rule;
use weir_policy::dialect::ipf::load::{RuleSet, Unit};
use weir_policy::dialect::ipf::{Form, Language, PrintOptions, print_rule};
use weir_policy::eval::ipf::log::Reason;
use weir_policy::eval::ipf::{Evaluator, Settings};
use weir_policy::model::Family;
use weir_policy::syntax::Severity;

/// Options of `weir ipfstat`.
#[derive(Debug, clap::Args)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "they are the original's flags"
)]
pub struct Args {
    /// Rule files and pool files; without, the enforced lists.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The inbound list.
    #[arg(short = 'i')]
    inbound: bool,
    /// The outbound list.
    #[arg(short = 'o')]
    outbound: bool,
    /// The accounting lists, with bytes.
    #[arg(short = 'a')]
    account: bool,
    /// Hits before each rule.
    #[arg(short = 'h')]
    hits: bool,
    /// The position before each rule.
    #[arg(short = 'n')]
    numbers: bool,
    /// HP-UX: the lists of IPv6; of a file: rules that nothing else fixes are for IPv6.
    #[arg(short = '6')]
    six: bool,
    /// HP-UX: how many connection limits are in use, by type; with -v each of them.
    #[arg(short = 'L')]
    limits: bool,
    /// HP-UX: the limit of one rule, as GROUP:NUMBER.
    #[arg(short = 'r', value_name = "GROUP:NUMBER")]
    rule: Option<String>,
    /// The inactive lists.
    #[arg(short = 'I')]
    inactive: bool,
    /// State statistics.
    #[arg(short = 's')]
    states: bool,
    /// With -s: each state.
    #[arg(short = 'l', requires = "states")]
    list: bool,
    /// States with most bytes first; printed once.
    #[arg(short = 't')]
    top: bool,
    /// Live entries behind rules that keep state.
    #[arg(short = 'v')]
    verbose: bool,
    /// Do not resolve names.
    #[arg(short = 'R')]
    no_names: bool,
    /// Print help; `-h` is the original's word for hits.
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// Run a capture through the rules first; all its packets are inbound on `anon0`.
    #[arg(long, value_name = "PCAP")]
    packets: Option<PathBuf>,
    /// Language of the rules; told by their content when absent.
    #[arg(long, value_name = "DIALECT", value_parser = ["ipf", "hpux"])]
    dialect: Option<String>,
    /// Print the form of 4.x.
    #[arg(long, requires = "files")]
    old_form: bool,
    /// What an interface of the files is called here, such as lo0=lo.
    #[arg(long, value_name = "OLD=NEW", value_parser = interface_pair, requires = "files")]
    interface: Vec<String>,
    /// Network namespace whose lists are printed; default: the present one.
    #[arg(long, value_name = "NAME", conflicts_with = "files")]
    netns: Option<String>,
}

/// Prints.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    if args.files.is_empty() {
        return enforced(args, out);
    }
    if args.states || args.top || args.inactive {
        let message = "-s, -t and -I ask what is enforced: give no file";
        return Err(failure(Exit::Usage, message));
    }
    let reading = Reading {
        language: match args.dialect.as_deref() {
            Some("hpux") => Language::Hpux,
            _ => Language::Ipf,
        },
        family: args.six.then_some(Family::V6),
        told: args.dialect.is_some(),
        no_names: args.no_names,
        interface: args.interface.clone(),
        ..Reading::default()
    };
    let rules = Rules::of_files(&args.files, &reading)?;
    rules.tell(Severity::Error);
    rules.check()?;
    let mut evaluator = Evaluator::new(&rules.set, rules.tables.clone(), Settings::default());
    let mut blocked = Blocked::default();
    if let Some(path) = &args.packets {
        let mut capture = Capture::open(path)?;
        while let Some(frame) = capture.next() {
            let frame = frame?;
            if let Ok(network) = &frame.content {
                let packet = ipf_packet(&network.bytes, false, "anon0", LinkClass::default());
                let judged = evaluator.judge(&packet, frame.time.as_millis() as u64);
                if !judged.passes {
                    blocked.count(false, judged.reason.unwrap_or(Reason::FilterRule));
                }
            }
        }
    }
    let form = match args.old_form {
        true => Form::V4,
        false => Form::of(rules.file.language),
    };
    let listed = || limits::judged(&evaluator);
    if args.limits {
        return match args.verbose {
            true => limits::list(&listed(), out),
            false => limits::statistics(&listed(), limits::judged_counts(&evaluator), out),
        };
    }
    if let Some(rule) = &args.rule {
        return limits::of_rule(&listed(), rule, out);
    }
    if !args.inbound && !args.outbound && !args.account {
        return statistics::print(&evaluator, &blocked, form, out);
    }
    let own = own_family(args, rules.file.language);
    let shown = |rule: &Rule| own(rule).then(|| rule.clone());
    let mut living = HashMap::new();
    for state in evaluator.states.entries() {
        *living.entry(state.rule).or_default() += 1;
    }
    lists(args, (&evaluator, &shown, living), form, out)
}

/// HP-UX has a list for each family: with -6 that of IPv6, without that of IPv4.
fn own_family(args: &Args, language: Language) -> impl Fn(&Rule) -> bool {
    let wanted = (language == Language::Hpux).then_some(match args.six {
        true => Family::V6,
        false => Family::V4,
    });
    move |rule| wanted.is_none() || rule.family == wanted
}

/// The enforced lists.
fn enforced(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    if args.packets.is_some() {
        let message = "--packets needs rule files: the enforced lists have hits of their own";
        return Err(failure(Exit::Usage, message));
    }
    let live = Live::open(args.netns.as_deref())?;
    match (&args.rule, args.limits, args.verbose) {
        (Some(rule), ..) => return limits::of_rule(&limits::enforced(&live)?, rule, out),
        (None, true, true) => return limits::list(&limits::enforced(&live)?, out),
        (None, true, false) => {
            let counts = limits::enforced_counts(&live)?;
            return limits::statistics(&limits::enforced(&live)?, counts, out);
        }
        _ => {}
    }
    match (args.top, args.states, args.list) {
        (true, ..) => return states::top(&live, out),
        (_, true, true) => return states::list(&live, out),
        (_, true, false) => return states::statistics(&live, out),
        _ => {}
    }
    let kept;
    let rules = match args.inactive {
        true => {
            kept = live.inactive()?;
            &kept
        }
        false => &live.rules,
    };
    let mut evaluator = Evaluator::new(&rules.set, rules.tables.clone(), Settings::default());
    if !args.inactive {
        for (counters, hits) in evaluator.counters.iter_mut().zip(&live.counters) {
            (counters.packets, counters.bytes) = (hits.packets, hits.bytes);
        }
    }
    if !args.inbound && !args.outbound && !args.account {
        return statistics::enforced(&live, out);
    }
    let own = own_family(args, live.language());
    let shown = |rule: &Rule| match args.inactive {
        _ if !own(rule) => None,
        true => Some(rule.clone()),
        false => live.living(rule),
    };
    let living = match args.verbose && !args.inactive {
        true => states::by_rule(&live)?,
        false => HashMap::new(),
    };
    lists(args, (&evaluator, &shown, living), live.form(), out)
}

fn lists(
    args: &Args,
    (evaluator, shown, living): (&Evaluator<'_>, &Shown<'_>, HashMap<usize, u32>),
    form: Form,
    out: &mut Output,
) -> anyhow::Result<Exit> {
    let mut show = Lists {
        args,
        set: evaluator.rules,
        evaluator,
        shown,
        living,
        form,
        out,
    };
    let both = !args.inbound && !args.outbound;
    for (direction, wanted) in [(1, args.outbound || both), (0, args.inbound || both)] {
        if wanted {
            show.list(direction)?;
        }
    }
    Ok(Exit::Done)
}

/// A rule as it is there now, if it is.
type Shown<'s> = dyn Fn(&Rule) -> Option<Rule> + 's;

struct Lists<'l> {
    args: &'l Args,
    set: &'l RuleSet,
    evaluator: &'l Evaluator<'l>,
    shown: &'l Shown<'l>,
    /// States of each rule.
    living: HashMap<usize, u32>,
    form: Form,
    out: &'l mut Output,
}

impl Lists<'_> {
    fn list(&mut self, direction: usize) -> anyhow::Result<()> {
        let (unit, list, name) = match self.args.account {
            true => (Unit::Account, &self.set.account[direction], "ipacct"),
            false => (Unit::Filter, &self.set.filter[direction], "ipfilter"),
        };
        let shown = |&index: &usize| (self.shown)(&self.set.rules[index]).is_some();
        if !list.iter().any(shown) {
            let side = if direction == 0 { "in" } else { "out" };
            eprintln!("# empty list for {name}({side})");
            return Ok(());
        }
        let mut groups = Vec::new();
        self.rules(list, &mut groups)?;
        let mut at = 0;
        while at < groups.len() {
            let group = groups[at].clone();
            at += 1;
            if let Some(members) = self.set.group(unit, &group) {
                self.out.line(format!("# Group {group}"))?;
                self.rules(members, &mut groups)?;
            }
        }
        Ok(())
    }

    fn rules(
        &mut self,
        list: &[usize],
        groups: &mut Vec<weir_policy::dialect::ipf::ast::Name>,
    ) -> anyhow::Result<()> {
        let shown = |&index: &usize| Some((index, (self.shown)(&self.set.rules[index])?));
        let living: Vec<(usize, Rule)> = list.iter().filter_map(shown).collect();
        for (number, (index, rule)) in living.into_iter().enumerate() {
            let counters = self.evaluator.counters[index];
            let mut line = String::new();
            if self.args.hits {
                line += &format!("{} ", counters.packets);
            }
            if self.args.account {
                line += &format!("{} ", counters.bytes);
            }
            if self.args.numbers {
                let group = rule.group.as_deref().unwrap_or("0");
                line += &match self.form {
                    Form::V4 => format!("@{group}:{} ", number + 1),
                    Form::V5 => format!("@{} ", number + 1),
                };
            }
            let states = self.living.get(&index).copied().unwrap_or(0);
            let mut plain = rule.clone();
            plain.insert = None;
            line += &print_rule(
                &plain,
                &PrintOptions {
                    form: self.form,
                    entries: self.args.verbose.then_some(states),
                    known: None,
                },
            );
            self.out.line(line)?;
            if let Some(head) = &rule.head
                && !groups.contains(head)
            {
                groups.push(head.clone());
            }
        }
        Ok(())
    }
}
