//! The vocabulary as data: every match and target module with all its options.
//!
//! One table feeds the parser, the printer, the suggestions and the tests. Facts are those of
//! `iptables-extensions(8)` 1.8.9 and of the kernel's module definitions (tables and hooks). What
//! a module's options mean together (exclusions, defaults) is in `parse::finish`; what they mean
//! for a packet is in `lower`.

mod known;
mod matches;
mod targets;

use super::value::Kind;
use crate::model::{Family, Hook, Table};
use std::collections::HashMap;
use std::sync::OnceLock;

/// Whether weir can honour a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Options are typed; lowering decides.
    Typed,
    /// Known by name and options; kept for printing, refused by lowering.
    Known,
}

/// Families in which a module exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Families {
    /// Both.
    Both,
    /// Only one.
    Only(Family),
}

impl Families {
    /// Whether `family` is one of them.
    #[must_use]
    pub fn contains(self, family: Family) -> bool {
        match self {
            Self::Both => true,
            Self::Only(only) => only == family,
        }
    }
}

/// Which of the two kinds of module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// `-m`
    Match,
    /// `-j`
    Target,
}

/// A set of hooks, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hooks(pub u8);

/// All five hooks, in packet order.
pub const ALL_HOOKS: [Hook; 5] = [
    Hook::Prerouting,
    Hook::Input,
    Hook::Forward,
    Hook::Output,
    Hook::Postrouting,
];

impl Hooks {
    /// Every hook.
    pub const ANY: Self = Self(31);

    /// These hooks.
    #[must_use]
    pub const fn of(hooks: &[Hook]) -> Self {
        let mut bits = 0;
        let mut i = 0;
        while i < hooks.len() {
            bits |= 1 << hooks[i] as u8;
            i += 1;
        }
        Self(bits)
    }

    /// Whether `hook` is one of them.
    #[must_use]
    pub const fn contains(self, hook: Hook) -> bool {
        self.0 >> hook as u8 & 1 == 1
    }

    /// The hooks in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The hooks in either.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The hooks that are in this and not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// One option of a module.
#[derive(Debug)]
pub struct OptionSpec {
    /// Name without `--`, as it is printed.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// Whether `!` may stand before it.
    pub negatable: bool,
    /// Its value.
    pub kind: Kind,
    /// The option as which it is stored, when it is only another way to write that one.
    pub stands_for: Option<&'static str>,
}

/// A module.
#[derive(Debug)]
pub struct ModuleSpec {
    /// Its name.
    pub name: &'static str,
    /// Match or target.
    pub role: Role,
    /// Families in which it exists.
    pub families: Families,
    /// Whether its options are typed.
    pub tier: Tier,
    /// Options, in the order in which they are printed.
    pub options: &'static [OptionSpec],
    /// Protocols, one of which the rule must name; empty: any.
    pub protocols: &'static [u8],
    /// Tables in which it may stand; empty: all.
    pub tables: &'static [Table],
    /// Hooks from which the rule may be reached.
    pub hooks: Hooks,
    /// Options are kept in the order written and may come again (`policy` and all known-only ones).
    pub as_written: bool,
}

impl ModuleSpec {
    /// The option with this printed name.
    ///
    /// # Panics
    /// When the table has no such option, which is a mistake in this crate.
    #[must_use]
    pub fn option(&'static self, name: &str) -> &'static OptionSpec {
        let found = self.options.iter().find(|option| option.name == name);
        found.unwrap_or_else(|| panic!("module {} has no option {name}", self.name))
    }

    /// The place of an option in the printed order.
    #[must_use]
    pub fn rank(&self, name: &str) -> usize {
        self.options
            .iter()
            .position(|option| option.name == name)
            .unwrap_or(usize::MAX)
    }
}

const fn option(name: &'static str, kind: Kind) -> OptionSpec {
    OptionSpec {
        name,
        aliases: &[],
        negatable: false,
        kind,
        stands_for: None,
    }
}

impl OptionSpec {
    const fn not(mut self) -> Self {
        self.negatable = true;
        self
    }

    const fn or(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    const fn for_option(mut self, name: &'static str) -> Self {
        self.stands_for = Some(name);
        self
    }
}

const fn module(name: &'static str, role: Role, options: &'static [OptionSpec]) -> ModuleSpec {
    ModuleSpec {
        name,
        role,
        families: Families::Both,
        tier: Tier::Typed,
        options,
        protocols: &[],
        tables: &[],
        hooks: Hooks::ANY,
        as_written: false,
    }
}

impl ModuleSpec {
    const fn only(mut self, family: Family) -> Self {
        self.families = Families::Only(family);
        self
    }

    const fn with_protocols(mut self, protocols: &'static [u8]) -> Self {
        self.protocols = protocols;
        self
    }

    const fn in_tables(mut self, tables: &'static [Table]) -> Self {
        self.tables = tables;
        self
    }

    const fn at_hooks(mut self, hooks: &[Hook]) -> Self {
        self.hooks = Hooks::of(hooks);
        self
    }

    const fn kept_as_written(mut self) -> Self {
        self.as_written = true;
        self
    }

    const fn known(mut self) -> Self {
        self.tier = Tier::Known;
        self
    }
}

/// Every module of both roles.
pub fn all() -> impl Iterator<Item = &'static ModuleSpec> {
    matches::MATCHES
        .iter()
        .chain(targets::TARGETS)
        .chain(known::KNOWN)
}

/// The module of this name, role and family.
#[must_use]
pub fn find(role: Role, name: &str, family: Family) -> Option<&'static ModuleSpec> {
    static INDEX: OnceLock<[HashMap<&'static str, &'static ModuleSpec>; 4]> = OnceLock::new();
    let slot = |role: Role, family: Family| role as usize * 2 + family as usize;
    let index = INDEX.get_or_init(|| {
        let mut index = std::array::from_fn::<_, 4, _>(|_| HashMap::new());
        for spec in all() {
            for family in [Family::V4, Family::V6] {
                if spec.families.contains(family) {
                    index[slot(spec.role, family)].insert(spec.name, spec);
                }
            }
        }
        index
    });
    index[slot(role, family)].get(name).copied()
}

/// Names of all modules of a role and family, for suggestions.
pub fn names(role: Role, family: Family) -> impl Iterator<Item = &'static str> {
    all()
        .filter(move |spec| spec.role == role && spec.families.contains(family))
        .map(|spec| spec.name)
}
