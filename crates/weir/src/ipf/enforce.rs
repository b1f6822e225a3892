//! IPFilter rules for the kernel: lowered to the rule model like any other language.
//!
//! In: texts, and the addresses of interfaces where rules ask for them. Out: their policy with all
//! messages. What can't be enforced is refused by name; see `weir_policy::dialect::ipf::lower`.

use super::check::reading_of;
use super::files::Rules;
use super::tunables;
use crate::input::{Answers, Hosts, Own, ReadingArgs};
use crate::state::SavedSource;
use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};
use weir_policy::dialect::ipf::Language;
use weir_policy::dialect::ipf::ast::{Address, Name};
use weir_policy::dialect::ipf::lower::{
    InterfaceNet, InterfaceNets, LowerOptions, STATES_MAX, lower,
};
use weir_policy::eval::ipf::Settings;
use weir_policy::model::{Family, Policy};
use weir_policy::syntax::{Diagnostic, Sources, Span};

/// Rules after lowering.
pub struct Lowered {
    /// The texts.
    pub sources: Sources,
    /// All messages.
    pub diagnostics: Vec<Diagnostic>,
    /// The policy, if nothing was wrong.
    pub policy: Option<Policy>,
    /// How many rules are loaded: those of `ipfstat -io` and `-a`.
    pub rules: usize,
    /// What names in them meant.
    pub answers: Answers,
}

/// What a language begins with where it is enforced.
pub fn settings_of(language: Language) -> Settings {
    Settings {
        state_max: STATES_MAX,
        ..Settings::of(language)
    }
}

/// The settings of the files, as far as the kernel's side has them; the others are told.
fn options_of(rules: &mut Rules) -> LowerOptions {
    let mut settings = settings_of(rules.file.language);
    let mut unused = Vec::new();
    for setting in rules.settings() {
        let before = settings.clone();
        let known = tunables::set(&mut settings, &setting.name, setting.value);
        let has = |s: &Settings| Settings {
            short_options_unseen: false,
            ..s.clone()
        };
        if known == Ok(true) && has(&before) != has(&settings) || before == settings {
            continue;
        }
        let message = format!("`set {}` is not used by the kernel's side", setting.name);
        let found = Diagnostic::warning("setting-unused", setting.at.0, message);
        unused.push(found.help("`weir ipftest` and `weir explain` use it"));
    }
    rules.diagnostics.extend(unused);
    LowerOptions {
        default_block: settings.default_block,
        log_quick_ends: settings.log_quick_ends,
        states_live: false,
        states_max: settings.state_max,
        exact_headers: settings.exact_headers,
        limits_on: settings.limits_on,
        limit_fails_closed: settings.limit_fails_closed,
        min_ttl: settings.min_ttl,
        checks_source: settings.checks_source,
        lifetimes: settings.lifetimes,
        discovery_bypasses: settings.discovery_bypasses,
        now: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_secs()),
        interfaces: InterfaceNets::new(),
    }
}

/// The addresses of interfaces that rules ask for. A named interface without one is told.
fn interfaces(rules: &mut Rules, hosts: &Hosts) -> InterfaceNets {
    let mut nets = InterfaceNets::new();
    let asked: Vec<(Span, Name)> = rules
        .set
        .rules
        .iter()
        .filter_map(|rule| Some((rule.at.0, rule.fields()?)))
        .flat_map(|(at, fields)| [(at, &fields.source), (at, &fields.destination)])
        .filter_map(|(at, side)| match &side.address {
            Address::Interface(name, _) => Some((at, name.clone())),
            _ => None,
        })
        .collect();
    for (at, name) in asked {
        let own = hosts.interface(&name);
        if own.is_empty() {
            let message = format!("interface `{name}` has no address here");
            let found = Diagnostic::warning("no-address", at, message);
            let found = found.help("its address matches nothing until it has one");
            rules.diagnostics.push(found);
        }
        let own = own.iter().map(net_of).collect();
        nets.0.insert(name.to_string(), own);
    }
    nets
}

fn net_of(own: &Own) -> InterfaceNet {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(four) => u128::from(four.to_bits()),
        IpAddr::V6(six) => six.to_bits(),
    };
    InterfaceNet {
        family: match own.address {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        },
        address: bits(own.address),
        prefix: own.prefix,
        broadcast: own.broadcast.map(bits),
        peer: own.peer.map(bits),
    }
}

/// The policy of rules that are read and right, and what of them can't be enforced. Times of rules
/// count from `since` on (seconds since 1970), or from now.
pub fn lower_rules(
    rules: &mut Rules,
    hosts: &Hosts,
    since: Option<u64>,
) -> (Option<Policy>, Vec<Diagnostic>) {
    let mut options = options_of(rules);
    options.interfaces = interfaces(rules, hosts);
    options.now = since.unwrap_or(options.now);
    options.states_live = hosts.states_live();
    lower(&rules.set, &rules.tables, &rules.sources, options)
}

/// Reads and lowers texts.
pub fn lower_texts(texts: &[SavedSource], args: &ReadingArgs, hosts: Hosts) -> Lowered {
    let mut rules = Rules::of_texts(texts, &reading_of(args));
    rules.refuse_translations();
    let mut policy = None;
    if !rules.diagnostics.iter().any(Diagnostic::is_error) {
        let (made, found) = lower_rules(&mut rules, &hosts, args.since);
        rules.diagnostics.extend(found);
        policy = made;
    }
    rules
        .diagnostics
        .sort_by_key(|found| (found.span.source, found.span.start));
    Lowered {
        rules: rules.set.rules.len(),
        sources: rules.sources,
        diagnostics: rules.diagnostics,
        policy,
        answers: hosts.into_answers(),
    }
}
