//! Hooking programs in, and out again. Links are pinned: they hold while their pin is there.

use std::fs;
use std::os::fd::AsFd;
use std::path::Path;

use weir_engine::packet::convert::hook_number;
use weir_policy::model::Family;

use crate::error::{PlaneError, Result, file};
use crate::hooks::{self, Place};
use crate::load::Instance;
use crate::pin;
use crate::sys::{bpf, socket};
use crate::wayback;

/// Attach every place in `bits` that is not attached yet. Must be called inside the namespace.
pub fn attach(instance: &Instance, number: u32, path: &Path, bits: u32) -> Result<()> {
    let present = pin::links(path);
    for place in hooks::places(bits) {
        let name = place.pin_name(bits);
        if present.contains(&name) {
            continue;
        }
        let link = attach_place(instance, number, place, bits)?;
        let path = path.join(&name);
        bpf::pin(link.as_fd(), &path).map_err(file("pinning", &path))?;
    }
    Ok(())
}

/// The program that judges packets of a family.
pub fn judge(family: Family) -> &'static str {
    match family {
        Family::V4 => "weir_judge",
        Family::V6 => "weir_judge6",
    }
}

fn attach_place(
    instance: &Instance,
    number: u32,
    place: Place,
    bits: u32,
) -> Result<std::os::fd::OwnedFd> {
    let defragment = hooks::is_defragmented(bits, place.family);
    let program = instance.program(judge(place.family));
    let family = if place.family == Family::V4 { 2 } else { 10 };
    let hook = u32::from(hook_number(place.hook));
    let priority = place.priority(bits, number);
    bpf::attach_netfilter(program, family, hook, priority, defragment).map_err(|source| {
        if source.raw_os_error() == Some(libc::EINVAL)
            || source.raw_os_error() == Some(libc::EOPNOTSUPP)
        {
            PlaneError::Kernel(format!(
                "it has no netfilter links ({source}); CONFIG_NETFILTER_BPF_LINK is needed"
            ))
        } else {
            PlaneError::Attach {
                hook: format!("{place:?}"),
                source,
            }
        }
    })
}

/// Detach every place that is not in `bits`.
pub fn detach_others(path: &Path, bits: u32) -> Result<()> {
    let wanted: Vec<String> = hooks::places(bits)
        .into_iter()
        .map(|place| place.pin_name(bits))
        .collect();
    for name in pin::links(path) {
        if !wanted.contains(&name) && !is_interface_link(&name) {
            let path = path.join(&name);
            fs::remove_file(&path).map_err(file("removing", &path))?;
        }
    }
    Ok(())
}

/// Beginnings of the names of links on interfaces: on the way out, on the way in, and before that.
const INTERFACE_LINKS: [(&str, u32, &str); 6] = [
    ("link_tcx_", hooks::EGRESS, "weir_egress"),
    ("link_tcxroute_", hooks::WAY_BACK, "weir_route"),
    ("link_tcxin_", hooks::INGRESS, "weir_ingress"),
    ("link_xdp_", hooks::XDP, "weir_early"),
    ("link_tcxframein_", hooks::FRAMES, "weir_frames_in"),
    ("link_tcxframeout_", hooks::FRAMES, "weir_frames_out"),
];

fn is_interface_link(name: &str) -> bool {
    INTERFACE_LINKS
        .iter()
        .any(|(prefix, _, _)| name.starts_with(prefix))
}

/// Interfaces of the calling thread's namespace: number and name.
pub fn interfaces() -> Vec<(u32, String)> {
    // One line an interface, `name: numbers`, after two lines of headings.
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    text.lines()
        .skip(2)
        .filter_map(|line| {
            let name = line.split_once(':')?.0.trim();
            Some((socket::interface_index(name)?, name.to_owned()))
        })
        .collect()
}

/// Attach the programs on the way in and out of every interface, as the policy needs them; the
/// agent does it again when interfaces come.
pub fn attach_interfaces(instance: &Instance, path: &Path, bits: u32) -> Result<()> {
    if bits & hooks::WAY_BACK != 0 {
        wayback::enable(instance)?;
    }
    let present = pin::links(path);
    for (name, index, program) in wanted(bits) {
        if present.contains(&name) {
            continue;
        }
        let code = instance.program(program);
        let link = match program {
            "weir_early" => bpf::attach_xdp(code, index),
            // Those that judge read what it finds.
            "weir_route" => bpf::attach_tcx_first(code, index, false),
            // That for frames judges what it has changed, and may be there already.
            "weir_egress" if bits & hooks::FRAMES != 0 => bpf::attach_tcx_first(code, index, true),
            _ => bpf::attach_tcx(code, index, is_sent(program)),
        };
        let link = link.map_err(|source| PlaneError::Attach {
            hook: format!("interface {index}, for {program}"),
            source,
        })?;
        let path = path.join(name);
        bpf::pin(link.as_fd(), &path).map_err(file("pinning", &path))?;
    }
    Ok(())
}

/// Whether a program on interfaces is on the way out.
fn is_sent(program: &str) -> bool {
    matches!(program, "weir_egress" | "weir_frames_out")
}

/// Detach the programs on interfaces that the policy does not need; drop the pins of interfaces
/// that are gone.
pub fn detach_interfaces(path: &Path, bits: u32) -> Result<()> {
    let wanted: Vec<String> = wanted(bits).into_iter().map(|(name, _, _)| name).collect();
    for name in pin::links(path) {
        if is_interface_link(&name) && !wanted.contains(&name) {
            let path = path.join(&name);
            fs::remove_file(&path).map_err(file("removing", &path))?;
        }
    }
    Ok(())
}

/// The links on interfaces that a policy needs: name of the pin, interface, program.
fn wanted(bits: u32) -> Vec<(String, u32, &'static str)> {
    if INTERFACE_LINKS.iter().all(|(_, bit, _)| bits & bit == 0) {
        return Vec::new();
    }
    let indexes = interfaces();
    let needed = INTERFACE_LINKS.iter().filter(|(_, bit, _)| bits & bit != 0);
    let links = needed.flat_map(|(prefix, _, program)| {
        let link = move |(index, _): &(u32, String)| (format!("{prefix}{index}"), *index, *program);
        indexes.iter().map(link)
    });
    links.collect()
}

/// Whether some hook of a policy is attached already, but with reassembly where the policy has none
/// or the other way round, or at another priority. Links cannot be changed, and two of them would
/// judge everything twice.
pub fn conflicts(path: &Path, bits: u32) -> bool {
    let present = pin::links(path);
    let otherwise = |place: Place| present.iter().any(|name| place.is_otherwise(bits, name));
    hooks::places(bits).into_iter().any(otherwise)
}
