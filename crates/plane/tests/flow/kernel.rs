//! The flow table's programs, loaded alone with a table of a chosen size.
#![allow(
    dead_code,
    reason = "three tests share this file, and each uses a part"
)]

use std::mem::{offset_of, size_of};

use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder, ProgramInput};
use weir_engine::flow::{Layout, Seed};
use weir_engine::packet::Key;
use weir_plane::abi::{Control, Settings};
use weir_policy::eval::track::timeouts::Timeouts;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/flow_test.bpf.o"));

/// `struct flow_ref`.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Ref {
    pub pair: u64,
    pub ports: u32,
    pub meta: u16,
    pub from_high: u8,
    pub query: u8,
    pub slot: u32,
    pub mark: u32,
    pub found: u8,
    pub reply: u8,
    pub pad: [u8; 2],
    pub changed: u32,
}

/// `struct flow_try`.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Try {
    pub packet: Key,
    pub about: Key,
    pub now_ms: u64,
    pub has_about: u32,
    pub confirm: u32,
    pub set_mark: u32,
    pub mark: u32,
    pub found: Ref,
    pub result_mark: u32,
    pub has_mark: u32,
    pub tests: u32,
    pub number: [u32; 8],
    pub answer: [u32; 8],
    pub pad: u32,
}

/// Loaded programs.
pub struct Kernel {
    object: Object,
}

impl Kernel {
    /// Loads the programs with a table of that layout.
    pub fn load(layout: Layout, seed: Seed) -> Kernel {
        Self::load_with(layout, seed, 0xffff)
    }

    /// The same with room for histories: bytes less one, a power of two less one.
    pub fn load_with(layout: Layout, seed: Seed, history_mask: u32) -> Kernel {
        let mut open = ObjectBuilder::default()
            .open_memory(OBJECT)
            .expect("a sound object");
        let settings = Settings {
            image_mask: 0xffff,
            rule_capacity: 1024,
            history_mask,
            flow_lines: layout.lines,
            jiffy_multiplier: 4 << 20,
            // Meters take the time that they are given.
            testing: 1,
            features: !0,
            hash_seed: seed.0,
            flow_entries: layout.entries() as u32,
            flow_cold: layout.cold() as u32,
            ..Settings::default()
        };
        for mut map in open.maps_mut() {
            if map.name() == "flows" {
                map.set_value_size(layout.bytes() as u32)
                    .expect("the size is set");
            }
            if map.name() == "histories" {
                map.set_value_size(history_mask + 1 + 4096)
                    .expect("the size is set");
            }
            if map.name().to_string_lossy().contains("rodata.weir") {
                map.set_initial_value(settings.as_bytes())
                    .expect("settings are set");
            }
        }
        let object = open.load().expect("the verifier takes it");
        let kernel = Kernel { object };
        let mut control = vec![0u8; size_of::<Control>()];
        for (at, timeout) in Timeouts::default().0.into_iter().enumerate() {
            let offset = offset_of!(Control, settings) + 4 * at;
            control[offset..offset + 4].copy_from_slice(&timeout.to_ne_bytes());
        }
        kernel.write("control", 0, &control);
        kernel
    }

    /// Writes an entry of a map.
    pub fn write(&self, map: &str, index: u32, value: &[u8]) {
        let map = self.object.maps().find(|m| m.name() == map).expect("a map");
        map.update(&index.to_ne_bytes(), value, MapFlags::ANY)
            .expect("the entry is written");
    }

    /// Reads an entry of a map.
    pub fn read(&self, map: &str, index: u32) -> Vec<u8> {
        let map = self.object.maps().find(|m| m.name() == map).expect("a map");
        map.lookup(&index.to_ne_bytes(), MapFlags::ANY)
            .expect("the entry is read")
            .expect("is there")
    }

    /// Statistics of the table.
    pub fn statistics(&self) -> [u64; 16] {
        let control = self.read("control", 0);
        let at = offset_of!(Control, flow_statistics);
        std::array::from_fn(|i| {
            u64::from_ne_bytes(
                control[at + 8 * i..at + 8 * i + 8]
                    .try_into()
                    .expect("8 bytes"),
            )
        })
    }

    /// One packet.
    pub fn run(&mut self, one: &mut Try) {
        let program = self
            .object
            .progs_mut()
            .find(|p| p.name() == "flow_try")
            .expect("flow_try");
        let input = ProgramInput {
            context_in: Some(one.as_mut_bytes()),
            ..ProgramInput::default()
        };
        let output = program.test_run(input).expect("it runs");
        assert_eq!(output.return_value, 0);
    }

    /// Nanoseconds a run of a program, over so many runs.
    pub fn time(&mut self, name: &str, runs: u32) -> f64 {
        let program = self
            .object
            .progs_mut()
            .find(|p| p.name() == name)
            .expect("a program");
        let data = [0u8; 64];
        let input = ProgramInput {
            data_in: Some(&data),
            repeat: runs,
            ..ProgramInput::default()
        };
        let output = program.test_run(input).expect("it runs");
        output.duration.as_nanos() as f64
    }
}
