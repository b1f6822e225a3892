//! The live-frame injector: plays a trace into a namespace and takes the CPU time it costs.
//!
//! In: a [`Trace`], a [`Namespace`], a number of packets. Out: CPU nanoseconds of the calling
//! thread, in which the whole receive path runs (BPF_PROG_TEST_RUN with live frames hands each
//! frame to the stack in the caller's context). It counts what the stack delivered, so that a
//! filter which lost packets cannot pass for a fast one. Kernel documentation: bpf_prog_run.rst.

mod skeleton {
    #![allow(clippy::all, missing_docs, unsafe_code, dead_code, unused_imports)]
    #![allow(clippy::undocumented_unsafe_blocks)]
    include!(concat!(env!("OUT_DIR"), "/inject.skel.rs"));
}

use std::mem::MaybeUninit;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, OpenObject, ProgramInput};
use rustix::time::{ClockId, clock_gettime};

use crate::netns::{NOBODY_MAC, Namespace};
use crate::space::Family;
use crate::trace::{HEADER_ROOM, Trace};
use skeleton::{InjectSkel, InjectSkelBuilder};

/// `BPF_F_TEST_XDP_LIVE_FRAMES` of linux/bpf.h.
const LIVE_FRAMES: u32 = 1 << 1;
/// Numbers of linux/bpf.h's `enum xdp_action`.
const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;

/// What becomes of the injected frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Into the stack of the namespace.
    Pass,
    /// Dropped by the injector itself: the floor under every measurement.
    Drop,
}

/// A loaded injector with its trace.
pub struct Injector {
    skeleton: InjectSkel<'static>,
    frame: Vec<u8>,
    /// Number of distinct headers in the trace.
    pub trace_length: usize,
    family: Family,
}

impl Injector {
    /// Loads the injector and fills its trace.
    ///
    /// # Errors
    /// When the kernel refuses the program or the map, usually for want of privilege.
    pub fn new(trace: &Trace) -> Result<Injector> {
        let count = u32::try_from(trace.headers.len()).context("the trace is too long")?;
        ensure!(count > 0, "a trace needs a header");
        // The skeleton borrows a few words for as long as it lives; the lab makes a handful.
        let storage: &'static mut MaybeUninit<OpenObject> =
            Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = InjectSkelBuilder::default().open(storage)?;
        let settings = open
            .maps
            .rodata_data
            .as_deref_mut()
            .context("no read-only data")?;
        settings.trace_length = count;
        settings.short_headers = u32::from(trace.family == Family::V4);
        open.maps.trace.set_max_entries(count)?;
        let skeleton = open.load().context("cannot load the injector")?;
        let keys: Vec<u8> = (0..count).flat_map(u32::to_ne_bytes).collect();
        let values = trace.bytes();
        debug_assert_eq!(values.len(), keys.len() / 4 * HEADER_ROOM);
        skeleton
            .maps
            .trace
            .update_batch(&keys, &values, count, MapFlags::ANY, MapFlags::ANY)
            .context("cannot fill the trace")?;
        let mut frame = vec![0; trace.frame_length()];
        frame[6..12].copy_from_slice(&NOBODY_MAC);
        let kind: u16 = if trace.family == Family::V6 {
            0x86dd
        } else {
            0x0800
        };
        frame[12..14].copy_from_slice(&kind.to_be_bytes());
        let trace_length = trace.headers.len();
        Ok(Injector {
            skeleton,
            frame,
            trace_length,
            family: trace.family,
        })
    }

    /// IPv4 or IPv6.
    pub fn family(&self) -> Family {
        self.family
    }

    /// Injects `count` packets, continuing in the trace, and returns the CPU time of this thread.
    ///
    /// # Errors
    /// When the kernel refuses, or a signal broke the run off.
    pub fn run(&mut self, namespace: &Namespace, count: u32, fate: Fate) -> Result<Duration> {
        let data = self.skeleton.maps.bss_data.as_deref_mut();
        let settings = self.skeleton.maps.data_data.as_deref_mut();
        ensure!(
            data.is_some() && settings.is_some(),
            "the injector has no writable data"
        );
        if let Some(settings) = settings {
            settings.action = if fate == Fate::Pass {
                XDP_PASS
            } else {
                XDP_DROP
            };
        }
        let program = &self.skeleton.progs.inject;
        self.frame[0..6].copy_from_slice(&namespace.hardware_address);
        let frame = &self.frame;
        namespace.enter(|| {
            let mut context = xdp_context(frame.len() as u32, namespace.interface);
            let before = thread_time();
            program
                .test_run(ProgramInput {
                    context_in: Some(&mut context),
                    data_in: Some(frame),
                    flags: LIVE_FRAMES,
                    repeat: count,
                    ..ProgramInput::default()
                })
                .context("live frames were refused or broken off")?;
            Ok(thread_time() - before)
        })
    }

    /// Starts the trace from its beginning.
    pub fn rewind(&mut self) {
        if let Some(data) = self.skeleton.maps.bss_data.as_deref_mut() {
            data.position = 0;
        }
    }
}

/// Plays a whole trace `times` times at a namespace: what other measurements push their packets
/// with. Returns how many packets reached the transport layer behind INPUT.
///
/// # Errors
/// When the injector cannot be loaded or run.
pub fn push_trace(namespace: &Namespace, trace: &Trace, times: u32) -> Result<u64> {
    let mut injector = Injector::new(trace)?;
    let before = delivered(namespace)?;
    injector.run(namespace, trace.headers.len() as u32 * times, Fate::Pass)?;
    Ok(delivered(namespace)? - before)
}

/// CPU time of the calling thread.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// How many packets of the lab's kinds reached TCP or UDP in a namespace since it was made.
///
/// TCP counts every segment that it is given; a datagram that the discarding socket throws away is
/// counted as an input error, which is exactly how far the lab wants it to come.
///
/// # Errors
/// When the counters cannot be read.
pub fn delivered(namespace: &Namespace) -> Result<u64> {
    namespace.enter(|| {
        let four = std::fs::read_to_string("/proc/thread-self/net/snmp")?;
        let six = std::fs::read_to_string("/proc/thread-self/net/snmp6")?;
        let udp6 = six
            .lines()
            .find_map(|line| line.strip_prefix("Udp6InErrors"))
            .context("no Udp6InErrors")?
            .trim()
            .parse::<u64>()?;
        Ok(counter(&four, "Tcp:", "InSegs")? + counter(&four, "Udp:", "InErrors")? + udp6)
    })
}

/// One counter out of the pairs of lines (names, values) of /proc/net/snmp.
fn counter(text: &str, layer: &str, name: &str) -> Result<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with(layer));
    let (names, values) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
    let place = names.split_whitespace().position(|word| word == name);
    let value = place.and_then(|place| values.split_whitespace().nth(place));
    value
        .with_context(|| format!("no {layer} {name}"))?
        .parse()
        .context("not a number")
}

/// `struct xdp_md`: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex.
fn xdp_context(length: u32, interface: u32) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[4..8].copy_from_slice(&length.to_ne_bytes());
    bytes[12..16].copy_from_slice(&interface.to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snmp_counters_are_found_by_name() {
        let text =
            "Tcp: RtoMin InSegs InErrs\nTcp: 200 17 1\nUdp: InDatagrams InErrors\nUdp: 4 9\n";
        assert_eq!(counter(text, "Tcp:", "InSegs").unwrap(), 17);
        assert_eq!(counter(text, "Udp:", "InErrors").unwrap(), 9);
        assert!(counter(text, "Udp:", "InSegs").is_err());
        assert!(counter(text, "Icmp:", "InMsgs").is_err());
    }
}
