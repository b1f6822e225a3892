//! `getifaddrs(3)`: the addresses of interfaces.

use std::ffi::CStr;
use std::io;
use std::net::IpAddr;

use super::check;

/// One address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Name of the interface.
    pub interface: String,
    /// The address.
    pub address: IpAddr,
    /// Mask of its network.
    pub mask: Option<IpAddr>,
    /// The broadcast address, or with `peer` the other end.
    pub other: Option<IpAddr>,
    /// The interface has one other end.
    pub peer: bool,
}

/// An address behind a pointer of the list.
///
/// # Safety
/// `at` is null or points to a socket address of its family.
unsafe fn read(at: *const libc::sockaddr) -> Option<IpAddr> {
    if at.is_null() {
        return None;
    }
    // SAFETY: not null, and every socket address begins with its family.
    match i32::from(unsafe { (*at).sa_family }) {
        libc::AF_INET => {
            // SAFETY: the family says what it is; the list's addresses are aligned.
            let four = unsafe { &*at.cast::<libc::sockaddr_in>() };
            Some(IpAddr::from(four.sin_addr.s_addr.to_ne_bytes()))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let six = unsafe { &*at.cast::<libc::sockaddr_in6>() };
            Some(IpAddr::from(six.sin6_addr.s6_addr))
        }
        _ => None,
    }
}

/// The addresses of all interfaces of the calling thread's network namespace.
pub fn of_interfaces() -> io::Result<Vec<Address>> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the pointer is that of a live variable.
    check(unsafe { libc::getifaddrs(&raw mut list) })?;
    let mut out = Vec::new();
    let mut at = list;
    while !at.is_null() {
        // SAFETY: an element of the list, which lives until freeifaddrs; its addresses are null or
        // complete.
        let (entry, address, mask, other) = unsafe {
            let entry = &*at;
            (
                entry,
                read(entry.ifa_addr),
                read(entry.ifa_netmask),
                read(entry.ifa_ifu),
            )
        };
        at = entry.ifa_next;
        if let (Some(address), false) = (address, entry.ifa_name.is_null()) {
            // SAFETY: a name of the list ends with a zero.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) };
            out.push(Address {
                interface: name.to_string_lossy().into_owned(),
                address,
                mask,
                other,
                peer: entry.ifa_flags & libc::IFF_POINTOPOINT as u32 != 0,
            });
        }
    }
    // SAFETY: the list that getifaddrs made, once.
    unsafe { libc::freeifaddrs(list) };
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_has_its_address() {
        let found = of_interfaces().expect("a list");
        let own: IpAddr = [127, 0, 0, 1].into();
        let loopback = found.iter().find(|a| a.address == own).expect("127.0.0.1");
        assert_eq!(loopback.mask, Some([255, 0, 0, 0].into()));
        assert!(!loopback.peer);
    }
}
