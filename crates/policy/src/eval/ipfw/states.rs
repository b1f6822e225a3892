//! Dynamic states: flows that rules noted, their lifetimes, and limits.
//!
//! In: flows of packets, names, the time. Out: the rule that noted a flow, or whether one could be
//! noted. A state knows protocol, addresses, ports and its name, nothing else: neither interface
//! nor direction nor sequence numbers nor ICMP types.
//!
//! Times are whole seconds, as in the original, and states go when their second has come.
//! Source: the behaviour of FreeBSD 13's dynamic states.

use super::packet::{Packet, proto};
use crate::dialect::ipfw::Settings;
use crate::dialect::ipfw::print::listing::StateLine;
use crate::model::{Family, RuleId};
use std::collections::HashMap;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;

/// What states are known by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowKey {
    /// Family.
    pub family: Family,
    /// Protocol.
    pub proto: u8,
    /// Source address and port.
    pub src: (u128, u16),
    /// Destination address and port.
    pub dst: (u128, u16),
    /// Interface, only where addresses mean nothing without it (IPv6 link-local).
    pub zone: String,
}

impl FlowKey {
    /// The flow of a packet; `None` for frames that are not IP.
    #[must_use]
    pub fn of(packet: &Packet) -> Option<Self> {
        let ip = packet.ip.as_ref()?;
        let ports = packet.ports().unwrap_or((0, 0));
        let local = |address: u128| ip.family == Family::V6 && address >> 118 == 0xfe80 >> 6;
        let zone = match local(ip.src) || local(ip.dst) {
            true => packet.interface().to_owned(),
            false => String::new(),
        };
        Some(Self {
            family: ip.family,
            proto: ip.proto,
            src: (ip.src, ports.0),
            dst: (ip.dst, ports.1),
            zone,
        })
    }

    fn reversed(&self) -> Self {
        Self {
            src: self.dst,
            dst: self.src,
            ..self.clone()
        }
    }

    /// The same for both directions.
    fn bucket(&self) -> Self {
        self.clone().min(self.reversed())
    }
}

/// Direction of a packet within a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As the first packet.
    Forward,
    /// The other way.
    Reverse,
}

/// The fields of `limit` that flows share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ParentKey {
    rule: RuleId,
    flow: FlowKey,
}

#[derive(Clone, Debug)]
struct Parent {
    number: u32,
    set: u8,
    flow: String,
    count: u32,
    expire: u64,
}

#[derive(Clone, Debug)]
struct State {
    key: FlowKey,
    name: String,
    rule: RuleId,
    number: u32,
    set: u8,
    parent: Option<ParentKey>,
    expire: u64,
    /// Flags seen forward.
    forward: u8,
    /// Flags seen backward.
    reverse: u8,
    acked_forward: bool,
    acked_reverse: bool,
    ack_forward: u32,
    ack_reverse: u32,
    packets: u64,
    bytes: u64,
}

/// A noted flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The rule that noted it.
    pub rule: RuleId,
    /// Direction of the packet.
    pub way: Way,
}

/// All states.
#[derive(Clone, Debug, Default)]
pub struct States {
    /// By flow; the newest first, as they are found first.
    flows: HashMap<FlowKey, Vec<State>>,
    parents: HashMap<ParentKey, Parent>,
    count: u32,
}

/// A packet's part in a state.
pub struct Touch<'p> {
    /// The packet.
    pub packet: &'p Packet,
    /// Seconds.
    pub now: u64,
}

impl States {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Forgets states and limits whose time has come.
    pub fn expire(&mut self, now: u64) {
        let (parents, mut gone) = (&mut self.parents, 0);
        for list in self.flows.values_mut() {
            list.retain(|state| {
                let stays = state.expire > now;
                if !stays {
                    gone += 1;
                    if let Some(parent) = state.parent.as_ref().and_then(|p| parents.get_mut(p)) {
                        parent.count -= 1;
                    }
                }
                stays
            });
        }
        self.count -= gone;
        if gone > 0 {
            self.flows.retain(|_, list| !list.is_empty());
        }
        self.parents
            .retain(|_, parent| parent.count > 0 || parent.expire > now);
    }

    /// Forgets the states of rules for which `dead` holds.
    pub fn forget(&mut self, dead: impl Fn(RuleId) -> bool) {
        let mut gone = 0;
        for list in self.flows.values_mut() {
            list.retain(|state| {
                gone += u32::from(dead(state.rule));
                !dead(state.rule)
            });
        }
        self.count -= gone;
        self.flows.retain(|_, list| !list.is_empty());
        self.parents.retain(|key, _| !dead(key.rule));
    }

    /// Looks a packet's flow up under a name (`None`: any) and refreshes what is found. With
    /// `dyn_icmp_errors` an ICMP error that has no state of its own is found by that of the packet
    /// it quotes, whichever way that went, and refreshes nothing.
    pub fn look(
        &mut self,
        name: Option<&str>,
        touch: &Touch<'_>,
        settings: &Settings,
        usable: impl Fn(RuleId) -> bool,
    ) -> Option<Hit> {
        let key = FlowKey::of(touch.packet)?;
        if let Some(state) = self.find(name, &key) {
            let way = state.way(&key);
            if !usable(state.rule) {
                return None;
            }
            state.update(touch, way, settings);
            return Some(Hit {
                rule: state.rule,
                way,
            });
        }
        let quoted = touch.packet.quoted.as_ref();
        let key = FlowKey::of(quoted.filter(|_| settings.dyn_icmp_errors)?)?;
        let state = self.find(name, &key)?;
        // The error goes against the packet that it quotes.
        let way = match state.way(&key) {
            Way::Forward => Way::Reverse,
            Way::Reverse => Way::Forward,
        };
        let rule = state.rule;
        usable(rule).then_some(Hit { rule, way })
    }

    /// The newest state of a flow under a name (`None`: any).
    fn find(&mut self, name: Option<&str>, key: &FlowKey) -> Option<&mut State> {
        let list = self.flows.get_mut(&key.bucket())?;
        list.iter_mut()
            .find(|state| name.is_none_or(|name| state.name == name) && state.is_of(key))
    }

    /// Whether a state of this name and flow exists; refreshes it.
    fn exists(
        &mut self,
        name: &str,
        key: &FlowKey,
        touch: &Touch<'_>,
        settings: &Settings,
    ) -> bool {
        let Some(list) = self.flows.get_mut(&key.bucket()) else {
            return false;
        };
        let found = list
            .iter_mut()
            .find(|state| state.name == name && state.is_of(key));
        match found {
            None => false,
            Some(state) => {
                let way = state.way(key);
                state.update(touch, way, settings);
                true
            }
        }
    }

    /// Notes a packet's flow for a rule; `false` when it can't be, which is a denial.
    ///
    /// `look_first`: whether one might exist already, which is then taken as noted.
    pub fn note(
        &mut self,
        owner: &Owner<'_>,
        limit: Option<(u8, u32)>,
        look_first: bool,
        touch: &Touch<'_>,
        settings: &Settings,
    ) -> bool {
        let Some(key) = FlowKey::of(touch.packet) else {
            return false;
        };
        let mut parent = None;
        if let Some((mask, max)) = limit {
            let parent_key = ParentKey {
                rule: owner.rule,
                flow: masked(&key, mask),
            };
            if !self.take_place(&parent_key, owner, max, touch.now, settings) {
                return false;
            }
            parent = Some(parent_key);
        }
        if look_first && self.exists(owner.name, &key, touch, settings) {
            self.leave_place(parent.as_ref());
            return true;
        }
        if self.count >= settings.dyn_max {
            self.leave_place(parent.as_ref());
            return false;
        }
        let mut state = State {
            key: key.clone(),
            name: owner.name.to_owned(),
            rule: owner.rule,
            number: owner.number,
            set: owner.set,
            parent,
            expire: touch.now + u64::from(settings.dyn_syn_lifetime),
            forward: 0,
            reverse: 0,
            acked_forward: false,
            acked_reverse: false,
            ack_forward: 0,
            ack_reverse: 0,
            packets: 0,
            bytes: 0,
        };
        state.update(touch, Way::Forward, settings);
        self.flows.entry(key.bucket()).or_default().insert(0, state);
        self.count += 1;
        true
    }

    fn take_place(
        &mut self,
        key: &ParentKey,
        owner: &Owner<'_>,
        max: u32,
        now: u64,
        settings: &Settings,
    ) -> bool {
        let expire = now + u64::from(settings.dyn_short_lifetime);
        if !self.parents.contains_key(key) && self.parents.len() >= settings.dyn_parent_max as usize
        {
            return false;
        }
        let parent = self.parents.entry(key.clone()).or_insert_with(|| Parent {
            number: owner.number,
            set: owner.set,
            flow: owner.name.to_owned(),
            count: 0,
            expire,
        });
        parent.expire = expire;
        if parent.count >= max {
            return false;
        }
        parent.count += 1;
        true
    }

    fn leave_place(&mut self, key: Option<&ParentKey>) {
        if let Some(parent) = key.and_then(|key| self.parents.get_mut(key)) {
            parent.count -= 1;
        }
    }

    /// All of them as listings show them, in a stable order.
    #[must_use]
    pub fn lines(&self, now: u64) -> Vec<StateLine> {
        let states = self.flows.values().flatten().map(|state| StateLine {
            rule: state.number,
            set: state.set,
            packets: state.packets,
            bytes: state.bytes,
            seconds: state.expire.saturating_sub(now),
            kind: match state.parent {
                Some(_) => "LIMIT".to_owned(),
                None => "STATE".to_owned(),
            },
            proto: state.key.proto,
            family: state.key.family,
            src: state.key.src,
            dst: state.key.dst,
            flow: state.name.clone(),
        });
        let parents = self.parents.iter().map(|(key, parent)| StateLine {
            rule: parent.number,
            set: parent.set,
            packets: 0,
            bytes: 0,
            seconds: parent.expire.saturating_sub(now),
            kind: format!("PARENT {}", parent.count),
            proto: key.flow.proto,
            family: key.flow.family,
            src: key.flow.src,
            dst: key.flow.dst,
            flow: parent.flow.clone(),
        });
        let mut out: Vec<StateLine> = states.chain(parents).collect();
        out.sort_by_key(|state| (state.rule, state.src, state.dst, state.proto));
        out
    }
}

/// The rule that notes a flow.
pub struct Owner<'n> {
    /// Its identity.
    pub rule: RuleId,
    /// Its number.
    pub number: u32,
    /// Its set.
    pub set: u8,
    /// Name of the flow.
    pub name: &'n str,
}

fn masked(key: &FlowKey, mask: u8) -> FlowKey {
    let keep = |bit: u8| mask & bit != 0;
    let address = |bit, value: u128| if keep(bit) { value } else { 0 };
    let port = |bit, value: u16| if keep(bit) { value } else { 0 };
    FlowKey {
        src: (address(1, key.src.0), port(2, key.src.1)),
        dst: (address(4, key.dst.0), port(8, key.dst.1)),
        ..key.clone()
    }
}

impl State {
    fn is_of(&self, key: &FlowKey) -> bool {
        self.key == *key || self.key == key.reversed()
    }

    fn way(&self, key: &FlowKey) -> Way {
        match self.key == *key {
            true => Way::Forward,
            false => Way::Reverse,
        }
    }

    fn update(&mut self, touch: &Touch<'_>, way: Way, settings: &Settings) {
        let after = |seconds: u32| touch.now + u64::from(seconds);
        match self.key.proto {
            proto::UDP | proto::UDPLITE => self.expire = after(settings.dyn_udp_lifetime),
            proto::TCP => self.update_tcp(touch, way, settings),
            _ => self.expire = after(settings.dyn_short_lifetime),
        }
        self.packets += 1;
        self.bytes += u64::from(touch.packet.bytes);
    }

    /// Lifetimes of TCP: opening, open once both sides acknowledged, closing, and anything else.
    fn update_tcp(&mut self, touch: &Touch<'_>, way: Way, settings: &Settings) {
        let after = |seconds: u32| touch.now + u64::from(seconds);
        let tcp = touch.packet.tcp();
        let flags = tcp.map_or(0, |tcp| tcp.flags & (FIN | SYN | RST));
        match way {
            Way::Forward => self.forward |= flags,
            Way::Reverse => self.reverse |= flags,
        }
        match (self.forward, self.reverse) {
            (SYN, 0) => self.expire = after(settings.dyn_syn_lifetime),
            (SYN, SYN) => self.acknowledge(touch, way, settings),
            (f, r) if (f, r) == (SYN | FIN, SYN) || (f, r) == (SYN, SYN | FIN) => {
                self.acknowledge(touch, way, settings);
            }
            (f, r) if f == SYN | FIN && r == SYN | FIN => {
                self.expire = after(settings.dyn_fin_lifetime);
            }
            _ => self.expire = after(settings.dyn_rst_lifetime),
        }
    }

    fn acknowledge(&mut self, touch: &Touch<'_>, way: Way, settings: &Settings) {
        let Some(tcp) = touch.packet.tcp() else {
            return;
        };
        let ack = tcp.acknowledgement;
        let newer = |old: u32| old == 0 || (ack.wrapping_sub(old) as i32) >= 0;
        match way {
            Way::Forward if newer(self.ack_forward) => {
                (self.ack_forward, self.acked_forward) = (ack, true);
            }
            Way::Reverse if newer(self.ack_reverse) => {
                (self.ack_reverse, self.acked_reverse) = (ack, true);
            }
            _ => {}
        }
        if self.acked_forward && self.acked_reverse {
            self.expire = touch.now + u64::from(settings.dyn_ack_lifetime);
            // Only the newer of the two is remembered, so that both must go on talking.
            match way {
                Way::Forward => self.acked_reverse = false,
                Way::Reverse => self.acked_forward = false,
            }
        }
    }
}
