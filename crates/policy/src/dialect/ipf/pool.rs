//! `ippool.conf`.
