//! `ipset save` text to syntax tree, line by line, never stopping at an error.

use super::ast::{
    ADD_OPTIONS, Add, CREATE_OPTIONS, Create, File, Member, OptionKind, OptionValue, SetOption,
    SetType, Statement, StatementKind, TYPES, TypeFamily,
};
use super::member::member;
use crate::dialect::iptables::ast::{FileSource, Line};
use crate::dialect::iptables::parse_number;
use crate::model::{Family, SourceId};
use crate::syntax::words::{self, LineEnd, WordErrorKind};
use crate::syntax::{Cursor, Diagnostic, Place, Span, Word};
use std::collections::HashMap;

/// Longest name of a set (IPSET_MAXNAMELEN less its zero).
const NAME_MAX: usize = 31;
/// Longest comment of a member.
const COMMENT_MAX: usize = 255;

/// What is known of a set that was created.
#[derive(Clone, Copy)]
struct Known {
    set_type: &'static SetType,
    family: Option<Family>,
    at: Span,
}

struct Parser {
    source: SourceId,
    sets: HashMap<Box<str>, Known>,
    statements: Vec<Statement>,
    diagnostics: Vec<Diagnostic>,
    /// Sets whose `create` was faulty: their members are not reported again.
    broken: Vec<Box<str>>,
}

/// Reads a text.
#[must_use]
pub fn parse(text: &str, source: SourceId) -> (File, Vec<Diagnostic>) {
    let mut parser = Parser {
        source,
        sets: HashMap::new(),
        statements: Vec::new(),
        diagnostics: Vec::new(),
        broken: Vec::new(),
    };
    let mut words = Vec::new();
    let mut warned = false;
    for line in words::lines(text) {
        words.clear();
        if line.end == LineEnd::CarriageReturn && !std::mem::replace(&mut warned, true) {
            let at = line.start + line.text.len();
            let place = Span::new(source, at, at + 1);
            let found = Diagnostic::warning("crlf", place, "the lines end in CR LF");
            parser
                .diagnostics
                .push(found.help("convert it with dos2unix"));
        }
        parser.line(line.text, line.start, line.number, &mut words);
    }
    let file = File {
        source: FileSource(source),
        statements: parser.statements,
    };
    (file, parser.diagnostics)
}

type Parsed = Result<StatementKind, Diagnostic>;

impl Parser {
    fn line<'a>(&mut self, text: &'a str, start: usize, number: u32, words: &mut Vec<Word<'a>>) {
        let trimmed = text.trim_start_matches([' ', '\t']);
        let column = text.len() - trimmed.len();
        let place = Span::new(self.source, start + column, start + text.len());
        let line = Line::new(number, column + 1);
        if let Some(comment) = trimmed.strip_prefix('#') {
            let kind = StatementKind::Comment(comment.trim_end_matches('\r').into());
            self.statements.push(Statement {
                at: Place(place),
                line,
                kind,
            });
            return;
        }
        if let Err(error) = words::split(text, start, &words::RESTORE, words) {
            let place = Span::new(self.source, error.start, error.end);
            self.diagnostics.push(match error.kind {
                WordErrorKind::UnclosedQuote => Diagnostic::error(
                    "unclosed-quote",
                    place,
                    "this quote is not closed on its line",
                )
                .help("close it with `\"`"),
                WordErrorKind::ControlCharacter(_) => {
                    Diagnostic::error("control-character", place, "a control character")
                        .help("take it out")
                }
            });
            return;
        }
        let mut cursor = Cursor::new(words, self.source, start, start + text.len());
        let Some(first) = cursor.take() else { return };
        let at = cursor.span(first);
        let result = match &*first.text {
            "create" | "-N" | "n" => self.create(&mut cursor),
            "add" | "-A" | "a" => match self.add(&mut cursor) {
                Some(result) => result,
                None => return,
            },
            "flush" | "-F" => self
                .name(&mut cursor)
                .map(|(name, _)| StatementKind::Flush(name)),
            "COMMIT" => return,
            other => {
                let message = format!("unknown command `{other}`");
                Err(Diagnostic::error("unknown-command", at, message)
                    .help("this reads the output of `ipset save`: lines of `create` and `add`")
                    .did_you_mean(other, ["create", "add", "flush"]))
            }
        };
        let result = result.and_then(|kind| match cursor.take() {
            None => Ok(kind),
            Some(word) => {
                let message = format!("unexpected word `{}`", word.text);
                Err(
                    Diagnostic::error("unexpected-word", cursor.span(word), message)
                        .help("take it out"),
                )
            }
        });
        match result {
            Ok(kind) => self.statements.push(Statement {
                at: Place(cursor.line()),
                line,
                kind,
            }),
            Err(found) => self.diagnostics.push(found),
        }
    }

    fn name(&self, cursor: &mut Cursor<'_, '_>) -> Result<(Box<str>, Span), Diagnostic> {
        let Some(word) = cursor.take() else {
            let found = Diagnostic::error("missing-word", cursor.here(), "the set is missing");
            return Err(found.help("write its name"));
        };
        let at = cursor.span(word);
        if word.text.is_empty() || word.text.len() > NAME_MAX {
            let message = format!("no set can be called `{}`", word.text);
            let found = Diagnostic::error("bad-length", at, message);
            return Err(found.help(format!("a name has 1 to {NAME_MAX} bytes")));
        }
        Ok(((&*word.text).into(), at))
    }

    fn create(&mut self, cursor: &mut Cursor<'_, '_>) -> Parsed {
        let (name, at) = self.name(cursor)?;
        if let Some(known) = self.sets.get(&name) {
            let message = format!("the set `{name}` is created twice");
            return Err(Diagnostic::error("given-twice", at, message)
                .related(known.at, "here first")
                .help("take one of them out"));
        }
        let result = self.create_rest(&name, at, cursor);
        if result.is_err() {
            self.broken.push(name);
        }
        result
    }

    fn create_rest(&mut self, name: &str, at: Span, cursor: &mut Cursor<'_, '_>) -> Parsed {
        let Some(word) = cursor.take() else {
            let found = Diagnostic::error("missing-word", cursor.here(), "the type is missing");
            return Err(found.help("such as hash:ip"));
        };
        let type_at = cursor.span(word);
        let text = &*word.text;
        let Some(set_type) = TYPES.iter().find(|known| known.name == text) else {
            let message = format!("unknown type `{text}`");
            return Err(Diagnostic::error("unknown-name", type_at, message)
                .help("types are hash:ip, hash:net, bitmap:port and so on; see ipset(8)")
                .did_you_mean(text, TYPES.iter().map(|known| known.name)));
        };
        let mut family = match set_type.family {
            TypeFamily::None => None,
            _ => Some(Family::V4),
        };
        let mut options = Vec::new();
        while let Some(word) = cursor.peek() {
            if word.text == "family" {
                cursor.take();
                family = Some(family_word(cursor, set_type)?);
                continue;
            }
            options.push(option(cursor, CREATE_OPTIONS)?);
        }
        self.sets.insert(
            name.into(),
            Known {
                set_type,
                family,
                at,
            },
        );
        Ok(StatementKind::Create(Create {
            name: name.into(),
            set_type,
            family,
            options,
        }))
    }

    /// `None` for a member of a set that could not be created.
    fn add(&mut self, cursor: &mut Cursor<'_, '_>) -> Option<Parsed> {
        let (name, at) = match self.name(cursor) {
            Ok(found) => found,
            Err(found) => return Some(Err(found)),
        };
        if self.broken.contains(&name) {
            return None;
        }
        Some(self.add_rest(name, at, cursor))
    }

    fn add_rest(&mut self, name: Box<str>, at: Span, cursor: &mut Cursor<'_, '_>) -> Parsed {
        let Some(&known) = self.sets.get(&name) else {
            let message = format!("the set `{name}` is not created before this line");
            return Err(Diagnostic::error("unknown-set", at, message)
                .help(format!("add `create {name} hash:ip` or the like before it"))
                .did_you_mean(&name, self.sets.keys().map(|name| &**name)));
        };
        let Some(word) = cursor.take() else {
            let found = Diagnostic::error("missing-word", cursor.here(), "the member is missing");
            return Err(found.help("write it after the set's name"));
        };
        let member_at = cursor.span(word);
        let member = member(&word.text, known.set_type, known.family).map_err(|fault| {
            let mut found = Diagnostic::error("bad-member", member_at, fault.message);
            found.help = fault.help;
            found
        })?;
        if let Member::Set(inner) = &member
            && !self.sets.contains_key(inner)
        {
            let message = format!("the set `{inner}` is not created before this line");
            return Err(Diagnostic::error("unknown-set", member_at, message)
                .help("a list of sets holds sets that exist"));
        }
        let mut options = Vec::new();
        while cursor.peek().is_some() {
            options.push(option(cursor, ADD_OPTIONS)?);
        }
        Ok(StatementKind::Add(Add {
            name,
            member,
            options,
        }))
    }
}

fn family_word(cursor: &mut Cursor<'_, '_>, set_type: &SetType) -> Result<Family, Diagnostic> {
    let place = cursor.here();
    let family = match cursor.take().map(|word| &*word.text) {
        Some("inet" | "ipv4" | "-4") => Family::V4,
        Some("inet6" | "ipv6" | "-6") => Family::V6,
        _ => {
            let found = Diagnostic::error("unknown-name", place, "bad family");
            return Err(found.help("write inet or inet6"));
        }
    };
    if set_type.family != TypeFamily::Chosen {
        let message = format!("sets of type {} have no choice of family", set_type.name);
        return Err(Diagnostic::error("unexpected-word", place, message).help("take it out"));
    }
    Ok(family)
}

fn option(
    cursor: &mut Cursor<'_, '_>,
    table: &'static [(&'static str, OptionKind)],
) -> Result<SetOption, Diagnostic> {
    let place = cursor.here();
    let word = cursor.take().map(|word| &*word.text).unwrap_or_default();
    let word = if word == "-!" { "-exist" } else { word };
    let Some(&(name, kind)) = table.iter().find(|row| row.0 == word) else {
        let message = format!("unknown option `{word}`");
        return Err(Diagnostic::error("unknown-option", place, message)
            .help("see ipset(8) for the options of this type")
            .did_you_mean(word, table.iter().map(|row| row.0)));
    };
    if kind == OptionKind::Flag {
        return Ok(SetOption {
            name,
            value: OptionValue::Flag,
            at: Place(place),
        });
    }
    let value_at = cursor.here();
    let Some(word) = cursor.take() else {
        let message = format!("`{name}` needs a value");
        return Err(Diagnostic::error("missing-value", place, message).help("write it after it"));
    };
    let value = match kind {
        OptionKind::Number(most) => match parse_number(&word.text) {
            Some(number) if number <= most => OptionValue::Number(number),
            _ => {
                let message = format!("bad number `{}`", word.text);
                let found = Diagnostic::error("bad-number", value_at, message);
                return Err(found.help(format!("0 to {most}")));
            }
        },
        _ if word.text.len() > COMMENT_MAX => {
            let found = Diagnostic::error("bad-length", value_at, "the text is too long");
            return Err(found.help(format!("{COMMENT_MAX} bytes at most")));
        }
        _ => OptionValue::Text((&*word.text).into()),
    };
    Ok(SetOption {
        name,
        value,
        at: Place(place.to(value_at)),
    })
}

#[cfg(test)]
mod tests {
    use super::super::print;
    use super::*;

    fn again(text: &str) -> String {
        let (file, found) = parse(text, SourceId(0));
        assert!(found.is_empty(), "{found:?}");
        let printed = print(&file);
        let (second, found) = parse(&printed, SourceId(0));
        assert!(found.is_empty() && second == file, "{printed}");
        printed
    }

    /// Code and underlined words of each message.
    fn messages(text: &str) -> Vec<(&'static str, &str)> {
        let (_, found) = parse(text, SourceId(0));
        let words = |span: Span| &text[span.start as usize..span.end as usize];
        found
            .iter()
            .map(|found| (found.code, words(found.span)))
            .collect()
    }

    #[test]
    fn what_ipset_saves_prints_back() {
        let text = "create a hash:ip family inet hashsize 1024 maxelem 65536 \
            bucketsize 12 initval 0x1\n\
            add a 1.2.3.4\nadd a 10.0.0.0/24\nadd a 10.1.0.1-10.1.0.9\n\
            create b hash:net family inet6 hashsize 64 maxelem 10 timeout 60 counters comment\n\
            add b 2001:db8::/32 timeout 5 packets 1 bytes 2 comment \"a \\\"b\\\"\"\n\
            add b 2001:db8:1::/48 nomatch timeout 0\n\
            create c hash:ip,port family inet\nadd c 1.2.3.4,tcp:80\nadd c 1.2.3.4,udp:53-60\n\
            add c 1.2.3.4,icmp:8/0\nadd c 1.2.3.4,vrrp:0\n\
            create d hash:ip,port,net family inet\nadd d 1.2.3.4,tcp:80,10.0.0.0/8\n\
            create e bitmap:port range 0-1023\nadd e 80\nadd e 100-200\n\
            create f bitmap:ip range 10.0.0.0/24\nadd f 10.0.0.5\n\
            create g list:set size 8\nadd g a\nadd g c before a\n\
            create h hash:net,port family inet\nadd h 10.0.0.0/8,udplite:5\nflush h\n# end\n";
        assert_eq!(again(text), text);
    }

    #[test]
    fn other_spellings_become_the_saved_ones() {
        let text = "create a hash:ip,port\nadd a 1.2.3.4,http\nadd a 1.2.3.4,udp:domain\n";
        let saved =
            "create a hash:ip,port family inet\nadd a 1.2.3.4,tcp:80\nadd a 1.2.3.4,udp:53\n";
        assert_eq!(again(text), saved);
        assert_eq!(
            again("create n hash:net\nadd n 10.1.2.3/8\n"),
            "create n hash:net family inet\nadd n 10.0.0.0/8\n"
        );
    }

    #[test]
    fn every_faulty_line_is_located() {
        let text = "create a hash:ip\ncreate a hash:net\nadd x 1.2.3.4\nadd a 1.2.3.400\n\
            create m hash:mac\nadd m 00:11:22:33:44\ncreate z hash:nets\nadd a\n\
            add a 1.2.3.4 foo\nfrob a\ncreate y hash:ip family foo\nadd a 1.2.3.4 timeout x\n";
        let expected = [
            ("given-twice", "a"),
            ("unknown-set", "x"),
            ("bad-member", "1.2.3.400"),
            ("bad-member", "00:11:22:33:44"),
            ("unknown-name", "hash:nets"),
            ("missing-word", ""),
            ("unknown-option", "foo"),
            ("unknown-command", "frob"),
            ("unknown-name", "foo"),
            ("bad-number", "x"),
        ];
        assert_eq!(messages(text), expected);
    }

    #[test]
    fn members_fit_their_types() {
        for (set_type, member) in [
            ("hash:ip,port", "1.2.3.4"),
            ("hash:ip", "1.2.3.4,80"),
            ("hash:ip", "::1"),
            ("hash:ip", "1.2.3.9-1.2.3.1"),
            ("hash:net", "1.2.3.0/33"),
            ("hash:ip,port", "1.2.3.4,tcp:70000"),
            ("hash:ip,port", "1.2.3.4,foo:1"),
            ("hash:ip,port", "1.2.3.4,gre:7"),
            ("hash:ip,port", "1.2.3.4,tcp:90-80"),
            ("bitmap:port", "70000"),
            ("list:set", "nothere"),
        ] {
            let text = format!("create a {set_type}\nadd a {member}\n");
            let found = messages(&text);
            assert_eq!(found.len(), 1, "{set_type} {member}");
        }
    }
}
