//! System calls: the only home of unsafe code in the workspace's data plane.
//!
//! Each file wraps one kind of call in functions that are safe to call with any arguments.

pub mod addresses;
pub mod bpf;
pub mod clock;
pub mod memory;
pub mod namespace;
pub mod ring;
pub mod route;
pub mod schedule;
pub mod socket;
pub mod zone;

/// The error of the last system call, when `result` is negative.
fn check(result: i32) -> std::io::Result<i32> {
    if result < 0 {
        Err(std::io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
