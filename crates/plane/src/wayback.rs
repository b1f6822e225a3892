//! What the kernel needs before it tells the way back to a packet's source (`bpf/route.bpf.c`).
//!
//! It answers only for interfaces that forward packets. Where the loopback interface doesn't, that
//! is switched on, noted, and switched off again by unloading. Nothing comes from the loopback
//! interface that this host has not sent, so nothing new is forwarded.

use std::fs;
use std::mem::offset_of;

use crate::abi::Control;
use crate::error::{Result, file};
use crate::load::Instance;

/// Switches, by their bit in [`Control::forwarding`].
const SWITCHES: [&str; 2] = [
    "/proc/sys/net/ipv4/conf/lo/forwarding",
    "/proc/sys/net/ipv6/conf/lo/forwarding",
];

fn place() -> usize {
    offset_of!(Control, forwarding)
}

/// Switches on what is off. Must be called inside the namespace.
pub fn enable(instance: &Instance) -> Result<()> {
    let mut on = instance.control().load32(place());
    for (bit, switch) in SWITCHES.iter().enumerate() {
        // A kernel without IPv6 has no such file.
        let Ok(value) = fs::read_to_string(switch) else {
            continue;
        };
        if value.trim() == "0" {
            on |= 1 << bit;
            instance.control().store32(place(), on);
            fs::write(switch, "1").map_err(file("writing", switch.as_ref()))?;
        }
    }
    Ok(())
}

/// What [`enable`] switched on for an instance.
pub fn enabled(instance: &Instance) -> u32 {
    instance.control().load32(place())
}

/// Switches off what was switched on. Must be called inside the namespace.
pub fn disable(enabled: u32) -> Result<()> {
    for (bit, switch) in SWITCHES.iter().enumerate() {
        if enabled >> bit & 1 == 1 {
            fs::write(switch, "0").map_err(file("writing", switch.as_ref()))?;
        }
    }
    Ok(())
}
