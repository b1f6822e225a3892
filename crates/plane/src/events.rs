//! Records of packets: LOG and NFLOG, read from the ring buffer `events`.
//!
//! A record names its rule and the number of its policy; the text in front and the options of a
//! LOG rule are the caller's, who has the policy. `logtext` formats a record as the kernel's
//! packet log does.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use weir_engine::packet::Key;
use zerocopy::FromBytes;

use crate::abi;
use crate::error::{Result, system};
use crate::load::Instance;
use crate::plane::Plane;
use crate::sys::ring::Ring;
use crate::sys::{bpf, socket};

/// What a record is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A LOG rule.
    Log,
    /// An NFLOG rule.
    Nflog,
    /// A packet to answer: `enum` of `WEIR_REJECT_*`.
    Reject(u32),
}

/// A packet that a rule reported.
#[derive(Clone, Debug)]
pub struct Event {
    /// Packet clock in milliseconds.
    pub time_ms: u64,
    /// What for.
    pub kind: Kind,
    /// The rule.
    pub rule: u32,
    /// Number of the policy whose rule it is.
    pub policy: u32,
    /// Packet mark.
    pub mark: u32,
    /// User and group of the sending socket.
    pub owner: Option<(u32, u32)>,
    /// Whether the checksum of the transport header is wrong, where rules make states as IPFilter's
    /// do, or ask for such things.
    pub wrong_sum: bool,
    /// Receiving interface; empty for none.
    pub in_iface: String,
    /// Sending interface; empty for none.
    pub out_iface: String,
    /// Link header.
    pub link: Vec<u8>,
    /// The parsed packet.
    pub key: Key,
    /// The packet from the network header on, as far as it was captured.
    pub bytes: Vec<u8>,
    /// Bytes that the packet has.
    pub length: u32,
}

/// `enum weir_event_flag`.
const OWNED: u8 = 1;
const WRONG_SUM: u8 = 2;

fn name(bytes: &[u8; 16]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

impl Event {
    /// Read a record; `None` when it is not one.
    pub fn from_record(record: &[u8]) -> Option<Event> {
        let (raw, _) = abi::Event::read_from_prefix(record).ok()?;
        let kind = match raw.kind {
            1 => Kind::Log,
            2 => Kind::Nflog,
            3 => Kind::Reject(raw.op),
            _ => return None,
        };
        Some(Event {
            time_ms: raw.time_ms,
            kind,
            rule: raw.rule,
            policy: raw.generation,
            mark: raw.mark,
            owner: (raw.flags & OWNED != 0).then_some((raw.uid, raw.gid)),
            wrong_sum: raw.flags & WRONG_SUM != 0,
            in_iface: name(&raw.in_name),
            out_iface: name(&raw.out_name),
            link: raw.mac[..usize::from(raw.mac_length).min(raw.mac.len())].to_vec(),
            key: raw.packet,
            bytes: raw.bytes[..usize::from(raw.captured).min(raw.bytes.len())].to_vec(),
            length: raw.skb_length,
        })
    }
}

/// A reader of one of the ring buffers.
#[derive(Debug)]
pub struct Reader {
    fd: OwnedFd,
    ring: Ring,
}

impl Reader {
    /// Read the ring buffer of this name.
    pub(crate) fn open(instance: &Instance, map: &str) -> Result<Reader> {
        let fd = instance
            .map(map)
            .fd
            .try_clone()
            .map_err(system("duplicating a descriptor"))?;
        let (_, size) = bpf::map_size(fd.as_fd()).map_err(system("asking for a map's size"))?;
        let ring = Ring::new(fd.as_fd(), size as usize).map_err(system("mapping a ring buffer"))?;
        Ok(Reader { fd, ring })
    }

    /// Forget what was written before.
    pub fn discard(&self) {
        self.ring.discard();
    }

    /// The descriptor that becomes readable when there are records.
    pub fn descriptor(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Wait at most this long, then hand every record to `work`; `false` from it stops. Returns
    /// how many there were.
    pub fn read(&mut self, wait: Duration, mut work: impl FnMut(Event) -> bool) -> Result<usize> {
        let milliseconds = wait.as_millis().min(60_000) as i32;
        socket::wait(&[self.fd.as_fd()], milliseconds).map_err(system("waiting for records"))?;
        Ok(self.consume(usize::MAX, &mut work))
    }

    /// Hand the records that are there to `work`, at most `limit`.
    pub(crate) fn consume(&mut self, limit: usize, mut work: impl FnMut(Event) -> bool) -> usize {
        self.ring
            .consume(limit, |record| match Event::from_record(record) {
                Some(event) => work(event),
                None => true,
            })
    }
}

impl Plane {
    /// The reader of LOG and NFLOG records. One process at a time may read.
    pub fn events(&self) -> Result<Reader> {
        Reader::open(self.instance()?, "events")
    }
}
