//! Development-only machinery: the laboratory of network namespaces, the traffic scripts that run
//! in it, and the comparison of weir with iptables-legacy on the same packets.
//!
//! Nothing here is part of the product. The only unsafe code is in `sys`.

pub mod compare;
pub mod netns;
#[allow(unsafe_code)]
pub mod sys;
pub mod traffic;
