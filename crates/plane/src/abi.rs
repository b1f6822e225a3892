//! Mirror of `bpf/abi.h`: what the programs and user space share. Sizes and offsets are asserted
//! here and there, as the same numbers.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `WEIR_ABI_VERSION`.
pub const VERSION: u32 = 12;
/// `WEIR_SLACK`.
pub const SLACK: u32 = 4096;
/// `WEIR_EVENT_BYTES`.
pub const EVENT_BYTES: usize = 1232;
/// `WEIR_LOCALS_MAX`.
pub const LOCALS_MAX: usize = 1024;
/// `__WEIR_REASON_MAX`.
pub const REASONS: usize = 16;

pub use weir_engine::packet::Key;

/// `struct weir_settings`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Settings {
    /// Bytes of an image slot less one.
    pub image_mask: u32,
    /// Rules in a slot.
    pub rule_capacity: u32,
    /// Counters of a rule, chosen by CPU.
    pub shards: u32,
    /// Bytes of a history slot less one.
    pub history_mask: u32,
    /// Lines of the flow table.
    pub flow_lines: u32,
    /// Loaded for test runs.
    pub testing: u32,
    /// Milliseconds of a jiffy, times 2^20.
    pub jiffy_multiplier: u64,
    /// Seed of the flow hash.
    pub hash_seed: [u64; 2],
    /// Offset of the entries in the flow table.
    pub flow_entries: u32,
    /// Offset of the cold lines.
    pub flow_cold: u32,
    /// What policies may use: `FEATURE_*` of images.
    pub features: u32,
    /// Each CPU has a shard of its own, and there is one more.
    pub exclusive: u32,
}

/// `struct weir_facts`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Facts {
    /// Supplementary groups.
    pub groups: [u32; 4],
    /// How many.
    pub group_count: u32,
    /// Bits: 1 a socket, 2 it has a class, 4 a bridge hands the packet over.
    pub known: u32,
    /// Class of the socket.
    pub class: u32,
    /// CPU.
    pub cpu: u32,
    /// Groups of the interfaces.
    pub device_groups: [u32; 2],
    /// Realm of the route.
    pub realm: u32,
    /// How many control groups.
    pub control_group_count: u32,
    /// Control groups, the root first.
    pub control_groups: [u64; 3],
    /// Bridge ports.
    pub ports: [[u8; 16]; 2],
}

/// `struct weir_test`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Test {
    /// Receiving interface.
    pub in_name: [u8; 16],
    /// Sending interface.
    pub out_name: [u8; 16],
    /// 48 bits, or all ones for none.
    pub mac: u64,
    /// Packet mark.
    pub mark: u32,
    /// Owner.
    pub uid: u32,
    /// Owner.
    pub gid: u32,
    /// Whether there is an owner.
    pub has_owner: u8,
    /// Link-layer type.
    pub packet_type: u8,
    /// State to take instead of the flow table's; 0: ask the table.
    pub state: u8,
    /// `enum weir_test_way`.
    pub way: u8,
    /// What the kernel does with it beside the filter (`model::handling`).
    pub handling: u32,
    /// `enum weir_summed`.
    pub summed: u32,
    /// What few rules ask.
    pub facts: Facts,
    /// Result: the parsed packet.
    pub packet: Key,
    /// Result: the packet in an ICMP error.
    pub inner: Key,
    /// Result.
    pub verdict: u32,
    /// Result: deciding rule, all ones for none.
    pub deciding: u32,
    /// Result: packet mark.
    pub result_mark: u32,
    /// Result of the parser.
    pub parse_result: i32,
    /// Result of the parser for `inner`.
    pub inner_result: i32,
    /// Result: whether the packet went the short way.
    pub short_way: u32,
}

/// `struct weir_lane`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Lane {
    /// Root of the filter table; 0: all packets go the whole way.
    pub root: u32,
    /// Root for packets of established flows; with [`LANE_STATES`] where lifetimes are.
    pub established: u32,
    /// `enum weir_lane_flag`.
    pub flags: u32,
    /// Chain policies of tables without rules.
    pub counts: u32,
    /// Which; with [`LANE_STATES`] the look at states.
    pub count: [u32; 2],
    /// What one rule decides for all packets, by root: verdict << 30 | rule; 0: nothing.
    pub decided: [u32; 2],
}

/// `WEIR_LANE_TRACK`.
pub const LANE_TRACK: u32 = 1;
/// `WEIR_LANE_CLASSES`.
pub const LANE_CLASSES: u32 = 2;
/// `WEIR_LANE_STATES`.
pub const LANE_STATES: u32 = 4;

/// `struct weir_control`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Control {
    /// Slot that packets use.
    pub active: u32,
    /// Number of the policy in each slot; 0: none.
    pub slot_generation: [u32; 2],
    /// Hooks that it needs.
    pub slot_hooks: [u32; 2],
    /// Slot of the local addresses.
    pub locals_active: u32,
    /// Whether an answer process takes rejects.
    pub answering: u32,
    /// Always 0.
    pub zero: u32,
    /// Its sockets.
    pub answer_cookie: [u64; 2],
    /// Those for keep-alives.
    pub keep_cookie: [u64; 2],
    /// Clock of test runs.
    pub clock_ms: u64,
    /// Events a second.
    pub event_limit: u32,
    /// [`VERSION`].
    pub abi: u32,
    /// Settings of the flow table.
    pub settings: [u32; 32],
    /// Switches of the namespace that were turned on (`wayback`).
    pub forwarding: u32,
    /// What the agent's segments to this host carry; 0: none are sent.
    pub own_mark: u32,
    /// Unused.
    pub pad: [u8; 40],
    /// Short ways: by slot; IPv4, IPv6; hooks up to OUTPUT.
    pub lanes: [[Lane; 8]; 2],
    /// Second that is counted.
    pub event_window: u64,
    /// Events in it.
    pub event_count: u64,
    /// Packets by reason.
    pub reasons: [u64; REASONS],
    /// Counts of the flow table.
    pub flow_statistics: [u64; 16],
    /// Packet clock, when the program that tells it ran.
    pub told_ms: u64,
    /// By slot: packets that a rule dropped on the short way.
    pub short_drops: [u64; 2],
    /// By slot: passed packets that counters had when they began (`tally`).
    pub preset_passes: [u64; 2],
    /// Unused.
    pub pad_end: [u8; 8],
    /// Test runs.
    pub test: Test,
    /// What the programs were loaded with.
    pub loaded: Settings,
}

/// `WEIR_SCRATCH_COUNT`.
pub const SCRATCH_COUNT: usize = 256;
/// `WEIR_NOTED_MAX`.
pub const NOTED: usize = 16;

/// `struct weir_tally`; in front of each number that there is twice: in, out.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Tally {
    /// Of the policy that is counted for.
    pub generation: u32,
    /// Unused.
    pub reserved: u32,
    /// Dropped, accepted; IPv4, IPv6.
    pub packets: [[[u64; 2]; 2]; 2],
    /// `enum weir_noted`.
    pub noted: [[u64; 2]; NOTED],
    /// Logged for their verdict: dropped, accepted.
    pub logged: [[u64; 2]; 2],
    /// Proposals refused: for a rate, for a state that could not be made.
    pub refused: [[u64; 2]; 2],
    /// Fragments that overlap the first one.
    pub overlaps: [u64; 2],
    /// Segments with a wrong checksum.
    pub wrong_tcp_sums: [u64; 2],
    /// Unused.
    pub pad: [u64; 11],
}

/// `struct weir_local`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Local {
    /// First address, high half first.
    pub first: [u64; 2],
    /// Last address.
    pub last: [u64; 2],
    /// Bits: 1 local, 2 broadcast, 4 multicast, 8 unicast.
    pub types: u64,
}

/// `struct weir_event`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Event {
    /// Packet clock.
    pub time_ms: u64,
    /// 1 log, 2 nflog, 3 reject.
    pub kind: u32,
    /// The rule.
    pub rule: u32,
    /// Slot of the policy.
    pub slot: u32,
    /// Number of the policy.
    pub generation: u32,
    /// Log: offset of the op in the image. Reject: kind.
    pub op: u32,
    /// Packet mark.
    pub mark: u32,
    /// Owner.
    pub uid: u32,
    /// Owner.
    pub gid: u32,
    /// Whole length from the network header.
    pub skb_length: u32,
    /// Bytes captured.
    pub captured: u16,
    /// `enum weir_event_flag`.
    pub flags: u8,
    /// Bytes of link header.
    pub mac_length: u8,
    /// Receiving interface.
    pub in_name: [u8; 16],
    /// Sending interface.
    pub out_name: [u8; 16],
    /// Link header.
    pub mac: [u8; 32],
    /// The parsed packet.
    pub packet: Key,
    /// The packet from the network header.
    pub bytes: [u8; EVENT_BYTES],
}

const _: () = {
    assert!(size_of::<Key>() == 88);
    assert!(size_of::<Settings>() == 64);
    assert!(size_of::<Facts>() == 104);
    assert!(size_of::<Test>() == 368);
    assert!(size_of::<Lane>() == 32);
    assert!(size_of::<Control>() == 1520);
    assert!(std::mem::offset_of!(Control, event_window) == 768);
    assert!(std::mem::offset_of!(Control, test) == 1088);
    assert!(size_of::<Local>() == 40);
    assert!(size_of::<Tally>() == 512);
    assert!(size_of::<Event>() == 1432);
};
