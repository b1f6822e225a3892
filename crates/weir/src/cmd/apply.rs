//! `weir apply FILES...`: enforce rule files, all at once or not at all.
//!
//! In: rule files. Out: the kernel judges packets by them, atomically, or by what it had before.
//! All reading, compiling and budgeting comes before the kernel is touched.

use crate::describe::family_name;
use crate::enforce::{self, Done, How};
use crate::exit::{Exit, failure};
use crate::input::{self, FileArgs, Loaded};
use crate::interfaces;
use crate::kernel::Kernel;
use crate::nat::NatTable;
use crate::netns;
use crate::output::{Output, Paint, bytes, count, report};
use crate::progress::Progress;
use crate::ssh::Session;
use crate::state::{Saved, SavedSource};
use clap::ValueEnum;
use serde::Serialize;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use weir_engine::compile::Compiled;
use weir_plane::hooks::Early;
use weir_policy::convert::Language;

/// Options of `weir apply`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    files: FileArgs,
    /// Network namespace to enforce in; default: the present one.
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
    /// Do everything but touch the kernel.
    #[arg(long, conflicts_with = "confirm")]
    dry_run: bool,
    /// Return to the previous policy after so many seconds, unless `weir confirm` is run.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    confirm: Option<u64>,
    /// What to do with nat tables in the files.
    #[arg(long, value_enum, default_value = "keep")]
    nat: Nat,
    /// Drop what PREROUTING drops as soon as it comes in: tcx (before netfilter), or xdp (before
    /// the kernel makes a packet of it; TCP and UDP by rules without memory).
    #[arg(long, value_enum, value_name = "WHERE")]
    early_drop: Option<EarlyDrop>,
    /// Start counters from those in the files.
    #[arg(long)]
    counters: bool,
    /// For ipfw: a setting such as net.inet.ip.fw.default_to_accept=1.
    #[arg(long, value_name = "NAME=VALUE")]
    sysctl: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// What happens to nat tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Nat {
    /// The kernel's nat table stays as it is.
    Keep,
    /// The installed iptables-restore loads them into the kernel.
    Kernel,
}

/// Where packets that PREROUTING drops are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EarlyDrop {
    /// At tcx ingress.
    Tcx,
    /// At XDP.
    Xdp,
}

#[derive(Debug, Serialize)]
struct Answer {
    applied: bool,
    generation: Option<u32>,
    previous: Option<u32>,
    rules: usize,
    image_bytes: usize,
    milliseconds: u64,
    confirm_seconds: Option<u64>,
    nat_rules_not_enforced: usize,
    nat_rules_to_kernel: usize,
    ssh_warning: Option<String>,
    /// Interfaces that rules of another system name and this one hasn't; only when applied.
    interfaces_absent: Vec<String>,
}

/// Applies.
pub fn run(args: &Args, out: &mut Output) -> anyhow::Result<Exit> {
    let started = Instant::now();
    let mut progress = Progress::new();
    progress.stage("reading rules");
    let texts = args.files.reading.read_files(&args.files.files)?;
    refuse_nothing(&texts)?;
    crate::ipfw::live::refuse_scripts(&texts)?;
    let mut reading = args.files.reading.clone();
    reading.netns.clone_from(&args.netns);
    let texts = match crate::ipfw::are_meant(&texts, reading.dialect.as_deref()) {
        true => {
            // Settings alone don't look like rules.
            reading.dialect = Some("ipfw".to_owned());
            crate::ipfw::live::with_settings(texts, &args.sysctl)
        }
        false if args.sysctl.is_empty() => texts,
        false => return Err(failure(Exit::Usage, "--sysctl is for rules of ipfw")),
    };
    let loaded = input::load_texts(&texts, &reading)?;
    let policy = loaded.policy()?;
    if args.early_drop.is_some() && loaded.language != Language::Iptables {
        let message = "--early-drop is for rules of iptables: what these rules drop is dropped at \
            PREROUTING, leave the option out";
        return Err(failure(Exit::Unsupported, message));
    }
    // Tells namespaces apart, so it comes before we enter one.
    let warning = ssh_warning(args, &loaded)?;
    let mut kernel = None;
    if !args.dry_run {
        let opened = kernel.insert(Kernel::open(args.netns.as_deref())?);
        // Early drop asks for programs that the policy alone doesn't tell of; and iptables may load
        // the kernel's connection tracking, which programs loaded before it would not know.
        if args.early_drop.is_none() && args.nat == Nat::Keep {
            opened.plane.load_ahead(policy);
        }
    }
    progress.stage("compiling");
    let compiled = loaded.compile()?;
    if let Some(warning) = &warning {
        progress.clear();
        eprintln!("weir: warning: {warning}");
    }
    let nat_rules: usize = loaded.nat_rules().iter().map(|(_, rules)| rules).sum();
    let handed_over = if args.nat == Nat::Kernel {
        nat_rules
    } else {
        0
    };
    let mut answer = Answer {
        applied: false,
        generation: None,
        previous: None,
        rules: loaded
            .rules
            .unwrap_or_else(|| policy.chains.iter().map(|chain| chain.rules.len()).sum()),
        image_bytes: compiled.image.len(),
        milliseconds: 0,
        confirm_seconds: args.confirm,
        nat_rules_not_enforced: nat_rules - handed_over,
        nat_rules_to_kernel: handed_over,
        ssh_warning: warning,
        interfaces_absent: Vec::new(),
    };
    if let Some(kernel) = kernel {
        progress.stage("loading into the kernel");
        let done = enforce(kernel, args, &loaded, &compiled, (texts, reading.dialect))?;
        answer.applied = true;
        answer.generation = Some(done.generation);
        answer.previous = done.previous;
        // We have entered the namespace.
        answer.interfaces_absent = interfaces::absent(policy, loaded.language);
        if done.confirmed_earlier && !out.is_json() {
            out.line("the trial of the policy before is over")?;
        }
    }
    drop(progress);
    answer.milliseconds = started.elapsed().as_millis() as u64;
    if let Some(remark) = interfaces::remark(&answer.interfaces_absent) {
        eprintln!("weir: warning: {remark}");
    }
    match out.is_json() {
        true => out.object(&report(answer))?,
        false => text(args, &loaded, &answer, out)?,
    }
    Ok(Exit::Done)
}

/// A failed command or a file that was never written gives an empty text, and enforcing that would
/// let everything through. Other files beside it may have all the rules: then it is only told.
fn refuse_nothing(texts: &[SavedSource]) -> anyhow::Result<()> {
    let empty: Vec<&SavedSource> = texts.iter().filter(|text| text.says_nothing()).collect();
    if empty.len() == texts.len() {
        let names: Vec<&str> = empty.iter().map(|text| text.name.as_str()).collect();
        let message = format!(
            "there are no rules in {}: enforcing nothing would let every packet through; \
             `weir unload` ends enforcement",
            names.join(", ")
        );
        return Err(failure(Exit::Usage, message));
    }
    for text in empty {
        eprintln!("weir: warning: {} is empty", text.name);
    }
    Ok(())
}

fn enforce(
    mut kernel: Kernel,
    args: &Args,
    loaded: &Loaded,
    compiled: &Compiled,
    (texts, dialect): (Vec<SavedSource>, Option<String>),
) -> anyhow::Result<Done> {
    kernel.early = args.early_drop.map(|place| match place {
        EarlyDrop::Tcx => Early::Tcx,
        EarlyDrop::Xdp => Early::Xdp,
    });
    let nat = match args.nat {
        Nat::Keep => Vec::new(),
        Nat::Kernel => loaded
            .nat_tables()?
            .into_iter()
            .map(|(family, text)| NatTable { family, text })
            .collect(),
    };
    let saved = Saved {
        sources: texts,
        dialect,
        allow_unsupported: args.files.reading.allow_unsupported,
        names: loaded.answers.clone(),
        kernel_nat: args.nat == Nat::Kernel,
        applied_at: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_secs()),
        changed: None,
    };
    let how = How {
        confirm_seconds: args.confirm,
        nat,
        preset_counters: args.counters,
        ..How::default()
    };
    enforce::apply(&mut kernel, loaded, compiled, &saved, &how)
}

/// What to tell somebody whose ssh session the policy would cut. Only for our own namespace: the
/// session does not go through another one.
fn ssh_warning(args: &Args, loaded: &Loaded) -> anyhow::Result<Option<String>> {
    let Some(session) = Session::current() else {
        return Ok(None);
    };
    if let Some(name) = &args.netns {
        let other = netns::identity_of(&netns::path_of(name));
        if other.ok() != netns::identity().ok() {
            return Ok(None);
        }
    }
    let Some(cut) = session.cut_by(loaded.policy()?, loaded) else {
        return Ok(None);
    };
    let rule = match (&cut.rule, &cut.chain) {
        (Some(rule), Some(chain)) => format!(" by {rule} ({chain})"),
        _ => String::new(),
    };
    let advice = match args.confirm {
        Some(seconds) => format!("it will be undone after {seconds} s unless confirmed"),
        None => "use --confirm SECONDS to have it undone automatically".to_owned(),
    };
    Ok(Some(format!(
        "this policy would cut your ssh session: {} is {}{rule}; {advice}",
        cut.packet, cut.answer
    )))
}

fn text(args: &Args, loaded: &Loaded, answer: &Answer, out: &mut Output) -> anyhow::Result<()> {
    let rules = count(answer.rules as u64, "rule", "rules");
    let size = bytes(answer.image_bytes as u64);
    let place = match &args.netns {
        Some(name) => format!(" in namespace {name}"),
        None => String::new(),
    };
    if answer.applied {
        let done = out.paint(Paint::Good, "applied");
        let time = answer.milliseconds;
        out.line(format!("{done}{place}: {rules}, {size}, in {time} ms"))?;
    } else {
        out.line(format!("not applied (dry run): {rules}, {size}"))?;
    }
    for (family, rules) in loaded.nat_rules() {
        let rules = count(rules as u64, "rule", "rules");
        let family = family_name(family);
        out.line(match args.nat {
            Nat::Keep => {
                format!("{family} nat: {rules} not enforced; the kernel's nat table is left alone")
            }
            Nat::Kernel => format!("{family} nat: {rules} for the kernel's nat table"),
        })?;
    }
    match answer.confirm_seconds.filter(|_| answer.applied) {
        Some(seconds) => {
            let warning = format!("run `weir confirm` within {seconds} s, or the policy goes back");
            let warning = out.paint(Paint::Warn, &warning);
            out.line(warning)
        }
        None => Ok(()),
    }
}
