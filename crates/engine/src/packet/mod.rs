//! Packets: bytes to the fixed-size [`Key`] that lookups work on and to [`weir_policy::model::Packet`].

pub mod key;

pub use key::Key;
