//! The few system calls that the kernel tests need and `std` does not offer.
//!
//! In: file descriptors, frames, addresses. Out: `io::Result`, nothing kept behind the caller's
//! back. Network namespaces are entered per thread and always left again; sockets keep the
//! namespace in which they were made. This file does no protocol work: what is in a frame is the
//! business of `traffic::craft` and `traffic::describe`.
//!
//! Sources: setns(2), packet(7), raw(7), ip(7), setfsuid(2), the uapi header linux/ethtool.h.

use std::ffi::CString;
use std::fs::File;
use std::io::{Error, Result};
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Ethertype of the marker frames (IEEE 802 local experimental 1): no stack answers it.
pub const ETHERTYPE_MARKER: u16 = 0x88b5;
/// Every ethertype, for a capture.
pub const ETHERTYPE_ALL: u16 = libc::ETH_P_ALL as u16;

fn check(result: libc::c_int) -> Result<libc::c_int> {
    if result < 0 {
        Err(Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Whether this process may make namespaces and raw sockets.
#[must_use]
pub fn is_root() -> bool {
    // SAFETY: geteuid has no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Runs `work` with this thread inside the network namespace, and comes back.
///
/// Coming back can only fail if the kernel refuses the namespace we came from; going on in the
/// wrong one would send test traffic to the host, so that aborts the process.
pub fn inside<R>(namespace: &File, work: impl FnOnce() -> R) -> Result<R> {
    let home = File::open("/proc/thread-self/ns/net")?;
    // SAFETY: both descriptors are open namespace files for the whole call.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) })?;
    struct Return(File);
    impl Drop for Return {
        fn drop(&mut self) {
            // SAFETY: the descriptor is the namespace file opened above.
            if unsafe { libc::setns(self.0.as_raw_fd(), libc::CLONE_NEWNET) } < 0 {
                eprintln!("cannot return to the namespace we came from: giving up");
                std::process::abort();
            }
        }
    }
    let _return = Return(home);
    Ok(work())
}

/// Keeps this thread on one CPU: veth and loopback hand frames over through the sender's CPU, so
/// that one FIFO then carries all traffic and its order is the same in every run.
pub fn pin_to_cpu(cpu: usize) -> Result<()> {
    // SAFETY: an all-zero cpu_set_t is an empty set; CPU_SET stays inside it for small numbers.
    unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        libc::CPU_SET(cpu, &mut set);
        check(libc::sched_setaffinity(
            0,
            size_of::<libc::cpu_set_t>(),
            &set,
        ))?;
    }
    Ok(())
}

/// Gives this thread supplementary groups; those it had.
fn beside(groups: &[u32]) -> Vec<u32> {
    let mut old = vec![0u32; 256];
    // SAFETY: both calls get arrays and their lengths. The system call itself and not the library's
    // function, which would change all threads.
    let count = unsafe {
        let count = libc::getgroups(old.len() as i32, old.as_mut_ptr());
        libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr());
        count
    };
    old.truncate(count.max(0) as usize);
    old
}

/// Makes sockets opened by `work` belong to another user and group, with the groups 10 and 20 above
/// that one beside it (for the owner match).
pub fn as_user<R>(user: u32, group: u32, work: impl FnOnce() -> R) -> R {
    // SAFETY: both calls take plain numbers and change only this thread's file system ids.
    let (old_user, old_group) = unsafe {
        let old_group = libc::setfsgid(group) as u32;
        (libc::setfsuid(user) as u32, old_group)
    };
    let mine = beside(&[group.saturating_add(10), group.saturating_add(20)]);
    let result = work();
    beside(&mine);
    // SAFETY: as above; these are the ids the thread had.
    unsafe {
        libc::setfsuid(old_user);
        libc::setfsgid(old_group);
    }
    result
}

fn interface_index(name: &str) -> Result<i32> {
    let name = CString::new(name)?;
    // SAFETY: the name is a NUL-terminated string that outlives the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        Err(Error::last_os_error())
    } else {
        Ok(index as i32)
    }
}

/// Switches segmentation, receive offloads and checksum offload of an interface off, so that
/// frames on the wire are what the rules saw and their checksums are real.
pub fn disable_offloads(interface: &str) -> Result<()> {
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    // ETHTOOL_SGRO, ETHTOOL_SGSO, ETHTOOL_STSO, ETHTOOL_STXCSUM
    const SWITCHES: [u32; 4] = [0x2c, 0x24, 0x1f, 0x17];
    let socket = open(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    for command in SWITCHES {
        let mut value: [u32; 2] = [command, 0];
        // SAFETY: an all-zero ifreq is valid; the pointer in it stays alive across the call and
        // points to the command/value pair that SIOCETHTOOL expects.
        unsafe {
            let mut request: libc::ifreq = zeroed();
            for (slot, byte) in request.ifr_name.iter_mut().zip(interface.bytes().take(15)) {
                *slot = byte as libc::c_char;
            }
            request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
            check(libc::ioctl(
                socket.as_raw_fd(),
                SIOCETHTOOL as _,
                &mut request,
            ))?;
        }
    }
    Ok(())
}

/// Opens a close-on-exec, non-blocking socket in the current namespace.
pub fn open(family: i32, kind: i32, protocol: i32) -> Result<OwnedFd> {
    let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: plain numbers in, a fresh descriptor out that nothing else owns.
    unsafe {
        Ok(OwnedFd::from_raw_fd(check(libc::socket(
            family, kind, protocol,
        ))?))
    }
}

/// Sets an integer socket option.
pub fn set_option(socket: &OwnedFd, level: i32, name: i32, value: i32) -> Result<()> {
    // SAFETY: the pointer and the length describe one live i32.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<i32>() as u32,
        )
    })?;
    Ok(())
}

/// Takes the pending error of a socket (zero when there is none).
pub fn take_error(socket: &OwnedFd) -> Result<i32> {
    let (mut value, mut length) = (0i32, size_of::<i32>() as u32);
    // SAFETY: the pointers describe one live i32 and its size.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ERROR,
            (&raw mut value).cast(),
            &mut length,
        )
    })?;
    Ok(value)
}

/// A socket address in the kernel's form.
struct KernelAddress {
    storage: libc::sockaddr_storage,
    length: u32,
}

impl KernelAddress {
    fn new(address: SocketAddr) -> Self {
        // SAFETY: sockaddr_storage is large and aligned enough for both address types, and
        // all-zero bytes are a valid value of each.
        unsafe {
            let mut storage: libc::sockaddr_storage = zeroed();
            let length = match address.ip() {
                IpAddr::V4(ip) => {
                    let inner = &mut *(&raw mut storage).cast::<libc::sockaddr_in>();
                    inner.sin_family = libc::AF_INET as u16;
                    inner.sin_port = address.port().to_be();
                    inner.sin_addr.s_addr = u32::from_ne_bytes(ip.octets());
                    size_of::<libc::sockaddr_in>()
                }
                IpAddr::V6(ip) => {
                    let inner = &mut *(&raw mut storage).cast::<libc::sockaddr_in6>();
                    inner.sin6_family = libc::AF_INET6 as u16;
                    inner.sin6_port = address.port().to_be();
                    inner.sin6_addr.s6_addr = ip.octets();
                    size_of::<libc::sockaddr_in6>()
                }
            };
            Self {
                storage,
                length: length as u32,
            }
        }
    }

    fn empty() -> Self {
        // SAFETY: all-zero bytes are a valid sockaddr_storage.
        let storage: libc::sockaddr_storage = unsafe { zeroed() };
        let length = size_of::<libc::sockaddr_storage>() as u32;
        Self { storage, length }
    }

    fn to_std(&self) -> Option<SocketAddr> {
        // SAFETY: the kernel filled the storage in; the family field says which type it holds.
        unsafe {
            match i32::from(self.storage.ss_family) {
                libc::AF_INET => {
                    let inner = &*(&raw const self.storage).cast::<libc::sockaddr_in>();
                    let ip = Ipv4Addr::from(inner.sin_addr.s_addr.to_ne_bytes());
                    Some(SocketAddr::new(ip.into(), u16::from_be(inner.sin_port)))
                }
                libc::AF_INET6 => {
                    let inner = &*(&raw const self.storage).cast::<libc::sockaddr_in6>();
                    let ip = Ipv6Addr::from(inner.sin6_addr.s6_addr);
                    Some(SocketAddr::new(ip.into(), u16::from_be(inner.sin6_port)))
                }
                _ => None,
            }
        }
    }

    fn pointer(&self) -> *const libc::sockaddr {
        (&raw const self.storage).cast()
    }
}

/// Binds a socket to an address.
pub fn bind(socket: &OwnedFd, address: SocketAddr) -> Result<()> {
    let address = KernelAddress::new(address);
    // SAFETY: pointer and length describe the live address.
    check(unsafe { libc::bind(socket.as_raw_fd(), address.pointer(), address.length) })?;
    Ok(())
}

/// Starts to connect; a non-blocking stream socket answers `EINPROGRESS`, which is no error here.
pub fn connect(socket: &OwnedFd, address: SocketAddr) -> Result<()> {
    let address = KernelAddress::new(address);
    // SAFETY: pointer and length describe the live address.
    match check(unsafe { libc::connect(socket.as_raw_fd(), address.pointer(), address.length) }) {
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
        other => other.map(|_| ()),
    }
}

/// Makes a bound stream socket a listener.
pub fn listen(socket: &OwnedFd) -> Result<()> {
    // SAFETY: plain numbers.
    check(unsafe { libc::listen(socket.as_raw_fd(), 8) })?;
    Ok(())
}

/// Takes a finished connection off a listener, non-blocking.
pub fn accept(listener: &OwnedFd) -> Result<OwnedFd> {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: null address pointers are allowed; the descriptor that comes back is ours alone.
    unsafe {
        let accepted = libc::accept4(
            listener.as_raw_fd(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            flags,
        );
        Ok(OwnedFd::from_raw_fd(check(accepted)?))
    }
}

/// Says that nothing more will be written (TCP FIN).
pub fn shut_down_writing(socket: &OwnedFd) -> Result<()> {
    // SAFETY: plain numbers.
    check(unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_WR) })?;
    Ok(())
}

/// Makes `close` send a reset instead of a FIN.
pub fn linger_zero(socket: &OwnedFd) -> Result<()> {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    // SAFETY: pointer and length describe the live struct.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of::<libc::linger>() as u32,
        )
    })?;
    Ok(())
}

/// Sends without blocking and without SIGPIPE, to `target` or to the connected peer.
pub fn send(socket: &OwnedFd, bytes: &[u8], target: Option<SocketAddr>) -> Result<usize> {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    let target = target.map(KernelAddress::new);
    let (pointer, length) = target
        .as_ref()
        .map_or((std::ptr::null(), 0), |t| (t.pointer(), t.length));
    // SAFETY: the buffer and the address (or null with length 0) are live for the call.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            flags,
            pointer,
            length,
        )
    };
    if sent < 0 {
        Err(Error::last_os_error())
    } else {
        Ok(sent as usize)
    }
}

/// Receives without blocking, with the sender where the socket has one.
pub fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Result<(usize, Option<SocketAddr>)> {
    let mut from = KernelAddress::empty();
    // SAFETY: the buffer, the address and its length are live and writable for the call.
    let got = unsafe {
        libc::recvfrom(
            socket.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            libc::MSG_DONTWAIT,
            (&raw mut from.storage).cast(),
            &mut from.length,
        )
    };
    if got < 0 {
        Err(Error::last_os_error())
    } else {
        Ok((got as usize, from.to_std()))
    }
}

/// An AF_PACKET socket on one interface of the current namespace; it never shows frames that
/// this end sent itself.
pub fn open_packet_socket(interface: &str, ethertype: u16) -> Result<OwnedFd> {
    const PACKET_IGNORE_OUTGOING: i32 = 23;
    let socket = open(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
    set_option(&socket, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
    set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, 8 << 20)?;
    // SAFETY: an all-zero sockaddr_ll is valid; pointer and length describe it.
    unsafe {
        let mut address: libc::sockaddr_ll = zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = ethertype.to_be();
        address.sll_ifindex = interface_index(interface)?;
        check(libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as u32,
        ))?;
    }
    Ok(socket)
}

/// Waits until one of the descriptors is readable or the time is over; says whether one is.
pub fn wait_readable(descriptors: &[RawFd], timeout_ms: i32) -> Result<bool> {
    let mut polls: Vec<libc::pollfd> = descriptors
        .iter()
        .map(|&fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    // SAFETY: pointer and length describe the live vector.
    let ready = unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as _, timeout_ms) };
    Ok(check(ready)? > 0)
}
