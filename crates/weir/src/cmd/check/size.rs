//! What rules come to when they are compiled: memory, and the work of the dearest packet.
//!
//! In: a policy. Out: the figures of the compiler's report, as a part of the answers of all
//! languages, in words and as a table.

use crate::describe::{family_name, table_name};
use crate::exit::{Exit, failure};
use crate::output::{Align, Output, Table, bytes, count, number};
use crate::rules::Places;
use crate::spec::hook_name;
use serde::Serialize;
use weir_engine::compile::{Compiled, Options, compile};
use weir_policy::model::Policy;

/// A part of the answer; without figures when nothing could be compiled.
#[derive(Debug, Default, Serialize)]
pub struct Size {
    image_bytes: Option<usize>,
    flattened: Option<usize>,
    unreachable: Option<usize>,
    cost: Vec<Cost>,
    /// Why the policy can't be compiled.
    pub compile_error: Option<String>,
}

/// What the dearest packet can cause at one root.
#[derive(Debug, Serialize)]
struct Cost {
    family: &'static str,
    hook: &'static str,
    table: &'static str,
    entries: usize,
    worst_loads: u32,
    worst_entries: u32,
    bytes: usize,
}

/// Compiles a policy. An error names the rules that caused it.
pub fn compile_policy(policy: &Policy) -> anyhow::Result<Compiled> {
    compile(policy, &Options::default()).map_err(|error| {
        let places = Places::of(policy);
        let rules = error.rules().iter().take(8);
        let rules: Vec<String> = rules.filter_map(|id| places.location(*id)).collect();
        let message = match rules.is_empty() {
            true => error.to_string(),
            false => format!("{error}: {}", rules.join(", ")),
        };
        failure(Exit::Unsupported, message)
    })
}

impl Size {
    /// What a policy comes to, if there is one.
    pub fn of(policy: Option<&Policy>) -> Size {
        match policy.map(compile_policy) {
            None => Size::default(),
            Some(Ok(compiled)) => Size::of_compiled(&compiled),
            Some(Err(error)) => Size {
                compile_error: Some(format!("{error:#}")),
                ..Size::default()
            },
        }
    }

    fn of_compiled(compiled: &Compiled) -> Size {
        let report = &compiled.report;
        let roots = report.roots.iter().map(|root| Cost {
            family: family_name(root.family),
            hook: hook_name(root.hook),
            table: table_name(root.table),
            entries: root.entries,
            worst_loads: root.worst_loads,
            worst_entries: root.worst_steps,
            bytes: root.bytes,
        });
        Size {
            image_bytes: Some(report.bytes),
            flattened: Some(report.roots.iter().map(|root| root.flattened).sum()),
            unreachable: Some(report.shadowed),
            cost: roots.collect(),
            compile_error: None,
        }
    }

    /// Whether there was a policy that could be compiled.
    pub fn is_known(&self) -> bool {
        self.image_bytes.is_some()
    }

    /// Prints memory and the dearest packet, a line each, for so many rules.
    pub fn print(&self, rules: usize, out: &mut Output) -> anyhow::Result<()> {
        let (Some(size), Some(entries)) = (self.image_bytes, self.flattened) else {
            return Ok(());
        };
        let each = size as u64 / rules.max(1) as u64;
        out.line(format!(
            "compiled: {} ({each} bytes a rule), {} of {} out of every packet's reach",
            bytes(size as u64),
            number(self.unreachable.unwrap_or(0) as u64),
            count(entries as u64, "entry", "entries")
        ))?;
        let loads = self.cost.iter().map(|c| c.worst_loads).max().unwrap_or(0);
        let entries = self.cost.iter().map(|c| c.worst_entries).max().unwrap_or(0);
        out.line(format!(
            "worst packet: {loads} loads to classify, {entries} rules to go through, in one chain"
        ))
    }

    /// Prints the dearest packet of each chain that packets enter.
    pub fn print_costs(&self, out: &mut Output) -> anyhow::Result<()> {
        let mut table = Table::new(&[
            ("family", Align::Left),
            ("hook", Align::Left),
            ("table", Align::Left),
            ("entries", Align::Right),
            ("worst loads", Align::Right),
            ("worst entries", Align::Right),
            ("memory", Align::Right),
        ]);
        for cost in &self.cost {
            table.row(vec![
                cost.family.to_owned(),
                cost.hook.to_owned(),
                cost.table.to_owned(),
                number(cost.entries as u64),
                number(u64::from(cost.worst_loads)),
                number(u64::from(cost.worst_entries)),
                bytes(cost.bytes as u64),
            ]);
        }
        out.line("")?;
        out.table(&table)
    }
}
