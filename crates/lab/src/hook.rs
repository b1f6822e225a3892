//! The bare hook: an eBPF netfilter program in INPUT that accepts everything.
//!
//! In: a namespace. Out: a link that holds the program there until it is dropped. What it adds to
//! the path is what any eBPF filter pays before its first instruction of its own.

mod skeleton {
    #![allow(clippy::all, missing_docs, unsafe_code, dead_code, unused_imports)]
    #![allow(clippy::undocumented_unsafe_blocks)]
    include!(concat!(env!("OUT_DIR"), "/hook.skel.rs"));
}

use std::fmt;
use std::mem::MaybeUninit;

use anyhow::{Context, Result};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{
    Link, NF_INET_LOCAL_IN, NFPROTO_IPV4, NFPROTO_IPV6, NetfilterOpts, OpenObject, ProgramInput,
};

use crate::netns::Namespace;
use crate::space::Family;
use crate::trace::Trace;
use skeleton::{HookSkel, HookSkelBuilder};

/// A program that is attached for as long as this value lives.
pub struct Hook {
    _link: Link,
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

impl Hook {
    /// Attaches the accepting program to INPUT of a namespace, where the filter table would be.
    ///
    /// # Errors
    /// When the kernel has no netfilter links (before 6.4) or refuses.
    pub fn attach(namespace: &Namespace, family: Family) -> Result<Hook> {
        let mut storage = MaybeUninit::uninit();
        let skeleton = load(&mut storage)?;
        let options = NetfilterOpts {
            protocol_family: if family == Family::V6 {
                NFPROTO_IPV6
            } else {
                NFPROTO_IPV4
            },
            hooknum: NF_INET_LOCAL_IN,
            priority: 0,
            ..NetfilterOpts::default()
        };
        // The link keeps the program; the skeleton is only needed to attach.
        let link = namespace
            .enter(|| {
                Ok(skeleton
                    .progs
                    .accept_all
                    .attach_netfilter_with_opts(options)?)
            })
            .context("cannot attach to INPUT")?;
        Ok(Hook { _link: link })
    }
}

/// Nanoseconds of one run of the accepting program by itself, under BPF_PROG_TEST_RUN.
///
/// # Errors
/// When the kernel refuses the program or the run.
pub fn time_alone() -> Result<f64> {
    let mut storage = MaybeUninit::uninit();
    let skeleton = load(&mut storage)?;
    let trace = Trace::tcp(Family::V4, 1, 1).bytes();
    // The kernel takes the packet with an Ethernet header and wants IPv4 or IPv6 in it.
    let mut packet = vec![0; 14];
    packet[12] = 0x08;
    packet.extend_from_slice(&trace);
    let output = skeleton.progs.accept_all.test_run(ProgramInput {
        data_in: Some(&packet),
        repeat: 1_000_000,
        ..ProgramInput::default()
    })?;
    Ok(output.duration.as_nanos() as f64)
}

fn load(storage: &mut MaybeUninit<OpenObject>) -> Result<HookSkel<'_>> {
    let open = HookSkelBuilder::default().open(storage)?;
    open.load().context("cannot load the accepting program")
}
