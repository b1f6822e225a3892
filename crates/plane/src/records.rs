//! Records about learned states and limits: made, ended, above a limit. Mirror of `struct
//! learned_record` in `bpf/learned_share_abi.h`.
//!
//! In: the ring buffer `state_records`. Out: records in the order in which they were written. They
//! are written only while somebody reads.

use std::os::fd::AsFd;

use weir_policy::model::Family;
use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::error::{Result, system};
use crate::load::Instance;
use crate::plane::Plane;
use crate::sys::bpf;
use crate::sys::ring::Ring;

/// `struct learned_record`.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Raw {
    time_ms: u64,
    src: [u64; 2],
    dst: [u64; 2],
    counts: [[u64; 2]; 4],
    first_ms: u64,
    exceeded: u64,
    rule: u32,
    generation: u32,
    configured: u32,
    current: u32,
    alerts: u32,
    interface: u32,
    src_port: u16,
    dst_port: u16,
    family: u8,
    proto: u8,
    kind: u8,
    limit: u8,
    tcp_flags: u8,
    padding: [u8; 7],
}

const _: () = assert!(size_of::<Raw>() == 160);

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A state was made.
    New,
    /// Its time was up.
    Expire,
    /// A connection came above a limit.
    Alert,
    /// The last connection of a limit ended.
    Summary,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Packet clock; of the end of a state, when its time was up.
    pub time_ms: u64,
    /// What happened.
    pub kind: Kind,
    /// Family.
    pub family: Family,
    /// Protocol.
    pub proto: u8,
    /// Who began.
    pub source: u128,
    /// With whom.
    pub destination: u128,
    /// Ports; of ICMP the type and the identifier of the query.
    pub ports: (u16, u16),
    /// The rule, of the policy with this number.
    pub rule: u32,
    /// Number of that policy.
    pub generation: u32,
    /// Packets and bytes of a state that ended: in forward, out forward, in reverse, out reverse.
    pub counts: [(u64, u64); 4],
    /// HP's number of the kind of limit.
    pub limit: u8,
    /// Connections at once.
    pub configured: u32,
    /// How many there are.
    pub current: u32,
    /// How many came above the limit.
    pub exceeded: u64,
    /// After how many of these there is a record.
    pub alerts: u32,
    /// When the limit began to count, on the packet clock.
    pub first_ms: u64,
    /// Number of the interface of a connection above its limit.
    pub interface: u32,
    /// TCP flags of that connection.
    pub tcp_flags: u8,
}

impl Record {
    fn of(bytes: &[u8]) -> Option<Self> {
        let (raw, _) = Raw::read_from_prefix(bytes).ok()?;
        let address = |words: [u64; 2]| u128::from(words[0]) << 64 | u128::from(words[1]);
        Some(Record {
            time_ms: raw.time_ms,
            kind: match raw.kind {
                1 => Kind::New,
                2 => Kind::Expire,
                3 => Kind::Alert,
                4 => Kind::Summary,
                _ => return None,
            },
            family: if raw.family == 4 {
                Family::V4
            } else {
                Family::V6
            },
            proto: raw.proto,
            source: address(raw.src),
            destination: address(raw.dst),
            ports: (raw.src_port, raw.dst_port),
            rule: raw.rule,
            generation: raw.generation,
            counts: raw.counts.map(|[packets, bytes]| (packets, bytes)),
            limit: raw.limit,
            configured: raw.configured,
            current: raw.current,
            exceeded: raw.exceeded,
            alerts: raw.alerts,
            first_ms: raw.first_ms,
            interface: raw.interface,
            tcp_flags: raw.tcp_flags,
        })
    }
}

/// Reads records about states. Only one process at a time may.
#[derive(Debug)]
pub struct Reader<'p> {
    instance: &'p Instance,
    ring: Ring,
}

impl<'p> Reader<'p> {
    fn open(instance: &'p Instance) -> Result<Option<Self>> {
        let Some(map) = instance.beside.get(1) else {
            return Ok(None);
        };
        let asking = "asking for a map's size";
        let (_, size) = bpf::map_size(map.fd.as_fd()).map_err(system(asking))?;
        let ring = Ring::new(map.fd.as_fd(), size as usize);
        let ring = ring.map_err(system("mapping a ring buffer"))?;
        ring.discard();
        crate::shares::listen(instance, true);
        Ok(Some(Reader { instance, ring }))
    }

    /// Hands the records that are there to `work`; `false` from it stops. How many there were.
    pub fn read(&mut self, mut work: impl FnMut(Record) -> bool) -> usize {
        self.ring
            .consume(usize::MAX, |bytes| match Record::of(bytes) {
                Some(record) => work(record),
                None => true,
            })
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        crate::shares::listen(self.instance, false);
    }
}

impl Plane {
    /// The reader of records about states; `None` where no rule makes any.
    pub fn state_records(&self) -> Result<Option<Reader<'_>>> {
        Reader::open(self.instance()?)
    }
}

impl crate::testrun::TestRun {
    /// The reader of records about states; `None` for programs that make none.
    pub fn state_records(&self) -> Result<Option<Reader<'_>>> {
        Reader::open(self.instance())
    }
}
