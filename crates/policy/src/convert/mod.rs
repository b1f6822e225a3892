//! Rules of one language as rules of another that mean the same.
//!
//! In: a policy with its texts, and the language wanted. Out: files that a person can keep, in the
//! order of the source, with its comments or the places that rules came from; or located messages
//! about every construct that the other language has no words for. What comes out is read again and
//! compared with the source for every packet ([`crate::compare`]); nothing is handed out that isn't
//! the same. What is left out of the comparison is told ([`Proof`]).
//!
//! The way: last-match lists become first-match ([`first`]), the tests of a rule clauses
//! ([`clause`]), and these the words of a language ([`words_ipf`] and its like). Chains stay chains
//! in iptables ([`chains`]) and stand where they are called elsewhere ([`flat`]).

mod address;
mod chains;
mod clause;
mod culprit;
mod file_flat;
mod file_ipf;
mod file_ipfw;
mod file_iptables;
mod first;
mod flat;
mod lists;
mod prove;
mod remarks;
mod tracked;
mod words_ipf;
mod words_ipfw;
mod words_iptables;

pub use culprit::span_of;
pub use prove::Proof;

use crate::model::{ChainId, Cond, Family, Packet, Policy, Root, Rule, Test};
use crate::syntax::{Diagnostic, Sources, Span};

/// A language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    /// IPFilter's, and HP-UX IPFilter's.
    Ipf,
    /// ipfw's.
    Ipfw,
    /// iptables-save's.
    Iptables,
}

impl Language {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Language::Ipf => "ipf",
            Language::Ipfw => "ipfw",
            Language::Iptables => "iptables",
        }
    }
}

/// What is accepted, and what is wanted.
#[derive(Clone, Debug)]
pub struct Options {
    /// The host forwards nothing: forwarded packets are left out.
    pub host: bool,
    /// States of conversations are left to the tracking of the result.
    pub tracked: bool,
    /// Families that the source speaks about.
    pub families: Vec<Family>,
    /// How a packet is told, as an example of what would differ.
    pub describe: fn(&Packet) -> String,
}

/// What is converted.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// Its texts.
    pub sources: &'a Sources,
    /// Their language.
    pub language: Language,
}

/// What a file of the result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Rules, of one family where the language has a file for each.
    Rules(Option<Family>),
    /// Sets of addresses (`ipset save`).
    Sets,
    /// Tables of addresses (`ippool.conf`).
    Pools,
}

/// A file of the result.
#[derive(Clone, Debug)]
pub struct Written {
    /// What it is.
    pub kind: Kind,
    /// Its text.
    pub text: String,
}

/// The result.
#[derive(Debug)]
pub struct Converted {
    /// The files.
    pub files: Vec<Written>,
    /// What was proved.
    pub proof: Proof,
    /// What else is to be told.
    pub remarks: Vec<Diagnostic>,
}

/// The lists of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lists {
    /// What received packets meet.
    input: Option<ChainId>,
    /// What packets meet that are sent.
    output: Option<ChainId>,
}

/// Messages about constructs; more are not looked for.
const MESSAGES_MAX: usize = 40;

/// Converts; otherwise every reason why not.
pub fn convert(
    source: Source<'_>,
    to: Language,
    options: &Options,
) -> Result<Converted, Vec<Diagnostic>> {
    if source.policy.roots.iter().any(Root::is_of_frames) {
        let message = "net.link.ether.ipfw=1: what becomes of frames can't be converted";
        let found = Diagnostic::unsupported(Span::default(), message);
        return Err(vec![found.help("leave it at 0")]);
    }
    let mut work = source.policy.clone();
    if options.tracked {
        tracked::check(source, options).map_err(sorted)?;
        work = first::without_states(&work);
    }
    let (mut found, mut of_lists) = (Vec::<Diagnostic>::new(), Vec::new());
    let told = |found: Vec<_>, of_lists| match found.is_empty() {
        true => sorted(of_lists),
        false => sorted(found),
    };
    let files = loop {
        match lists::files(&work, source, to, options) {
            Ok(files) => break files,
            Err(trouble) => {
                let (rule, culprit) = *trouble;
                let message = culprit.at(rule.origin, source.sources, to.name());
                // IPFilter's look at the states is in front of every list, and no line says it.
                let unsaid = source.language == Language::Ipf && rule.index == Rule::HIDDEN;
                let kind = match unsaid || culprit.is_of_the_list() {
                    true => &mut of_lists,
                    false => &mut found,
                };
                if !kind.iter().any(|one| one.span == message.span) {
                    kind.push(message);
                }
                let enough = found.len() + of_lists.len() >= MESSAGES_MAX;
                if !silence(&mut work, &rule) || enough {
                    return Err(told(found, of_lists));
                }
            }
        }
    };
    if !found.is_empty() || !of_lists.is_empty() {
        return Err(told(found, of_lists));
    }
    let remarks = lists::remarks(source, options);
    prove::finished(source, to, options, files).map(|(files, proof)| Converted {
        files,
        proof,
        remarks,
    })
}

fn sorted(mut found: Vec<Diagnostic>) -> Vec<Diagnostic> {
    found.sort_by_key(|one| (one.span.source, one.span.start));
    found
}

/// Takes a rule out, to see what else there is; whether there was one.
fn silence(policy: &mut Policy, rule: &Rule) -> bool {
    let mut any = false;
    let never = || Test {
        negate: false,
        cond: Cond::Never,
    };
    let rules = policy.chains.iter_mut().flat_map(|chain| &mut chain.rules);
    for one in rules.filter(|one| one.id == rule.id && one.origin == rule.origin) {
        any |= one.tests != [never()];
        one.tests = vec![never()];
        one.ops.clear();
        one.flow = crate::model::Flow::Next;
    }
    any
}
