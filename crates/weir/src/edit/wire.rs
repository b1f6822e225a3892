//! What is said on the socket: one JSON value a line, a request and its answer in turn.

use serde::{Deserialize, Serialize};

/// Name of the socket in the folder of a namespace.
pub const SOCKET: &str = "changes.sock";

/// A change that is asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// A command of iptables on one rule: 4 or 6, the table, the command as a file has it.
    Rule(u8, String, String),
    /// A member, as `add SET MEMBER`: it comes, also where it is there already.
    Add(String, bool),
    /// It goes, also where it is not there.
    Del(String, bool),
}

/// How a change was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// By a few stores into what packets read.
    #[serde(rename = "in place")]
    InPlace,
    /// By a new image.
    #[serde(rename = "rebuilt")]
    Rebuilt,
}

/// What became of a request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// Packets meet the change.
    Done {
        /// How it was made.
        way: Way,
        /// Why it took a new image.
        why: Option<String>,
        /// From the request until packets met it.
        microseconds: f64,
    },
    /// There is no such rule, chain or place: what the tool says.
    Fault(String),
    /// It can't be done here, and why. Nothing was changed.
    Unable(String),
}
