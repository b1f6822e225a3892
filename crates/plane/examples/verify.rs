//! What the kernel's verifier takes for each program: instructions followed, time, stack.
//!
//! In: the objects that were built, and on the command line the features of policies to load them
//! for (`enum weir_feature`, default all). Out: one paragraph for each program. Needs root.

use std::time::Instant;

use libbpf_rs::{ObjectBuilder, OpenObject};
use weir_plane::abi::Settings;
use weir_plane::written::written;
use zerocopy::{FromBytes, IntoBytes};

const OBJECTS: [(&str, &[u8]); 2] = [
    (
        "netfilter",
        include_bytes!(concat!(env!("OUT_DIR"), "/netfilter.bpf.o")),
    ),
    (
        "tcx",
        include_bytes!(concat!(env!("OUT_DIR"), "/tcx.bpf.o")),
    ),
];

fn open_object(bytes: &[u8]) -> OpenObject {
    ObjectBuilder::default()
        .open_memory(bytes)
        .expect("it can be read")
}

fn main() {
    let features: u32 = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(u32::MAX);
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Debug, |_, line| {
        let told = ["processed", "verification time", "stack depth", "insns ("];
        for part in line.lines().filter(|l| told.iter().any(|t| l.contains(t))) {
            println!("  {part}");
        }
    })));
    for (name, bytes) in OBJECTS {
        println!("{name}, features {features:#x}");
        // As the object has them, but for the features.
        let settings = open_object(bytes).maps_mut().find_map(|map| {
            let is_it = map.name().to_string_lossy().contains("rodata.weir");
            let value = map.initial_value().filter(|_| is_it)?;
            Settings::read_from_bytes(value).ok()
        });
        let settings = settings.map(|settings| Settings {
            features,
            ..settings
        });
        let bytes = settings.map_or(bytes.to_vec(), |settings| written(bytes, &settings));
        let mut open = open_object(&bytes);
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if let Some(settings) = settings.filter(|_| name.contains("rodata.weir")) {
                map.set_initial_value(settings.as_bytes())
                    .expect("the size is right");
            }
        }
        for mut program in open.progs_mut() {
            program.set_log_level(4);
        }
        let start = Instant::now();
        let loaded = open.load();
        println!("  loading took {:?}", start.elapsed());
        if let Err(error) = loaded {
            println!("  {error}");
        }
    }
}
