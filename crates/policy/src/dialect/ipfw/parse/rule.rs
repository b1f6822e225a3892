//! A rule: number, set, probability, action, modifiers, then protocol, addresses, ports, options.
//!
//! In: the words after `add`. Out: a [`Rule`]. Three things of the original's parser show in what
//! rules mean, and are kept: a `not` before something that compiles to nothing stays pending and
//! falls on what comes next; `or` marks the pattern before it, whatever follows; and a body whose
//! first word is no protocol is a list of options.

use super::super::ast::{Action, Instruction, Log, Pattern, Rule, StateOption, Tag};
use super::super::fault::{ExitClass, Fault};
use super::super::names::{self, LOG_DESTINATIONS, protocols};
use super::super::numbers;
use super::super::words::Word;
use super::{Reader, action, address, lists, option};
use crate::syntax::{Place, Span};

/// Rule numbers end below this one, which is the default rule's.
pub const NUMBER_MAX: i64 = 65535;
/// The set of the default rule.
pub const SET_MAX: u32 = 31;
/// Bytes of a comment with its blanks.
const COMMENT_BYTES_MAX: usize = 84;

/// A rule being read.
pub(in super::super) struct Draft<'r, 'a> {
    /// The words.
    pub reader: &'r mut Reader<'a>,
    /// Patterns so far.
    pub body: Vec<Instruction>,
    /// A `not` that waits for a pattern.
    pub negate: Option<Span>,
    /// The pattern that `or` would mark.
    pub previous: Option<usize>,
    /// A block is open.
    pub open: bool,
    /// Protocol for service names; 41 means that addresses are IPv6.
    pub proto: u16,
    /// State option.
    pub state: Option<StateOption>,
    /// `defer-action` was there.
    pub defer: bool,
}

impl Draft<'_, '_> {
    /// Adds a pattern; a waiting `not` falls on it.
    pub fn push(&mut self, pattern: Pattern, span: Span) {
        let negate = self.negate.take().is_some();
        self.previous = Some(self.body.len());
        self.body.push(Instruction {
            pattern,
            negate,
            or_next: false,
            place: Place(span),
        });
    }

    /// What is written here compiles to no pattern: a waiting `not` goes on waiting.
    pub fn nothing(&mut self, word: &Word) {
        if let Some(not) = self.negate {
            self.reader.notes.warn(
                "not-any",
                not.to(word.span),
                format!(
                    "`not {}` tests nothing; the `not` falls on what follows",
                    word.text
                ),
                "ipfw reads it so; leave the `not` out, or write what you mean",
            );
        }
        if let Some(at) = self.previous
            && self.body.get(at).is_some_and(|one| one.or_next)
            && self.open
        {
            self.reader.notes.warn(
                "or-any",
                word.span,
                format!(
                    "`or {}` leaves an alternative open: a packet that matches what stands \
                     before it passes over the next test of the rule, or behind the last one over \
                     what the rule does",
                    word.text
                ),
                "ipfw reads it so; drop the block if every value is meant",
            );
        }
    }

    fn take_not(&mut self) -> Result<(), Fault> {
        if let Some(word) = self.reader.take_keyword("not") {
            if self.negate.is_some() {
                return Err(double_not(word.span));
            }
            self.negate = Some(word.span);
        }
        Ok(())
    }

    /// `{` or `(` at the start of a part, alone or with the word behind it.
    fn open_block(&mut self, attached: bool) -> Result<Option<Word>, Fault> {
        let Some(word) = self.reader.peek() else {
            return Ok(None);
        };
        if !word.text.starts_with(['{', '(']) {
            return Ok(None);
        }
        if self.open {
            return Err(nested(word.span));
        }
        self.previous = None;
        self.open = true;
        if word.text.len() == 1 {
            self.reader.take();
            return Ok(None);
        }
        if !attached {
            return Err(Fault::data(
                "brace-without-blank",
                word.span,
                format!("`{}`: a brace needs blanks around it", word.text),
            )
            .help(format!("write `{} {}`", &word.text[..1], &word.text[1..])));
        }
        Ok(Some(Word {
            text: word.text[1..].to_owned(),
            span: word.span.part(1, word.text.len()),
        }))
    }

    /// After one alternative: whether another follows; else the block is closed.
    fn or_follows(&mut self) -> Result<bool, Fault> {
        if let Some(word) = self.reader.take_keyword("or") {
            let Some(at) = self.previous.filter(|_| self.open) else {
                return Err(Fault::data(
                    "or-outside-block",
                    word.span,
                    "`or` outside a block, or with nothing before it",
                )
                .help("write `{ a or b }`"));
            };
            self.body[at].or_next = true;
            return Ok(true);
        }
        if self.open {
            let closed = self
                .reader
                .take_exact("}")
                .or_else(|| self.reader.take_exact(")"));
            if closed.is_none() {
                return Err(Fault::usage(
                    "missing-brace",
                    self.reader.here(),
                    "missing `)` or `}`",
                )
                .help("close the block with ` }`"));
            }
            self.previous = None;
            self.open = false;
        }
        Ok(false)
    }
}

pub(super) fn double_not(span: Span) -> Fault {
    Fault::usage("double-not", span, "double `not` not allowed").help("keep one of them")
}

pub(super) fn nested(span: Span) -> Fault {
    Fault::usage(
        "nested-block",
        span,
        "a block inside a block is not allowed",
    )
    .help("blocks have one level; write all alternatives in one")
}

/// Reads the words after `add`.
pub(in super::super) fn rule(reader: &mut Reader<'_>) -> Result<Rule, Fault> {
    let line = reader.rest_span();
    let number = rule_number(reader)?;
    let set = set_number(reader)?;
    let probability = probability(reader)?;
    let action_start = reader.here();
    let action = action::action(reader)?;
    let mut rule = Rule {
        number,
        set,
        probability,
        body: Vec::new(),
        state: None,
        defer: false,
        log: None,
        altq: None,
        tag: None,
        action,
        just_options: false,
        any_to_any: false,
        place: Place(line),
        action_place: Place(action_start),
        modifier_place: Place(reader.here()),
    };
    modifiers(reader, &mut rule)?;
    let mut draft = Draft {
        reader,
        body: Vec::new(),
        negate: None,
        previous: None,
        open: false,
        proto: 0,
        state: None,
        defer: false,
    };
    if matches!(rule.action, Action::CheckState(_)) {
        check_state_end(&mut draft)?;
        rule.just_options = true;
    } else {
        body(&mut draft, &mut rule)?;
    }
    if draft.defer && draft.state.is_none() {
        draft.reader.notes.warn(
            "defer-without-state",
            line,
            "the rule contains `defer-action` and no state option".to_owned(),
            "add keep-state, record-state, limit or set-limit",
        );
    }
    (rule.body, rule.state, rule.defer) = (draft.body, draft.state, draft.defer);
    Ok(rule)
}

fn rule_number(reader: &mut Reader<'_>) -> Result<u32, Fault> {
    let Some(word) = reader.peek().filter(|word| word.is_digit()) else {
        return Ok(0);
    };
    reader.take();
    let number = numbers::atoi(&word.text);
    if number >= NUMBER_MAX {
        return Err(Fault::new(
            ExitClass::Unavailable,
            "rule-number",
            word.span,
            format!("rule number {} is out of range", word.text),
        )
        .help("rules have numbers 1 to 65534; 65535 is the default rule"));
    }
    Ok(number as u32)
}

fn set_number(reader: &mut Reader<'_>) -> Result<u8, Fault> {
    if reader.peek_second().is_none() || reader.take_keyword("set").is_none() {
        return Ok(0);
    }
    let word = reader.need("a set number")?;
    let set = super::number(reader.notes, word, &word.text, 10);
    if set > SET_MAX {
        return Err(Fault::data(
            "set-number",
            word.span,
            format!("illegal set {}", word.text),
        )
        .help("sets are 0 to 31"));
    }
    Ok(set as u8)
}

fn probability(reader: &mut Reader<'_>) -> Result<Option<u32>, Fault> {
    if reader.peek_second().is_none() || reader.take_keyword("prob").is_none() {
        return Ok(None);
    }
    let word = reader.need("a probability")?;
    let value = leading_float(&word.text);
    if value <= 0.0 || value > 1.0 {
        return Err(Fault::data(
            "probability",
            word.span,
            format!("illegal match probability {}", word.text),
        )
        .help("a probability is above 0 and at most 1"));
    }
    Ok((value < 1.0).then_some((value * f64::from(0x7fff_ffff_u32)) as u32))
}

/// `strtod`: the number at the start of a text, or 0.
pub(super) fn leading_float(text: &str) -> f64 {
    let end = text
        .char_indices()
        .map(|(index, character)| index + character.len_utf8())
        .rev()
        .find(|end| text[..*end].parse::<f64>().is_ok_and(f64::is_finite));
    end.and_then(|end| text[..end].parse().ok()).unwrap_or(0.0)
}

fn modifiers(reader: &mut Reader<'_>, rule: &mut Rule) -> Result<(), Fault> {
    let start = reader.here();
    let mut end = start;
    while let Some(word) = reader.peek() {
        match word.text.as_str() {
            "log" => {
                reader.take();
                if rule.log.is_some() {
                    return Err(Fault::data(
                        "double-log",
                        word.span,
                        "log cannot be specified more than once",
                    )
                    .help("keep one of them"));
                }
                rule.log = Some(log(reader)?);
            }
            "altq" => {
                reader.take();
                let queue = reader.need("an altq queue name")?;
                if rule.altq.replace(queue.text.clone()).is_some() {
                    return Err(Fault::data(
                        "double-altq",
                        word.span,
                        "altq cannot be specified more than once",
                    )
                    .help("keep one of them"));
                }
            }
            "tag" | "untag" => {
                reader.take();
                if rule.tag.is_some() {
                    return Err(Fault::usage(
                        "double-tag",
                        word.span,
                        "tag and untag cannot be specified more than once",
                    )
                    .help("keep one of them"));
                }
                let tag = lists::argument(reader, &word.text)?;
                let remove = word.text == "untag";
                rule.tag = Some(Tag { tag, remove });
            }
            _ => break,
        }
        end = word.span;
    }
    rule.modifier_place = Place(start.to(end));
    Ok(())
}

fn log(reader: &mut Reader<'_>) -> Result<Log, Fault> {
    let mut log = Log {
        amount: None,
        destinations: 0,
    };
    if let Some(word) = reader.take_keyword("logamount") {
        let Some(amount) = reader.take() else {
            return Err(
                Fault::usage("missing-word", word.span, "logamount requires argument")
                    .help("write the number of lines"),
            );
        };
        let value = numbers::atoi(&amount.text);
        if value >= 0 {
            super::number(reader.notes, amount, &amount.text, 10);
        }
        if value < 0 {
            return Err(
                Fault::data("logamount", amount.span, "logamount must be positive")
                    .help("0 means no limit"),
            );
        }
        log.amount = Some(value as u32);
    }
    if reader.take_exact("logdst").is_some() {
        let list = reader.need("log destinations")?;
        for name in list.text.split(',') {
            let Some(bits) = names::number(LOG_DESTINATIONS, name) else {
                return Err(Fault::data(
                    "log-destination",
                    list.span,
                    format!("unknown log destination `{name}`"),
                )
                .help("write syslog, ipfw0 or rtsock, with commas between"));
            };
            log.destinations |= bits as u8;
        }
    }
    Ok(log)
}

/// `check-state` takes no body: only a comment may follow.
fn check_state_end(draft: &mut Draft<'_, '_>) -> Result<(), Fault> {
    match draft.reader.peek() {
        None => Ok(()),
        Some(word) if word.text == "//" => {
            draft.reader.take();
            comment(draft, word)
        }
        Some(word) => {
            // The original drops these words without a sound.
            draft.reader.notes.warn(
                "check-state-body",
                draft.reader.rest_span(),
                format!(
                    "check-state takes no body; `{}` and what follows is dropped",
                    word.text
                ),
                "ipfw reads it so; leave it out",
            );
            draft.reader.rest();
            Ok(())
        }
    }
}

/// The words after `//`.
pub(super) fn comment(draft: &mut Draft<'_, '_>, start: &Word) -> Result<(), Fault> {
    let words = draft.reader.rest();
    let text: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    let bytes: usize = text.iter().map(|word| word.len() + 1).sum();
    if bytes > COMMENT_BYTES_MAX {
        return Err(Fault::data(
            "comment-length",
            words
                .last()
                .map_or(start.span, |last| start.span.to(last.span)),
            "comment too long (max 80 chars)",
        )
        .help("shorten it"));
    }
    if !text.is_empty() {
        let span = words
            .last()
            .map_or(start.span, |last| start.span.to(last.span));
        draft.push(Pattern::Comment(text.join(" ")), span);
    }
    Ok(())
}

fn body(draft: &mut Draft<'_, '_>, rule: &mut Rule) -> Result<(), Fault> {
    if !protocols(draft)? {
        rule.just_options = true;
        return option::options(draft);
    }
    let first = draft.body.len();
    if draft.reader.take_keyword("from").is_none() {
        return Err(
            Fault::usage("missing-from", draft.reader.here(), "missing `from`")
                .help("after the protocol comes `from ADDRESS to ADDRESS`"),
        );
    }
    part(draft, true)?;
    if draft.reader.take_keyword("to").is_none() {
        let fault = Fault::usage("missing-to", draft.reader.here(), "missing `to`")
            .help("after the source, and its ports, comes `to ADDRESS`");
        return Err(match draft.reader.peek() {
            Some(word) => lists::about_ports(fault, word, draft.proto),
            None => fault,
        });
    }
    part(draft, false)?;
    rule.any_to_any = draft.body.len() == first;
    option::options(draft)
}

/// The protocol part; `false` when the first word is none, so that options follow.
fn protocols(draft: &mut Draft<'_, '_>) -> Result<bool, Fault> {
    draft.open_block(false)?;
    loop {
        draft.take_not()?;
        let Some(word) = draft.reader.peek() else {
            if draft.body.is_empty() && draft.negate.is_none() && !draft.open {
                return Ok(false);
            }
            return Err(
                Fault::usage("missing-protocol", draft.reader.here(), "missing protocol")
                    .help("write `ip from any to any`, or options"),
            );
        };
        if protocol(draft, word, true) {
            draft.reader.take();
        } else if draft.body.is_empty() {
            return Ok(false);
        } else {
            return Err(unknown_protocol(word));
        }
        if !draft.or_follows()? {
            return Ok(true);
        }
    }
}

pub(super) fn unknown_protocol(word: &Word) -> Fault {
    Fault::data(
        "unknown-protocol",
        word.span,
        format!("invalid protocol `{}`", word.text),
    )
    .nearest(
        &word.text,
        protocols::names(),
        "write a name of protocols(5) or 1 to 255",
    )
}

/// Adds the pattern of a protocol word; `false` when it is none. `compatible` words stand only
/// in the protocol part.
pub(super) fn protocol(draft: &mut Draft<'_, '_>, word: &Word, compatible: bool) -> bool {
    let text = word.text.as_str();
    if text == "ip" || super::is_prefix(word, "all", draft.reader.notes) {
        draft.proto = 0;
        draft.nothing(word);
        return true;
    }
    match text {
        "ip4" => draft.push(Pattern::Ip4, word.span),
        "ipv4" if compatible => draft.push(Pattern::Ip4, word.span),
        "ip6" => draft.push(Pattern::Ip6, word.span),
        "ipv6" if compatible => draft.push(Pattern::Ip6, word.span),
        _ => {
            let (number, rest) = numbers::strtol(text, 10);
            let number = if rest.is_empty() && number > 0 {
                number as u16
            } else {
                match protocols::number(text) {
                    Some(number) => u16::from(number),
                    None => return false,
                }
            };
            if number > 255 {
                draft.reader.notes.warn(
                    "protocol-range",
                    word.span,
                    format!("protocol {text} is above 255 and never matches"),
                    "protocols are 1 to 255",
                );
            }
            // Only the low byte is kept for service names and the family of addresses.
            draft.proto = number & 0xff;
            draft.push(Pattern::Proto(number), word.span);
            return true;
        }
    }
    draft.proto = if matches!(text, "ip4" | "ipv4") {
        0
    } else {
        41
    };
    true
}

/// An address part and its ports.
fn part(draft: &mut Draft<'_, '_>, source: bool) -> Result<(), Fault> {
    let side = if source { "source" } else { "destination" };
    let mut attached = draft.open_block(true)?;
    loop {
        if attached.is_none() {
            draft.take_not()?;
        }
        let word = match attached.take() {
            Some(word) => {
                draft.reader.take();
                word
            }
            None => draft.reader.need(&format!("a {side} address"))?.clone(),
        };
        address::address(draft, &word, source)?;
        if !draft.or_follows()? {
            break;
        }
    }
    draft.take_not()?;
    let Some(word) = draft.reader.peek() else {
        return Ok(());
    };
    if super::is_prefix(word, "any", draft.reader.notes) {
        draft.reader.take();
        draft.nothing(word);
    } else if let Some(ranges) = lists::ports(draft.reader, word, draft.proto)? {
        draft.reader.take();
        lists::check_count(word, &ranges)?;
        let pattern = match source {
            true => Pattern::SrcPort(ranges),
            false => Pattern::DstPort(ranges),
        };
        draft.push(pattern, word.span);
    }
    Ok(())
}
