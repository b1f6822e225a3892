//! The rule model: what a policy is, whatever language it was written in.
//!
//! In: a dialect's `lower`. Out: `eval` (the meaning), `weir-engine` (the compiled form). The model
//! knows no language: it has chains of rules, each rule an ordered list of tests, then operations,
//! then control flow. Conditions are sets of values per field, never strings; interface names are
//! the one exception, because a name is the value. Negation belongs to the test, and never turns
//! "this packet has no such field" into a match.
//!
//! Order is meaning: the tests of a rule run left to right, and a test that remembers (limit,
//! recent, connlimit ...) is touched only when every test before it held.

mod action;
mod aside;
mod condition;
mod dynamic;
mod history;
mod learned;
mod meter;
mod packet;
mod policy;
mod range;
mod set;
mod shape;

pub use action::{Flow, LogOp, MarkShift, MssOp, NflogOp, Op, RejectKind, TtlOp, Verdict};
pub use aside::{
    Aside, BROKEN_OPTIONS, Ethernet, Facts, Frame, TcpNumber, TextSearch, WordStep, WordTest,
};
pub use condition::{
    AddrMatch, AddrType, ChunkFlags, Cmp, Cond, CtField, IfPattern, Owner, OwnerRange, ReversePath,
    StateMask, Test,
};
pub use dynamic::{Dynamic, DynamicTest, IpfwKeeper};
pub use history::{
    ConnLimit, HashKey, HashLimit, HistoryId, HistoryKind, HistoryObject, Limit, Recent,
    RecentAction, Statistic, TimeWindow,
};
pub use learned::{
    Allocation, IcmpHeadTest, IpfKeeper, IpfWith, Keeper, Learner, LearnerId, Lifetimes,
};
pub use meter::{Meter, MeterKey, MeterRoom};
pub use packet::handling;
pub use packet::{CtState, Direction, Fragment, Packet, PacketType, SctpChunk, Transport};
pub use policy::{
    Answers, Chain, ChainId, ChainPolicy, Counters, Family, Hook, Origin, Policy, Reading, Root,
    Rule, RuleId, SourceId, Table,
};
pub use range::{RangeSet, Value};
pub use set::{NamedSet, SetDimension, SetEntry, SetField, SetId, SetPart};
pub use shape::{Class, HANDLE, Shape};
