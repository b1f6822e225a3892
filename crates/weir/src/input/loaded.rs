//! What can be asked of rule files after reading.
//!
//! In: a [`Loaded`]. Out: its policy or the error that there is none, its messages, its nat tables,
//! the text of each rule.

use super::{Loaded, Parsed, told};
use crate::cmd::check::compile_policy;
use crate::exit::{Exit, failure};
use crate::explain::Texts;
use weir_engine::compile::Compiled;
use weir_policy::convert::Language;
use weir_policy::dialect::Headings;
use weir_policy::dialect::iptables::ast::{Statement, StatementKind};
use weir_policy::dialect::iptables::{self, File};
use weir_policy::model::{Family, Policy, RuleId, SourceId, Table};
use weir_policy::syntax::{Severity, Span};

impl Loaded {
    /// The policy; without one, the error says how many messages tell why.
    pub fn policy(&self) -> anyhow::Result<&Policy> {
        self.check_errors()?;
        self.policy
            .as_ref()
            .ok_or_else(|| failure(Exit::Usage, "there is no policy in these files"))
    }

    /// Wrong lines as an error, with the exit code for their kind.
    pub fn check_errors(&self) -> anyhow::Result<()> {
        let errors = self.diagnostics.iter().filter(|d| d.is_error()).count();
        told::check_errors(errors, self.only_unsupported())
    }

    /// Whether there are errors, and all of them are about constructs that can't be honoured.
    pub fn only_unsupported(&self) -> bool {
        told::only_unsupported(&self.diagnostics)
    }

    /// Compiles the policy. An error names the rules that caused it.
    pub fn compile(&self) -> anyhow::Result<Compiled> {
        compile_policy(self.policy()?)
    }

    /// Prints messages from a severity on to standard error.
    pub fn tell(&self, least: Severity) {
        told::tell(&self.diagnostics, &self.sources, least);
    }

    /// The name of a file.
    pub fn name(&self, source: SourceId) -> String {
        self.sources
            .get(source)
            .map_or_else(|| "?".to_owned(), |source| source.name().to_owned())
    }

    /// The names of all files.
    pub fn names(&self) -> Vec<String> {
        self.parsed
            .iter()
            .map(|(source, _)| self.name(*source))
            .collect()
    }

    /// The families that the files speak about.
    pub fn families(&self) -> Vec<Family> {
        let roots = self.policy.iter().flat_map(|policy| &policy.roots);
        let mut families: Vec<Family> = match self.language {
            Language::Iptables => roots.map(|root| root.family).collect(),
            Language::Ipf | Language::Ipfw => vec![Family::V4, Family::V6],
        };
        families.sort_unstable();
        families.dedup();
        families
    }

    /// The first rule of the nat table.
    pub fn first_nat_rule(&self) -> Option<Span> {
        let mut all = self.rule_files().flat_map(nat_statements);
        let rule = all.find(|(_, one)| matches!(one.kind, StatementKind::Rule(_)));
        rule.map(|(_, one)| one.at.0)
    }

    pub(super) fn rule_files(&self) -> impl Iterator<Item = &File> {
        self.parsed.iter().filter_map(|(_, parsed)| match parsed {
            Parsed::Rules(file) => Some(file),
            Parsed::Sets(_) => None,
        })
    }

    /// How many rules there are for the nat table, by family, where there are any.
    pub fn nat_rules(&self) -> Vec<(Family, usize)> {
        let mut out: Vec<(Family, usize)> = Vec::new();
        for (family, statement) in self.rule_files().flat_map(nat_statements) {
            let rule = usize::from(matches!(statement.kind, StatementKind::Rule(_)));
            match out.iter_mut().find(|(known, _)| *known == family) {
                Some((_, sum)) => *sum += rule,
                None => out.push((family, rule)),
            }
        }
        out.retain(|(_, rules)| *rules > 0);
        out.sort_unstable_by_key(|(family, _)| *family);
        out
    }

    /// The nat tables as text, by family, where the files have one.
    pub fn nat_tables(&self) -> anyhow::Result<Vec<(Family, String)>> {
        let mut out: Vec<(Family, String)> = Vec::new();
        for only in self.rule_files().flat_map(nat_only) {
            let text = iptables::print(&only);
            let blocks = only
                .statements
                .iter()
                .filter(|statement| matches!(statement.kind, StatementKind::Table(_)))
                .count();
            if blocks > 1 || out.iter().any(|(family, _)| *family == only.family) {
                // iptables-restore would load one after the other, and the last would be left.
                let message = "two nat tables of one family can't both go to the kernel";
                return Err(failure(Exit::Usage, message));
            }
            out.push((only.family, text));
        }
        Ok(out)
    }
}

/// A file without everything that is not in its nat tables: one for each family.
fn nat_only(file: &File) -> Vec<File> {
    let mut out: Vec<File> = Vec::new();
    for (family, statement) in nat_statements(file) {
        let statement = statement.clone();
        match out.iter_mut().find(|known| known.family == family) {
            Some(known) => known.statements.push(statement),
            None => out.push(File {
                family,
                source: file.source,
                statements: vec![statement],
            }),
        }
    }
    out
}

/// The lines of nat tables, `*nat` to `COMMIT` without comments, with their family.
fn nat_statements(file: &File) -> impl Iterator<Item = (Family, &Statement)> {
    let (mut family, mut headings) = (file.family, Headings::default());
    let mut inside = false;
    file.statements.iter().filter_map(move |statement| {
        match &statement.kind {
            StatementKind::Comment(text) => {
                family = headings.note(text).unwrap_or(family);
                return None;
            }
            StatementKind::Table(table) => inside = *table == Table::Nat,
            _ => {}
        }
        let keep = inside.then_some((family, statement));
        inside &= !matches!(statement.kind, StatementKind::Commit);
        keep
    })
}

impl Texts for Loaded {
    fn text(&self, id: RuleId) -> Option<String> {
        let origin = self.origin(id)?;
        let source = self.sources.get(origin.source)?;
        Some(source.line_text(origin.line).to_owned())
    }
}

impl Loaded {
    fn origin(&self, id: RuleId) -> Option<weir_policy::model::Origin> {
        self.origins.get(id.0 as usize).copied().flatten()
    }
}
