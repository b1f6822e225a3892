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
use crate::sys::bpf;

/// Attach every place in `bits` that is not attached yet. Must be called inside the namespace.
pub fn attach(instance: &Instance, number: u32, path: &Path, bits: u32) -> Result<()> {
    let defragment = bits & hooks::DEFRAGMENT != 0;
    let present = pin::links(path);
    for place in hooks::places(bits) {
        let name = place.pin_name(defragment);
        if present.contains(&name) {
            continue;
        }
        let link = attach_place(instance, number, place, defragment)?;
        let path = path.join(&name);
        bpf::pin(link.as_fd(), &path).map_err(file("pinning", &path))?;
    }
    Ok(())
}

fn attach_place(
    instance: &Instance,
    number: u32,
    place: Place,
    defragment: bool,
) -> Result<std::os::fd::OwnedFd> {
    let program = instance.program(if place.early {
        "weir_early"
    } else {
        "weir_judge"
    });
    let family = if place.family == Family::V4 { 2 } else { 10 };
    let hook = u32::from(hook_number(place.hook));
    bpf::attach_netfilter(program, family, hook, place.priority(number), defragment).map_err(
        |source| {
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
        },
    )
}

/// Detach every place that is not in `bits`.
pub fn detach_others(path: &Path, bits: u32) -> Result<()> {
    let defragment = bits & hooks::DEFRAGMENT != 0;
    let wanted: Vec<String> = hooks::places(bits)
        .into_iter()
        .map(|place| place.pin_name(defragment))
        .collect();
    for name in pin::links(path) {
        if !wanted.contains(&name) && !name.starts_with("link_tcx") {
            let path = path.join(&name);
            fs::remove_file(&path).map_err(file("removing", &path))?;
        }
    }
    Ok(())
}

/// Whether an instance's links were made with reassembly; `None` when it has no links.
pub fn is_defragmenting(path: &Path) -> Option<bool> {
    let links = pin::links(path);
    let netfilter = links.iter().find(|name| !name.starts_with("link_tcx"))?;
    Some(netfilter.ends_with("_defrag"))
}
