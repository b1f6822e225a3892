//! Whether this kernel can carry the programs, said in words before anything is tried.

use std::path::Path;

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
    fn old_kernels_are_refused_by_version() {
        for good in ["6.6.0", "6.18.44-fc-v657", "7.0", "10.1-rc1"] {
            check_release(good).expect(good);
        }
        for bad in ["6.5.0-45-generic", "5.15.0-91-generic", "", "linux"] {
            check_release(bad).expect_err(bad);
        }
    }
}
