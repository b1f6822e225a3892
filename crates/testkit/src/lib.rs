//! weir-testkit: what the tests of the other crates share. Development only.
//!
//! [`random`] makes policies and packets from a seed ([`seeds`] says which). [`netns`] is a
//! laboratory of three network namespaces, [`traffic`] plays scripts in it, [`compare`] puts weir
//! beside iptables-legacy on the same packets. The only unsafe code is in [`sys`].

#![deny(unsafe_code)]

pub mod compare;
pub mod cut;
pub mod dress;
pub mod equality;
pub mod netns;
pub mod random;
pub mod seeds;
#[allow(unsafe_code)]
pub mod sys;
pub mod traffic;
