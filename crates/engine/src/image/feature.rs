//! What an image asks of the programs that walk it: bits of its header. Programs are loaded without
//! what no image in force uses. Twin of `enum weir_feature` in `plane/bpf/image.h`.

/// Some operation changes packets or flows.
pub const FEATURE_CHANGES: u32 = 1;
/// Some test asks for fields of flows.
pub const FEATURE_FLOW_FIELDS: u32 = 2;
/// Some test remembers.
pub const FEATURE_HISTORY: u32 = 4;
/// Some rule makes states, or asks what IPFilter sees of headers.
pub const FEATURE_LEARNED: u32 = 16;
/// Some root has hashed tables.
pub const FEATURE_TABLES: u32 = 32;
/// Some test asks for what the packet's headers don't say, or for options.
pub const FEATURE_RARE: u32 = 64;
/// Some rule notes flows as ipfw does, or asks for them; beside [`FEATURE_LEARNED`].
pub const FEATURE_DYNAMIC: u32 = 128;
/// Some history is a meter; beside [`FEATURE_HISTORY`].
pub const FEATURE_METER: u32 = 256;
/// Some test asks what [`weir_policy::model::Aside`] says.
pub const FEATURE_ASIDE: u32 = 512;
/// Some of these look into payloads, which must be readable then.
pub const FEATURE_PAYLOAD: u32 = 1024;
/// Some state asks a group about ICMP errors; beside [`FEATURE_LEARNED`].
pub const FEATURE_ICMP_HEAD: u32 = 2048;
/// TCP states of ipfw are kept alive by the agent; beside [`FEATURE_DYNAMIC`].
pub const FEATURE_KEEP_ALIVE: u32 = 4096;
/// Some test asks the kernel's routes for a packet's source; beside [`FEATURE_RARE`].
pub const FEATURE_ROUTES: u32 = 8192;
/// Some test looks at SCTP chunks, which must be readable then; beside [`FEATURE_RARE`].
pub const FEATURE_CHUNKS: u32 = 16384;
/// Sources of received packets are checked; beside [`FEATURE_LEARNED`].
pub const FEATURE_BAD_SRC: u32 = 1 << 16;
/// Some chunk has bounds, since its rows only say which terms may hold.
pub const FEATURE_BOUNDS: u32 = 1 << 18;
/// The time of each rule's last match is kept.
pub const FEATURE_TIMES: u32 = 1 << 17;
/// Entries of sets have lifetimes, so the clock in the header matters.
pub const FEATURE_LIFETIMES: u32 = 8;
