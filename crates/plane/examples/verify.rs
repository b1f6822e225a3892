//! What the kernel's verifier takes for each program: instructions followed, time, stack.
//!
//! In: the objects that were built, and on the command line the features of policies to load them
//! for (`enum weir_feature`, default all). Out: one paragraph for each program. Needs root.

use std::time::Instant;

use libbpf_rs::ObjectBuilder;

/// The settings' place of the features, and of a few others that are not zero (`abi.h`).
const FEATURES_AT: usize = 56;

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
        let mut open = ObjectBuilder::default()
            .open_memory(bytes)
            .expect("it can be read");
        for mut map in open.maps_mut() {
            if map.name().to_string_lossy().contains("rodata.weir") {
                let mut settings = map.initial_value().expect("it has a value").to_vec();
                settings[FEATURES_AT..FEATURES_AT + 4].copy_from_slice(&features.to_ne_bytes());
                map.set_initial_value(&settings).expect("the size is right");
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
