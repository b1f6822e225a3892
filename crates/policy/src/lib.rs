//! weir-policy
