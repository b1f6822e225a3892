//! Whether this kernel can carry the programs, said in words before anything is tried.

use std::path::Path;

use libbpf_rs::btf::{Btf, types::Struct};
use weir_engine::image::layout;

use crate::error::{PlaneError, Result};
use crate::sys;

/// The oldest kernel that has what is needed: tcx, and reassembly for netfilter links. What was
/// tried is in docs/testing.md.
const OLDEST: (u32, u32) = (6, 6);

/// Check privilege and kernel; the error says what is missing.
pub fn check() -> Result<()> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    check_release(release.trim())?;
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Err(PlaneError::Kernel(
            "it was built without type information (/sys/kernel/btf/vmlinux, CONFIG_DEBUG_INFO_BTF)"
                .into(),
        ));
    }
    if !sys::namespace::is_root() {
        return Err(PlaneError::Privilege);
    }
    Ok(())
}

/// What the search for routes reads of the kernel (`bpf/reached.h`): structures, and members whose
/// presence depends on how the kernel was built.
const ROUTES: [(&str, &str); 8] = [
    ("netns_ipv4", "fib_main"),
    ("netns_ipv4", "fib_table_hash"),
    ("netns_ipv6", "fib6_main_tbl"),
    ("netns_ipv6", "fib6_local_tbl"),
    ("key_vector", "pos"),
    ("fib_alias", "fa_slen"),
    ("fib6_node", "fn_flags"),
    ("fib6_info", "fib6_type"),
];

/// Check for what policies with these features need beyond [`check`].
pub fn check_for(features: u32) -> Result<()> {
    if features & layout::FEATURE_ROUTES == 0 {
        return Ok(());
    }
    let found = Btf::from_vmlinux().map_err(|e| PlaneError::Kernel(e.to_string()))?;
    check_members(&found, &ROUTES)
}

fn check_members(found: &Btf<'_>, wanted: &[(&str, &str)]) -> Result<()> {
    let has = |(of, name): &&(&str, &str)| {
        let of = found.type_by_name::<Struct<'_>>(of);
        of.is_some_and(|of| {
            of.iter()
                .any(|one| one.name.is_some_and(|own| own == *name))
        })
    };
    match wanted.iter().find(|one| !has(one)) {
        None => Ok(()),
        Some((of, name)) => Err(PlaneError::Kernel(format!(
            "`versrcreach` needs {name} of its structure {of} (CONFIG_IP_MULTIPLE_TABLES, \
             CONFIG_IPV6=y and CONFIG_IPV6_MULTIPLE_TABLES); name networks in a table instead"
        ))),
    }
}

fn check_release(release: &str) -> Result<()> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next().and_then(|n| n.parse::<u32>().ok());
    match (number(), number()) {
        (Some(major), Some(minor)) if (major, minor) >= OLDEST => Ok(()),
        (Some(_), Some(_)) => Err(PlaneError::Kernel(format!(
            "it is Linux {release}, and {}.{} or newer is needed; check, show, explain and replay work here",
            OLDEST.0, OLDEST.1
        ))),
        _ => Err(PlaneError::Kernel(format!(
            "its version `{release}` is not understood"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kernel_does_not_tell_is_named() {
        if check().is_err() {
            return;
        }
        check_for(layout::FEATURE_ROUTES).expect("this kernel tells");
        let found = Btf::from_vmlinux().unwrap();
        let missing = check_members(&found, &[ROUTES[0], ("netns_ipv4", "fib_other")]);
        assert!(missing.unwrap_err().to_string().contains("fib_other"));
        check_members(&found, &[("netns_ipv5", "fib_main")]).expect_err("no such structure");
    }

    #[test]
    fn old_kernels_are_refused_by_version() {
        for good in ["6.6.0", "6.18.44-fc-v657", "7.0", "10.1-rc1"] {
            check_release(good).expect(good);
        }
        for bad in ["6.5.0-45-generic", "5.15.0-91-generic", "", "linux"] {
            check_release(bad).expect_err(bad);
        }
    }
}
