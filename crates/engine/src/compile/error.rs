//! What can make a policy not compile. Every kind names the rules at fault and the limit.

use weir_policy::model::RuleId;

/// A policy that cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Chains, as flattened, have too many entries.
    #[error("flattening the chains gives more than {limit} entries")]
    Entries {
        /// The limit.
        limit: usize,
        /// The rule at which it was passed.
        rule: RuleId,
    },
    /// The conditions of one rule, with those of the jumps before it, are too many boxes.
    #[error(
        "the conditions of a rule and of the jumps to it are {given} boxes; the limit is {limit}"
    )]
    Boxes {
        /// How many.
        given: usize,
        /// The limit.
        limit: usize,
        /// The rule.
        rule: RuleId,
    },
    /// One packet could meet too many rules that do not end the walk.
    #[error("one packet could meet {given} rules that do not decide; the limit is {limit}")]
    Steps {
        /// An upper bound of how many.
        given: usize,
        /// The limit.
        limit: usize,
        /// Some of the rules.
        rules: Vec<RuleId>,
    },
    /// A limit, list or count is larger than its memory can be.
    #[error(transparent)]
    History(#[from] crate::history::LayoutError),
    /// The image would be larger than allowed.
    #[error("the image needs {given} bytes; the budget is {limit}")]
    Budget {
        /// Bytes.
        given: usize,
        /// The budget.
        limit: usize,
    },
    /// Too many rules whose conditions are wide in every field.
    #[error("{given} conditions are wide in every field; the limit is {limit}")]
    Wide {
        /// How many.
        given: usize,
        /// The limit.
        limit: usize,
        /// Some of the rules.
        rules: Vec<RuleId>,
    },
    /// Too many address ranges too close together.
    #[error("{given} address ranges are too close together; the limit is {limit}")]
    Addresses {
        /// How many.
        given: usize,
        /// The limit.
        limit: usize,
    },
    /// A rule has too many tests or operations.
    #[error("a rule has more than {limit} tests or operations")]
    Rule {
        /// The limit.
        limit: usize,
        /// The rule.
        rule: RuleId,
    },
    /// Chains call each other without end.
    #[error("chains call each other without end, or deeper than {limit}")]
    Depth {
        /// The limit.
        limit: usize,
        /// A rule on the way.
        rule: RuleId,
    },
    /// Something that the compiled form cannot do.
    #[error("{what} cannot be compiled")]
    Unsupported {
        /// What.
        what: &'static str,
        /// The rule.
        rule: RuleId,
    },
    /// Too many interface patterns.
    #[error("{given} interface patterns; the limit is {limit}")]
    Interfaces {
        /// How many.
        given: usize,
        /// The limit.
        limit: usize,
    },
}

impl Error {
    /// The rules at fault, where single rules are.
    pub fn rules(&self) -> &[RuleId] {
        match self {
            Error::Entries { rule, .. }
            | Error::Boxes { rule, .. }
            | Error::Rule { rule, .. }
            | Error::Depth { rule, .. }
            | Error::Unsupported { rule, .. } => std::slice::from_ref(rule),
            Error::Steps { rules, .. } | Error::Wide { rules, .. } => rules,
            Error::Budget { .. }
            | Error::Interfaces { .. }
            | Error::Addresses { .. }
            | Error::History(_) => &[],
        }
    }
}
