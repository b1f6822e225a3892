//! Classes that packets wait in: an HTB discipline of ours on interfaces.
//!
//! In: a [`Shape`]. Out: it stands on its interfaces, or nothing is changed. A discipline is known
//! as ours by its handle; one that somebody put on an interface is never touched, and having one is
//! an error. The kernel keeps ours until it is taken away, whoever dies. Packets of other
//! priorities pass by all classes, in the order in which they come.
//!
//! Rates are of packets from the network header on, as dummynet counts; the link header of Ethernet
//! is taken off by the discipline. Source: tc-htb(8), tc-stab(8), linux/pkt_sched.h.

use std::collections::BTreeMap;

use weir_policy::model::{Class, HANDLE, MeterRoom, Shape};

use crate::error::{PlaneError, Result, system};
use crate::plane::Plane;
use crate::sys::route::{CREATE, DUMP, EXCLUSIVE, Message, REPLACE, Route, attributes};

const NEW_QDISC: u16 = 36;
const DELETE_QDISC: u16 = 37;
const GET_QDISC: u16 = 38;
const NEW_CLASS: u16 = 40;
const DELETE_CLASS: u16 = 41;
const GET_CLASS: u16 = 42;
const GET_LINK: u16 = 18;
/// `struct tcmsg`.
const TCMSG: usize = 20;
/// `struct ifinfomsg`.
const IFINFOMSG: usize = 16;
const ROOT: u32 = u32::MAX;
const OUR_ROOT: u32 = (HANDLE as u32) << 16;
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
const STATISTICS: u16 = 7;
const TABLE_OF_SIZES: u16 = 8;
const LINK_NAME: u16 = 3;
/// ARPHRD_ETHER.
const ETHERNET: u16 = 1;
const ETHERNET_HEADER: i32 = 14;
/// Packets that don't wait may be so many at once on an interface that had no queue.
const DIRECT_PACKETS: u32 = 1000;
/// Bytes that always leave at once: a packet, and some more, so that no rate is lost to timers.
const BURST: u64 = 1600;
/// Bytes a turn of the class with the least weight.
const TURN: u32 = 1600;
const TURN_MAX: u32 = 200_000;

/// A link.
#[derive(Clone, Debug)]
struct Link {
    index: u32,
    name: String,
    kind: u16,
}

/// What stands at the root of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Root {
    /// The kernel's own choice.
    Usual,
    /// Ours.
    Ours,
    /// Somebody's: words for it.
    Foreign(String),
}

/// A class as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassState {
    /// Interface.
    pub interface: String,
    /// Its number.
    pub number: u16,
    /// The class above it; 0: none.
    pub parent: u16,
    /// Packets and bytes that left.
    pub sent: (u64, u64),
    /// Packets that found no room.
    pub dropped: u64,
    /// Packets and bytes that wait.
    pub waiting: (u32, u32),
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    four.map_or(0, u32::from_ne_bytes)
}

fn wide(bytes: &[u8], at: usize) -> u64 {
    let eight = bytes
        .get(at..at + 8)
        .and_then(|eight| eight.try_into().ok());
    eight.map_or(0, u64::from_ne_bytes)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .trim_end_matches('\0')
        .to_owned()
}

fn attribute(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes)
        .find(|(kind, _)| *kind == wanted)
        .map(|(_, value)| value)
}

/// `struct tcmsg`: interface, handle, parent.
fn tcmsg(index: u32, handle: u32, parent: u32) -> [u8; TCMSG] {
    let mut out = [0; TCMSG];
    for (at, value) in [(4, index), (8, handle), (12, parent)] {
        out[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    out
}

/// The disciplines of a namespace.
struct Disciplines {
    route: Route,
    links: Vec<Link>,
}

impl Disciplines {
    /// Must be called inside the namespace.
    fn open() -> Result<Disciplines> {
        let route = Route::open().map_err(system("opening a netlink socket"))?;
        let request = Message::new(GET_LINK, DUMP, &[0; IFINFOMSG]);
        let found = route.ask(&request).map_err(system("listing interfaces"))?;
        let link = |answer: &Vec<u8>| {
            Some(Link {
                index: word(answer, 4),
                kind: word(answer, 0).to_ne_bytes()[2..]
                    .try_into()
                    .map(u16::from_ne_bytes)
                    .ok()?,
                name: text(attribute(answer.get(IFINFOMSG..)?, LINK_NAME)?),
            })
        };
        let links = found.iter().filter_map(link).collect();
        Ok(Disciplines { route, links })
    }

    fn ask(&self, message: &Message, action: &'static str) -> Result<Vec<Vec<u8>>> {
        self.route.ask(message).map_err(system(action))
    }

    /// What stands at the root of every interface.
    fn roots(&self) -> Result<BTreeMap<u32, Root>> {
        let request = Message::new(GET_QDISC, DUMP, &tcmsg(0, 0, 0));
        let found = self.ask(&request, "listing queueing disciplines")?;
        let mut out = BTreeMap::new();
        for answer in found {
            if word(&answer, 12) != ROOT {
                continue;
            }
            let handle = word(&answer, 8);
            let rest = answer.get(TCMSG..).unwrap_or_default();
            let kind = text(attribute(rest, KIND).unwrap_or_default());
            let root = match (handle, kind.as_str()) {
                (0, _) => Root::Usual,
                (OUR_ROOT, "htb") => Root::Ours,
                _ => Root::Foreign(format!("{kind} {:x}:", handle >> 16)),
            };
            out.insert(word(&answer, 4), root);
        }
        Ok(out)
    }

    /// Interfaces that a shape is for.
    fn wanted(&self, shape: &Shape) -> Vec<&Link> {
        let is_wanted = |link: &&Link| match &shape.interfaces {
            Some(names) => names.contains(&link.name),
            None => link.name != "lo",
        };
        self.links.iter().filter(is_wanted).collect()
    }

    fn add_root(&self, link: &Link) -> Result<()> {
        // struct tc_htb_glob: version, ..., no class for packets that have none.
        let mut start = [0; 20];
        start[..4].copy_from_slice(&3u32.to_ne_bytes());
        start[4..8].copy_from_slice(&10u32.to_ne_bytes());
        let mut message = Message::new(
            NEW_QDISC,
            CREATE | EXCLUSIVE,
            &tcmsg(link.index, OUR_ROOT, ROOT),
        )
        .with(KIND, b"htb\0")
        .with_nested(OPTIONS, &[(2, &start), (5, &DIRECT_PACKETS.to_ne_bytes())]);
        if link.kind == ETHERNET {
            // struct tc_sizespec: four bytes, then the overhead.
            let mut sizes = [0; 24];
            sizes[4..8].copy_from_slice(&(-ETHERNET_HEADER).to_ne_bytes());
            message = message.with_nested(TABLE_OF_SIZES, &[(1, &sizes)]);
        }
        self.ask(&message, "putting a queueing discipline on an interface")?;
        Ok(())
    }

    fn delete_root(&self, index: u32) -> Result<()> {
        let message = Message::new(DELETE_QDISC, 0, &tcmsg(index, OUR_ROOT, ROOT));
        self.ask(&message, "taking a queueing discipline off an interface")?;
        Ok(())
    }

    fn put_class(&self, link: &Link, class: &Class, least: u32) -> Result<()> {
        let at = tcmsg(link.index, handle(class.number), handle(class.parent));
        let (rate, most) = ((class.rate / 8).max(1), (class.most / 8).max(1));
        let options = htb_options(class, least);
        let mut inner: Vec<(u16, &[u8])> = vec![(1, &options)];
        let wide = [rate.to_ne_bytes(), most.to_ne_bytes()];
        for (kind, bytes, value) in [(6, &wide[0], rate), (7, &wide[1], most)] {
            if value > u64::from(u32::MAX) {
                inner.push((kind, bytes));
            }
        }
        let message = Message::new(NEW_CLASS, CREATE, &at)
            .with(KIND, b"htb\0")
            .with_nested(OPTIONS, &inner);
        self.ask(&message, "adding a class to a queueing discipline")?;
        let Some(queue) = class.queue else {
            return Ok(());
        };
        let (kind, limit) = match queue {
            MeterRoom::Packets(packets) => (b"pfifo\0", packets),
            MeterRoom::Bytes(bytes) => (b"bfifo\0", bytes),
        };
        // Its own handle is the kernel's to choose.
        let at = tcmsg(link.index, 0, handle(class.number));
        let message = Message::new(NEW_QDISC, CREATE | REPLACE, &at)
            .with(KIND, kind)
            .with(OPTIONS, &limit.max(1).to_ne_bytes());
        self.ask(&message, "giving a class its queue")?;
        Ok(())
    }

    fn classes(&self, link: &Link) -> Result<Vec<ClassState>> {
        let request = Message::new(GET_CLASS, DUMP, &tcmsg(link.index, 0, 0));
        let found = self.ask(&request, "listing classes")?;
        let state = |answer: &Vec<u8>| {
            let (of, parent) = (word(answer, 8), word(answer, 12));
            if of >> 16 != u32::from(HANDLE) {
                return None;
            }
            let rest = answer.get(TCMSG..).unwrap_or_default();
            let counts = attribute(rest, STATISTICS).unwrap_or_default();
            let basic = attribute(counts, 1).unwrap_or_default();
            let basic64 = attribute(counts, 8);
            let queue = attribute(counts, 3).unwrap_or_default();
            Some(ClassState {
                interface: link.name.clone(),
                number: of as u16,
                parent: if parent == ROOT { 0 } else { parent as u16 },
                sent: (
                    basic64.map_or(u64::from(word(basic, 8)), |packets| wide(packets, 0)),
                    wide(basic, 0),
                ),
                waiting: (word(queue, 0), word(queue, 4)),
                dropped: u64::from(word(queue, 8)),
            })
        };
        Ok(found.iter().filter_map(state).collect())
    }

    fn delete_class(&self, link: &Link, number: u16) -> Result<()> {
        let at = tcmsg(link.index, handle(number), 0);
        self.ask(&Message::new(DELETE_CLASS, 0, &at), "removing a class")?;
        Ok(())
    }

    /// Gives one interface the classes; those that a class must not stand below any more go first.
    fn put(&self, link: &Link, is_ours: bool, shape: &Shape) -> Result<()> {
        if !is_ours {
            self.add_root(link)?;
        }
        let parent = |number: u16| {
            let class = shape.classes.iter().find(|class| class.number == number);
            class.map(|class| class.parent)
        };
        let present = self.classes(link)?;
        for lower in [true, false] {
            let moved = present.iter().filter(|state| (state.parent != 0) == lower);
            for state in
                moved.filter(|state| parent(state.number).is_some_and(|p| p != state.parent))
            {
                self.delete_class(link, state.number)?;
            }
        }
        let least = shape.classes.iter().map(|class| class.weight).min();
        for class in &shape.classes {
            self.put_class(link, class, least.unwrap_or(1))?;
        }
        Ok(())
    }

    /// Takes away what a shape does not have.
    fn tidy(&self, shape: Option<&Shape>) -> Result<()> {
        let roots = self.roots()?;
        let wanted: Vec<u32> = shape
            .map(|shape| self.wanted(shape))
            .unwrap_or_default()
            .iter()
            .map(|link| link.index)
            .collect();
        for link in self
            .links
            .iter()
            .filter(|link| roots.get(&link.index) == Some(&Root::Ours))
        {
            let Some(shape) = shape.filter(|_| wanted.contains(&link.index)) else {
                self.delete_root(link.index)?;
                continue;
            };
            let gone = |state: &&ClassState| {
                shape
                    .classes
                    .iter()
                    .all(|class| class.number != state.number)
            };
            let present = self.classes(link)?;
            for lower in [true, false] {
                let these = present.iter().filter(|state| (state.parent != 0) == lower);
                for state in these.filter(gone) {
                    self.delete_class(link, state.number)?;
                }
            }
        }
        Ok(())
    }
}

fn handle(number: u16) -> u32 {
    OUR_ROOT | u32::from(number)
}

/// `struct tc_htb_opt`: two rates, two bursts in units of 64 ns, the turn.
fn htb_options(class: &Class, least: u32) -> [u8; 44] {
    /// Linux knows the length of frames without a table.
    const LINK_LAYER: u8 = 1;
    let mut out = [0; 44];
    let bytes = [(class.rate / 8).max(1), (class.most / 8).max(1)];
    let burst = u128::from(class.burst + BURST);
    for (at, rate) in [0, 12].into_iter().zip(bytes) {
        out[at + 1] = LINK_LAYER;
        let rate = u32::try_from(rate).unwrap_or(u32::MAX);
        out[at + 8..at + 12].copy_from_slice(&rate.to_ne_bytes());
    }
    for (at, rate) in [24, 28].into_iter().zip(bytes) {
        let ticks = burst * 1_000_000_000 / u128::from(rate) / 64;
        let ticks = u32::try_from(ticks.max(1)).unwrap_or(u32::MAX);
        out[at..at + 4].copy_from_slice(&ticks.to_ne_bytes());
    }
    let turn = u64::from(TURN) * u64::from(class.weight) / u64::from(least.max(1));
    let turn = (turn as u32).clamp(TURN, TURN_MAX);
    out[32..36].copy_from_slice(&turn.to_ne_bytes());
    out
}

impl Plane {
    /// Gives interfaces the classes of a shape; others that are there stay until [`Plane::settle`].
    /// After an error everything is as before if `before` is what was there.
    pub fn shape(&self, shape: &Shape, before: Option<&Shape>) -> Result<()> {
        self.enter(|| {
            let all = Disciplines::open()?;
            let roots = all.roots()?;
            let wanted = all.wanted(shape);
            for link in &wanted {
                if let Some(Root::Foreign(what)) = roots.get(&link.index) {
                    return Err(PlaneError::Foreign {
                        interface: link.name.clone(),
                        what: what.clone(),
                    });
                }
            }
            let is_ours = |link: &Link| roots.get(&link.index) == Some(&Root::Ours);
            let put = wanted
                .iter()
                .try_for_each(|link| all.put(link, is_ours(link), shape));
            if put.is_err() {
                if let Some(before) = before {
                    for link in all.wanted(before).into_iter().filter(|link| is_ours(link)) {
                        // The first error is the one to tell.
                        let _ = all.put(link, true, before);
                    }
                }
                let _ = all.tidy(before);
            }
            put
        })
    }

    /// Takes away all classes and disciplines of ours that a shape does not have.
    pub fn settle(&self, shape: Option<&Shape>) -> Result<()> {
        self.enter(|| Disciplines::open()?.tidy(shape))
    }

    /// The classes as they are.
    pub fn classes(&self) -> Result<Vec<ClassState>> {
        self.enter(|| {
            let all = Disciplines::open()?;
            let roots = all.roots()?;
            let mut out = Vec::new();
            for link in all
                .links
                .iter()
                .filter(|link| roots.get(&link.index) == Some(&Root::Ours))
            {
                out.extend(all.classes(link)?);
            }
            Ok(out)
        })
    }
}
