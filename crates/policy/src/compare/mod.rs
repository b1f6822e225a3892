//! What a change of rules changes: two policies compared for every packet there is.
//!
//! In: two policies of the rule model, in whatever languages they were written. Out: for each way
//! through the host (received, routed, made here) and each family either that all packets get the
//! same, or the classes of packets that don't, with what becomes of them on both sides, by which
//! rule, and one packet of each class that `eval` has judged. Nothing is sampled: both policies are
//! turned into decision diagrams over the bits of all header fields ([`diagram`], [`walk`]), and
//! equal functions have equal diagrams.
//!
//! What is no function of the packet (limits, lists of recent addresses, fields of flows, sets that
//! change) is a bit of its own, the same on both sides if its text is the same ([`names`]). So the
//! answer "same" holds whatever those things remember, provided that both have seen the same
//! packets, which is compared too. States of connections are what tracking finds; that is the same
//! on both sides as long as both accept the same packets. Whether a packet belongs to a state that
//! a rule has made is such a bit as well: compared is which packets make states, and how those are
//! kept; then the same packets belong to them later, and get the same. States of ipfw are told
//! apart by what their rules do with later packets ([`makers`], [`dynamic`]).

mod changed;
mod classes;
mod confirm;
mod cut;
pub mod diagram;
mod dynamic;
mod example;
pub mod field;
mod given;
mod makers;
mod mix;
mod names;
mod noting;
mod reach;
mod result;
mod rows;
mod space;
mod state;
mod tests_of;
mod truth;
mod walk;

pub use classes::{Class, Values};
pub use confirm::{Judged, judge};
pub use diagram::TooLarge;
pub use example::{STATES, Valuation};
pub use mix::{Mix, Part};
pub use names::Names;
pub use reach::{Unreached, unreached};
pub use result::{Comparison, Difference, Journey, Outcome};
pub use space::{Space, Unknown};
pub use state::{Compared, Effect, Flows, State, States, Who, verdict_word};
pub use walk::{Notes, Walk};

use crate::eval::{Evaluator, Path};
use crate::model::{CtState, Family, Policy, Root};
use makers::Makers;

/// The ways through the host.
pub const PATHS: [Path; 3] = [Path::Input, Path::Forward, Path::Output];

/// How to compare.
#[derive(Clone, Debug)]
pub struct Options {
    /// What beside the verdict.
    pub compared: Compared,
    /// Families.
    pub families: Vec<Family>,
    /// Ways through the host.
    pub paths: Vec<Path>,
    /// Whether packets whose transport header is cut short are left out: languages differ in what
    /// a rule that asks for ports does with them.
    pub whole_headers: bool,
    /// Whether packets of IPv6 are left out whose extension headers ipfw doesn't know: it drops
    /// them before its rules.
    pub known_headers: bool,
    /// Only packets of these states of connections, and of no state that a rule made; where a rule
    /// wants to make a state, it can.
    pub states: Option<Vec<CtState>>,
    /// Most nodes of the diagrams of one way.
    pub nodes: usize,
    /// Most differences listed for one way.
    pub listed: usize,
    /// Whether only packets are looked at that meet a rule which isn't in both policies. The answer
    /// is the same; tests compare both.
    pub only_changed: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            compared: Compared::default(),
            families: vec![Family::V4, Family::V6],
            paths: PATHS.to_vec(),
            whole_headers: false,
            known_headers: false,
            states: None,
            nodes: 16_000_000,
            listed: 1000,
            only_changed: true,
        }
    }
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Too many nodes.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// Frames of the link layer have rules of their own.
    #[error("net.link.ether.ipfw=1: what becomes of frames can't be compared; leave it at 0")]
    Frames,
}

/// Refuses policies with rules for frames.
fn comparable(policies: &[&Policy]) -> Result<(), Refusal> {
    let mut roots = policies.iter().flat_map(|policy| &policy.roots);
    match roots.any(Root::is_of_frames) {
        true => Err(Refusal::Frames),
        false => Ok(()),
    }
}

/// Compares two policies.
pub fn compare(old: &Policy, new: &Policy, options: &Options) -> Result<Comparison, Refusal> {
    comparable(&[old, new])?;
    let mut names = [old, new].map(|policy| Names::of(policy, options.compared.logs));
    let makers = Makers::of(&[old, new], options.compared.logs);
    for (names, makers) in names.iter_mut().zip(makers) {
        names.makers = makers;
        names.makers.first_packets = options.states.is_some();
    }
    let mut out = Comparison::default();
    for &family in &options.families {
        for &path in &options.paths {
            let policies = [old, new];
            if policies
                .iter()
                .any(|policy| has_rules(policy, family, path))
            {
                out.take(result::journey(policies, &names, family, path, options)?);
            }
        }
    }
    Ok(out)
}

/// Whether a policy has a root on a way.
fn has_rules(policy: &Policy, family: Family, path: Path) -> bool {
    let hooks = Evaluator::hooks(path);
    policy
        .roots
        .iter()
        .any(|root| root.family == family && hooks.contains(&root.hook))
}
