//! Compiles the lab's two small eBPF programs with clang and generates their Rust skeletons.
//!
//! Honours `CLANG` for another compiler. The filter's own programs belong to `weir-plane`.

use std::env;
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

const PROGRAMS: [&str; 2] = ["inject", "hook"];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let directory = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    // Debian keeps <asm/types.h> below a folder named after the machine.
    let multiarch = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    for program in PROGRAMS {
        let source = format!("bpf/{program}.bpf.c");
        let mut builder = SkeletonBuilder::new();
        // Nobody reads the skeleton, and a toolchain without rustfmt would fail the build.
        builder.rustfmt("cat");
        builder.source(directory.join(&source)).clang_args([
            "-mcpu=v3",
            "-Wall",
            "-Werror",
            "-I",
            multiarch.as_str(),
        ]);
        if let Some(clang) = env::var_os("CLANG") {
            builder.clang(clang);
        }
        let skeleton = out.join(format!("{program}.skel.rs"));
        builder
            .build_and_generate(skeleton)
            .expect("clang compiles the lab's programs");
        println!("cargo:rerun-if-changed={source}");
    }
    println!("cargo:rerun-if-env-changed=CLANG");
}
