//! Compiles the injector's eBPF C with clang and generates its Rust skeleton.
//!
//! Honours `CLANG` for another compiler. The lab owns this one small program; the filter's own
//! programs belong to `weir-plane`.

use std::env;
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

const SOURCE: &str = "bpf/inject.bpf.c";

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let directory = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    // Debian keeps <asm/types.h> below a folder named after the machine.
    let multiarch = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let mut builder = SkeletonBuilder::new();
    builder.source(directory.join(SOURCE)).clang_args([
        "-mcpu=v3",
        "-Wall",
        "-Werror",
        "-I",
        multiarch.as_str(),
    ]);
    if let Some(clang) = env::var_os("CLANG") {
        builder.clang(clang);
    }
    builder
        .build_and_generate(out.join("inject.skel.rs"))
        .expect("clang compiles the injector");
    println!("cargo:rerun-if-changed={SOURCE}");
    println!("cargo:rerun-if-env-changed=CLANG");
}
