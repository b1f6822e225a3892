//! The shape of an explanation, in JSON and for the text printer.
//!
//! In: judgements. Out: plain data with stable names.

use crate::describe;
use crate::rules::Places;
use crate::spec::Spec;
use serde::Serialize;
use weir_policy::eval::Judgement;
use weir_policy::model::Verdict;

/// What became of a packet, and why.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// Number of the frame, for captures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// The packet in words, assumptions included.
    pub packet: String,
    /// `accept`, `drop` or `reject`.
    pub verdict: &'static str,
    /// The verdict for people.
    pub answer: String,
    /// `file:line` of the rule or chain policy that decided last.
    pub rule: Option<String>,
    /// Its chain and number.
    pub chain: Option<String>,
    /// Packet mark at the end.
    pub mark: u32,
    /// TOS byte at the end.
    pub tos: u8,
    /// Whether a transport header that is cut short had it dropped.
    pub cut_short: bool,
    /// The hooks that have rules, in order.
    pub hooks: Vec<HookReport>,
}

/// What one hook did.
#[derive(Clone, Debug, Serialize)]
pub struct HookReport {
    /// The hook.
    pub hook: &'static str,
    /// Connection state there.
    pub state: &'static str,
    /// Verdict there.
    pub verdict: &'static str,
    /// Mark afterwards.
    pub mark: u32,
    /// TOS byte afterwards.
    pub tos: u8,
    /// Every rule tried, in order.
    pub tried: Vec<RuleReport>,
    /// What was done to or noted about the packet.
    pub operations: Vec<String>,
}

/// One rule that was tried.
#[derive(Clone, Debug, Serialize)]
pub struct RuleReport {
    /// Table.
    pub table: &'static str,
    /// Chain.
    pub chain: String,
    /// Number in the chain; 0 is its policy.
    pub index: u32,
    /// `file:line`.
    pub rule: Option<String>,
    /// The rule as written.
    pub text: Option<String>,
    /// `matched`, `failed` or `cut_short`.
    pub result: &'static str,
    /// The test that failed.
    pub test: Option<String>,
    /// What the packet had instead.
    pub because: Option<String>,
    /// Where a match leads.
    pub then: Option<String>,
}

impl Explanation {
    /// Before any hook.
    pub fn new(spec: &Spec) -> Self {
        Explanation {
            number: None,
            packet: spec.describe(),
            verdict: describe::verdict_name(Verdict::Accept),
            answer: describe::verdict(Verdict::Accept),
            rule: None,
            chain: None,
            mark: spec.packet.mark,
            tos: spec.packet.tos,
            cut_short: false,
            hooks: Vec::new(),
        }
    }

    /// Takes the outcome of a hook over.
    pub fn take(&mut self, judged: &Judgement, places: &Places<'_>) {
        self.verdict = describe::verdict_name(judged.verdict);
        self.answer = describe::verdict(judged.verdict);
        (self.mark, self.tos) = (judged.mark, judged.tos);
        self.cut_short = judged.hot_drop;
        if judged.hot_drop || judged.decided_by.is_some() {
            self.rule = judged.decided_by.and_then(|id| places.location(id));
            self.chain = judged.decided_by.and_then(|id| places.name(id));
        }
    }
}
