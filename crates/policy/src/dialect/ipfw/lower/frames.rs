//! The pass of the link layer (`net.link.ether.ipfw=1`): frames through the list, in roots of their
//! own.
//!
//! In: the rule set. Out: roots for frames that hold IP packets and for those that don't
//! ([`Root`]), and what patterns on frames say. Frames don't wait in pipes, and nobody looks states
//! up for them in the kernel: rules that would are refused where frames can come to them. What
//! `divert`, `tee` and `fwd` do is left undone, as on the original.

use super::Lowering;
use super::action::position;
use super::body::{At, branches};
use super::formula::{Formula, constant, is, is_not, or, strict};
use super::literal::{Asked, Refused, Scope};
use super::reach;
use super::states::look_of;
use super::tables::view;
use crate::dialect::ipfw::ast::{Action, LookupKey, Mac, Pattern, Rule, TableValue};
use crate::eval::ipfw::Pass;
use crate::model::{
    Aside, Cond, Ethernet, Family, Flow, Hook, RangeSet, Root, Rule as ModelRule, Table,
};
use crate::syntax::Span;

/// Types of frames that hold IP packets.
const IP_TYPES: [u16; 2] = [0x0800, 0x86dd];

/// What a pass sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layer {
    /// IP packets.
    Network,
    /// Frames that hold an IP packet.
    Frame,
    /// Frames that hold none.
    Bare,
}

impl Layer {
    /// The table of its roots.
    pub fn table(self) -> Table {
        match self {
            Layer::Network => Table::Filter,
            Layer::Frame | Layer::Bare => Root::FRAMES_RECEIVED.1,
        }
    }
}

fn masked(source: bool, mac: &Mac) -> Option<Cond> {
    let number = |bytes: [u8; 6]| {
        let add = |all: u64, byte: u8| all << 8 | u64::from(byte);
        bytes.into_iter().fold(0, add)
    };
    let (value, mask) = (number(mac.address), number(mac.mask));
    let asked = Ethernet::Masked {
        source,
        value,
        mask,
    };
    (mask != 0).then_some(Cond::Aside(Aside::Ethernet(asked)))
}

impl Scope<'_> {
    /// A pattern on frames.
    pub fn link(&self, asked: &Asked<'_>) -> Formula {
        let negate = asked.negate;
        if self.layer == Layer::Network {
            return constant(negate);
        }
        let held = |name: &str, wanted: &Option<TableValue>| match asked.view {
            Some(view) => view.macs.clone(),
            None => view(self.set.table(name), wanted.as_ref()).macs,
        };
        match asked.pattern {
            Pattern::Layer2 => constant(!negate),
            Pattern::Mac(destination, source) => {
                let sides = [masked(false, destination), masked(true, source)];
                let sides = sides.into_iter().flatten();
                match negate {
                    false => vec![sides.map(is).collect()],
                    true => or(sides.map(|side| vec![vec![is_not(side)]]).collect()),
                }
            }
            Pattern::MacType(list) => {
                let kinds = RangeSet::from_ranges(list.iter().copied());
                // What holds an IP packet says so.
                let of_ip = IP_TYPES.map(|kind| kinds.contains(kind));
                if self.layer == Layer::Frame && of_ip[0] == of_ip[1] {
                    return constant(of_ip[0] != negate);
                }
                strict(Cond::Aside(Aside::Ethernet(Ethernet::Type(kinds))), negate)
            }
            Pattern::SrcMac(table, value) => self.mac_among(true, held(table, value), negate),
            Pattern::DstMac(table, value) => self.mac_among(false, held(table, value), negate),
            _ => constant(negate),
        }
    }

    /// A frame's address among those of a table.
    pub fn mac_among(&self, source: bool, addresses: RangeSet<u128>, negate: bool) -> Formula {
        if self.layer == Layer::Network || addresses.is_empty() {
            return constant(negate);
        }
        let asked = Ethernet::Among { source, addresses };
        strict(Cond::Aside(Aside::Ethernet(asked)), negate)
    }

    /// What a pattern says of a frame that holds no IP packet; `None`: the same as of others.
    pub fn bare(&self, asked: &Asked<'_>) -> Option<Formula> {
        let holds = match asked.pattern {
            Pattern::Comment(_)
            | Pattern::In
            | Pattern::Interface(..)
            | Pattern::Layer2
            | Pattern::Mac(..)
            | Pattern::MacType(_)
            | Pattern::SrcMac(..)
            | Pattern::DstMac(..)
            | Pattern::Fib(_)
            | Pattern::Tagged(_)
            | Pattern::TaggedTableArg
            | Pattern::Mark { .. } => return None,
            Pattern::Lookup {
                key:
                    LookupKey::DstMac
                    | LookupKey::SrcMac
                    | LookupKey::Mark
                    | LookupKey::RuleNumber
                    | LookupKey::Uid,
                ..
            } => return None,
            // They have no protocol, which is its number 0.
            Pattern::Proto(number) => *number == 0,
            Pattern::VerRevPath => self.pass == Pass::Out,
            Pattern::AntiSpoof => true,
            _ => false,
        };
        Some(constant(holds != asked.negate))
    }
}

impl Lowering<'_> {
    /// The roots of frames.
    pub(super) fn frames(&mut self, one_pass: bool) {
        let (received, sent) = (Root::FRAMES_RECEIVED.0, Root::FRAMES_SENT.0);
        let both: &[(&str, Pass, &[Hook])] = &[("frames", Pass::In, &[received, sent])];
        let each: &[(&str, Pass, &[Hook])] = &[
            ("frames in", Pass::In, &[received]),
            ("frames out", Pass::Out, &[sent]),
        ];
        for family in [Family::V4, Family::V6] {
            for (name, pass, hooks) in if one_pass { both } else { each } {
                self.begin(Layer::Frame, (family, *pass));
                self.root(name, (family, *pass), hooks);
            }
        }
        self.layer = Layer::Network;
        self.called.clear();
    }

    /// What follows is for these packets.
    fn begin(&mut self, layer: Layer, scope: (Family, Pass)) {
        self.layer = layer;
        self.called.clear();
        self.met = self.met_by(scope);
    }

    /// In front of the rules for IPv4 packets in frames: the way of frames without a packet.
    pub(super) fn without_packet(&mut self, scope: (Family, Pass), rules: &mut Vec<ModelRule>) {
        if self.layer != Layer::Frame || scope.0 != Family::V4 {
            return;
        }
        self.begin(Layer::Bare, scope);
        let mut own = Vec::new();
        self.list(scope, None, None, &mut own);
        own.push(self.last_rule());
        let chain = self.keep("frames without a packet".to_owned(), scope.0, own, None);
        self.begin(Layer::Frame, scope);
        let bare = is(Cond::Aside(Aside::Ethernet(Ethernet::Bare)));
        rules.push(self.hidden_rule(vec![bare], Flow::Jump(chain)));
    }

    /// Whether no frame does anything at a rule; what of it isn't done for frames is an error.
    pub(super) fn is_passed_over(&self, at: usize, scope: (Family, Pass)) -> Result<bool, At> {
        const AROUND: &str = "skip to the rules behind it: `skipto N ip from any to any layer2`";
        const NOT: &str = "add `not layer2` to the rule";
        let rule = &self.set.rules[at].rule;
        let refused = |span: Span, what: &str, help| {
            let what = what.to_owned();
            Err(At(span, Refused { what, help }))
        };
        if !self.met[at] {
            return Ok(true);
        }
        let (looks, checks) = (look_of(rule), matches!(rule.action, Action::CheckState(_)));
        // A frame without a packet has no flow: nothing is found, and the rule asked what it asks.
        let idle =
            self.layer == Layer::Bare && !(checks && (rule.log.is_some() || rule.tag.is_some()));
        if checks && idle {
            return Ok(true);
        }
        // They are looked up before the first pattern is asked.
        if looks.is_some() && !idle {
            let span = match &rule.state {
                Some(state) => state.place.0,
                None => rule.action_place.0,
            };
            return refused(span, "a look at states, which frames come to,", AROUND);
        }
        let place = match (&rule.state, &rule.action) {
            (Some(state), _) => Some(state.place.0),
            (None, Action::Pipe(_) | Action::Queue(_)) => Some(rule.action_place.0),
            _ => None,
        };
        let Some(span) = place else {
            return Ok(false);
        };
        let some = !branches(&self.scope(scope.0, scope.1), rule)?.is_empty();
        match (some, rule.state.is_some()) {
            (false, _) => Ok(true),
            (true, true) => refused(span, "a state that a frame makes", NOT),
            (true, false) => refused(span, "a pipe or queue that frames take", NOT),
        }
    }

    /// Whether a rule can match, and whether it surely does.
    fn matches(&self, scope: (Family, Pass), rule: &Rule) -> (bool, bool) {
        let Ok(all) = branches(&self.scope(scope.0, scope.1), rule) else {
            return (true, false);
        };
        let surely = match all.as_slice() {
            [one] => one.acts && !one.defers && one.formula == constant(true),
            _ => false,
        };
        (!all.is_empty(), surely && rule.probability.is_none())
    }

    /// The rules that packets of a scope can come to.
    fn met_by(&self, scope: (Family, Pass)) -> Vec<bool> {
        let set = self.set;
        let mut met = vec![false; set.rules.len()];
        let mut open = vec![0];
        while let Some(at) = open.pop() {
            if at >= met.len() || std::mem::replace(&mut met[at], true) {
                continue;
            }
            let rule = &set.rules[at].rule;
            let (may, surely) = match set.is_enabled(rule.set) {
                true => self.matches(scope, rule),
                false => (false, false),
            };
            let ends = match rule.action {
                Action::Skipto(argument) if may => {
                    let to = reach::numbers(set, rule, argument).into_iter();
                    open.extend(to.map(|number| position(set, number.max(rule.number + 1))));
                    surely
                }
                Action::Call(argument) if may => {
                    let to = reach::numbers(set, rule, argument).into_iter();
                    open.extend(to.map(|number| position(set, number)));
                    false
                }
                Action::Allow | Action::Deny | Action::Reject(_) => surely,
                _ => false,
            };
            if !ends {
                open.push(at + 1);
            }
        }
        met
    }
}
