//! The answer of `weir diff`.
//!
//! In: a comparison and both sides. Out: a serialisable report; the text is made from the report,
//! so that both say the same.

use super::{Side, words};
use crate::describe::family_name;
use crate::output::{Output, Paint, count};
use crate::spec::Spec;
use serde::Serialize;
use weir_policy::compare::{
    Comparison, Difference, Effect, Journey, Mix, Outcome, Part, verdict_word,
};
use weir_policy::eval::Path;
use weir_policy::model::{RuleId, TtlOp, Verdict};

/// Everything that differs.
#[derive(Debug, Serialize)]
pub struct DiffReport {
    /// Whether every packet gets the same.
    pub same: bool,
    /// Classes of packets that are accepted only now.
    pub accepted: usize,
    /// Classes that were accepted and no longer are.
    pub refused: usize,
    /// Classes that are treated differently in another way.
    pub changed: usize,
    /// The ways through the host.
    pub journeys: Vec<JourneyReport>,
    /// Conditions taken to be the same on both sides for having the same text.
    pub assumed: Vec<String>,
}

/// One way.
#[derive(Debug, Serialize)]
pub struct JourneyReport {
    /// Family.
    pub family: &'static str,
    /// The way: `received`, `forwarded`, `sent`.
    pub path: &'static str,
    /// Whether every packet gets the same.
    pub same: bool,
    /// Whether all classes are listed.
    pub complete: bool,
    /// The classes.
    pub differences: Vec<DifferenceReport>,
}

/// One class of packets.
#[derive(Debug, Serialize)]
pub struct DifferenceReport {
    /// `accepted`, `refused`, `answer`, `changed`, or `memory`.
    pub change: &'static str,
    /// Which packets: all of these hold.
    pub packets: Vec<String>,
    /// What the first side does.
    pub old: SideReport,
    /// What the second side does.
    pub new: SideReport,
    /// One of the packets, as `explain` reads it.
    pub example: String,
    /// Whether the evaluator confirms the example on both sides.
    pub confirmed: bool,
}

/// One side's treatment.
#[derive(Debug, Serialize)]
pub struct SideReport {
    /// The verdict.
    pub verdict: String,
    /// The deciding rule as `file:line`; none where there are no rules.
    pub rule: Option<String>,
    /// Its chain and number.
    pub name: Option<String>,
    /// Its text.
    pub text: Option<String>,
    /// Whether it dropped for a transport header that is cut short.
    pub cut_short: bool,
    /// What else is done to the packet, as far as it is compared.
    pub effects: Vec<String>,
}

/// Makes the report.
pub fn report(found: &Comparison, sides: &[Side<'_>; 2]) -> DiffReport {
    let journeys: Vec<JourneyReport> = found
        .journeys
        .iter()
        .map(|journey| journey_report(journey, sides))
        .collect();
    let classes = |wanted: &[&str]| {
        let all = journeys.iter().flat_map(|journey| &journey.differences);
        all.filter(|one| wanted.contains(&one.change)).count()
    };
    DiffReport {
        same: found.same(),
        accepted: classes(&["accepted"]),
        refused: classes(&["refused"]),
        changed: classes(&["answer", "changed", "memory"]),
        journeys,
        assumed: found.assumed.clone(),
    }
}

fn path_word(path: Path) -> &'static str {
    match path {
        Path::Input => "received",
        Path::Forward => "forwarded",
        Path::Output => "sent",
    }
}

fn journey_report(journey: &Journey, sides: &[Side<'_>; 2]) -> JourneyReport {
    let differences = journey.differences.iter().map(|difference| {
        let places = [sides[0].places, sides[1].places];
        DifferenceReport {
            change: change(difference),
            packets: words::phrases(&difference.class, journey, places),
            old: side_report(&difference.old, &sides[0], journey, change(difference)),
            new: side_report(&difference.new, &sides[1], journey, change(difference)),
            example: example(difference),
            confirmed: difference.confirmed,
        }
    });
    let mut differences: Vec<DifferenceReport> = differences.collect();
    let order = ["accepted", "refused", "answer", "changed", "memory"];
    differences.sort_by_key(|one| order.iter().position(|word| *word == one.change));
    JourneyReport {
        family: family_name(journey.family),
        path: path_word(journey.path),
        same: journey.differences.is_empty() && !journey.cut,
        complete: !journey.cut,
        differences,
    }
}

fn change(difference: &Difference) -> &'static str {
    let (old, new) = (&difference.old, &difference.new);
    match (old.verdict, new.verdict) {
        (Verdict::Accept, Verdict::Accept) | (Verdict::Drop, Verdict::Drop) => {}
        (_, Verdict::Accept) => return "accepted",
        (Verdict::Accept, _) => return "refused",
        (a, b) if a != b => return "answer",
        _ => {}
    }
    let traces = |outcome: &Outcome| {
        let lasting = |effect: &&Effect| remembers(effect) || matches!(effect, Effect::Set(_));
        let all: Vec<Effect> = outcome
            .effects
            .iter()
            .filter(|e| !lasting(e))
            .cloned()
            .collect();
        (
            outcome.mark.clone(),
            outcome.connmark.clone(),
            outcome.tos,
            outcome.class,
            all,
        )
    };
    match traces(old) == traces(new) {
        true => "memory",
        false => "changed",
    }
}

/// The example in the words that `explain` reads.
fn example(difference: &Difference) -> String {
    Spec {
        packet: difference.packet.clone(),
        hook: Some(difference.packet.hook),
        state: Some(difference.state),
        connmark: difference.example.connmark().filter(|mark| *mark != 0),
    }
    .describe()
}

fn side_report(outcome: &Outcome, side: &Side<'_>, journey: &Journey, change: &str) -> SideReport {
    let by = |what: &dyn Fn(RuleId) -> Option<String>| outcome.by.and_then(what);
    SideReport {
        verdict: verdict_word(outcome.verdict),
        rule: by(&|id| side.place(id)),
        name: by(&|id| side.places.name(id)),
        text: by(&|id| side.texts.text(id)).map(|text| text.trim().to_owned()),
        cut_short: outcome.cut_short,
        effects: effects(outcome, journey, change == "memory"),
    }
}

/// Whether it only shows in what becomes of later packets.
fn remembers(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Asked(_) | Effect::Noted(_) | Effect::Refreshed(_)
    )
}

/// What was done beside the verdict; what was asked only where nothing else differs.
fn effects(outcome: &Outcome, journey: &Journey, asked: bool) -> Vec<String> {
    let mut out = Vec::new();
    if outcome.mark != Mix::own() {
        out.push(format!("mark {}", mix(&outcome.mark)));
    }
    if outcome.connmark != Mix::flow() {
        out.push(format!("flow mark {}", mix(&outcome.connmark)));
    }
    if outcome.tos != (0xff, 0) {
        let (kept, turned) = outcome.tos;
        out.push(format!("TOS {turned:#x}, {kept:#x} kept"));
    }
    if let Some(class) = outcome.class {
        out.push(format!("priority {:x}:{:x}", class >> 16, class & 0xffff));
    }
    if outcome.untracked {
        out.push("untracked".to_owned());
    }
    let shown = outcome
        .effects
        .iter()
        .filter(|effect| asked || !remembers(effect));
    out.extend(shown.map(|effect| match effect {
        Effect::Asked(unknown) => {
            let text = journey.unknowns[*unknown as usize].text.as_str();
            let limit = text.strip_prefix("room in the limit: ");
            let limit = limit.and_then(|limit| limit.split(';').next());
            format!("asks {}", limit.unwrap_or(text))
        }
        Effect::Logged(record) => format!("logs {record}"),
        Effect::Set(change) => change.clone(),
        Effect::Mss(Some(value)) => format!("MSS at most {value}"),
        Effect::Ttl(TtlOp::Set(value)) => format!("TTL {value}"),
        Effect::Ttl(TtlOp::Raise(by)) => format!("TTL + {by}"),
        Effect::Ttl(TtlOp::Lower(by)) => format!("TTL - {by}"),
        Effect::Mss(None) => "MSS by the path".to_owned(),
        Effect::AsItsState => "as its state says".to_owned(),
        Effect::Noted(state) => format!("keeps a state ({state})"),
        Effect::Refreshed(state) => format!("goes on with its state ({state})"),
    }));
    out
}

fn mix(mark: &Mix) -> String {
    let one = |part: &Part| {
        let of = if part.flow { "flow's" } else { "packet's" };
        match part.left {
            0 => format!("{of} & {:#x}", part.bits),
            left @ 1.. => format!("({of} << {left}) & {:#x}", part.bits),
            left => format!("({of} >> {}) & {:#x}", -left, part.bits),
        }
    };
    let mut parts: Vec<String> = mark.parts.iter().map(one).collect();
    if mark.xor != 0 || parts.is_empty() {
        parts.push(format!("{:#x}", mark.xor));
    }
    parts.join(" ^ ")
}

/// Prints at most `shown` classes of each way.
pub fn print(report: &DiffReport, shown: usize, out: &mut Output) -> anyhow::Result<()> {
    for journey in &report.journeys {
        let way = format!("{} {}", journey.family, journey.path);
        if journey.same {
            out.line(format!("{way}: the same for every packet"))?;
            continue;
        }
        let classes = count(journey.differences.len() as u64, "class", "classes");
        let more = if journey.complete { "" } else { " and more" };
        out.line(format!("{way}: {classes}{more} of packets differ"))?;
        for one in journey.differences.iter().take(shown) {
            difference(one, out)?;
        }
        if journey.differences.len() > shown {
            let left = journey.differences.len() - shown;
            out.line(format!("  ... and {left} more (--classes N shows more)"))?;
        }
    }
    if !report.assumed.is_empty() {
        let conditions = count(report.assumed.len() as u64, "condition", "conditions");
        out.line(format!(
            "{conditions} on more than the packet, taken to be the same on both sides for having \
             the same text:"
        ))?;
        for text in report.assumed.iter().take(shown) {
            out.line(format!("  {text}"))?;
        }
    }
    out.line(match report.same {
        true => "same: every packet gets the same".to_owned(),
        false => format!(
            "different: {} newly accepted, {} newly refused, {} treated otherwise",
            report.accepted, report.refused, report.changed
        ),
    })
}

fn difference(one: &DifferenceReport, out: &mut Output) -> anyhow::Result<()> {
    let (word, paint) = match one.change {
        "accepted" => ("newly accepted", Paint::Bad),
        "refused" => ("newly refused", Paint::Warn),
        "answer" => ("answered otherwise", Paint::Warn),
        "memory" => ("remembered otherwise", Paint::Faint),
        _ => ("changed otherwise", Paint::Warn),
    };
    let word = out.paint(paint, word);
    out.line(format!("  {word}: {}", one.packets.join(", ")))?;
    for (name, side) in [("old", &one.old), ("new", &one.new)] {
        let by = match (&side.rule, &side.name) {
            (Some(rule), Some(name)) => format!(" by {rule} ({name})"),
            _ => " (no rules there)".to_owned(),
        };
        let short = if side.cut_short {
            ", for a transport header that is cut short"
        } else {
            ""
        };
        out.line(format!("    {name}: {}{by}{short}", side.verdict))?;
        if let Some(text) = &side.text {
            out.line(format!("         {text}"))?;
        }
        if !side.effects.is_empty() {
            out.line(format!("         {}", side.effects.join(", ")))?;
        }
    }
    let confirmed = match one.confirmed {
        true => "",
        false => "  (not confirmed by the evaluator)",
    };
    out.line(format!("    example: {}{confirmed}", one.example))
}
