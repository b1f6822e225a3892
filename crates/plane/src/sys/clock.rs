//! Clocks.

use std::io;

/// Resolution of the coarse monotonic clock in nanoseconds: one tick of the kernel.
pub fn coarse_resolution() -> io::Result<u64> {
    let mut resolution = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a live value.
    super::check(unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut resolution) })?;
    Ok(resolution.tv_sec as u64 * 1_000_000_000 + resolution.tv_nsec as u64)
}

/// Nanoseconds of the monotonic clock, which programs in the kernel read too.
pub fn monotonic_ns() -> io::Result<u64> {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a live value.
    super::check(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) })?;
    Ok(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}
