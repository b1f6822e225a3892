//! What the kernel's verifier takes for each program: instructions followed, time, stack.
//!
//! In: on the command line the features of policies to load for (`enum weir_feature`, default all)
//! and object files; without files, the objects that were built. Out: one paragraph for each
//! program, and what the verifier said of those it refused. Exit status 1 if it refused one. Needs
//! root.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use libbpf_rs::{ObjectBuilder, OpenObject, PrintLevel};
use weir_plane::abi::Settings;
use weir_plane::written::written;
use zerocopy::{FromBytes, IntoBytes};

/// Of a refusal.
const LAST_LINES: usize = 16;
/// Levels of the verifier's log.
const STATISTICS: u32 = 4;
const EVERY_STEP: u32 = 1;
/// An object is loaded once more, for the steps before the refusal.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Names and objects, as `build.rs` lists them.
const OBJECTS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/objects.rs"));

fn open_object(bytes: &[u8]) -> OpenObject {
    ObjectBuilder::default()
        .open_memory(bytes)
        .expect("it can be read")
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).peekable();
    let features = arguments.next_if(|text| !text.ends_with(".o"));
    let features = features.map_or(u32::MAX, |text| text.parse().expect("a number of features"));
    let files: Vec<(String, Vec<u8>)> = arguments
        .map(|name| {
            let bytes = std::fs::read(&name).expect("the object can be read");
            (name, bytes)
        })
        .collect();
    let built = || {
        OBJECTS
            .iter()
            .map(|&(name, bytes)| (name.to_owned(), bytes.to_vec()))
    };
    let objects = if files.is_empty() {
        built().collect()
    } else {
        files
    };
    let mut refused = false;
    for (name, bytes) in objects {
        println!("{name}, features {features:#x}");
        let start = Instant::now();
        if let Err(error) = load(&bytes, features, STATISTICS) {
            refused = true;
            REFUSED.store(true, Relaxed);
            let _ = load(&bytes, features, EVERY_STEP);
            REFUSED.store(false, Relaxed);
            println!("  REFUSED: {error}");
        }
        println!("  loading took {:?}", start.elapsed());
    }
    if refused {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// What the verifier tells of all programs, in few words; its last lines where it refuses one.
fn told(_: PrintLevel, text: String) {
    let lines: Vec<&str> = text.lines().collect();
    let told = ["processed", "verification time", "stack depth"];
    for part in lines.iter().filter(|l| told.iter().any(|t| l.contains(t))) {
        println!("  {part}");
    }
    if REFUSED.load(Relaxed) && text.contains("END PROG LOAD LOG") {
        for line in &lines[lines.len().saturating_sub(LAST_LINES)..] {
            println!("  | {line}");
        }
    }
}

fn load(bytes: &[u8], features: u32, log_level: u32) -> libbpf_rs::Result<()> {
    libbpf_rs::set_print(Some((PrintLevel::Debug, told)));
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
        if let Some(settings) = settings.filter(|_| name == "counters") {
            // Counters of each shard, and behind them the times of last matches.
            let size = settings.rule_capacity * (settings.shards * 16 + 4);
            map.set_value_size(size).expect("before loading");
        }
    }
    for mut program in open.progs_mut() {
        program.set_log_level(log_level);
    }
    open.load().map(drop)
}
