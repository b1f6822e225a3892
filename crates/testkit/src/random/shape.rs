//! How large random policies are, and what may be in them.

/// What a random policy may contain.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Most rules in a chain.
    pub rules_max: usize,
    /// Most user chains for each family and table.
    pub chains_max: usize,
    /// Whether rules may remember (limit, statistic nth).
    pub histories: bool,
    /// Whether rules may ask for connection state.
    pub state: bool,
    /// Whether mangle and raw roots appear and packets may be changed.
    pub changes: bool,
    /// Only what most rules of most files say: no operations, no rare conditions, no rejects, and
    /// often a rule in front that accepts established flows.
    pub plain: bool,
    /// Whether there are skips, proposals, heads of groups and alternatives, and the filter table
    /// at every hook.
    pub lists: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Shape {
            rules_max: 24,
            chains_max: 5,
            histories: false,
            state: true,
            changes: true,
            plain: false,
            lists: false,
        }
    }
}

impl Shape {
    /// Lists: smaller, because proposals let a packet meet more of them.
    pub fn lists() -> Self {
        Shape {
            rules_max: 14,
            chains_max: 3,
            lists: true,
            ..Shape::default()
        }
    }
}
