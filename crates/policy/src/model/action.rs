//! What a rule does: verdicts, control flow, and operations that let evaluation go on.

use super::{ChainId, SetField, SetId};

/// The decision about a packet in one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Go on to the next table or leave the filter.
    Accept,
    /// Discard.
    Drop,
    /// Discard and answer.
    Reject(RejectKind),
}

/// The answer of a reject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RejectKind {
    /// TCP RST (RFC 9293 section 3.5.2); only for TCP.
    TcpReset,
    /// ICMP type 3 with this code (RFC 792, RFC 1812).
    Icmp(u8),
    /// ICMPv6 type 1 with this code (RFC 4443).
    Icmp6(u8),
    /// [`RejectKind::Icmp`] in the name of the packet's destination.
    IcmpAsDestination(u8),
    /// [`RejectKind::Icmp6`] in the name of the packet's destination.
    Icmp6AsDestination(u8),
    /// ICMP type 3 with code 4, "fragmentation needed", and this MTU of the next hop in bytes
    /// (RFC 1191 section 4), up to [`RejectKind::MTU_MAX`].
    FragmentationNeeded(u16),
}

impl RejectKind {
    /// The largest MTU that an answer tells of: images have 15 bits for it.
    pub const MTU_MAX: u16 = 0x7fff;
}

/// Where evaluation goes after a rule matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flow {
    /// To the next rule.
    Next,
    /// The table is decided.
    Verdict(Verdict),
    /// Into a chain, coming back to the next rule.
    Jump(ChainId),
    /// Into a chain, coming back to where the current chain was called from.
    Goto(ChainId),
    /// Back to the caller; in a root, to the chain policy.
    Return,
    /// To a later rule of the same chain, by its position in [`super::Chain::rules`]; the number
    /// of rules means the end of the chain.
    Skip(u32),
    /// The verdict stands until another rule proposes one, and evaluation goes on. At the end of a
    /// root the standing proposal decides instead of the chain policy, which then doesn't count.
    Propose(Verdict),
    /// Proposes a verdict, then goes into a chain and comes back to the next rule.
    Head {
        /// The verdict.
        verdict: Verdict,
        /// The chain.
        group: ChainId,
        /// Whether the proposal decides on coming back, if it still stands.
        quick: bool,
    },
    /// What the learner says whose state [`super::Cond::Learned`] has found: its rule decides.
    AsLearned,
    /// The verdict that stands becomes a drop, of the same rule.
    Refuse,
    /// No verdict stands any more.
    Withdraw,
}

/// Something done to or noted about a packet while evaluation goes on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Kernel-log style record.
    Log(LogOp),
    /// Netlink-log style record.
    Nflog(NflogOp),
    /// `mark = (mark & !mask) ^ value`, on the packet.
    SetMark {
        /// Exclusive-or value.
        value: u32,
        /// Bits cleared first.
        mask: u32,
    },
    /// `mark = shift((mark & !mask) ^ value)`, on the packet's flow.
    SetConnmark {
        /// Exclusive-or value.
        value: u32,
        /// Bits cleared first.
        mask: u32,
        /// What becomes of the result.
        shift: MarkShift,
    },
    /// `ct = (ct & !ct_mask) ^ shift(nf & nf_mask)`.
    SaveConnmark {
        /// Bits of the packet mark that are used.
        nf_mask: u32,
        /// Bits of the flow mark that are cleared.
        ct_mask: u32,
        /// What becomes of the bits that are used.
        shift: MarkShift,
    },
    /// `nf = (nf & !nf_mask) ^ shift(ct & ct_mask)`.
    RestoreConnmark {
        /// Bits of the packet mark that are cleared.
        nf_mask: u32,
        /// Bits of the flow mark that are used.
        ct_mask: u32,
        /// What becomes of the bits that are used.
        shift: MarkShift,
    },
    /// The packet stays untracked.
    Notrack,
    /// Set the DSCP (6 bits), keeping the ECN bits.
    SetDscp(u8),
    /// `tos = (tos & !mask) ^ value`.
    SetTos {
        /// Exclusive-or value.
        value: u8,
        /// Bits cleared first.
        mask: u8,
    },
    /// Set the queueing priority, `major << 16 | minor`.
    Classify(u32),
    /// Lower the maximum segment size option of a SYN.
    TcpMss(MssOp),
    /// Change the TTL or hop limit, where the packet leaves.
    Ttl(TtlOp),
    /// Add the packet's fields to a set.
    SetAdd {
        /// The set.
        set: SetId,
        /// Which packet fields, in the set's order of dimensions.
        fields: Vec<SetField>,
        /// Seconds to keep it, when given.
        timeout: Option<u32>,
        /// Whether an existing entry's timeout is set anew.
        exist: bool,
    },
    /// Delete the packet's fields from a set.
    SetDelete {
        /// The set.
        set: SetId,
        /// Which packet fields, in the set's order of dimensions.
        fields: Vec<SetField>,
    },
}

/// Bits by which a mark is shifted; bits that leave it are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MarkShift {
    /// To the right, not to the left.
    pub right: bool,
    /// How far, 0 to 31.
    pub bits: u8,
}

impl MarkShift {
    /// The shifted mark.
    #[must_use]
    pub fn of(self, mark: u32) -> u32 {
        let bits = u32::from(self.bits);
        let shifted = match self.right {
            true => mark.checked_shr(bits),
            false => mark.checked_shl(bits),
        };
        shifted.unwrap_or(0)
    }
}

/// A record in the format of the kernel's packet log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LogOp {
    /// Syslog level, 0 to 7.
    pub level: u8,
    /// Text in front.
    pub prefix: String,
    /// Print the TCP sequence number.
    pub tcp_sequence: bool,
    /// Print TCP options.
    pub tcp_options: bool,
    /// Print IP options.
    pub ip_options: bool,
    /// Print the owner's user id.
    pub uid: bool,
    /// A packet that can't be logged is dropped.
    pub or_block: bool,
    /// The packet is logged by the rule that decides, for its verdict (IPFilter).
    pub of_verdict: bool,
}

/// A record for a netlink group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NflogOp {
    /// Netlink group.
    pub group: u16,
    /// Text in front.
    pub prefix: String,
    /// Bytes of the packet to copy; 0 means all.
    pub size: u32,
    /// Packets gathered before user space is told.
    pub threshold: u16,
}

/// What happens to the TTL or hop limit; it stays within 0 and 255.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TtlOp {
    /// Becomes this.
    Set(u8),
    /// Becomes larger by this.
    Raise(u8),
    /// Becomes smaller by this.
    Lower(u8),
}

/// What happens to the maximum segment size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MssOp {
    /// Lower to this value (never raised).
    Set(u16),
    /// Lower to the path MTU less headers.
    ClampToPmtu,
}
