//! What packets of established flows meet: a list of its own, for the kernel's short way.
//!
//! In: a flattened root. Out: the list as TCP and UDP packets see it whose flow is established,
//! which in most files ends at one of the first rules. Only packets of [`domain`] may be given to
//! it; for these it says exactly what the whole list says.

use super::flatten::{Entry, Flat};
use super::service::{Bits, Service, ServiceId, Services};
use super::term::Term;
use crate::image::layout::kind_of;
use std::collections::HashMap;

/// Entries looked at. Where established flows meet more, one list serves all packets as well.
const ENTRIES_MAX: usize = 4096;

/// A kind of packet that the list is for.
struct Segment {
    proto: u8,
    kind: u8,
    /// Whether it can have these TCP flags.
    flags: fn(u8) -> bool,
}

/// Number of ESTABLISHED among the states.
const ESTABLISHED: u8 = 2;
/// `enum weir_fragment`: not a fragment.
const WHOLE: u8 = 1;

/// What `bpf/lane.h` takes for packets of established flows: TCP with ACK, without RST, not with
/// both SYN and FIN; UDP. Not fragments.
fn domain() -> [Segment; 2] {
    [
        Segment {
            proto: 6,
            kind: kind_of(3, WHOLE, ESTABLISHED),
            flags: |flags| flags & 0x14 == 0x10 && flags & 3 != 3,
        },
        Segment {
            proto: 17,
            kind: kind_of(4, WHOLE, ESTABLISHED),
            flags: |flags| flags == 0,
        },
    ]
}

/// What a service says about packets of the domain; `None` when it has none of them.
fn narrow(service: &Service) -> Option<Service> {
    let [tcp, udp] = domain().map(|segment| {
        let all = Bits::of(segment.flags);
        let flags = Bits::of(|flags| all.has(flags) && service.flags.has(flags));
        let some = flags.0 != [0; 4];
        let held = service.proto.has(segment.proto) && service.kind.has(segment.kind) && some;
        held.then_some((segment.proto, flags, flags == all))
    });
    let mut out = Service {
        proto: Bits::ALL,
        kind: Bits::ALL,
        flags: Bits::ALL,
        ..service.clone()
    };
    match (tcp, udp) {
        (None, None) => return None,
        (Some((proto, ..)), None) | (None, Some((proto, ..))) => {
            out.proto = Bits::of(|value| value == proto);
        }
        (Some(_), Some(_)) => {}
    }
    if let Some((_, flags, false)) = tcp {
        out.flags = Bits::of(|value| flags.has(value) || (udp.is_some() && value == 0));
    }
    Some(out)
}

/// Whether a service tells established flows from new ones.
fn asks(service: &Service) -> bool {
    domain().iter().any(|segment| {
        let new = segment.kind & 0x1f | 1 << 5;
        service.kind.has(segment.kind) != service.kind.has(new)
    })
}

/// Whether a service holds for some packets of the domain.
pub fn concerns(service: &Service) -> bool {
    narrow(service).is_some()
}

/// The list of a root for packets of the domain; `None` when the root's own is as good. And the
/// last position of the root's own that has a say in it.
pub fn established(flat: &Flat, services: &mut Services) -> Option<(Flat, u32)> {
    let mut narrowed: HashMap<ServiceId, Option<ServiceId>> = HashMap::new();
    let mut out = Flat::default();
    // Number of each entry among those kept, or of the next one kept.
    let mut numbers = Vec::new();
    let (mut reach, mut asked) = (0, false);
    let mut end = flat.entries.len() as u32;
    for (at, entry) in flat.entries.iter().enumerate() {
        if at > ENTRIES_MAX {
            return None;
        }
        numbers.push(out.entries.len() as u32);
        let mut terms = Vec::new();
        for term in flat.terms_of(at) {
            let service = *narrowed.entry(term.service).or_insert_with(|| {
                asked |= asks(services.get(term.service));
                narrow(services.get(term.service)).map(|service| services.number(service))
            });
            terms.extend(service.map(|service| Term {
                service,
                ..term.clone()
            }));
        }
        let policy = at + 1 == flat.entries.len();
        let all = policy || terms.contains(&Term::ANY);
        if all && reach <= at && entry.verdict != 0 && entry.tests.is_empty() {
            // Every packet of the domain that comes here ends here.
            out.push(entry, Vec::new());
            end = at as u32;
            break;
        }
        if terms.is_empty() {
            continue;
        }
        if entry.verdict == 0 {
            reach = reach.max(entry.next_match as usize);
        }
        if !entry.tests.is_empty() {
            reach = reach.max(entry.next_fail as usize);
        }
        out.push(entry, if all { vec![Term::ANY] } else { terms });
    }
    for entry in &mut out.entries {
        for to in [&mut entry.next_match, &mut entry.next_fail] {
            *to = numbers.get(*to as usize).copied().unwrap_or(0);
        }
    }
    asked.then_some((out, end))
}

impl Flat {
    /// Adds a copy of an entry with these terms.
    fn push(&mut self, entry: &Entry, terms: Vec<Term>) {
        self.entries.push(Entry {
            terms_from: self.terms.len(),
            ..entry.clone()
        });
        self.terms.extend(terms);
    }
}
