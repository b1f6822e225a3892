//! The lab's only unsafe code: four system calls that no safe wrapper here offers.
//!
//! In: plain values and file descriptors. Out: results as `io::Result`. It decides nothing; callers
//! know when real-time scheduling or a discarding socket filter is wanted. See sched(7), socket(7),
//! wait4(2), bpf(2).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Puts the calling thread under SCHED_FIFO at the lowest real-time priority, or back to normal.
///
/// Measured code is then not interrupted by neighbours on its CPU; kernel threads of higher
/// priority and interrupts still come through, and the kernel's real-time throttle bounds it.
pub fn set_real_time(on: bool) -> io::Result<()> {
    let (policy, priority) = if on {
        (libc::SCHED_FIFO, 1)
    } else {
        (libc::SCHED_OTHER, 0)
    };
    // SAFETY: sched_param is a plain C struct of integers for which all-zero is valid.
    let mut parameter: libc::sched_param = unsafe { std::mem::zeroed() };
    parameter.sched_priority = priority;
    // SAFETY: pid 0 is the calling thread, and the pointer is valid for the length of the call.
    let result = unsafe { libc::sched_setscheduler(0, policy, &parameter) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Makes a socket discard all that it receives, after the whole receive path has been walked.
pub fn discard_input(socket: &impl AsFd) -> io::Result<()> {
    // "ret #0": keep nothing of any packet.
    let mut code = libc::sock_filter {
        code: 0x06,
        jt: 0,
        jf: 0,
        k: 0,
    };
    let program = libc::sock_fprog {
        len: 1,
        filter: &mut code,
    };
    // SAFETY: the descriptor is open while borrowed; `program` and the one instruction that it
    // points to live until the call returns, and the kernel copies both.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// What a finished child used.
#[derive(Debug, Clone, Copy)]
pub struct ChildUse {
    /// Its exit status, as wait4(2) gives it.
    pub status: i32,
    /// User and system time together.
    pub cpu: Duration,
    /// The largest resident set, in bytes.
    pub resident_bytes_max: u64,
}

/// Waits for a child of ours and returns what it used. The child must not be waited for elsewhere.
pub fn wait_with_use(pid: u32) -> io::Result<ChildUse> {
    let mut status = 0;
    // SAFETY: rusage is a plain C struct of integers for which all-zero is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are valid for the length of the call.
        let result = unsafe { libc::wait4(pid as libc::pid_t, &mut status, 0, &mut usage) };
        if result >= 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    Ok(ChildUse {
        status,
        cpu: time(usage.ru_utime) + time(usage.ru_stime),
        resident_bytes_max: usage.ru_maxrss as u64 * 1024,
    })
}

/// Command and kind of linux/bpf.h's `BPF_ENABLE_STATS` and `BPF_STATS_RUN_TIME`.
const BPF_ENABLE_STATS: libc::c_long = 32;
const BPF_STATS_RUN_TIME: u32 = 0;

/// Switches the kernel's run-time statistics of eBPF programs on until the result is dropped.
pub fn enable_program_statistics() -> io::Result<OwnedFd> {
    let kind = BPF_STATS_RUN_TIME;
    // SAFETY: for this command the attribute is one 32-bit number, and its size says so; the
    // kernel only reads it, before the call returns.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_ENABLE_STATS,
            &raw const kind,
            size_of::<u32>(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so this is a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(result as libc::c_int) })
}
