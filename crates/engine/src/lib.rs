//! The engine: packets, compiled policies, and lookups in them. Pure: no input or output, no system
//! calls, no unsafe code. Everything the packet path does here is done by the C headers in
//! `crates/plane/bpf` in the same way; tests hold the two together.

#![forbid(unsafe_code)]

pub mod packet;
