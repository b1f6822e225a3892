//! weir-plane
