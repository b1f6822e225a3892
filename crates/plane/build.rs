//! Compiles the eBPF programs with clang into `OUT_DIR`, where `load.rs` embeds them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use libbpf_cargo::SkeletonBuilder;

/// The objects: one for each file `bpf/NAME.bpf.c`.
const OBJECTS: &[&str] = &[
    "netfilter",
    "learned",
    "dynamic",
    "ingress",
    "frames",
    "early",
    "route",
    "tcx",
    "flow_test",
    "classify_test",
    "bench",
];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let here = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let machine = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets the target");
    let mut arguments: Vec<String> = [
        "-mcpu=v3",
        "-O2",
        "-Wall",
        "-Werror",
        "-fdebug-compilation-dir=.",
    ]
    .map(String::from)
    .to_vec();
    arguments.push(format!("-ffile-prefix-map={here}=."));
    // Debian keeps asm/types.h in a folder of the architecture, which clang does not search when
    // it compiles for bpf.
    let headers = format!("/usr/include/{machine}-linux-gnu");
    if Path::new(&headers).is_dir() {
        arguments.push(format!("-I{headers}"));
    }
    // For those who look at all of them: examples/verify.rs, tests/stack.rs.
    let object =
        |name: &&str| format!("({name:?}, include_bytes!(\"{name}.bpf.o\").as_slice()),\n");
    let objects: String = OBJECTS.iter().map(object).collect();
    fs::write(out.join("objects.rs"), format!("&[\n{objects}]\n")).expect("OUT_DIR is writable");
    for name in OBJECTS {
        SkeletonBuilder::new()
            .source(format!("bpf/{name}.bpf.c"))
            .obj(out.join(format!("{name}.bpf.o")))
            .clang_args(&arguments)
            .build()
            .unwrap_or_else(|e| panic!("bpf/{name}.bpf.c: {e:?}\nclang 14 or newer is needed"));
    }
    println!("cargo:rerun-if-changed=bpf");
}
