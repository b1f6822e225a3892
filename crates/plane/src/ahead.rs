//! Programs loaded while the policy that they are for is still being compiled.
//!
//! In: a policy, from which follows nearly all that loading must know. The rest, how large the
//! image will be and whether it has hashed tables, is guessed. Out: an instance, used where the
//! guess was large enough; else the programs are loaded anew, later but no less right.

use std::thread::JoinHandle;

use weir_engine::flow::Layout;
use weir_engine::history;
use weir_engine::image::layout;
use weir_policy::model::{Cond, Policy, ReversePath, handling};

use crate::error::Result;
use crate::load::{Capacity, Instance, families, load, tracks};
use crate::needs;
use crate::swap;

/// Bytes of image that any policy may have.
const IMAGE_BASE: usize = 768 << 10;
/// Bytes of image of a rule: more than most lists of 25,600 rules need.
const IMAGE_A_RULE: usize = 160;
/// Roots with more rules than this get hashed tables.
const TABLES_FROM: u32 = 1000;

/// Programs that are being loaded.
#[derive(Debug)]
pub struct Ahead {
    thread: JoinHandle<Result<Instance>>,
}

impl Ahead {
    /// Begins to load programs for a policy that is the first one in its namespace. `None` where
    /// nothing can be said about it; whatever is wrong is told when it is put in force.
    pub fn begin(policy: &Policy, flows: u32) -> Option<Ahead> {
        let history = history::layout(policy, 0).ok()?.bytes;
        let rules = policy.rule_count;
        let members: usize = policy.sets.iter().map(|set| set.entries.len()).sum();
        let image = IMAGE_BASE + IMAGE_A_RULE * (rules as usize + members);
        let capacity = Capacity::for_policy(image, rules, history, flows).ok()?;
        let features = features(policy) | families(needs::of(policy));
        let work = move || load(capacity, false, features, None);
        let thread = std::thread::Builder::new().spawn(work).ok()?;
        Some(Ahead { thread })
    }

    /// The instance, where it has room for a policy and can do what `features` ask for.
    pub fn take(self, policy: &swap::Policy<'_>, flows: u32, features: u32) -> Option<Instance> {
        let instance = self.thread.join().ok()?.ok()?;
        let has = instance.capacity();
        let room = has.holds(policy.image.len(), policy.rules, policy.history);
        let flows = has.flows == Layout::for_flows(flows).flows();
        let room = room && (flows || !tracks(instance.settings.features));
        (room && features & !instance.settings.features == 0).then_some(instance)
    }
}

/// What a condition asks of the programs, as the compiler will tell it for most.
fn feature(cond: &Cond) -> u32 {
    match cond {
        Cond::History(_) => layout::FEATURE_HISTORY,
        Cond::Ct(_) => layout::FEATURE_FLOW_FIELDS | layout::FEATURE_RARE,
        Cond::State(mask) => match u16::from(mask.0) & handling::TRANSLATED {
            0 => 0,
            _ => layout::FEATURE_RARE,
        },
        Cond::ReversePath(ReversePath::Reached) => layout::FEATURE_RARE | layout::FEATURE_ROUTES,
        Cond::Connmark { .. }
        | Cond::Mac(_)
        | Cond::Owner(_)
        | Cond::TcpOption(_)
        | Cond::TcpMss(_)
        | Cond::SrcType(_)
        | Cond::DstType(_)
        | Cond::RouteBack { .. }
        | Cond::ReversePath(_)
        | Cond::Ipsec { .. } => layout::FEATURE_RARE,
        Cond::SctpChunks { .. } => layout::FEATURE_RARE | layout::FEATURE_CHUNKS,
        Cond::Learned | Cond::Learn(_) | Cond::OutOfWindow | Cond::IpfWith(_) => {
            layout::FEATURE_LEARNED
        }
        Cond::IcmpHead(_) => layout::FEATURE_LEARNED | layout::FEATURE_ICMP_HEAD,
        Cond::Aside(aside) if aside.reads_payload() => {
            layout::FEATURE_ASIDE | layout::FEATURE_PAYLOAD
        }
        Cond::Aside(_) => layout::FEATURE_ASIDE,
        Cond::Any(tests) => tests
            .iter()
            .map(|test| feature(&test.cond))
            .fold(0, |all, one| all | one),
        _ => 0,
    }
}

fn features(policy: &Policy) -> u32 {
    let mut features = layout::FEATURE_CHANGES | layout::FEATURE_LIFETIMES;
    if policy.rule_count > TABLES_FROM {
        features |= layout::FEATURE_TABLES;
    }
    features |= weir_engine::compile::of_policy(policy);
    if policy.dynamic.is_some() {
        features |= layout::FEATURE_LEARNED | layout::FEATURE_DYNAMIC;
    }
    let rules = policy.chains.iter().flat_map(|chain| &chain.rules);
    rules
        .flat_map(|rule| &rule.tests)
        .map(|test| feature(&test.cond))
        .fold(features, |all, one| all | one)
}
