//! The grammar of `ippool.conf`.

use super::super::ast::Name;
use super::super::lex::Kind;
use super::super::pool::{Entry, Role, Shape, Table};
use super::{Parsed, Parser};
use crate::syntax::{Diagnostic, Place, Span};

impl Parser<'_, '_, '_> {
    /// Steps over `name = "text";`, which the lexer has seen.
    pub(in super::super) fn take_assignment(&mut self) -> bool {
        let assigns =
            self.is_sign_at(1, "=") && self.look(2).is_some_and(|token| token.kind == Kind::Quoted);
        if assigns {
            self.next += 3;
        }
        assigns
    }

    /// Goes on with one of these words at the start of a line.
    pub(in super::super) fn skip_to(&mut self, words: &[&str]) {
        loop {
            self.take();
            let Some(token) = self.peek() else { return };
            if token.first && words.iter().any(|word| self.is(word)) {
                return;
            }
        }
    }

    /// A table.
    pub(in super::super) fn pool_table(&mut self) -> Parsed<Table> {
        let start = self.here();
        let mut table = match self.take_one_of(&["table", "pool", "group-map"]) {
            Some("table") => self.table_head()?,
            Some("pool") => self.pool_head()?,
            Some(_) => self.map_head()?,
            None => return Err(self.expected("`table`, `pool` or `group-map`")),
        };
        self.expect_sign("{", "before the entries")?;
        while !self.take_sign("}") {
            if self.take_sign(";") || self.take_sign(",") {
                continue;
            }
            if self.peek().is_none() {
                return Err(self.expected("`}` behind the entries"));
            }
            let entry = self.pool_item(&table.shape)?;
            table.entries.extend(entry);
            if !self.is_sign(";") && !self.is_sign(",") && !self.is_sign("}") {
                return Err(self.expected("`;` behind the entry"));
            }
        }
        table.at = Place(self.since(start));
        self.take_sign(";");
        Ok(table)
    }

    fn setting_of(&mut self, word: &str) -> Parsed<bool> {
        if !self.take_word(word) {
            return Ok(false);
        }
        self.expect_sign("=", "behind the word")?;
        Ok(true)
    }

    fn role(&mut self) -> Parsed<Role> {
        match self.take_one_of(&["ipf", "nat", "auth", "count", "all"]) {
            Some("ipf") => Ok(Role::Ipf),
            Some("nat") => Ok(Role::Nat),
            Some("auth") => Ok(Role::Auth),
            Some("count") => Ok(Role::Count),
            Some(_) => Ok(Role::All),
            None => Err(self.expected("a role: ipf, nat, auth, count or all")),
        }
    }

    fn empty(role: Role, shape: Shape) -> Table {
        Table {
            at: Place::default(),
            role,
            shape,
            name: None,
            size: None,
            seed: None,
            entries: Vec::new(),
        }
    }

    /// `table role = ROLE type = TYPE number|name = ID size = N seed = N`
    fn table_head(&mut self) -> Parsed<Table> {
        if !self.setting_of("role")? {
            return Err(self.expected("`role = ...`"));
        }
        let role = self.role()?;
        if !self.setting_of("type")? {
            return Err(self.expected("`type = tree` or `type = hash`"));
        }
        let shape = match self.take_one_of(&["tree", "hash"]) {
            Some("tree") => Shape::Tree,
            Some(_) => Shape::Hash,
            None => return Err(self.expected("`tree` or `hash`")),
        };
        let mut table = Self::empty(role, shape);
        loop {
            if self.setting_of("number")? {
                let number = self.number("the number of the table", u32::MAX)?;
                table.name = Some(Name::from(number.to_string()));
            } else if self.setting_of("name")? {
                table.name = Some(self.name("the name of the table")?);
            } else if self.setting_of("size")? {
                table.size = Some(self.number("a size", u32::MAX)?);
            } else if self.setting_of("seed")? {
                table.seed = Some(self.number("a seed", u32::MAX)?);
            } else {
                return Ok(table);
            }
        }
    }

    /// `group-map in|out role = ROLE number = N [group = G]`
    fn map_head(&mut self) -> Parsed<Table> {
        let out = match self.take_one_of(&["in", "out"]) {
            Some(word) => word == "out",
            None => return Err(self.expected("`in` or `out`")),
        };
        if !self.setting_of("role")? {
            return Err(self.expected("`role = ...`"));
        }
        let role = self.role()?;
        let mut table = Self::empty(role, Shape::Map { out, group: None });
        if !self.setting_of("number")? {
            return Err(self.expected("`number = ...`"));
        }
        let number = self.number("the number of the map", u32::MAX)?;
        table.name = Some(Name::from(number.to_string()));
        if self.setting_of("group")? {
            let group = Some(self.name("the name of a group")?);
            table.shape = Shape::Map { out, group };
        }
        Ok(table)
    }

    /// `pool ROLE/TYPE (name ID; OPTIONS)`
    fn pool_head(&mut self) -> Parsed<Table> {
        let role = self.role()?;
        self.expect_sign("/", "behind the role")?;
        let shape = match self.take_one_of(&["tree", "hash", "dstlist"]) {
            Some("tree") => Shape::Tree,
            Some("hash") => Shape::Hash,
            Some(_) => Shape::Destinations(None),
            None => return Err(self.expected("`tree`, `hash` or `dstlist`")),
        };
        let mut table = Self::empty(role, shape);
        self.expect_sign("(", "before the options")?;
        while !self.take_sign(")") {
            if self.take_sign(";") {
                continue;
            }
            match self.take_one_of(&["name", "number", "size", "seed", "policy"]) {
                Some("name" | "number") => table.name = Some(self.name("the name of the pool")?),
                Some("size") => table.size = Some(self.number("a size", u32::MAX)?),
                Some("seed") => table.seed = Some(self.number("a seed", u32::MAX)?),
                Some(_) => {
                    if !matches!(table.shape, Shape::Destinations(_)) {
                        let at = self.last().unwrap_or_else(|| self.here());
                        let message = "only lists of destinations have a policy";
                        let found = Diagnostic::error("pool", at, message);
                        return Err(Box::new(found.help("take it out, or write `dstlist`")));
                    }
                    table.shape = Shape::Destinations(Some(self.policy()?));
                }
                None => return Err(self.expected("an option of the pool, or `)`")),
            }
        }
        if table.name.is_none() {
            let found = Diagnostic::error("pool", self.here(), "a pool needs a name");
            return Err(Box::new(found.help("write `(name NAME;)`")));
        }
        Ok(table)
    }

    fn policy(&mut self) -> Parsed<Name> {
        let words = [
            "round-robin",
            "random",
            "hash",
            "src-hash",
            "dst-hash",
            "weighted",
        ];
        match self.take_one_of(&words) {
            Some("weighted") => match self.take_word("connection") {
                true => Ok(Name::from("weighted connection")),
                false => Err(self.expected("`connection`")),
            },
            Some(word) => Ok(Name::from(word)),
            None => Err(self.expected("a policy")),
        }
    }

    /// An entry; none where it is told and can't be honoured.
    fn pool_item(&mut self, shape: &Shape) -> Parsed<Option<Entry>> {
        let start = self.here();
        let source = |text: &str| ["whois", "file", "http"].contains(&text);
        let known = self.peek().is_some_and(|token| source(&token.text));
        if let Shape::Destinations(_) = shape
            && self.is_sign_at(1, ":")
            && !(self.is_sign_at(2, ":") || known)
        {
            let name = self.name("the name of an interface")?;
            self.take();
            return Ok(Some(Entry::Address(self.pool_entry(false)?, Some(name))));
        }
        if let Some(token) = self.peek().filter(|token| token.kind == Kind::Quoted) {
            self.take();
            return match token.text.strip_prefix("file://") {
                Some(path) => Ok(Some(Entry::File(Name::from(path)))),
                None if token.text.starts_with("http://") => Ok(self.not_fetched(token.at)),
                None => {
                    let message = "this is not `file://`";
                    let found = Diagnostic::error("pool-entry", token.at, message);
                    Err(Box::new(found.help("write \"file:///path\"")))
                }
            };
        }
        if self.is("whois") {
            self.take();
            if !self.take_word("file") {
                return Err(self.expected("`file`"));
            }
            return Ok(Some(Entry::Whois(self.name("a path")?)));
        }
        for word in ["file", "http"] {
            if self.is(word) && self.is_sign_at(1, ":") {
                let text = self.address_of_web();
                return match text.strip_prefix("file://") {
                    Some(path) => Ok(Some(Entry::File(Name::from(path)))),
                    None => Ok(self.not_fetched(self.since(start))),
                };
            }
        }
        let negate = self.take_sign("!");
        if negate && *shape != Shape::Tree {
            let found = Diagnostic::error("pool-entry", start, "only trees have holes");
            return Err(Box::new(found.help("use `type = tree`")));
        }
        let entry = self.pool_entry(negate)?;
        let mut group = None;
        if matches!(shape, Shape::Map { .. }) {
            self.take_sign(",");
            if self.setting_of("group")? {
                group = Some(self.name("the name of a group")?);
            }
        }
        Ok(Some(Entry::Address(entry, group)))
    }

    /// A list behind `http://` would be empty: nobody fetches it.
    fn not_fetched(&mut self, at: Span) -> Option<Entry> {
        let message = "addresses are not fetched from the web: this would match nothing";
        let found = Diagnostic::unsupported(at, message);
        let help = "fetch it, and name the copy with `\"file:///path\"`";
        self.diagnostics.push(found.help(help));
        None
    }

    /// Everything up to a blank or a `;`.
    fn address_of_web(&mut self) -> String {
        let mut text = String::new();
        while let Some(token) = self.peek() {
            let ends = [";", "}", ","].contains(&&*token.text) || !text.is_empty() && !token.glued;
            if ends {
                break;
            }
            text.push_str(&token.text);
            self.take();
        }
        text
    }
}
