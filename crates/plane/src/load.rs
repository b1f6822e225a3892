//! Load the programs: choose map sizes, write the settings, let the kernel verify them.
//!
//! An [`Instance`] is one loaded set of programs and maps. It does nothing until `attach.rs` hooks
//! it in. Rules never reach this file: they are map content.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_rs::{MapCore, Object, ObjectBuilder, PrintLevel};
use weir_engine::flow::Layout;
use weir_engine::image::layout::{
    FEATURE_CHUNKS, FEATURE_DYNAMIC, FEATURE_LEARNED, FEATURE_PAYLOAD,
};
use zerocopy::IntoBytes;

use crate::abi::{self, Control, Settings};
use crate::clock;
use crate::counters;
use crate::error::{PlaneError, Result, system};
use crate::features;
use crate::sys::bpf::map_size;
use crate::sys::memory::Mapping;
use crate::written::written;

pub use crate::parts::{
    EGRESS, FAMILY_V4, FAMILY_V6, FRAMES, INGRESS, ROUTE_BACK, TRACKS, XDP, families, tracks,
};
use crate::parts::{is_needed, variant};

pub(crate) static NETFILTER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/netfilter.bpf.o"));
static LEARNED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/learned.bpf.o"));
static DYNAMIC: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/dynamic.bpf.o"));
static INGRESS_OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ingress.bpf.o"));
static EARLY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/early.bpf.o"));
static FRAMES_OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/frames.bpf.o"));
static ROUTE_OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/route.bpf.o"));
static TCX: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tcx.bpf.o"));

/// Names of the maps, as in `maps.h`; each is pinned under its name.
pub const MAPS: [&str; 16] = [
    "images",
    "counters",
    "histories",
    "flows",
    "locals",
    "control",
    "events",
    "rejects",
    "handoff",
    "scratch",
    "interfaces",
    "stages",
    "sweeper",
    "judged",
    "ways_back",
    "tallies",
];
/// The map of learned states, which only programs for policies that learn have.
pub const LEARNED_MAP: &str = "learned";
/// The maps beside it, in the order of [`Instance::beside`].
pub const BESIDE_LEARNED: [&str; 2] = ["shares", "state_records"];

/// Whether user space maps the memory of a map.
pub fn is_mapped(name: &str) -> bool {
    matches!(
        name,
        "images"
            | "counters"
            | "histories"
            | "flows"
            | "locals"
            | "control"
            | "shares"
            | "tallies"
            | LEARNED_MAP
    )
}

/// Names of the programs, as in the `.bpf.c` files.
pub const PROGRAMS: [&str; 11] = [
    "weir_judge",
    "weir_judge6",
    "weir_whole",
    "weir_egress",
    "weir_clock",
    "weir_sweep",
    "weir_ingress",
    "weir_early",
    "weir_route",
    "weir_frames_in",
    "weir_frames_out",
];

/// How large the maps are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Bytes of one image slot: a power of two.
    pub image: u32,
    /// Rules (counters) of one slot.
    pub rules: u32,
    /// Bytes of one history slot: a power of two.
    pub history: u32,
    /// Flows that the flow table is made for, where policies keep flows.
    pub flows: u32,
}

impl Capacity {
    /// The largest slot: offsets into maps are verified up to 2^29.
    pub const IMAGE_LIMIT: u32 = 1 << 28;

    /// Room for a policy, rounded up so that it can grow to about twice its size in place.
    pub fn for_policy(image: usize, rules: u32, history: usize, flows: u32) -> Result<Capacity> {
        let round = |bytes: usize, what| {
            let wanted = (bytes as u64 + bytes as u64 / 4)
                .max(1 << 16)
                .next_power_of_two();
            if bytes as u64 > u64::from(Self::IMAGE_LIMIT) {
                let limit = u64::from(Self::IMAGE_LIMIT);
                return Err(PlaneError::Budget {
                    what,
                    needed: bytes as u64,
                    limit,
                });
            }
            Ok(wanted.min(u64::from(Self::IMAGE_LIMIT)) as u32)
        };
        Ok(Capacity {
            image: round(image, "image")?,
            rules: (rules + rules / 4).max(1024).next_power_of_two(),
            history: round(history, "history")?,
            flows,
        })
    }

    /// Room for what either has room for; the flow table of `other`, because it is used again.
    pub fn at_least(self, other: Capacity) -> Capacity {
        Capacity {
            image: self.image.max(other.image),
            rules: self.rules.max(other.rules),
            history: self.history.max(other.history),
            flows: other.flows,
        }
    }

    /// Whether a policy of these sizes fits.
    pub fn holds(&self, image: usize, rules: u32, history: usize) -> bool {
        image <= self.image as usize && rules <= self.rules && history <= self.history as usize
    }
}

/// A map: its descriptor, and its memory when it is mapped.
#[derive(Debug)]
pub struct Map {
    /// Descriptor.
    pub fd: OwnedFd,
    /// Bytes of one entry, rounded up to 8.
    pub entry: usize,
    memory: Option<Mapping>,
}

impl Map {
    /// Adopt a map by its descriptor; arrays are mapped.
    pub fn adopt(fd: OwnedFd, array: bool) -> io::Result<Map> {
        let (value, entries) = map_size(fd.as_fd())?;
        let entry = (value as usize).next_multiple_of(8);
        let memory = if array {
            Some(Mapping::new(fd.as_fd(), entry * entries as usize)?)
        } else {
            None
        };
        Ok(Map { fd, entry, memory })
    }

    /// Its memory.
    ///
    /// # Panics
    /// When the map is not an array.
    pub fn memory(&self) -> &Mapping {
        self.memory
            .as_ref()
            .expect("only arrays are mapped, and only they are asked")
    }
}

/// One loaded set of programs and maps.
#[derive(Debug)]
pub struct Instance {
    /// In the order of [`MAPS`].
    pub maps: Vec<Map>,
    /// Learned states, where the programs are those that learn.
    pub learned: Option<Map>,
    /// What states count for, and records about them: [`BESIDE_LEARNED`], with `learned`.
    pub beside: Vec<Map>,
    /// In the order of [`PROGRAMS`]; a family without hooks has no program.
    pub programs: Vec<Option<OwnedFd>>,
    /// Milliseconds of a jiffy, times 2^20.
    pub settings: Settings,
}

impl Instance {
    /// A map by its name in [`MAPS`].
    ///
    /// # Panics
    /// When there is no such map.
    pub fn map(&self, name: &str) -> &Map {
        &self.maps[MAPS
            .iter()
            .position(|m| *m == name)
            .expect("a name of MAPS")]
    }

    /// A program by its name in [`PROGRAMS`].
    ///
    /// # Panics
    /// When there is no such program, or it was not loaded.
    pub fn program(&self, name: &str) -> BorrowedFd<'_> {
        self.programs[PROGRAMS
            .iter()
            .position(|p| *p == name)
            .expect("a name of PROGRAMS")]
        .as_ref()
        .expect("loaded for the families that it is used for")
        .as_fd()
    }

    /// Whether all programs are there that its settings ask for.
    pub fn is_whole(&self) -> bool {
        let mut programs = self.programs.iter().zip(PROGRAMS);
        programs
            .all(|(program, name)| program.is_some() || !is_needed(name, self.settings.features))
    }

    /// What the maps were made for.
    pub fn capacity(&self) -> Capacity {
        Capacity {
            image: self.settings.image_mask + 1,
            rules: self.settings.rule_capacity,
            history: self.settings.history_mask + 1,
            flows: self.flow_layout().flows(),
        }
    }

    /// Where the parts of the flow table are.
    pub fn flow_layout(&self) -> Layout {
        Layout {
            lines: self.settings.flow_lines,
        }
    }

    /// The shared control block.
    pub fn control(&self) -> &Mapping {
        self.map("control").memory()
    }
}

/// Make one flat map of `length` bytes a slot, `slots` of them, inside the object before loading.
fn resize(object: &mut libbpf_rs::OpenObject, name: &str, bytes: u32) -> Result<()> {
    for mut map in object.maps_mut() {
        if map.name() == name {
            return map
                .set_value_size(bytes)
                .map_err(|e| load_error(&e.to_string()));
        }
    }
    Err(load_error(&format!("the object has no map {name}")))
}

/// Make a map of that many entries inside the object before loading, where it has one.
fn entries(object: &mut libbpf_rs::OpenObject, name: &str, count: u32) -> Result<()> {
    let found = object.maps_mut().find(|map| map.name() == name);
    match found {
        Some(mut map) => map
            .set_max_entries(count)
            .map_err(|e| load_error(&e.to_string())),
        None => Ok(()),
    }
}

/// Log lines of libbpf, kept for error messages.
static LOG: Mutex<String> = Mutex::new(String::new());

fn remember(_level: PrintLevel, line: String) {
    if let Ok(mut log) = LOG.lock() {
        let keep = log.len().saturating_sub(16_000);
        if let Some((at, _)) = log.char_indices().find(|(at, _)| *at >= keep) {
            log.drain(..at);
        }
        log.push_str(&line);
    }
}

fn load_error(message: &str) -> PlaneError {
    let log = LOG.lock().map(|l| l.clone()).unwrap_or_default();
    let start = log.char_indices().rev().nth(4000).map_or(0, |(at, _)| at);
    PlaneError::Load {
        message: message.into(),
        log: log[start..].to_string(),
    }
}

/// Bytes of counters in a slot for which each CPU gets its own; offsets are verified up to 2^29.
const OWN_COUNTERS_LIMIT: u64 = 1 << 28;

/// How many CPUs there may be.
fn cpus() -> u32 {
    let numbers = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = numbers.trim().rsplit(['-', ',']).next();
    last.and_then(|n| n.parse::<u32>().ok())
        .map_or(u32::MAX, |n| n + 1)
}

/// How many scratch places can be taken: `weir_scratch_numbered` in `maps.h`.
fn scratch_places() -> u32 {
    cpus().saturating_mul(4).saturating_add(16).min(256)
}

/// How often the counters of this many rules are there, and whether each CPU has its own
/// (`weir_count` in `maps.h`): then additions need not be atomic. Where there are many CPUs, or a
/// kernel of the realtime kind in which softirqs interrupt each other, CPUs share up to 8.
fn shards(rules: u32) -> (u32, bool) {
    let cpus = cpus();
    let realtime = std::fs::read_to_string("/sys/kernel/realtime");
    let realtime = realtime.is_ok_and(|value| value.trim() == "1");
    let own = cpus.saturating_add(1);
    let bytes = u64::from(rules) * u64::from(own) * counters::SIZE as u64;
    if cpus <= 16 && bytes <= OWN_COUNTERS_LIMIT && !realtime {
        (own, true)
    } else {
        (cpus.min(8).next_power_of_two(), false)
    }
}

/// Numbers that nobody can guess.
pub(crate) fn random_seed() -> [u64; 2] {
    use std::hash::{BuildHasher, Hasher, RandomState};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    [0, 1].map(|half: u64| {
        // The standard library takes these keys from the kernel's generator.
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u64(half + 2 * COUNT.fetch_add(1, Ordering::Relaxed));
        hasher.finish()
    })
}

/// Maps that a larger instance goes on using: flows, and what other processes hold open.
const LASTING: [&str; 5] = ["flows", "locals", "events", "rejects", "handoff"];

/// Whether programs with these features are those that learn states.
pub fn learns(features: u32) -> bool {
    features & FEATURE_LEARNED != 0
}

/// How programs learn states, which tells what object they are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learning {
    /// They don't.
    Nothing,
    /// As IPFilter does.
    Ipf,
    /// As ipfw does.
    Ipfw,
}

impl Learning {
    /// What features ask for.
    pub fn of(features: u32) -> Self {
        match (learns(features), features & FEATURE_DYNAMIC != 0) {
            (false, _) => Learning::Nothing,
            (true, false) => Learning::Ipf,
            (true, true) => Learning::Ipfw,
        }
    }

    /// Whether loaded programs do that.
    pub fn is_done_by(self, instance: &Instance) -> bool {
        self == Learning::Nothing || self == Self::of(instance.settings.features)
    }

    /// The maps beside the states.
    pub fn beside(self) -> &'static [&'static str] {
        match self {
            Learning::Ipf => &BESIDE_LEARNED,
            Learning::Nothing | Learning::Ipfw => &[],
        }
    }

    fn object(self) -> &'static [u8] {
        match self {
            Learning::Nothing => NETFILTER,
            Learning::Ipf => LEARNED,
            Learning::Ipfw => DYNAMIC,
        }
    }
}

/// Load the programs with maps of these sizes; `old`: the instance whose lasting maps are used on.
/// `features`: what its policies may use.
pub fn load(
    capacity: Capacity,
    testing: bool,
    features: u32,
    old: Option<&Instance>,
) -> Result<Instance> {
    // Programs that keep no flows have a table of the least size, which nobody goes on using.
    let flows = old.filter(|old| tracks(old.settings.features));
    let layout = match flows {
        Some(old) => old.flow_layout(),
        None if tracks(features) => Layout::for_flows(capacity.flows),
        None => Layout::for_flows(1),
    };
    features::check_for(features)?;
    let (shards, exclusive) = shards(capacity.rules);
    let settings = Settings {
        image_mask: capacity.image - 1,
        rule_capacity: capacity.rules,
        shards,
        history_mask: capacity.history - 1,
        flow_lines: layout.lines,
        flow_entries: layout.entries() as u32,
        flow_cold: layout.cold() as u32,
        testing: u32::from(testing),
        jiffy_multiplier: clock::jiffy_multiplier()?,
        hash_seed: old.map_or_else(random_seed, |old| old.settings.hash_seed),
        features,
        exclusive: u32::from(exclusive),
    };
    LOG.lock().map(|mut l| l.clear()).ok();
    libbpf_rs::set_print(Some((PrintLevel::Info, remember)));
    let lasting = |name: &str| {
        if name == LEARNED_MAP {
            // States of another language are none of these programs'.
            let old = old.filter(|old| Learning::of(features).is_done_by(old))?;
            return old.learned.as_ref().map(|map| map.fd.as_fd());
        }
        if let Some(at) = BESIDE_LEARNED.iter().position(|own| *own == name) {
            return old?.beside.get(at).map(|map| map.fd.as_fd());
        }
        let old = if name == "flows" { flows } else { old };
        old.filter(|_| LASTING.contains(&name))
            .map(|old| old.map(name).fd.as_fd())
    };
    let object = Learning::of(features).object();
    let netfilter = load_object(object, &settings, Some((capacity, layout)), lasting)?;
    let mut instance = Instance {
        maps: maps_of(&netfilter)?,
        learned: match learns(features) {
            true => Some(map_of(&netfilter, LEARNED_MAP)?),
            false => None,
        },
        beside: Learning::of(features)
            .beside()
            .iter()
            .map(|name| map_of(&netfilter, name))
            .collect::<Result<_>>()?,
        programs: Vec::new(),
        settings,
    };
    let shared = |name: &str| {
        let known = MAPS.contains(&name);
        known.then(|| instance.map(name).fd.as_fd())
    };
    let mut objects = vec![netfilter];
    let on_interfaces = [
        ("weir_egress", TCX),
        ("weir_ingress", INGRESS_OBJECT),
        ("weir_early", EARLY),
        ("weir_route", ROUTE_OBJECT),
        ("weir_frames_in", FRAMES_OBJECT),
    ];
    for (program, object) in on_interfaces {
        if is_needed(program, features) {
            objects.push(load_object(object, &settings, None, shared)?);
        }
    }
    instance.programs = programs_of(&objects, features)?;
    set_control(&instance);
    if !testing {
        clock::start_sweep(&instance)?;
    }
    Ok(instance)
}

/// Write what programs read of their settings.
fn set_control(instance: &Instance) {
    let control = instance.control();
    control.store32(std::mem::offset_of!(Control, event_limit), 10_000);
    let timeouts = weir_policy::eval::track::timeouts::Timeouts::default();
    for (at, timeout) in timeouts.0.into_iter().enumerate() {
        control.store32(std::mem::offset_of!(Control, settings) + 4 * at, timeout);
    }
    control.write(
        std::mem::offset_of!(Control, loaded),
        instance.settings.as_bytes(),
    );
    control.store32(std::mem::offset_of!(Control, abi), abi::VERSION);
}

/// Load one object; `maps` names those that exist already.
fn load_object<'a>(
    bytes: &[u8],
    settings: &Settings,
    capacity: Option<(Capacity, Layout)>,
    maps: impl Fn(&str) -> Option<BorrowedFd<'a>>,
) -> Result<Object> {
    let failed = |e: libbpf_rs::Error| load_error(&e.to_string());
    let bytes = written(bytes, settings);
    let mut open = ObjectBuilder::default()
        .open_memory(&bytes)
        .map_err(failed)?;
    if settings.features & ROUTE_BACK == 0 && settings.testing == 0 {
        // What nobody writes need not be large.
        entries(&mut open, "ways_back", 1)?;
    }
    if settings.features & (FEATURE_PAYLOAD | FEATURE_CHUNKS) != 0 {
        entries(&mut open, "payloads", scratch_places())?;
    }
    if let Some((capacity, layout)) = capacity {
        resize(&mut open, "images", capacity.image + abi::SLACK)?;
        resize(&mut open, "histories", capacity.history + abi::SLACK)?;
        resize(&mut open, "flows", layout.bytes() as u32)?;
        resize(
            &mut open,
            "counters",
            counters::slot_size(capacity.rules, settings.shards, settings.features),
        )?;
    }
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if name.contains("rodata.weir") {
            map.set_initial_value(settings.as_bytes()).map_err(failed)?;
        } else if let Some(fd) = maps(&name) {
            map.reuse_fd(fd).map_err(failed)?;
        }
    }
    for mut program in open.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        let own = variant(&name, settings.features) == name;
        program.set_autoload(own && is_needed(&name, settings.features));
    }
    open.load().map_err(failed)
}

fn duplicate(fd: BorrowedFd<'_>) -> Result<OwnedFd> {
    fd.try_clone_to_owned()
        .map_err(system("duplicating a descriptor"))
}

/// Our own descriptor of a map.
fn map_of(object: &Object, name: &str) -> Result<Map> {
    let map = object
        .maps()
        .find(|m| m.name() == name)
        .ok_or_else(|| load_error(&format!("the object has no map {name}")))?;
    Map::adopt(duplicate(map.as_fd())?, is_mapped(name)).map_err(system("mapping a map"))
}

/// Our own descriptors of the maps.
fn maps_of(object: &Object) -> Result<Vec<Map>> {
    MAPS.iter().map(|name| map_of(object, name)).collect()
}

/// Our own descriptors of the programs.
fn programs_of(objects: &[Object], features: u32) -> Result<Vec<Option<OwnedFd>>> {
    let mut programs = Vec::with_capacity(PROGRAMS.len());
    for name in PROGRAMS {
        if !is_needed(name, features) {
            programs.push(None);
            continue;
        }
        let own = variant(name, features);
        let program = objects
            .iter()
            .flat_map(|object| object.progs())
            .find(|p| p.name() == own)
            .ok_or_else(|| load_error(&format!("no object has a program {name}")))?;
        programs.push(Some(duplicate(program.as_fd())?));
    }
    Ok(programs)
}
