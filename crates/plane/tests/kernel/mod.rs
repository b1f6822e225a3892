//! The test program `classify_test.bpf.c`, loaded: one lookup for each run.

use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder, ProgramInput};
use weir_engine::packet::Key;
use zerocopy::IntoBytes;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/classify_test.bpf.o"));
const SLACK: usize = 4096;

/// The loaded program and its one image slot.
pub struct Kernel {
    object: Object,
    capacity: usize,
}

impl Kernel {
    /// Loads the program for images of up to `capacity` bytes, a power of two.
    pub fn load(capacity: usize) -> Kernel {
        let mut open = ObjectBuilder::default()
            .open_memory(OBJECT)
            .expect("the object is an object");
        for mut map in open.maps_mut() {
            if map.name() == "images" {
                map.set_value_size((capacity + SLACK) as u32)
                    .expect("a size");
            } else if map.name().to_string_lossy().contains("rodata.weir") {
                let mask = capacity as u32 - 1;
                map.set_initial_value(&mask.to_le_bytes())
                    .expect("the mask");
            }
        }
        Kernel {
            object: open.load().expect("the kernel verifies the program"),
            capacity,
        }
    }

    /// Puts an image into the slot.
    pub fn put(&self, image: &[u8]) {
        assert!(image.len() <= self.capacity, "the test's slot is too small");
        let mut value = image.to_vec();
        value.resize(self.capacity + SLACK, 0);
        let map = self
            .object
            .maps()
            .find(|map| map.name() == "images")
            .expect("a map");
        map.update(&0u32.to_le_bytes(), &value, MapFlags::ANY)
            .expect("fits");
    }

    /// The first position from `from` on whose entry holds.
    pub fn next(&self, root_at: u32, from: u32, key: &Key) -> u32 {
        self.run(root_at, from, key, 1).0
    }

    /// The same, with the nanoseconds of a run over `repeat` runs.
    pub fn run(&self, root_at: u32, from: u32, key: &Key, repeat: u32) -> (u32, u64) {
        let mut request = Vec::with_capacity(16 + size_of::<Key>());
        for word in [root_at, from, 0, 0] {
            request.extend_from_slice(&word.to_le_bytes());
        }
        request.extend_from_slice(key.as_bytes());
        let mut answer = vec![0u8; request.len()];
        let program = self.object.progs_mut().next().expect("a program");
        let output = {
            let input = ProgramInput {
                data_in: Some(&request),
                data_out: Some(&mut answer),
                repeat,
                ..ProgramInput::default()
            };
            program.test_run(input).expect("runs")
        };
        let duration = output.duration;
        assert_eq!(output.return_value, 2, "XDP_PASS");
        let position = u32::from_le_bytes(answer[8..12].try_into().expect("four bytes"));
        (position, duration.as_nanos() as u64)
    }
}
