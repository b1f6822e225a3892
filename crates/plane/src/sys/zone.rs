//! The kernel's own time zone, which `--kerneltz` of iptables' `time` asks for.

/// Seconds east of UTC of the kernel's time zone (`settimeofday(2)`), if it can be asked.
pub fn kernel_zone() -> Option<i32> {
    // Minutes west of Greenwich, and a field that is not used. The C library answers zeros.
    let mut zone = [0i32; 2];
    // SAFETY: a missing time and a live zone of the structure's size.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_gettimeofday,
            std::ptr::null_mut::<libc::timeval>(),
            zone.as_mut_ptr(),
        )
    };
    (answer == 0).then(|| zone[0] * -60)
}
