//! Tests that are run when their entry is met, and operations, as the image has them.
//!
//! Whatever is not a classified field: marks, TTL, owners, flow fields, histories. Data that does
//! not fit a [`layout::Test`] goes to a blob; offsets in `at` are relative to it (and one too high,
//! so that 0 stays "none") until the image is laid out.

use super::Error;
use super::dynamic::Directory;
use crate::history::Record;
use crate::image::layout::{self, Test};
use weir_policy::model::{
    AddrMatch, AddrType, ChunkFlags, Cmp, Cond, CtField, DynamicTest, IcmpHeadTest, Lifetimes,
    MarkShift, MssOp, Op, Owner, PacketType, RangeSet, RuleId, Test as ModelTest, TtlOp, handling,
};
use zerocopy::IntoBytes;

/// Data of tests.
#[derive(Debug, Default)]
pub struct Blob {
    /// The bytes; every piece begins at a multiple of 8.
    pub bytes: Vec<u8>,
    /// Parameters of the policy's histories.
    pub records: Vec<Record>,
    /// Parameters of its learners.
    pub learners: Vec<layout::Learner>,
    /// How long its states live.
    pub lifetimes: Lifetimes,
    /// Those of ipfw.
    pub dynamic: Directory,
    /// Where these are, plus one; 0: not yet anywhere.
    pub dynamic_at: u32,
}

impl Blob {
    /// Adds a piece; its offset plus one.
    pub fn add(&mut self, piece: &[u8]) -> u32 {
        let at = self.bytes.len() as u32 + 1;
        self.bytes.extend_from_slice(piece);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        at
    }

    /// The directory of ipfw's rules with states, once; its offset plus one.
    fn directory(&mut self) -> u32 {
        if self.dynamic_at == 0 {
            let bytes = std::mem::take(&mut self.dynamic.bytes);
            self.dynamic_at = self.add(&bytes);
        }
        self.dynamic_at
    }

    pub(super) fn pairs<T>(&mut self, set: &RangeSet<T>) -> (u32, u32)
    where
        T: weir_policy::model::Value + Into<u32>,
    {
        let pairs: Vec<[u32; 2]> = set
            .ranges()
            .iter()
            .map(|r| [r.0.into(), r.1.into()])
            .collect();
        (self.add(pairs.as_bytes()), pairs.len() as u32)
    }
}

fn words(value: u128) -> [u64; 2] {
    [(value >> 64) as u64, value as u64]
}

/// The tests that a condition becomes when it is run.
pub fn tests(test: &ModelTest, rule: RuleId, blob: &mut Blob) -> Result<Vec<Test>, Error> {
    let mut out = Test {
        negate: u8::from(test.negate),
        ..Test::default()
    };
    let mut all = Vec::new();
    let unsupported = |what| Error::Unsupported { what, rule };
    match &test.cond {
        Cond::Mark { value, mask } => (out.kind, out.a, out.b) = (layout::TEST_MARK, *value, *mask),
        Cond::State(mask) => (out.kind, out.a) = (layout::TEST_STATE, u32::from(mask.0)),
        Cond::ProposedBy(by) => (out.kind, out.a) = (layout::TEST_PROPOSED, by.0),
        Cond::Ipsec { .. } | Cond::RouteBack { .. } | Cond::ReversePath(_) => {
            of_kernel(&test.cond, &mut out);
        }
        Cond::Connmark { value, mask } => {
            (out.kind, out.a, out.b) = (layout::TEST_CONNMARK, *value, *mask);
        }
        Cond::Src(AddrMatch::Masked { value, mask }) => {
            out.kind = layout::TEST_SRC_MASKED;
            out.at = blob.add([words(*value), words(*mask)].as_bytes());
        }
        Cond::Dst(AddrMatch::Masked { value, mask }) => {
            out.kind = layout::TEST_DST_MASKED;
            out.at = blob.add([words(*value), words(*mask)].as_bytes());
        }
        Cond::Mac([a, b, c, d, e, f]) => {
            out.kind = layout::TEST_MAC;
            out.small = u16::from_be_bytes([*a, *b]);
            out.a = u32::from_be_bytes([*c, *d, *e, *f]);
        }
        Cond::PacketType(kind) => {
            (out.kind, out.a) = (layout::TEST_PACKET_TYPE, packet_type(*kind));
        }
        Cond::SrcType(kinds) => (out.kind, out.a) = (layout::TEST_SRC_TYPE, address_types(kinds)),
        Cond::DstType(kinds) => (out.kind, out.a) = (layout::TEST_DST_TYPE, address_types(kinds)),
        Cond::Owner(owner) => {
            out.kind = layout::TEST_OWNER;
            (out.small, out.a, out.b) = owner_numbers(*owner);
        }
        Cond::Aside(aside) => super::aside::test(aside, &mut out, blob).map_err(unsupported)?,
        Cond::Length(_) | Cond::Ttl(_) | Cond::Dscp(_) | Cond::Tos { .. } | Cond::EcnIp(_) => {
            of_ip(&test.cond, &mut out, blob)
        }
        Cond::TcpOption(kind) => {
            all.push(malformed());
            (out.kind, out.a) = (layout::TEST_TCP_OPTION, u32::from(*kind));
        }
        Cond::TcpMss(set) => {
            all.push(malformed());
            out.kind = layout::TEST_TCP_MSS;
            (out.at, out.count) = blob.pairs(set);
        }
        Cond::AhSpi(set) | Cond::EspSpi(set) => {
            out.kind = layout::TEST_SPI;
            (out.at, out.count) = blob.pairs(set);
        }
        Cond::SctpChunks { kind, types, flags } => {
            (out.kind, out.small) = (layout::TEST_SCTP, u16::from(*kind));
            (out.at, out.count) = chunks(types, flags, blob)
                .ok_or_else(|| unsupported("flags of so many types of chunks"))?;
        }
        Cond::RoutingHeader { kind, segments } => {
            (out.kind, out.small) = (layout::TEST_ROUTING, kind.map_or(256, u16::from));
            (out.a, out.b) = *segments;
        }
        Cond::Ct(field) => flow_field(field, &mut out, blob).map_err(unsupported)?,
        Cond::Learned | Cond::Learn(_) | Cond::OutOfWindow | Cond::IpfWith(_) => {
            of_states(&test.cond, &mut out, blob);
        }
        Cond::IcmpHead(test) => of_errors(*test, &mut out),
        Cond::Dynamic(test) => of_flows(*test, &mut out, blob),
        Cond::History(id) => {
            (out.kind, out.a) = (layout::TEST_HISTORY, id.0);
            let record = blob.records[id.0 as usize];
            out.at = blob.add(record.as_bytes());
        }
        _ => return Err(unsupported("a condition on a classified field")),
    }
    all.push(out);
    Ok(all)
}

/// Types of chunks, and behind them [`layout::CHUNK_FLAGS_MAX`] rows of flags: where they are, and
/// how many rows are used.
fn chunks(types: &[u64; 4], flags: &[ChunkFlags], blob: &mut Blob) -> Option<(u32, u32)> {
    let mut rows = [0u32; layout::CHUNK_FLAGS_MAX];
    let places = rows.get_mut(..flags.len())?;
    for (place, row) in places.iter_mut().zip(flags) {
        *place = u32::from_le_bytes([row.kind, row.mask, row.value, 0]);
    }
    let bytes = [types.as_bytes(), rows.as_bytes()].concat();
    Some((blob.add(&bytes), flags.len() as u32))
}

/// Tests of the IP header.
fn of_ip(cond: &Cond, out: &mut Test, blob: &mut Blob) {
    out.kind = layout::TEST_TOS;
    match cond {
        Cond::Length(set) => {
            out.kind = layout::TEST_LENGTH;
            (out.at, out.count) = blob.pairs(set);
        }
        Cond::Ttl(compare) => {
            out.kind = layout::TEST_TTL;
            (out.small, out.a) = comparison(*compare);
        }
        Cond::Dscp(value) => (out.a, out.b) = (u32::from(*value) << 2, 0xfc),
        Cond::Tos { value, mask } => (out.a, out.b) = (u32::from(*value), u32::from(*mask)),
        Cond::EcnIp(value) => (out.a, out.b) = (u32::from(*value), 3),
        _ => {}
    }
}

/// How to compare, and with what.
fn comparison(compare: Cmp) -> (u16, u32) {
    match compare {
        Cmp::Eq(value) => (0, u32::from(value)),
        Cmp::Lt(value) => (1, u32::from(value)),
        Cmp::Gt(value) => (2, u32::from(value)),
    }
}

/// Tests of states that rules made, and of what IPFilter sees.
fn of_states(cond: &Cond, out: &mut Test, blob: &mut Blob) {
    out.kind = match cond {
        Cond::Learned => layout::TEST_LEARNED,
        Cond::Learn(_) => layout::TEST_LEARN,
        Cond::IpfWith(_) => layout::TEST_IPF_WITH,
        _ => layout::TEST_OUT_OF_WINDOW,
    };
    if let Cond::IpfWith(with) = cond {
        let record = layout::IpfWith {
            attributes: with.attributes.into(),
            options: with.options.into(),
            classes: with.classes.into(),
            headers: [with.headers, with.no_headers],
            ..layout::IpfWith::default()
        };
        out.at = blob.add(record.as_bytes());
    }
    if *cond == Cond::Learned {
        let own = blob.lifetimes;
        let record = layout::Lifetimes {
            tcp: own.tcp,
            udp: [own.udp, own.udp_reply],
            icmp: [own.icmp, own.icmp_reply],
            other: own.other,
            fragment: own.fragment,
        };
        out.at = blob.add(record.as_bytes());
    }
    if let (Cond::Learn(id), false) = (cond, blob.dynamic.places.is_empty()) {
        out.kind = layout::TEST_DYNAMIC_NOTE;
        (out.a, out.b) = (blob.dynamic.places[id.0 as usize], id.0);
        out.at = blob.directory();
    } else if let Cond::Learn(id) = cond {
        let record = blob.learners[id.0 as usize];
        (out.a, out.at) = (id.0, blob.add(record.as_bytes()));
    }
}

/// Questions about ICMP errors that groups judge.
fn of_errors(test: IcmpHeadTest, out: &mut Test) {
    out.kind = layout::TEST_ICMP_HEAD;
    (out.small, out.a) = match test {
        IcmpHeadTest::Waits => (layout::ICMP_HEAD_WAITS, 0),
        IcmpHeadTest::WaitsFor(group) => (layout::ICMP_HEAD_WAITS, group.into()),
        IcmpHeadTest::Refused => (layout::ICMP_HEAD_REFUSED, 0),
        IcmpHeadTest::Passes => (layout::ICMP_HEAD_PASSES, 0),
        IcmpHeadTest::Blocked => (layout::ICMP_HEAD_BLOCKED, 0),
    };
}

/// Questions about ipfw's states.
fn of_flows(test: DynamicTest, out: &mut Test, blob: &mut Blob) {
    (out.kind, out.a, out.at) = match test {
        DynamicTest::Look(name) => (layout::TEST_DYNAMIC_LOOK, name, blob.directory()),
        DynamicTest::Of(rule) => (layout::TEST_DYNAMIC_OF, rule.0, 0),
        DynamicTest::Forget => (layout::TEST_DYNAMIC_FORGET, 0, 0),
    };
}

/// What the kernel does with the packet beside the filter.
fn of_kernel(cond: &Cond, out: &mut Test) {
    let (bit, marked) = match cond {
        Cond::RouteBack { loose, marked } => match loose {
            true => (handling::ROUTE_BACK_LOOSE, *marked),
            false => (handling::ROUTE_BACK, *marked),
        },
        Cond::ReversePath(of) => (of.bit(), false),
        Cond::Ipsec { out: true } => (handling::IPSEC_OUT, false),
        _ => (handling::IPSEC_IN, false),
    };
    out.kind = layout::TEST_HANDLING;
    (out.a, out.b) = (u32::from(bit), u32::from(marked));
}

fn owner_numbers(owner: Owner) -> (u16, u32, u32) {
    match owner {
        Owner::Uid(ids) => (1, ids.first, ids.last),
        Owner::Gid(ids) => (2, ids.first, ids.last),
    }
}

fn malformed() -> Test {
    Test {
        kind: layout::TEST_MALFORMED,
        ..Test::default()
    }
}

fn packet_type(kind: PacketType) -> u32 {
    match kind {
        PacketType::Unicast => 0,
        PacketType::Broadcast => 1,
        PacketType::Multicast => 2,
        PacketType::OtherHost => 3,
        PacketType::Outgoing => 4,
    }
}

fn address_types(kinds: &[AddrType]) -> u32 {
    let bit = |kind: &AddrType| match kind {
        AddrType::Local => 1,
        AddrType::Broadcast => 2,
        AddrType::Multicast => 4,
        AddrType::Unicast => 8,
        AddrType::Unspecified => 16,
        AddrType::Anycast => 32,
    };
    kinds.iter().map(bit).fold(0, |all, bit| all | bit)
}

fn flow_field(field: &CtField, out: &mut Test, blob: &mut Blob) -> Result<(), &'static str> {
    out.kind = layout::TEST_CT;
    let (small, addresses, ports) = match field {
        CtField::Proto(proto) => {
            (out.small, out.a, out.b) = (layout::CT_PROTO, u32::from(*proto), u32::from(*proto));
            return Ok(());
        }
        CtField::Status(bits) => {
            (out.small, out.a) = (layout::CT_STATUS, u32::from(*bits));
            return Ok(());
        }
        CtField::Expire(first, last) => {
            (out.small, out.a, out.b) = (layout::CT_EXPIRE, *first, *last);
            return Ok(());
        }
        CtField::Original(original) => {
            (out.small, out.a) = (layout::CT_DIRECTION, u32::from(*original));
            return Ok(());
        }
        CtField::OrigSrc(set) => (layout::CT_ORIG_SRC, Some(set), None),
        CtField::OrigDst(set) => (layout::CT_ORIG_DST, Some(set), None),
        CtField::ReplSrc(set) => (layout::CT_REPL_SRC, Some(set), None),
        CtField::ReplDst(set) => (layout::CT_REPL_DST, Some(set), None),
        CtField::OrigSrcPort(set) => (layout::CT_ORIG_SRC_PORT, None, Some(set)),
        CtField::OrigDstPort(set) => (layout::CT_ORIG_DST_PORT, None, Some(set)),
        CtField::ReplSrcPort(set) => (layout::CT_REPL_SRC_PORT, None, Some(set)),
        CtField::ReplDstPort(set) => (layout::CT_REPL_DST_PORT, None, Some(set)),
    };
    out.small = small;
    match (addresses, ports) {
        (Some(AddrMatch::Ranges(set)), _) => {
            let pairs: Vec<[[u64; 2]; 2]> = set
                .ranges()
                .iter()
                .map(|r| [words(r.0), words(r.1)])
                .collect();
            (out.at, out.count) = (blob.add(pairs.as_bytes()), pairs.len() as u32);
        }
        (Some(AddrMatch::Masked { value, mask }), _) => {
            // Marked by `b`: one pair of value and mask.
            out.at = blob.add([words(*value), words(*mask)].as_bytes());
            (out.count, out.b) = (1, 1);
        }
        (None, Some(set)) => (out.at, out.count) = blob.pairs(set),
        (None, None) => return Err("a flow field"),
    }
    Ok(())
}

/// How far a mark is shifted, as the image has it.
fn mark_shift(shift: MarkShift) -> u8 {
    match shift.right {
        true => shift.bits | layout::SHIFT_RIGHT,
        false => shift.bits,
    }
}

/// An operation as the image has it.
pub fn operation(op: &Op, rule: RuleId, index: usize) -> layout::Op {
    let (kind, small, a, b) = match op {
        Op::Log(log) => {
            let (verdict, or_block) = (log.of_verdict.into(), log.or_block.into());
            (layout::OP_LOG, log.level, verdict, or_block)
        }
        Op::Nflog(log) => (layout::OP_NFLOG, 0, u32::from(log.group), log.size),
        Op::SetMark { value, mask } => (layout::OP_MARK, 0, *value, *mask),
        Op::SetConnmark { value, mask, shift } => {
            (layout::OP_CONNMARK, mark_shift(*shift), *value, *mask)
        }
        Op::SaveConnmark {
            nf_mask,
            ct_mask,
            shift,
        } => (layout::OP_SAVE_MARK, mark_shift(*shift), *nf_mask, *ct_mask),
        Op::RestoreConnmark {
            nf_mask,
            ct_mask,
            shift,
        } => (
            layout::OP_RESTORE_MARK,
            mark_shift(*shift),
            *nf_mask,
            *ct_mask,
        ),
        Op::Notrack => (layout::OP_NOTRACK, 0, 0, 0),
        Op::SetDscp(dscp) => (layout::OP_TOS, 0, u32::from(*dscp) << 2, 0xfc),
        Op::SetTos { value, mask } => (layout::OP_TOS, 0, u32::from(*value), u32::from(*mask)),
        Op::Classify(priority) => (layout::OP_CLASSIFY, 0, *priority, 0),
        Op::TcpMss(MssOp::Set(mss)) => (layout::OP_MSS, 0, u32::from(*mss), 0),
        Op::TcpMss(MssOp::ClampToPmtu) => (layout::OP_MSS, 1, 0, 0),
        Op::Ttl(TtlOp::Set(value)) => (layout::OP_TTL, 0, u32::from(*value), 0),
        Op::Ttl(TtlOp::Raise(by)) => (layout::OP_TTL, 1, u32::from(*by), 0),
        Op::Ttl(TtlOp::Lower(by)) => (layout::OP_TTL, 1, u32::from(*by).wrapping_neg(), 0),
        Op::SetAdd { set, .. } => (layout::OP_SET_ADD, 0, set.0, 0),
        Op::SetDelete { set, .. } => (layout::OP_SET_DELETE, 0, set.0, 0),
    };
    layout::Op {
        kind,
        small,
        index: index as u16,
        rule: rule.0,
        a,
        b,
    }
}
