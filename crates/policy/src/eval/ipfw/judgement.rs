//! What became of a packet on one pass.
//!
//! In: what the walk found. Out: plain data for `replay`, `explain` and tests.

use super::states::Way;
use crate::dialect::ipfw::ast::{Action, Instruction, Reject};
use crate::model::RuleId;

/// What becomes of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// It passes.
    Accept,
    /// It is dropped.
    #[default]
    Deny,
    /// It is dropped, and answered if `answered`.
    Reject {
        /// The answer.
        kind: Reject,
        /// Whether this packet is answered at all.
        answered: bool,
    },
}

/// Why a packet was dropped without a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unjudged {
    /// It ends before its transport header does.
    CutShort,
    /// An IPv6 extension header that nobody knows.
    UnknownHeader,
    /// More rules would have been visited than any packet may.
    TooManyVisits,
    /// The filter is off.
    Disabled,
}

impl Unjudged {
    /// For people.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::CutShort => "cut short: dropped before the rules",
            Self::UnknownHeader => "unknown IPv6 extension header: dropped before the rules",
            Self::TooManyVisits => "too many rules visited: dropped",
            Self::Disabled => "the filter is off",
        }
    }
}

/// What a rule that acted did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Its action.
    Action(Action),
    /// Its flow could not be noted, so the packet is dropped.
    StateRefused,
}

/// A rule that acted, and so counted the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acted {
    /// Identity.
    pub rule: RuleId,
    /// Number.
    pub number: u32,
    /// What it did.
    pub effect: Effect,
    /// What `tablearg` of its action was.
    pub tablearg: u32,
    /// How many tests came before; 0 where they are not remembered.
    pub after: usize,
}

/// A pattern that was tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tested {
    /// Rule.
    pub rule: RuleId,
    /// The pattern as it stands in the rule.
    pub instruction: Instruction,
    /// Whether the pattern itself held, before `not`.
    pub held: bool,
}

/// One pass of one packet, judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// What becomes of it.
    pub outcome: Outcome,
    /// The rule that decided; `None` when none did.
    pub rule: Option<RuleId>,
    /// Why no rule decided.
    pub unjudged: Option<Unjudged>,
    /// All rules that acted, in order.
    pub trail: Vec<Acted>,
    /// Lines that were logged.
    pub log: Vec<String>,
    /// A state was found, and the packet's direction in it.
    pub state: Option<Way>,
    /// The pipe (or, if not, queue) that took it.
    pub shaped: Option<(bool, u32)>,
    /// Whether tests are to be remembered.
    pub wants_tests: bool,
    /// Tests, when they were wanted.
    pub tests: Vec<Tested>,
}

impl Judgement {
    pub(super) fn disabled() -> Self {
        Self {
            outcome: Outcome::Accept,
            unjudged: Some(Unjudged::Disabled),
            ..Self::default()
        }
    }

    /// A packet that is dropped before the rules.
    #[must_use]
    pub fn dropped(why: Unjudged) -> Self {
        Self {
            unjudged: Some(why),
            ..Self::default()
        }
    }

    /// The number of the rule that decided.
    #[must_use]
    pub fn number(&self) -> Option<u32> {
        let rule = self.rule?;
        self.trail
            .iter()
            .rev()
            .find(|acted| acted.rule == rule)
            .map(|acted| acted.number)
    }

    pub(super) fn tested(&mut self, rule: RuleId, instruction: &Instruction, held: bool) {
        self.tests.push(Tested {
            rule,
            instruction: instruction.clone(),
            held,
        });
    }
}
