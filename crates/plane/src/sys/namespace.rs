//! Network and mount namespaces of a thread, and mounts of the BPF file system.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use super::check;

/// Move the calling thread into a network namespace.
pub fn enter_network(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Move the calling thread into a mount namespace. Its working directory becomes the root.
pub fn enter_mount(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no pointers; from here on this thread has a file system view of its own, which
    // setns asks for.
    check(unsafe { libc::unshare(libc::CLONE_FS) })?;
    // SAFETY: no pointers.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNS) }).map(drop)
}

/// The number of the calling thread's network namespace: unique until the next boot, unlike its
/// inode number.
pub fn network_cookie() -> io::Result<u64> {
    const SO_NETNS_COOKIE: libc::c_int = 71;
    let socket = super::socket::datagram()?;
    super::socket::option64(socket.as_fd(), libc::SOL_SOCKET, SO_NETNS_COOKIE)
}

/// Mount a BPF file system.
pub fn mount_bpf(target: &std::path::Path) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let target = std::ffi::CString::new(target.as_os_str().as_bytes())
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: all pointers are C strings that outlive the call, or null.
    check(unsafe {
        libc::mount(
            c"bpf".as_ptr(),
            target.as_ptr(),
            c"bpf".as_ptr(),
            0,
            std::ptr::null(),
        )
    })
    .map(drop)
}

/// Whether a directory is on a BPF file system.
pub fn is_bpf(directory: &std::path::Path) -> bool {
    const BPF_FS_MAGIC: i64 = 0xcafe_4a11;
    let Ok(file) = File::open(directory) else {
        return false;
    };
    // SAFETY: all-zero is a valid value of this plain structure.
    let mut about: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: a live descriptor and a live value.
    let result = unsafe { libc::fstatfs(file.as_raw_fd(), &mut about) };
    result == 0 && about.f_type as i64 == BPF_FS_MAGIC
}

/// Whether this process may administer the network and load BPF programs (it runs as root).
pub fn is_root() -> bool {
    // SAFETY: no arguments.
    unsafe { libc::geteuid() == 0 }
}
