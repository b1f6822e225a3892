//! Sockets of the answer process, and of questions to the kernel.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::check;

fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = check(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) })?;
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A datagram socket that exists in every namespace.
pub fn datagram() -> io::Result<OwnedFd> {
    socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0)
}

/// A raw IPv4 socket whose user writes the whole IPv4 header.
pub fn raw_v4() -> io::Result<OwnedFd> {
    socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_RAW)
}

/// A raw IPv6 socket whose user writes the whole IPv6 header.
pub fn raw_v6() -> io::Result<OwnedFd> {
    socket(libc::AF_INET6, libc::SOCK_RAW, libc::IPPROTO_RAW)
}

/// A netlink socket for requests.
pub fn route() -> io::Result<OwnedFd> {
    socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)
}

/// A netlink socket that can be read when interfaces or their addresses change.
pub fn address_changes() -> io::Result<OwnedFd> {
    const RTMGRP_LINK: u32 = 1;
    const RTMGRP_IPV4_IFADDR: u32 = 0x10;
    const RTMGRP_IPV6_IFADDR: u32 = 0x100;
    let socket = socket(
        libc::AF_NETLINK,
        libc::SOCK_RAW | libc::SOCK_NONBLOCK,
        libc::NETLINK_ROUTE,
    )?;
    // SAFETY: all-zero is a valid value of this plain structure.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    address.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
    // SAFETY: pointer and size are those of a live value.
    check(unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as libc::socklen_t,
        )
    })?;
    Ok(socket)
}

/// A 64-bit socket option.
pub fn option64(socket: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<u64> {
    let mut value = 0u64;
    let mut size = size_of_val(&value) as libc::socklen_t;
    // SAFETY: both point to live values, and the size is that of the value.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw mut value).cast(),
            &mut size,
        )
    })?;
    Ok(value)
}

/// The number by which the kernel knows a socket, never used again until the next boot.
pub fn cookie(socket: BorrowedFd<'_>) -> io::Result<u64> {
    option64(socket, libc::SOL_SOCKET, libc::SO_COOKIE)
}

/// Send a whole IPv4 packet.
pub fn send_v4(socket: BorrowedFd<'_>, packet: &[u8], to: Ipv4Addr) -> io::Result<()> {
    // SAFETY: all-zero is a valid value of this plain structure.
    let mut address: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    address.sin_family = libc::AF_INET as libc::sa_family_t;
    address.sin_addr.s_addr = u32::from(to).to_be();
    send_to(socket, packet, &address)
}

/// Send a whole IPv6 packet; `scope` is the interface of a link-local address, or 0.
pub fn send_v6(socket: BorrowedFd<'_>, packet: &[u8], to: Ipv6Addr, scope: u32) -> io::Result<()> {
    // SAFETY: all-zero is a valid value of this plain structure.
    let mut address: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
    address.sin6_family = libc::AF_INET6 as libc::sa_family_t;
    address.sin6_addr.s6_addr = to.octets();
    address.sin6_scope_id = scope;
    send_to(socket, packet, &address)
}

/// Send to an address, a socket address structure of its family.
fn send_to<A>(socket: BorrowedFd<'_>, packet: &[u8], address: &A) -> io::Result<()> {
    // SAFETY: pointers and sizes are those of live values.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            packet.as_ptr().cast(),
            packet.len(),
            libc::MSG_DONTWAIT,
            std::ptr::from_ref(address).cast(),
            size_of::<A>() as libc::socklen_t,
        )
    };
    check(sent.min(0) as i32).map(drop)
}

/// Receive one message.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: pointer and size are those of a live slice.
    let got = unsafe {
        libc::recv(
            socket.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            0,
        )
    };
    check(got.min(0) as i32)?;
    Ok(got as usize)
}

/// Index of an interface in the calling thread's network namespace.
pub fn interface_index(name: &str) -> Option<u32> {
    let name = std::ffi::CString::new(name).ok()?;
    // SAFETY: a C string that outlives the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    (index != 0).then_some(index)
}

/// Wait until one of the descriptors can be read; which ones.
pub fn wait(descriptors: &[BorrowedFd<'_>], milliseconds: i32) -> io::Result<Vec<bool>> {
    let mut polls: Vec<libc::pollfd> = descriptors
        .iter()
        .map(|d| libc::pollfd {
            fd: d.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    // SAFETY: pointer and count are those of a live vector.
    let result = unsafe {
        libc::poll(
            polls.as_mut_ptr(),
            polls.len() as libc::nfds_t,
            milliseconds,
        )
    };
    match check(result) {
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(vec![false; descriptors.len()]),
        Err(e) => Err(e),
        Ok(_) => Ok(polls.iter().map(|p| p.revents != 0).collect()),
    }
}
