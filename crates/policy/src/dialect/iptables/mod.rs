//! The `iptables` dialect: `iptables-save` and `ip6tables-save` files.
//!
//! In: text. Out: a syntax tree that prints back ([`parse`], [`print()`]), and a
//! [`crate::model::Policy`] ([`lower()`]). What is known but cannot be honoured is read and
//! printed, and refused by name when it is lowered.
//!
//! Original semantics: `iptables(8)`, `iptables-extensions(8)`, `iptables-restore(8)` 1.8.9, and
//! the kernel's `ip_tables`.

pub mod ast;
pub mod grammar;
mod lower;
pub mod names;
mod parse;
pub mod print;
pub mod value;

pub use ast::File;
pub use lower::{Affected, Input, LowerOptions, LowerReport, Names, Resolved, Treatment, lower};
pub use parse::Fault;
pub use parse::built_in_chains;
pub(crate) use parse::{ip as parse_ip, mac as parse_mac, mask_bits, number as parse_number};
pub use print::print;

use crate::model::{Family, SourceId};
use crate::syntax::Diagnostic;

/// Reads a file whose family its text tells: the comment of `ip6tables-save`, else its words.
#[must_use]
pub fn parse(text: &str, source: SourceId) -> (File, Vec<Diagnostic>) {
    parse::parse(
        text,
        source,
        super::family_of_text(text).unwrap_or(Family::V4),
    )
}

/// Reads a file of a known family.
#[must_use]
pub fn parse_as(text: &str, source: SourceId, family: Family) -> (File, Vec<Diagnostic>) {
    parse::parse(text, source, family)
}
